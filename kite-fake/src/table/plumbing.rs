//! Tables of the kinds that few people look at: volumes' plumbing, admission,
//! revisions and templates.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::cells::{NONE, UNSET, joined, list, number, or, pairs, plain, text};
use super::{AGE, Column, NAME, age};

fn name(object: &Value) -> Value {
    object["metadata"]["name"].clone()
}

fn flag(object: &Value, pointer: &str, otherwise: bool) -> Value {
    let found = object.pointer(pointer).and_then(Value::as_bool);
    found.unwrap_or(otherwise).into()
}

pub(super) const POD_TEMPLATE: &[Column] = &[
    NAME,
    Column::text("Containers", "Names of each container in the template."),
    Column::text(
        "Images",
        "Images referenced by each container in the template.",
    ),
    Column::text("Pod Labels", "The labels for the pod template."),
];

pub(super) fn pod_template(object: &Value, _: Timestamp) -> Vec<Value> {
    let containers = list(object, "/template/spec/containers");
    vec![
        name(object),
        joined(containers, "name").into(),
        joined(containers, "image").into(),
        pairs(&object["template"]["metadata"]["labels"]).into(),
    ]
}

pub(super) const COMPONENT: &[Column] = &[
    NAME,
    Column::text("Status", "Status of the component conditions"),
    Column::text("Message", "Message of the component conditions"),
    Column::text("Error", "Error of the component conditions"),
];

pub(super) fn component(object: &Value, _: Timestamp) -> Vec<Value> {
    let health = list(object, "/conditions")
        .iter()
        .find(|condition| condition["type"] == "Healthy");
    let status = match health {
        Some(found) if found["status"] == "True" => "Healthy",
        Some(_) => "Unhealthy",
        None => "Unknown",
    };
    let of = |member: &str| health.map_or("", |found| text(found, member));
    vec![
        name(object),
        status.into(),
        of("/message").into(),
        of("/error").into(),
    ]
}

pub(super) const REVISION: &[Column] = &[
    NAME,
    Column::text("Controller", "Controller of the object"),
    Column::text("Revision", "revision"),
    AGE,
];

pub(super) fn revision(object: &Value, now: Timestamp) -> Vec<Value> {
    let owner = list(object, "/metadata/ownerReferences")
        .iter()
        .find(|owner| owner["controller"] == true);
    let controller = owner.map_or_else(
        || NONE.to_owned(),
        |owner| {
            let kind = text(owner, "/kind").to_lowercase();
            let name = text(owner, "/name");
            match text(owner, "/apiVersion").split_once('/') {
                Some((group, _)) => format!("{kind}.{group}/{name}"),
                None => format!("{kind}/{name}"),
            }
        },
    );
    vec![
        name(object),
        controller.into(),
        number(object, "/revision").into(),
        age::of(object, now),
    ]
}

pub(super) const DRIVER: &[Column] = &[
    NAME,
    Column::flag("AttachRequired", "spec.attachRequired"),
    Column::flag("PodInfoOnMount", "spec.podInfoOnMount"),
    Column::flag("StorageCapacity", "spec.storageCapacity"),
    Column::text("TokenRequests", "spec.tokenRequests"),
    Column::flag("RequiresRepublish", "spec.requiresRepublish"),
    Column::text("Modes", "spec.volumeLifecycleModes"),
    AGE,
];

pub(super) fn driver(object: &Value, now: Timestamp) -> Vec<Value> {
    let modes: Vec<String> = list(object, "/spec/volumeLifecycleModes")
        .iter()
        .map(plain)
        .collect();
    let tokens = match &object["spec"]["tokenRequests"] {
        Value::Array(requests) => joined(requests, "audience"),
        _ => UNSET.to_owned(),
    };
    vec![
        name(object),
        flag(object, "/spec/attachRequired", true),
        flag(object, "/spec/podInfoOnMount", false),
        flag(object, "/spec/storageCapacity", false),
        tokens.into(),
        flag(object, "/spec/requiresRepublish", false),
        or(&modes.join(","), NONE).into(),
        age::of(object, now),
    ]
}

pub(super) const CSI_NODE: &[Column] = &[
    NAME,
    Column::number(
        "Drivers",
        "Drivers indicates the number of CSI drivers registered on the node",
    ),
    AGE,
];

pub(super) fn csi_node(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![
        name(object),
        json!(list(object, "/spec/drivers").len()),
        age::of(object, now),
    ]
}

pub(super) const ATTACHMENT: &[Column] = &[
    NAME,
    Column {
        format: "name",
        ..Column::text("Attacher", "spec.attacher")
    },
    Column::text("PV", "spec.source.persistentVolumeName"),
    Column::text("Node", "spec.nodeName"),
    Column::flag("Attached", "status.attached"),
    AGE,
];

pub(super) fn attachment(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![
        name(object),
        text(object, "/spec/attacher").into(),
        text(object, "/spec/source/persistentVolumeName").into(),
        text(object, "/spec/nodeName").into(),
        flag(object, "/status/attached", false),
        age::of(object, now),
    ]
}

pub(super) const WEBHOOKS: &[Column] = &[
    NAME,
    Column::number(
        "Webhooks",
        "Webhooks indicates the number of webhooks registered in this configuration",
    ),
    AGE,
];

pub(super) fn webhooks(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![
        name(object),
        json!(list(object, "/webhooks").len()),
        age::of(object, now),
    ]
}

pub(super) const ADMISSION_POLICY: &[Column] = &[
    NAME,
    Column::number(
        "Validations",
        "Validations indicates the number of validation rules defined in this configuration",
    ),
    Column::text(
        "ParamKind",
        "ParamKind specifies the kind of resources used to parameterize this policy",
    ),
    AGE,
];

pub(super) const MUTATING_POLICY: &[Column] = &[
    NAME,
    Column::number(
        "Mutations",
        "Mutations indicates the number of mutations rules defined in this configuration",
    ),
    Column::text(
        "ParamKind",
        "ParamKind specifies the kind of resources used to parameterize this policy",
    ),
    AGE,
];

pub(super) fn mutating_policy(object: &Value, now: Timestamp) -> Vec<Value> {
    policy(object, "/spec/mutations", now)
}

pub(super) fn admission_policy(object: &Value, now: Timestamp) -> Vec<Value> {
    policy(object, "/spec/validations", now)
}

fn policy(object: &Value, counted: &str, now: Timestamp) -> Vec<Value> {
    let kind = &object["spec"]["paramKind"];
    let kind = if kind.is_object() {
        format!("{}/{}", text(kind, "/apiVersion"), text(kind, "/kind"))
    } else {
        UNSET.to_owned()
    };
    vec![
        name(object),
        json!(list(object, counted).len()),
        kind.into(),
        age::of(object, now),
    ]
}

pub(super) const ADMISSION_BINDING: &[Column] = &[
    NAME,
    Column::text(
        "PolicyName",
        "PolicyName indicates the policy definition which the policy binding binded to",
    ),
    Column::text(
        "ParamRef",
        "ParamRef indicates the param resource which sets the configration param",
    ),
    AGE,
];

pub(super) fn admission_binding(object: &Value, now: Timestamp) -> Vec<Value> {
    let parameter = &object["spec"]["paramRef"];
    let shown = match (text(parameter, "/namespace"), text(parameter, "/name")) {
        (_, "") if parameter["selector"].is_object() => go_selector(&parameter["selector"]),
        (_, "") => UNSET.to_owned(),
        // Whether parameters have namespaces cannot be told from here.
        ("", name) => format!("*/{name}"),
        (namespace, name) => format!("{namespace}/{name}"),
    };
    vec![
        name(object),
        text(object, "/spec/policyName").into(),
        shown.into(),
        age::of(object, now),
    ]
}

/// A selector as Go prints the type.
fn go_selector(selector: &Value) -> String {
    let labels: Vec<String> = selector["matchLabels"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(key, value)| format!("{key}: {},", plain(value)))
        .collect();
    let expressions: Vec<String> = list(selector, "/matchExpressions")
        .iter()
        .map(|e| {
            let values: Vec<String> = list(e, "/values").iter().map(plain).collect();
            format!(
                "LabelSelectorRequirement{{Key:{},Operator:{},Values:[{}],}},",
                text(e, "/key"),
                text(e, "/operator"),
                values.join(" ")
            )
        })
        .collect();
    format!(
        "&LabelSelector{{MatchLabels:map[string]string{{{}}},MatchExpressions:[]LabelSelectorRequirement{{{}}},}}",
        labels.concat(),
        expressions.concat()
    )
}
