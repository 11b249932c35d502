//! How many objects there are, by kind and phase: counted from the controllers'
//! caches when somebody asks for the metrics.

use std::{
    collections::{BTreeMap, HashSet},
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use kite_cluster::{Object, ObjectKey};
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
pub struct Waiting(Arc<Mutex<HashSet<ObjectKey>>>);

impl Waiting {
    /// This object waits.
    pub fn add(&self, namespace: Option<&str>, name: &str) {
        self.lock().insert(key(namespace, name));
    }

    /// It waits no more.
    pub fn remove(&self, namespace: Option<&str>, name: &str) {
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
    pub(super) fn add<K: Object>(
        &self,
        store: Store<K>,
        phase: fn(&K) -> String,
        waiting: Waiting,
    ) {
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
            "objects",
            "Objects of the kinds that have a controller, by kind and phase",
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
            "queue_depth",
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
