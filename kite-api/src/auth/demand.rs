//! Whose account needs a second factor (`requireSecondFactor` of the platform), and
//! whether it has one.

use std::{collections::HashMap, time::Duration};

use kite_core::crd::{KiteUser, SecondFactorOf};
use kite_rest::{Problem, ProblemKind};
use kube::ResourceExt as _;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::second_factor::find_factor;

use crate::state::ApiState;

/// How long a second factor that was seen is taken to be there still.
const SEEN_FOR: Duration = Duration::from_secs(30);
/// Most accounts that are remembered.
const MOST_SEEN: usize = 10_000;

/// Whose second factor this replica saw lately, by uid. Only that there is one is
/// remembered: who has just set one up goes on at once.
#[derive(Default)]
pub(crate) struct SeenFactors(Mutex<HashMap<String, Instant>>);

impl SeenFactors {
    fn has(&self, uid: &str) -> bool {
        let seen = self.0.lock();
        seen.get(uid).is_some_and(|at| at.elapsed() < SEEN_FOR)
    }

    fn note(&self, uid: String) {
        let mut seen = self.0.lock();
        if seen.len() >= MOST_SEEN {
            seen.retain(|_, at| at.elapsed() < SEEN_FOR);
        }
        if seen.len() < MOST_SEEN {
            seen.insert(uid, Instant::now());
        }
    }

    /// Forgets an account, whose second factor is gone.
    pub(super) fn forget(&self, uid: &str) {
        self.0.lock().remove(uid);
    }
}

/// Whether `user` needs a second factor and has none. An account without a password has
/// nothing that a factor would stand beside: its provider asks for one, or not.
///
/// # Errors
///
/// Where that cannot be found out; then nobody goes on.
pub(super) async fn lacks_factor(state: &ApiState, user: &KiteUser) -> Result<bool, Problem> {
    let platform = state.platform_object();
    let asked = platform.map(|it| it.spec.require_second_factor);
    let is_asked = asked.is_some_and(|it| it.covers(user.spec.access_level));
    let uid = user.uid().unwrap_or_default();
    if !is_asked || !user.spec.has_password() || state.seen_factors().has(&uid) {
        return Ok(false);
    }
    let _permit = state.lookups().known()?;
    has_factor(state, user).await.map(|has| !has)
}

/// Whether the account has a second factor that counts.
async fn has_factor(state: &ApiState, user: &KiteUser) -> Result<bool, Problem> {
    let factor = find_factor(state, user).await?;
    let has = factor.is_some_and(|factor| factor.spec.confirmed);
    if has {
        state.seen_factors().note(user.uid().unwrap_or_default());
    }
    Ok(has)
}

/// Refuses to ask `asked` for a second factor where that would keep out whoever asks it:
/// an administrator who has none could not take it back.
pub(crate) async fn require_own_factor(
    state: &ApiState,
    user: &KiteUser,
    asked: SecondFactorOf,
) -> Result<(), Problem> {
    let is_kept_out = asked.covers(user.spec.access_level)
        && user.spec.has_password()
        && !has_factor(state, user).await?;
    if !is_kept_out {
        return Ok(());
    }
    Err(Problem::field(
        ProblemKind::Conflict,
        "requireSecondFactor",
        &format!("{asked:?}"),
        "would keep you out, too: set up a second factor for your own account first",
    ))
}
