//! Kinds of objects by their API coordinates, and keys of single objects.

use std::borrow::Cow;
use std::fmt;

use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject};

/// A served resource: what a URL needs to reach its objects.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Kind {
    /// API group; empty for the core group.
    pub group: Cow<'static, str>,
    /// Version, such as `v1`.
    pub version: Cow<'static, str>,
    /// Kind, such as `ConfigMap`.
    pub kind: Cow<'static, str>,
    /// Plural in URLs, such as `configmaps`.
    pub plural: Cow<'static, str>,
    /// Whether its objects live in namespaces.
    pub namespaced: bool,
}

impl Kind {
    /// A namespaced kind.
    pub const fn namespaced(
        group: &'static str,
        version: &'static str,
        kind: &'static str,
        plural: &'static str,
    ) -> Self {
        Self {
            group: Cow::Borrowed(group),
            version: Cow::Borrowed(version),
            kind: Cow::Borrowed(kind),
            plural: Cow::Borrowed(plural),
            namespaced: true,
        }
    }

    /// A cluster-scoped kind.
    pub const fn cluster(
        group: &'static str,
        version: &'static str,
        kind: &'static str,
        plural: &'static str,
    ) -> Self {
        let mut this = Self::namespaced(group, version, kind, plural);
        this.namespaced = false;
        this
    }

    /// `group/version`, or only the version in the core group.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_string()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// The coordinates as kube knows them.
    pub fn resource(&self) -> ApiResource {
        ApiResource {
            group: self.group.to_string(),
            version: self.version.to_string(),
            api_version: self.api_version(),
            kind: self.kind.to_string(),
            plural: self.plural.to_string(),
        }
    }

    /// The objects of this kind in `namespace`; all of them where it is `None`
    /// or the kind is cluster-scoped.
    pub fn api(&self, client: &Client, namespace: Option<&str>) -> Api<DynamicObject> {
        match namespace {
            Some(namespace) if self.namespaced => {
                Api::namespaced_with(client.clone(), namespace, &self.resource())
            }
            _ => Api::all_with(client.clone(), &self.resource()),
        }
    }
}

/// An object by kind, namespace and name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// What it is.
    pub kind: Kind,
    /// Its namespace; `None` for cluster-scoped kinds.
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
}

impl Key {
    /// An object of `kind`; the namespace is dropped where the kind has none.
    pub fn new(kind: &Kind, namespace: Option<&str>, name: &str) -> Self {
        Self {
            kind: kind.clone(),
            namespace: namespace.filter(|_| kind.namespaced).map(str::to_owned),
            name: name.to_owned(),
        }
    }

    /// The key of `object`, which is of `kind`.
    pub fn of(kind: &Kind, object: &DynamicObject) -> Self {
        Self::new(
            kind,
            object.metadata.namespace.as_deref(),
            object.metadata.name.as_deref().unwrap_or_default(),
        )
    }

    /// The namespace, or the empty string.
    pub fn space(&self) -> &str {
        self.namespace.as_deref().unwrap_or_default()
    }

    /// The objects of the key's kind in the key's namespace.
    pub fn api(&self, client: &Client) -> Api<DynamicObject> {
        self.kind.api(client, self.namespace.as_deref())
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{} {namespace}/{}", self.kind.kind, self.name),
            None => write!(f, "{} {}", self.kind.kind, self.name),
        }
    }
}

/// `Namespace`.
pub const NAMESPACE: Kind = Kind::cluster("", "v1", "Namespace", "namespaces");
/// `Node`.
pub const NODE: Kind = Kind::cluster("", "v1", "Node", "nodes");
/// `Pod`.
pub const POD: Kind = Kind::namespaced("", "v1", "Pod", "pods");
/// `Secret`.
pub const SECRET: Kind = Kind::namespaced("", "v1", "Secret", "secrets");
/// `ConfigMap`.
pub const CONFIG_MAP: Kind = Kind::namespaced("", "v1", "ConfigMap", "configmaps");
/// `Service`.
pub const SERVICE: Kind = Kind::namespaced("", "v1", "Service", "services");
/// `ServiceAccount`.
pub const SERVICE_ACCOUNT: Kind = Kind::namespaced("", "v1", "ServiceAccount", "serviceaccounts");
/// `ResourceQuota`.
pub const RESOURCE_QUOTA: Kind = Kind::namespaced("", "v1", "ResourceQuota", "resourcequotas");
/// `PersistentVolumeClaim`.
pub const CLAIM: Kind =
    Kind::namespaced("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims");
/// `PersistentVolume`.
pub const VOLUME: Kind = Kind::cluster("", "v1", "PersistentVolume", "persistentvolumes");
/// Endpoints.
pub const ENDPOINTS: Kind = Kind::namespaced("", "v1", "Endpoints", "endpoints");
/// `EndpointSlice`.
pub const ENDPOINT_SLICE: Kind =
    Kind::namespaced("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices");
/// `Deployment`.
pub const DEPLOYMENT: Kind = Kind::namespaced("apps", "v1", "Deployment", "deployments");
/// `ReplicaSet`.
pub const REPLICA_SET: Kind = Kind::namespaced("apps", "v1", "ReplicaSet", "replicasets");
/// `ReplicationController`.
pub const REPLICATION_CONTROLLER: Kind =
    Kind::namespaced("", "v1", "ReplicationController", "replicationcontrollers");
/// `StatefulSet`.
pub const STATEFUL_SET: Kind = Kind::namespaced("apps", "v1", "StatefulSet", "statefulsets");
/// `DaemonSet`.
pub const DAEMON_SET: Kind = Kind::namespaced("apps", "v1", "DaemonSet", "daemonsets");
/// `Job`.
pub const JOB: Kind = Kind::namespaced("batch", "v1", "Job", "jobs");
/// `PodDisruptionBudget`.
pub const BUDGET: Kind = Kind::namespaced(
    "policy",
    "v1",
    "PodDisruptionBudget",
    "poddisruptionbudgets",
);
/// `CronJob`.
pub const CRON_JOB: Kind = Kind::namespaced("batch", "v1", "CronJob", "cronjobs");
/// Classes of volume attributes.
pub const ATTRIBUTES_CLASS: Kind = Kind::cluster(
    "storage.k8s.io",
    "v1",
    "VolumeAttributesClass",
    "volumeattributesclasses",
);
/// `StorageClass`.
pub const STORAGE_CLASS: Kind =
    Kind::cluster("storage.k8s.io", "v1", "StorageClass", "storageclasses");
/// `Ingress`.
pub const INGRESS: Kind = Kind::namespaced("networking.k8s.io", "v1", "Ingress", "ingresses");
/// `CustomResourceDefinition`.
pub const CRD: Kind = Kind::cluster(
    "apiextensions.k8s.io",
    "v1",
    "CustomResourceDefinition",
    "customresourcedefinitions",
);
/// A snapshot of a claim, by the CSI external-snapshotter's definition.
pub const VOLUME_SNAPSHOT: Kind = Kind::namespaced(
    "snapshot.storage.k8s.io",
    "v1",
    "VolumeSnapshot",
    "volumesnapshots",
);
/// How snapshots are taken.
pub const VOLUME_SNAPSHOT_CLASS: Kind = Kind::cluster(
    "snapshot.storage.k8s.io",
    "v1",
    "VolumeSnapshotClass",
    "volumesnapshotclasses",
);
/// What a snapshot is on its storage.
pub const VOLUME_SNAPSHOT_CONTENT: Kind = Kind::cluster(
    "snapshot.storage.k8s.io",
    "v1",
    "VolumeSnapshotContent",
    "volumesnapshotcontents",
);
/// `ControllerRevision`.
pub const CONTROLLER_REVISION: Kind =
    Kind::namespaced("apps", "v1", "ControllerRevision", "controllerrevisions");
/// `Lease`.
pub const LEASE: Kind = Kind::namespaced("coordination.k8s.io", "v1", "Lease", "leases");
/// `Event` of the core group.
pub const EVENT: Kind = Kind::namespaced("", "v1", "Event", "events");
/// cert-manager's `Certificate`.
pub const CERTIFICATE: Kind =
    Kind::namespaced("cert-manager.io", "v1", "Certificate", "certificates");
/// cert-manager's `ClusterIssuer`.
pub const CLUSTER_ISSUER: Kind =
    Kind::cluster("cert-manager.io", "v1", "ClusterIssuer", "clusterissuers");
/// The Gateway API's `GatewayClass`.
pub const GATEWAY_CLASS: Kind = Kind::cluster(
    "gateway.networking.k8s.io",
    "v1",
    "GatewayClass",
    "gatewayclasses",
);
/// The Gateway API's `Gateway`.
pub const GATEWAY: Kind =
    Kind::namespaced("gateway.networking.k8s.io", "v1", "Gateway", "gateways");
/// The Gateway API's `HTTPRoute`.
pub const HTTP_ROUTE: Kind =
    Kind::namespaced("gateway.networking.k8s.io", "v1", "HTTPRoute", "httproutes");
