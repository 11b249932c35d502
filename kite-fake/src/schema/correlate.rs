//! Finding the previous value of a part of an object.

use serde_json::Value;

use super::model::{ListType, Schema};

/// The previous value of a member.
pub(super) fn member<'a>(old: Option<&'a Value>, name: &str) -> Option<&'a Value> {
    old?.as_object()?.get(name)
}

/// The previous value of a list's element: known only where elements have keys.
pub(super) fn element<'a>(
    list_type: &ListType,
    items: &Schema,
    element: &Value,
    old: Option<&'a Value>,
) -> Option<&'a Value> {
    let ListType::Map(keys) = list_type else {
        return None;
    };
    old?.as_array()?
        .iter()
        .find(|candidate| same_key(keys, items, element, candidate))
}

/// Whether two elements of a list have the same keys; an absent key has its default.
pub(super) fn same_key(keys: &[String], items: &Schema, a: &Value, b: &Value) -> bool {
    a.is_object()
        && b.is_object()
        && keys
            .iter()
            .all(|key| key_value(items, a, key) == key_value(items, b, key))
}

/// One key of an element.
pub(super) fn key_value<'a>(items: &'a Schema, element: &'a Value, key: &str) -> Option<&'a Value> {
    element
        .get(key)
        .or_else(|| items.properties.get(key)?.default.as_ref())
}
