//! From JSON to CEL, with what the schema says about types and formats.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, LazyLock};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kube_cel::cel::objects::{Key, OptionalValue};
use serde_json::Value as Json;

use super::super::model::{Kind, Schema};
use super::super::rule::READABLE_METADATA;
use super::program::Program;
use super::syntax::{RESERVED, is_keyword};
use kube_cel::cel::Value;

/// Values nested deeper than this are cut off.
const MAX_DEPTH: usize = 128;

/// Converts a value of the given schema.
pub(super) fn to_cel(schema: Option<&Schema>, value: &Json) -> Value {
    convert(schema, value, 0)
}

/// `oldSelf` of a rule for which it is optional.
pub(super) fn optional(value: Option<Value>) -> Value {
    Value::Opaque(Arc::new(match value {
        Some(value) => OptionalValue::of(value),
        None => OptionalValue::none(),
    }))
}

fn convert(schema: Option<&Schema>, value: &Json, depth: usize) -> Value {
    if depth > MAX_DEPTH {
        return Value::Null;
    }
    match value {
        Json::Null => Value::Null,
        Json::Bool(b) => Value::Bool(*b),
        Json::Number(n) => match n.as_i64() {
            Some(int) if schema.is_some_and(|s| s.kind == Kind::Number) =>
            {
                #[expect(
                    clippy::cast_precision_loss,
                    reason = "a number of a schema is a double"
                )]
                Value::Float(int as f64)
            }
            Some(int) => Value::Int(int),
            None => Value::Float(n.as_f64().unwrap_or(f64::NAN)),
        },
        Json::String(text) => string(schema, text),
        Json::Array(elements) => {
            let items = schema.and_then(|s| s.items.as_deref());
            Value::List(Arc::new(
                elements
                    .iter()
                    .map(|e| convert(items, e, depth + 1))
                    .collect(),
            ))
        }
        Json::Object(members) => Value::Map(object(schema, members, depth, |_| true).into()),
    }
}

/// Converts the members of an object that are `wanted`, by the names that rules
/// have for them.
fn object(
    schema: Option<&Schema>,
    members: &serde_json::Map<String, Json>,
    depth: usize,
    wanted: impl Fn(&str) -> bool,
) -> HashMap<Key, Value> {
    let is_map = schema.is_none_or(|s| s.properties.is_empty());
    let mut map = HashMap::with_capacity(members.len());
    for (name, member) in members {
        let inner = schema.and_then(|s| s.member(name)).map(AsRef::as_ref);
        // A null that the schema does not allow counts as absent.
        if member.is_null() && inner.is_some_and(|s| !s.nullable && s.kind != Kind::Any) {
            continue;
        }
        // Keys of maps are data; names of fields follow CEL's rules for identifiers.
        let key = if is_map { name.clone() } else { escape(name) };
        if wanted(&key) {
            map.insert(
                Key::String(Arc::new(key)),
                convert(inner, member, depth + 1),
            );
        }
    }
    map
}

/// Converts the value of a node that has rules: of an object only the `wanted`
/// members, if that can be told. Of the metadata of the object as a whole, the
/// root, rules see the name alone.
pub(super) fn node_to_cel(
    schema: &Schema,
    value: &Json,
    is_root: bool,
    wanted: Option<&BTreeSet<&str>>,
) -> Value {
    let Json::Object(members) = value else {
        return to_cel(Some(schema), value);
    };
    let is_wanted = |name: &str| wanted.is_none_or(|wanted| wanted.contains(name));
    let is_narrow = |name: &str| is_root && name == "metadata";
    let mut found = object(Some(schema), members, 0, |name| {
        is_wanted(name) && !is_narrow(name)
    });
    if is_root
        && is_wanted("metadata")
        && let Some(metadata) = members.get("metadata").and_then(Json::as_object)
    {
        let names = &READABLE_METADATA;
        let metadata = object(Some(names), metadata, 1, |name| {
            names.properties.contains_key(name)
        });
        found.insert(
            Key::String(Arc::new("metadata".to_owned())),
            Value::Map(metadata.into()),
        );
    }
    Value::Map(found.into())
}

/// A string, or what its format makes of it.
fn string(schema: Option<&Schema>, text: &str) -> Value {
    let plain = || Value::String(Arc::new(text.to_owned()));
    let Some(schema) = schema.filter(|s| s.kind == Kind::String) else {
        return plain();
    };
    match schema.constraints.format.as_deref() {
        Some("date-time") => parsed(TIMESTAMP.as_ref(), text).unwrap_or_else(plain),
        Some("date") => {
            parsed(TIMESTAMP.as_ref(), &format!("{text}T00:00:00Z")).unwrap_or_else(plain)
        }
        Some("duration") => parsed(DURATION.as_ref(), text).unwrap_or_else(plain),
        Some("byte") => STANDARD
            .decode(text)
            .map_or_else(|_| plain(), |bytes| Value::Bytes(Arc::new(bytes))),
        _ => plain(),
    }
}

static TIMESTAMP: LazyLock<Option<Program>> =
    LazyLock::new(|| Program::compile("timestamp(text)").ok());
static DURATION: LazyLock<Option<Program>> =
    LazyLock::new(|| Program::compile("duration(text)").ok());

/// The value that CEL's own conversion gives, so that both are of one kind.
fn parsed(conversion: Option<&Program>, text: &str) -> Option<Value> {
    let argument = Value::String(Arc::new(text.to_owned()));
    conversion?.run(&[("text", argument)]).ok()
}

/// A field's name as rules must write it (Kubernetes: "escaping of property names").
pub(super) fn escape(name: &str) -> String {
    // CEL's own words cannot name a field, nor can those that it sets aside.
    if is_keyword(name) || RESERVED.contains(&name) {
        return format!("__{name}__");
    }
    name.replace("__", "__underscores__")
        .replace('.', "__dot__")
        .replace('-', "__dash__")
        .replace('/', "__slash__")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_fields_are_escaped_as_documented() {
        assert_eq!(escape("namespace"), "__namespace__");
        assert_eq!(escape("x-prop"), "x__dash__prop");
        assert_eq!(escape("redact__d"), "redact__underscores__d");
        assert_eq!(escape("a.b/c_d"), "a__dot__b__slash__c_d");
        assert_eq!(escape("string"), "string");
    }
}
