//! What differs between two states of an object.

use std::collections::BTreeMap;

use serde_json::Value;

use super::Reset;
use super::set::FieldSet;
use super::typed::{Shape, element_of, items, member, shape};
use crate::path_element::PathElement;
use crate::schema::Schema;

/// The fields in which the new state differs from the old one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Difference {
    /// Fields with another value, or new ones: what the change takes over.
    pub(super) taken: FieldSet,
    /// Fields that are gone.
    pub(super) removed: FieldSet,
}

impl Difference {
    /// Looks only at what an endpoint changes.
    pub(super) fn strip(&mut self, reset: Reset) {
        reset.strip(&mut self.taken);
        reset.strip(&mut self.removed);
    }

    /// Compares two states.
    pub(super) fn between(schema: &Schema, old: &Value, new: &Value) -> Self {
        let mut difference = Self::default();
        compare(
            Some(schema),
            Some(old),
            Some(new),
            &mut difference.taken,
            &mut difference.removed,
        );
        difference
    }
}

/// Whether the value as a whole was taken or removed; parts go into the sets.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Whole {
    Same,
    Taken,
    Removed,
}

fn compare(
    schema: Option<&Schema>,
    old: Option<&Value>,
    new: Option<&Value>,
    taken: &mut FieldSet,
    removed: &mut FieldSet,
) -> Whole {
    let whole = match (old, new) {
        (None, None) => return Whole::Same,
        (None, Some(_)) => Whole::Taken,
        (Some(_), None) => Whole::Removed,
        (Some(old), Some(new)) if old == new => return Whole::Same,
        (Some(_), Some(_)) => Whole::Same,
    };
    let changed = || match whole {
        Whole::Same => Whole::Taken,
        other => other,
    };
    if let (Some(old), Some(new)) = (old, new)
        && let Some(whole) = compare_kinds(schema, old, new, taken, removed)
    {
        return whole;
    }
    // Null is of the other's kind.
    let witness = new.filter(|new| !new.is_null()).or(old);
    let kinds = shape(schema, witness);
    match kinds {
        Shape::Leaf => changed(),
        Shape::Map(schema) => {
            let (before, after) = (members(old), members(new));
            if before.is_none_or(serde_json::Map::is_empty)
                && after.is_none_or(serde_json::Map::is_empty)
            {
                return changed();
            }
            let parts = before
                .into_iter()
                .flat_map(|members| members.iter())
                .map(|(name, old)| (name, Some(old), after.and_then(|m| m.get(name))))
                .chain(
                    after
                        .into_iter()
                        .flat_map(|members| members.iter())
                        .filter(|(name, _)| before.is_none_or(|m| !m.contains_key(*name)))
                        .map(|(name, new)| (name, None, Some(new))),
                );
            for (name, old, new) in parts {
                if old != new {
                    let element = PathElement::Field(name.clone());
                    descend(member(schema, name), element, old, new, taken, removed);
                }
            }
            whole
        }
        Shape::Set | Shape::Keyed(..) => {
            let (before, after) = (elements(old), elements(new));
            if before.is_empty() && after.is_empty() {
                return changed();
            }
            compare_elements(kinds, before, after, taken, removed);
            whole
        }
    }
}

/// Compares two values where nothing says what they are, so that one can have
/// members and the other none: the value itself is another, and the members come
/// or go. `None` where both are of one kind; null is of any.
fn compare_kinds(
    schema: Option<&Schema>,
    old: &Value,
    new: &Value,
    taken: &mut FieldSet,
    removed: &mut FieldSet,
) -> Option<Whole> {
    let is_map = |value| matches!(shape(schema, Some(value)), Shape::Map(_));
    if old.is_null() || new.is_null() || is_map(old) == is_map(new) {
        return None;
    }
    for (name, old) in members(Some(old)).into_iter().flatten() {
        let element = PathElement::Field(name.clone());
        descend(
            member(schema, name),
            element,
            Some(old),
            None,
            taken,
            removed,
        );
    }
    for (name, new) in members(Some(new)).into_iter().flatten() {
        let element = PathElement::Field(name.clone());
        descend(
            member(schema, name),
            element,
            None,
            Some(new),
            taken,
            removed,
        );
    }
    Some(Whole::Taken)
}

fn members(value: Option<&Value>) -> Option<&serde_json::Map<String, Value>> {
    value.and_then(Value::as_object)
}

fn elements(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn descend(
    schema: Option<&Schema>,
    element: PathElement,
    old: Option<&Value>,
    new: Option<&Value>,
    taken: &mut FieldSet,
    removed: &mut FieldSet,
) {
    let mut below_taken = FieldSet::default();
    let mut below_removed = FieldSet::default();
    let whole = compare(schema, old, new, &mut below_taken, &mut below_removed);
    taken.graft(element.clone(), whole == Whole::Taken, below_taken);
    removed.graft(element, whole == Whole::Removed, below_removed);
}

fn compare_elements(
    list: Shape<'_>,
    before: &[Value],
    after: &[Value],
    taken: &mut FieldSet,
    removed: &mut FieldSet,
) {
    let inner = match list {
        Shape::Keyed(_, schema) => items(schema),
        _ => None,
    };
    let mut named: BTreeMap<PathElement, (Vec<&Value>, Vec<&Value>)> = BTreeMap::new();
    for element in before {
        if let Ok(name) = element_of(list, element) {
            named.entry(name).or_default().0.push(element);
        }
    }
    for element in after {
        if let Ok(name) = element_of(list, element) {
            named.entry(name).or_default().1.push(element);
        }
    }
    for (name, (old, new)) in named {
        match (old.as_slice(), new.as_slice()) {
            ([] | [_], [] | [_]) => {
                let (old, new) = (old.first().copied(), new.first().copied());
                if old != new {
                    descend(inner, name, old, new, taken, removed);
                }
            }
            // Duplicates, which only old objects have: they count as one field.
            (old, new) if old == new => {}
            (_, []) => removed.insert(name),
            _ => taken.insert(name),
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
            "keyed": {"type": "array", "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["n"], "items": {"type": "object",
                "properties": {"n": {"type": "string"}, "v": {"type": "integer"}}}},
            "map": {"type": "object", "additionalProperties": {"type": "string"}},
            "free": {"x-kubernetes-preserve-unknown-fields": true},
            "spec": {"type": "object", "properties": {"a": {"type": "string"},
                "list": {"type": "array", "items": {"type": "string"}}}},
        }}))
        .unwrap()
    }

    #[test]
    fn differences_name_containers_that_come_and_go() {
        for (old, new, taken, removed) in [
            (
                json!({}),
                json!({"map": {"a": "1"}}),
                json!({"f:map": {".": {}, "f:a": {}}}),
                json!({}),
            ),
            (
                json!({"map": {}}),
                json!({"map": {"a": "1"}}),
                json!({"f:map": {"f:a": {}}}),
                json!({}),
            ),
            (
                json!({"map": null}),
                json!({"map": {"a": "1"}}),
                json!({"f:map": {"f:a": {}}}),
                json!({}),
            ),
            (
                json!({}),
                json!({"map": {}}),
                json!({"f:map": {}}),
                json!({}),
            ),
            (
                json!({"map": {"a": "1"}}),
                json!({}),
                json!({}),
                json!({"f:map": {".": {}, "f:a": {}}}),
            ),
            (
                json!({"spec": {"a": "1"}}),
                json!({"spec": {"a": "2"}}),
                json!({"f:spec": {"f:a": {}}}),
                json!({}),
            ),
            (
                json!({"spec": {"list": ["1"]}}),
                json!({"spec": {"list": []}}),
                json!({"f:spec": {"f:list": {}}}),
                json!({}),
            ),
            (
                json!({"keyed": [{"n": "a"}]}),
                json!({"keyed": [{"n": "b", "v": 1}]}),
                json!({"f:keyed": {"k:{\"n\":\"b\"}": {".": {}, "f:n": {}, "f:v": {}}}}),
                json!({"f:keyed": {"k:{\"n\":\"a\"}": {".": {}, "f:n": {}}}}),
            ),
            (
                json!({"free": 1}),
                json!({"free": {"a": [1]}}),
                json!({"f:free": {".": {}, "f:a": {}}}),
                json!({}),
            ),
            (
                json!({"free": {"a": [1]}}),
                json!({"free": "1"}),
                json!({"f:free": {}}),
                json!({"f:free": {"f:a": {}}}),
            ),
        ] {
            let difference = Difference::between(&schema(), &old, &new);
            assert_eq!(difference.taken.encode(), taken, "{old} → {new}");
            assert_eq!(difference.removed.encode(), removed, "{old} → {new}");
        }
    }
}
