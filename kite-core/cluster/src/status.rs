//! Writing the status of an object, whatever is stored in its place.

use kube::{ResourceExt as _, api::ObjectMeta, core::object::HasStatus};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::{Cluster, ClusterError, FieldManager, Object, ObjectKey};

/// A status of which a part may be stored that cannot be read, as where a later version
/// has written it.
pub trait StoredStatus: Serialize + Send + Sync + 'static {
    /// What is stored, of which `read` could be read: with all that a patch of it must
    /// name. `None` if that is all.
    fn stored(&self, read: &Value) -> Option<Value> {
        let _ = read;
        None
    }
}

/// See [`ClusterExt::write_status`](super::ClusterExt::write_status).
pub(super) async fn write<C, K>(
    cluster: &C,
    manager: FieldManager,
    object: &K,
    status: K::Status,
) -> Result<K, ClusterError>
where
    C: Cluster + ?Sized,
    K: Object + HasStatus,
    K::Status: StoredStatus,
{
    let (before, is_unread) = stored(object)?;
    let wanted = serde_json::to_value(&status).map_err(|error| unwritable(object, &error))?;
    if is_unread {
        // What is kept does not fit the CRD: an apply could not even carry it.
        return edit(cluster, manager, object, merge_patch(&before, &wanted)).await;
    }
    let carrier = carrier(object, status);
    let told = match cluster.apply_status(manager, &carrier).await {
        // Something else of the object, such as its spec; or what the apply leaves of an object
        // in the status, of which somebody else has written a field, is none without the rest.
        Err(error)
            if error.is_schema_mismatch() || matches!(error, ClusterError::Invalid { .. }) =>
        {
            return edit(cluster, manager, object, merge_patch(&before, &wanted)).await;
        }
        told => told?,
    };
    match surplus(&stored(&told)?.0, &wanted) {
        Some(removal) => edit(cluster, manager, &told, Some(removal)).await,
        None => Ok(told),
    }
}

/// Changes fields of the status of `object` as it was read.
async fn edit<C, K>(
    cluster: &C,
    manager: FieldManager,
    object: &K,
    fields: Option<Value>,
) -> Result<K, ClusterError>
where
    C: Cluster + ?Sized,
    K: Object,
{
    let patch = json!({
        "metadata": {"resourceVersion": object.resource_version()},
        "status": fields.unwrap_or_else(|| json!({})),
    });
    let key = ObjectKey::of(object);
    cluster.merge_patch_status(manager, &key, &patch).await
}

/// The status as it is stored, as far as a patch must know, and whether a part of it could
/// not be read.
fn stored<K>(object: &K) -> Result<(Value, bool), ClusterError>
where
    K: Object + HasStatus,
    K::Status: StoredStatus,
{
    let Some(status) = object.status() else {
        return Ok((Value::Null, false));
    };
    let read = serde_json::to_value(status).map_err(|error| unwritable(object, &error))?;
    Ok(match status.stored(&read) {
        Some(stored) => (stored, true),
        None => (read, false),
    })
}

fn unwritable<K: Object>(object: &K, error: &serde_json::Error) -> ClusterError {
    ClusterError::Other {
        operation: format!("write status of {} {}", K::kind(&()), ObjectKey::of(object)),
        message: error.to_string(),
    }
}

/// The object with what an apply of its status needs: what names it, and its
/// version so that a newer one, or another of the same name, gets nothing.
fn carrier<K: Object + HasStatus>(object: &K, status: K::Status) -> K {
    let mut carrier = object.clone();
    let of = object.meta();
    *carrier.meta_mut() = ObjectMeta {
        name: of.name.clone(),
        namespace: of.namespace.clone(),
        resource_version: of.resource_version.clone(),
        ..ObjectMeta::default()
    };
    *carrier.status_mut() = Some(status);
    carrier
}

/// The JSON merge patch (RFC 7386) that makes `to` of `from`; none if they are the same.
///
/// ```
/// use kite_cluster::merge_patch;
/// use serde_json::json;
///
/// let patch = merge_patch(&json!({"a": 1, "b": 2}), &json!({"a": 1, "c": 3}));
/// assert_eq!(patch, Some(json!({"b": null, "c": 3})));
/// ```
pub fn merge_patch(from: &Value, to: &Value) -> Option<Value> {
    let (Value::Object(old), Value::Object(new)) = (from, to) else {
        return (from != to).then(|| to.clone());
    };
    let gone = old.keys().filter(|name| !new.contains_key(*name));
    let mut patch: Map<_, _> = gone.map(|name| (name.clone(), Value::Null)).collect();
    for (name, to) in new {
        let change = match old.get(name) {
            Some(from) => merge_patch(from, to),
            None => Some(to.clone()),
        };
        patch.extend(change.map(|change| (name.clone(), change)));
    }
    (!patch.is_empty()).then_some(Value::Object(patch))
}

/// The JSON merge patch that takes away what `stored` has and `wanted` has not.
fn surplus(stored: &Value, wanted: &Value) -> Option<Value> {
    match (stored, wanted) {
        (Value::Object(stored), Value::Object(wanted)) => {
            let mut patch = Map::new();
            for (name, stored) in stored.iter().filter(|(_, it)| !it.is_null()) {
                let removal = match wanted.get(name) {
                    Some(wanted) => surplus(stored, wanted),
                    None => Some(Value::Null),
                };
                patch.extend(removal.map(|removal| (name.clone(), removal)));
            }
            (!patch.is_empty()).then_some(Value::Object(patch))
        }
        (Value::Array(stored), Value::Array(elements)) if stored.len() > elements.len() => {
            Some(wanted.clone())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    #[test]
    fn a_patch_changes_no_more_than_differs() {
        for (from, to, patch) in [
            (
                json!({"a": {"b": 1, "c": 2}}),
                json!({"a": {"b": 1}}),
                json!({"a": {"c": null}}),
            ),
            (
                json!({"a": 1}),
                json!({"a": {"b": 1}}),
                json!({"a": {"b": 1}}),
            ),
            (json!({"a": [1, 2]}), json!({"a": [1]}), json!({"a": [1]})),
            (Value::Null, json!({"a": 1}), json!({"a": 1})),
        ] {
            assert_eq!(merge_patch(&from, &to), Some(patch), "{from} to {to}");
        }
    }

    #[test]
    fn only_what_is_too_much_is_taken_away() {
        let stored = json!({"a": 1, "b": {"c": 1, "d": 2}, "e": [1, 2], "f": [1], "g": null});
        let wanted = json!({"a": 2, "b": {"c": 1}, "e": [2], "f": [2], "h": 1});
        assert_eq!(
            surplus(&stored, &wanted),
            Some(json!({"b": {"d": null}, "e": [2]}))
        );
        assert_eq!(surplus(&wanted, &wanted), None);
    }
}
