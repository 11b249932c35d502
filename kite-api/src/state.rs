//! [`ApiState`]: what every handler shares, and how it is built.

mod builder;
mod cluster_ranges;

use std::{
    net::IpAddr,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use axum::extract::FromRef;
use kite_core::{
    cidr::Cidr,
    cluster::{ClusterExt as _, KubeCluster, ObjectKey},
    connections::Instance,
    crd::{KitePlatform, KitePlatformSpec, KitePlatformStatus},
    names,
};
use kite_rest::{
    Bodies, Problem, Store, Turns,
    audit::{ApiAudit, Audited},
    budget::OwnersBudget,
    written::{Copies, Written},
};
use kube::Client;
use parking_lot::Mutex;
use tokio::{task::JoinSet, time::Instant};

pub use self::builder::{ApiStateBuilder, BuildError};
use self::cluster_ranges::ClusterRanges;

use crate::{
    auth::{
        Lookups, NotedUses, Orphans, Passwords, Replicas, SWEEP_INTERVAL, SeenFactors, Source,
        Throttle, oidc::Providers, sweep,
    },
    caches,
    caches::Caches,
    capacity,
    connections::Recordings,
    console::Consoles,
    events::Places,
    metrics::Metrics,
    vocabulary::VOCABULARY,
};

/// Settings of the API that are not the platform's but this process's.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) namespace: String,
    pub(crate) secure_cookies: bool,
    pub(crate) origins: Vec<String>,
    pub(crate) trusted_proxies: usize,
    pub(crate) never_throttle: Vec<Cidr>,
    pub(crate) session_lifetime: Duration,
    pub(crate) access_lifetime: Duration,
    pub(crate) proof_lifetime: Duration,
    pub(crate) request_timeout: Duration,
    pub(crate) namespace_wait: Duration,
    pub(crate) take_in_after: Duration,
}

/// What every handler shares. Cheap to clone.
#[derive(Clone)]
pub struct ApiState {
    inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) cluster: KubeCluster,
    store: Store,
    audit: Arc<dyn ApiAudit>,
    pub(crate) caches: Arc<Caches>,
    passwords: Passwords,
    sign_in: Throttle,
    sign_up: Throttle,
    sign_up_turn: tokio::sync::Mutex<()>,
    second_factor: Throttle,
    provider_sign_in: Throttle,
    providers: Providers,
    lookups: Lookups,
    cluster_ranges: ClusterRanges,
    bodies: OwnersBudget,
    streams: OwnersBudget,
    answers: OwnersBudget,
    noted_uses: NotedUses,
    seen_factors: SeenFactors,
    orphans: Orphans,
    replicas: Replicas,
    event_places: Places,
    creations: Turns,
    /// When somebody last looked for the bootstrap Secret, and whether it was there.
    bootstrap_seen: Mutex<Option<(Instant, bool)>>,
    capacity: capacity::Seen,
    synced: AtomicBool,
    metrics: Metrics,
    consoles: Consoles,
    recordings: Option<Arc<dyn Recordings>>,
    instance: Instance,
    pub(crate) settings: Settings,
    tasks: Mutex<JoinSet<()>>,
}

impl ApiState {
    /// Begins to set up the API over `client`'s cluster.
    pub fn builder(client: Client) -> ApiStateBuilder {
        ApiStateBuilder::over(client)
    }

    /// Waits until the caches were filled once. Until then every request but
    /// `health` is answered with 503.
    pub async fn synced(&self) {
        self.inner.caches.synced().await;
        self.inner.synced.store(true, Ordering::Release);
    }

    /// Whether requests can be answered: the caches were filled and no watch is
    /// broken. For readiness probes; the error names what is missing.
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
        &self.inner.settings
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
        &self.inner.passwords
    }

    /// Where `address` is, to whoever counts guesses: whether it is one of its owner's, or
    /// what lies between clients and Kite, such as a node.
    pub(crate) fn source_of(&self, address: Option<IpAddr>) -> Source<'static> {
        Source {
            is_shared: address.is_some_and(|address| self.is_shared(address)),
            ..Source::from(address)
        }
    }

    fn is_shared(&self, address: IpAddr) -> bool {
        let never = &self.settings().never_throttle;
        if never.iter().any(|range| range.contains(address)) {
            return true;
        }
        self.platform_object().is_some_and(|platform| {
            let ranges = self.inner.cluster_ranges.of(&platform);
            ranges.iter().any(|range| range.contains(address))
        })
    }

    /// Guards passwords and the bootstrap token.
    pub(crate) fn sign_in_throttle(&self) -> &Throttle {
        &self.inner.sign_in
    }

    /// Guards codes of second factors.
    pub(crate) fn second_factor_throttle(&self) -> &Throttle {
        &self.inner.second_factor
    }

    /// Guards sign-ins at providers.
    pub(crate) fn provider_throttle(&self) -> &Throttle {
        &self.inner.provider_sign_in
    }

    /// What sign-in providers said of themselves.
    pub(crate) fn providers(&self) -> &Providers {
        &self.inner.providers
    }

    /// Guards the making of accounts.
    pub(crate) fn sign_up_throttle(&self) -> &Throttle {
        &self.inner.sign_up
    }

    /// Held by whoever makes an account for themselves.
    pub(crate) fn sign_up_turn(&self) -> &tokio::sync::Mutex<()> {
        &self.inner.sign_up_turn
    }

    /// Leave to ask the API server about tokens.
    pub(crate) fn lookups(&self) -> &Lookups {
        &self.inner.lookups
    }

    /// The memory for consoles and streams of events.
    pub(crate) fn streams(&self) -> &OwnersBudget {
        &self.inner.streams
    }

    /// The memory for answers that are not read yet.
    pub(crate) fn answers(&self) -> &OwnersBudget {
        &self.inner.answers
    }

    /// When the use of API tokens was last written down here.
    pub(crate) fn noted_uses(&self) -> &NotedUses {
        &self.inner.noted_uses
    }

    /// Whose second factor was seen here lately.
    pub(crate) fn seen_factors(&self) -> &SeenFactors {
        &self.inner.seen_factors
    }

    /// Passwords that no account named when it was last looked.
    pub(crate) fn orphans(&self) -> &Orphans {
        &self.inner.orphans
    }

    /// What is known of replicas of earlier versions.
    pub(crate) fn replicas(&self) -> &Replicas {
        &self.inner.replicas
    }

    /// Which VMs are being created at the moment.
    pub(crate) fn creations(&self) -> &Turns {
        &self.inner.creations
    }

    /// Who has how many streams of events open.
    pub(crate) fn event_places(&self) -> &Places {
        &self.inner.event_places
    }

    /// Whether the bootstrap Secret was there when somebody last looked, if that
    /// was within `age`.
    pub(crate) fn bootstrap_seen(&self, age: Duration) -> Option<bool> {
        let seen = *self.inner.bootstrap_seen.lock();
        seen.filter(|(when, _)| when.elapsed() < age)
            .map(|(_, open)| open)
    }

    pub(crate) fn note_bootstrap(&self, open: bool) {
        *self.inner.bootstrap_seen.lock() = Some((Instant::now(), open));
    }

    /// What was last read of the cluster's nodes.
    pub(crate) fn capacity(&self) -> &capacity::Seen {
        &self.inner.capacity
    }

    /// The platform's settings; the defaults while there is no `KitePlatform`.
    pub(crate) fn platform(&self) -> KitePlatformSpec {
        self.inner.platform()
    }

    /// The same, and never as they were before the watch broke: for what is seldom
    /// asked for and lets people in.
    pub(crate) async fn platform_now(&self) -> Result<KitePlatformSpec, Problem> {
        if self.caches().platforms.is_live() {
            return Ok(self.platform());
        }
        let key = ObjectKey::cluster(names::PLATFORM);
        let platform = self.cluster().find::<KitePlatform>(&key).await?;
        Ok(platform.map(|platform| platform.spec).unwrap_or_default())
    }

    /// What was seen of the platform.
    pub(crate) fn platform_status(&self) -> KitePlatformStatus {
        let platform = self.platform_object();
        platform
            .and_then(|platform| platform.status.clone())
            .unwrap_or_default()
    }

    pub(crate) fn platform_object(&self) -> Option<Arc<KitePlatform>> {
        self.inner.platform_object()
    }
}

impl Inner {
    /// See [`ApiState::platform`].
    pub(crate) fn platform(&self) -> KitePlatformSpec {
        self.platform_object()
            .map(|platform| platform.spec.clone())
            .unwrap_or_default()
    }

    pub(crate) fn platform_object(&self) -> Option<Arc<KitePlatform>> {
        let key = ObjectKey::cluster(names::PLATFORM);
        self.caches.platforms.get(&key)
    }
}

impl FromRef<ApiState> for Bodies {
    fn from_ref(state: &ApiState) -> Self {
        Self {
            memory: state.inner.bodies.clone(),
            vocabulary: VOCABULARY,
        }
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

/// Waits until the copies were filled once. `false` if the state is dropped before.
async fn is_filled(inner: &Weak<Inner>) -> bool {
    loop {
        let Some(inner) = inner.upgrade() else {
            return false;
        };
        let filled = tokio::time::timeout(Duration::from_secs(1), inner.caches.synced()).await;
        if filled.is_ok() {
            return true;
        }
    }
}

/// Does this when the copies were filled once.
async fn once_filled<F: Future<Output = ()>>(
    inner: Weak<Inner>,
    task: impl FnOnce(Weak<Inner>) -> F,
) {
    if is_filled(&inner).await {
        task(inner).await;
    }
}

/// Notes the first sync, then sweeps sessions until the state is dropped.
async fn background(inner: Weak<Inner>) {
    if !is_filled(&inner).await {
        return;
    }
    if let Some(inner) = inner.upgrade() {
        inner.synced.store(true, Ordering::Release);
    }
    loop {
        tokio::time::sleep(SWEEP_INTERVAL).await;
        let Some(inner) = inner.upgrade() else { return };
        sweep(&ApiState { inner }).await;
    }
}
