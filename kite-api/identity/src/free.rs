//! Whether a username and an email address can be had by a new account.

use kite_core::{
    cluster::{ClusterExt as _, ObjectKey},
    crd::{KiteReservation, KiteUser, KiteUserSpec},
    names,
};
use kite_rest::{Problem, ProblemKind};
use kube::ResourceExt as _;

use crate::{open_sign_up::free_unverified, state::Accounts};

/// What is told of a second factor where no code can be given.
pub(crate) fn without_code(problem: Problem, username: &str) -> Problem {
    if problem.kind() != ProblemKind::SecondFactorRequired {
        return problem;
    }
    Problem::new(
        ProblemKind::SecondFactorRequired,
        format!(
            "the account {username:?} was made before and has a second factor: sign in with its \
             code"
        ),
    )
}

/// That a username or email address is somebody else's.
pub(crate) fn taken(field: &'static str, value: &str) -> Problem {
    Problem::field(ProblemKind::Taken, field, value, "is taken: choose another")
}

/// That nobody is known to have the username or the email address. Where somebody vouches for
/// the address, whoever only said that it is theirs goes on without.
pub(crate) async fn check_free(
    state: &Accounts,
    spec: &KiteUserSpec,
    is_vouched_for: bool,
) -> Result<(), Problem> {
    let username = &spec.username;
    let is_theirs =
        |user: &KiteUser| user.spec.username == *username || user.name_any() == *username;
    if state.caches().users.find(is_theirs).is_some() {
        return Err(taken("username", username));
    }
    let Some(email) = &spec.email else {
        return Ok(());
    };
    match require_free_email(state, email, None).await {
        Err(problem) if problem.kind() == ProblemKind::Taken && is_vouched_for => {
            let is_free = free_unverified(state, email).await?;
            if is_free { Ok(()) } else { Err(problem) }
        }
        checked => checked,
    }
}

/// That nobody but the user with the uid `of` has this address. Two at once are
/// told apart by the controller.
pub(crate) async fn require_free_email(
    state: &Accounts,
    email: &str,
    of: Option<&str>,
) -> Result<(), Problem> {
    let claim = names::email_reservation(email);
    let used = state.caches().users.find(|user| {
        let theirs = user.spec.email.as_deref().map(names::email_reservation);
        theirs.as_ref() == Some(&claim) && user.uid().as_deref() != of
    });
    let key = ObjectKey::cluster(claim);
    let reserved = state.cluster().get_opt::<KiteReservation>(&key).await?;
    if used.is_some() || reserved.is_some_and(|held| Some(held.spec.holder.uid.as_str()) != of) {
        return Err(taken("email", email));
    }
    Ok(())
}
