//! The table of built-in resources.

use super::{Origin, Resource, ResourceSchema, ScalePaths, Subresource};

const STANDARD: &[&str] = &[
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "update",
    "watch",
];
/// Without deletecollection.
const SINGLE: &[&str] = &[
    "create", "delete", "get", "list", "patch", "update", "watch",
];
const CREATE: &[&str] = &["create"];
const READ: &[&str] = &["get", "list"];

/// One row: what differs from type to type. The plural is given, the singular
/// is the kind in lower case.
struct Row {
    group: &'static str,
    version: &'static str,
    kind: &'static str,
    plural: &'static str,
    namespaced: bool,
    short: &'static [&'static str],
    all: bool,
    verbs: &'static [&'static str],
    subresources: &'static [&'static str],
    /// The version that objects are stored in, where that is another.
    stored: Option<&'static str>,
    /// What is said of requests for it, where it is deprecated.
    deprecation: Option<&'static str>,
}

const fn row(
    group: &'static str,
    version: &'static str,
    kind: &'static str,
    plural: &'static str,
    namespaced: bool,
) -> Row {
    Row {
        group,
        version,
        kind,
        plural,
        namespaced,
        short: &[],
        all: false,
        verbs: STANDARD,
        subresources: &[],
        stored: None,
        deprecation: None,
    }
}

impl Row {
    const fn short(mut self, short: &'static [&'static str]) -> Self {
        self.short = short;
        self
    }
    const fn all(mut self) -> Self {
        self.all = true;
        self
    }
    const fn with(mut self, subresources: &'static [&'static str]) -> Self {
        self.subresources = subresources;
        self
    }
    const fn stored(mut self, version: &'static str) -> Self {
        self.stored = Some(version);
        self
    }
    const fn deprecated(mut self, warning: &'static str) -> Self {
        self.deprecation = Some(warning);
        self
    }
    const fn verbs(mut self, verbs: &'static [&'static str]) -> Self {
        self.verbs = verbs;
        self
    }
}

const STATUS: &[&str] = &["status"];
const STATUS_SCALE: &[&str] = &["scale", "status"];

const NS: bool = true;
const CLUSTER: bool = false;

const RBAC: &str = "rbac.authorization.k8s.io";
const STORAGE: &str = "storage.k8s.io";
const NETWORKING: &str = "networking.k8s.io";
const FLOW: &str = "flowcontrol.apiserver.k8s.io";
const DEVICES: &str = "resource.k8s.io";
const ADMISSION: &str = "admissionregistration.k8s.io";
const AUTHZ: &str = "authorization.k8s.io";

const TABLE: &[Row] = &[
    row("", "v1", "Binding", "bindings", NS).verbs(CREATE),
    row("", "v1", "ComponentStatus", "componentstatuses", CLUSTER)
        .short(&["cs"])
        .verbs(READ)
        .deprecated("v1 ComponentStatus is deprecated in v1.19+"),
    row("", "v1", "ConfigMap", "configmaps", NS).short(&["cm"]),
    row("", "v1", "Endpoints", "endpoints", NS)
        .short(&["ep"])
        .deprecated("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"),
    row("", "v1", "Event", "events", NS).short(&["ev"]),
    row("", "v1", "LimitRange", "limitranges", NS).short(&["limits"]),
    row("", "v1", "Namespace", "namespaces", CLUSTER)
        .short(&["ns"])
        .verbs(SINGLE)
        .with(&["finalize", "status"]),
    row("", "v1", "Node", "nodes", CLUSTER)
        .short(&["no"])
        .with(&["proxy", "status"]),
    row("", "v1", "PersistentVolume", "persistentvolumes", CLUSTER)
        .short(&["pv"])
        .with(STATUS),
    row(
        "",
        "v1",
        "PersistentVolumeClaim",
        "persistentvolumeclaims",
        NS,
    )
    .short(&["pvc"])
    .with(STATUS),
    row("", "v1", "Pod", "pods", NS)
        .short(&["po"])
        .all()
        .with(&[
            "attach",
            "binding",
            "ephemeralcontainers",
            "eviction",
            "exec",
            "log",
            "portforward",
            "proxy",
            "resize",
            "status",
        ]),
    row("", "v1", "PodTemplate", "podtemplates", NS),
    row(
        "",
        "v1",
        "ReplicationController",
        "replicationcontrollers",
        NS,
    )
    .short(&["rc"])
    .all()
    .with(STATUS_SCALE),
    row("", "v1", "ResourceQuota", "resourcequotas", NS)
        .short(&["quota"])
        .with(STATUS),
    row("", "v1", "Secret", "secrets", NS),
    row("", "v1", "Service", "services", NS)
        .short(&["svc"])
        .all()
        .with(&["proxy", "status"]),
    row("", "v1", "ServiceAccount", "serviceaccounts", NS)
        .short(&["sa"])
        .with(&["token"]),
    row(
        "apps",
        "v1",
        "ControllerRevision",
        "controllerrevisions",
        NS,
    ),
    row("apps", "v1", "DaemonSet", "daemonsets", NS)
        .short(&["ds"])
        .all()
        .with(STATUS),
    row("apps", "v1", "Deployment", "deployments", NS)
        .short(&["deploy"])
        .all()
        .with(STATUS_SCALE),
    row("apps", "v1", "ReplicaSet", "replicasets", NS)
        .short(&["rs"])
        .all()
        .with(STATUS_SCALE),
    row("apps", "v1", "StatefulSet", "statefulsets", NS)
        .short(&["sts"])
        .all()
        .with(STATUS_SCALE),
    row("batch", "v1", "CronJob", "cronjobs", NS)
        .short(&["cj"])
        .all()
        .with(STATUS),
    row("batch", "v1", "Job", "jobs", NS).all().with(STATUS),
    row(
        "policy",
        "v1",
        "PodDisruptionBudget",
        "poddisruptionbudgets",
        NS,
    )
    .short(&["pdb"])
    .with(STATUS),
    row(
        "certificates.k8s.io",
        "v1",
        "CertificateSigningRequest",
        "certificatesigningrequests",
        CLUSTER,
    )
    .short(&["csr"])
    .with(&["approval", "status"]),
    row("coordination.k8s.io", "v1", "Lease", "leases", NS),
    row(
        "discovery.k8s.io",
        "v1",
        "EndpointSlice",
        "endpointslices",
        NS,
    ),
    // Stored as events of the core group, so that each reading converts.
    row("events.k8s.io", "v1", "Event", "events", NS)
        .short(&["ev"])
        .stored("core/v1"),
    row(NETWORKING, "v1", "Ingress", "ingresses", NS)
        .short(&["ing"])
        .with(STATUS),
    row(NETWORKING, "v1", "IngressClass", "ingressclasses", CLUSTER),
    row(NETWORKING, "v1", "NetworkPolicy", "networkpolicies", NS).short(&["netpol"]),
    row(RBAC, "v1", "ClusterRole", "clusterroles", CLUSTER),
    row(
        RBAC,
        "v1",
        "ClusterRoleBinding",
        "clusterrolebindings",
        CLUSTER,
    ),
    row(RBAC, "v1", "Role", "roles", NS),
    row(RBAC, "v1", "RoleBinding", "rolebindings", NS),
    row(
        "scheduling.k8s.io",
        "v1",
        "PriorityClass",
        "priorityclasses",
        CLUSTER,
    )
    .short(&["pc"]),
    row(STORAGE, "v1", "StorageClass", "storageclasses", CLUSTER).short(&["sc"]),
    row(STORAGE, "v1", "CSIDriver", "csidrivers", CLUSTER),
    row(STORAGE, "v1", "CSINode", "csinodes", CLUSTER),
    row(
        STORAGE,
        "v1",
        "CSIStorageCapacity",
        "csistoragecapacities",
        NS,
    ),
    row(
        STORAGE,
        "v1",
        "VolumeAttributesClass",
        "volumeattributesclasses",
        CLUSTER,
    )
    .short(&["vac"]),
    row(NETWORKING, "v1", "IPAddress", "ipaddresses", CLUSTER).short(&["ip"]),
    row(NETWORKING, "v1", "ServiceCIDR", "servicecidrs", CLUSTER).with(STATUS),
    row(
        "node.k8s.io",
        "v1",
        "RuntimeClass",
        "runtimeclasses",
        CLUSTER,
    ),
    row(FLOW, "v1", "FlowSchema", "flowschemas", CLUSTER).with(STATUS),
    row(
        FLOW,
        "v1",
        "PriorityLevelConfiguration",
        "prioritylevelconfigurations",
        CLUSTER,
    )
    .with(STATUS),
    row(DEVICES, "v1", "DeviceClass", "deviceclasses", CLUSTER),
    row(DEVICES, "v1", "ResourceClaim", "resourceclaims", NS).with(STATUS),
    row(
        DEVICES,
        "v1",
        "ResourceClaimTemplate",
        "resourceclaimtemplates",
        NS,
    ),
    row(DEVICES, "v1", "ResourceSlice", "resourceslices", CLUSTER),
    row(
        STORAGE,
        "v1",
        "VolumeAttachment",
        "volumeattachments",
        CLUSTER,
    )
    .with(STATUS),
    row(
        "autoscaling",
        "v1",
        "HorizontalPodAutoscaler",
        "horizontalpodautoscalers",
        NS,
    )
    .short(&["hpa"])
    .all()
    .with(STATUS)
    .stored("v2"),
    row(
        "autoscaling",
        "v2",
        "HorizontalPodAutoscaler",
        "horizontalpodautoscalers",
        NS,
    )
    .short(&["hpa"])
    .all()
    .with(STATUS),
    row(
        ADMISSION,
        "v1",
        "MutatingWebhookConfiguration",
        "mutatingwebhookconfigurations",
        CLUSTER,
    ),
    row(
        ADMISSION,
        "v1",
        "ValidatingWebhookConfiguration",
        "validatingwebhookconfigurations",
        CLUSTER,
    ),
    row(
        ADMISSION,
        "v1",
        "ValidatingAdmissionPolicy",
        "validatingadmissionpolicies",
        CLUSTER,
    )
    .with(STATUS),
    row(
        ADMISSION,
        "v1",
        "ValidatingAdmissionPolicyBinding",
        "validatingadmissionpolicybindings",
        CLUSTER,
    ),
    row(
        ADMISSION,
        "v1",
        "MutatingAdmissionPolicy",
        "mutatingadmissionpolicies",
        CLUSTER,
    ),
    row(
        ADMISSION,
        "v1",
        "MutatingAdmissionPolicyBinding",
        "mutatingadmissionpolicybindings",
        CLUSTER,
    ),
    row(
        "apiregistration.k8s.io",
        "v1",
        "APIService",
        "apiservices",
        CLUSTER,
    )
    .with(STATUS),
    row(
        "apiextensions.k8s.io",
        "v1",
        "CustomResourceDefinition",
        "customresourcedefinitions",
        CLUSTER,
    )
    .short(&["crd", "crds"])
    .with(STATUS),
    row(
        "authentication.k8s.io",
        "v1",
        "SelfSubjectReview",
        "selfsubjectreviews",
        CLUSTER,
    )
    .verbs(CREATE),
    row(
        "authentication.k8s.io",
        "v1",
        "TokenReview",
        "tokenreviews",
        CLUSTER,
    )
    .verbs(CREATE),
    row(
        AUTHZ,
        "v1",
        "LocalSubjectAccessReview",
        "localsubjectaccessreviews",
        NS,
    )
    .verbs(CREATE),
    row(
        AUTHZ,
        "v1",
        "SelfSubjectAccessReview",
        "selfsubjectaccessreviews",
        CLUSTER,
    )
    .verbs(CREATE),
    row(
        AUTHZ,
        "v1",
        "SelfSubjectRulesReview",
        "selfsubjectrulesreviews",
        CLUSTER,
    )
    .verbs(CREATE),
    row(
        AUTHZ,
        "v1",
        "SubjectAccessReview",
        "subjectaccessreviews",
        CLUSTER,
    )
    .verbs(CREATE),
];

/// The built-in resources with their schemas.
pub(super) fn resources() -> impl Iterator<Item = Resource> {
    let later = |row: &&Row| crate::builtin::is_later(row.group, row.version, row.kind);
    TABLE.iter().filter(move |row| !later(row)).map(resource)
}

fn resource(row: &Row) -> Resource {
    let selectable = super::selectable::of(row.group, row.kind);
    Resource {
        group: row.group.into(),
        version: row.version.into(),
        kind: row.kind.into(),
        list_kind: format!("{}List", row.kind),
        plural: row.plural.into(),
        singular: row.kind.to_lowercase(),
        short_names: row.short.iter().map(|s| (*s).to_owned()).collect(),
        categories: categories(row),
        namespaced: row.namespaced,
        verbs: row.verbs.to_vec(),
        subresources: row.subresources.iter().map(|s| subresource(s)).collect(),
        schema: crate::builtin::kind(row.group, row.version, row.kind).map_or_else(
            || crate::schema::Schema::any().into(),
            ResourceSchema::BuiltIn,
        ),
        versions: None,
        columns: Vec::new(),
        selectable_fields: selectable.iter().map(|s| (*s).to_owned()).collect(),
        storage_version: row.stored.unwrap_or(row.version).to_owned(),
        origin: if row.verbs == CREATE || row.verbs == READ {
            Origin::Virtual
        } else {
            Origin::BuiltIn
        },
        epoch: 0,
        deprecation: row.deprecation.map(str::to_owned),
        definition: None,
        terminating: false,
        conversion: None,
    }
}

fn categories(row: &Row) -> Vec<String> {
    if row.all {
        vec!["all".to_owned()]
    } else if matches!(
        row.kind,
        "MutatingWebhookConfiguration"
            | "ValidatingWebhookConfiguration"
            | "ValidatingAdmissionPolicy"
            | "MutatingAdmissionPolicy"
            | "APIService"
            | "CustomResourceDefinition"
    ) {
        vec!["api-extensions".to_owned()]
    } else {
        Vec::new()
    }
}

fn subresource(name: &str) -> Subresource {
    const STREAM: &[&str] = &["create", "get"];
    let unsupported = |name, kind, verbs| Subresource::Unsupported { name, kind, verbs };
    match name {
        "status" => Subresource::Status,
        "finalize" => Subresource::Finalize,
        "token" => Subresource::Token,
        "eviction" => Subresource::Eviction,
        "binding" => Subresource::Binding,
        "attach" => unsupported("attach", "PodAttachOptions", STREAM),
        "exec" => unsupported("exec", "PodExecOptions", STREAM),
        "ephemeralcontainers" => Subresource::EphemeralContainers,
        "log" => unsupported("log", "Pod", &["get"]),
        "resize" => Subresource::Resize,
        "approval" => Subresource::Approval,
        "portforward" => unsupported("portforward", "PodPortForwardOptions", STREAM),
        "proxy" => unsupported(
            "proxy",
            "ProxyOptions",
            &["create", "delete", "get", "patch", "update"],
        ),
        _ => Subresource::Scale(ScalePaths {
            spec_replicas: ".spec.replicas".into(),
            status_replicas: ".status.replicas".into(),
            label_selector: None,
        }),
    }
}
