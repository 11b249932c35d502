//! Tables of storage, networking, access and policy kinds.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::builtin::balancers;
use super::cells::{NONE, UNSET, access_modes, list, number, or, plain, selector, text};
use super::{AGE, Column, NAME, age};

pub(super) const VOLUME: &[Column] = &[
    NAME,
    Column::text("Capacity", "spec.capacity"),
    Column::text("Access Modes", "spec.accessModes"),
    Column::text("Reclaim Policy", "spec.persistentVolumeReclaimPolicy"),
    Column::text("Status", "status.phase"),
    Column::text("Claim", "spec.claimRef"),
    Column::text("StorageClass", "StorageClass of the pv"),
    Column::text("VolumeAttributesClass", "VolumeAttributesClass of the pv"),
    Column::text("Reason", "status.reason"),
    AGE,
    Column::text("VolumeMode", "spec.volumeMode").wide(),
];

pub(super) fn volume(object: &Value, now: Timestamp) -> Vec<Value> {
    let claim = match (
        text(object, "/spec/claimRef/namespace"),
        text(object, "/spec/claimRef/name"),
    ) {
        (_, "") => String::new(),
        (namespace, name) => format!("{namespace}/{name}"),
    };
    vec![
        object["metadata"]["name"].clone(),
        amount(&object["spec"]["capacity"]["storage"]).into(),
        access_modes(list(object, "/spec/accessModes")).into(),
        text(object, "/spec/persistentVolumeReclaimPolicy").into(),
        phase(object).into(),
        claim.into(),
        class(object).into(),
        or(text(object, "/spec/volumeAttributesClassName"), UNSET).into(),
        text(object, "/status/reason").into(),
        age::of(object, now),
        or(text(object, "/spec/volumeMode"), UNSET).into(),
    ]
}

/// A quantity; nothing is zero.
fn amount(quantity: &Value) -> String {
    or(&plain(quantity), "0").to_owned()
}

/// The storage class, which old objects have in an annotation.
fn class(object: &Value) -> &str {
    let annotation =
        object["metadata"]["annotations"]["volume.beta.kubernetes.io/storage-class"].as_str();
    annotation.unwrap_or_else(|| text(object, "/spec/storageClassName"))
}

/// `status.phase`, or that it is going.
fn phase(object: &Value) -> String {
    if object["metadata"]["deletionTimestamp"].is_null() {
        text(object, "/status/phase").to_owned()
    } else {
        "Terminating".to_owned()
    }
}

pub(super) const CLAIM: &[Column] = &[
    NAME,
    Column::text("Status", "status.phase"),
    Column::text("Volume", "spec.volumeName"),
    Column::text("Capacity", "status.capacity"),
    Column::text("Access Modes", "status.accessModes"),
    Column::text("StorageClass", "StorageClass of the pvc"),
    Column::text("VolumeAttributesClass", "VolumeAttributesClass of the pvc"),
    AGE,
    Column::text("VolumeMode", "spec.volumeMode").wide(),
];

pub(super) fn claim(object: &Value, now: Timestamp) -> Vec<Value> {
    // What a claim has it shows only once it is bound.
    let bound = !text(object, "/spec/volumeName").is_empty();
    let capacity = if bound {
        amount(&object["status"]["capacity"]["storage"])
    } else {
        String::new()
    };
    let modes = if bound {
        access_modes(list(object, "/status/accessModes"))
    } else {
        String::new()
    };
    vec![
        object["metadata"]["name"].clone(),
        phase(object).into(),
        text(object, "/spec/volumeName").into(),
        capacity.into(),
        modes.into(),
        class(object).into(),
        or(text(object, "/spec/volumeAttributesClassName"), UNSET).into(),
        age::of(object, now),
        or(text(object, "/spec/volumeMode"), UNSET).into(),
    ]
}

pub(super) const INGRESS: &[Column] = &[
    NAME,
    Column::text(
        "Class",
        "The name of the IngressClass resource that should be used for additional configuration",
    ),
    Column::text(
        "Hosts",
        "Hosts that incoming requests are matched against before the ingress rule",
    ),
    Column::text(
        "Address",
        "Address is a list containing ingress points for the load-balancer",
    ),
    Column::text("Ports", "Ports of TLS configurations that open"),
    AGE,
];

pub(super) fn ingress(object: &Value, now: Timestamp) -> Vec<Value> {
    let addresses: Vec<String> = balancers(object).into_iter().collect();
    let addresses = addresses.join(",");
    let ports = if list(object, "/spec/tls").is_empty() {
        "80"
    } else {
        "80, 443"
    };
    vec![
        object["metadata"]["name"].clone(),
        or(text(object, "/spec/ingressClassName"), NONE).into(),
        hosts(list(object, "/spec/rules")).into(),
        addresses.into(),
        ports.into(),
        age::of(object, now),
    ]
}

/// The first three hosts, and how many rules more there are.
fn hosts(rules: &[Value]) -> String {
    let named = |rule: &&Value| !text(rule, "/host").is_empty();
    let mut hosts: Vec<&str> = Vec::new();
    let mut more = false;
    for rule in rules {
        more |= hosts.len() == 3;
        if !more && named(&rule) {
            hosts.push(text(rule, "/host"));
        }
    }
    match (hosts.is_empty(), more) {
        (true, _) => "*".to_owned(),
        (_, true) => format!("{} + {} more...", hosts.join(","), rules.len() - 3),
        _ => hosts.join(","),
    }
}

pub(super) const INGRESS_CLASS: &[Column] = &[
    NAME,
    Column::text(
        "Controller",
        "Controller that is responsible for handling this class",
    ),
    Column::text(
        "Parameters",
        "A reference to a resource with additional parameters",
    ),
    AGE,
];

pub(super) fn ingress_class(object: &Value, now: Timestamp) -> Vec<Value> {
    let parameters = match (
        text(object, "/spec/parameters/kind"),
        text(object, "/spec/parameters/name"),
    ) {
        ("", _) => NONE.to_owned(),
        (kind, name) => match text(object, "/spec/parameters/apiGroup") {
            "" => format!("{kind}/{name}"),
            group => format!("{kind}.{group}/{name}"),
        },
    };
    vec![
        object["metadata"]["name"].clone(),
        text(object, "/spec/controller").into(),
        parameters.into(),
        age::of(object, now),
    ]
}

pub(super) const POLICY: &[Column] = &[NAME, Column::text("Pod-Selector", "spec.podSelector"), AGE];

pub(super) fn policy(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![
        object["metadata"]["name"].clone(),
        selector(&object["spec"]["podSelector"]).into(),
        age::of(object, now),
    ]
}

pub(super) const LEASE: &[Column] = &[NAME, Column::text("Holder", "spec.holderIdentity"), AGE];

pub(super) fn lease(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![
        object["metadata"]["name"].clone(),
        text(object, "/spec/holderIdentity").into(),
        age::of(object, now),
    ]
}

pub(super) const BINDING: &[Column] = &[
    NAME,
    Column::text("Role", "roleRef"),
    AGE,
    Column::text("Users", "Users in the roleBinding").wide(),
    Column::text("Groups", "Groups in the roleBinding").wide(),
    Column::text("ServiceAccounts", "ServiceAccounts in the roleBinding").wide(),
];

pub(super) const CLUSTER_BINDING: &[Column] = &[
    NAME,
    Column::text("Role", "roleRef"),
    AGE,
    Column::text("Users", "Users in the clusterRoleBinding").wide(),
    Column::text("Groups", "Groups in the clusterRoleBinding").wide(),
    Column::text(
        "ServiceAccounts",
        "ServiceAccounts in the clusterRoleBinding",
    )
    .wide(),
];

pub(super) fn binding(object: &Value, now: Timestamp) -> Vec<Value> {
    let subjects = |kind: &str| {
        let names: Vec<String> = list(object, "/subjects")
            .iter()
            .filter(|s| s["kind"] == kind)
            .map(|s| match kind {
                "ServiceAccount" => format!("{}/{}", text(s, "/namespace"), text(s, "/name")),
                _ => text(s, "/name").to_owned(),
            })
            .collect();
        Value::from(names.join(", "))
    };
    vec![
        object["metadata"]["name"].clone(),
        format!(
            "{}/{}",
            text(object, "/roleRef/kind"),
            text(object, "/roleRef/name")
        )
        .into(),
        age::of(object, now),
        subjects("User"),
        subjects("Group"),
        subjects("ServiceAccount"),
    ]
}

pub(super) const STORAGE_CLASS: &[Column] = &[
    NAME,
    Column::text("Provisioner", "provisioner"),
    Column::text("ReclaimPolicy", "reclaimPolicy"),
    Column::text("VolumeBindingMode", "volumeBindingMode"),
    Column::text("AllowVolumeExpansion", "allowVolumeExpansion"),
    AGE,
];

pub(super) fn storage_class(object: &Value, now: Timestamp) -> Vec<Value> {
    let name = text(object, "/metadata/name");
    let annotations = &object["metadata"]["annotations"];
    let default = annotations["storageclass.kubernetes.io/is-default-class"] == "true"
        || annotations["storageclass.beta.kubernetes.io/is-default-class"] == "true";
    vec![
        if default {
            format!("{name} (default)").into()
        } else {
            name.into()
        },
        text(object, "/provisioner").into(),
        or(text(object, "/reclaimPolicy"), "Delete").into(),
        or(text(object, "/volumeBindingMode"), "Immediate").into(),
        json!(object["allowVolumeExpansion"] == true),
        age::of(object, now),
    ]
}

pub(super) const BUDGET: &[Column] = &[
    NAME,
    Column::text(
        "Min Available",
        "The minimum number of pods that must be available.",
    ),
    Column::text(
        "Max Unavailable",
        "The maximum number of pods that may be unavailable.",
    ),
    Column::number(
        "Allowed Disruptions",
        "Calculated number of pods that may be disrupted at this time.",
    ),
    AGE,
];

pub(super) fn budget(object: &Value, now: Timestamp) -> Vec<Value> {
    let spec = |name: &str| Value::from(or(&plain(&object["spec"][name]), "N/A"));
    vec![
        object["metadata"]["name"].clone(),
        spec("minAvailable"),
        spec("maxUnavailable"),
        number(object, "/status/disruptionsAllowed").into(),
        age::of(object, now),
    ]
}

pub(super) const PRIORITY: &[Column] = &[
    NAME,
    Column::number("Value", "value"),
    Column::flag("Global-Default", "globalDefault"),
    AGE,
    Column::text("PreemptionPolicy", "preemptionPolicy"),
];

pub(super) fn priority(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![
        object["metadata"]["name"].clone(),
        number(object, "/value").into(),
        json!(object["globalDefault"] == true),
        age::of(object, now),
        or(text(object, "/preemptionPolicy"), "PreemptLowerPriority").into(),
    ]
}

pub(super) const API_SERVICE: &[Column] = &[
    NAME,
    Column::text(
        "Service",
        "The reference to the service that hosts this API endpoint.",
    ),
    Column::text("Available", "Whether this service is available."),
    AGE,
];

pub(super) fn api_service(object: &Value, now: Timestamp) -> Vec<Value> {
    let service = match (
        text(object, "/spec/service/namespace"),
        text(object, "/spec/service/name"),
    ) {
        (_, "") => "Local".to_owned(),
        (namespace, name) => format!("{namespace}/{name}"),
    };
    let condition = list(object, "/status/conditions")
        .iter()
        .find(|c| c["type"] == "Available");
    let available = match condition {
        None => "Unknown".to_owned(),
        Some(c) if c["status"] == "True" => "True".to_owned(),
        Some(c) => format!("{} ({})", text(c, "/status"), text(c, "/reason")),
    };
    vec![
        object["metadata"]["name"].clone(),
        service.into(),
        available.into(),
        age::of(object, now),
    ]
}
