//! Edits of objects that nobody else has written since they were read.

use kite_core::cluster::{Cluster as _, ClusterError, FieldManager, Object, ObjectKey};
use kube::ResourceExt as _;
use serde_json::{Value, json};

use crate::{problem::Problem, state::ApiState};

/// Changes fields of the spec: the object as it is then, or none if somebody else has
/// written or removed it since.
pub(super) async fn edit_unchanged<K: Object>(
    state: &ApiState,
    object: &K,
    spec: &Value,
) -> Result<Option<K>, Problem> {
    let patch = json!({
        "metadata": { "uid": object.uid(), "resourceVersion": object.resource_version() },
        "spec": spec,
    });
    let key = ObjectKey::of(object);
    let edited = state.cluster().edit::<K>(FieldManager::API, &key, &patch);
    match edited.await {
        Ok(edited) => Ok(Some(edited)),
        Err(ClusterError::Conflict { .. } | ClusterError::NotFound { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
