//! Whether an apply would change anything.

use kite_core::{cluster::Object, quantity::Bytes};
use serde_json::Value;

/// Whether every field that `desired` sets is in `observed` with the same
/// value, so that applying `desired` would change nothing. What else `observed`
/// has (defaults, status, other managers' fields) does not matter.
pub fn is_applied<K: Object>(desired: &K, observed: &K) -> bool {
    match (
        serde_json::to_value(desired),
        serde_json::to_value(observed),
    ) {
        (Ok(desired), Ok(observed)) => covers(&observed, &desired, &mut Vec::new()),
        // What cannot be compared is applied: the API server compares then.
        _ => false,
    }
}

fn covers<'a>(observed: &Value, desired: &'a Value, path: &mut Vec<&'a str>) -> bool {
    match (observed, desired) {
        (_, Value::Null) => true,
        (Value::Object(observed), Value::Object(desired)) => desired.iter().all(|(key, value)| {
            path.push(key);
            let covered = match observed.get(key) {
                Some(observed) => covers(observed, value, path),
                None => value.is_null(),
            };
            path.pop();
            covered
        }),
        (Value::Array(observed), Value::Array(desired)) => {
            if is_shared_list(path) {
                desired
                    .iter()
                    .all(|wanted| observed.iter().any(|had| covers(had, wanted, path)))
            } else {
                observed.len() == desired.len()
                    && observed
                        .iter()
                        .zip(desired)
                        .all(|(had, wanted)| covers(had, wanted, path))
            }
        }
        (Value::String(observed), Value::String(desired)) => {
            observed == desired || (is_quantity(path) && same_quantity(observed, desired))
        }
        (observed, desired) => observed == desired,
    }
}

/// Lists whose elements may come from several appliers (`x-kubernetes-list-type:
/// map` or `set`): an element of somebody else's is no drift. In all others one
/// applier owns the whole list.
fn is_shared_list(path: &[&str]) -> bool {
    matches!(
        path,
        ["metadata", "ownerReferences" | "finalizers"] | ["spec", "ports"]
    )
}

/// Where quantities stand, which the API server or `KubeVirt` spell their own way.
fn is_quantity(path: &[&str]) -> bool {
    matches!(
        path,
        ["spec", "hard", _] | [.., "requests" | "limits", _] | [.., "memory", "guest" | "maxGuest"]
    )
}

fn same_quantity(a: &str, b: &str) -> bool {
    matches!((a.parse::<Bytes>(), b.parse::<Bytes>()), (Ok(a), Ok(b)) if a == b)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn covered(observed: &Value, desired: &Value) -> bool {
        covers(observed, desired, &mut Vec::new())
    }

    #[test]
    fn what_others_add_is_no_drift() {
        let desired =
            json!({"metadata": {"labels": {"a": "1"}, "ownerReferences": [{"uid": "x"}]}});
        let observed = json!({
            "metadata": {"labels": {"a": "1", "b": "2"}, "ownerReferences": [{"uid": "y"}, {"uid": "x", "kind": "K"}]},
            "status": {},
        });
        assert!(covered(&observed, &desired));
    }

    #[test]
    fn a_changed_a_missing_and_an_added_element_are_drift() {
        let desired = json!({"spec": {"ingress": [{"ports": [{"port": 22}]}]}});
        assert!(covered(
            &json!({"spec": {"ingress": [{"ports": [{"port": 22, "protocol": "TCP"}]}]}}),
            &desired
        ));
        for observed in [
            json!({"spec": {"ingress": [{"ports": [{"port": 23}]}]}}),
            json!({"spec": {"ingress": []}}),
            json!({"spec": {}}),
            json!({"spec": {"ingress": [{"ports": [{"port": 22}, {"port": 80}]}]}}),
            json!({"spec": {"ingress": [{"ports": [{"port": 22}]}, {}]}}),
        ] {
            assert!(!covered(&observed, &desired), "{observed}");
        }
    }

    #[test]
    fn quantities_are_compared_by_value_where_they_are_quantities() {
        let hard = |text: &str| json!({"spec": {"hard": {"requests.memory": text}}});
        assert!(covered(&hard("1Gi"), &hard("1024Mi")));
        assert!(!covered(&hard("1Gi"), &hard("1025Mi")));
        let guest = |text: &str| json!({"domain": {"memory": {"guest": text}}});
        assert!(covered(&guest("1Gi"), &guest("1024Mi")));
        assert!(!covered(&guest("1Gi"), &guest("2Gi")));
        let name = |text: &str| json!({"metadata": {"name": text}});
        assert!(!covered(&name("1Gi"), &name("1024Mi")));
    }
}
