//! What is seen in the cluster, past the API server that comes and goes: who held the
//! controllers' Lease, and how often each thing was made.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Debug,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use futures::TryStreamExt as _;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::Lease;
use kite_core::{cdi::DataVolume, crd::KiteVirtualMachine, kubevirt::VirtualMachine};
use kite_fake::FakeCluster;
use kube::{
    Api, Resource, ResourceExt as _,
    runtime::{WatchStreamExt as _, watcher},
};
use serde::de::DeserializeOwned;
use tokio::runtime::Handle;

/// The uids that each thing had, by kind, namespace and name.
type Made = BTreeMap<String, BTreeSet<String>>;

/// A change of the Lease.
struct Change {
    /// When it was seen here, which on a busy machine is a while after it was made.
    at: Instant,
    holder: Option<String>,
    /// When the holder says that it wrote this.
    renewed: Option<Timestamp>,
}

/// Each change of the Lease.
type Held = Vec<Change>;

#[derive(Clone, Default)]
pub struct Watched {
    made: Arc<Mutex<Made>>,
    held: Arc<Mutex<Held>>,
}

impl Watched {
    pub fn start(fake: &FakeCluster, runtime: &Handle) -> Self {
        let watched = Self::default();
        watched.follow_made::<KiteVirtualMachine>(fake, runtime);
        watched.follow_made::<VirtualMachine>(fake, runtime);
        watched.follow_made::<DataVolume>(fake, runtime);
        let leases = Api::<Lease>::namespaced(fake.client(), "kite");
        let held = Arc::clone(&watched.held);
        let mut last = None;
        follow(runtime, leases, move |lease| {
            // Who lists again sees what there was.
            let is_it = lease.name_any() == "kite-controller";
            if is_it && last != lease.resource_version() {
                last = lease.resource_version();
                let spec = lease.spec.unwrap_or_default();
                held.lock().unwrap().push(Change {
                    at: Instant::now(),
                    holder: spec.holder_identity.filter(|it| !it.is_empty()),
                    renewed: spec.renew_time.map(|it| it.0),
                });
            }
        });
        watched
    }

    fn follow_made<K>(&self, fake: &FakeCluster, runtime: &Handle)
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + 'static,
    {
        let made = Arc::clone(&self.made);
        follow(runtime, Api::<K>::all(fake.client()), move |object| {
            let namespace = object.namespace().unwrap_or_default();
            let key = format!("{} {namespace}/{}", K::kind(&()), object.name_any());
            let uid = object.uid().unwrap();
            made.lock().unwrap().entry(key).or_default().insert(uid);
        });
    }

    /// What was made more than once. No name is used twice by anybody.
    pub fn made_twice(&self) -> Vec<String> {
        let made = self.made.lock().unwrap();
        let twice = made.iter().filter(|(_, uids)| uids.len() > 1);
        twice.map(|(key, _)| key.clone()).collect()
    }

    /// Each time that somebody took the Lease since `start`: how long after, and how
    /// long after the last sign of whoever held it without giving it back.
    pub fn taken_since(&self, start: Instant) -> Vec<(Duration, Option<Duration>)> {
        let held = self.held.lock().unwrap();
        let mut taken = Vec::new();
        for pair in held.windows(2) {
            let [old, new] = pair else {
                continue;
            };
            if new.holder.is_some() && new.holder != old.holder && new.at >= start {
                let silent = old.holder.is_some().then(|| new.at - old.at);
                taken.push((new.at - start, silent));
            }
        }
        taken
    }

    /// Who took the Lease from somebody who may still have written: says so. Whoever
    /// does not give it back stops only `stops_after` its last sign. Both go by what they
    /// wrote themselves, however late that was seen here.
    pub fn two_leaders(&self, stops_after: Duration) -> Vec<String> {
        let stops_after = SignedDuration::try_from(stops_after).unwrap();
        let held = self.held.lock().unwrap();
        let pairs = held.windows(2).filter_map(|pair| {
            let [old, new] = pair else { return None };
            let (from, to) = (old.holder.as_ref()?, new.holder.as_ref()?);
            let silent = new.renewed?.duration_since(old.renewed?);
            let text = format!("{to} took over from {from}, silent for {silent:?}");
            (from != to && silent < stops_after).then_some(text)
        });
        pairs.collect()
    }
}

fn follow<K>(runtime: &Handle, api: Api<K>, mut seen: impl FnMut(K) + Send + 'static)
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
    K::DynamicType: Default,
{
    runtime.spawn(async move {
        let watching = watcher(api, watcher::Config::default())
            .default_backoff()
            .applied_objects();
        let mut watching = std::pin::pin!(watching);
        loop {
            match watching.try_next().await {
                Ok(Some(object)) => seen(object),
                Ok(None) => return,
                // It lists again.
                Err(_) => {}
            }
        }
    });
}
