//! [`ApiState`]: what every handler shares.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use axum::extract::FromRef;
use kite_core::{
    cluster::{KubeCluster, ObjectKey},
    connections::Instance,
    crd::{KitePlatform, KitePlatformSpec, KitePlatformStatus},
};
use kite_identity::{Accounts, Passwords, Settings};
use kite_rest::{
    Bodies, Store, Turns,
    audit::{ApiAudit, Audited},
    budget::OwnersBudget,
    written::{Copies, Written},
};
use parking_lot::Mutex;
use tokio::task::JoinSet;

use crate::{
    caches::{self, Caches},
    console::Consoles,
    event_places::Places,
    metrics::Metrics,
    nodes,
    recordings::Recordings,
    registries::Registries,
    vocabulary::VOCABULARY,
};

/// What every handler shares. Cheap to clone.
#[derive(Clone)]
pub struct ApiState {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) cluster: KubeCluster,
    pub(crate) store: Arc<Store>,
    pub(crate) audit: Arc<dyn ApiAudit>,
    pub(crate) caches: Arc<Caches>,
    pub(crate) accounts: Accounts,
    pub(crate) bodies: OwnersBudget,
    pub(crate) streams: OwnersBudget,
    pub(crate) answers: OwnersBudget,
    pub(crate) event_places: Places,
    pub(crate) creations: Turns,
    pub(crate) capacity: nodes::Seen,
    pub(crate) synced: AtomicBool,
    pub(crate) metrics: Metrics,
    pub(crate) consoles: Consoles,
    pub(crate) registries: Registries,
    pub(crate) recordings: Option<Arc<dyn Recordings>>,
    pub(crate) instance: Instance,
    pub(crate) namespace_wait: Duration,
    pub(crate) tasks: Mutex<JoinSet<()>>,
}

impl ApiState {
    /// Waits until the caches were filled once. Until then every request but
    /// `health` is answered with 503.
    pub async fn synced(&self) {
        self.inner.caches.synced().await;
        self.inner.synced.store(true, Ordering::Release);
    }

    /// Whether requests can be answered: the caches were filled and no watch is
    /// broken. For readiness probes; the error names what is missing.
    ///
    /// # Errors
    /// The text that says what is missing.
    pub fn ready(&self) -> Result<(), String> {
        if !self.is_synced() {
            return Err("the caches are being filled".to_owned());
        }
        match self.inner.caches.broken().as_slice() {
            [] => Ok(()),
            broken => Err(format!("no watch on {}", broken.join(", "))),
        }
    }

    /// Ends the consoles in the browser in order, for when the process is about to
    /// end: each client is told to connect again. Takes a few seconds at most. What
    /// is over is from now on tidied up by other replicas.
    pub async fn drain(&self) {
        self.inner.tasks.lock().abort_all();
        self.inner.consoles.places.drain().await;
    }

    /// Whether the console with this number, as in its
    /// [record](crate::console::ConsoleRecord), is open here.
    pub fn has_console(&self, number: u64) -> bool {
        self.inner.consoles.places.has(number)
    }

    /// The watched copies of Kite's objects.
    pub fn caches(&self) -> &Caches {
        &self.inner.caches
    }

    /// What was counted so far, to be registered once.
    pub fn metrics(&self) -> &Metrics {
        &self.inner.metrics
    }

    pub(crate) fn is_synced(&self) -> bool {
        self.inner.synced.load(Ordering::Acquire)
    }

    /// The cluster as requests change it: what is written is noted for the audit log.
    pub(crate) fn cluster(&self) -> &Audited {
        self.inner.store.cluster()
    }

    /// The same, with what the writes of bodies need.
    pub(crate) fn store(&self) -> &Store {
        &self.inner.store
    }

    pub(crate) fn audit(&self) -> &Arc<dyn ApiAudit> {
        &self.inner.audit
    }

    pub(crate) fn settings(&self) -> &Settings {
        self.accounts().settings()
    }

    /// What signing people in works with.
    pub(crate) fn accounts(&self) -> &Accounts {
        &self.inner.accounts
    }

    /// How long the creation of a VM waits for a new user's namespace.
    pub(crate) fn namespace_wait(&self) -> Duration {
        self.inner.namespace_wait
    }

    pub(crate) fn consoles(&self) -> &Consoles {
        &self.inner.consoles
    }

    /// Where the object `name` in Kite's own namespace is.
    pub(crate) fn own_key(&self, name: &str) -> ObjectKey {
        ObjectKey::namespaced(&self.settings().namespace, name)
    }

    pub(crate) fn recordings(&self) -> Option<&Arc<dyn Recordings>> {
        self.inner.recordings.as_ref()
    }

    /// This process, as the consoles that it carries are reported.
    pub(crate) fn instance(&self) -> &Instance {
        &self.inner.instance
    }

    pub(crate) fn passwords(&self) -> &Passwords {
        self.accounts().passwords()
    }

    /// The memory for consoles and streams of events.
    pub(crate) fn streams(&self) -> &OwnersBudget {
        &self.inner.streams
    }

    /// The memory for answers that are not read yet.
    pub(crate) fn answers(&self) -> &OwnersBudget {
        &self.inner.answers
    }

    /// Which VMs are being created at the moment.
    pub(crate) fn creations(&self) -> &Turns {
        &self.inner.creations
    }

    /// Who has how many streams of events open.
    pub(crate) fn event_places(&self) -> &Places {
        &self.inner.event_places
    }

    /// What was last read of the cluster's nodes.
    pub(crate) fn capacity(&self) -> &nodes::Seen {
        &self.inner.capacity
    }

    /// The platform's settings; the defaults while there is no `KitePlatform`.
    pub(crate) fn platform(&self) -> KitePlatformSpec {
        self.accounts().platform()
    }

    /// Who is asked for the versions of images.
    pub(crate) fn registries(&self) -> &Registries {
        &self.inner.registries
    }

    /// What was seen of the platform.
    pub(crate) fn platform_status(&self) -> KitePlatformStatus {
        self.accounts().platform_status()
    }

    pub(crate) fn platform_object(&self) -> Option<Arc<KitePlatform>> {
        self.accounts().platform_object()
    }
}

impl FromRef<ApiState> for Accounts {
    fn from_ref(state: &ApiState) -> Self {
        state.accounts().clone()
    }
}

impl FromRef<ApiState> for Bodies {
    fn from_ref(state: &ApiState) -> Self {
        Self::new(state.inner.bodies.clone()).speaking(VOCABULARY)
    }
}

impl Copies for ApiState {
    fn kinds(&self) -> &'static [&'static str] {
        &caches::NAMES
    }

    async fn reach(&self, written: &Written) -> Vec<&'static str> {
        self.caches().reach(written).await
    }

    fn is_secure(&self) -> bool {
        self.settings().secure_cookies
    }

    fn answered_late(&self, behind: &[&'static str]) {
        self.metrics().answered_late(behind);
    }
}
