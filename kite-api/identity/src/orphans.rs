//! Removing passwords that no account names: what is left where setting one broke off,
//! or where its account went.

use std::{collections::HashSet, time::Duration};

use jiff::Timestamp;
use kite_core::{
    cluster::{Cluster as _, ClusterError, ClusterExt as _, ObjectKey},
    crd::{KitePassword, KiteUser},
};
use kite_rest::Problem;
use kube::{
    ResourceExt as _,
    api::{ListParams, PropagationPolicy},
};

use crate::state::Accounts;

/// Passwords that are asked for at once.
const PAGE: u32 = 500;
/// How old one is at least: until then a request may be about to name it.
const AGE: Duration = Duration::from_secs(3600);

/// Looks for such passwords if it is time to, and removes those that it may. Several
/// replicas may do so at a time.
pub(crate) async fn sweep_passwords(state: &Accounts) {
    if !state.orphans().is_turn() {
        return;
    }
    if let Err(problem) = look(state, Timestamp::now()).await {
        let why = problem.detail();
        tracing::warn!(why, "passwords that are over stay until the next look");
    }
}

async fn look(state: &Accounts, now: Timestamp) -> Result<(), Problem> {
    let before = state.orphans().seen.lock().clone();
    let mut seen = HashSet::new();
    let mut params = ListParams::default().limit(PAGE);
    loop {
        let page = state.cluster().list::<KitePassword>(None, &params).await?;
        let next = page.continue_token.clone();
        for password in page.items {
            let name = password.name_any();
            let user = state
                .caches()
                .users
                .get(&ObjectKey::cluster(&password.spec.user));
            if !is_old(&password, now) || user.is_some_and(|user| names(&user, &name)) {
                continue;
            }
            // One of which nothing can be found out keeps none of the others.
            if before.contains(&name)
                && let Err(problem) = remove(state, &password).await
            {
                let why = problem.detail();
                tracing::warn!(why, password = name, "stays until the next look");
            }
            seen.insert(name);
        }
        let Some(next) = next else { break };
        params = params.continue_token(&next);
    }
    *state.orphans().seen.lock() = seen;
    Ok(())
}

fn is_old(password: &KitePassword, now: Timestamp) -> bool {
    let made = password.creation_timestamp();
    made.is_some_and(|made| made.0 + AGE <= now)
}

/// Whether it is the password of `user`, or becomes it when its hash is taken in. Of an
/// account that cannot be read nobody can say.
fn names(user: &KiteUser, id: &str) -> bool {
    user.spec.unreadable.is_some()
        || user.spec.credential.as_deref() == Some(id)
        || user.spec.credential().as_deref() == Some(id)
}

/// Removes a password unless its account, as the API server has it, names it after all,
/// or somebody has just written it.
async fn remove(state: &Accounts, password: &KitePassword) -> Result<(), Problem> {
    let key = ObjectKey::cluster(&password.spec.user);
    let user = state.cluster().get_opt::<KiteUser>(&key).await?;
    let name = password.name_any();
    if user.is_some_and(|user| names(&user, &name)) {
        return Ok(());
    }
    let gone = PropagationPolicy::Background;
    match state.cluster().delete_unchanged(password, gone).await {
        Ok(()) => {
            tracing::info!(
                user = key.name,
                password = name,
                "removed a password that is over"
            );
            Ok(())
        }
        Err(ClusterError::Conflict { .. } | ClusterError::NotFound { .. }) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
