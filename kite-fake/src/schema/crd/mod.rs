//! `CustomResourceDefinition` objects: defaults, validation, names and conditions.

mod keywords;
mod names;
mod options;
mod rules;
mod structural;
mod validate;

use serde_json::{Map, Value, json};

pub use names::accept;
pub use validate::validate;

/// What keeps a definition until its objects are gone.
pub const CLEANUP_FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

/// Fills in what a definition leaves out: `singular`, `listKind`, `conversion`,
/// and drops `preserveUnknownFields: false`, which is the only value allowed.
pub fn set_defaults(crd: &mut Value) {
    let Some(Value::Object(spec)) = crd.get_mut("spec") else {
        return;
    };
    if spec.get("preserveUnknownFields") == Some(&Value::Bool(false)) {
        spec.remove("preserveUnknownFields");
    }
    if spec.get("conversion").is_none_or(Value::is_null) {
        spec.insert("conversion".to_owned(), json!({"strategy": "None"}));
    }
    let Some(Value::Object(names)) = spec.get_mut("names") else {
        return;
    };
    let kind = names
        .get("kind")
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned();
    set_if_empty(names, "singular", kind.to_lowercase());
    set_if_empty(names, "listKind", format!("{kind}List"));
}

fn set_if_empty(members: &mut Map<String, Value>, name: &str, value: String) {
    if members
        .get(name)
        .and_then(Value::as_str)
        .unwrap_or_default()
        .is_empty()
    {
        members.insert(name.to_owned(), Value::String(value));
    }
}

/// The status of a definition that was just created.
pub fn initial_status(crd: &Value) -> Value {
    let stored: Vec<&Value> = storage_versions(crd).take(1).collect();
    json!({
        "conditions": null,
        "acceptedNames": {"plural": "", "kind": ""},
        "storedVersions": if stored.is_empty() { Value::Null } else { json!(stored) },
    })
}

/// Adds the storage version to `status.storedVersions` when an update changed it.
pub fn record_storage_version(crd: &mut Value) {
    let Some(storage) = storage_versions(crd).next().cloned() else {
        return;
    };
    if let Some(Value::Array(stored)) = crd.pointer_mut("/status/storedVersions")
        && !stored.contains(&storage)
    {
        stored.push(storage);
    }
}

/// Names of the versions marked as storage version; a valid definition has one.
fn storage_versions(crd: &Value) -> impl Iterator<Item = &Value> {
    versions(crd)
        .iter()
        .filter(|v| v["storage"] == true)
        .map(|v| &v["name"])
}

fn versions(crd: &Value) -> &[Value] {
    crd.pointer("/spec/versions")
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

/// The text of a member, empty if there is none.
fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}
