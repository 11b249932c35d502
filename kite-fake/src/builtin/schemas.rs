//! Schemas of built-in kinds: generated ones, completed by [`super::overlay`].

use std::sync::Arc;

use k8s_openapi::api::{
    admissionregistration::v1 as admission, apps::v1 as apps, authentication::v1 as authn,
    authorization::v1 as authz, autoscaling::v2 as autoscaling, batch::v1 as batch,
    coordination::v1 as coordination, core::v1 as core, discovery::v1 as discovery,
    events::v1 as events, networking::v1 as networking, policy::v1 as policy, rbac::v1 as rbac,
    scheduling::v1 as scheduling, storage::v1 as storage,
};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1 as apiextensions;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1 as apiregistration;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::Value;

use super::overlay;
use crate::schema::Schema;

/// The JSON schema of a type, with what it refers to in `$defs`.
fn generated<T: JsonSchema>() -> (String, Value) {
    let schema = SchemaGenerator::default().into_root_schema_for::<T>();
    (T::schema_name().into_owned(), Value::from(schema))
}

/// The completed JSON schema of a kind with its type's name; `None` if it is not built in.
pub(super) fn json(group: &str, version: &str, kind: &str) -> Option<(String, Value)> {
    let (name, mut json) = document(group, version, kind)?;
    overlay::complete(&name, &mut json);
    Some((name, json))
}

/// The schema of a kind; `None` if it is not built in.
pub(super) fn build(group: &str, version: &str, kind: &str) -> Option<Arc<Schema>> {
    let (_, json) = json(group, version, kind)?;
    // Generated schemas nest without cycles but for JSON schemas themselves, which
    // the overlay makes opaque; a failure here would be a kind without a schema.
    Schema::from_json(&json).ok().map(Arc::new)
}

fn document(group: &str, version: &str, kind: &str) -> Option<(String, Value)> {
    macro_rules! pick {
        ($($group:literal $version:literal $module:ident: $($kind:ident)+;)+) => {
            match (group, version, kind) {
                $($(($group, $version, stringify!($kind)) => Some(generated::<$module::$kind>()),)+)+
                _ => None,
            }
        };
    }
    pick! {
        "" "v1" core: ConfigMap Endpoints Event LimitRange Namespace Node PersistentVolume
            PersistentVolumeClaim Pod PodTemplate ReplicationController ResourceQuota Secret
            Service ServiceAccount;
        "apps" "v1" apps: ControllerRevision DaemonSet Deployment ReplicaSet StatefulSet;
        "batch" "v1" batch: CronJob Job;
        "policy" "v1" policy: PodDisruptionBudget;
        "coordination.k8s.io" "v1" coordination: Lease;
        "discovery.k8s.io" "v1" discovery: EndpointSlice;
        "events.k8s.io" "v1" events: Event;
        "networking.k8s.io" "v1" networking: Ingress IngressClass NetworkPolicy;
        "rbac.authorization.k8s.io" "v1" rbac: ClusterRole ClusterRoleBinding Role RoleBinding;
        "scheduling.k8s.io" "v1" scheduling: PriorityClass;
        "storage.k8s.io" "v1" storage: CSIDriver CSINode StorageClass VolumeAttachment;
        "autoscaling" "v2" autoscaling: HorizontalPodAutoscaler;
        "admissionregistration.k8s.io" "v1" admission: MutatingWebhookConfiguration
            ValidatingWebhookConfiguration ValidatingAdmissionPolicy
            ValidatingAdmissionPolicyBinding;
        "apiregistration.k8s.io" "v1" apiregistration: APIService;
        "apiextensions.k8s.io" "v1" apiextensions: CustomResourceDefinition;
        "authentication.k8s.io" "v1" authn: SelfSubjectReview TokenReview TokenRequest;
        "authorization.k8s.io" "v1" authz: LocalSubjectAccessReview SelfSubjectAccessReview
            SelfSubjectRulesReview SubjectAccessReview;
    }
}
