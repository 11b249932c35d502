//! Whole objects inside an object (`x-kubernetes-embedded-resource`).

use serde_json::{Value, json};

use super::model::Schema;
use super::path::Path;
use crate::field_error::FieldError;
use crate::metadata;
use crate::names::{NameRule, label_1035};

/// What is wrong with the `apiVersion`, `kind` and `metadata` of each embedded object.
pub(super) fn check(schema: &Schema, value: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if schema.has_embedded_below {
        walk(schema, value, &Path::Root, &mut errors);
    }
    errors
}

fn walk(schema: &Schema, value: &Value, at: &Path<'_>, errors: &mut Vec<FieldError>) {
    match value {
        Value::Object(members) => {
            if schema.embedded_resource {
                object(value, at, errors);
            }
            for (name, member) in members {
                if let Some(inner) = schema.properties.get(name) {
                    walk(inner, member, &at.member(name), errors);
                } else if let Some(inner) = &schema.additional {
                    walk(inner, member, &at.entry(name), errors);
                }
            }
        }
        Value::Array(elements) => {
            let Some(items) = &schema.items else { return };
            for (i, element) in elements.iter().enumerate() {
                walk(items, element, &at.element(i), errors);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn object(value: &Value, at: &Path<'_>, errors: &mut Vec<FieldError>) {
    for name in ["apiVersion", "kind"] {
        let field = at.member(name).to_string();
        match value.get(name) {
            None => errors.push(FieldError::required(field, "")),
            Some(Value::String(text)) if text.is_empty() => {
                errors.push(FieldError::invalid(field, &"".into(), "must not be empty"));
            }
            Some(Value::String(text)) => {
                if let Some(problem) = problem(name, text) {
                    errors.push(FieldError::invalid(field, &text.as_str().into(), problem));
                }
            }
            Some(other) => errors.push(FieldError::invalid(field, other, "must be a string")),
        }
    }
    let Some(Value::Object(meta)) = value.get("metadata") else {
        return;
    };
    let mut meta = meta.clone();
    let absent =
        |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().is_empty();
    // A name is checked, but need not be there.
    if absent(meta.get("name")) {
        meta.insert("name".to_owned(), "fakename".into());
    }
    let namespaced = !absent(meta.get("namespace"));
    for mut error in metadata::validate(
        &json!({"metadata": meta}),
        namespaced,
        NameRule::PathSegment,
    ) {
        error.field = at.member(&error.field).to_string();
        errors.push(error);
    }
}

fn problem(name: &str, text: &str) -> Option<String> {
    if name == "apiVersion" {
        let parts = text.matches('/').count();
        return (parts > 1).then(|| format!("unexpected GroupVersion string: {text}"));
    }
    let problems = label_1035(&text.to_lowercase());
    (!problems.is_empty()).then(|| {
        format!(
            "may have mixed case, but should otherwise match: {}",
            problems.join(",")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn embedded_objects_have_a_type_and_sound_metadata() {
        let schema = Schema::from_json(&json!({"type": "object", "properties": {"t": {
            "type": "object", "x-kubernetes-embedded-resource": true,
            "x-kubernetes-preserve-unknown-fields": true,
        }}}));
        let errors = |value: Value| -> Vec<String> {
            schema
                .as_ref()
                .map(|schema| check(schema, &json!({"t": value})))
                .unwrap_or_default()
                .iter()
                .map(ToString::to_string)
                .collect()
        };
        assert!(errors(json!({"apiVersion": "v1", "kind": "A", "metadata": {}})).is_empty());
        assert_eq!(
            errors(json!({"apiVersion": "a/b/c", "kind": ""})),
            [
                "t.apiVersion: Invalid value: \"a/b/c\": unexpected GroupVersion string: a/b/c",
                "t.kind: Invalid value: \"\": must not be empty"
            ]
        );
        let named = errors(json!({"apiVersion": "v1", "kind": "A", "metadata": {"name": "a/b"}}));
        assert_eq!(
            named,
            ["t.metadata.name: Invalid value: \"a/b\": may not contain '/'"]
        );
    }
}
