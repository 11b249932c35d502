//! [`ApiState`]: what every handler shares, and how it is built.

use std::{
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use kite_core::{
    cluster::{ClusterExt as _, FieldManager, KubeCluster, ObjectKey},
    connections::Instance,
    crd::{KitePlatform, KitePlatformSpec, KitePlatformStatus},
    names,
};
use kube::Client;
use parking_lot::Mutex;
use tokio::{sync::Semaphore, task::JoinSet, time::Instant};

use crate::{
    audit::{ApiAudit, Audited, LogRequests},
    auth::{
        Limits, Lookups, NotedUses, Passwords, SWEEP_INTERVAL, SeenFactors, Throttle,
        oidc::{Providers, Reach},
        sweep,
    },
    budget::Budget,
    caches::Caches,
    capacity,
    connections::{self, Recordings},
    console::{ConsoleAudit, ConsoleLimits, Consoles, LogConsoles, MemoryTickets, Terminals},
    events::Places,
    metrics::Metrics,
    problem::Problem,
    web::Turns,
};

/// How long a session lasts unless told otherwise.
const SESSION_LIFETIME: Duration = Duration::from_secs(12 * 3600);
/// How long an access token is good for unless told otherwise.
const ACCESS_LIFETIME: Duration = Duration::from_secs(15 * 60);
/// How long a proof of who one is counts unless told otherwise.
const PROOF_LIFETIME: Duration = Duration::from_secs(10 * 60);
/// Wrong bodies that are shown to the API server at a time.
const TRIALS: usize = 8;

/// Bytes that all bodies may hold together unless told otherwise.
const BODY_MEMORY: usize = 64 << 20;
/// Bytes that consoles and streams of events may hold together unless told otherwise:
/// half a MiB for each of 512 consoles, and as much as 64 more for events.
const STREAM_MEMORY: usize = 288 << 20;

/// Settings of the API that are not the platform's but this process's.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) namespace: String,
    pub(crate) secure_cookies: bool,
    pub(crate) origins: Vec<String>,
    pub(crate) trusted_proxies: usize,
    pub(crate) session_lifetime: Duration,
    pub(crate) access_lifetime: Duration,
    pub(crate) proof_lifetime: Duration,
    pub(crate) request_timeout: Duration,
    pub(crate) namespace_wait: Duration,
}

/// What every handler shares. Cheap to clone.
#[derive(Clone)]
pub struct ApiState {
    inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) cluster: KubeCluster,
    audited: Audited,
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
    trials: Semaphore,
    bodies: Budget,
    streams: Budget,
    noted_uses: NotedUses,
    seen_factors: SeenFactors,
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

/// Why the API could not be set up.
#[derive(Debug, thiserror::Error)]
#[error("the HTTP API could not be set up: {0}")]
pub struct BuildError(String);

/// Builds an [`ApiState`]; see [`ApiState::builder`].
#[must_use = "call build"]
pub struct ApiStateBuilder {
    client: Client,
    hashing: usize,
    settings: Settings,
    reach: Reach,
    body_memory: usize,
    stream_memory: usize,
    consoles: ConsoleLimits,
    terminals: Option<Arc<dyn Terminals>>,
    console_audit: Arc<dyn ConsoleAudit>,
    audit: Arc<dyn ApiAudit>,
    recordings: Option<Arc<dyn Recordings>>,
    instance: Instance,
}

impl ApiState {
    /// Begins to set up the API over `client`'s cluster.
    pub fn builder(client: Client) -> ApiStateBuilder {
        ApiStateBuilder {
            client,
            hashing: std::thread::available_parallelism().map_or(1, usize::from),
            settings: Settings {
                namespace: names::PLATFORM_NAMESPACE.to_owned(),
                secure_cookies: false,
                origins: Vec::new(),
                trusted_proxies: 0,
                session_lifetime: SESSION_LIFETIME,
                access_lifetime: ACCESS_LIFETIME,
                proof_lifetime: PROOF_LIFETIME,
                request_timeout: Duration::from_secs(30),
                namespace_wait: Duration::from_secs(5),
            },
            reach: Reach::default(),
            body_memory: BODY_MEMORY,
            stream_memory: STREAM_MEMORY,
            consoles: ConsoleLimits::default(),
            terminals: None,
            console_audit: Arc::new(LogConsoles),
            audit: Arc::new(LogRequests),
            recordings: None,
            instance: Instance::new(rand::random(), None),
        }
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
        &self.inner.audited
    }

    pub(crate) fn audit(&self) -> &dyn ApiAudit {
        &*self.inner.audit
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

    /// The memory for bodies of requests.
    pub(crate) fn bodies(&self) -> &Budget {
        &self.inner.bodies
    }

    /// The memory for consoles and streams of events.
    pub(crate) fn streams(&self) -> &Budget {
        &self.inner.streams
    }

    /// Places for bodies that are shown to the API server.
    pub(crate) fn trials(&self) -> &Semaphore {
        &self.inner.trials
    }

    /// When the use of API tokens was last written down here.
    pub(crate) fn noted_uses(&self) -> &NotedUses {
        &self.inner.noted_uses
    }

    /// Whose second factor was seen here lately.
    pub(crate) fn seen_factors(&self) -> &SeenFactors {
        &self.inner.seen_factors
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

impl ApiStateBuilder {
    /// The namespace in which Kite runs (`kite`): that of its Secrets, and of the Leases
    /// by which gateways show that they are there.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.settings.namespace = namespace.into();
        self
    }

    /// Marks cookies `Secure` and tells browsers to keep to HTTPS: for a server
    /// that is reached by HTTPS only.
    pub fn secure_cookies(mut self, secure: bool) -> Self {
        self.settings.secure_cookies = secure;
        self
    }

    /// Origins such as `https://kite.example.org` whose pages may use the cookie
    /// though the `Host` header does not name them, as behind a proxy that
    /// rewrites it. Sign-in providers send people back to one of them, or to the
    /// platform's own URL.
    pub fn origins(mut self, origins: impl IntoIterator<Item = String>) -> Self {
        self.settings.origins = origins.into_iter().collect();
        self
    }

    /// How many proxies in front of this server append to `X-Forwarded-For`.
    /// With none (the default) the header is ignored.
    pub fn trusted_proxies(mut self, count: usize) -> Self {
        self.settings.trusted_proxies = count;
        self
    }

    /// How long a session lasts (12 hours).
    pub fn session_lifetime(mut self, lifetime: Duration) -> Self {
        self.settings.session_lifetime = lifetime;
        self
    }

    /// How long a token in a browser's cookie opens its session before it must be
    /// renewed (15 minutes).
    pub fn access_lifetime(mut self, lifetime: Duration) -> Self {
        self.settings.access_lifetime = lifetime;
        self
    }

    /// How long a sign-in, or a password that was told again, counts as proof of who one
    /// is, for what [asks for one](crate::proof) (10 minutes).
    pub fn proof_lifetime(mut self, lifetime: Duration) -> Self {
        self.settings.proof_lifetime = lifetime;
        self
    }

    /// Longest time for one request (30 seconds).
    pub fn request_timeout(mut self, timeout: Duration) -> Self {
        self.settings.request_timeout = timeout;
        self
    }

    /// How long the creation of a VM waits for a new user's namespace before it
    /// answers that it is not ready (5 seconds).
    pub fn namespace_wait(mut self, wait: Duration) -> Self {
        self.settings.namespace_wait = wait;
        self
    }

    /// How many passwords are hashed at once (the number of processors).
    pub fn hashing_concurrency(mut self, count: usize) -> Self {
        self.hashing = count;
        self
    }

    /// Sign-in providers on this very machine, by HTTP: for a demo and for tests. Without
    /// it the API asks none there, nor on the machine's link, whatever a provider's name
    /// or documents lead to.
    pub fn local_providers(mut self) -> Self {
        self.reach = Reach::Here;
        self
    }

    /// Bytes that the bodies of all requests may hold together, as they are and as what is
    /// read of them (64 MiB). Half of it is for who is signed in. Requests beyond it are
    /// answered with 503.
    pub fn body_memory(mut self, bytes: usize) -> Self {
        self.body_memory = bytes;
        self
    }

    /// Bytes that consoles and streams of events may hold together (288 MiB: half a MiB
    /// for each of 512 consoles, and 32 MiB). Further ones are refused.
    pub fn stream_memory(mut self, bytes: usize) -> Self {
        self.stream_memory = bytes;
        self
    }

    /// Bounds of consoles in the browser.
    pub fn consoles(mut self, limits: ConsoleLimits) -> Self {
        self.consoles = limits;
        self
    }

    /// Who logs in to VMs for terminals in the browser. Without it there are only
    /// serial lines and screens.
    pub fn terminals(mut self, terminals: impl Terminals) -> Self {
        self.terminals = Some(Arc::new(terminals));
        self
    }

    /// Who takes the audit records of consoles ([`LogConsoles`]).
    pub fn console_audit(mut self, audit: impl ConsoleAudit) -> Self {
        self.console_audit = Arc::new(audit);
        self
    }

    /// Who takes the audit records of requests ([`LogRequests`]).
    pub fn audit(mut self, audit: impl ApiAudit) -> Self {
        self.audit = Arc::new(audit);
        self
    }

    /// Where recordings of terminals are read from. Without it there is nothing to
    /// replay.
    pub fn recordings(mut self, recordings: impl Recordings) -> Self {
        self.recordings = Some(Arc::new(recordings));
        self
    }

    /// Which process this is, to whoever reports the consoles that it carries: so a
    /// console is ended by what somebody writes into its
    /// [`KiteConnection`](kite_core::crd::KiteConnection).
    pub fn instance(mut self, instance: Instance) -> Self {
        self.instance = instance;
        self
    }

    /// Starts the watches. The state can be used at once; see
    /// [`ApiState::synced`]. Needs a tokio runtime.
    pub async fn build(self) -> Result<ApiState, BuildError> {
        let metrics = Metrics::default();
        let passwords = Passwords::new(self.hashing, metrics.hashing().clone())
            .await
            .map_err(|problem: Problem| BuildError(problem.detail().to_owned()))?;
        let caches = Arc::new(Caches::start(&self.client));
        let cluster = KubeCluster::new(self.client.clone()).creating_as(FieldManager::API);
        let inner = Arc::new(Inner {
            audited: Audited::new(cluster.clone(), Arc::clone(&caches)),
            audit: self.audit,
            caches,
            consoles: Consoles {
                client: self.client,
                limits: self.consoles,
                tickets: MemoryTickets::default(),
                places: Arc::default(),
                terminals: self.terminals,
                audit: self.console_audit,
            },
            cluster,
            passwords,
            sign_in: Throttle::new(Limits::SIGN_IN),
            sign_up: Throttle::new(Limits::SIGN_UP),
            sign_up_turn: tokio::sync::Mutex::default(),
            second_factor: Throttle::new(Limits::SECOND_FACTOR),
            provider_sign_in: Throttle::new(Limits::PROVIDER),
            providers: Providers::new(self.reach),
            lookups: Lookups::default(),
            trials: Semaphore::new(TRIALS),
            bodies: Budget::shared(self.body_memory),
            streams: Budget::signed_in(self.stream_memory),
            noted_uses: NotedUses::default(),
            seen_factors: SeenFactors::default(),
            event_places: Places::default(),
            creations: Turns::default(),
            bootstrap_seen: Mutex::default(),
            capacity: capacity::Seen::default(),
            synced: AtomicBool::new(false),
            metrics,
            recordings: self.recordings,
            instance: self.instance,
            settings: self.settings,
            tasks: Mutex::default(),
        });
        let mut tasks = inner.tasks.lock();
        tasks.spawn(background(Arc::downgrade(&inner)));
        tasks.spawn(once_filled(Arc::downgrade(&inner), connections::sweep_up));
        tasks.spawn(once_filled(Arc::downgrade(&inner), connections::forget));
        drop(tasks);
        Ok(ApiState { inner })
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
        sweep(&inner).await;
    }
}
