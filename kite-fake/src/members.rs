//! Reading and filling JSON objects whose shape is known.

use serde_json::{Map, Value};

const NOTHING: &[Value] = &[];

/// Whether a value is what Go leaves out by `omitempty`.
pub(crate) fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(flag) => !flag,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(elements) => elements.is_empty(),
        Value::Object(members) => members.is_empty(),
    }
}

/// A string member; empty if it is not there.
pub(crate) fn text<'a>(of: &'a Value, member: &str) -> &'a str {
    of.get(member).and_then(Value::as_str).unwrap_or_default()
}

/// A whole number.
pub(crate) fn number(of: &Value, member: &str) -> Option<i64> {
    of.get(member).and_then(Value::as_i64)
}

/// A flag; `false` if it is not there.
pub(crate) fn flag(of: &Value, member: &str) -> bool {
    of.get(member).and_then(Value::as_bool).unwrap_or_default()
}

/// The elements of a list member; none if it is not there.
pub(crate) fn list<'a>(of: &'a Value, member: &str) -> &'a [Value] {
    of.get(member)
        .and_then(Value::as_array)
        .map_or(NOTHING, Vec::as_slice)
}

/// The elements of a list member, to be changed.
pub(crate) fn list_mut<'a>(of: &'a mut Value, member: &str) -> &'a mut [Value] {
    of.get_mut(member)
        .and_then(Value::as_array_mut)
        .map(Vec::as_mut_slice)
        .unwrap_or_default()
}

/// The members of an object member; none if it is not there.
pub(crate) fn members<'a>(
    of: &'a Value,
    member: &str,
) -> impl Iterator<Item = (&'a String, &'a Value)> + use<'a> {
    of.get(member)
        .and_then(Value::as_object)
        .into_iter()
        .flat_map(Map::iter)
}

/// Whether a member has a value.
pub(crate) fn has(of: &Value, member: &str) -> bool {
    of.get(member).is_some_and(|value| !value.is_null())
}

/// Sets a member that has no value, or an empty string.
pub(crate) fn default(of: &mut Value, member: &str, value: impl Into<Value>) {
    if let Value::Object(members) = of {
        let unset = match members.get(member) {
            None | Some(Value::Null) => true,
            Some(Value::String(text)) => text.is_empty(),
            Some(_) => false,
        };
        if unset {
            members.insert(member.to_owned(), value.into());
        }
    }
}

/// Sets a member.
pub(crate) fn set(of: &mut Value, member: &str, value: impl Into<Value>) {
    if let Value::Object(members) = of {
        members.insert(member.to_owned(), value.into());
    }
}

/// Removes a member.
pub(crate) fn unset(of: &mut Value, member: &str) -> Option<Value> {
    of.as_object_mut()?.remove(member)
}

/// Makes a member what it is in `from`: there or not.
pub(crate) fn copy(of: &mut Value, from: &Value, member: &str) {
    match from.get(member) {
        Some(value) => set(of, member, value.clone()),
        None => {
            unset(of, member);
        }
    }
}

/// An object member, made if it is not there.
pub(crate) fn object_mut<'a>(of: &'a mut Value, member: &str) -> &'a mut Value {
    if !of.is_object() {
        *of = Value::Object(Map::new());
    }
    if !of.get(member).is_some_and(Value::is_object) {
        set(of, member, Value::Object(Map::new()));
    }
    &mut of[member]
}
