//! What every reconciler works with.

use std::{fmt, sync::Arc, time::Duration};

use jiff::Timestamp;
use kite_core::{
    cluster::{Cluster, FieldManager, ObjectKey},
    labels, names,
};
use kite_render::{
    grant::Grant,
    isolation::{Isolation, Pods},
    namespace::PodSecurity,
    quota::Overhead,
};

use kite_runtime::{
    CachedCluster, Caches, Metrics, Shared, backoff::Backoff, events::Events, health::Health,
};

use crate::keys::{KeySource, RandomKeys};

/// What an installation may set differently.
///
/// ```
/// use kite_reconcile::Settings;
///
/// let settings = Settings::in_namespace("my-operator").with_own_role("my-operator-secrets");
/// assert_eq!(settings.namespace, "my-operator");
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Settings {
    /// The namespace in which Kite itself runs: its gateway's and its API's.
    pub namespace: String,
    /// What the network policies around users' namespaces let through.
    pub isolation: Isolation,
    /// What Kite's other processes may do in users' namespaces, where it is the
    /// controller that gives them that.
    pub grants: Vec<Grant>,
    /// The `ClusterRole` by which the controller itself may read and write Secrets, if it
    /// may so only in namespaces with a `RoleBinding` of this name (in users' namespaces
    /// one of `grants` makes it): then it watches each of these, and beside them the
    /// Secrets of the platform that it has to know. None where it may in the whole cluster.
    pub own_role: Option<String>,
    /// Whether load balancers tell the gateway by the PROXY protocol where connections
    /// come from.
    pub proxied: bool,
    /// Whether the API takes no proxy's word for clients' addresses.
    pub web_direct: bool,
    /// What is demanded of pods in users' namespaces.
    pub pod_security: PodSecurity,
    /// What quotas add for what VMs need beside their own.
    pub overhead: Overhead,
    /// Under whose name objects are applied.
    pub manager: FieldManager,
    /// How often a status is written at most that says nothing but how far
    /// something is on its way. What matters is written at once.
    pub progress_every: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            namespace: names::PLATFORM_NAMESPACE.to_owned(),
            isolation: Isolation::default(),
            grants: Vec::new(),
            own_role: None,
            proxied: false,
            web_direct: false,
            pod_security: PodSecurity::default(),
            overhead: Overhead::default(),
            manager: kite_core::managers::CONTROLLER,
            progress_every: Duration::from_secs(15),
        }
    }
}

impl Settings {
    /// The defaults for Kite in `namespace`: its gateway is let through the
    /// network policies from there.
    pub fn in_namespace(namespace: impl Into<String>) -> Self {
        let namespace = namespace.into();
        let mut settings = Self::default();
        for gateway in &mut settings.isolation.gateway {
            gateway.namespace.clone_from(&namespace);
        }
        settings.namespace = namespace;
        settings
    }

    /// With these rights of others in users' namespaces.
    #[must_use]
    pub fn with_grants(mut self, grants: impl IntoIterator<Item = Grant>) -> Self {
        self.grants = grants.into_iter().collect();
        self
    }

    /// With Secrets that may be read and written where this role is bound, and nowhere
    /// else.
    #[must_use]
    pub fn with_own_role(mut self, role: impl Into<String>) -> Self {
        self.own_role = Some(role.into());
        self
    }

    /// With this demanded of pods in users' namespaces.
    #[must_use]
    pub fn with_pod_security(mut self, security: PodSecurity) -> Self {
        self.pod_security = security;
        self
    }

    /// With pods of the HTTP API that log in to VMs: the network policies let them in, too.
    #[must_use]
    pub fn with_terminals(mut self) -> Self {
        self.isolation.gateway.push(Pods::labelled(
            &self.namespace,
            labels::APP_NAME,
            names::API_SERVICE,
        ));
        self
    }
}

pub use kite_runtime::Clock;

/// What every reconciler works with: the cluster, and what is not to be had
/// from it.
#[non_exhaustive]
pub struct Context<C> {
    /// The cluster to change, the time, and what controllers of any kind share.
    pub shared: Shared<C>,
    /// What an installation may set differently.
    pub settings: Settings,
    /// Where new key pairs come from.
    pub keys: Arc<dyn KeySource>,
    /// Where watches report whether they run.
    pub health: Health,
}

/// What planners need beside the cluster.
#[derive(Clone, Copy)]
pub(crate) struct Tools<'a> {
    pub(crate) settings: &'a Settings,
    pub(crate) keys: &'a dyn KeySource,
    pub(crate) clock: &'a Clock,
}

impl<C> Context<C> {
    /// A context with default settings, random keys and the system's clock.
    pub fn new(cluster: C) -> Self {
        Self {
            shared: Shared::new(cluster).with_metrics(crate::metrics()),
            settings: Settings::default(),
            keys: Arc::new(RandomKeys),
            health: Health::default(),
        }
    }

    /// The same, with reads answered from `caches`. They must be written for as long
    /// as the context is used.
    pub fn cached(&self, caches: Caches) -> Context<CachedCluster<C>>
    where
        C: Cluster + Clone,
    {
        Context {
            shared: self.shared.cached(caches),
            settings: self.settings.clone(),
            keys: Arc::clone(&self.keys),
            health: self.health.clone(),
        }
    }

    pub(crate) fn tools(&self) -> Tools<'_> {
        Tools {
            settings: &self.settings,
            keys: &*self.keys,
            clock: &self.shared.clock,
        }
    }

    /// With other settings.
    #[must_use]
    pub fn with_settings(self, settings: Settings) -> Self {
        Self { settings, ..self }
    }

    /// With keys from elsewhere.
    #[must_use]
    pub fn with_keys(self, keys: impl KeySource) -> Self {
        Self {
            keys: Arc::new(keys),
            ..self
        }
    }

    /// With another clock, such as the in-memory cluster's.
    #[must_use]
    pub fn with_clock(self, clock: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Self {
            shared: self.shared.with_clock(Arc::new(clock)),
            ..self
        }
    }

    /// Telling what happens to `events`.
    #[must_use]
    pub fn with_events(self, events: Events) -> Self {
        Self {
            shared: self.shared.with_events(events),
            ..self
        }
    }

    /// With watches reporting to `health`.
    #[must_use]
    pub fn with_health(self, health: Health) -> Self {
        Self { health, ..self }
    }

    /// Counting into `metrics`.
    #[must_use]
    pub fn with_metrics(self, metrics: Metrics) -> Self {
        Self {
            shared: self.shared.with_metrics(metrics),
            ..self
        }
    }
}

impl<C: Send + Sync + 'static> kite_runtime::Context for Context<C> {
    fn metrics(&self) -> &Metrics {
        self.shared.metrics()
    }

    fn backoff(&self) -> &Backoff {
        self.shared.backoff()
    }

    fn forget(&self, kind: &'static str, key: &ObjectKey) {
        self.shared.forget(kind, key);
    }
}

impl<C> fmt::Debug for Context<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}
