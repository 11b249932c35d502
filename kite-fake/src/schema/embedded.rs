//! Whole objects inside an object (`x-kubernetes-embedded-resource`).

use serde_json::Value;

use super::error::FieldError;
use super::model::Schema;
use super::path;

/// Requires `apiVersion` and `kind` of each embedded object.
pub(super) fn check(schema: &Schema, value: &Value, errors: &mut Vec<FieldError>) {
    walk(schema, value, "", errors);
}

fn walk(schema: &Schema, value: &Value, at: &str, errors: &mut Vec<FieldError>) {
    match value {
        Value::Object(members) => {
            if schema.embedded_resource {
                for name in ["apiVersion", "kind"] {
                    let given = members
                        .get(name)
                        .and_then(Value::as_str)
                        .is_some_and(|text| !text.is_empty());
                    let field = path::member(at, name);
                    if !given && !errors.iter().any(|error| error.field == field) {
                        errors.push(FieldError::required(field, ""));
                    }
                }
            }
            for (name, member) in members {
                if let Some(inner) = schema.member(name) {
                    walk(inner, member, &path::member(at, name), errors);
                }
            }
        }
        Value::Array(elements) => {
            let Some(items) = &schema.items else { return };
            for (i, element) in elements.iter().enumerate() {
                walk(items, element, &path::element(at, i), errors);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
