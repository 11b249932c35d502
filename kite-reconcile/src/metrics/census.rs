//! How many objects there are, by kind and phase: counted from the controllers'
//! caches when somebody asks for the metrics.

use std::{
    any::Any,
    collections::{BTreeMap, HashSet},
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use kite_core::{
    cluster::{Object, ObjectKey},
    conditions,
    crd::{KiteImage, KitePlatform, KiteUser, KiteVirtualMachine, KiteVirtualMachineOffer},
};
use kube::runtime::reflector::Store;
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric as _, MetricEncoder},
    metrics::{MetricType, gauge::ConstGauge},
};

/// Objects that were triggered and have not begun to be reconciled, by
/// namespace and name. Those that wait for their time after an error or for a
/// resync are not among them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Waiting(Arc<Mutex<HashSet<ObjectKey>>>);

impl Waiting {
    pub(crate) fn add(&self, namespace: Option<&str>, name: &str) {
        self.lock().insert(key(namespace, name));
    }

    pub(crate) fn remove(&self, namespace: Option<&str>, name: &str) {
        self.lock().remove(&key(namespace, name));
    }

    fn len(&self) -> i64 {
        i64::try_from(self.lock().len()).unwrap_or(i64::MAX)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashSet<ObjectKey>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn key(namespace: Option<&str>, name: &str) -> ObjectKey {
    ObjectKey {
        namespace: namespace.map(str::to_owned),
        name: name.to_owned(),
    }
}

struct Counted {
    phases: Box<dyn Fn() -> BTreeMap<String, i64> + Send + Sync>,
    waiting: Waiting,
}

/// The caches that are counted, by kind.
#[derive(Clone, Default)]
pub(super) struct Census(Arc<Mutex<BTreeMap<String, Counted>>>);

impl Census {
    /// Counts the objects in `store` too, in place of an earlier store of the
    /// same kind.
    pub(super) fn add<K: Object>(&self, store: Store<K>, waiting: Waiting) {
        let phases = move || {
            let mut phases = BTreeMap::new();
            for object in store.state() {
                *phases.entry(phase(&*object)).or_default() += 1;
            }
            phases
        };
        let counted = Counted {
            phases: Box::new(phases),
            waiting,
        };
        self.lock().insert(K::kind(&()).into_owned(), counted);
    }

    /// Counts nothing any more.
    pub(super) fn clear(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Counted>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Census {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.lock().keys()).finish()
    }
}

impl Collector for Census {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let kinds = self.lock();
        if kinds.is_empty() {
            return Ok(());
        }
        let mut metric: MetricEncoder<'_> = encoder.encode_descriptor(
            "kite_objects",
            "Kite's objects, by kind and phase",
            None,
            MetricType::Gauge,
        )?;
        for (kind, counted) in &*kinds {
            for (phase, number) in (counted.phases)() {
                let labels = [("kind", kind.as_str()), ("phase", phase.as_str())];
                ConstGauge::new(number).encode(metric.encode_family(&labels)?)?;
            }
        }
        let mut metric: MetricEncoder<'_> = encoder.encode_descriptor(
            "kite_queue_depth",
            "Objects that were triggered and have not begun to be reconciled",
            None,
            MetricType::Gauge,
        )?;
        for (kind, counted) in &*kinds {
            let labels = [("kind", kind.as_str())];
            let depth = ConstGauge::new(counted.waiting.len());
            depth.encode(metric.encode_family(&labels)?)?;
        }
        Ok(())
    }
}

/// The phase of an object; of a kind without phases, whether it is ready.
fn phase<K: Object>(object: &K) -> String {
    let object: &dyn Any = object;
    let known = if let Some(vm) = object.downcast_ref::<KiteVirtualMachine>() {
        vm.status
            .as_ref()
            .and_then(|it| it.phase)
            .map(|it| format!("{it:?}"))
    } else if let Some(user) = object.downcast_ref::<KiteUser>() {
        user.status
            .as_ref()
            .and_then(|it| it.phase)
            .map(|it| format!("{it:?}"))
    } else if let Some(image) = object.downcast_ref::<KiteImage>() {
        image
            .status
            .as_ref()
            .and_then(|it| it.phase)
            .map(|it| format!("{it:?}"))
    } else if let Some(offer) = object.downcast_ref::<KiteVirtualMachineOffer>() {
        offer
            .status
            .as_ref()
            .and_then(|it| it.phase)
            .map(|it| format!("{it:?}"))
    } else if let Some(platform) = object.downcast_ref::<KitePlatform>() {
        platform.status.as_ref().map(|it| {
            let is_ready = conditions::is_true(&it.conditions, "Ready");
            if is_ready { "Ready" } else { "NotReady" }.to_owned()
        })
    } else {
        Some("Known".to_owned())
    };
    // New: no controller has reported anything yet.
    known.unwrap_or_else(|| "None".to_owned())
}
