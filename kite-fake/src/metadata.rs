//! Rules for `metadata` that all kinds share, custom resources included.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::field_error::{CauseReason, FieldError};
use crate::field_manager::manager_errors;
use crate::go;
use crate::members::{list, members, number, text};
use crate::names::{NameRule, label_value, qualified};

/// All annotations together, keys and values, in bytes.
const MAX_ANNOTATIONS: usize = 256 * 1024;

/// Checks the `metadata` of an object in itself.
pub fn validate(object: &Value, namespaced: bool, rule: NameRule) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let Some(metadata) = object.get("metadata") else {
        return vec![FieldError::required("metadata", "")];
    };
    let prefix = text(metadata, "generateName");
    if !prefix.is_empty() {
        for wrong in rule.check(prefix, true) {
            errors.push(FieldError::invalid(
                "metadata.generateName",
                &Value::from(prefix),
                wrong,
            ));
        }
    }
    let name = text(metadata, "name");
    if name.is_empty() {
        errors.push(FieldError::required(
            "metadata.name",
            "name or generateName is required",
        ));
    } else {
        for wrong in rule.check(name, false) {
            errors.push(FieldError::invalid(
                "metadata.name",
                &Value::from(name),
                wrong,
            ));
        }
    }
    let namespace = text(metadata, "namespace");
    if !namespaced {
        if !namespace.is_empty() {
            errors.push(FieldError::forbidden(
                "metadata.namespace",
                "not allowed on this type",
            ));
        }
    } else if namespace.is_empty() {
        errors.push(FieldError::required("metadata.namespace", ""));
    } else {
        for wrong in NameRule::Label.check(namespace, false) {
            errors.push(FieldError::invalid(
                "metadata.namespace",
                &Value::from(namespace),
                wrong,
            ));
        }
    }
    if let Some(generation) = number(metadata, "generation").filter(|n| *n < 0) {
        errors.push(FieldError::invalid(
            "metadata.generation",
            &Value::from(generation),
            "must be greater than or equal to 0",
        ));
    }
    maps_and_owners(metadata, &mut errors);
    for finalizer in list(metadata, "finalizers") {
        let name = finalizer.as_str().unwrap_or_default();
        for wrong in qualified(name) {
            errors.push(FieldError::invalid("metadata.finalizers", finalizer, wrong));
        }
    }
    let has = |name: &str| list(metadata, "finalizers").iter().any(|f| f == name);
    if has("orphan") && has("foregroundDeletion") {
        errors.push(FieldError::invalid(
            "metadata.finalizers",
            &metadata["finalizers"],
            "finalizer orphan and foregroundDeletion cannot be both set",
        ));
    }
    managers(metadata, &mut errors);
    errors
}

/// Removes owner references that are there twice; gives the warning about them.
/// `late` is the wording for what patches and applies bring.
pub(crate) fn dedup_owners(object: &mut Value, late: bool) -> Option<String> {
    let owners = object
        .get_mut("metadata")?
        .get_mut("ownerReferences")?
        .as_array_mut()?;
    if owners.len() < 2 {
        return None;
    }
    let mut kept: Vec<Value> = Vec::with_capacity(owners.len());
    let mut twice: Vec<&str> = Vec::new();
    for owner in owners.iter() {
        if kept.contains(owner) {
            twice.push(text(owner, "uid"));
        } else {
            kept.push(owner.clone());
        }
    }
    if twice.is_empty() {
        return None;
    }
    let when = if late {
        " after mutating admission happens"
    } else {
        ""
    };
    let warning = format!(
        ".metadata.ownerReferences contains duplicate entries{when}; API server dedups owner references in 1.20+, and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: [{}]",
        twice.join(" ")
    );
    *owners = kept;
    Some(warning)
}

/// Longest name of a subresource in `managedFields`, in bytes.
const MAX_SUBRESOURCE: usize = 256;

/// What a client may have got wrong in entries of `managedFields` that can be read.
fn managers(metadata: &Value, errors: &mut Vec<FieldError>) {
    for (place, entry) in list(metadata, "managedFields").iter().enumerate() {
        let path = format!("metadata.managedFields[{place}]");
        for (reason, message) in manager_errors(text(entry, "manager")) {
            let reason = match reason {
                "FieldValueTooLong" => CauseReason::TooLong,
                _ => CauseReason::Invalid,
            };
            errors.push(FieldError::with(reason, format!("{path}.manager"), message));
        }
        if text(entry, "subresource").len() > MAX_SUBRESOURCE {
            errors.push(FieldError::too_long(
                format!("{path}.subresource"),
                MAX_SUBRESOURCE as u64,
            ));
        }
    }
}

/// Finalizers of built-in kinds are standard ones or have a domain.
pub(crate) fn built_in_finalizers(object: &Value, errors: &mut Vec<FieldError>) {
    let metadata = &object["metadata"];
    for (place, finalizer) in list(metadata, "finalizers").iter().enumerate() {
        let name = finalizer.as_str().unwrap_or_default();
        let standard = matches!(name, "kubernetes" | "orphan" | "foregroundDeletion");
        if !name.contains('/') && !standard {
            errors.push(FieldError::invalid(
                format!("metadata.finalizers[{place}]"),
                finalizer,
                "name is neither a standard finalizer name nor is it fully qualified",
            ));
        }
    }
}

/// Checks what an update does to `metadata`.
pub fn validate_update(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let (after, before) = (&new["metadata"], &old["metadata"]);
    if before
        .get("deletionTimestamp")
        .is_some_and(|t| !t.is_null())
    {
        let added: BTreeSet<&str> = list(after, "finalizers")
            .iter()
            .filter(|finalizer| !list(before, "finalizers").contains(finalizer))
            .filter_map(Value::as_str)
            .collect();
        let added: Vec<String> = added.into_iter().map(go::quote).collect();
        if !added.is_empty() {
            errors.push(FieldError::forbidden(
                "metadata.finalizers",
                format!(
                    "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
                    added.join(", ")
                ),
            ));
        }
    }
    let generation = |metadata: &Value| number(metadata, "generation").unwrap_or(0);
    if generation(after) < generation(before) {
        errors.push(FieldError::invalid(
            "metadata.generation",
            &Value::from(generation(after)),
            "must not be decremented",
        ));
    }
    for member in [
        "name",
        "namespace",
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
    ] {
        let value = |metadata: &Value| metadata.get(member).cloned().unwrap_or_default();
        if value(after) != value(before) {
            errors.push(FieldError::invalid(
                format!("metadata.{member}"),
                &value(after),
                "field is immutable",
            ));
        }
    }
    maps_and_owners(after, &mut errors);
    errors
}

/// What the server checks of a custom resource's new `metadata`.
pub fn validate_custom(object: &Value, namespaced: bool) -> Vec<FieldError> {
    validate(object, namespaced, NameRule::Subdomain)
}

/// What the server checks of a custom resource's changed `metadata`; some of it twice, as it does.
pub fn validate_custom_update(new: &Value, old: &Value, namespaced: bool) -> Vec<FieldError> {
    let mut errors = validate(new, namespaced, NameRule::PathSegment);
    errors.extend(validate_update(new, old));
    errors.extend(validate_update(new, old));
    errors
}

fn maps_and_owners(metadata: &Value, errors: &mut Vec<FieldError>) {
    labels(metadata, "labels", "metadata.labels", errors);
    annotations(metadata, errors);
    owners(metadata, errors);
}

/// Checks a map of labels, as objects and selectors have them.
pub(crate) fn labels(of: &Value, member: &str, path: &str, errors: &mut Vec<FieldError>) {
    for (key, value) in members(of, member) {
        for wrong in qualified(key) {
            errors.push(FieldError::invalid(path, &Value::from(key.as_str()), wrong));
        }
        for wrong in label_value(value.as_str().unwrap_or_default()) {
            errors.push(FieldError::invalid(path, value, wrong));
        }
    }
}

fn annotations(metadata: &Value, errors: &mut Vec<FieldError>) {
    let mut size = 0;
    for (key, value) in members(metadata, "annotations") {
        for wrong in qualified(&key.to_lowercase()) {
            errors.push(FieldError::invalid(
                "metadata.annotations",
                &Value::from(key.as_str()),
                wrong,
            ));
        }
        size += key.len() + value.as_str().map_or(0, str::len);
    }
    if size > MAX_ANNOTATIONS {
        errors.push(FieldError::too_long(
            "metadata.annotations",
            MAX_ANNOTATIONS as u64,
        ));
    }
}

fn owners(metadata: &Value, errors: &mut Vec<FieldError>) {
    const PATH: &str = "metadata.ownerReferences";
    let mut controller: Option<&Value> = None;
    for owner in list(metadata, "ownerReferences") {
        let version = text(owner, "apiVersion");
        let bare = version.rsplit('/').next().unwrap_or_default();
        if bare.is_empty() {
            errors.push(FieldError::invalid(
                format!("{PATH}.apiVersion"),
                &Value::from(version),
                "version must not be empty",
            ));
        }
        for member in ["kind", "name", "uid"] {
            if text(owner, member).is_empty() {
                errors.push(FieldError::invalid(
                    format!("{PATH}.{member}"),
                    &Value::from(""),
                    "must not be empty",
                ));
            }
        }
        if version == "v1" && text(owner, "kind") == "Event" {
            errors.push(FieldError::invalid(
                PATH,
                owner,
                "/v1, Kind=Event is disallowed from being an owner",
            ));
        }
        if owner.get("controller") == Some(&Value::Bool(true)) {
            if let Some(first) = controller {
                let named =
                    |owner: &Value| format!("{}/{}", text(owner, "kind"), text(owner, "name"));
                errors.push(FieldError::with(
                    CauseReason::Invalid,
                    PATH,
                    format!(
                        "Invalid value: {}: Only one reference can have Controller set to true. Found \"true\" in references for {} and {}",
                        write_owners(list(metadata, "ownerReferences")),
                        named(first),
                        named(owner)
                    ),
                ));
            } else {
                controller = Some(owner);
            }
        }
    }
}

/// Owner references with their members in the order of the Go struct.
fn write_owners(owners: &[Value]) -> String {
    let written: Vec<String> = owners
        .iter()
        .map(|owner| {
            let parts: Vec<String> = [
                "apiVersion",
                "kind",
                "name",
                "uid",
                "controller",
                "blockOwnerDeletion",
            ]
            .iter()
            .filter_map(|member| Some(format!("\"{member}\":{}", owner.get(*member)?)))
            .collect();
            format!("{{{}}}", parts.join(","))
        })
        .collect();
    format!("[{}]", written.join(","))
}
