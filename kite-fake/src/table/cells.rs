//! Small readers that the printers share.

use serde_json::Value;

/// What stands for something that is not there.
pub(super) const NONE: &str = "<none>";
/// What stands for something that nobody set.
pub(super) const UNSET: &str = "<unset>";

/// The text at a pointer, empty if there is none.
pub(super) fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// The number at a pointer, 0 if there is none.
pub(super) fn number(object: &Value, pointer: &str) -> i64 {
    object.pointer(pointer).and_then(Value::as_i64).unwrap_or(0)
}

/// The list at a pointer, empty if there is none.
pub(super) fn list<'a>(object: &'a Value, pointer: &str) -> &'a [Value] {
    object
        .pointer(pointer)
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

/// How many members or elements there are at a pointer.
pub(super) fn count(object: &Value, pointer: &str) -> usize {
    match object.pointer(pointer) {
        Some(Value::Array(elements)) => elements.len(),
        Some(Value::Object(members)) => members.len(),
        _ => 0,
    }
}

/// The text, or `other` if it is empty.
pub(super) fn or<'a>(text: &'a str, other: &'a str) -> &'a str {
    if text.is_empty() { other } else { text }
}

/// The text of a scalar as it is read (quantities, ports).
pub(super) fn plain(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// One member of each element, separated by commas.
pub(super) fn joined(elements: &[Value], member: &str) -> String {
    elements
        .iter()
        .map(|e| plain(&e[member]))
        .collect::<Vec<_>>()
        .join(",")
}

/// `a=1,b=2`, or `<none>`.
pub(super) fn pairs(members: &Value) -> String {
    let pairs: Vec<String> = members
        .as_object()
        .into_iter()
        .flatten()
        .map(|(key, value)| format!("{key}={}", plain(value)))
        .collect();
    or(&pairs.join(","), NONE).to_owned()
}

/// A label selector (`matchLabels`, `matchExpressions`) in text form, its terms
/// in the order of their keys, or `<none>`.
pub(super) fn selector(selector: &Value) -> String {
    let mut terms: Vec<(&str, String)> = selector["matchLabels"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(key, value)| (key.as_str(), format!("{key}={}", plain(value))))
        .collect();
    for expression in list(selector, "/matchExpressions") {
        let key = text(expression, "/key");
        let mut values: Vec<String> = list(expression, "/values").iter().map(plain).collect();
        values.sort_unstable();
        let values = values.join(",");
        let term = match text(expression, "/operator") {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "Exists" => key.to_owned(),
            _ => format!("!{key}"),
        };
        terms.push((key, term));
    }
    terms.sort_by_key(|(key, _)| *key);
    let terms: Vec<String> = terms.into_iter().map(|(_, term)| term).collect();
    or(&terms.join(","), NONE).to_owned()
}

/// Access modes in kubectl's letters, in an order of their own.
pub(super) fn access_modes(modes: &[Value]) -> String {
    let letters: Vec<&str> = [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ]
    .into_iter()
    .filter(|(name, _)| modes.iter().any(|mode| mode == name))
    .map(|(_, letters)| letters)
    .collect();
    letters.join(",")
}
