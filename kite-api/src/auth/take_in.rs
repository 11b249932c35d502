//! Taking in hashes of passwords that others have written into accounts, with kubectl or
//! from a repository, or that an earlier version kept there: they are put out of sight of
//! who may read accounts.

use std::time::Duration;

use kite_core::crd::KiteUser;
use kube::ResourceExt as _;
use serde_json::json;

use super::{
    alike::are_alike,
    password::{StoredPassword, forget_password},
};
use crate::{
    problem::{Problem, ProblemKind},
    state::ApiState,
    unchanged::patch_unchanged,
};

/// Most accounts whose hash one sweep takes in, by some four requests each: after an upgrade
/// all have one. Whoever signs in is not waited for.
const MOST: usize = 300;
/// The time between two of them.
const PAUSE: Duration = Duration::from_millis(50);

/// Takes in the hash that is in `user`, if one is, nobody has written the account since,
/// and no replica of an earlier version needs it: the account as it is then. Its sessions
/// go on.
pub(super) async fn take_in(
    state: &ApiState,
    user: &KiteUser,
) -> Result<Option<KiteUser>, Problem> {
    let is_sound = user.spec.unreadable.is_none() && user.metadata.deletion_timestamp.is_none();
    let hash = user.spec.password_hash.as_ref();
    let Some(hash) = hash.filter(|_| is_sound) else {
        return Ok(None);
    };
    if !are_alike(state).await {
        return Ok(None);
    }
    let name = user.name_any();
    let stored = StoredPassword::keep(state, &name, hash).await?;
    // The name first, and by itself: a CRD of an earlier version drops it, and the hash
    // would be gone with nothing in its place.
    let named = json!({ "spec": { "credential": stored.id() } });
    // Where somebody has written the account since, the next sweep sees what.
    let Some(named) = patch_unchanged(state.cluster(), user, named).await? else {
        return Ok(None);
    };
    if !stored.is_of(&named) {
        return Err(Problem::new(
            ProblemKind::Internal,
            "KiteUser has no field spec.credential in this cluster: apply Kite's CRDs \
             (kite crds | kubectl apply -f -)",
        ));
    }
    let without = json!({ "spec": { "passwordHash": null } });
    let Some(edited) = patch_unchanged(state.cluster(), &named, without).await? else {
        return Ok(None);
    };
    state.caches().users.caught_up_with(&edited).await;
    if user.spec.credential.as_ref() != Some(&stored.id()) {
        forget_password(state, user).await;
    }
    tracing::info!(user = name, "took in the hash of a password");
    Ok(Some(edited))
}

/// Takes in those that there are, so many at a time. Several replicas may do so at a time.
pub(super) async fn take_in_all(state: &ApiState) {
    // Asked also where there is nothing to take in: it has to be so for some minutes.
    if !are_alike(state).await {
        return;
    }
    let users = &state.caches().users;
    let with_hash = users.list(|user| user.spec.password_hash.is_some());
    for user in with_hash.into_iter().take(MOST) {
        if let Err(problem) = take_in(state, &user).await {
            tracing::warn!(
                user = user.name_any(),
                why = problem.detail(),
                "the hash of a password stays in its account until the next sweep"
            );
        }
        tokio::time::sleep(PAUSE).await;
    }
}
