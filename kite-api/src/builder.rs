//! [`ApiStateBuilder`]: how an [`ApiState`] is set up.

use std::{
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use kite_core::{cidr::Cidr, cluster::KubeCluster, connections::Instance};
use kite_identity::{Accounts, SWEEP_INTERVAL, Settings, can_sweep, sweep};
use kite_rest::{
    PAGE_MEMORY, Problem, Store, Turns,
    audit::{ApiAudit, Audited, LogRequests},
    budget::OwnersBudget,
};
use kube::Client;
use parking_lot::Mutex;

use crate::{
    caches::Caches,
    connections,
    console::{
        CONSOLE_MEMORY, ConsoleAudit, ConsoleLimits, Consoles, LogConsoles, MemoryTickets,
        Terminals,
    },
    event_places::Places,
    metrics::Metrics,
    nodes,
    notices::find_out,
    recordings::Recordings,
    registries::Registries,
    state::{ApiState, Inner},
    vocabulary::VOCABULARY,
};

/// Bytes that all bodies may hold together unless told otherwise.
const BODY_MEMORY: usize = 64 << 20;
/// Bytes that consoles and streams of events may hold together unless told otherwise:
/// half a MiB for each of 512 consoles, and as much as 64 more for events.
const STREAM_MEMORY: usize = 288 << 20;
/// Bytes that answers may hold together until they are read, unless told otherwise.
const ANSWER_MEMORY: usize = 64 << 20;
/// Bytes of the memory for streams that one account may have, however little there is: a
/// console, and the news of the page that shows it.
const LEAST_STREAMS: usize = CONSOLE_MEMORY + (256 << 10);

/// Why the API could not be set up.
#[derive(Debug, thiserror::Error)]
#[error("the HTTP API could not be set up: {0}")]
pub struct BuildError(String);

/// Builds an [`ApiState`]; see [`ApiState::builder`].
#[must_use = "call build"]
pub struct ApiStateBuilder {
    client: Client,
    settings: Settings,
    namespace_wait: Duration,
    body_memory: usize,
    stream_memory: usize,
    answer_memory: usize,
    consoles: ConsoleLimits,
    terminals: Option<Arc<dyn Terminals>>,
    console_audit: Arc<dyn ConsoleAudit>,
    audit: Arc<dyn ApiAudit>,
    recordings: Option<Arc<dyn Recordings>>,
    instance: Instance,
}

impl ApiStateBuilder {
    /// Over `client`'s cluster, with the defaults.
    fn over(client: Client) -> Self {
        Self {
            client,
            settings: Settings::default(),
            namespace_wait: Duration::from_secs(5),
            body_memory: BODY_MEMORY,
            stream_memory: STREAM_MEMORY,
            answer_memory: ANSWER_MEMORY,
            consoles: ConsoleLimits::default(),
            terminals: None,
            console_audit: Arc::new(LogConsoles),
            audit: Arc::new(LogRequests),
            recordings: None,
            instance: Instance::new(rand::random(), None),
        }
    }

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

    /// Ranges of addresses behind each of which there may be many clients, such as an
    /// office's: nobody waits there for what others did. Those of the cluster itself, which
    /// the status of the `KitePlatform` names, are always of them.
    pub fn never_throttle(mut self, ranges: impl IntoIterator<Item = Cidr>) -> Self {
        self.settings.never_throttle = ranges.into_iter().collect();
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
        self.namespace_wait = wait;
        self
    }

    /// How long no replica of an earlier version may have been seen before hashes are taken
    /// out of accounts (`passwordHash`), where others wrote them (10 minutes). Such replicas
    /// know passwords by no others.
    pub fn take_in_after(mut self, age: Duration) -> Self {
        self.settings.take_in_after = age;
        self
    }

    /// How many passwords are hashed at once (the number of processors), where there is
    /// [memory](Self::password_memory) for as many.
    pub fn hashing_concurrency(mut self, count: usize) -> Self {
        self.settings.hashing = count;
        self
    }

    /// Sign-in providers on this very machine, by HTTP: for a demo and for tests. Without
    /// it the API asks none there, nor on the machine's link, whatever a provider's name
    /// or documents lead to.
    pub fn local_providers(mut self) -> Self {
        self.settings.local_providers = true;
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
    /// for each of 512 consoles, and 32 MiB), and of them one account's a quarter. Further
    /// ones are refused.
    pub fn stream_memory(mut self, bytes: usize) -> Self {
        self.stream_memory = bytes;
        self
    }

    /// Bytes that answers of 16 KiB and more may hold together until they are read (64 MiB),
    /// and of them one account's a quarter. Further ones are refused. Less than 8 MiB count
    /// as those.
    pub fn answer_memory(mut self, bytes: usize) -> Self {
        self.answer_memory = bytes;
        self
    }

    /// Bytes that the hashes of passwords may work on at a time (128 MiB): one that Kite
    /// made takes 19 MiB, and none more than 64. Others wait for their turn; there is
    /// always one.
    pub fn password_memory(mut self, bytes: usize) -> Self {
        self.settings.password_memory = bytes;
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
    ///
    /// # Errors
    /// A [`BuildError`] if no password can be hashed here.
    pub async fn build(self) -> Result<ApiState, BuildError> {
        let mut settings = self.settings;
        settings.server = self.instance.server().map(str::to_owned);
        settings.vocabulary = VOCABULARY;
        let registries = Registries::new(settings.local_providers);
        let caches = Arc::new(Caches::start(&self.client));
        let cluster =
            KubeCluster::new(self.client.clone()).with_field_manager(kite_core::managers::API);
        let store = Arc::new(Store::new(
            Audited::new(
                cluster.clone().refusing_unknown_fields(),
                Arc::clone(&caches) as _,
            ),
            kite_core::managers::API,
        ));
        let accounts = Accounts::new(Arc::clone(&store), caches.of_accounts().clone(), settings)
            .await
            .map_err(|problem: Problem| BuildError(problem.detail().to_owned()))?;
        let inner = Arc::new(Inner {
            store,
            audit: self.audit,
            caches,
            metrics: Metrics::new(accounts.counts().clone()),
            accounts,
            namespace_wait: self.namespace_wait,
            consoles: Consoles {
                client: self.client,
                limits: self.consoles,
                tickets: MemoryTickets::default(),
                places: Arc::default(),
                terminals: self.terminals,
                audit: self.console_audit,
            },
            cluster,
            bodies: OwnersBudget::beside_strangers(
                self.body_memory,
                kite_rest::BODY_LIMIT,
                "the account holds as much of this server's memory as one may, for requests that \
                 are not complete: end some and try again",
            ),
            streams: OwnersBudget::new(
                self.stream_memory,
                LEAST_STREAMS,
                "the account holds as much of this server's memory as one may, for its consoles \
                 and streams of events: close one and try again",
            ),
            answers: OwnersBudget::new(
                self.answer_memory,
                // Whatever there is, a page fits.
                2 * PAGE_MEMORY,
                "the account holds as much of this server's memory as one may, for answers that \
                 it has not read: read them, or ask for fewer at a time",
            ),
            event_places: Places::default(),
            creations: Turns::default(),
            capacity: nodes::Seen::default(),
            synced: AtomicBool::new(false),
            registries,
            recordings: self.recordings,
            instance: self.instance,
            tasks: Mutex::default(),
        });
        let mut tasks = inner.tasks.lock();
        tasks.spawn(background(Arc::downgrade(&inner)));
        tasks.spawn(once_synced(Arc::downgrade(&inner), connections::sweep_up));
        tasks.spawn(once_synced(Arc::downgrade(&inner), connections::forget));
        drop(tasks);
        Ok(ApiState { inner })
    }
}

impl ApiState {
    /// Begins to set up the API over `client`'s cluster.
    pub fn builder(client: Client) -> ApiStateBuilder {
        ApiStateBuilder::over(client)
    }
}

/// Waits until the copies are synced. `false` if the state is dropped before.
async fn synced(inner: &Weak<Inner>) -> bool {
    loop {
        let Some(inner) = inner.upgrade() else {
            return false;
        };
        let synced = tokio::time::timeout(Duration::from_secs(1), inner.caches.synced()).await;
        if synced.is_ok() {
            return true;
        }
    }
}

/// Does this once the copies are synced.
async fn once_synced<F: Future<Output = ()>>(
    inner: Weak<Inner>,
    task: impl FnOnce(Weak<Inner>) -> F,
) {
    if synced(&inner).await {
        task(inner).await;
    }
}

/// Notes the first sync, then sweeps sessions until the state is dropped.
async fn background(inner: Weak<Inner>) {
    if !synced(&inner).await {
        return;
    }
    if let Some(inner) = inner.upgrade() {
        inner.synced.store(true, Ordering::Release);
    }
    loop {
        tokio::time::sleep(SWEEP_INTERVAL).await;
        let Some(inner) = inner.upgrade() else { return };
        let state = ApiState { inner };
        if can_sweep(state.accounts()) {
            find_out(&state).await;
        }
        sweep(state.accounts()).await;
    }
}
