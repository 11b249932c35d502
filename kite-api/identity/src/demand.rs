//! Whose account needs a second factor (`requireSecondFactor` of the platform), and
//! whether it has one.

use kite_core::crd::{KiteUser, SecondFactorOf};
use kite_rest::{Problem, ProblemKind};
use kube::ResourceExt as _;

use crate::{second_factor::find_factor, state::Accounts};

/// Whether `user` needs a second factor and has none. An account without a password has
/// nothing that a factor would stand beside: its provider asks for one, or not.
///
/// # Errors
///
/// Where that cannot be found out; then nobody goes on.
pub(crate) async fn lacks_factor(state: &Accounts, user: &KiteUser) -> Result<bool, Problem> {
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
async fn has_factor(state: &Accounts, user: &KiteUser) -> Result<bool, Problem> {
    let factor = find_factor(state, user).await?;
    let has = factor.is_some_and(|factor| factor.spec.confirmed);
    if has {
        state.seen_factors().note(user.uid().unwrap_or_default());
    }
    Ok(has)
}

/// Refuses to ask `asked` for a second factor where that would keep out whoever asks it:
/// an administrator who has none could not take it back.
///
/// # Errors
/// [`ProblemKind::Conflict`] if it would keep out `user`, or the problem of a refusal by the
/// API server.
pub async fn require_own_factor(
    state: &Accounts,
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
