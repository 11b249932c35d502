//! Dropping the members that a schema does not know.

use serde_json::Value;

use super::model::{Kind, Schema};
use super::path::Path;

/// Removes unknown members, and returns their paths (`spec.list[0].name`) in
/// alphabetical order, as warnings and strict errors name them.
pub fn prune(schema: &Schema, value: &mut Value) -> Vec<String> {
    let mut unknown = Vec::new();
    walk(schema, value, &Path::Root, &mut unknown);
    unknown.sort();
    unknown
}

fn walk(schema: &Schema, value: &mut Value, at: &Path<'_>, unknown: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            let keep =
                schema.preserve_unknown || schema.kind == Kind::Any && schema.properties.is_empty();
            members.retain(|name, _| {
                let known = keep || schema.member(name).is_some();
                if !known {
                    unknown.push(at.member(name).to_string());
                }
                known
            });
            for (name, member) in members {
                if let Some(inner) = schema.member(name) {
                    walk(inner, member, &at.member(name), unknown);
                }
            }
        }
        Value::Array(elements) => {
            let Some(inner) = &schema.items else { return };
            for (i, element) in elements.iter_mut().enumerate() {
                walk(inner, element, &at.element(i), unknown);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
