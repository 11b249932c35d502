//! `metadata` of custom resources as Go's `ObjectMeta` writes it.

use serde_json::{Value, json};

/// Brings `metadata` into the form in which Go's `ObjectMeta` writes it: nulls
/// and empty members are left out. `managedFields` stay, since an empty list
/// means something.
///
/// # Errors
/// What follows `… cannot be handled as a KIND: ` if a member has a wrong type.
pub(crate) fn normalise(metadata: &mut Value) -> Result<(), String> {
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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn empty_members_go_and_wrong_types_are_named() {
        let mut metadata =
            json!({"name": "a", "labels": {}, "finalizers": [], "uid": "", "managedFields": []});
        normalise(&mut metadata).unwrap();
        assert_eq!(metadata, json!({"name": "a", "managedFields": []}));
        let wrong = normalise(&mut json!({"labels": {"k": 1}})).unwrap_err();
        assert_eq!(
            wrong,
            "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.labels of type string"
        );
    }
}
