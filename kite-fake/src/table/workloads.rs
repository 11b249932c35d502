//! Tables of Nodes and of what runs Pods.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::cells::{NONE, UNSET, joined, list, number, or, pairs, selector, text};
use super::{AGE, Column, NAME, age};

const CONTAINERS: Column =
    Column::text("Containers", "Names of each container in the template.").wide();
const IMAGES: Column = Column::text(
    "Images",
    "Images referenced by each container in the template.",
)
.wide();
const SELECTOR: Column = Column::text("Selector", "spec.selector").wide();

pub(super) const NODE: &[Column] = &[
    NAME,
    Column::text("Status", "The status of the node"),
    Column::text("Roles", "The roles of the node"),
    AGE,
    Column::text("Version", "Kubelet Version reported by the node."),
    Column::text("Internal-IP", "status.addresses").wide(),
    Column::text("External-IP", "status.addresses").wide(),
    Column::text("OS-Image", "OS Image reported by the node").wide(),
    Column::text("Kernel-Version", "Kernel Version reported by the node").wide(),
    Column::text(
        "Container-Runtime",
        "ContainerRuntime Version reported by the node",
    )
    .wide(),
];

pub(super) fn node(node: &Value, now: Timestamp) -> Vec<Value> {
    let ready = list(node, "/status/conditions")
        .iter()
        .find(|c| c["type"] == "Ready");
    let mut status = match ready.and_then(|c| c["status"].as_str()) {
        Some("True") => "Ready".to_owned(),
        Some(_) => "NotReady".to_owned(),
        None => "Unknown".to_owned(),
    };
    if node["spec"]["unschedulable"] == true {
        status.push_str(",SchedulingDisabled");
    }
    let mut roles: Vec<&str> = node["metadata"]["labels"]
        .as_object()
        .into_iter()
        .flatten()
        .filter_map(
            |(key, value)| match key.strip_prefix("node-role.kubernetes.io/") {
                Some(role) if !role.is_empty() => Some(role),
                _ if key == "kubernetes.io/role" => value.as_str(),
                _ => None,
            },
        )
        .collect();
    roles.sort_unstable();
    let address = |kind: &str| {
        let found = list(node, "/status/addresses")
            .iter()
            .find(|a| a["type"] == kind);
        Value::from(or(found.map_or("", |a| text(a, "/address")), NONE))
    };
    let info = |name: &str| {
        Value::from(or(
            text(node, &format!("/status/nodeInfo/{name}")),
            "<unknown>",
        ))
    };
    vec![
        node["metadata"]["name"].clone(),
        status.into(),
        or(&roles.join(","), NONE).into(),
        age::of(node, now),
        text(node, "/status/nodeInfo/kubeletVersion").into(),
        address("InternalIP"),
        address("ExternalIP"),
        info("osImage"),
        info("kernelVersion"),
        info("containerRuntimeVersion"),
    ]
}

/// The wide cells of everything with a Pod template.
fn template(object: &Value, pointer: &str) -> [Value; 2] {
    let containers = list(object, pointer);
    [
        joined(containers, "name").into(),
        joined(containers, "image").into(),
    ]
}

const TEMPLATE: &str = "/spec/template/spec/containers";

pub(super) const DEPLOYMENT: &[Column] = &[
    NAME,
    Column::text("Ready", "Number of the pod with ready state"),
    Column::text("Up-to-date", "status.updatedReplicas"),
    Column::text("Available", "status.availableReplicas"),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];

pub(super) fn deployment(object: &Value, now: Timestamp) -> Vec<Value> {
    let [containers, images] = template(object, TEMPLATE);
    vec![
        object["metadata"]["name"].clone(),
        format!(
            "{}/{}",
            number(object, "/status/readyReplicas"),
            number(object, "/spec/replicas")
        )
        .into(),
        number(object, "/status/updatedReplicas").into(),
        number(object, "/status/availableReplicas").into(),
        age::of(object, now),
        containers,
        images,
        selector(&object["spec"]["selector"]).into(),
    ]
}

pub(super) const REPLICA_SET: &[Column] = &[
    NAME,
    Column::number("Desired", "spec.replicas"),
    Column::number("Current", "status.replicas"),
    Column::number("Ready", "status.readyReplicas"),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];

pub(super) fn replica_set(object: &Value, now: Timestamp) -> Vec<Value> {
    let [containers, images] = template(object, TEMPLATE);
    let wanted = &object["spec"]["selector"];
    // A ReplicationController's selector is a plain map.
    let chosen = if wanted.get("matchLabels").is_some() || wanted.get("matchExpressions").is_some()
    {
        selector(wanted)
    } else {
        pairs(wanted)
    };
    vec![
        object["metadata"]["name"].clone(),
        number(object, "/spec/replicas").into(),
        number(object, "/status/replicas").into(),
        number(object, "/status/readyReplicas").into(),
        age::of(object, now),
        containers,
        images,
        chosen.into(),
    ]
}

pub(super) const STATEFUL_SET: &[Column] = &[
    NAME,
    Column::text("Ready", "Number of the pod with ready state"),
    AGE,
    CONTAINERS,
    IMAGES,
];

pub(super) fn stateful_set(object: &Value, now: Timestamp) -> Vec<Value> {
    let [containers, images] = template(object, TEMPLATE);
    vec![
        object["metadata"]["name"].clone(),
        format!(
            "{}/{}",
            number(object, "/status/readyReplicas"),
            number(object, "/spec/replicas")
        )
        .into(),
        age::of(object, now),
        containers,
        images,
    ]
}

pub(super) const DAEMON_SET: &[Column] = &[
    NAME,
    Column::number("Desired", "status.desiredNumberScheduled"),
    Column::number("Current", "status.currentNumberScheduled"),
    Column::number("Ready", "status.numberReady"),
    Column::number("Up-to-date", "status.updatedNumberScheduled"),
    Column::number("Available", "status.numberAvailable"),
    Column::text("Node Selector", "spec.template.spec.nodeSelector"),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];

pub(super) fn daemon_set(object: &Value, now: Timestamp) -> Vec<Value> {
    let [containers, images] = template(object, TEMPLATE);
    let status = |name: &str| Value::from(number(object, &format!("/status/{name}")));
    vec![
        object["metadata"]["name"].clone(),
        status("desiredNumberScheduled"),
        status("currentNumberScheduled"),
        status("numberReady"),
        status("updatedNumberScheduled"),
        status("numberAvailable"),
        pairs(&object["spec"]["template"]["spec"]["nodeSelector"]).into(),
        age::of(object, now),
        containers,
        images,
        selector(&object["spec"]["selector"]).into(),
    ]
}

pub(super) const JOB: &[Column] = &[
    NAME,
    Column::text("Status", "Status of the job."),
    Column::text("Completions", "status.succeeded"),
    Column::text("Duration", "Time required to complete the job."),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];

pub(super) fn job(object: &Value, now: Timestamp) -> Vec<Value> {
    let [containers, images] = template(object, TEMPLATE);
    let holds = |kind: &str| {
        list(object, "/status/conditions")
            .iter()
            .any(|c| c["type"] == kind && c["status"] == "True")
    };
    let status = if holds("Complete") {
        "Complete"
    } else if holds("Failed") {
        "Failed"
    } else if !object["metadata"]["deletionTimestamp"].is_null() {
        "Terminating"
    } else if holds("Suspended") {
        "Suspended"
    } else if holds("FailureTarget") {
        "FailureTarget"
    } else {
        "Running"
    };
    let wanted = object.pointer("/spec/completions").and_then(Value::as_i64);
    let done = number(object, "/status/succeeded");
    let completions = match (wanted, number(object, "/spec/parallelism")) {
        (Some(wanted), _) => format!("{done}/{wanted}"),
        (None, parallelism @ 2..) => format!("{done}/1 of {parallelism}"),
        (None, _) => format!("{done}/1"),
    };
    let time = |pointer: &str| text(object, pointer).parse::<Timestamp>().ok();
    let duration = time("/status/startTime").map_or_else(String::new, |start| {
        let end = time("/status/completionTime").unwrap_or(now);
        age::human_duration(end.as_second() - start.as_second())
    });
    vec![
        object["metadata"]["name"].clone(),
        status.into(),
        completions.into(),
        duration.into(),
        age::of(object, now),
        containers,
        images,
        selector(&object["spec"]["selector"]).into(),
    ]
}

pub(super) const CRON_JOB: &[Column] = &[
    NAME,
    Column::text("Schedule", "spec.schedule"),
    Column::text("Timezone", "spec.timeZone"),
    Column::flag("Suspend", "spec.suspend"),
    Column::number("Active", "status.active"),
    Column::text("Last Schedule", "status.lastScheduleTime"),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];

pub(super) fn cron_job(object: &Value, now: Timestamp) -> Vec<Value> {
    let [containers, images] = template(object, "/spec/jobTemplate/spec/template/spec/containers");
    let last = &object["status"]["lastScheduleTime"];
    let suspended = match &object["spec"]["suspend"] {
        Value::Bool(true) => "True",
        Value::Bool(false) => "False",
        _ => UNSET,
    };
    vec![
        object["metadata"]["name"].clone(),
        text(object, "/spec/schedule").into(),
        or(text(object, "/spec/timeZone"), NONE).into(),
        suspended.into(),
        json!(list(object, "/status/active").len()),
        if last.is_null() {
            NONE.into()
        } else {
            age::since(last, now).into()
        },
        age::of(object, now),
        containers,
        images,
        selector(&object["spec"]["jobTemplate"]["spec"]["selector"]).into(),
    ]
}
