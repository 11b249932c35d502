//! Settings of a [`FakeCluster`].

use std::sync::Arc;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};

use crate::actors::{Actor, Rules};
use crate::auth;
use crate::build_error::BuildError;
use crate::clock::{Clock, TokioClock};
use crate::cluster::FakeCluster;
use crate::server::ApiServer;
use crate::state::Snapshot;

/// Namespaces that every cluster has.
const NAMESPACES: &[&str] = &["default", "kube-system", "kube-public", "kube-node-lease"];

/// See [`FakeCluster::builder`].
///
/// ```
/// # let runtime = tokio::runtime::Builder::new_current_thread()
/// #     .enable_time().start_paused(true).build()?;
/// # runtime.block_on(async {
/// use std::sync::Arc;
/// use std::time::Duration;
/// use kite_fake::FakeCluster;
/// use kite_fake::actors::{Rule, Rules, Selector, Stage, control_plane};
/// use serde_json::json;
///
/// let rules = Rules::instant();
/// rules.add(Rule::hold(Stage::LOAD_BALANCER_ADDRESS, Selector::named("held")));
/// let service = |name: &str| json!({"apiVersion": "v1", "kind": "Service",
///     "metadata": {"name": name, "namespace": "default"},
///     "spec": {"type": "LoadBalancer", "ports": [{"port": 80}]}});
/// let cluster = FakeCluster::builder()
///     .seed(7)                            // the same uids and names in every run
///     .object(service("held"))
///     .object(service("free"))
///     .actors(control_plane())            // load balancers among others
///     .rules(Arc::new(rules))
///     .build()?;
/// assert!(cluster.settled(Duration::from_secs(60)).await);
/// let addresses = cluster.dump().matches("ingress:").count();
/// assert_eq!(addresses, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Builder {
    crds: Vec<Value>,
    objects: Vec<Value>,
    seed: u64,
    history: usize,
    clock: Option<Arc<dyn Clock>>,
    rbac: bool,
    owner_references_enforced: bool,
    service_accounts: bool,
    actors: Vec<Arc<dyn Actor>>,
    rules: Arc<Rules>,
    snapshot: Option<Snapshot>,
    error: Option<BuildError>,
}

impl std::fmt::Debug for Builder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Builder")
            .field("crds", &self.crds.len())
            .field("objects", &self.objects.len())
            .field("seed", &self.seed)
            .field("history", &self.history)
            .field("rbac", &self.rbac)
            .field("actors", &self.actors.len())
            .field("snapshot", &self.snapshot)
            .finish_non_exhaustive()
    }
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            crds: Vec::new(),
            objects: Vec::new(),
            seed: 0,
            history: 4096,
            clock: None,
            rbac: false,
            owner_references_enforced: false,
            service_accounts: false,
            actors: Vec::new(),
            rules: Arc::new(Rules::instant()),
            snapshot: None,
            error: None,
        }
    }
}

fn documents(what: &str, yaml: &str) -> Result<Vec<Value>, BuildError> {
    let all: Vec<Value> =
        serde_saphyr::from_multiple(yaml).map_err(|e| BuildError::Unreadable {
            what: what.to_owned(),
            why: e.to_string(),
        })?;
    Ok(all.into_iter().filter(|d| !d.is_null()).collect())
}

impl FakeCluster {
    /// Settings to start from.
    pub fn builder() -> Builder {
        Builder::default()
    }
}

impl Builder {
    /// Installs CRDs before anything else, such as those that `kube` derives.
    ///
    /// ```
    /// use kite_fake::FakeCluster;
    /// use kube::{CustomResource, CustomResourceExt as _};
    ///
    /// #[derive(CustomResource, Clone, Debug, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
    /// #[kube(group = "example.com", version = "v1", kind = "Kettle", namespaced)]
    /// struct KettleSpec {
    ///     litres: u8,
    /// }
    ///
    /// let cluster = FakeCluster::builder()
    ///     .crds([Kettle::crd()])
    ///     .object(Kettle::new("big", KettleSpec { litres: 3 }))
    ///     .build()?;
    /// assert!(cluster.dump().contains("# Kettle default/big\n"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn crds(mut self, crds: impl IntoIterator<Item = CustomResourceDefinition>) -> Self {
        for crd in crds {
            match serde_json::to_value(crd) {
                Ok(value) => self.crds.push(value),
                Err(e) => self.fail("a CRD", &e.to_string()),
            }
        }
        self
    }

    /// Installs the CRDs of a YAML file's text (several documents are fine).
    ///
    /// ```
    /// let crds = "
    /// apiVersion: apiextensions.k8s.io/v1
    /// kind: CustomResourceDefinition
    /// metadata: {name: kettles.example.com}
    /// spec:
    ///   group: example.com
    ///   scope: Namespaced
    ///   names: {plural: kettles, kind: Kettle}
    ///   versions:
    ///   - name: v1
    ///     served: true
    ///     storage: true
    ///     schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object}}}}
    /// ";
    /// let cluster = kite_fake::FakeCluster::builder().crds_yaml(crds).build()?;
    /// assert!(cluster.server().registry().get("example.com", "v1", "kettles").is_some());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn crds_yaml(mut self, yaml: &str) -> Self {
        match documents("CRD YAML", yaml) {
            Ok(all) => self.crds.extend(all),
            Err(e) => self.error = self.error.or(Some(e)),
        }
        self
    }

    /// Creates an object at the start, after the CRDs.
    #[must_use]
    pub fn object(mut self, object: impl serde::Serialize) -> Self {
        match serde_json::to_value(object) {
            Ok(value) => self.objects.push(value),
            Err(e) => self.fail("a start object", &e.to_string()),
        }
        self
    }

    /// Creates the objects of a YAML text at the start.
    ///
    /// ```
    /// let cluster = kite_fake::FakeCluster::builder()
    ///     .objects_yaml("
    /// apiVersion: v1
    /// kind: Namespace
    /// metadata: {name: lab}
    /// ---
    /// apiVersion: v1
    /// kind: ConfigMap
    /// metadata: {name: settings, namespace: lab}
    /// ")
    ///     .build()?;
    /// assert!(cluster.dump().contains("# ConfigMap lab/settings\n"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn objects_yaml(mut self, yaml: &str) -> Self {
        match documents("start objects", yaml) {
            Ok(all) => self.objects.extend(all),
            Err(e) => self.error = self.error.or(Some(e)),
        }
        self
    }

    /// Seed of uids, generated names and tokens; 0 if not set.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Where timestamps come from; tokio's clock from the system time on if not set.
    #[must_use]
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = Some(Arc::new(clock));
        self
    }

    /// How many events each resource remembers for watches; 4096 if not set.
    #[must_use]
    pub fn history(mut self, events: usize) -> Self {
        self.history = events;
        self
    }

    /// Whether RBAC decides; otherwise every authenticated request is allowed.
    #[must_use]
    pub fn rbac(mut self, on: bool) -> Self {
        self.rbac = on;
        self
    }

    /// Whether the admission plugin `OwnerReferencesPermissionEnforcement` is on, as it is
    /// on some clusters: who names an owner with `blockOwnerDeletion` needs the right to
    /// `update` the owner's `finalizers`, and who changes the owners of an object that is
    /// there the right to `delete` that object. Off if not set; of no use without
    /// [`rbac`](Self::rbac).
    #[must_use]
    pub fn owner_references_permission_enforcement(mut self, on: bool) -> Self {
        self.owner_references_enforced = on;
        self
    }

    /// Whether every new Pod runs as a `ServiceAccount` that is there, and gets
    /// a volume with its token; off if not set, as it is in the recorded server.
    #[must_use]
    pub fn service_accounts(mut self, on: bool) -> Self {
        self.service_accounts = on;
        self
    }

    /// Starts actors with the cluster; they end with it.
    #[must_use]
    pub fn actors(mut self, actors: impl IntoIterator<Item = Arc<dyn Actor>>) -> Self {
        self.actors.extend(actors);
        self
    }

    /// Delays and failures of the actors; everything at once if not set.
    #[must_use]
    pub fn rules(mut self, rules: Arc<Rules>) -> Self {
        self.rules = rules;
        self
    }

    /// Starts as the cluster that the snapshot was taken of, to the last detail,
    /// and not as a new one: revision, history, uids to come. CRDs and objects
    /// given beside it are created if they are not there; what is there stays.
    ///
    /// ```
    /// use kite_fake::FakeCluster;
    /// use serde_json::json;
    ///
    /// let world = FakeCluster::builder().build()?.snapshot();
    /// // Two continuations of one state, with the same identifiers.
    /// let pod = json!({"apiVersion": "v1", "kind": "ConfigMap",
    ///     "metadata": {"generateName": "a-", "namespace": "default"}});
    /// let one = FakeCluster::builder().snapshot(world.clone()).object(&pod).build()?;
    /// let two = FakeCluster::builder().snapshot(world).object(&pod).build()?;
    /// assert!(one.snapshot().diff(&two.snapshot()).changed().all(|(_, fields)| {
    ///     fields.iter().all(|f| f.path == "metadata.creationTimestamp")
    /// }));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn snapshot(mut self, snapshot: Snapshot) -> Self {
        self.snapshot = Some(snapshot);
        self
    }

    /// As [`snapshot`](Self::snapshot), of a cluster with the same settings: its
    /// CRDs and objects are there already, and need not be looked for.
    pub(crate) fn again(mut self, snapshot: Snapshot) -> Self {
        self.crds.clear();
        self.objects.clear();
        self.snapshot(snapshot)
    }

    fn fail(&mut self, what: &str, why: &str) {
        self.error.get_or_insert_with(|| BuildError::Unreadable {
            what: what.to_owned(),
            why: why.to_owned(),
        });
    }

    /// The cluster, with its default namespaces, CRDs and start objects.
    ///
    /// # Errors
    /// What could not be read, or what the server refused.
    pub fn build(self) -> Result<FakeCluster, BuildError> {
        if let Some(error) = self.error {
            return Err(error);
        }
        let clock = self
            .clock
            .clone()
            .unwrap_or_else(|| Arc::new(TokioClock::from_system()));
        let mut server = ApiServer::new(self.seed, self.history);
        server.use_rbac(self.rbac);
        server.enforce_owner_references(self.owner_references_enforced);
        server.use_service_accounts(self.service_accounts);
        server.start_fresh();
        let cluster = FakeCluster::new(server, clock);
        if let Some(snapshot) = &self.snapshot {
            cluster.resume(snapshot);
            for object in self.crds.iter().chain(&self.objects) {
                if !cluster.holds(object) {
                    cluster.create(object)?;
                }
            }
            cluster.server().clear_log();
        } else {
            self.begin(&cluster)?;
        }
        if !self.actors.is_empty() {
            if tokio::runtime::Handle::try_current().is_err() {
                return Err(BuildError::NoRuntime);
            }
            cluster.start_actors(self.actors, &self.rules);
        }
        Ok(cluster)
    }

    /// What every new cluster has, and the start objects.
    fn begin(&self, cluster: &FakeCluster) -> Result<(), BuildError> {
        for name in NAMESPACES {
            cluster.create(json!({
                "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}
            }))?;
        }
        cluster.create(kubernetes_service())?;
        if self.rbac {
            for object in auth::bootstrap_objects() {
                cluster.create(&object)?;
            }
        }
        for object in self.crds.iter().chain(&self.objects) {
            cluster.create(object)?;
        }
        {
            // Watches of what was before the start are told that it is too old,
            // and the log begins with the first client.
            let mut server = cluster.server();
            server.compact();
            server.clear_log();
        }
        Ok(())
    }
}

/// How programs inside a cluster find the API server.
fn kubernetes_service() -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": "kubernetes",
            "namespace": "default",
            "labels": {"component": "apiserver", "provider": "kubernetes"},
        },
        "spec": {
            "clusterIP": "10.96.0.1",
            "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": 6443}],
        },
    })
}
