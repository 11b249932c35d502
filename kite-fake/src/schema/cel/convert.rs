//! Conversions and the parts of times, as cel-go has them.

use std::sync::Arc;

use jiff::tz::{Offset, TimeZone};
use jiff::{Timestamp, Zoned};
use kube_cel::cel::extractors::{Arguments, This};
use kube_cel::cel::{Context, ExecutionError, Value};

use super::rewrite::{IS_OPAQUE, TO_TEXT};
use crate::go;

/// How values that are types begin.
const TYPE: &str = "@type:";

/// Adds them to a context.
pub(super) fn register(context: &mut Context<'static>) {
    context.add_function(IS_OPAQUE, |value: Value| matches!(value, Value::Opaque(_)));
    context.add_function(TO_TEXT, |value: Value| to_text(&value).map(Value::from));
    context.add_function("int", |value: Value| to_int(&value));
    context.add_function("bytes", |value: Value| match value {
        Value::String(text) => Ok(Value::Bytes(Arc::new(text.as_bytes().to_vec()))),
        Value::Bytes(_) => Ok(value),
        _ => Err(ExecutionError::NoSuchOverload),
    });
    context.add_function("size", |This(this): This<Value>| size(&this));
    context.add_function("type", |value: Value| {
        format!("{TYPE}{}", type_name(&value))
    });
    for name in [
        "bool",
        "int",
        "uint",
        "double",
        "string",
        "bytes",
        "list",
        "map",
        "null_type",
        "type",
    ] {
        context.add_variable_from_value(name, type_value(name));
    }
    for name in [
        "getFullYear",
        "getMonth",
        "getDate",
        "getDayOfMonth",
        "getDayOfWeek",
        "getDayOfYear",
        "getHours",
        "getMinutes",
        "getSeconds",
        "getMilliseconds",
    ] {
        let part =
            move |This(this): This<Value>, Arguments(args): Arguments| part(name, &this, &args);
        context.add_function(name, part);
    }
}

/// A type as a value.
pub(super) fn type_value(name: &str) -> String {
    format!("{TYPE}{name}")
}

fn failed(function: &str, message: impl Into<String>) -> ExecutionError {
    ExecutionError::function_error(function, message.into())
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::List(_) => "list",
        Value::Map(_) => "map",
        Value::Int(_) => "int",
        Value::UInt(_) => "uint",
        Value::Float(_) => "double",
        Value::String(text) if text.starts_with(TYPE) => "type",
        Value::String(_) => "string",
        Value::Bytes(_) => "bytes",
        Value::Bool(_) => "bool",
        Value::Duration(_) => "google.protobuf.Duration",
        Value::Timestamp(_) => "google.protobuf.Timestamp",
        Value::Null => "null_type",
        Value::Function(..) | Value::Opaque(_) => "optional_type",
    }
}

fn size(value: &Value) -> Result<i64, ExecutionError> {
    let count = match value {
        Value::String(text) => text.chars().count(),
        Value::Bytes(bytes) => bytes.len(),
        Value::List(elements) => elements.len(),
        Value::Map(map) => map.map.len(),
        _ => return Err(ExecutionError::NoSuchOverload),
    };
    Ok(i64::try_from(count).unwrap_or(i64::MAX))
}

fn to_text(value: &Value) -> Result<String, ExecutionError> {
    Ok(match value {
        Value::String(text) => text.to_string(),
        Value::Bytes(bytes) => String::from_utf8(bytes.to_vec())
            .map_err(|_| failed("string", "invalid UTF-8 in bytes, cannot convert to string"))?,
        Value::Bool(bool) => bool.to_string(),
        Value::Int(int) => int.to_string(),
        Value::UInt(uint) => uint.to_string(),
        Value::Float(float) => go::float(*float),
        Value::Duration(span) => {
            let nanos = span.num_nanoseconds().unwrap_or(0).unsigned_abs() % 1_000_000_000;
            let sign = if span.num_nanoseconds().is_some_and(|n| n < 0) {
                "-"
            } else {
                ""
            };
            let fraction = format!("{nanos:09}");
            let fraction = fraction.trim_end_matches('0');
            let dot = if fraction.is_empty() { "" } else { "." };
            format!(
                "{sign}{}{dot}{fraction}s",
                span.num_seconds().unsigned_abs()
            )
        }
        Value::Timestamp(time) => {
            moment(time.timestamp(), time.timestamp_subsec_nanos())?.to_string()
        }
        _ => return Err(ExecutionError::NoSuchOverload),
    })
}

fn to_int(value: &Value) -> Result<i64, ExecutionError> {
    const OVERFLOW: &str = "integer overflow";
    match value {
        Value::Int(int) => Ok(*int),
        Value::UInt(uint) => i64::try_from(*uint).map_err(|_| failed("int", OVERFLOW)),
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_precision_loss,
            reason = "within range"
        )]
        Value::Float(float) if float.abs() < i64::MAX as f64 => Ok(*float as i64),
        Value::Float(_) => Err(failed("int", OVERFLOW)),
        Value::String(text) => text.parse().map_err(|_| {
            let quoted = go::quote(text);
            failed(
                "int",
                format!("strconv.ParseInt: parsing {quoted}: invalid syntax"),
            )
        }),
        Value::Timestamp(time) => Ok(time.timestamp()),
        Value::Duration(span) => span
            .num_nanoseconds()
            .ok_or_else(|| failed("int", OVERFLOW)),
        _ => Err(ExecutionError::NoSuchOverload),
    }
}

fn moment(seconds: i64, nanos: u32) -> Result<Timestamp, ExecutionError> {
    let nanos = i32::try_from(nanos.min(999_999_999)).unwrap_or(0);
    Timestamp::new(seconds, nanos).map_err(|_| failed("timestamp", "range error"))
}

/// A time zone by its name or its distance from UTC (`+02:00`).
fn zone(name: &str) -> Result<TimeZone, ExecutionError> {
    let unknown = || failed("timestamp", format!("unknown time zone {name}"));
    let Some((hours, minutes)) = name.split_once(':') else {
        return TimeZone::get(name).map_err(|_| unknown());
    };
    let negative = hours.starts_with('-');
    let hours: i32 = hours
        .trim_start_matches(['+', '-'])
        .parse()
        .map_err(|_| unknown())?;
    let minutes: i32 = minutes.parse().map_err(|_| unknown())?;
    let seconds = (hours * 60 + minutes) * 60;
    let seconds = if negative { -seconds } else { seconds };
    let offset = Offset::from_seconds(seconds).map_err(|_| unknown())?;
    Ok(TimeZone::fixed(offset))
}

/// A part of a time, or of a span of it.
fn part(name: &str, this: &Value, args: &[Value]) -> Result<i64, ExecutionError> {
    if let Value::Duration(span) = this {
        return Ok(match name {
            "getHours" => span.num_hours(),
            "getMinutes" => span.num_minutes(),
            "getSeconds" => span.num_seconds(),
            "getMilliseconds" => span.num_milliseconds() % 1000,
            _ => return Err(ExecutionError::NoSuchOverload),
        });
    }
    let Value::Timestamp(time) = this else {
        return Err(ExecutionError::NoSuchOverload);
    };
    let zone = match args {
        [] => TimeZone::UTC,
        [Value::String(name)] => zone(name)?,
        _ => return Err(ExecutionError::NoSuchOverload),
    };
    let at: Zoned = moment(time.timestamp(), time.timestamp_subsec_nanos())?.to_zoned(zone);
    Ok(match name {
        "getFullYear" => i64::from(at.year()),
        "getMonth" => i64::from(at.month()) - 1,
        "getDate" => i64::from(at.day()),
        "getDayOfMonth" => i64::from(at.day()) - 1,
        "getDayOfWeek" => i64::from(at.weekday().to_sunday_zero_offset()),
        "getDayOfYear" => i64::from(at.day_of_year()) - 1,
        "getHours" => i64::from(at.hour()),
        "getMinutes" => i64::from(at.minute()),
        "getSeconds" => i64::from(at.second()),
        _ => i64::from(at.millisecond()),
    })
}
