//! Functions that the libraries lack, and the helpers of expanded macros.

use std::cell::Cell;
use std::cmp::Ordering;
use std::sync::Arc;

use kube_cel::cel::objects::{Key, Map};
use kube_cel::cel::{Context, ExecutionError, Value};

use super::rewrite::{ENTRIES, IN_ORDER, MERGE, SORTED, TICK, TO_MAP};
use super::{compare, convert};

/// Turns that all loops of an evaluation may take together. The API server
/// counts a cost of a million, of which each turn takes several.
const TURNS: u32 = 250_000;
/// Longest list that `lists.range` makes.
const LONGEST: i64 = 100_000;

thread_local! {
    /// Turns that the evaluation on this thread has left.
    static LEFT: Cell<u32> = const { Cell::new(TURNS) };
}

/// Starts counting anew; to be called on the thread that evaluates.
pub(super) fn start() {
    LEFT.set(TURNS);
}

fn tick(condition: Value) -> Result<Value, ExecutionError> {
    match LEFT.get().checked_sub(1) {
        Some(left) => {
            LEFT.set(left);
            Ok(condition)
        }
        None => Err(ExecutionError::function_error(
            "loop",
            "operation cancelled: actual cost limit exceeded",
        )),
    }
}

fn range(length: i64) -> Result<Value, ExecutionError> {
    if (0..=LONGEST).contains(&length) {
        return Ok(Value::List(Arc::new((0..length).map(Value::Int).collect())));
    }
    Err(ExecutionError::function_error(
        "lists.range",
        format!("lists.range() takes 0 to {LONGEST}"),
    ))
}

/// Adds them to a context.
pub(super) fn register(context: &mut Context<'static>) {
    context.add_function("dyn", |value: Value| -> Result<Value, ExecutionError> {
        Ok(value)
    });
    context.add_function("bool", to_bool);
    compare::register(context);
    convert::register(context);
    context.add_function(TICK, tick);
    // The library's own would fill the memory.
    context.add_function("lists.range", range);
    context.add_function(ENTRIES, |value: Value| entries(&value));
    context.add_function(IN_ORDER, |value: Value| -> Result<Value, ExecutionError> {
        Ok(in_order(value))
    });
    context.add_function(SORTED, |value: Value| sorted(&value));
    context.add_function(TO_MAP, |value: Value| to_map(&value));
    context.add_function(MERGE, |value: Value| merge(&value));
}

fn to_bool(value: Value) -> Result<Value, ExecutionError> {
    match &value {
        Value::Bool(_) => Ok(value),
        Value::String(text) => match text.as_str() {
            "1" | "t" | "T" | "TRUE" | "true" | "True" => Ok(Value::Bool(true)),
            "0" | "f" | "F" | "FALSE" | "false" | "False" => Ok(Value::Bool(false)),
            _ => Err(ExecutionError::function_error(
                "bool",
                "Type conversion error from 'string' to 'bool'",
            )),
        },
        _ => Err(ExecutionError::NoSuchOverload),
    }
}

fn pair(key: Value, value: Value) -> Value {
    Value::List(Arc::new(vec![key, value]))
}

fn entries(value: &Value) -> Result<Value, ExecutionError> {
    match value {
        Value::List(elements) => {
            let index = |i: usize| Value::Int(i64::try_from(i).unwrap_or(i64::MAX));
            let pairs = elements
                .iter()
                .enumerate()
                .map(|(i, element)| pair(index(i), element.clone()));
            Ok(Value::List(Arc::new(pairs.collect())))
        }
        Value::Map(map) => {
            let pairs = members(map)
                .into_iter()
                .map(|(key, value)| pair(key_value(key), value.clone()));
            Ok(Value::List(Arc::new(pairs.collect())))
        }
        _ => Err(ExecutionError::NoSuchOverload),
    }
}

/// The members of a map in a fixed order, so that neither results nor errors
/// change from run to run.
fn members(map: &Map) -> Vec<(&Key, &Value)> {
    let mut members: Vec<_> = map.map.iter().collect();
    members.sort_by_cached_key(|(key, _)| key.to_string());
    members
}

/// What a loop over one variable goes through.
fn in_order(range: Value) -> Value {
    let Value::Map(map) = range else {
        return range;
    };
    let keys = members(&map).into_iter().map(|(key, _)| key_value(key));
    Value::List(Arc::new(keys.collect()))
}

fn key_value(key: &Key) -> Value {
    match key {
        Key::Int(int) => Value::Int(*int),
        Key::Uint(uint) => Value::UInt(*uint),
        Key::Bool(bool) => Value::Bool(*bool),
        Key::String(text) => Value::String(Arc::clone(text)),
    }
}

/// The two halves of each pair of a list.
fn halves(value: &Value) -> Result<Vec<(Value, Value)>, ExecutionError> {
    let Value::List(pairs) = value else {
        return Err(ExecutionError::NoSuchOverload);
    };
    let half = |pair: &Value| match pair {
        Value::List(both) => match both.as_slice() {
            [first, second] => Ok((first.clone(), second.clone())),
            _ => Err(ExecutionError::NoSuchOverload),
        },
        _ => Err(ExecutionError::NoSuchOverload),
    };
    pairs.iter().map(half).collect()
}

fn sorted(value: &Value) -> Result<Value, ExecutionError> {
    let mut pairs = halves(value)?;
    let mut comparable = true;
    pairs.sort_by(|(a, _), (b, _)| {
        a.partial_cmp(b).unwrap_or_else(|| {
            comparable = false;
            Ordering::Equal
        })
    });
    if !comparable {
        return Err(ExecutionError::NoSuchOverload);
    }
    Ok(Value::List(Arc::new(
        pairs.into_iter().map(|(_, value)| value).collect(),
    )))
}

fn to_map(value: &Value) -> Result<Value, ExecutionError> {
    let mut map = std::collections::HashMap::new();
    for (key, value) in halves(value)? {
        let key = match key {
            Value::Int(int) => Key::Int(int),
            Value::UInt(uint) => Key::Uint(uint),
            Value::Bool(bool) => Key::Bool(bool),
            Value::String(text) => Key::String(text),
            other => return Err(ExecutionError::UnsupportedKeyType(other)),
        };
        map.insert(key, value);
    }
    Ok(Value::Map(Map { map: Arc::new(map) }))
}

/// One map of many.
fn merge(value: &Value) -> Result<Value, ExecutionError> {
    let Value::List(maps) = value else {
        return Err(ExecutionError::NoSuchOverload);
    };
    let mut all = std::collections::HashMap::new();
    for map in maps.iter() {
        let Value::Map(map) = map else {
            return Err(ExecutionError::NoSuchOverload);
        };
        for (key, value) in map.map.iter() {
            if all.insert(key.clone(), value.clone()).is_some() {
                let message = format!("insert failed: key {key} already exists");
                return Err(ExecutionError::function_error("transformMapEntry", message));
            }
        }
    }
    Ok(Value::Map(Map { map: Arc::new(all) }))
}
