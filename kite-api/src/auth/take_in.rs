//! Taking in hashes of passwords that others have written into accounts, with kubectl or
//! from a repository, or that an earlier version kept there: they are put out of sight of
//! who may read accounts.

use kite_core::{
    cluster::{Cluster as _, ClusterError, FieldManager, ObjectKey},
    crd::KiteUser,
};
use kube::ResourceExt as _;
use serde_json::json;

use super::password::{StoredPassword, forget_password};
use crate::{problem::Problem, state::ApiState};

/// Takes in the hash that is in `user`, if one is, nobody has written the account since,
/// and the time for it has come: the account as it is then. Its sessions go on.
pub(super) async fn take_in(
    state: &ApiState,
    user: &KiteUser,
) -> Result<Option<KiteUser>, Problem> {
    let is_sound = user.spec.unreadable.is_none() && user.metadata.deletion_timestamp.is_none();
    let hash = user.spec.password_hash.as_ref();
    let Some(hash) = hash.filter(|_| is_sound && state.takes_in()) else {
        return Ok(None);
    };
    let key = ObjectKey::of(user);
    let stored = StoredPassword::keep(state, &key.name, hash).await?;
    let patch = json!({
        "metadata": { "uid": user.uid(), "resourceVersion": user.resource_version() },
        "spec": stored.fields(),
    });
    let edited = state
        .cluster()
        .edit::<KiteUser>(FieldManager::API, &key, &patch);
    let edited = match edited.await {
        Ok(edited) => edited,
        // The next sweep sees what was written.
        Err(ClusterError::Conflict { .. } | ClusterError::NotFound { .. }) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    state.caches().users.caught_up_with(&edited).await;
    if user.spec.credential.as_ref() != Some(&stored.id()) {
        forget_password(state, user).await;
    }
    tracing::info!(user = key.name, "took in the hash of a password");
    Ok(Some(edited))
}

/// Takes in all that there are. Several replicas may do so at a time.
pub(super) async fn take_in_all(state: &ApiState) {
    let users = &state.caches().users;
    for user in users.list(|user| user.spec.password_hash.is_some()) {
        if let Err(problem) = take_in(state, &user).await {
            tracing::warn!(
                user = user.name_any(),
                why = problem.detail(),
                "the hash of a password stays in its account until the next sweep"
            );
        }
    }
}
