//! Fields that an earlier apply of ours set and that are not wanted any more.
//!
//! Server-side apply removes a field when its only owner applies without it.
//! Whether there is one is seen in `metadata.managedFields` (`fieldsV1` of the
//! Kubernetes API: keys `f:<field>`, `k:<key of a list element>`, `v:<value>`).
//! Where managed fields were stripped, none are seen; [`condense`] keeps what is
//! looked at.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{FieldsV1, ManagedFieldsEntry, ObjectMeta};
use kite_core::labels;
use serde_json::{Map, Value};

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
pub(super) fn any(observed: &Value, desired: &Value) -> bool {
    let entries = observed["metadata"]["managedFields"].as_array();
    entries
        .into_iter()
        .flatten()
        .filter(|entry| entry["operation"] == APPLY && entry["subresource"].is_null())
        .any(|entry| match &entry["fieldsV1"] {
            Value::Object(fields) => is_ours(fields) && has_more(fields, desired),
            // Condensed: ours. What cannot be read is compared by the API server.
            Value::String(text) => {
                let fields = serde_json::from_str::<Map<String, Value>>(text);
                fields.map_or(true, |fields| has_more(&fields, desired))
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

/// Whether `fields` names one that `desired` does not have.
fn has_more(fields: &Map<String, Value>, desired: &Value) -> bool {
    fields.iter().any(|(key, below)| {
        let wanted = match key.split_once(':') {
            Some(("f", field)) => desired.get(field).filter(|value| !value.is_null()),
            Some(("k", element)) => element_of(desired, element),
            // The element of a set, and the node itself.
            Some(_) | None => return false,
        };
        match (wanted, below.as_object()) {
            (None, _) => true,
            (Some(wanted), Some(below)) => has_more(below, wanted),
            (Some(_), None) => false,
        }
    })
}

/// The element of a list that has all the values of `key`, which is JSON.
fn element_of<'a>(list: &'a Value, key: &str) -> Option<&'a Value> {
    let key: Map<String, Value> = serde_json::from_str(key).ok()?;
    let mut elements = list.as_array()?.iter();
    elements.find(|element| {
        key.iter()
            .all(|(name, value)| element.get(name) == Some(value))
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

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
