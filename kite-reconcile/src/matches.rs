//! Whether an apply would change anything.

use kite_core::{cluster::Object, quantity::Bytes};

mod leftovers;
mod tape;

pub(crate) use self::leftovers::{condense, sets};
use self::tape::{Seen, Tape, View};

/// Whether applying `desired` would change nothing: every field that it sets is
/// in `observed` with the same value, and `observed` has no field left that an
/// earlier apply of ours set and `desired` does not. What else `observed` has
/// (defaults, status, other managers' fields) does not matter.
///
/// ```
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use kite_reconcile::matches::is_applied;
///
/// let with = |keys: &[&str]| ConfigMap {
///     data: Some(keys.iter().map(|key| (key.to_string(), "1".to_owned())).collect()),
///     ..ConfigMap::default()
/// };
/// // What others have added does not matter.
/// assert!(is_applied(&with(&["a"]), &with(&["a", "b"])));
/// assert!(!is_applied(&with(&["a", "c"]), &with(&["a", "b"])));
/// ```
pub fn is_applied<K: Object>(desired: &K, observed: &K) -> bool {
    match (Tape::of(desired), Tape::of(observed)) {
        (Some(desired), Some(observed)) => {
            let (desired, observed) = (desired.root(), observed.root());
            covers(observed, desired, &mut Vec::new()) && !leftovers::any(observed, desired)
        }
        // What cannot be compared is applied: the API server compares then.
        _ => false,
    }
}

fn covers<'a>(observed: View<'_>, desired: View<'a>, path: &mut Vec<&'a str>) -> bool {
    match (observed.seen(), desired.seen()) {
        (_, Seen::Null) => true,
        _ if is_atomic(path) => is_same(observed, desired),
        (Seen::Map(mut observed), Seen::Map(desired)) => desired.entries().all(|(key, value)| {
            path.push(key);
            let covered = match observed.get(key) {
                Some(observed) => covers(observed, value, path),
                None => is_nothing(value),
            };
            path.pop();
            covered
        }),
        (Seen::List(mut observed), Seen::List(mut desired)) => {
            if is_shared_list(path) {
                desired.all(|wanted| observed.clone().any(|had| covers(had, wanted, path)))
            } else {
                loop {
                    match (observed.next(), desired.next()) {
                        (None, None) => break true,
                        (Some(had), Some(wanted)) if covers(had, wanted, path) => {}
                        _ => break false,
                    }
                }
            }
        }
        (Seen::Text(observed), Seen::Text(desired)) => {
            observed == desired || (is_quantity(path) && same_quantity(observed, desired))
        }
        (Seen::Scalar(observed), Seen::Scalar(desired)) => observed == desired,
        _ => false,
    }
}

/// Equal both ways; what is empty is as good as absent.
fn is_same(a: View<'_>, b: View<'_>) -> bool {
    match (a.seen(), b.seen()) {
        (Seen::Map(mut a), Seen::Map(mut b)) => {
            let entries = a.entries();
            let has_none_more = b
                .entries()
                .all(|(key, b)| a.get(key).is_some() || b.is_null());
            has_none_more
                && entries.into_iter().all(|(key, a)| match b.get(key) {
                    Some(b) => is_same(a, b),
                    None => a.is_null(),
                })
        }
        (Seen::List(mut a), Seen::List(mut b)) => loop {
            match (a.next(), b.next()) {
                (None, None) => break true,
                (Some(a), Some(b)) if is_same(a, b) => {}
                _ => break false,
            }
        },
        (Seen::Text(a), Seen::Text(b)) => a == b,
        (Seen::Scalar(a), Seen::Scalar(b)) => a == b,
        (Seen::Null, Seen::Null) => true,
        _ => false,
    }
}

/// Whether an API server stores such a value as absent.
fn is_nothing(value: View<'_>) -> bool {
    value.is_null()
        || value
            .elements()
            .is_some_and(|mut elements| elements.next().is_none())
}

/// Parts of core kinds that have one owner as a whole (selectors, and the rules
/// of network policies and Ingresses): anything more in them is drift. A network policy
/// is open by what is *added* to a rule.
fn is_atomic(path: &[&str]) -> bool {
    let ["spec", field] = path else { return false };
    let of_policies = ["podSelector", "ingress", "egress", "policyTypes"];
    of_policies.contains(field) || ["selector", "rules", "tls"].contains(field)
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
    #![allow(clippy::unwrap_used)]
    use serde_json::{Value, json};

    use super::*;

    fn covered(observed: &Value, desired: &Value) -> bool {
        let (observed, desired) = (Tape::of(observed).unwrap(), Tape::of(desired).unwrap());
        covers(observed.root(), desired.root(), &mut Vec::new())
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
        let desired = json!({"spec": {"disks": [{"bus": [{"port": 22}]}]}});
        assert!(covered(
            &json!({"spec": {"disks": [{"bus": [{"port": 22, "protocol": "TCP"}]}]}}),
            &desired
        ));
        for observed in [
            json!({"spec": {"disks": [{"bus": [{"port": 23}]}]}}),
            json!({"spec": {"disks": []}}),
            json!({"spec": {}}),
            json!({"spec": {"disks": [{"bus": [{"port": 22}, {"port": 80}]}]}}),
            json!({"spec": {"disks": [{"bus": [{"port": 22}]}, {}]}}),
        ] {
            assert!(!covered(&observed, &desired), "{observed}");
        }
    }

    #[test]
    fn what_is_added_to_a_rule_or_a_selector_is_drift() {
        let desired =
            json!({"spec": {"podSelector": {}, "ingress": [{"from": [{"podSelector": {}}]}]}});
        for observed in [
            json!({"spec": {"podSelector": {"matchLabels": {"a": "b"}}, "ingress": [{"from": [{"podSelector": {}}]}]}}),
            json!({"spec": {"podSelector": {}, "ingress": [{}]}}),
            json!({"spec": {"podSelector": {}, "ingress": [{"from": [{"podSelector": {}, "namespaceSelector": {}}]}]}}),
        ] {
            assert!(!covered(&observed, &desired), "{observed}");
        }
        assert!(covered(&desired, &desired));
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
