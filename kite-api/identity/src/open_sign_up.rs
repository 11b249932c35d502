//! What bounds accounts that anybody makes for themselves: how many there may be in a day,
//! from whatever addresses, and what their email addresses are worth.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kite_core::{crd::KiteUser, names};
use kite_rest::{Problem, ProblemKind, patch_unchanged};
use kube::ResourceExt as _;
use serde_json::json;
use tokio::sync::MutexGuard;

use crate::state::Accounts;

/// Annotation of an account that somebody made without an invite.
const SIGNED_UP: &str = "hy3ons.github.io/signed-up";
/// Annotation of an account whose email address nobody has verified.
pub(crate) const EMAIL_UNVERIFIED: &str = "hy3ons.github.io/email-unverified";
/// For how long an account counts.
const DAY: SignedDuration = SignedDuration::from_hours(24);

/// Marks an account as one that anybody could make.
pub(crate) fn mark(user: &mut KiteUser) {
    let annotations = user.annotations_mut();
    annotations.insert(SIGNED_UP.to_owned(), "true".to_owned());
}

/// Marks the email address of an account, if it has one, as one that may be anybody's.
pub(crate) fn mark_email(user: &mut KiteUser) {
    if user.spec.email.is_some() {
        let annotations = user.annotations_mut();
        annotations.insert(EMAIL_UNVERIFIED.to_owned(), "true".to_owned());
    }
}

/// Whether anybody could have written the email address of `user`.
fn is_unverified(user: &KiteUser) -> bool {
    user.annotations().contains_key(EMAIL_UNVERIFIED)
}

/// Refuses another account while as many were made within a day as the platform takes.
/// They are counted by what there is, so all replicas count the same.
pub(crate) async fn require_room(state: &Accounts) -> Result<(), Problem> {
    let most = state.platform_now().await?.sign_ups_per_day();
    let now = Timestamp::now();
    let made_at = |user: &KiteUser| Some(user.creation_timestamp()?.0);
    let users = state.caches().users.list(|user| {
        user.annotations().contains_key(SIGNED_UP)
            && made_at(user).is_some_and(|at| now.duration_since(at) < DAY)
    });
    if users.len() < usize::try_from(most).unwrap_or(usize::MAX) {
        return Ok(());
    }
    let oldest = users.iter().filter_map(|user| made_at(user)).min();
    let wait = oldest.map_or(DAY, |at| DAY - now.duration_since(at));
    let wait = Duration::try_from(wait).unwrap_or_default();
    tracing::warn!(most, "no more accounts are made today: signUpsPerDay");
    Err(Problem::new(
        ProblemKind::TooManyRequests,
        "as many people have signed up within a day as the platform takes: try again later, or \
         ask an administrator for an invite or an account",
    )
    .retry_after(wait.max(Duration::from_secs(1))))
}

/// A turn to make an account. On one replica they are made one after the other, so that
/// each is counted before the next; several replicas can make a few more.
pub(crate) async fn take_turn(state: &Accounts) -> Result<MutexGuard<'_, ()>, Problem> {
    let turn = state.sign_up_turn().lock().await;
    require_room(state).await?;
    Ok(turn)
}

/// Takes `email`, which a provider or an invite vouches for, from an account that only
/// said that it was its own; whether it is free now. The controller releases the
/// reservation as soon as it sees that.
pub(crate) async fn free_unverified(state: &Accounts, email: &str) -> Result<bool, Problem> {
    let claim = names::email_reservation(email);
    let holder = state.caches().users.find(|user| {
        let theirs = user.spec.email.as_deref().map(names::email_reservation);
        theirs.as_ref() == Some(&claim)
    });
    let Some(holder) = holder.filter(|holder| is_unverified(holder)) else {
        return Ok(false);
    };
    let patch = json!({
        "metadata": { "annotations": { EMAIL_UNVERIFIED: null } },
        "spec": { "email": null },
    });
    // It may have been verified, or be another one, by now.
    let edited = patch_unchanged(
        state.cluster(),
        state.store().manager(),
        holder.as_ref(),
        patch,
    )
    .await?;
    let Some(edited) = edited else {
        return Ok(false);
    };
    state.caches().users.caught_up_with(&edited).await;
    tracing::warn!(
        user = edited.name_any(),
        "lost an email address that it had not verified to who has verified it"
    );
    Ok(true)
}
