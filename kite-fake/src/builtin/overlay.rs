//! What generated schemas leave out: how lists are keyed, which objects are
//! atomic, how strategic merge patches merge, and which members Go's types
//! always write. Taken from the markers on the Kubernetes API types.

use serde_json::{Map, Value, json};

/// A list whose elements are told apart.
struct Keyed {
    /// Type and member.
    place: (&'static str, &'static str),
    /// Key members for server-side apply; none: the list is atomic there.
    keys: &'static [&'static str],
    /// Key member for strategic merge patch.
    merge_key: &'static str,
    /// `merge` or `merge,retainKeys`; empty: lists are replaced.
    strategy: &'static str,
}

const fn keyed(
    of: &'static str,
    member: &'static str,
    keys: &'static [&'static str],
    merge_key: &'static str,
    strategy: &'static str,
) -> Keyed {
    Keyed {
        place: (of, member),
        keys,
        merge_key,
        strategy,
    }
}

const KEYED: &[Keyed] = &[
    keyed(
        "ServiceSpec",
        "ports",
        &["port", "protocol"],
        "port",
        "merge",
    ),
    keyed("PodSpec", "containers", &["name"], "name", "merge"),
    keyed("PodSpec", "initContainers", &["name"], "name", "merge"),
    keyed("PodSpec", "ephemeralContainers", &["name"], "name", "merge"),
    keyed("PodSpec", "volumes", &["name"], "name", "merge,retainKeys"),
    keyed("PodSpec", "imagePullSecrets", &["name"], "name", "merge"),
    keyed("PodSpec", "hostAliases", &["ip"], "ip", "merge"),
    keyed("PodSpec", "schedulingGates", &["name"], "name", "merge"),
    keyed(
        "PodSpec",
        "resourceClaims",
        &["name"],
        "name",
        "merge,retainKeys",
    ),
    keyed(
        "PodSpec",
        "topologySpreadConstraints",
        &["topologyKey", "whenUnsatisfiable"],
        "topologyKey",
        "merge",
    ),
    keyed("PodStatus", "hostIPs", &[], "ip", "merge"),
    keyed("PodStatus", "podIPs", &["ip"], "ip", "merge"),
    keyed(
        "PodStatus",
        "resourceClaimStatuses",
        &["name"],
        "name",
        "merge,retainKeys",
    ),
    keyed(
        "ContainerStatus",
        "allocatedResourcesStatus",
        &["name"],
        "name",
        "merge",
    ),
    keyed(
        "ContainerStatus",
        "volumeMounts",
        &["mountPath"],
        "mountPath",
        "merge",
    ),
    keyed("ResourceRequirements", "claims", &["name"], "", ""),
    keyed("NodeStatus", "addresses", &["type"], "type", "merge"),
    keyed("ServiceAccount", "secrets", &["name"], "name", "merge"),
    keyed("CSINodeSpec", "drivers", &["name"], "name", "merge"),
    keyed(
        "MutatingWebhookConfiguration",
        "webhooks",
        &["name"],
        "name",
        "merge",
    ),
    keyed(
        "ValidatingWebhookConfiguration",
        "webhooks",
        &["name"],
        "name",
        "merge",
    ),
    keyed(
        "ValidatingAdmissionPolicySpec",
        "matchConditions",
        &["name"],
        "name",
        "merge",
    ),
    keyed(
        "ValidatingAdmissionPolicySpec",
        "variables",
        &["name"],
        "name",
        "merge",
    ),
    keyed(
        "MutatingWebhook",
        "matchConditions",
        &["name"],
        "name",
        "merge",
    ),
    keyed(
        "ValidatingWebhook",
        "matchConditions",
        &["name"],
        "name",
        "merge",
    ),
    // Atomic for server-side apply, merged by strategic merge patches.
    keyed("JobStatus", "conditions", &[], "type", "merge"),
    keyed("ObjectMeta", "ownerReferences", &["uid"], "uid", "merge"),
];

/// Lists of the container types, which share them.
const CONTAINER_LISTS: &[(&str, &[&str], &str)] = &[
    ("env", &["name"], "name"),
    ("ports", &["containerPort", "protocol"], "containerPort"),
    ("volumeMounts", &["mountPath"], "mountPath"),
    ("volumeDevices", &["devicePath"], "devicePath"),
];

/// Lists of unique scalars.
const SETS: &[(&str, &str)] = &[
    ("ObjectMeta", "finalizers"),
    ("NodeSpec", "podCIDRs"),
    ("EndpointSliceEndpoint", "addresses"),
    ("CSIDriverSpec", "volumeLifecycleModes"),
];

/// Lists of scalars that strategic merge patches add to.
const MERGED_SCALARS: &[(&str, &str)] = &[("ObjectMeta", "finalizers"), ("NodeSpec", "podCIDRs")];

/// Types whose objects are one field.
const ATOMIC_TYPES: &[&str] = &[
    "ConfigMapKeySelector",
    "FileKeySelector",
    "LabelSelector",
    "LocalObjectReference",
    "NodeSelector",
    "NodeSelectorTerm",
    "ObjectFieldSelector",
    "ObjectReference",
    "OwnerReference",
    "ResourceFieldSelector",
    "RoleRef",
    "ScopeSelector",
    "ScopedResourceSelectorRequirement",
    "SecretKeySelector",
    "SecretReference",
    "Subject",
    "TopologySelectorTerm",
    "TypedLocalObjectReference",
];

/// Members that are one field although their type is not, or the other way round.
const ATOMIC_MEMBERS: &[(&str, &str)] = &[
    ("ServiceSpec", "selector"),
    ("PodSpec", "nodeSelector"),
    ("ReplicationControllerSpec", "selector"),
];
const GRANULAR_MEMBERS: &[(&str, &str)] = &[("PersistentVolumeSpec", "claimRef")];

/// Structs that Go always writes, although they may be empty.
const ALWAYS: &[(&str, &str)] = &[
    ("Container", "resources"),
    ("EphemeralContainer", "resources"),
    ("ContainerStatus", "state"),
    ("ContainerStatus", "lastState"),
    ("DaemonSetSpec", "updateStrategy"),
    ("DeploymentSpec", "strategy"),
    ("StatefulSetSpec", "updateStrategy"),
    ("EndpointSliceEndpoint", "conditions"),
    ("Event", "source"),
    ("Event", "reportingComponent"),
    ("Event", "reportingInstance"),
    ("NewEvent", "deprecatedSource"),
    ("NewEvent", "regarding"),
    ("IngressServiceBackend", "port"),
    ("IngressStatus", "loadBalancer"),
    ("JobTemplateSpec", "metadata"),
    ("JobTemplateSpec", "spec"),
    ("NetworkPolicySpec", "podSelector"),
    ("NodeStatus", "daemonEndpoints"),
    ("NodeStatus", "nodeInfo"),
    ("NodeDaemonEndpoints", "kubeletEndpoint"),
    ("PersistentVolumeClaimSpec", "resources"),
    ("PersistentVolumeClaimTemplate", "metadata"),
    ("PodTemplate", "template"),
    ("PodTemplateSpec", "metadata"),
    ("PodTemplateSpec", "spec"),
    ("ServiceStatus", "loadBalancer"),
    ("StatefulSetStatus", "availableReplicas"),
];

/// Times and pointers that Go writes as `null` when they are not set.
const ALWAYS_NULL: &[(&str, &str)] = &[
    ("ContainerStateRunning", "startedAt"),
    ("ContainerStateTerminated", "finishedAt"),
    ("ContainerStateTerminated", "startedAt"),
    ("CustomResourceDefinitionCondition", "lastTransitionTime"),
    ("CustomResourceDefinitionStatus", "conditions"),
    ("CustomResourceDefinitionStatus", "storedVersions"),
    ("DaemonSetSpec", "selector"),
    ("DeploymentCondition", "lastTransitionTime"),
    ("DeploymentCondition", "lastUpdateTime"),
    ("DeploymentSpec", "selector"),
    ("NewEvent", "deprecatedFirstTimestamp"),
    ("NewEvent", "deprecatedLastTimestamp"),
    ("NewEvent", "eventTime"),
    ("Event", "eventTime"),
    ("Event", "firstTimestamp"),
    ("Event", "lastTimestamp"),
    ("HTTPIngressPath", "pathType"),
    ("JobCondition", "lastProbeTime"),
    ("JobCondition", "lastTransitionTime"),
    ("NamespaceCondition", "lastTransitionTime"),
    ("NodeCondition", "lastHeartbeatTime"),
    ("NodeCondition", "lastTransitionTime"),
    ("PersistentVolumeClaimCondition", "lastProbeTime"),
    ("PersistentVolumeClaimCondition", "lastTransitionTime"),
    ("PodCondition", "lastProbeTime"),
    ("PodCondition", "lastTransitionTime"),
    ("ReplicaSetCondition", "lastTransitionTime"),
    ("ReplicaSetSpec", "selector"),
    ("Role", "rules"),
    ("ClusterRole", "rules"),
    ("StatefulSetSpec", "selector"),
];

/// Strings behind pointers: the empty one is kept.
const POINTERS: &[&str] = &[
    "appProtocol",
    "volumeAttributesClassName",
    "storageClassName",
    "ingressClassName",
    "holderIdentity",
    "runtimeClassName",
    "loadBalancerClass",
    "pathType",
    "reclaimPolicy",
    "volumeBindingMode",
    "volumeMode",
    "persistentVolumeName",
];

/// Numbers and flags that are no pointers: zero and `false` are left out.
const PLAIN: &[(&str, &str)] = &[
    ("Container", "stdin"),
    ("Container", "stdinOnce"),
    ("Container", "tty"),
    ("ContainerPort", "hostPort"),
    ("DaemonSetSpec", "minReadySeconds"),
    ("DeploymentSpec", "minReadySeconds"),
    ("DeploymentSpec", "paused"),
    ("DeploymentStatus", "availableReplicas"),
    ("DeploymentStatus", "readyReplicas"),
    ("DeploymentStatus", "replicas"),
    ("DeploymentStatus", "unavailableReplicas"),
    ("DeploymentStatus", "updatedReplicas"),
    ("Event", "count"),
    ("JobStatus", "active"),
    ("JobStatus", "failed"),
    ("JobStatus", "succeeded"),
    ("NodeSpec", "unschedulable"),
    ("ObjectMeta", "generation"),
    ("PodSpec", "hostIPC"),
    ("PodSpec", "hostNetwork"),
    ("PodSpec", "hostPID"),
    ("Probe", "failureThreshold"),
    ("Probe", "initialDelaySeconds"),
    ("Probe", "periodSeconds"),
    ("Probe", "successThreshold"),
    ("Probe", "timeoutSeconds"),
    ("ReplicaSetSpec", "minReadySeconds"),
    ("ServicePort", "nodePort"),
    ("ServiceBackendPort", "number"),
    ("ServiceSpec", "healthCheckNodePort"),
    ("ServiceSpec", "publishNotReadyAddresses"),
    ("StatefulSetSpec", "minReadySeconds"),
];

/// Plain wherever they occur.
const PLAIN_EVERYWHERE: &[&str] = &["observedGeneration", "readOnly"];

/// Types that hold JSON of any shape.
const OPAQUE: &[&str] = &["FieldsV1", "JSON", "JSONSchemaProps", "RawExtension"];

/// Completes a generated definition in place.
pub(super) fn complete(name: &str, definition: &mut Value, is_kind: bool) {
    complete_type(name, definition);
    if !is_kind {
        return;
    }
    // A kind always has metadata, and spec and status where they are structs.
    if let Some(members) = definition
        .get_mut("properties")
        .and_then(Value::as_object_mut)
    {
        for name in ["metadata", "spec", "status"] {
            if let Some(Value::Object(member)) = members.get_mut(name)
                && member.contains_key("$ref")
            {
                member.insert("x-presence".to_owned(), json!("always"));
            }
        }
    }
}

fn complete_type(name: &str, definition: &mut Value) {
    let short = match name {
        // Two types share this name; the slice's strings are pointers.
        "io.k8s.api.discovery.v1.EndpointPort" => "EndpointSlicePort",
        "io.k8s.api.discovery.v1.Endpoint" => "EndpointSliceEndpoint",
        "io.k8s.api.events.v1.Event" => "NewEvent",
        _ => name.rsplit('.').next().unwrap_or(name),
    };
    let Value::Object(definition) = definition else {
        return;
    };
    if OPAQUE.contains(&short) {
        let description = definition.get("description").cloned();
        definition.clear();
        definition.extend(description.map(|text| ("description".to_owned(), text)));
        definition.insert(
            "x-kubernetes-preserve-unknown-fields".to_owned(),
            json!(true),
        );
        definition.insert("x-kubernetes-map-type".to_owned(), json!("atomic"));
        return;
    }
    match short {
        "Quantity" => {
            definition.insert("format".to_owned(), json!("quantity"));
        }
        "MicroTime" => {
            definition.insert("format".to_owned(), json!("micro-time"));
        }
        "Time" => {
            definition.insert("format".to_owned(), json!("time"));
        }
        _ => {}
    }
    if ATOMIC_TYPES.contains(&short) {
        definition.insert("x-kubernetes-map-type".to_owned(), json!("atomic"));
    }
    let go_type = name.rsplit('.').next().unwrap_or(name).to_owned();
    let required: Vec<String> = definition
        .get("required")
        .and_then(Value::as_array)
        .map(|names| {
            names
                .iter()
                .filter_map(Value::as_str)
                .map(str::to_owned)
                .collect()
        })
        .unwrap_or_default();
    if let Some(Value::Object(members)) = definition.get_mut("properties") {
        for (member, schema) in members {
            if let Value::Object(schema) = schema {
                let is_required = required.contains(member);
                complete_member(short, member, schema, is_required);
            }
        }
    }
    definition.insert("x-go-type".to_owned(), Value::from(go_type));
}

fn complete_member(of: &str, name: &str, schema: &mut Map<String, Value>, required: bool) {
    let place = (of, name);
    if let Some(presence) = presence(place, schema, required) {
        schema.insert("x-presence".to_owned(), json!(presence));
    }
    if matches!(of, "Container" | "EphemeralContainer") {
        for (list, keys, merge_key) in CONTAINER_LISTS {
            if *list == name {
                make_keyed(schema, keys, merge_key, "merge");
            }
        }
    }
    for list in KEYED.iter().filter(|list| list.place == place) {
        make_keyed(schema, list.keys, list.merge_key, list.strategy);
    }
    // Conditions are keyed by type everywhere but in jobs.
    if name == "conditions" && of != "JobStatus" && schema.contains_key("items") {
        make_keyed(schema, &["type"], "type", "merge");
    }
    if SETS.contains(&place) {
        schema.insert("x-kubernetes-list-type".to_owned(), json!("set"));
    }
    if MERGED_SCALARS.contains(&place) {
        schema.insert("x-kubernetes-patch-strategy".to_owned(), json!("merge"));
    }
    if ATOMIC_MEMBERS.contains(&place) {
        schema.insert("x-kubernetes-map-type".to_owned(), json!("atomic"));
    }
    if GRANULAR_MEMBERS.contains(&place) {
        schema.insert("x-kubernetes-map-type".to_owned(), json!("granular"));
    }
    // The keys of these lists have defaults, which identify elements, too.
    if matches!(place, ("ServicePort" | "ContainerPort", "protocol")) {
        schema.insert("default".to_owned(), json!("TCP"));
    }
}

fn make_keyed(schema: &mut Map<String, Value>, keys: &[&str], merge_key: &str, strategy: &str) {
    if !keys.is_empty() {
        schema.insert("x-kubernetes-list-type".to_owned(), json!("map"));
        schema.insert("x-kubernetes-list-map-keys".to_owned(), json!(keys));
    }
    if !strategy.is_empty() {
        schema.insert("x-kubernetes-patch-merge-key".to_owned(), json!(merge_key));
        schema.insert("x-kubernetes-patch-strategy".to_owned(), json!(strategy));
    }
}

/// What Go does with the member's zero value.
fn presence(
    place: (&str, &str),
    schema: &Map<String, Value>,
    required: bool,
) -> Option<&'static str> {
    let (of, name) = place;
    if place == ("ObjectMeta", "managedFields") {
        // An empty list is a request: to forget all owners.
        return None;
    }
    if ALWAYS_NULL.contains(&place) {
        return Some("null");
    }
    let slice = of == "EndpointSliceEndpoint" || of == "EndpointSlicePort";
    if ALWAYS.contains(&place) {
        return Some("always");
    }
    let kind = schema.get("type").and_then(Value::as_str);
    let is_map = schema.contains_key("additionalProperties");
    if required {
        let is_time = schema
            .get("$ref")
            .and_then(Value::as_str)
            .is_some_and(|name| name.ends_with(".Time") || name.ends_with(".MicroTime"));
        return Some(if kind == Some("array") || is_map || is_time {
            "null"
        } else {
            "always"
        });
    }
    match kind {
        Some("string") if slice || POINTERS.contains(&name) => None,
        Some("string" | "array") => Some("omitempty"),
        Some("object") if is_map => Some("omitempty"),
        Some("integer" | "number" | "boolean")
            if PLAIN.contains(&place) || PLAIN_EVERYWHERE.contains(&name) =>
        {
            Some("omitempty")
        }
        _ => None,
    }
}
