//! Taking in hashes of passwords that others have written into accounts, with kubectl or
//! from a repository, or that an earlier version kept there: they are put out of sight of
//! who may read accounts.

use std::{sync::Arc, time::Duration};

use kite_core::{crd::KiteUser, password::PasswordHash};
use kite_rest::{Problem, ProblemKind, patch_unchanged};
use kube::ResourceExt as _;
use rand::seq::SliceRandom as _;
use serde_json::json;

use crate::{
    alike::are_alike,
    password::{StoredPassword, forget_password},
    state::Accounts,
};

/// Most accounts whose hash one sweep takes in, by some four requests each: after an upgrade
/// all have one. Whoever signs in is not waited for.
const MOST: usize = 300;
/// The time between two of them.
const PAUSE: Duration = Duration::from_millis(50);

/// Takes in the hash that is in `user`, if one is, nobody has written the account since,
/// and no replica of an earlier version needs it: the account as it is then. Its sessions
/// go on.
pub(crate) async fn take_in(
    state: &Accounts,
    user: &KiteUser,
) -> Result<Option<KiteUser>, Problem> {
    let Some(hash) = hash_in(user) else {
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
    let Some(named) =
        patch_unchanged(state.cluster(), state.store().manager(), user, named).await?
    else {
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
    let Some(edited) =
        patch_unchanged(state.cluster(), state.store().manager(), &named, without).await?
    else {
        return Ok(None);
    };
    state.caches().users.caught_up_with(&edited).await;
    if user.spec.credential.as_ref() != Some(&stored.id()) {
        forget_password(state, user).await;
    }
    tracing::info!(user = name, "took in the hash of a password");
    Ok(Some(edited))
}

/// The hash that is in `user` and can be taken in: what cannot be read is not written, and
/// what is going away is left alone.
fn hash_in(user: &KiteUser) -> Option<&PasswordHash> {
    let is_sound = user.spec.unreadable.is_none() && user.metadata.deletion_timestamp.is_none();
    user.spec.password_hash.as_ref().filter(|_| is_sound)
}

/// Those of `users` whose turn it is. Which ones is left to chance: where some cannot be
/// taken in, whatever the reason, it is not always these, and replicas seldom meet at one.
fn chosen(mut users: Vec<Arc<KiteUser>>) -> Vec<Arc<KiteUser>> {
    users.retain(|user| hash_in(user).is_some());
    users.shuffle(&mut rand::rng());
    users.truncate(MOST);
    users
}

/// Takes in those that there are, so many at a time. Several replicas may do so at a time.
pub(crate) async fn take_in_all(state: &Accounts) {
    // Asked also where there is nothing to take in: it has to be so for some minutes.
    if !are_alike(state).await {
        return;
    }
    let users = &state.caches().users;
    let with_hash = users.list(|user| user.spec.password_hash.is_some());
    for user in chosen(with_hash) {
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

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use kite_core::crd::KiteUserSpec;

    use super::*;

    fn users(prefix: &str, number: usize, change: impl Fn(&mut KiteUser)) -> Vec<Arc<KiteUser>> {
        let user = |n| {
            let name = format!("{prefix}-{n}");
            let mut user = KiteUser::new(&name, KiteUserSpec::new(&name));
            user.spec.password_hash = Some(PasswordHash::from_phc("$argon2id$".to_owned()));
            change(&mut user);
            Arc::new(user)
        };
        (0..number).map(user).collect()
    }

    #[test]
    fn what_cannot_be_taken_in_is_in_the_way_of_no_other() {
        let all = [
            users("broken", 2 * MOST, |user| {
                user.spec.unreadable = Some("quota: what is this".to_owned());
            }),
            users("going", 2 * MOST, |user| {
                user.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
            }),
            users("taken-in", 2 * MOST, |user| user.spec.password_hash = None),
            users("zoe", 10, |_| {}),
        ];
        let chosen = chosen(all.concat());
        assert_eq!(chosen.len(), 10);
        assert!(chosen.iter().all(|it| it.name_any().starts_with("zoe")));
    }

    #[test]
    fn whoever_is_not_chosen_is_so_another_time() {
        let all = users("user", MOST + 1, |_| {});
        // Each is left out once in three hundred times.
        let last = all[MOST].name_any();
        let is_chosen = || chosen(all.clone()).iter().any(|it| it.name_any() == last);
        assert!((0..20).any(|_| is_chosen()));
        assert_eq!(chosen(all.clone()).len(), MOST);
    }
}
