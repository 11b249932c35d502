//! JSON objects as messages, byte for byte as Go's generated code writes them: fields
//! by their numbers, and the zero value of all that is no pointer.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::Unencodable;
use super::wire::{Wire, put_bytes, put_nested, put_tag, put_varint};
use crate::go_types::{Field, Form, Kind, Shape, TYPES};

/// Writes the message at place `at` of the table.
pub(super) fn message(out: &mut Vec<u8>, at: usize, value: &Value) -> Result<(), Unencodable> {
    let message = TYPES.message(at);
    for (number, place) in &message.numbered {
        let Some(field) = message.fields.get(*place) else {
            continue;
        };
        let given = match message.form {
            Form::Object if field.name == "." => value,
            Form::Object => value.get(field.name).unwrap_or(&Value::Null),
            Form::List => value,
            Form::SchemaOrBool if field.kind == Kind::Bool => {
                // Where there is a schema, there may be more.
                let allows = value.is_object() || *value == Value::Bool(true);
                put_tag(out, *number, Wire::Varint);
                put_varint(out, u64::from(allows));
                continue;
            }
            // Each of the two is written where the value is of its type.
            _ if value.is_array() == (field.shape == Shape::List) && !value.is_boolean() => value,
            _ => &Value::Null,
        };
        put(out, *number, field, given)?;
    }
    Ok(())
}

fn put(out: &mut Vec<u8>, number: u32, field: &Field, value: &Value) -> Result<(), Unencodable> {
    match (field.shape, value) {
        (Shape::Pointer | Shape::List | Shape::Map, Value::Null) => Ok(()),
        (Shape::Value | Shape::Pointer, value) => put_one(out, number, field, value),
        (Shape::List, Value::Array(list)) => list
            .iter()
            .try_for_each(|value| put_one(out, number, field, value)),
        (Shape::Map, Value::Object(members)) => members.iter().try_for_each(|(key, value)| {
            put_nested(out, number, |out| {
                put_bytes(out, 1, key.as_bytes());
                put_one(out, 2, field, value)
            })
        }),
        (Shape::List | Shape::Map, other) => Err(Unencodable::new(field.name, other)),
    }
}

/// Writes one value, or the zero value for `null`.
fn put_one(
    out: &mut Vec<u8>,
    number: u32,
    field: &Field,
    value: &Value,
) -> Result<(), Unencodable> {
    let wrong = || Unencodable::new(field.name, value);
    let is_unset = value.is_null();
    match field.kind {
        Kind::String => {
            let text = if is_unset {
                ""
            } else {
                value.as_str().ok_or_else(wrong)?
            };
            put_bytes(out, number, text.as_bytes());
        }
        Kind::Bytes if is_unset => {}
        Kind::Bytes => {
            let text = value.as_str().ok_or_else(wrong)?;
            put_bytes(out, number, &STANDARD.decode(text).map_err(|_| wrong())?);
        }
        Kind::Int32 | Kind::Int64 => {
            let integer = if is_unset {
                0
            } else {
                value.as_i64().ok_or_else(wrong)?
            };
            put_tag(out, number, Wire::Varint);
            put_varint(out, integer.cast_unsigned());
        }
        Kind::Bool => {
            let flag = if is_unset {
                false
            } else {
                value.as_bool().ok_or_else(wrong)?
            };
            put_tag(out, number, Wire::Varint);
            put_varint(out, u64::from(flag));
        }
        Kind::Float64 => {
            let float = if is_unset {
                0.0
            } else {
                value.as_f64().ok_or_else(wrong)?
            };
            put_tag(out, number, Wire::Fixed64);
            out.extend_from_slice(&float.to_bits().to_le_bytes());
        }
        Kind::Message(at) => put_nested(out, number, |out| message(out, at, value))?,
        Kind::Time | Kind::MicroTime => put_nested(out, number, |out| {
            if is_unset {
                return Ok(());
            }
            let text = value.as_str().ok_or_else(wrong)?;
            let time: jiff::Timestamp = text.parse().map_err(|_| wrong())?;
            let nanos = match field.kind {
                Kind::MicroTime => time.subsec_nanosecond() / 1000 * 1000,
                _ => 0,
            };
            // Go counts the nanoseconds from the second before, jiff towards zero.
            let seconds = time.as_second() - i64::from(nanos < 0);
            let nanos = if nanos < 0 {
                nanos + 1_000_000_000
            } else {
                nanos
            };
            put_tag(out, 1, Wire::Varint);
            put_varint(out, seconds.cast_unsigned());
            put_tag(out, 2, Wire::Varint);
            put_varint(out, i64::from(nanos).cast_unsigned());
            Ok(())
        })?,
        Kind::Quantity => put_nested(out, number, |out| {
            let text = if is_unset {
                "0"
            } else {
                value.as_str().ok_or_else(wrong)?
            };
            put_bytes(out, 1, text.as_bytes());
            Ok(())
        })?,
        Kind::IntOrString => put_nested(out, number, |out| {
            let (is_text, integer, text) = match value {
                Value::Null => (false, 0, ""),
                Value::String(text) => (true, 0, text.as_str()),
                other => (false, other.as_i64().ok_or_else(wrong)?, ""),
            };
            put_tag(out, 1, Wire::Varint);
            put_varint(out, u64::from(is_text));
            put_tag(out, 2, Wire::Varint);
            put_varint(out, integer.cast_unsigned());
            put_bytes(out, 3, text.as_bytes());
            Ok(())
        })?,
        Kind::Raw => put_nested(out, number, |out| {
            if !is_unset {
                let text = serde_json::to_vec(value).map_err(|_| wrong())?;
                put_bytes(out, 1, &text);
            }
            Ok(())
        })?,
        Kind::Any => return Err(wrong()),
    }
    Ok(())
}
