//! Dropping the members that a schema does not know.

use serde_json::Value;

use super::model::Schema;

/// Removes unknown members, and returns their paths (`spec.list[0].name`) in
/// alphabetical order, as warnings and strict errors name them.
pub fn prune(schema: &Schema, value: &mut Value) -> Vec<String> {
    let mut unknown = Vec::new();
    walk(Some(schema), value, "", &mut unknown);
    unknown.sort();
    unknown
}

/// `schema` is `None` below a node that keeps what it does not know.
fn walk(schema: Option<&Schema>, value: &mut Value, path: &str, unknown: &mut Vec<String>) {
    let Some(schema) = schema else { return };
    match value {
        Value::Object(members) => {
            let keep = schema.preserve_unknown;
            members.retain(|name, _| {
                let known = keep || schema.member(name).is_some();
                if !known {
                    unknown.push(join(path, name));
                }
                known
            });
            for (name, member) in members {
                let inner = schema.member(name).map(AsRef::as_ref);
                if inner.is_some() {
                    walk(inner, member, &join(path, name), unknown);
                }
            }
        }
        Value::Array(elements) => {
            for (i, element) in elements.iter_mut().enumerate() {
                walk(
                    schema.items.as_deref(),
                    element,
                    &format!("{path}[{i}]"),
                    unknown,
                );
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() {
        name.to_owned()
    } else {
        format!("{path}.{name}")
    }
}
