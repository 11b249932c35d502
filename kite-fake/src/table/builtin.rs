//! Tables of the core kinds, with kubectl's columns, and the list of all printers.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::cells::{NONE, UNSET, count, list, number, or, pairs, plain, text};
use super::{AGE, Column, NAME, age, autoscaler, certificates, others, plumbing, pods, workloads};
use crate::registry::Resource;

/// Makes the cells of an object.
pub(super) type Cells = fn(&Value, Timestamp) -> Vec<Value>;

/// The columns of a kind and what fills them.
pub(super) fn printer(group: &str, kind: &str) -> (&'static [Column], Cells) {
    match (group, kind) {
        ("", "Pod") => (pods::POD, pods::pod),
        ("", "Node") => (workloads::NODE, workloads::node),
        ("", "ReplicationController") | ("apps", "ReplicaSet") => {
            (workloads::REPLICA_SET, workloads::replica_set)
        }
        ("apps", "Deployment") => (workloads::DEPLOYMENT, workloads::deployment),
        ("apps", "StatefulSet") => (workloads::STATEFUL_SET, workloads::stateful_set),
        ("apps", "DaemonSet") => (workloads::DAEMON_SET, workloads::daemon_set),
        ("batch", "Job") => (workloads::JOB, workloads::job),
        ("batch", "CronJob") => (workloads::CRON_JOB, workloads::cron_job),
        ("", "ConfigMap") => (CONFIG_MAP, config_map),
        ("", "Secret") => (SECRET, secret),
        ("", "Service") => (SERVICE, service),
        ("", "Namespace") => (NAMESPACE, namespace),
        ("", "ServiceAccount") => (SERVICE_ACCOUNT, service_account),
        ("", "PersistentVolume") => (others::VOLUME, others::volume),
        ("", "PersistentVolumeClaim") => (others::CLAIM, others::claim),
        ("", "Endpoints") => (ENDPOINTS, endpoints),
        ("" | "events.k8s.io", "Event") => (EVENT, event),
        ("", "ResourceQuota") => (QUOTA, quota),
        ("discovery.k8s.io", "EndpointSlice") => (SLICE, slice),
        ("networking.k8s.io", "Ingress") => (others::INGRESS, others::ingress),
        ("networking.k8s.io", "IngressClass") => (others::INGRESS_CLASS, others::ingress_class),
        ("networking.k8s.io", "NetworkPolicy") => (others::POLICY, others::policy),
        ("certificates.k8s.io", "CertificateSigningRequest") => {
            (certificates::REQUEST, certificates::request)
        }
        ("coordination.k8s.io", "Lease") => (others::LEASE, others::lease),
        ("rbac.authorization.k8s.io", "RoleBinding") => (others::BINDING, others::binding),
        ("rbac.authorization.k8s.io", "ClusterRoleBinding") => {
            (others::CLUSTER_BINDING, others::binding)
        }
        ("storage.k8s.io", "StorageClass") => (others::STORAGE_CLASS, others::storage_class),
        ("policy", "PodDisruptionBudget") => (others::BUDGET, others::budget),
        ("scheduling.k8s.io", "PriorityClass") => (others::PRIORITY, others::priority),
        ("apiregistration.k8s.io", "APIService") => (others::API_SERVICE, others::api_service),
        ("", "ComponentStatus") => (plumbing::COMPONENT, plumbing::component),
        ("", "PodTemplate") => (plumbing::POD_TEMPLATE, plumbing::pod_template),
        ("apps", "ControllerRevision") => (plumbing::REVISION, plumbing::revision),
        ("autoscaling", "HorizontalPodAutoscaler") => {
            (autoscaler::AUTOSCALER, autoscaler::autoscaler)
        }
        ("storage.k8s.io", "CSIDriver") => (plumbing::DRIVER, plumbing::driver),
        ("storage.k8s.io", "CSINode") => (plumbing::CSI_NODE, plumbing::csi_node),
        ("storage.k8s.io", "VolumeAttachment") => (plumbing::ATTACHMENT, plumbing::attachment),
        (
            "admissionregistration.k8s.io",
            "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration",
        ) => (plumbing::WEBHOOKS, plumbing::webhooks),
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy") => {
            (plumbing::ADMISSION_POLICY, plumbing::admission_policy)
        }
        ("admissionregistration.k8s.io", "MutatingAdmissionPolicy") => {
            (plumbing::MUTATING_POLICY, plumbing::mutating_policy)
        }
        (
            "admissionregistration.k8s.io",
            "ValidatingAdmissionPolicyBinding" | "MutatingAdmissionPolicyBinding",
        ) => (plumbing::ADMISSION_BINDING, plumbing::admission_binding),
        _ => (CREATED, created),
    }
}

/// What a row says beside its cells: a Pod that has run is over.
pub(super) fn condition(resource: &Resource, object: &Value) -> Option<Value> {
    if resource.is_custom() || resource.kind != "Pod" {
        return None;
    }
    let phase = text(object, "/status/phase");
    let message = match phase {
        "Succeeded" => "The pod has completed successfully.",
        "Failed" => "The pod failed.",
        _ => return None,
    };
    Some(json!({
        "type": "Completed",
        "status": "True",
        "reason": phase,
        "message": message,
    }))
}

const CREATED: &[Column] = &[
    NAME,
    Column {
        kind: "date",
        ..Column::text("Created At", "metadata.creationTimestamp")
    },
];

/// What kinds without columns of their own show.
fn created(object: &Value, _: Timestamp) -> Vec<Value> {
    vec![
        object["metadata"]["name"].clone(),
        object["metadata"]["creationTimestamp"].clone(),
    ]
}

const CONFIG_MAP: &[Column] = &[NAME, Column::text("Data", "data"), AGE];

fn config_map(object: &Value, now: Timestamp) -> Vec<Value> {
    let data = count(object, "/data") + count(object, "/binaryData");
    vec![
        object["metadata"]["name"].clone(),
        json!(data),
        age::of(object, now),
    ]
}

const SECRET: &[Column] = &[
    NAME,
    Column::text("Type", "type"),
    Column::text("Data", "data"),
    AGE,
];

fn secret(object: &Value, now: Timestamp) -> Vec<Value> {
    let data = count(object, "/data");
    vec![
        object["metadata"]["name"].clone(),
        text(object, "/type").into(),
        json!(data),
        age::of(object, now),
    ]
}

const SERVICE: &[Column] = &[
    NAME,
    Column::text("Type", "spec.type"),
    Column::text("Cluster-IP", "spec.clusterIP"),
    Column::text("External-IP", "spec.externalIPs"),
    Column::text("Port(s)", "spec.ports"),
    AGE,
    Column::text("Selector", "spec.selector").wide(),
];

fn service(object: &Value, now: Timestamp) -> Vec<Value> {
    let ports: Vec<String> = list(object, "/spec/ports")
        .iter()
        .map(|port| {
            let protocol = or(text(port, "/protocol"), "TCP");
            match number(port, "/nodePort") {
                0 => format!("{}/{protocol}", plain(&port["port"])),
                node => format!("{}:{node}/{protocol}", plain(&port["port"])),
            }
        })
        .collect();
    vec![
        object["metadata"]["name"].clone(),
        text(object, "/spec/type").into(),
        or(
            list(object, "/spec/clusterIPs")
                .first()
                .and_then(Value::as_str)
                .unwrap_or_else(|| text(object, "/spec/clusterIP")),
            NONE,
        )
        .into(),
        external_addresses(object).into(),
        or(&ports.join(","), NONE).into(),
        age::of(object, now),
        pairs(&object["spec"]["selector"]).into(),
    ]
}

fn external_addresses(object: &Value) -> String {
    let own = list(object, "/spec/externalIPs").iter().map(plain);
    let (addresses, nothing): (Vec<String>, _) = match text(object, "/spec/type") {
        "ExternalName" => return text(object, "/spec/externalName").to_owned(),
        "LoadBalancer" => (
            balancers(object).into_iter().chain(own).collect(),
            "<pending>",
        ),
        _ => (own.collect(), NONE),
    };
    or(&addresses.join(","), nothing).to_owned()
}

/// Addresses of `status.loadBalancer`, sorted.
pub(super) fn balancers(object: &Value) -> BTreeSet<String> {
    list(object, "/status/loadBalancer/ingress")
        .iter()
        .map(|point| or(text(point, "/ip"), text(point, "/hostname")).to_owned())
        .filter(|address| !address.is_empty())
        .collect()
}

const NAMESPACE: &[Column] = &[
    NAME,
    Column::text("Status", "The status of the namespace"),
    AGE,
];

fn namespace(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![
        object["metadata"]["name"].clone(),
        text(object, "/status/phase").into(),
        age::of(object, now),
    ]
}

const SERVICE_ACCOUNT: &[Column] = &[NAME, Column::text("Secrets", "secrets"), AGE];

fn service_account(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![
        object["metadata"]["name"].clone(),
        json!(count(object, "/secrets")),
        age::of(object, now),
    ]
}

const ENDPOINTS: &[Column] = &[NAME, Column::text("Endpoints", "subsets"), AGE];

fn endpoints(object: &Value, now: Timestamp) -> Vec<Value> {
    let mut pairs: Vec<String> = Vec::new();
    for subset in list(object, "/subsets") {
        let addresses = list(subset, "/addresses");
        let ports = list(subset, "/ports");
        if ports.is_empty() {
            pairs.extend(addresses.iter().map(|a| text(a, "/ip").to_owned()));
        }
        for port in ports {
            pairs.extend(addresses.iter().map(|address| {
                let ip = text(address, "/ip");
                let port = plain(&port["port"]);
                if ip.contains(':') {
                    format!("[{ip}]:{port}")
                } else {
                    format!("{ip}:{port}")
                }
            }));
        }
    }
    vec![
        object["metadata"]["name"].clone(),
        few(&pairs).into(),
        age::of(object, now),
    ]
}

/// The first three of a list and how many more there are.
pub(super) fn few(items: &[String]) -> String {
    match items {
        [] => NONE.to_owned(),
        [a, b, c, rest @ ..] if !rest.is_empty() => format!("{a},{b},{c} + {} more...", rest.len()),
        all => all.join(","),
    }
}

const SLICE: &[Column] = &[
    NAME,
    Column::text("AddressType", "addressType"),
    Column::text("Ports", "ports"),
    Column::text("Endpoints", "endpoints"),
    AGE,
];

fn slice(object: &Value, now: Timestamp) -> Vec<Value> {
    let ports: Vec<String> = list(object, "/ports")
        .iter()
        .map(|port| match (&port["port"], &port["name"]) {
            (Value::Null, Value::Null) => "*".to_owned(),
            (Value::Null, name) => plain(name),
            (number, _) => plain(number),
        })
        .collect();
    let addresses: Vec<String> = list(object, "/endpoints")
        .iter()
        .flat_map(|e| list(e, "/addresses"))
        .map(plain)
        .collect();
    let unset = |text: String| {
        if text == NONE { UNSET.to_owned() } else { text }
    };
    vec![
        object["metadata"]["name"].clone(),
        text(object, "/addressType").into(),
        unset(few(&ports)).into(),
        unset(few(&addresses)).into(),
        age::of(object, now),
    ]
}

const EVENT: &[Column] = &[
    Column::text("Last Seen", "lastTimestamp"),
    Column::text("Type", "type"),
    Column::text("Reason", "reason"),
    Column::text("Object", "involvedObject"),
    Column::text("Subobject", "involvedObject.fieldPath").wide(),
    Column::text("Source", "source").wide(),
    Column::text("Message", "message"),
    Column::text("First Seen", "firstTimestamp").wide(),
    Column::text("Count", "count").wide(),
    Column {
        priority: 1,
        ..NAME
    },
];

fn event(object: &Value, now: Timestamp) -> Vec<Value> {
    // events.k8s.io keeps what both versions have under names of its own.
    let either = |a: &str, b: &str| {
        object
            .pointer(a)
            .filter(|v| !v.is_null())
            .or(object.pointer(b))
            .cloned()
    };
    let time = |a: &str, b: &str| {
        either(a, b)
            .filter(|v| !v.is_null())
            .or_else(|| object.get("eventTime").cloned())
            .unwrap_or(Value::Null)
    };
    let about = either("/involvedObject", "/regarding").unwrap_or(Value::Null);
    let component = text(object, "/source/component");
    let component = or(
        component,
        or(
            text(object, "/reportingComponent"),
            text(object, "/reportingController"),
        ),
    );
    let host = or(
        text(object, "/source/host"),
        text(object, "/reportingInstance"),
    );
    let source = match host {
        "" => component.to_owned(),
        host => format!("{component}, {host}"),
    };
    let first = age::since(&time("/firstTimestamp", "/deprecatedFirstTimestamp"), now);
    let mut last = match either("/lastTimestamp", "/deprecatedLastTimestamp") {
        Some(time) if !time.is_null() => age::since(&time, now),
        _ => first.clone(),
    };
    let mut count = either("/count", "/deprecatedCount")
        .and_then(|c| c.as_i64())
        .filter(|c| *c != 0)
        .unwrap_or(1);
    if object["series"].is_object() {
        last = age::since(&object["series"]["lastObservedTime"], now);
        count = number(object, "/series/count");
    }
    let kind = text(&about, "/kind").to_lowercase();
    let target = match text(&about, "/name") {
        "" => kind,
        name => format!("{kind}/{name}"),
    };
    vec![
        last.into(),
        text(object, "/type").into(),
        text(object, "/reason").into(),
        target.into(),
        text(&about, "/fieldPath").into(),
        source.into(),
        either("/message", "/note")
            .as_ref()
            .and_then(Value::as_str)
            .unwrap_or_default()
            .trim()
            .into(),
        first.into(),
        count.into(),
        object["metadata"]["name"].clone(),
    ]
}

const QUOTA: &[Column] = &[
    NAME,
    Column::text(
        "Request",
        "Request represents a minimum amount of cpu/memory that a container may consume.",
    ),
    Column::text(
        "Limit",
        "Limits control the maximum amount of cpu/memory that a container may use independent of contention on the node.",
    ),
    AGE,
];

fn quota(object: &Value, now: Timestamp) -> Vec<Value> {
    let (mut requests, mut limits) = (Vec::new(), Vec::new());
    for (name, hard) in object["status"]["hard"].as_object().into_iter().flatten() {
        let used = plain(&object["status"]["used"][name]);
        let text = format!("{name}: {}/{}", or(&used, "0"), plain(hard));
        if name.starts_with("limits.") {
            limits.push(text);
        } else {
            requests.push(text);
        }
    }
    vec![
        object["metadata"]["name"].clone(),
        requests.join(", ").into(),
        limits.join(", ").into(),
        age::of(object, now),
    ]
}
