//! Fields that an earlier apply of ours set and that are not wanted any more.
//!
//! Server-side apply removes a field when its only owner applies without it.
//! Whether there is one is seen in `metadata.managedFields` (`fieldsV1` of the
//! Kubernetes API: keys `f:<field>`, `k:<key of a list element>`, `v:<value>`).
//! Where managed fields were stripped, none are seen.

use kite_core::labels;
use serde_json::{Map, Value};

/// Whether `observed` has such a field.
pub(super) fn any(observed: &Value, desired: &Value) -> bool {
    let entries = observed["metadata"]["managedFields"].as_array();
    entries
        .into_iter()
        .flatten()
        .filter(|entry| entry["operation"] == "Apply" && entry["subresource"].is_null())
        .filter_map(|entry| entry["fieldsV1"].as_object())
        .filter(|fields| is_ours(fields))
        .any(|fields| has_more(fields, desired))
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
    fn fields_of_others_are_theirs() {
        let mut theirs = observed(&json!({"f:a": {}}));
        theirs["metadata"]["managedFields"][0]["fieldsV1"]["f:metadata"] = json!({});
        assert!(!any(&theirs, &desired(&json!({}))));
    }
}
