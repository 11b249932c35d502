//! `CustomResourceDefinition` objects: defaults, validation, names and conditions.

mod keywords;
mod names;
mod options;
mod rules;
mod structural;
mod validate;
mod webhook;

use serde_json::{Map, Value, json};

use super::formats;

pub use names::accept;
pub use validate::validate;
pub(crate) use webhook::client_config;

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
    if let Some(Value::Object(service)) = spec
        .get_mut("conversion")
        .and_then(|c| c.pointer_mut("/webhook/clientConfig/service"))
        && service.get("port").is_none_or(Value::is_null)
    {
        service.insert("port".to_owned(), json!(443));
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

/// The annotation that approves an API of Kubernetes' own groups.
const APPROVAL: &str = "api-approved.kubernetes.io";
const APPROVAL_SEE: &str = "https://github.com/kubernetes/enhancements/pull/1111";

/// Groups of Kubernetes itself.
fn is_protected(group: &str) -> bool {
    ["k8s.io", "kubernetes.io"]
        .iter()
        .any(|own| group == *own || group.ends_with(&format!(".{own}")))
}

/// Whether an approval points somewhere: it has a scheme and a host.
fn is_address(text: &str) -> bool {
    text.parse::<http::Uri>()
        .is_ok_and(|uri| uri.scheme().is_some() && uri.host().is_some_and(|h| !h.is_empty()))
}

fn approval_missing() -> String {
    format!("protected groups must have approval annotation \"{APPROVAL}\", see {APPROVAL_SEE}")
}

fn approval_invalid() -> String {
    format!(
        "protected groups must have approval annotation \"{APPROVAL}\" with either a URL or a reason starting with \
         \"unapproved\", see {APPROVAL_SEE}"
    )
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

/// What the server has to say about a definition that it accepts: formats that it
/// does not know, whatever they are of, and therefore does not check.
pub fn warnings(crd: &Value) -> Vec<String> {
    fn walk(node: &Value, found: &mut Vec<String>) {
        match node {
            Value::Object(members) => {
                let format = members.get("format").and_then(Value::as_str);
                let is_text = members.get("type").is_some_and(|t| t == "string");
                let is_known =
                    |f: &str| formats::is_known(f) || !is_text && formats::is_known_number(f);
                if let Some(format) = format.filter(|f| !f.is_empty() && !is_known(f)) {
                    let text = format!("unrecognized format {}", crate::go::quote(format));
                    if !found.contains(&text) {
                        found.push(text);
                    }
                }
                let data = ["default", "enum", "example"];
                for (_, inner) in members
                    .iter()
                    .filter(|(name, _)| !data.contains(&name.as_str()))
                {
                    walk(inner, found);
                }
            }
            Value::Array(elements) => elements.iter().for_each(|e| walk(e, found)),
            _ => {}
        }
    }
    let mut found = Vec::new();
    for version in versions(crd) {
        walk(&version["schema"]["openAPIV3Schema"], &mut found);
    }
    found
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
