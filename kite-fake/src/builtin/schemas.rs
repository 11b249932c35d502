//! Schemas of built-in kinds: generated ones, completed by [`super::overlay`].

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use k8s_openapi::api::{
    admissionregistration::v1 as admission, apps::v1 as apps, authentication::v1 as authn,
    authorization::v1 as authz, autoscaling::v1 as autoscaling_v1, autoscaling::v2 as autoscaling,
    batch::v1 as batch, certificates::v1 as certificates, coordination::v1 as coordination,
    core::v1 as core, discovery::v1 as discovery, events::v1 as events,
    flowcontrol::v1 as flowcontrol, networking::v1 as networking, node::v1 as node,
    policy::v1 as policy, rbac::v1 as rbac, resource::v1 as resource, scheduling::v1 as scheduling,
    storage::v1 as storage,
};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1 as apiextensions;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1 as apiregistration;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value, json};

use super::overlay;
use crate::schema::Schema;

/// One built-in kind's type.
struct Type {
    group: &'static str,
    version: &'static str,
    kind: &'static str,
    /// The name of its definition.
    name: fn() -> Cow<'static, str>,
    /// Generates its definition and what that refers to.
    define: fn(&mut SchemaGenerator),
}

impl Type {
    fn has_pods(&self) -> bool {
        matches!(self.group, "apps" | "batch")
            || matches!(self.kind, "Pod" | "PodTemplate" | "ReplicationController")
    }
}

fn define<T: JsonSchema>(generator: &mut SchemaGenerator) {
    let _ = generator.subschema_for::<T>();
}

macro_rules! types {
    ($($group:literal $version:literal $module:ident: $($kind:ident)+;)+) => {
        &[$($(Type {
            group: $group,
            version: $version,
            kind: stringify!($kind),
            name: <$module::$kind as JsonSchema>::schema_name,
            define: define::<$module::$kind>,
        },)+)+]
    };
}

const TYPES: &[Type] = types! {
        "" "v1" core: Binding ComponentStatus ConfigMap Endpoints Event LimitRange Namespace Node PersistentVolume
            PersistentVolumeClaim Pod PodTemplate ReplicationController ResourceQuota Secret
            Service ServiceAccount;
        "apps" "v1" apps: ControllerRevision DaemonSet Deployment ReplicaSet StatefulSet;
        "batch" "v1" batch: CronJob Job;
        "policy" "v1" policy: PodDisruptionBudget;
        "certificates.k8s.io" "v1" certificates: CertificateSigningRequest;
        "coordination.k8s.io" "v1" coordination: Lease;
        "discovery.k8s.io" "v1" discovery: EndpointSlice;
        "events.k8s.io" "v1" events: Event;
        "networking.k8s.io" "v1" networking: IPAddress Ingress IngressClass NetworkPolicy
            ServiceCIDR;
        "node.k8s.io" "v1" node: RuntimeClass;
        "flowcontrol.apiserver.k8s.io" "v1" flowcontrol: FlowSchema PriorityLevelConfiguration;
        "resource.k8s.io" "v1" resource: DeviceClass ResourceClaim ResourceClaimTemplate
            ResourceSlice;
        "rbac.authorization.k8s.io" "v1" rbac: ClusterRole ClusterRoleBinding Role RoleBinding;
        "scheduling.k8s.io" "v1" scheduling: PriorityClass;
        "storage.k8s.io" "v1" storage: CSIDriver CSINode CSIStorageCapacity StorageClass
            VolumeAttachment VolumeAttributesClass;
        "autoscaling" "v1" autoscaling_v1: HorizontalPodAutoscaler;
        "autoscaling" "v2" autoscaling: HorizontalPodAutoscaler;
        "admissionregistration.k8s.io" "v1" admission: MutatingWebhookConfiguration
            ValidatingWebhookConfiguration ValidatingAdmissionPolicy
            ValidatingAdmissionPolicyBinding;
        "apiregistration.k8s.io" "v1" apiregistration: APIService;
        "apiextensions.k8s.io" "v1" apiextensions: CustomResourceDefinition;
        "authentication.k8s.io" "v1" authn: SelfSubjectReview TokenReview TokenRequest;
        "authorization.k8s.io" "v1" authz: LocalSubjectAccessReview SelfSubjectAccessReview
            SelfSubjectRulesReview SubjectAccessReview;
};

k8s_openapi::k8s_if_ge_1_36! {
    /// Kinds that only newer releases have types for.
    const LATER: &[Type] = types! {
        "admissionregistration.k8s.io" "v1" admission: MutatingAdmissionPolicy
            MutatingAdmissionPolicyBinding;
    };
}
k8s_openapi::k8s_if_le_1_35! {
    const LATER: &[Type] = &[];
}

/// All kinds that there are types for.
fn all() -> impl Iterator<Item = &'static Type> {
    TYPES.iter().chain(LATER)
}

/// The completed definitions of some kinds and of what they refer to.
fn definitions(of: impl Iterator<Item = &'static Type>) -> Value {
    let mut generator = SchemaGenerator::default();
    for entry in of {
        (entry.define)(&mut generator);
    }
    let mut definitions = generator.take_definitions(true);
    for (name, definition) in &mut definitions {
        overlay::complete(name, definition);
    }
    json!({"$defs": definitions})
}

/// The definitions of all kinds. Most share most of what they refer to, so that
/// all together take little more than the greatest alone.
static DEFINITIONS: LazyLock<Value> = LazyLock::new(|| definitions(all()));

/// The schemas of the kinds that hold a template of Pods, and of Pods: each
/// would take nearly as long alone as all together.
static WORKLOADS: LazyLock<BTreeMap<String, Arc<Schema>>> =
    LazyLock::new(|| schemas(all().filter(|entry| entry.has_pods())));

fn schemas(of: impl Iterator<Item = &'static Type>) -> BTreeMap<String, Arc<Schema>> {
    // Generated schemas are well formed; a failure here would leave kinds without
    // a schema, which a test would see.
    Schema::from_definitions(&definitions(of)).unwrap_or_default()
}

fn type_of(group: &str, version: &str, kind: &str) -> Option<&'static Type> {
    all().find(|entry| entry.kind == kind && entry.group == group && entry.version == version)
}

/// The completed JSON schema of a kind with its type's name; `None` if it is not built in.
pub(super) fn json(group: &str, version: &str, kind: &str) -> Option<(String, Value)> {
    let name = (type_of(group, version, kind)?.name)();
    let all = DEFINITIONS.get("$defs")?.as_object()?;
    let mut document = all.get(name.as_ref())?.clone();
    let mut wanted = Map::new();
    let mut open = references(&document);
    while let Some(reference) = open.pop() {
        if let Some(definition) = all.get(&reference)
            && !wanted.contains_key(&reference)
        {
            open.extend(references(definition));
            wanted.insert(reference, definition.clone());
        }
    }
    if let Value::Object(members) = &mut document {
        members.insert("$defs".to_owned(), Value::Object(wanted));
    }
    Some((name.into_owned(), document))
}

/// The names of the definitions that a schema refers to.
fn references(schema: &Value) -> Vec<String> {
    match schema {
        Value::Object(members) => members
            .iter()
            .flat_map(|(name, inner)| match inner.as_str() {
                Some(text) if name == "$ref" => text
                    .strip_prefix("#/$defs/")
                    .map(str::to_owned)
                    .into_iter()
                    .collect(),
                _ => references(inner),
            })
            .collect(),
        Value::Array(elements) => elements.iter().flat_map(references).collect(),
        _ => Vec::new(),
    }
}

/// Whether there is a type for a kind: who builds with those of an earlier release has none
/// for what came since.
pub(super) fn has(group: &str, version: &str, kind: &str) -> bool {
    type_of(group, version, kind).is_some()
}

/// The schema of a kind; `None` if it is not built in.
pub(super) fn build(group: &str, version: &str, kind: &str) -> Option<Arc<Schema>> {
    let entry = type_of(group, version, kind)?;
    let name = (entry.name)();
    if entry.has_pods() {
        return WORKLOADS.get(name.as_ref()).cloned();
    }
    schemas(std::iter::once(entry)).remove(name.as_ref())
}
