//! The built-in kinds and where each one's rules are.

use std::sync::OnceLock;

use serde_json::Value;

use super::BuiltIn;
use super::kinds::{
    admission, api_services, attachments, autoscaler, certificates, config, devices, endpoints,
    events, flow_control, jobs, network, nodes, pod, pod_changes, pod_rules, quotas, rbac,
    replication, service, service_rules, small, storage, subsets, workload, workload_rules,
};
use crate::fields::{Reset, Versions};
use crate::names::NameRule;
use crate::schema::Validation;

/// What a kind wants beside its schema.
#[derive(Clone, Copy)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "a row of a table: the flags are independent properties of a kind"
)]
pub(super) struct Rules {
    pub(super) namespaced: bool,
    pub(super) name: NameRule,
    /// The kind has a status, which only `/status` changes.
    pub(super) status: bool,
    /// A new object keeps the status that it came with: a kubelet reports both at once.
    pub(super) born_with_status: bool,
    /// Brings an object of the kind's other version into this one, where it has two.
    pub(super) convert: Option<fn(&mut Value)>,
    /// What each endpoint leaves as it is, where that is not the status or all but it.
    pub(super) reset: Option<fn(&str) -> Reset>,
    /// Members whose change counts in `metadata.generation`; none: it has none.
    pub(super) generation: &'static [&'static str],
    pub(super) create_on_update: bool,
    pub(super) unconditional: bool,
    pub(super) default: fn(&mut Value),
    pub(super) prepare_create: fn(&mut Value),
    pub(super) prepare_update: fn(&mut Value, &Value, &str),
    pub(super) validate: fn(&Value, &mut Validation),
    pub(super) validate_update: fn(&Value, &Value, &mut Validation),
    /// What only a new object is checked for.
    pub(super) validate_new: fn(&Value, &mut Validation),
    /// Checks what `/status` writes.
    pub(super) validate_status: fn(&Value, &Value, &mut Validation),
}

fn keep(_: &mut Value) {}
fn keep_update(_: &mut Value, _: &Value, _: &str) {}
fn accept(_: &Value, _: &mut Validation) {}
fn accept_update(_: &Value, _: &Value, _: &mut Validation) {}

const NAMESPACED: Rules = Rules {
    namespaced: true,
    name: NameRule::Subdomain,
    status: false,
    born_with_status: false,
    convert: None,
    reset: None,
    generation: &[],
    create_on_update: false,
    unconditional: true,
    default: keep,
    prepare_create: keep,
    prepare_update: keep_update,
    validate: accept,
    validate_update: accept_update,
    validate_new: accept,
    validate_status: accept_update,
};

const CLUSTER: Rules = Rules {
    namespaced: false,
    ..NAMESPACED
};

/// A kind with a status and a counted specification.
const WORKLOAD: Rules = Rules {
    status: true,
    generation: &["spec"],
    ..NAMESPACED
};

const fn entry(
    group: &'static str,
    version: &'static str,
    kind: &'static str,
    rules: Rules,
) -> BuiltIn {
    BuiltIn {
        group,
        version,
        kind,
        rules,
        schema: OnceLock::new(),
        versions: Versions::built_in(kind, super::schema_in, super::in_version),
        empty: OnceLock::new(),
    }
}

const RBAC: &str = "rbac.authorization.k8s.io";
const NETWORKING: &str = "networking.k8s.io";
const STORAGE: &str = "storage.k8s.io";
const FLOW: &str = "flowcontrol.apiserver.k8s.io";
const DEVICES: &str = "resource.k8s.io";
const ADMISSION: &str = "admissionregistration.k8s.io";
const AUTHORIZATION: &str = "authorization.k8s.io";
const AUTHENTICATION: &str = "authentication.k8s.io";

pub(super) static KINDS: [BuiltIn; 69] = [
    entry("", "v1", "Binding", NAMESPACED),
    entry("", "v1", "ComponentStatus", CLUSTER),
    entry(
        "",
        "v1",
        "ConfigMap",
        Rules {
            validate: config::validate_config_map,
            validate_update: config::validate_config_map_update,
            ..NAMESPACED
        },
    ),
    entry(
        "",
        "v1",
        "Endpoints",
        Rules {
            default: subsets::default_endpoints,
            validate_new: subsets::validate_new,
            validate_update: subsets::validate_update,
            ..NAMESPACED
        },
    ),
    entry(
        "",
        "v1",
        "Event",
        Rules {
            name: NameRule::PathSegment,
            create_on_update: true,
            convert: Some(events::to_core),
            validate: events::validate,
            ..NAMESPACED
        },
    ),
    entry(
        "",
        "v1",
        "LimitRange",
        Rules {
            default: quotas::default_limit_range,
            validate: quotas::validate_limit_range,
            ..NAMESPACED
        },
    ),
    entry(
        "",
        "v1",
        "Namespace",
        Rules {
            name: NameRule::Label,
            status: true,
            default: small::default_namespace,
            prepare_create: small::prepare_namespace,
            prepare_update: small::prepare_namespace_update,
            validate: small::validate_namespace,
            validate_status: small::validate_namespace_status,
            ..CLUSTER
        },
    ),
    entry(
        "",
        "v1",
        "Node",
        Rules {
            born_with_status: true,
            status: true,
            default: nodes::default_node,
            prepare_create: small::prepare_node,
            validate_new: nodes::validate_new,
            validate_update: nodes::validate_update,
            validate_status: nodes::validate_status,
            ..CLUSTER
        },
    ),
    entry(
        "",
        "v1",
        "PersistentVolume",
        Rules {
            status: true,
            default: storage::default_volume,
            prepare_create: storage::prepare_volume,
            validate: storage::validate_volume,
            validate_update: storage::validate_volume_update,
            ..CLUSTER
        },
    ),
    entry(
        "",
        "v1",
        "PersistentVolumeClaim",
        Rules {
            status: true,
            default: storage::default_claim,
            prepare_create: storage::prepare_claim,
            validate: storage::validate_claim,
            validate_update: storage::validate_claim_update,
            ..NAMESPACED
        },
    ),
    entry(
        "",
        "v1",
        "Pod",
        Rules {
            default: pod::default_pod,
            prepare_create: pod::prepare_pod,
            prepare_update: pod_changes::prepare,
            validate: pod_rules::validate_pod,
            validate_new: pod_changes::validate_new,
            validate_update: pod_rules::validate_pod_update,
            ..WORKLOAD
        },
    ),
    entry(
        "",
        "v1",
        "PodTemplate",
        Rules {
            generation: &["template"],
            default: workload::default_pod_template,
            validate: pod_rules::validate_pod_template,
            ..NAMESPACED
        },
    ),
    entry(
        "",
        "v1",
        "ReplicationController",
        Rules {
            default: replication::default_controller,
            validate: replication::validate,
            validate_status: workload_rules::validate_counts,
            ..WORKLOAD
        },
    ),
    entry(
        "",
        "v1",
        "ResourceQuota",
        Rules {
            status: true,
            validate: quotas::validate_quota,
            validate_update: quotas::validate_quota_update,
            validate_status: quotas::validate_quota_status,
            ..NAMESPACED
        },
    ),
    entry(
        "",
        "v1",
        "Secret",
        Rules {
            default: config::default_secret,
            prepare_update: config::prepare_secret_update,
            validate: config::validate_secret,
            validate_update: config::validate_secret_update,
            ..NAMESPACED
        },
    ),
    entry(
        "",
        "v1",
        "Service",
        Rules {
            name: NameRule::Label,
            status: true,
            default: service::defaults,
            prepare_create: service::prepare_create,
            prepare_update: service::prepare_update,
            validate: service_rules::validate,
            validate_update: service_rules::validate_update,
            validate_status: service_rules::validate_status,
            ..NAMESPACED
        },
    ),
    entry("", "v1", "ServiceAccount", NAMESPACED),
    entry("apps", "v1", "ControllerRevision", NAMESPACED),
    entry(
        "apps",
        "v1",
        "DaemonSet",
        Rules {
            prepare_create: workload::prepare_daemon_set,
            prepare_update: workload::prepare_daemon_set_update,
            default: workload::default_daemon_set,
            validate: workload_rules::validate_daemon_set,
            validate_update: workload_rules::validate_selector_update,
            ..WORKLOAD
        },
    ),
    entry(
        "apps",
        "v1",
        "Deployment",
        Rules {
            default: workload::default_deployment,
            validate: workload_rules::validate_deployment,
            validate_status: workload_rules::validate_counts,
            validate_update: workload_rules::validate_selector_update,
            ..WORKLOAD
        },
    ),
    entry(
        "apps",
        "v1",
        "ReplicaSet",
        Rules {
            default: workload::default_replica_set,
            validate: workload_rules::validate_replica_set,
            validate_status: workload_rules::validate_counts,
            validate_update: workload_rules::validate_selector_update,
            ..WORKLOAD
        },
    ),
    entry(
        "apps",
        "v1",
        "StatefulSet",
        Rules {
            default: workload::default_stateful_set,
            validate: workload_rules::validate_stateful_set,
            validate_update: workload_rules::validate_stateful_set_update,
            validate_status: workload_rules::validate_counts,
            ..WORKLOAD
        },
    ),
    entry(
        "batch",
        "v1",
        "CronJob",
        Rules {
            default: workload::default_cron_job,
            validate: jobs::validate_cron_job,
            validate_new: jobs::validate_new_cron_job,
            validate_update: jobs::validate_cron_job_update,
            ..WORKLOAD
        },
    ),
    entry(
        "batch",
        "v1",
        "Job",
        Rules {
            default: workload::default_job,
            prepare_create: workload::prepare_job,
            validate: jobs::validate_job,
            validate_update: jobs::validate_job_update,
            validate_status: jobs::validate_status,
            ..WORKLOAD
        },
    ),
    entry(
        "policy",
        "v1",
        "PodDisruptionBudget",
        Rules {
            prepare_create: small::prepare_disruption_budget,
            validate: small::validate_disruption_budget,
            validate_status: small::validate_budget_status,
            ..WORKLOAD
        },
    ),
    entry(
        "certificates.k8s.io",
        "v1",
        "CertificateSigningRequest",
        Rules {
            name: NameRule::PathSegment,
            status: true,
            reset: Some(certificates::reset),
            prepare_update: certificates::prepare_update,
            validate_new: certificates::validate_new,
            validate_update: certificates::validate_update,
            validate_status: certificates::validate_status,
            ..CLUSTER
        },
    ),
    entry(
        "coordination.k8s.io",
        "v1",
        "Lease",
        Rules {
            create_on_update: true,
            unconditional: false,
            validate: small::validate_lease,
            ..NAMESPACED
        },
    ),
    entry(
        "discovery.k8s.io",
        "v1",
        "EndpointSlice",
        Rules {
            generation: &["addressType", "endpoints", "ports"],
            default: endpoints::default_slice,
            validate: endpoints::validate_slice,
            validate_update: endpoints::validate_slice_update,
            ..NAMESPACED
        },
    ),
    entry(
        "events.k8s.io",
        "v1",
        "Event",
        Rules {
            create_on_update: true,
            convert: Some(events::to_events),
            validate: events::validate,
            validate_new: events::validate_new,
            validate_update: events::validate_update,
            ..NAMESPACED
        },
    ),
    entry(
        NETWORKING,
        "v1",
        "Ingress",
        Rules {
            validate: network::validate_ingress,
            validate_new: network::validate_new_ingress,
            validate_status: network::validate_ingress_status,
            ..WORKLOAD
        },
    ),
    entry(
        NETWORKING,
        "v1",
        "IngressClass",
        Rules {
            default: network::default_ingress_class,
            validate_update: network::validate_ingress_class_update,
            generation: &["spec"],
            validate: network::validate_ingress_class,
            ..CLUSTER
        },
    ),
    entry(
        NETWORKING,
        "v1",
        "NetworkPolicy",
        Rules {
            generation: &["spec"],
            default: network::default_policy,
            validate: network::validate_policy,
            ..NAMESPACED
        },
    ),
    entry(
        RBAC,
        "v1",
        "ClusterRole",
        Rules {
            name: NameRule::PathSegment,
            validate: rbac::validate_cluster_role,
            ..CLUSTER
        },
    ),
    entry(
        RBAC,
        "v1",
        "ClusterRoleBinding",
        Rules {
            name: NameRule::PathSegment,
            default: rbac::default_binding,
            validate: rbac::validate_cluster_binding,
            validate_update: rbac::validate_binding_update,
            ..CLUSTER
        },
    ),
    entry(
        RBAC,
        "v1",
        "Role",
        Rules {
            name: NameRule::PathSegment,
            validate: rbac::validate_role,
            ..NAMESPACED
        },
    ),
    entry(
        RBAC,
        "v1",
        "RoleBinding",
        Rules {
            name: NameRule::PathSegment,
            default: rbac::default_binding,
            validate: rbac::validate_binding,
            validate_update: rbac::validate_binding_update,
            ..NAMESPACED
        },
    ),
    entry(
        "scheduling.k8s.io",
        "v1",
        "PriorityClass",
        Rules {
            default: small::default_priority_class,
            validate: small::validate_priority_class,
            validate_update: small::validate_priority_class_update,
            generation: &["value"],
            ..CLUSTER
        },
    ),
    entry(
        STORAGE,
        "v1",
        "StorageClass",
        Rules {
            default: storage::default_class,
            validate: storage::validate_class,
            validate_update: storage::validate_class_update,
            ..CLUSTER
        },
    ),
    entry(
        STORAGE,
        "v1",
        "CSIDriver",
        Rules {
            default: storage::default_driver,
            validate: storage::validate_driver,
            ..CLUSTER
        },
    ),
    entry(STORAGE, "v1", "CSINode", CLUSTER),
    entry(STORAGE, "v1", "CSIStorageCapacity", NAMESPACED),
    entry(
        STORAGE,
        "v1",
        "VolumeAttributesClass",
        Rules {
            prepare_create: storage::prepare_attributes_class,
            validate: storage::validate_attributes_class,
            validate_update: storage::validate_attributes_class_update,
            ..CLUSTER
        },
    ),
    entry(NETWORKING, "v1", "IPAddress", CLUSTER),
    entry(
        NETWORKING,
        "v1",
        "ServiceCIDR",
        Rules {
            status: true,
            validate: network::validate_service_cidr,
            ..CLUSTER
        },
    ),
    entry(
        "node.k8s.io",
        "v1",
        "RuntimeClass",
        Rules {
            validate: small::validate_runtime_class,
            validate_update: small::validate_runtime_class_update,
            ..CLUSTER
        },
    ),
    entry(
        FLOW,
        "v1",
        "FlowSchema",
        Rules {
            default: flow_control::default_schema,
            validate: flow_control::validate_schema,
            validate_status: flow_control::validate_status,
            namespaced: false,
            ..WORKLOAD
        },
    ),
    entry(
        FLOW,
        "v1",
        "PriorityLevelConfiguration",
        Rules {
            default: flow_control::default_level,
            validate: flow_control::validate_level,
            validate_status: flow_control::validate_status,
            namespaced: false,
            ..WORKLOAD
        },
    ),
    entry(
        DEVICES,
        "v1",
        "DeviceClass",
        Rules {
            generation: &["spec"],
            validate: devices::validate_class,
            ..CLUSTER
        },
    ),
    entry(
        DEVICES,
        "v1",
        "ResourceClaim",
        Rules {
            status: true,
            default: devices::default_claim,
            validate_new: devices::validate_new_claim,
            validate_update: devices::validate_spec_update,
            validate_status: devices::validate_status,
            ..NAMESPACED
        },
    ),
    entry(
        DEVICES,
        "v1",
        "ResourceClaimTemplate",
        Rules {
            default: devices::default_template,
            validate_new: devices::validate_new_template,
            validate_update: devices::validate_spec_update,
            ..NAMESPACED
        },
    ),
    entry(
        DEVICES,
        "v1",
        "ResourceSlice",
        Rules {
            generation: &["spec"],
            validate_new: devices::validate_new_slice,
            validate_update: devices::validate_slice_update,
            ..CLUSTER
        },
    ),
    entry(
        STORAGE,
        "v1",
        "VolumeAttachment",
        Rules {
            status: true,
            validate_new: attachments::validate_new,
            validate_update: attachments::validate_update,
            validate_status: attachments::validate_update,
            ..CLUSTER
        },
    ),
    entry(
        "autoscaling",
        "v1",
        "HorizontalPodAutoscaler",
        Rules {
            convert: Some(autoscaler::to_v1),
            default: autoscaler::default_v1,
            prepare_create: autoscaler::prepare_v1,
            prepare_update: autoscaler::prepare_v1_update,
            validate: autoscaler::validate_v1,
            status: true,
            ..NAMESPACED
        },
    ),
    entry(
        "autoscaling",
        "v2",
        "HorizontalPodAutoscaler",
        Rules {
            convert: Some(autoscaler::to_v2),
            default: autoscaler::default_v2,
            validate: workload_rules::validate_autoscaler,
            status: true,
            ..NAMESPACED
        },
    ),
    entry(
        ADMISSION,
        "v1",
        "MutatingWebhookConfiguration",
        Rules {
            default: small::default_mutating_webhooks,
            validate: admission::validate_webhooks,
            generation: &["webhooks"],
            ..CLUSTER
        },
    ),
    entry(
        ADMISSION,
        "v1",
        "ValidatingWebhookConfiguration",
        Rules {
            default: small::default_validating_webhooks,
            validate: admission::validate_webhooks,
            generation: &["webhooks"],
            ..CLUSTER
        },
    ),
    entry(
        ADMISSION,
        "v1",
        "ValidatingAdmissionPolicy",
        Rules {
            default: small::default_policy,
            validate: admission::validate_validating,
            namespaced: false,
            ..WORKLOAD
        },
    ),
    entry(
        ADMISSION,
        "v1",
        "ValidatingAdmissionPolicyBinding",
        Rules {
            default: small::default_policy_binding,
            validate: admission::validate_validating_binding,
            generation: &["spec"],
            ..CLUSTER
        },
    ),
    entry(
        ADMISSION,
        "v1",
        "MutatingAdmissionPolicy",
        Rules {
            default: small::default_policy,
            validate: admission::validate_mutating,
            generation: &["spec"],
            ..CLUSTER
        },
    ),
    entry(
        ADMISSION,
        "v1",
        "MutatingAdmissionPolicyBinding",
        Rules {
            default: small::default_policy_binding,
            validate: admission::validate_mutating_binding,
            generation: &["spec"],
            ..CLUSTER
        },
    ),
    entry(
        "apiregistration.k8s.io",
        "v1",
        "APIService",
        Rules {
            default: api_services::default_api_service,
            name: NameRule::PathSegment,
            status: true,
            validate: api_services::validate,
            validate_status: api_services::validate_status,
            ..CLUSTER
        },
    ),
    entry(
        "apiextensions.k8s.io",
        "v1",
        "CustomResourceDefinition",
        Rules {
            namespaced: false,
            ..WORKLOAD
        },
    ),
    entry(AUTHENTICATION, "v1", "SelfSubjectReview", CLUSTER),
    entry(AUTHENTICATION, "v1", "TokenReview", CLUSTER),
    entry(AUTHENTICATION, "v1", "TokenRequest", NAMESPACED),
    entry(AUTHORIZATION, "v1", "LocalSubjectAccessReview", NAMESPACED),
    entry(AUTHORIZATION, "v1", "SelfSubjectAccessReview", CLUSTER),
    entry(AUTHORIZATION, "v1", "SelfSubjectRulesReview", CLUSTER),
    entry(AUTHORIZATION, "v1", "SubjectAccessReview", CLUSTER),
];
