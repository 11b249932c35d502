//! Merging a configuration that nobody owns: what admission policies apply.

use serde_json::Value;

use super::{merge, typed};
use crate::schema::Schema;

/// The object with all that a configuration sets.
///
/// # Errors
/// The configuration does not fit the schema, or sets what is one field and would lose what
/// is in it.
pub(crate) fn configured(schema: &Schema, live: &Value, config: &Value) -> Result<Value, String> {
    typed::check(schema, config)
        .map_err(|why| format!("failed to convert patch object to typed object: {why}"))?;
    let mut atomic = Vec::new();
    find_atomic(schema, config, "", &mut atomic);
    if !atomic.is_empty() {
        return Err(format!(
            "invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: {}",
            atomic.join(", ")
        ));
    }
    Ok(merge::merge(Some(schema), Some(live), config))
}

/// The paths of lists and objects that are one field.
fn find_atomic(schema: &Schema, value: &Value, path: &str, found: &mut Vec<String>) {
    if !value.is_object() && !value.is_array() {
        return;
    }
    if typed::is_atomic(schema) {
        found.push(path.to_owned());
    }
    match value {
        Value::Object(members) => {
            for (name, inner) in members {
                if let Some(schema) = typed::member(Some(schema), name) {
                    find_atomic(schema, inner, &format!("{path}.{name}"), found);
                }
            }
        }
        Value::Array(elements) => {
            for (i, inner) in elements.iter().enumerate() {
                if let Some(schema) = typed::items(schema) {
                    find_atomic(schema, inner, &format!("{path}[{i}]"), found);
                }
            }
        }
        _ => {}
    }
}
