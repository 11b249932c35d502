//! Messages as the JSON that Go's encoder writes of them.
//!
//! Protobuf tells a zero value from one that is not set only where Go has a pointer:
//! there whatever is on the wire was meant. Elsewhere the zero value is written or left
//! out as the field's tags say, whether it was on the wire or not.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use super::Malformed;
use super::wire::{self, Reader, Wire};
use crate::go_types::{Field, Form, Kind, Message, Shape, TYPES};
use crate::members::is_zero;

/// Messages nested deeper than this are refused.
const MAX_DEPTH: usize = 64;

/// What was read of a field so far.
#[derive(Debug, Clone, Default)]
enum Slot<'a> {
    #[default]
    Unset,
    Value(Value),
    /// A message that may go on in another field of the same number.
    Nested(Cow<'a, [u8]>),
}

/// Decodes the message at place `at` of the table.
pub(super) fn message(at: usize, bytes: &[u8], depth: usize) -> Result<Value, Malformed> {
    if depth > MAX_DEPTH {
        return Err(Malformed::TooDeep);
    }
    let message = TYPES.message(at);
    let mut slots = vec![Slot::Unset; message.fields.len()];
    let mut reader = Reader::new(bytes);
    while let Some((number, wire)) = reader.tag(message.name)? {
        match message.by_number(number) {
            Some((place, field)) => read(field, wire, &mut reader, &mut slots[place], depth)?,
            None => reader.skip(wire)?,
        }
    }
    let mut members = Map::new();
    for (field, slot) in message.fields.iter().zip(slots) {
        let given = match slot {
            Slot::Unset => None,
            Slot::Value(value) => Some(value),
            Slot::Nested(bytes) => Some(nested(field.kind, &bytes, depth)?),
        };
        put(field, given, message, &mut members, depth)?;
    }
    Ok(formed(message.form, members))
}

/// Puts a field where Go's encoder would.
fn put(
    field: &Field,
    given: Option<Value>,
    message: &Message,
    members: &mut Map<String, Value>,
    depth: usize,
) -> Result<(), Malformed> {
    let is_pointer = field.shape == Shape::Pointer;
    let value = match (given, field.shape) {
        (Some(value), _) => value,
        (None, Shape::Value) => zero(field.kind, depth)?,
        (None, _) => Value::Null,
    };
    if field.name == "." {
        if let Value::Object(inner) = value {
            members.extend(inner);
        }
        return Ok(());
    }
    let is_struct = field.is_struct();
    let is_left_out = match &value {
        Value::Null if is_struct => field.omits_zero,
        Value::Null => field.omits_empty || field.omits_zero,
        _ if is_pointer || message.form != Form::Object => false,
        Value::Object(inner) if is_struct => field.omits_zero && inner.is_empty(),
        _ if is_struct => false,
        value => field.omits_empty && is_zero(value),
    };
    if !is_left_out {
        members.insert(field.name.to_owned(), value);
    }
    Ok(())
}

/// What Go's encoder writes of a value that nothing was read into.
fn zero(kind: Kind, depth: usize) -> Result<Value, Malformed> {
    Ok(match kind {
        Kind::String => Value::from(""),
        Kind::Int32 | Kind::Int64 | Kind::Float64 => Value::from(0),
        Kind::Bool => Value::from(false),
        Kind::Bytes | Kind::Any => Value::Null,
        _ => nested(kind, &[], depth)?,
    })
}

/// Reads the value of a field.
fn read<'a>(
    field: &Field,
    wire: Wire,
    reader: &mut Reader<'a>,
    slot: &mut Slot<'a>,
    depth: usize,
) -> Result<(), Malformed> {
    match field.shape {
        Shape::Value | Shape::Pointer => {
            if let Some(value) = scalar(field, wire, reader)? {
                *slot = Slot::Value(value);
                return Ok(());
            }
            let more = reader.bytes()?;
            match slot {
                Slot::Nested(bytes) => bytes.to_mut().extend_from_slice(more),
                _ => *slot = Slot::Nested(Cow::Borrowed(more)),
            }
        }
        Shape::List => {
            if matches!(slot, Slot::Unset) {
                *slot = Slot::Value(Value::Array(Vec::new()));
            }
            let Slot::Value(Value::Array(list)) = slot else {
                return Ok(());
            };
            let is_packed =
                wire == Wire::Bytes && matches!(field.kind, Kind::Int32 | Kind::Int64 | Kind::Bool);
            if is_packed {
                let mut packed = Reader::new(reader.bytes()?);
                while !packed.is_empty() {
                    list.extend(scalar(field, Wire::Varint, &mut packed)?);
                }
                return Ok(());
            }
            let value = match scalar(field, wire, reader)? {
                Some(value) => value,
                None => nested(field.kind, reader.bytes()?, depth)?,
            };
            list.push(value);
        }
        Shape::Map => {
            if matches!(slot, Slot::Unset) {
                *slot = Slot::Value(Value::Object(Map::new()));
            }
            expect(wire, Wire::Bytes, field)?;
            let (key, value) = entry(field, reader.bytes()?, depth)?;
            if let Slot::Value(Value::Object(members)) = slot {
                members.insert(key, value);
            }
        }
    }
    Ok(())
}

/// One entry of a map: its key is field 1, its value field 2.
fn entry(field: &Field, bytes: &[u8], depth: usize) -> Result<(String, Value), Malformed> {
    let mut key = String::new();
    let mut value = None;
    let mut reader = Reader::new(bytes);
    while let Some((number, wire)) = reader.tag(field.name)? {
        match number {
            1 => {
                expect(wire, Wire::Bytes, field)?;
                key = String::from_utf8_lossy(reader.bytes()?).into_owned();
            }
            2 => {
                value = Some(match scalar(field, wire, &mut reader)? {
                    Some(value) => value,
                    None => nested(field.kind, reader.bytes()?, depth)?,
                });
            }
            _ => reader.skip(wire)?,
        }
    }
    let value = match (value, field.kind) {
        (Some(value), _) => value,
        // Go makes an empty slice of what is not there.
        (None, Kind::Bytes) => Value::from(""),
        (None, kind) => zero(kind, depth)?,
    };
    Ok((key, value))
}

fn expect(wire: Wire, wanted: Wire, field: &Field) -> Result<(), Malformed> {
    if wire == wanted {
        return Ok(());
    }
    Err(Malformed::WrongWire {
        wire: wire.number(),
        field: field.go_name(),
    })
}

/// Reads what is no message; `None`, and nothing read, where it is one.
fn scalar(field: &Field, wire: Wire, reader: &mut Reader<'_>) -> Result<Option<Value>, Malformed> {
    let wanted = match field.kind {
        Kind::Int32 | Kind::Int64 | Kind::Bool => Wire::Varint,
        Kind::Float64 => Wire::Fixed64,
        _ => Wire::Bytes,
    };
    expect(wire, wanted, field)?;
    Ok(Some(match field.kind {
        Kind::String => String::from_utf8_lossy(reader.bytes()?).into_owned().into(),
        Kind::Bytes => STANDARD.encode(reader.bytes()?).into(),
        Kind::Int32 => wire::int32(reader.varint()?).into(),
        Kind::Int64 => reader.varint()?.cast_signed().into(),
        Kind::Bool => (reader.varint()? != 0).into(),
        Kind::Float64 => float(f64::from_bits(reader.fixed64()?)),
        _ => return Ok(None),
    }))
}

/// A number as Go's encoder writes it: a whole one without a point.
fn float(number: f64) -> Value {
    crate::go::whole(number).map_or_else(|| Value::from(number), Value::from)
}

/// Decodes a message, or one that stands for something else.
fn nested(kind: Kind, bytes: &[u8], depth: usize) -> Result<Value, Malformed> {
    Ok(match kind {
        Kind::Message(at) => message(at, bytes, depth + 1)?,
        Kind::Time => time(bytes, false)?,
        Kind::MicroTime => time(bytes, true)?,
        Kind::Quantity => {
            let [text] = wire::fields("Quantity", [(Wire::Bytes, "String_")], bytes)?;
            let text = text.text();
            Value::from(if text.is_empty() {
                "0".to_owned()
            } else {
                text
            })
        }
        Kind::IntOrString => {
            let fields = [
                (Wire::Varint, "Type"),
                (Wire::Varint, "IntVal"),
                (Wire::Bytes, "StrVal"),
            ];
            let [which, integer, text] = wire::fields("IntOrString", fields, bytes)?;
            match which.int64() {
                0 => Value::from(integer.int32()),
                1 => text.text().into(),
                other => return Err(Malformed::IntOrString(other)),
            }
        }
        Kind::Raw => {
            let [raw] = wire::fields("RawExtension", [(Wire::Bytes, "Raw")], bytes)?;
            match raw.bytes {
                b"" => Value::Null,
                text => serde_json::from_slice(text)
                    .map_err(|error| Malformed::Raw(error.to_string()))?,
            }
        }
        Kind::String
        | Kind::Int32
        | Kind::Int64
        | Kind::Bool
        | Kind::Float64
        | Kind::Bytes
        | Kind::Any => Value::Null,
    })
}

fn time(bytes: &[u8], is_micro: bool) -> Result<Value, Malformed> {
    if bytes.is_empty() {
        return Ok(Value::Null);
    }
    let fields = [(Wire::Varint, "Seconds"), (Wire::Varint, "Nanos")];
    let [seconds, nanos] = wire::fields("Timestamp", fields, bytes)?;
    let nanos = if is_micro {
        nanos.int32() / 1000 * 1000
    } else {
        0
    };
    let seconds = seconds.int64();
    let time = jiff::Timestamp::new(seconds, nanos).map_err(|_| Malformed::Time(seconds))?;
    let precision = if is_micro { 6 } else { 0 };
    Ok(format!("{time:.precision$}").into())
}

/// What a message is in JSON, of its fields.
fn formed(form: Form, mut members: Map<String, Value>) -> Value {
    let mut take = |name: &str| members.remove(name).unwrap_or_default();
    match form {
        Form::Object => Value::Object(members),
        Form::List => take("="),
        Form::SchemaOrBool => match take("schema") {
            Value::Null => take("allows"),
            schema => schema,
        },
        Form::SchemaOrSchemas => match take("jSONSchemas") {
            Value::Array(schemas) if !schemas.is_empty() => Value::Array(schemas),
            _ => take("schema"),
        },
        Form::SchemaOrNames => match take("property") {
            Value::Array(names) if !names.is_empty() => Value::Array(names),
            _ => take("schema"),
        },
    }
}
