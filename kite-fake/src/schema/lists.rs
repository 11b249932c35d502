//! Lists whose elements must differ (`x-kubernetes-list-type: set` and `map`).

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::correlate::key_value;
use super::error::FieldError;
use super::model::{ListType, Schema};
use super::path;

/// An error for each element that repeats an earlier one.
pub(super) fn duplicates(schema: &Schema, value: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    walk(schema, value, "", &mut errors);
    errors
}

fn walk(schema: &Schema, value: &Value, at: &str, errors: &mut Vec<FieldError>) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                if let Some(inner) = schema.member(name) {
                    walk(inner, member, &path::member(at, name), errors);
                }
            }
        }
        Value::Array(elements) => {
            let Some(items) = &schema.items else { return };
            let mut seen = HashSet::new();
            for (i, element) in elements.iter().enumerate() {
                let identity = match &schema.list_type {
                    ListType::Atomic => None,
                    ListType::Set => Some(element.clone()),
                    ListType::Map(keys) => {
                        element.is_object().then(|| identity(keys, items, element))
                    }
                };
                if let Some(identity) = identity
                    && !seen.insert(identity.to_string())
                {
                    errors.push(FieldError::duplicate(path::element(at, i), &identity));
                }
                walk(items, element, &path::element(at, i), errors);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The keys of an element as an object of their own.
fn identity(keys: &[String], items: &Schema, element: &Value) -> Value {
    let members: Map<String, Value> = keys
        .iter()
        .filter_map(|key| Some((key.clone(), key_value(items, element, key)?.clone())))
        .collect();
    Value::Object(members)
}
