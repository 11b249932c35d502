//! Lists whose elements must differ (`x-kubernetes-list-type: set` and `map`).

use std::borrow::Cow;
use std::collections::HashMap;

use serde_json::{Map, Value};

use super::model::{ListType, Schema};
use super::path::Path;
use crate::field_error::FieldError;

/// An error for each element that repeats an earlier one.
pub(super) fn duplicates(schema: &Schema, value: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    walk(schema, value, &Path::Root, &mut errors);
    errors
}

fn walk(schema: &Schema, value: &Value, at: &Path<'_>, errors: &mut Vec<FieldError>) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                if let Some(inner) = schema.properties.get(name) {
                    walk(inner, member, &at.member(name), errors);
                } else if let Some(inner) = &schema.additional {
                    walk(inner, member, &at.entry(name), errors);
                }
            }
        }
        Value::Array(elements) => {
            match &schema.list_type {
                ListType::Atomic => {}
                ListType::Set => {
                    let all: Vec<Cow<'_, Value>> = elements.iter().map(Cow::Borrowed).collect();
                    repeated(&all, at, errors);
                }
                ListType::Map(keys) => keyed(keys, elements, at, errors),
            }
            let Some(items) = &schema.items else { return };
            for (i, element) in elements.iter().enumerate() {
                walk(items, element, &at.element(i), errors);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn keyed(keys: &[String], elements: &[Value], at: &Path<'_>, errors: &mut Vec<FieldError>) {
    let odd = elements
        .iter()
        .position(|element| !element.is_null() && !element.is_object());
    if let Some(i) = odd {
        errors.push(FieldError::invalid(
            at.element(i).to_string(),
            &elements[i],
            "must be an object for an array of list-type map",
        ));
        return;
    }
    let identities: Vec<Cow<'_, Value>> = elements
        .iter()
        .map(|element| Cow::Owned(identity(keys, element)))
        .collect();
    repeated(&identities, at, errors);
}

/// An error for the second of equal values; further ones are not told.
fn repeated(values: &[Cow<'_, Value>], at: &Path<'_>, errors: &mut Vec<FieldError>) {
    let mut seen: HashMap<String, usize> = HashMap::new();
    for (i, value) in values.iter().enumerate() {
        let times = seen.entry(value.to_string()).or_default();
        *times += 1;
        if *times == 2 {
            errors.push(FieldError::duplicate(at.element(i).to_string(), value));
        }
    }
}

/// The keys of an element as an object of their own.
fn identity(keys: &[String], element: &Value) -> Value {
    let members: Map<String, Value> = keys
        .iter()
        .filter_map(|key| Some((key.clone(), element.get(key)?.clone())))
        .collect();
    Value::Object(members)
}
