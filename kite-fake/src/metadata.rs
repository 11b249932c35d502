//! Validation of `metadata`, the same for every kind
//! (`k8s.io/apimachinery/pkg/api/validation/objectmeta.go`).

use serde_json::{Value, json};

use crate::schema::{CauseReason, FieldError};

/// What the name of an object must look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameRule {
    /// RFC 1123 subdomain; what most kinds and all custom resources have.
    Subdomain,
    /// RFC 1123 label (Namespace).
    Label,
    /// RFC 1035 label (Service).
    Label1035,
    /// What can stand in a path (RBAC kinds).
    PathSegment,
}

/// Most bytes of all annotations together.
const MAX_ANNOTATIONS: usize = 256 * 1024;

const QUALIFIED: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const LABEL_1035: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
const VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

/// Finalizers that need no prefix.
const STANDARD_FINALIZERS: &[&str] = &["kubernetes", "orphan", "foregroundDeletion"];

fn is_label(text: &str) -> bool {
    let edge = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    text.starts_with(edge) && text.ends_with(edge) && text.chars().all(|c| edge(c) || c == '-')
}

fn is_label_1035(text: &str) -> bool {
    is_label(text) && text.starts_with(|c: char| c.is_ascii_lowercase())
}

fn is_subdomain(text: &str) -> bool {
    text.split('.').all(is_label)
}

fn is_qualified(text: &str) -> bool {
    let edge = |c: char| c.is_ascii_alphanumeric();
    text.starts_with(edge)
        && text.ends_with(edge)
        && text.chars().all(|c| edge(c) || "-_.".contains(c))
}

/// What is wrong with a name; nothing if it is fine.
pub fn name_errors(rule: NameRule, name: &str) -> Vec<String> {
    let mut out = Vec::new();
    let (max, fits, text) = match rule {
        NameRule::Subdomain => (253, is_subdomain(name), SUBDOMAIN),
        NameRule::Label => (63, is_label(name), LABEL),
        NameRule::Label1035 => (63, is_label_1035(name), LABEL_1035),
        NameRule::PathSegment => {
            if name == "." || name == ".." {
                out.push(format!("may not be '{name}'"));
            }
            for bad in ['/', '%'] {
                if name.contains(bad) {
                    out.push(format!("may not contain '{bad}'"));
                }
            }
            return out;
        }
    };
    if rule == NameRule::Label && name.contains('.') {
        out.push("must not contain dots".to_owned());
        return out;
    }
    if name.len() > max {
        let unit = if rule == NameRule::Subdomain {
            "characters"
        } else {
            "bytes"
        };
        out.push(format!("must be no more than {max} {unit}"));
    }
    if !fits {
        out.push(text.to_owned());
    }
    out
}

/// What is wrong with a key of labels or annotations, or with a finalizer.
pub fn qualified_name_errors(name: &str) -> Vec<String> {
    let mut out = Vec::new();
    let parts: Vec<&str> = name.split('/').collect();
    let last = match parts[..] {
        [only] => only,
        [prefix, last] => {
            if prefix.is_empty() {
                out.push("prefix part must be non-empty".to_owned());
            } else {
                for error in name_errors(NameRule::Subdomain, prefix) {
                    out.push(format!("prefix part {error}"));
                }
            }
            last
        }
        _ => {
            return vec![format!(
                "a qualified {} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",
                QUALIFIED.trim_start_matches("name part ")
            )];
        }
    };
    if last.is_empty() {
        out.push("name part must be non-empty".to_owned());
    } else if last.len() > 63 {
        out.push("name part must be no more than 63 bytes".to_owned());
    }
    if !is_qualified(last) {
        out.push(QUALIFIED.to_owned());
    }
    out
}

/// What is wrong with the value of a label.
pub fn label_value_errors(value: &str) -> Vec<String> {
    let mut out = Vec::new();
    if value.len() > 63 {
        out.push("must be no more than 63 bytes".to_owned());
    }
    if !value.is_empty() && !is_qualified(value) {
        out.push(VALUE.to_owned());
    }
    out
}

/// Labels at a path, such as `metadata.labels`.
pub fn validate_labels(labels: &Value, at: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (key, value) in labels.as_object().into_iter().flatten() {
        for why in qualified_name_errors(key) {
            errors.push(FieldError::invalid(at, &json!(key), why));
        }
        for why in label_value_errors(value.as_str().unwrap_or_default()) {
            errors.push(FieldError::invalid(at, value, why));
        }
    }
    errors
}

fn list<'a>(metadata: &'a Value, field: &str) -> &'a [Value] {
    metadata[field].as_array().map_or(&[], Vec::as_slice)
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}

/// Brings `metadata` into the form in which Go's `ObjectMeta` writes it: nulls
/// and empty members are left out. `managedFields` stay, since an empty list
/// means something.
///
/// # Errors
/// What follows `… cannot be handled as a KIND: ` if a member has a wrong type.
pub fn normalise(metadata: &mut Value) -> Result<(), String> {
    let Some(members) = metadata.as_object_mut() else {
        return match metadata {
            Value::Null => {
                *metadata = json!({});
                Ok(())
            }
            other => Err(mismatch(other, "", "v1.ObjectMeta")),
        };
    };
    members.retain(|name, value| name == "managedFields" || !is_empty(value));
    for (name, value) in members.iter() {
        match name.as_str() {
            "labels" | "annotations" => {
                let Value::Object(map) = value else {
                    return Err(mismatch(value, name, "map[string]string"));
                };
                if let Some(bad) = map.values().find(|v| !v.is_string() && !v.is_null()) {
                    return Err(mismatch(bad, name, "string"));
                }
            }
            "finalizers" => {
                let Value::Array(list) = value else {
                    return Err(mismatch(value, name, "[]string"));
                };
                if let Some(bad) = list.iter().find(|v| !v.is_string()) {
                    return Err(mismatch(bad, name, "string"));
                }
            }
            "ownerReferences" if !value.is_array() => {
                return Err(mismatch(value, name, "[]v1.OwnerReference"));
            }
            "name" | "namespace" | "generateName" | "uid" | "resourceVersion"
                if !value.is_string() =>
            {
                return Err(mismatch(value, name, "string"));
            }
            _ => {}
        }
    }
    Ok(())
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

fn mismatch(value: &Value, field: &str, wanted: &str) -> String {
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    let at = if field.is_empty() {
        "metadata".to_owned()
    } else {
        format!("metadata.{field}")
    };
    format!("json: cannot unmarshal {kind} into Go struct field ObjectMeta.{at} of type {wanted}")
}

/// Checks the metadata of a new object.
pub fn validate_create(metadata: &Value, rule: NameRule) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let prefix = text(metadata, "generateName");
    if !prefix.is_empty() {
        // What is cut off is not what matters: a dash at the end is masked.
        let masked = if prefix.len() > 1 && prefix.ends_with('-') {
            format!("{}a", &prefix[..prefix.len() - 1])
        } else {
            prefix.to_owned()
        };
        for why in name_errors(rule, &masked) {
            errors.push(FieldError::invalid(
                "metadata.generateName",
                &metadata["generateName"],
                why,
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
        for why in name_errors(rule, name) {
            errors.push(FieldError::invalid("metadata.name", &metadata["name"], why));
        }
    }
    errors.extend(validate_common(metadata));
    errors
}

/// What is checked on every write.
fn validate_common(metadata: &Value) -> Vec<FieldError> {
    let mut errors = validate_labels(&metadata["labels"], "metadata.labels");
    let mut size = 0;
    for (key, value) in metadata["annotations"].as_object().into_iter().flatten() {
        size += key.len() + value.as_str().map_or(0, str::len);
        // Prefixes of annotations may be in any case.
        for why in qualified_name_errors(&key.to_lowercase()) {
            errors.push(FieldError::invalid(
                "metadata.annotations",
                &json!(key),
                why,
            ));
        }
    }
    if size > MAX_ANNOTATIONS {
        errors.push(FieldError::too_long(
            "metadata.annotations",
            MAX_ANNOTATIONS as u64,
        ));
    }
    errors.extend(owner_errors(metadata));
    for (i, finalizer) in list(metadata, "finalizers").iter().enumerate() {
        let name = finalizer.as_str().unwrap_or_default();
        let wrong = qualified_name_errors(name);
        if wrong.is_empty() && !name.contains('/') && !STANDARD_FINALIZERS.contains(&name) {
            errors.push(FieldError::invalid(
                format!("metadata.finalizers[{i}]"),
                finalizer,
                "name is neither a standard finalizer name nor is it fully qualified",
            ));
        }
        for why in wrong {
            errors.push(FieldError::invalid("metadata.finalizers", finalizer, why));
        }
    }
    let both = |f: &str| list(metadata, "finalizers").iter().any(|x| x == f);
    if both("orphan") && both("foregroundDeletion") {
        errors.push(FieldError::invalid(
            "metadata.finalizers",
            &metadata["finalizers"],
            "finalizer orphan and foregroundDeletion cannot be both set",
        ));
    }
    errors
}

fn owner_errors(metadata: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut controller: Option<&Value> = None;
    let at = "metadata.ownerReferences";
    let owners = list(metadata, "ownerReferences");
    for owner in owners {
        let version = text(owner, "apiVersion");
        if version.rsplit('/').next().unwrap_or_default().is_empty() {
            errors.push(FieldError::invalid(
                format!("{at}.apiVersion"),
                &json!(version),
                "version must not be empty",
            ));
        }
        for field in ["kind", "name", "uid"] {
            if text(owner, field).is_empty() {
                errors.push(FieldError::invalid(
                    format!("{at}.{field}"),
                    &json!(""),
                    "must not be empty",
                ));
            }
        }
        if owner["controller"] != true {
            continue;
        }
        match controller {
            None => controller = Some(owner),
            Some(first) => {
                let label = |o: &Value| format!("{}/{}", text(o, "kind"), text(o, "name"));
                errors.push(FieldError::with(
                    CauseReason::Invalid,
                    at,
                    format!(
                        "Invalid value: {}: Only one reference can have Controller set to true. Found \"true\" in references for {} and {}",
                        ordered_owners(owners),
                        label(first),
                        label(owner)
                    ),
                ));
            }
        }
    }
    errors
}

/// The references as Go encodes them: members in the order of the type.
fn ordered_owners(owners: &[Value]) -> String {
    let all: Vec<String> = owners
        .iter()
        .map(|owner| {
            let members: Vec<String> = [
                "apiVersion",
                "kind",
                "name",
                "uid",
                "controller",
                "blockOwnerDeletion",
            ]
            .iter()
            .filter_map(|f| owner.get(*f).map(|v| format!("\"{f}\":{v}")))
            .collect();
            format!("{{{}}}", members.join(","))
        })
        .collect();
    format!("[{}]", all.join(","))
}

/// Checks the metadata of a changed object. What the server keeps for itself
/// has been restored before where the client left it out.
pub fn validate_update(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if !old["deletionTimestamp"].is_null() {
        let before = list(old, "finalizers");
        let added: Vec<String> = list(new, "finalizers")
            .iter()
            .filter(|f| !before.contains(f))
            .map(ToString::to_string)
            .collect();
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
    for field in [
        "name",
        "namespace",
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
    ] {
        let absent = |v: &Value| v.is_null() || v == "";
        if new[field] != old[field] && !(absent(&new[field]) && absent(&old[field])) {
            errors.push(FieldError::invalid(
                format!("metadata.{field}"),
                &new[field],
                "field is immutable",
            ));
        }
    }
    errors.extend(validate_common(new));
    errors
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(errors: &[FieldError]) -> Vec<&str> {
        errors.iter().map(|e| e.field.as_str()).collect()
    }

    #[test]
    fn names_follow_their_rule() {
        assert!(name_errors(NameRule::Subdomain, "a.b-c").is_empty());
        assert_eq!(
            name_errors(NameRule::Label, "a.b"),
            ["must not contain dots"]
        );
        assert_eq!(name_errors(NameRule::Label1035, "1a").len(), 1);
        assert!(name_errors(NameRule::PathSegment, "system:x").is_empty());
    }

    #[test]
    fn every_part_of_the_metadata_is_checked() {
        let metadata = json!({
            "name": "a", "labels": {"bad key": "v", "k": "-"}, "annotations": {"x y": ""},
            "finalizers": ["nosuch"], "ownerReferences": [{"apiVersion": "v1", "kind": "K", "name": "n", "uid": ""}],
        });
        assert_eq!(
            fields(&validate_create(&metadata, NameRule::Subdomain)),
            [
                "metadata.labels",
                "metadata.labels",
                "metadata.annotations",
                "metadata.ownerReferences.uid",
                "metadata.finalizers[0]"
            ]
        );
    }

    #[test]
    fn identity_cannot_change_and_the_dying_get_no_finalizers() {
        let old = json!({"name": "a", "uid": "1", "deletionTimestamp": "t"});
        let new =
            json!({"name": "a", "uid": "2", "deletionTimestamp": "t", "finalizers": ["x.io/f"]});
        assert_eq!(
            fields(&validate_update(&new, &old)),
            ["metadata.finalizers", "metadata.uid"]
        );
    }
}
