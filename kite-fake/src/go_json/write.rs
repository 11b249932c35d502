//! Writing a tree as text, each object in the order of its type.

use serde_json::{Map, Value};

use super::order::{Order, Then};
use super::{field_set, number, string};

/// Writes values. Its memory serves all that it writes.
#[derive(Debug, Default)]
pub(crate) struct Writer<'v> {
    /// The members of the objects that are being written, the innermost last.
    slots: Vec<Slot<'v>>,
    depth: usize,
    deepest: usize,
    /// Sets of fields are in the order of their names, as in a map.
    plain_sets: bool,
}

/// A member that is to be written.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Slot<'v> {
    rank: u16,
    /// Where it stood before.
    at: u32,
    pub(crate) name: &'v str,
    pub(crate) value: &'v Value,
    pub(crate) then: Then,
}

impl<'v> Writer<'v> {
    /// A writer of what was a map before, with its sets of fields.
    pub(crate) fn of_maps() -> Self {
        Self {
            plain_sets: true,
            ..Self::default()
        }
    }

    /// How many objects and lists contain each other at most, in what was written.
    pub(crate) fn deepest(&self) -> usize {
        self.deepest
    }

    /// Writes a value, an object of this order or a list of such.
    pub(crate) fn value(
        &mut self,
        out: &mut Vec<u8>,
        value: &'v Value,
        order: Option<&'static Order>,
    ) {
        match value {
            Value::Null => out.extend_from_slice(b"null"),
            Value::Bool(true) => out.extend_from_slice(b"true"),
            Value::Bool(false) => out.extend_from_slice(b"false"),
            Value::Number(number) => number::write(out, number),
            Value::String(text) => string::write(out, text),
            Value::Array(elements) => self.list(out, elements, |writer, out, element| {
                writer.value(out, element, order);
            }),
            Value::Object(members) => self.object(out, members, order, |writer, out, slot, _| {
                writer.member(out, slot);
            }),
        }
    }

    /// Writes what a member holds.
    pub(crate) fn member(&mut self, out: &mut Vec<u8>, slot: Slot<'v>) {
        match (slot.then, slot.value) {
            (Then::Of(place), value) => self.value(out, value, Order::at(place)),
            (Then::MapOf(place), Value::Object(members)) => {
                let order = Order::at(place);
                self.object(out, members, None, |writer, out, slot, _| {
                    writer.value(out, slot.value, order);
                });
            }
            (Then::FieldSet, Value::Object(members)) => self.field_set(out, members),
            (Then::Named, value) => self.named(out, value),
            (_, value) => self.value(out, value, None),
        }
    }

    /// Writes an object; `each` writes what a member holds, and is told where its
    /// name begins.
    pub(crate) fn object(
        &mut self,
        out: &mut Vec<u8>,
        members: &'v Map<String, Value>,
        order: Option<&'static Order>,
        mut each: impl FnMut(&mut Self, &mut Vec<u8>, Slot<'v>, usize),
    ) {
        self.enter();
        out.push(b'{');
        let Some(order) = order else {
            for (at, (name, value)) in members.iter().enumerate() {
                let from = name_of(out, at == 0, name);
                let slot = Slot {
                    rank: 0,
                    at: 0,
                    name,
                    value,
                    then: Then::Sorted,
                };
                each(self, out, slot, from);
            }
            out.push(b'}');
            self.depth -= 1;
            return;
        };
        if self.slots.capacity() == 0 {
            // Enough for most objects.
            self.slots.reserve(64);
        }
        let start = self.slots.len();
        for (at, (name, value)) in members.iter().enumerate() {
            let (rank, then) = order.place(name);
            self.slots.push(Slot {
                rank,
                at: u32::try_from(at).unwrap_or(u32::MAX),
                name,
                value,
                then,
            });
        }
        if let Some(slots) = self.slots.get_mut(start..) {
            slots.sort_unstable_by_key(|slot| (slot.rank, slot.at));
        }
        for at in start..start + members.len() {
            let Some(slot) = self.slots.get(at).copied() else {
                continue;
            };
            let from = name_of(out, at == start, slot.name);
            each(self, out, slot, from);
        }
        self.slots.truncate(start);
        out.push(b'}');
        self.depth -= 1;
    }

    fn list(
        &mut self,
        out: &mut Vec<u8>,
        elements: &'v [Value],
        mut each: impl FnMut(&mut Self, &mut Vec<u8>, &'v Value),
    ) {
        self.enter();
        out.push(b'[');
        for (at, element) in elements.iter().enumerate() {
            if at > 0 {
                out.push(b',');
            }
            each(self, out, element);
        }
        out.push(b']');
        self.depth -= 1;
    }

    /// Writes what may be of any kind.
    fn named(&mut self, out: &mut Vec<u8>, value: &'v Value) {
        match value {
            Value::Array(elements) => self.list(out, elements, Self::named),
            value => self.value(out, value, Order::of(value)),
        }
    }

    fn field_set(&mut self, out: &mut Vec<u8>, members: &'v Map<String, Value>) {
        let below = |writer: &mut Self, out: &mut Vec<u8>, value: &'v Value| match value {
            Value::Object(members) => writer.field_set(out, members),
            value => writer.value(out, value, None),
        };
        if self.plain_sets || !members.keys().any(|name| field_set::is_special(name)) {
            self.object(out, members, None, |writer, out, slot, _| {
                below(writer, out, slot.value);
            });
            return;
        }
        let meant = members.iter();
        let mut meant: Vec<_> = meant
            .map(|(name, value)| (field_set::meaning(name), name, value))
            .collect();
        meant.sort_by(|a, b| a.0.cmp(&b.0));
        self.enter();
        out.push(b'{');
        for (at, (_, name, value)) in meant.into_iter().enumerate() {
            name_of(out, at == 0, name);
            below(self, out, value);
        }
        out.push(b'}');
        self.depth -= 1;
    }

    fn enter(&mut self) {
        self.depth += 1;
        self.deepest = self.deepest.max(self.depth);
    }
}

/// Writes the name of a member, and what divides it from the one before; gives where
/// the name begins.
fn name_of(out: &mut Vec<u8>, first: bool, name: &str) -> usize {
    if !first {
        out.push(b',');
    }
    let from = out.len();
    string::write(out, name);
    out.push(b':');
    from
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::super::text;
    use super::*;
    use crate::testing::any_json;

    fn written(value: &Value) -> String {
        String::from_utf8_lossy(&text(value)).into_owned()
    }

    #[test]
    fn an_object_is_in_the_order_of_its_kind() {
        let pod = json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "unknown": {"b": 1, "a": 2},
            "metadata": {
                "uid": "u", "namespace": "b", "name": "a",
                "labels": {"b": "", "a": ""},
                "ownerReferences": [{"uid": "u", "name": "n", "kind": "K", "apiVersion": "v1"}],
            },
            "spec": {
                "containers": [{
                    "image": "x", "name": "c",
                    "resources": {"requests": {"memory": "1", "cpu": "2"}, "limits": {}},
                    "readinessProbe": {"periodSeconds": 1, "httpGet": {"port": 80, "path": "/"}},
                }],
                "volumes": [{"secret": {"secretName": "s"}, "name": "v"}],
            },
        });
        assert_eq!(
            written(&pod),
            concat!(
                r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","namespace":"b","#,
                r#""uid":"u","labels":{"a":"","b":""},"ownerReferences":[{"apiVersion":"v1","#,
                r#""kind":"K","name":"n","uid":"u"}]},"spec":{"volumes":[{"name":"v","#,
                r#""secret":{"secretName":"s"}}],"containers":[{"name":"c","image":"x","#,
                r#""resources":{"limits":{},"requests":{"cpu":"2","memory":"1"}},"#,
                r#""readinessProbe":{"httpGet":{"path":"/","port":80},"periodSeconds":1}}]},"#,
                r#""unknown":{"a":2,"b":1}}"#,
            )
        );
    }

    #[test]
    fn schemas_are_in_their_order_wherever_they_are() {
        let schema = json!({"type": "object", "description": "d"});
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "spec": {"versions": [{"schema": {"openAPIV3Schema": {
                "properties": {"b": schema, "a": {"items": schema}},
                "additionalProperties": schema,
                "default": {"b": 1, "a": 2},
                "x-kubernetes-validations": [{"message": "m", "rule": "r"}],
                "allOf": [schema],
            }}, "name": "v1"}]},
        });
        let inner = r#"{"description":"d","type":"object"}"#;
        assert_eq!(
            written(&definition),
            [
                r#"{"kind":"CustomResourceDefinition","apiVersion":"apiextensions.k8s.io/v1","#,
                r#""spec":{"versions":[{"name":"v1","schema":{"openAPIV3Schema":{"#,
                r#""default":{"a":2,"b":1},"#,
                &format!(r#""allOf":[{inner}],"properties":{{"a":{{"items":{inner}}},"#),
                &format!(r#""b":{inner}}},"additionalProperties":{inner},"#),
                r#""x-kubernetes-validations":[{"rule":"r","message":"m"}]}}}]}}"#,
            ]
            .concat()
        );
    }

    #[test]
    fn a_custom_object_and_what_is_in_a_table_row() {
        let custom = json!({"kind": "Pod", "apiVersion": "apps.example.com/v1", "a": "<"});
        assert_eq!(
            written(&custom),
            r#"{"a":"\u003c","apiVersion":"apps.example.com/v1","kind":"Pod"}"#
        );
        let partial = json!({
            "apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata",
            "metadata": {"uid": "u", "name": "n"},
        });
        let table = json!({
            "apiVersion": "meta.k8s.io/v1", "kind": "Table",
            "rows": [{"object": partial, "cells": [{"b": 1, "a": 1}]}],
        });
        assert_eq!(
            written(&table),
            concat!(
                r#"{"kind":"Table","apiVersion":"meta.k8s.io/v1","rows":[{"cells":[{"a":1,"b":1}],"#,
                r#""object":{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","#,
                r#""metadata":{"name":"n","uid":"u"}}}]}"#,
            )
        );
    }

    #[test]
    fn ports_in_a_set_of_fields_are_in_the_order_of_numbers() {
        let fields = json!({
            "k:{\"port\":443}": {".": {}, "f:port": {}},
            "k:{\"port\":80}": {".": {}},
            "f:z": {"v:10": {}, "v:9": {}},
            ".": {},
        });
        let entry = json!({"fieldsV1": fields, "manager": "m"});
        let map = json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"managedFields": [entry]}});
        let expected = concat!(
            r#"{"manager":"m","fieldsV1":{".":{},"f:z":{"v:9":{},"v:10":{}},"#,
            r#""k:{\"port\":80}":{".":{}},"k:{\"port\":443}":{".":{},"f:port":{}}}}"#,
        );
        assert!(written(&map).contains(expected), "{}", written(&map));
    }

    proptest! {
        #[test]
        fn what_is_read_again_is_the_same(spec in any_json(), kind in "Pod|Thing|Status|Table") {
            let value = json!({"apiVersion": "v1", "kind": kind, "spec": spec, "details": spec});
            let read: Option<Value> = serde_json::from_slice(&text(&value)).ok();
            prop_assert_eq!(read, Some(value));
        }
    }

    #[test]
    fn depth_is_that_of_what_contains_each_other() {
        for (value, depth) in [(json!(1), 0), (json!({}), 1), (json!([[], {"a": [1]}]), 3)] {
            let mut writer = Writer::default();
            writer.value(&mut Vec::new(), &value, None);
            assert_eq!(writer.deepest(), depth);
        }
    }
}
