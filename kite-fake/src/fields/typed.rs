//! A value seen through its schema: what is one field, what has parts, and how
//! a list's elements are told apart.

use std::fmt;

use serde_json::{Map, Value};

use super::set::FieldSet;
use crate::go;
use crate::path_element::PathElement;
use crate::schema::{Kind, ListType, MapType, Schema};

/// How ownership sees a value.
#[derive(Debug, Clone, Copy)]
pub(super) enum Shape<'a> {
    /// One field: a scalar, or an atomic list or object.
    Leaf,
    /// An object whose members are fields of their own. No schema: it is deduced
    /// from the value, as below unknown members that are kept.
    Map(Option<&'a Schema>),
    /// A list of unique scalars.
    Set,
    /// A list of objects told apart by these members; the schema is that of the list.
    Keyed(&'a [String], &'a Schema),
}

/// How a schema sees values; the value decides where the schema says nothing.
pub(super) fn shape<'a>(schema: Option<&'a Schema>, value: Option<&Value>) -> Shape<'a> {
    shape_of(schema, value.is_some_and(Value::is_object))
}

/// The same for a value of which only that much is known.
pub(super) fn shape_of(schema: Option<&Schema>, is_object: bool) -> Shape<'_> {
    let Some(schema) = schema else {
        return deduced(is_object);
    };
    match schema.kind {
        Kind::Object | Kind::Any if schema.map_type == MapType::Atomic => Shape::Leaf,
        Kind::Object => Shape::Map(Some(schema)),
        Kind::Array => match &schema.list_type {
            ListType::Atomic => Shape::Leaf,
            ListType::Set => Shape::Set,
            ListType::Map(keys) => Shape::Keyed(keys, schema),
        },
        Kind::Any => deduced(is_object),
        Kind::String | Kind::Integer | Kind::Number | Kind::Boolean | Kind::IntOrString => {
            Shape::Leaf
        }
    }
}

fn deduced<'a>(is_object: bool) -> Shape<'a> {
    if is_object {
        Shape::Map(None)
    } else {
        Shape::Leaf
    }
}

/// The schema of a member: `None` where it is deduced.
pub(super) fn member<'a>(schema: Option<&'a Schema>, name: &str) -> Option<&'a Schema> {
    schema
        .and_then(|schema| schema.member(name))
        .map(AsRef::as_ref)
}

/// Whether the schema names the member; the members of a map it does not.
pub(super) fn is_named(schema: Option<&Schema>, name: &str) -> bool {
    schema.is_some_and(|schema| schema.properties.contains_key(name))
}

/// Whether the schema sees a list or an object as one field.
pub(super) fn is_atomic(schema: &Schema) -> bool {
    matches!(schema.kind, Kind::Array | Kind::Object)
        && matches!(shape(Some(schema), None), Shape::Leaf)
}

/// The schema of a list's elements.
pub(super) fn items(schema: &Schema) -> Option<&Schema> {
    schema.items.as_deref()
}

/// How an element of a list is told apart; the error is what is wrong with it.
pub(super) fn element_of(list: Shape<'_>, element: &Value) -> Result<PathElement, String> {
    match list {
        Shape::Keyed(keys, schema) => keyed(keys, schema, element),
        Shape::Set | Shape::Leaf | Shape::Map(_) => match element {
            Value::Object(_) => {
                Err("associative list without keys has an element that's a map type".to_owned())
            }
            Value::Array(_) => {
                Err("not supported: associative list with lists as elements".to_owned())
            }
            Value::Null => Err(
                "associative list without keys has an element that's an explicit null".to_owned(),
            ),
            scalar => Ok(PathElement::Value(scalar.clone())),
        },
    }
}

fn keyed(keys: &[String], schema: &Schema, element: &Value) -> Result<PathElement, String> {
    let members = match element {
        Value::Object(members) => members,
        Value::Null => {
            return Err("associative list with keys may not have a null element".to_owned());
        }
        _ => return Err("associative list with keys may not have non-map elements".to_owned()),
    };
    let mut found: Vec<(String, Value)> = keys
        .iter()
        .filter_map(|key| key_value(schema, members, key).map(|v| (key.clone(), v.clone())))
        .collect();
    if found.is_empty() {
        let keys: Vec<String> = keys.iter().map(|key| go::quote(key)).collect();
        return Err(format!(
            "associative list with keys has an element that omits all key fields [{}] (and doesn't have default values for any key fields)",
            keys.join(" ")
        ));
    }
    found.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(PathElement::Key(found))
}

/// The value of one key of an element, or its default.
pub(super) fn key_value<'a>(
    list: &'a Schema,
    members: &'a Map<String, Value>,
    key: &str,
) -> Option<&'a Value> {
    members.get(key).or_else(|| {
        items(list)
            .and_then(|item| item.properties.get(key))
            .and_then(|key| key.default.as_ref())
    })
}

/// The fields that a configuration sets.
pub(super) fn fields_of(schema: Option<&Schema>, value: &Value) -> FieldSet {
    let mut set = FieldSet::default();
    match (shape(schema, Some(value)), value) {
        (Shape::Map(schema), Value::Object(members)) => {
            for (name, inner) in members {
                let inner_schema = member(schema, name);
                let part = fields_of(inner_schema, inner);
                let whole = is_leaf(inner_schema, inner)
                    || is_void(inner)
                    || (schema.is_some() && !is_named(schema, name))
                    || schema.is_none();
                set.graft(PathElement::Field(name.clone()), whole, part);
            }
        }
        (list @ (Shape::Set | Shape::Keyed(..)), Value::Array(elements)) => {
            let inner_schema = match list {
                Shape::Keyed(_, schema) => items(schema),
                _ => None,
            };
            for element in elements {
                if let Ok(name) = element_of(list, element) {
                    let part = match list {
                        Shape::Keyed(..) => fields_of(inner_schema, element),
                        _ => FieldSet::default(),
                    };
                    set.graft(name, true, part);
                }
            }
        }
        _ => {}
    }
    set
}

/// Whether a value is one field as a whole.
pub(super) fn is_leaf(schema: Option<&Schema>, value: &Value) -> bool {
    match shape(schema, Some(value)) {
        Shape::Leaf => true,
        Shape::Map(_) => !value.is_object() && !value.is_null(),
        Shape::Set | Shape::Keyed(..) => !value.is_array() && !value.is_null(),
    }
}

/// `null` and `{}` are fields although they have no parts.
fn is_void(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(members) => members.is_empty(),
        _ => false,
    }
}

/// Checks a configuration against its schema, in the words of the server's typed errors.
pub(super) fn check(schema: &Schema, config: &Value) -> Result<(), String> {
    Faults::default().of(schema, config)
}

/// The same of a state: elements that have one name were allowed once.
pub(super) fn check_state(schema: &Schema, state: &Value) -> Result<(), String> {
    let faults = Faults {
        allows_duplicates: true,
        ..Faults::default()
    };
    faults.of(schema, state)
}

/// What is wrong with a value.
#[derive(Default)]
struct Faults {
    found: Vec<String>,
    allows_duplicates: bool,
}

impl Faults {
    fn of(mut self, schema: &Schema, value: &Value) -> Result<(), String> {
        check_value(Some(schema), value, &Place::Root, &mut self);
        match self.found.as_slice() {
            [] => Ok(()),
            [one] => Err(one.clone()),
            many => Err(format!("errors:\n  {}", many.join("\n  "))),
        }
    }

    fn push(&mut self, fault: String) {
        self.found.push(fault);
    }
}

/// Where a check is; written out only for what is wrong there.
#[derive(Clone, Copy)]
enum Place<'a> {
    Root,
    Member(&'a Place<'a>, &'a str),
    Item(&'a Place<'a>, usize),
    Named(&'a Place<'a>, &'a PathElement),
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => Ok(()),
            Self::Member(above, name) => write!(f, "{above}.{name}"),
            Self::Item(above, place) => write!(f, "{above}[{place}]"),
            Self::Named(above, name) => write!(f, "{above}{name}"),
        }
    }
}

fn check_value(schema: Option<&Schema>, value: &Value, path: &Place<'_>, errors: &mut Faults) {
    let Some(schema) = schema else { return };
    if value.is_null() {
        return;
    }
    let expected = match (schema.kind, value) {
        (Kind::Object, Value::Object(members)) => {
            check_members(schema, members, path, errors);
            return;
        }
        (Kind::Array, Value::Array(elements)) => {
            check_elements(schema, elements, path, errors);
            return;
        }
        (Kind::String, Value::String(_))
        | (Kind::Integer | Kind::Number, Value::Number(_))
        | (Kind::Boolean, Value::Bool(_))
        | (Kind::IntOrString, Value::Number(_) | Value::String(_))
        | (Kind::Any, _) => return,
        (Kind::Object, _) => "map",
        (Kind::Array, _) => "list",
        (Kind::String, _) => "string",
        (Kind::Integer | Kind::Number, _) => "numeric (int or float)",
        (Kind::Boolean, _) => "boolean",
        (Kind::IntOrString, _) => "any scalar",
    };
    let got = match (schema.kind, value) {
        (Kind::Integer | Kind::Number, value) => match value {
            Value::String(_) => "string".to_owned(),
            Value::Bool(_) => "bool".to_owned(),
            Value::Array(_) => "[]interface {}".to_owned(),
            _ => "map[string]interface {}".to_owned(),
        },
        (Kind::String, value) => format!("&value.valueUnstructured{{Value:{value}}}"),
        (_, value) => format!("&{{{}}}", go::value(value)),
    };
    errors.push(format!("{path}: expected {expected}, got {got}"));
}

fn check_members(
    schema: &Schema,
    members: &Map<String, Value>,
    path: &Place<'_>,
    errors: &mut Faults,
) {
    for (name, inner) in members {
        let path = Place::Member(path, name);
        match schema.member(name) {
            Some(known) => check_value(Some(known), inner, &path, errors),
            None if schema.preserve_unknown => {}
            None => errors.push(format!("{path}: field not declared in schema")),
        }
    }
}

fn check_elements(schema: &Schema, elements: &[Value], path: &Place<'_>, errors: &mut Faults) {
    let list = shape(Some(schema), None);
    let mut seen = std::collections::BTreeSet::new();
    for (place, element) in elements.iter().enumerate() {
        if matches!(list, Shape::Leaf | Shape::Map(_)) {
            check_value(items(schema), element, &Place::Item(path, place), errors);
            continue;
        }
        match element_of(list, element) {
            Ok(name) if seen.contains(&name) && !errors.allows_duplicates => {
                errors.push(format!("{path}: duplicate entries for key {name}"));
            }
            Ok(name) => {
                check_value(items(schema), element, &Place::Named(path, &name), errors);
                seen.insert(name);
            }
            Err(reason) => errors.push(format!("{path}: element {place}: {reason}")),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;

    use super::*;

    fn schema() -> Schema {
        Schema::from_json(&json!({"type": "object", "properties": {
            "items": {"type": "array", "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["port", "protocol"],
                "items": {"type": "object", "properties": {
                    "port": {"type": "integer"}, "note": {"type": "string"},
                    "protocol": {"type": "string", "default": "TCP"}}}},
            "names": {"type": "array", "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
                "items": {"type": "object", "properties": {"name": {"type": "string"}}}},
            "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
            "map": {"type": "object", "additionalProperties": {"type": "string"}},
            "nested": {"type": "object", "additionalProperties":
                {"type": "object", "properties": {"a": {"type": "string"}}}},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        }}))
        .unwrap()
    }

    #[test]
    fn fields_of_a_configuration() {
        for (config, fields) in [
            (json!({"map": {"a": "1"}}), json!({"f:map": {"f:a": {}}})),
            (json!({"map": {}}), json!({"f:map": {}})),
            (json!({"map": {"a": null}}), json!({"f:map": {"f:a": {}}})),
            (json!({"set": ["x"]}), json!({"f:set": {"v:\"x\"": {}}})),
            (json!({"set": []}), json!({})),
            (
                json!({"items": [{"port": 80}]}),
                json!({"f:items": {"k:{\"port\":80,\"protocol\":\"TCP\"}": {".": {}, "f:port": {}}}}),
            ),
            (
                json!({"nested": {"k": {"a": "1"}}}),
                json!({"f:nested": {"f:k": {".": {}, "f:a": {}}}}),
            ),
        ] {
            assert_eq!(
                fields_of(Some(&schema()), &config).encode(),
                fields,
                "{config}"
            );
        }
    }

    #[test]
    fn errors_name_the_path() {
        for (config, error) in [
            (json!({"nope": 1}), ".nope: field not declared in schema"),
            (
                json!({"set": ["q", "q"]}),
                ".set: duplicate entries for key [=\"q\"]",
            ),
            (
                json!({"items": [{"port": 1}, {"port": 1, "protocol": "TCP"}]}),
                ".items: duplicate entries for key [port=1,protocol=\"TCP\"]",
            ),
            (
                json!({"items": [{"port": "x"}]}),
                ".items[port=\"x\",protocol=\"TCP\"].port: expected numeric (int or float), got string",
            ),
            (
                json!({"set": {"a": 1}, "map": "x"}),
                "errors:\n  .map: expected map, got &{x}\n  .set: expected list, got &{map[a:1]}",
            ),
            (
                json!({"names": [{}]}),
                ".names: element 0: associative list with keys has an element that omits all key fields [\"name\"] (and doesn't have default values for any key fields)",
            ),
            (
                json!({"a": 1, "b": 2}),
                "errors:\n  .a: field not declared in schema\n  .b: field not declared in schema",
            ),
        ] {
            assert_eq!(check(&schema(), &config), Err(error.to_owned()));
        }
        assert_eq!(
            check(&schema(), &json!({"free": {"x": [1]}, "map": null})),
            Ok(())
        );
    }
}
