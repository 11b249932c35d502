//! Claims, volumes and storage classes.

use serde_json::{Value, json};

use crate::builtin::access::{copy, default, has, list, members, object_mut, set, text};
use crate::builtin::quantity;
use crate::schema::{FieldError, Validation};

const MODES: &[&str] = &[
    "ReadOnlyMany",
    "ReadWriteMany",
    "ReadWriteOnce",
    "ReadWriteOncePod",
];

pub(in crate::builtin) fn default_claim(claim: &mut Value) {
    default(object_mut(claim, "status"), "phase", "Pending");
    default(object_mut(claim, "spec"), "volumeMode", "Filesystem");
}

/// A claim in use is held by a finalizer, which the server itself adds.
pub(in crate::builtin) fn prepare_claim(claim: &mut Value) {
    set(claim, "status", json!({"phase": "Pending"}));
    protect(claim, "kubernetes.io/pvc-protection");
}

fn protect(object: &mut Value, finalizer: &str) {
    let metadata = object_mut(object, "metadata");
    let mut finalizers = list(metadata, "finalizers").to_vec();
    if !finalizers.iter().any(|held| held == finalizer) {
        finalizers.push(json!(finalizer));
        set(metadata, "finalizers", finalizers);
    }
}

pub(in crate::builtin) fn validate_claim(claim: &Value, found: &mut Validation) {
    let errors = &mut found.errors;
    let spec = &claim["spec"];
    access_modes(spec, "at least 1 access mode is required", errors);
    let wanted = &spec["resources"]["requests"]["storage"];
    match wanted.as_str() {
        None => errors.push(FieldError::required("spec.resources[storage]", "")),
        Some(wanted_text) => positive(wanted_text, "spec.resources[storage]", errors),
    }
    volume_mode(spec, errors);
}

fn positive(value: &str, field: &str, errors: &mut Vec<FieldError>) {
    if value == "0" || quantity::parse(value).is_some_and(quantity::Quantity::is_negative) {
        errors.push(FieldError::invalid(
            field,
            &json!(value),
            "must be greater than zero",
        ));
    }
}

fn access_modes(spec: &Value, none: &str, errors: &mut Vec<FieldError>) {
    let modes = list(spec, "accessModes");
    if modes.is_empty() {
        errors.push(FieldError::required("spec.accessModes", none));
    }
    for mode in modes {
        if !MODES.contains(&mode.as_str().unwrap_or_default()) {
            errors.push(FieldError::not_supported("spec.accessModes", mode, MODES));
        }
    }
}

fn volume_mode(spec: &Value, errors: &mut Vec<FieldError>) {
    if has(spec, "volumeMode") && !matches!(text(spec, "volumeMode"), "Block" | "Filesystem") {
        errors.push(FieldError::not_supported(
            "spec.volumeMode",
            &spec["volumeMode"],
            &["Block", "Filesystem"],
        ));
    }
}

/// A claim's specification stays, but for its size and class once it is bound,
/// and for the volume it gets.
pub(in crate::builtin) fn validate_claim_update(new: &Value, old: &Value, found: &mut Validation) {
    let mut before = old["spec"].clone();
    let after = &new["spec"];
    if text(&before, "volumeName").is_empty() {
        copy(&mut before, after, "volumeName");
    }
    if !has(&before, "storageClassName") {
        // A claim without a class gets the default one later.
        copy(&mut before, after, "storageClassName");
    }
    if text(&old["status"], "phase") == "Bound" {
        copy(&mut before, after, "volumeAttributesClassName");
        let requests = after["resources"]["requests"].clone();
        if has(&after["resources"], "requests") {
            set(object_mut(&mut before, "resources"), "requests", requests);
        }
    }
    if before != *after {
        found.errors.push(FieldError::forbidden(
            "spec",
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims",
        ));
    }
    let size = |of: &Value| of["storage"].as_str().and_then(quantity::parse);
    if let (Some(wanted), Some(actual)) = (
        size(&after["resources"]["requests"]),
        size(&old["status"]["capacity"]),
    ) && wanted < actual
    {
        found.errors.push(FieldError::forbidden(
            "spec.resources.requests.storage",
            "field can not be less than status.capacity",
        ));
    }
}

pub(in crate::builtin) fn default_volume(volume: &mut Value) {
    let spec = object_mut(volume, "spec");
    default(spec, "persistentVolumeReclaimPolicy", "Retain");
    default(spec, "volumeMode", "Filesystem");
    if has(spec, "hostPath") {
        let path = object_mut(spec, "hostPath");
        if !has(path, "type") {
            set(path, "type", "");
        }
    }
    default(object_mut(volume, "status"), "phase", "Pending");
}

/// A new volume is pending since it was created, and held by a finalizer.
pub(in crate::builtin) fn prepare_volume(volume: &mut Value) {
    let since = volume["metadata"]["creationTimestamp"].clone();
    set(volume, "status", json!({"phase": "Pending"}));
    if since.is_string() {
        set(
            object_mut(volume, "status"),
            "lastPhaseTransitionTime",
            since,
        );
    }
    protect(volume, "kubernetes.io/pv-protection");
}

/// What the specification of a volume has beside its source.
const COMMON: &[&str] = &[
    "accessModes",
    "capacity",
    "claimRef",
    "mountOptions",
    "nodeAffinity",
    "persistentVolumeReclaimPolicy",
    "storageClassName",
    "volumeAttributesClassName",
    "volumeMode",
];

pub(in crate::builtin) fn validate_volume(volume: &Value, found: &mut Validation) {
    let errors = &mut found.errors;
    let spec = &volume["spec"];
    access_modes(spec, "", errors);
    match spec["capacity"]["storage"].as_str() {
        None => errors.push(FieldError::required("spec.capacity", "")),
        Some(capacity) => positive(capacity, "spec.capacity[storage]", errors),
    }
    volume_mode(spec, errors);
    // Everything else of the specification is the source of the volume.
    let sources = members(volume, "spec").filter(|(name, _)| !COMMON.contains(&name.as_str()));
    if sources.count() == 0 {
        errors.push(FieldError::required("spec", "must specify a volume type"));
    }
}

pub(in crate::builtin) fn default_driver(driver: &mut Value) {
    let spec = object_mut(driver, "spec");
    default(spec, "attachRequired", true);
    default(spec, "fsGroupPolicy", "ReadWriteOnceWithFSType");
    default(spec, "podInfoOnMount", false);
    default(spec, "requiresRepublish", false);
    default(spec, "seLinuxMount", false);
    default(spec, "storageCapacity", false);
    if list(spec, "volumeLifecycleModes").is_empty() {
        set(spec, "volumeLifecycleModes", json!(["Persistent"]));
    }
}

pub(in crate::builtin) fn default_class(class: &mut Value) {
    default(class, "reclaimPolicy", "Delete");
    default(class, "volumeBindingMode", "Immediate");
}

pub(in crate::builtin) fn validate_class(class: &Value, found: &mut Validation) {
    if text(class, "provisioner").is_empty() {
        found.errors.push(FieldError::required("provisioner", ""));
    }
    for (member, supported) in [
        ("reclaimPolicy", &["Delete", "Retain"][..]),
        (
            "volumeBindingMode",
            &["Immediate", "WaitForFirstConsumer"][..],
        ),
    ] {
        if !supported.contains(&text(class, member)) {
            found
                .errors
                .push(FieldError::not_supported(member, &class[member], supported));
        }
    }
}

pub(in crate::builtin) fn validate_class_update(new: &Value, old: &Value, found: &mut Validation) {
    for (member, name) in [
        ("parameters", "updates to parameters are forbidden."),
        ("provisioner", "updates to provisioner are forbidden."),
        ("reclaimPolicy", "updates to reclaimPolicy are forbidden."),
    ] {
        if new.get(member) != old.get(member) {
            found.errors.push(FieldError::forbidden(member, name));
        }
    }
    if new.get("volumeBindingMode") != old.get("volumeBindingMode") {
        found.errors.push(FieldError::invalid(
            "volumeBindingMode",
            &new["volumeBindingMode"],
            "field is immutable",
        ));
    }
}
