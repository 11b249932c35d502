//! Writes of objects that nobody else has written since they were read.

use kite_core::cluster::{Cluster, ClusterError, FieldManager, Object, ObjectKey};
use serde_json::{Value, json};

/// Changes what `patch` names of `object`: the object as it is then, or none if somebody else
/// has written or removed it since it was read.
///
/// # Errors
/// A [`ClusterError`] if the API server refuses or does not answer.
pub async fn patch_unchanged<K: Object>(
    cluster: &impl Cluster,
    manager: FieldManager,
    object: &K,
    mut patch: Value,
) -> Result<Option<K>, ClusterError> {
    let (read, metadata) = (object.meta(), &mut patch["metadata"]);
    metadata["uid"] = json!(read.uid);
    metadata["resourceVersion"] = json!(read.resource_version);
    let key = ObjectKey::of(object);
    match cluster.merge_patch::<K>(manager, &key, &patch).await {
        Ok(edited) => Ok(Some(edited)),
        Err(ClusterError::Conflict { .. } | ClusterError::NotFound { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}
