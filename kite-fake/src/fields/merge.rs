//! Merging an applied configuration into the live object.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::typed::{Shape, element_of, items, member, shape};
use crate::path_element::PathElement;
use crate::schema::Schema;

/// The live value with everything that `config` sets.
pub(super) fn merge(schema: Option<&Schema>, live: Option<&Value>, config: &Value) -> Value {
    let Some(live) = live else {
        return config.clone();
    };
    match (shape(schema, Some(config)), live, config) {
        (Shape::Map(schema), Value::Object(old), Value::Object(new)) => {
            merge_members(schema, old, new)
        }
        (list @ (Shape::Set | Shape::Keyed(..)), Value::Array(old), Value::Array(new)) => {
            merge_elements(list, old, new)
        }
        // An explicit null leaves what has parts; it is a value only for a single field.
        (Shape::Map(_) | Shape::Set | Shape::Keyed(..), live, Value::Null) if !is_void(live) => {
            live.clone()
        }
        (Shape::Leaf, Value::Object(_), Value::Null) if schema.is_none() => live.clone(),
        (_, _, config) => config.clone(),
    }
}

fn is_void(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(members) => members.is_empty(),
        Value::Array(elements) => elements.is_empty(),
        _ => false,
    }
}

fn merge_members(
    schema: Option<&Schema>,
    old: &Map<String, Value>,
    new: &Map<String, Value>,
) -> Value {
    let kept = old.iter().map(|(name, old)| {
        let value = match new.get(name) {
            Some(config) => merge(member(schema, name), Some(old), config),
            None => old.clone(),
        };
        (name.clone(), value)
    });
    let added = new
        .iter()
        .filter(|(name, _)| !old.contains_key(*name))
        .map(|(name, config)| (name.clone(), config.clone()));
    Value::Object(kept.chain(added).collect())
}

/// Merges two keyed lists or sets. The elements that `new` names come out in its
/// order; those that only `old` has keep their place among them.
fn merge_elements(list: Shape<'_>, old: &[Value], new: &[Value]) -> Value {
    let inner = match list {
        Shape::Keyed(_, schema) => items(schema),
        _ => None,
    };
    let old_names: Vec<Option<PathElement>> =
        old.iter().map(|e| element_of(list, e).ok()).collect();
    let mut first: BTreeMap<&PathElement, &Value> = BTreeMap::new();
    for (name, element) in old_names.iter().zip(old) {
        if let Some(name) = name {
            first.entry(name).or_insert(element);
        }
    }
    let new_names: Vec<PathElement> = new
        .iter()
        .filter_map(|e| element_of(list, e).ok())
        .collect();
    if new_names.len() != new.len() {
        // Only unchecked configurations have nameless elements.
        return Value::from(new.to_vec());
    }
    let in_new: BTreeMap<&PathElement, usize> =
        new_names.iter().enumerate().map(|(i, n)| (n, i)).collect();

    let mut merged = Vec::with_capacity(old.len().max(new.len()));
    let mut next = 0;
    let emit = |merged: &mut Vec<Value>, place: usize| {
        if let (Some(name), Some(config)) = (new_names.get(place), new.get(place)) {
            merged.push(merge(inner, first.get(name).copied(), config));
        }
    };
    for (name, element) in old_names.iter().zip(old) {
        match name.as_ref().and_then(|name| in_new.get(name)) {
            None => merged.push(element.clone()),
            Some(&place) => {
                // An element that both have: due if no other common one comes before it.
                let due = new_names
                    .iter()
                    .take(place)
                    .skip(next)
                    .all(|name| !first.contains_key(name));
                if place >= next && due {
                    for place in next..=place {
                        emit(&mut merged, place);
                    }
                    next = place + 1;
                }
            }
        }
    }
    for place in next..new.len() {
        emit(&mut merged, place);
    }
    Value::from(merged)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;

    use super::*;

    fn schema() -> Schema {
        Schema::from_json(&json!({"type": "object", "properties": {
            "keyed": {"type": "array", "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["n"], "items": {"type": "object",
                "properties": {"n": {"type": "string"}, "v": {"type": "integer"}, "w": {"type": "integer"}}}},
            "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
            "atomic": {"type": "array", "items": {"type": "string"}},
            "whole": {"type": "object", "x-kubernetes-map-type": "atomic",
                "additionalProperties": {"type": "string"}},
            "map": {"type": "object", "additionalProperties": {"type": "string"}},
        }}))
        .unwrap()
    }

    #[test]
    fn values_merge_by_their_schema() {
        for (live, config, merged) in [
            (
                json!({"set": ["a", "b"]}),
                json!({"set": ["b", "c"]}),
                json!({"set": ["a", "b", "c"]}),
            ),
            (
                json!({"set": ["a", "b", "c"]}),
                json!({"set": ["c", "z", "a"]}),
                json!({"set": ["b", "c", "z", "a"]}),
            ),
            (
                json!({"atomic": ["a"]}),
                json!({"atomic": ["b"]}),
                json!({"atomic": ["b"]}),
            ),
            (
                json!({"whole": {"a": "1"}}),
                json!({"whole": {"b": "1"}}),
                json!({"whole": {"b": "1"}}),
            ),
            (
                json!({"map": {"a": "1"}}),
                json!({"map": {"b": "1"}}),
                json!({"map": {"a": "1", "b": "1"}}),
            ),
            (
                json!({"map": {"a": "1"}}),
                json!({"map": {}}),
                json!({"map": {"a": "1"}}),
            ),
            (
                json!({"map": {"a": "1"}}),
                json!({"map": null}),
                json!({"map": {"a": "1"}}),
            ),
            (
                json!({"map": {"a": "1"}}),
                json!({"map": {"a": null}}),
                json!({"map": {"a": null}}),
            ),
            (
                json!({"keyed": [{"n": "a", "v": 1}, {"n": "b"}]}),
                json!({"keyed": [{"n": "c"}, {"n": "a", "w": 2}]}),
                json!({"keyed": [{"n": "c"}, {"n": "a", "v": 1, "w": 2}, {"n": "b"}]}),
            ),
        ] {
            assert_eq!(
                merge(Some(&schema()), Some(&live), &config),
                merged,
                "{live} + {config}"
            );
        }
    }
}
