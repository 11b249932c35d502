//! Equality and order of values as in cel-go: numbers are compared by value,
//! whatever their types, and values of different types are never equal.

use std::cmp::Ordering;

use kube_cel::cel::objects::{Key, Map};
use kube_cel::cel::{Context, ExecutionError, Value};

use super::rewrite::{EQUALS, GREATER, GREATER_EQUALS, IN, LESS, LESS_EQUALS, NOT_EQUALS};

/// Adds the operators to a context.
pub(super) fn register(context: &mut Context<'static>) {
    context.add_function(EQUALS, |a: Value, b: Value| same(&a, &b));
    context.add_function(NOT_EQUALS, |a: Value, b: Value| !same(&a, &b));
    context.add_function(IN, |a: Value, b: Value| within(&a, &b));
    for (name, fits) in [
        (LESS, Ordering::is_lt as fn(Ordering) -> bool),
        (LESS_EQUALS, Ordering::is_le),
        (GREATER, Ordering::is_gt),
        (GREATER_EQUALS, Ordering::is_ge),
    ] {
        context.add_function(name, move |a: Value, b: Value| {
            order(&a, &b).map(|order| Value::Bool(order.is_some_and(fits)))
        });
    }
}

/// Whether two values are equal.
pub(super) fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::List(a), Value::List(b)) => {
            a.len() == b.len() && a.iter().zip(b.iter()).all(|(a, b)| same(a, b))
        }
        (Value::Map(a), Value::Map(b)) => {
            a.map.len() == b.map.len()
                && a.map
                    .iter()
                    .all(|(key, value)| found(b, key).is_some_and(|other| same(value, other)))
        }
        (Value::Int(_) | Value::UInt(_) | Value::Float(_), _) => {
            numbers(a, b).flatten() == Some(Ordering::Equal)
        }
        _ => std::mem::discriminant(a) == std::mem::discriminant(b) && a == b,
    }
}

/// The value of a key, which may be a number of another type.
fn found<'a>(map: &'a Map, key: &Key) -> Option<&'a Value> {
    map.map.get(key).or_else(|| {
        map.map.get(&match key {
            Key::Int(int) => Key::Uint(u64::try_from(*int).ok()?),
            Key::Uint(uint) => Key::Int(i64::try_from(*uint).ok()?),
            Key::Bool(_) | Key::String(_) => return None,
        })
    })
}

/// How two numbers compare: not at all if one is no number of its type.
#[expect(
    clippy::cast_precision_loss,
    reason = "as cel-go compares with doubles"
)]
#[expect(
    clippy::option_option,
    reason = "no numbers, and numbers that do not compare"
)]
fn numbers(a: &Value, b: &Value) -> Option<Option<Ordering>> {
    let wide = |value: &Value| match value {
        Value::Int(int) => Some(i128::from(*int)),
        Value::UInt(uint) => Some(i128::from(*uint)),
        _ => None,
    };
    let float = |value: &Value| match value {
        Value::Float(float) => Some(*float),
        other => wide(other).map(|whole| whole as f64),
    };
    match (wide(a), wide(b)) {
        (Some(a), Some(b)) => Some(Some(a.cmp(&b))),
        _ => Some(float(a)?.partial_cmp(&float(b)?)),
    }
}

fn order(a: &Value, b: &Value) -> Result<Option<Ordering>, ExecutionError> {
    if let Some(order) = numbers(a, b) {
        return Ok(order);
    }
    Ok(Some(match (a, b) {
        (Value::String(a), Value::String(b)) => a.cmp(b),
        (Value::Bytes(a), Value::Bytes(b)) => a.cmp(b),
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        (Value::Duration(a), Value::Duration(b)) => a.cmp(b),
        (Value::Timestamp(a), Value::Timestamp(b)) => a.cmp(b),
        _ => return Err(ExecutionError::NoSuchOverload),
    }))
}

fn within(value: &Value, all: &Value) -> Result<bool, ExecutionError> {
    match all {
        Value::List(elements) => Ok(elements.iter().any(|element| same(value, element))),
        Value::Map(map) => {
            let key = match value {
                Value::String(text) => Key::String(text.clone()),
                Value::Bool(bool) => Key::Bool(*bool),
                Value::Int(int) => Key::Int(*int),
                Value::UInt(uint) => Key::Uint(*uint),
                Value::Float(float) if float.fract() == 0.0 => {
                    #[expect(clippy::cast_possible_truncation, reason = "whole")]
                    let whole = *float as i64;
                    Key::Int(whole)
                }
                _ => return Ok(false),
            };
            Ok(found(map, &key).is_some())
        }
        _ => Err(ExecutionError::NoSuchOverload),
    }
}
