//! What edits become: merge patches of specs.

use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::form::Change;

/// The texts in a list.
pub fn texts(list: &Value) -> Vec<String> {
    let items = list.as_array().into_iter().flatten();
    items.filter_map(Value::as_str).map(str::to_owned).collect()
}

/// The fields that are to be written.
pub fn as_map<const N: usize>(fields: [Option<(&'static str, Value)>; N]) -> Map<String, Value> {
    let fields = fields.into_iter().flatten();
    fields
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

/// One field of a merge patch, unless it is to be kept.
pub fn change_to_json<T: Serialize>(
    field: &'static str,
    change: Change<T>,
) -> Option<(&'static str, Value)> {
    match change {
        Change::Keep => None,
        Change::Clear => Some((field, Value::Null)),
        Change::Set(value) => Some((field, json!(value))),
    }
}
