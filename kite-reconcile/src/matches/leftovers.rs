//! Fields that an earlier apply of ours set and that are not wanted any more.
//!
//! Server-side apply removes a field when its only owner applies without it.
//! Whether there is one is seen in `metadata.managedFields` (`fieldsV1` of the
//! Kubernetes API: keys `f:<field>`, `k:<key of a list element>`, `v:<value>`).
//! Where managed fields were stripped, none are seen; [`condense`] keeps what is
//! looked at.

use std::{borrow::Cow, fmt};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{FieldsV1, ManagedFieldsEntry, ObjectMeta};
use kite_core::labels;
use serde::{
    Deserialize, Deserializer,
    de::{self, DeserializeSeed, IgnoredAny, MapAccess, Visitor},
};
use serde_json::{Map, Value};

use super::tape::{Seen, View};

/// The operation by which server-side apply is known.
const APPLY: &str = "Apply";

/// Keeps of the managed fields only those that an apply of ours set, as text: a
/// tree of them takes ten times the memory.
pub(crate) fn condense(meta: &mut ObjectMeta) {
    let entries = meta.managed_fields.take().into_iter().flatten();
    let ours: Vec<_> = entries
        .filter(|entry| entry.operation.as_deref() == Some(APPLY) && entry.subresource.is_none())
        .filter_map(|entry| {
            let fields = entry.fields_v1?.0;
            if !fields.is_string() && !fields.as_object().is_some_and(is_ours) {
                return None;
            }
            let text = match fields {
                Value::String(text) => text,
                fields => fields.to_string(),
            };
            Some(ManagedFieldsEntry {
                operation: entry.operation,
                fields_v1: Some(FieldsV1(Value::String(text))),
                ..ManagedFieldsEntry::default()
            })
        })
        .collect();
    meta.managed_fields = (!ours.is_empty()).then_some(ours);
}

/// Whether `observed` has such a field.
pub(super) fn any(observed: View<'_>, desired: View<'_>) -> bool {
    let meta = observed.get("metadata");
    let entries = meta
        .and_then(|meta| meta.get("managedFields"))
        .and_then(View::elements);
    entries
        .into_iter()
        .flatten()
        .filter(|entry| {
            let operation = entry.get("operation").and_then(View::text);
            operation == Some(APPLY) && entry.get("subresource").is_none_or(View::is_null)
        })
        .filter_map(|entry| entry.get("fieldsV1"))
        .any(|fields| match fields.seen() {
            Seen::Map(_) => is_ours_seen(fields) && has_more_seen(fields, desired),
            // Condensed: ours. What cannot be read is compared by the API server.
            Seen::Text(text) => has_more(text, desired).unwrap_or(true),
            _ => false,
        })
}

/// Whether an apply of ours set the field at `path` of an object.
pub(crate) fn sets(meta: &ObjectMeta, path: &[&str]) -> bool {
    let has = |fields: &Map<String, Value>| {
        let mut fields = Some(fields);
        path.iter().all(|field| {
            let below = fields.and_then(|fields| fields.get(&format!("f:{field}")));
            fields = below.and_then(Value::as_object);
            below.is_some()
        })
    };
    let entries = meta.managed_fields.iter().flatten();
    entries
        .filter(|entry| entry.operation.as_deref() == Some(APPLY) && entry.subresource.is_none())
        .filter_map(|entry| entry.fields_v1.as_ref())
        .any(|fields| match &fields.0 {
            Value::Object(fields) => is_ours(fields) && has(fields),
            Value::String(text) => {
                let fields = serde_json::from_str::<Map<String, Value>>(text);
                fields.is_ok_and(|fields| has(&fields))
            }
            _ => false,
        })
}

/// Whoever applied Kite's own label is Kite, under whatever name.
fn is_ours(fields: &Map<String, Value>) -> bool {
    let label = format!("f:{}", labels::MANAGED_BY);
    fields
        .get("f:metadata")
        .and_then(|metadata| metadata.get("f:labels"))
        .is_some_and(|labels| labels.get(label).is_some())
}

/// The same, of fields that were not condensed.
fn is_ours_seen(fields: View<'_>) -> bool {
    let label = format!("f:{}", labels::MANAGED_BY);
    fields
        .get("f:metadata")
        .and_then(|metadata| metadata.get("f:labels"))
        .is_some_and(|labels| labels.get(&label).is_some())
}

/// What a key of managed fields says of `desired`.
enum Wanted<'a> {
    /// It is there.
    There(View<'a>),
    /// It is not.
    Missing,
    /// The element of a set, or the node itself: nothing.
    Nothing,
}

impl<'a> Wanted<'a> {
    fn of(key: &str, desired: View<'a>) -> Self {
        let wanted = match key.split_once(':') {
            Some(("f", field)) => desired.get(field).filter(|value| !value.is_null()),
            Some(("k", element)) => element_of(desired, element),
            Some(_) | None => return Self::Nothing,
        };
        wanted.map_or(Self::Missing, Self::There)
    }
}

fn has_more_seen(fields: View<'_>, desired: View<'_>) -> bool {
    let Seen::Map(fields) = fields.seen() else {
        return false;
    };
    fields
        .entries()
        .any(|(key, below)| match Wanted::of(key, desired) {
            Wanted::There(wanted) => has_more_seen(below, wanted),
            Wanted::Missing => true,
            Wanted::Nothing => false,
        })
}

/// Whether `fields`, as text, name one that `desired` does not have.
fn has_more(fields: &str, desired: View<'_>) -> serde_json::Result<bool> {
    let mut reader = serde_json::Deserializer::from_str(fields);
    Looked(desired).deserialize(&mut reader)
}

/// Reads managed fields beside what is wanted, without keeping them.
struct Looked<'a>(View<'a>);

impl<'de> DeserializeSeed<'de> for Looked<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, fields: D) -> Result<bool, D::Error> {
        fields.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Looked<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("managed fields")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<bool, A::Error> {
        let mut has_more = false;
        while let Some(key) = fields.next_key::<Text<'de>>()? {
            match Wanted::of(&key.0, self.0) {
                Wanted::There(wanted) if !has_more => {
                    has_more = fields.next_value_seed(Looked(wanted))?;
                }
                wanted => {
                    fields.next_value::<IgnoredAny>()?;
                    has_more |= matches!(wanted, Wanted::Missing);
                }
            }
        }
        Ok(has_more)
    }

    fn visit_unit<E: de::Error>(self) -> Result<bool, E> {
        Ok(false)
    }
}

/// A text, as it stands if it stands there without escapes.
#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

/// The element of a list that has all the values of `key`, which is JSON.
fn element_of<'a>(list: View<'a>, key: &str) -> Option<View<'a>> {
    let key: Map<String, Value> = serde_json::from_str(key).ok()?;
    let is_meant = |element: &View<'_>| {
        key.iter().all(|(name, value)| {
            let had = element.get(name);
            had.is_some_and(|had| had.is(value))
        })
    };
    list.elements()?.find(is_meant)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::{super::tape::Tape, *};

    fn any(observed: &Value, desired: &Value) -> bool {
        let (observed, desired) = (Tape::of(observed).unwrap(), Tape::of(desired).unwrap());
        super::any(observed.root(), desired.root())
    }

    fn observed(spec: &Value) -> Value {
        json!({"metadata": {"managedFields": [{
            "manager": "kite-controller",
            "operation": "Apply",
            "fieldsV1": {
                "f:metadata": {"f:labels": {"f:hy3ons.github.io/managed-by": {}}},
                "f:spec": spec,
            },
        }]}})
    }

    fn desired(spec: &Value) -> Value {
        json!({"metadata": {"labels": {"hy3ons.github.io/managed-by": "x"}}, "spec": spec})
    }

    #[test]
    fn a_field_of_ours_that_is_not_wanted_any_more_is_seen() {
        let owned = observed(&json!({"f:a": {}, "f:b": {}}));
        assert!(any(&owned, &desired(&json!({"a": 1}))));
        assert!(!any(&owned, &desired(&json!({"a": 1, "b": 2}))));
    }

    #[test]
    fn elements_are_told_apart_by_their_keys() {
        let owned = observed(&json!({"f:ports": {
            "k:{\"port\":22,\"protocol\":\"TCP\"}": {".": {}, "f:port": {}, "f:name": {}},
        }}));
        let ports = |ports: Value| desired(&json!({"ports": ports}));
        assert!(!any(
            &owned,
            &ports(json!([{"port": 22, "protocol": "TCP", "name": "ssh"}]))
        ));
        assert!(any(
            &owned,
            &ports(json!([{"port": 22, "protocol": "TCP"}]))
        ));
        assert!(any(
            &owned,
            &ports(json!([{"port": 23, "protocol": "TCP", "name": "ssh"}]))
        ));
    }

    #[test]
    fn condensed_fields_tell_the_same() {
        let mut owned = observed(&json!({"f:a": {}, "f:b": {}}));
        owned["metadata"]["managedFields"]
            .as_array_mut()
            .unwrap()
            .push(json!({"operation": "Update", "fieldsV1": {"f:status": {}}}));
        let mut meta: ObjectMeta = serde_json::from_value(owned["metadata"].clone()).unwrap();
        for _ in 0..2 {
            condense(&mut meta);
            assert_eq!(meta.managed_fields.as_ref().map(Vec::len), Some(1));
            let condensed = json!({"metadata": meta});
            assert!(any(&condensed, &desired(&json!({"a": 1}))));
            assert!(!any(&condensed, &desired(&json!({"a": 1, "b": 2}))));
        }
    }

    #[test]
    fn fields_of_others_are_theirs() {
        let mut theirs = observed(&json!({"f:a": {}}));
        theirs["metadata"]["managedFields"][0]["fieldsV1"]["f:metadata"] = json!({});
        assert!(!any(&theirs, &desired(&json!({}))));
    }
}
