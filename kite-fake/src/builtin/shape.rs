//! The form in which a typed server keeps an object: what Go's decoder makes of
//! JSON, and what its encoder writes back.
//!
//! Unknown members, nulls and (mostly) zero values go; structs that are no
//! pointers are always there; quantities are canonical. Wrong types are errors
//! in the decoder's words.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Number, Value};

use super::quantity;
use crate::members::is_zero;
use crate::schema::{Kind, Presence, Schema};

/// Brings an object into that form.
///
/// # Errors
/// The decoder's text: `json: cannot unmarshal number into Go struct field …`.
pub(super) fn normalize(schema: &Schema, object: &mut Value) -> Result<(), String> {
    let mut place = Place {
        type_name: schema.type_name.as_deref().unwrap_or_default(),
        path: Vec::new(),
    };
    node(schema, object, &mut place)
}

/// Where the decoder is: the innermost struct and the members that led there.
struct Place<'a> {
    type_name: &'a str,
    path: Vec<&'a str>,
}

impl Place<'_> {
    fn mismatch(&self, value: &Value, expected: &str) -> String {
        let got = match value {
            Value::Null => "null",
            Value::Bool(_) => "bool",
            Value::Number(_) => "number",
            Value::String(_) => "string",
            Value::Array(_) => "array",
            Value::Object(_) => "object",
        };
        if self.path.is_empty() {
            return format!("json: cannot unmarshal {got} into Go value of type {expected}");
        }
        format!(
            "json: cannot unmarshal {got} into Go struct field {}.{} of type {expected}",
            self.type_name,
            self.path.join(".")
        )
    }
}

fn node<'a>(schema: &'a Schema, value: &mut Value, place: &mut Place<'a>) -> Result<(), String> {
    match schema.kind {
        Kind::Any => Ok(()),
        Kind::Object => match value {
            Value::Object(members) if schema.properties.is_empty() => map(schema, members, place),
            Value::Object(members) => {
                let outer = place.type_name;
                if let Some(name) = &schema.type_name {
                    place.type_name = name;
                }
                let result = structure(schema, members, place);
                place.type_name = outer;
                result
            }
            other => Err(place.mismatch(other, &go_type(schema))),
        },
        Kind::Array => match value {
            Value::Array(elements) => {
                let Some(items) = schema.items.as_deref() else {
                    return Ok(());
                };
                for element in elements {
                    if element.is_null() {
                        *element = zero(items);
                    }
                    node(items, element, place)?;
                }
                Ok(())
            }
            other => Err(place.mismatch(other, &go_type(schema))),
        },
        Kind::String => string(schema, value, place),
        Kind::Integer => match value {
            Value::Number(number) if fits(schema, number) => Ok(()),
            Value::Number(number) => {
                let text = format!("number {number}");
                Err(place
                    .mismatch(value, &go_type(schema))
                    .replacen("number", &text, 1))
            }
            other => Err(place.mismatch(other, &go_type(schema))),
        },
        Kind::Number => match value {
            Value::Number(_) => Ok(()),
            other => Err(place.mismatch(other, "float64")),
        },
        Kind::Boolean => match value {
            Value::Bool(_) => Ok(()),
            other => Err(place.mismatch(other, "bool")),
        },
        Kind::IntOrString => int_or_string(schema, value, place),
    }
}

/// Whether an integer is one, and of its size.
fn fits(schema: &Schema, number: &Number) -> bool {
    number.as_i64().is_some_and(|integer| {
        schema.constraints.format.as_deref() != Some("int32") || i32::try_from(integer).is_ok()
    })
}

fn structure<'a>(
    schema: &'a Schema,
    members: &mut Map<String, Value>,
    place: &mut Place<'a>,
) -> Result<(), String> {
    let mut failure = None;
    members.retain(|name, value| {
        let Some((known, inner)) = schema.properties.get_key_value(name) else {
            return schema.preserve_unknown;
        };
        if value.is_null() {
            return inner.kind == Kind::Any && inner.preserve_unknown;
        }
        if failure.is_some() {
            return true;
        }
        place.path.push(known);
        let result = node(inner, value, place);
        place.path.pop();
        if let Err(error) = result {
            failure = Some(error);
            return true;
        }
        match inner.presence {
            Presence::OmitEmpty => !is_zero(value),
            // Empty slices and maps come back as null.
            Presence::AlwaysNull => !matches!(value, Value::Array(v) if v.is_empty()),
            Presence::AsGiven | Presence::Always => true,
        }
    });
    if let Some(error) = failure {
        return Err(error);
    }
    for (name, inner) in &schema.properties {
        match inner.presence {
            Presence::AsGiven | Presence::OmitEmpty => {}
            Presence::Always | Presence::AlwaysNull if members.contains_key(name) => {}
            Presence::AlwaysNull => {
                members.insert(name.clone(), Value::Null);
            }
            Presence::Always => {
                let mut value = zero(inner);
                node(inner, &mut value, place)?;
                members.insert(name.clone(), value);
            }
        }
    }
    Ok(())
}

fn map<'a>(
    schema: &'a Schema,
    members: &mut Map<String, Value>,
    place: &mut Place<'a>,
) -> Result<(), String> {
    let Some(inner) = schema.additional.as_deref() else {
        return Ok(());
    };
    for value in members.values_mut() {
        if value.is_null() {
            *value = zero(inner);
        }
        node(inner, value, place)?;
    }
    Ok(())
}

fn string<'a>(schema: &'a Schema, value: &mut Value, place: &mut Place<'a>) -> Result<(), String> {
    let Value::String(text) = value else {
        return Err(place.mismatch(value, "string"));
    };
    match schema.constraints.format.as_deref() {
        Some("byte") => {
            // Go writes base64 with padding and without line breaks.
            let clean: String = text.chars().filter(|c| !matches!(c, '\n' | '\r')).collect();
            let bytes = STANDARD.decode(&clean).map_err(|error| {
                let at = match error {
                    base64::DecodeError::InvalidByte(at, _)
                    | base64::DecodeError::InvalidLastSymbol(at, _) => at,
                    base64::DecodeError::InvalidLength(length) => length,
                    base64::DecodeError::InvalidPadding => clean.len(),
                };
                format!("illegal base64 data at input byte {at}")
            })?;
            *text = STANDARD.encode(bytes);
            Ok(())
        }
        Some("time") => time(text, "2006-01-02T15:04:05Z07:00", false),
        Some("micro-time") => time(text, "2006-01-02T15:04:05.000000Z07:00", true),
        _ => Ok(()),
    }
}

/// Checks a time, and writes it in UTC: with whole seconds, or with exactly six digits.
fn time(text: &mut String, layout: &str, micro: bool) -> Result<(), String> {
    let refused = |rest: &str, part: &str| {
        let quote = crate::go::quote;
        Err(format!(
            "parsing time {} as {}: cannot parse {} as {}",
            quote(text),
            quote(layout),
            quote(rest),
            quote(part)
        ))
    };
    let Ok(parsed) = text.parse::<jiff::Timestamp>() else {
        return refused(text, "2006");
    };
    if micro {
        let digits = text.split_once('.').map_or(0, |(_, rest)| {
            rest.bytes().take_while(u8::is_ascii_digit).count()
        });
        if digits != 6 {
            let rest = text.get(19..).unwrap_or_default();
            return refused(rest, ".000000");
        }
        *text = parsed.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string();
    } else {
        *text = parsed.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    }
    Ok(())
}

fn int_or_string<'a>(
    schema: &'a Schema,
    value: &mut Value,
    place: &mut Place<'a>,
) -> Result<(), String> {
    if schema.constraints.format.as_deref() != Some("quantity") {
        return match value {
            Value::Number(number)
                if number.as_i64().is_some_and(|it| i32::try_from(it).is_ok()) =>
            {
                Ok(())
            }
            Value::String(_) => Ok(()),
            other => Err(place.mismatch(other, "int32")),
        };
    }
    let text = match &*value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        other => return Err(place.mismatch(other, "string")),
    };
    match quantity::canonical(text.trim()) {
        Some(canonical) => {
            *value = Value::from(canonical);
            Ok(())
        }
        None => Err(quantity::MALFORMED.to_owned()),
    }
}

/// The zero value of a Go type.
fn zero(schema: &Schema) -> Value {
    match schema.kind {
        Kind::Object => Value::Object(Map::new()),
        Kind::String => Value::from(""),
        Kind::IntOrString if schema.constraints.format.is_some() => Value::from("0"),
        Kind::Integer | Kind::Number | Kind::IntOrString => Value::from(0),
        Kind::Boolean => Value::from(false),
        Kind::Array | Kind::Any => Value::Null,
    }
}

/// The Go type as decoding errors name it.
fn go_type(schema: &Schema) -> String {
    let inner = |schema: Option<&Schema>| schema.map_or("interface {}".to_owned(), go_type);
    match schema.kind {
        Kind::Object if schema.properties.is_empty() => {
            format!("map[string]{}", inner(schema.additional.as_deref()))
        }
        Kind::Object => format!("v1.{}", schema.type_name.as_deref().unwrap_or_default()),
        Kind::Array => format!("[]{}", inner(schema.items.as_deref())),
        Kind::String => "string".to_owned(),
        Kind::Integer => schema
            .constraints
            .format
            .clone()
            .unwrap_or_else(|| "int64".to_owned()),
        Kind::Number => "float64".to_owned(),
        Kind::Boolean => "bool".to_owned(),
        Kind::IntOrString => "intstr.IntOrString".to_owned(),
        Kind::Any => "interface {}".to_owned(),
    }
}
