//! How large the values of a schema can be, as far as it bounds them: what
//! cost estimates start from (Kubernetes: "resource use by validation rules").

use serde_json::Value;

use super::super::model::{Kind, Schema};
use super::types::{Type, member};

/// The largest request, in bytes.
pub(super) const MAX_REQUEST: u64 = 3 * 1024 * 1024;

/// Most elements, members or characters of a value.
pub(super) fn most(schema: &Schema) -> u64 {
    let limits = &schema.constraints;
    match schema.kind {
        Kind::IntOrString => limits.max_length.map_or(MAX_REQUEST - 2, |max| max * 4),
        Kind::Array => limits.max_items.unwrap_or_else(|| {
            let least = schema.items.as_deref().map_or(0, least);
            (MAX_REQUEST - 2) / (least + 1)
        }),
        Kind::Object if schema.is_map() => limits.max_properties.unwrap_or_else(|| {
            let least = schema.additional.as_deref().map_or(0, least);
            (MAX_REQUEST - 2) / (least + 6)
        }),
        Kind::String => match limits.format.as_deref() {
            Some("byte") => limits.max_length.unwrap_or(MAX_REQUEST - 2),
            Some("duration" | "date-time") => 32,
            Some("date") => 12,
            _ => match limits.max_length {
                Some(max) => max * 4,
                None if !limits.enumeration.is_empty() => longest(&limits.enumeration),
                None => MAX_REQUEST - 2,
            },
        },
        Kind::Object | Kind::Integer | Kind::Number | Kind::Boolean | Kind::Any => 0,
    }
}

fn longest(values: &[Value]) -> u64 {
    let lengths = values.iter().filter_map(Value::as_str).map(str::len);
    lengths.max().unwrap_or(0) as u64
}

/// The smallest that a value can be as JSON, in bytes.
pub(super) fn least(schema: &Schema) -> u64 {
    match schema.kind {
        Kind::Integer | Kind::Number | Kind::IntOrString => 1,
        Kind::Boolean => 4,
        Kind::String => match schema.constraints.format.as_deref() {
            Some("duration") => 3,
            Some("date") => 12,
            Some("date-time") => 21,
            _ => 2,
        },
        Kind::Object if !schema.is_map() => {
            let required = schema.constraints.required.iter();
            let members = required.filter_map(|name| Some((name, schema.properties.get(name)?)));
            let visible =
                members.filter(|(_, inner)| inner.default.is_none() && Type::of(inner).is_some());
            2 + visible
                .map(|(name, inner)| name.len() as u64 + least(inner) + 4)
                .sum::<u64>()
        }
        Kind::Object | Kind::Array | Kind::Any => 2,
    }
}

/// The most elements of what a path leads to, from the schema of `self`; `None`
/// if the path leaves the schema.
pub(super) fn at_path(schema: &Schema, path: &[String]) -> Option<u64> {
    let mut place = schema;
    for (i, segment) in path.iter().enumerate() {
        place = match segment.as_str() {
            "@items" | "@values" if place.kind == Kind::Array => place.items.as_deref()?,
            "@items" | "@values" if place.is_map() => place.additional.as_deref()?,
            // Keys of maps are not bounded, and count as nothing.
            "@keys" if place.is_map() => return (i + 1 == path.len()).then_some(0),
            "@items" | "@values" | "@keys" | "@indices" => return None,
            name if place.kind == Kind::Object && !place.is_map() => {
                let inner = member(place, name)?;
                Type::of(inner)?;
                inner
            }
            _ => return None,
        };
    }
    Some(most(place))
}
