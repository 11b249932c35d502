//! Removing the objects of sessions and API tokens that open nothing any more.

use std::time::Duration;

use jiff::Timestamp;
use kite_core::{
    cluster::{ClusterExt as _, Object, ObjectKey},
    crd::KiteUser,
};
use kube::{ResourceExt as _, api::PropagationPolicy};

use super::{is_token_of, session::belongs_to};
use crate::state::Inner;

/// Time between two sweeps.
pub(crate) const INTERVAL: Duration = Duration::from_secs(60);

/// Whether something expired at `end`, or the account that it was of is gone,
/// suspended, or not the one that `belongs` asks for. Requests are refused from
/// that moment on anyway; removing the object keeps a later pardon from opening it
/// again.
fn is_dead<K: Object>(
    object: &K,
    end: Timestamp,
    user: Option<&KiteUser>,
    belongs: impl Fn(&KiteUser) -> bool,
    now: Timestamp,
) -> bool {
    if end <= now {
        return true;
    }
    match user {
        Some(user) if user.spec.suspended => true,
        Some(user) if belongs(user) => false,
        // It may come by its watch before its account does.
        _ => object
            .creation_timestamp()
            .is_some_and(|made| made.0 + INTERVAL <= now),
    }
}

/// Removes everything that is dead once. Several replicas may do so at a time.
pub(crate) async fn sweep(inner: &Inner) {
    let caches = &inner.caches;
    // A user that is not in a stale copy may well exist.
    if !caches.users.is_live() || !caches.platforms.is_live() {
        return;
    }
    let now = Timestamp::now();
    let platform = inner.platform();
    let user = |name: &str| caches.users.get(&ObjectKey::cluster(name));
    if caches.sessions.is_live() {
        for session in caches.sessions.list(|_| true) {
            let spec = &session.spec;
            let belongs = |user: &KiteUser| belongs_to(&session, user, platform.session_epoch);
            let user = user(&spec.user);
            if is_dead(
                session.as_ref(),
                spec.expires_at.0,
                user.as_deref(),
                belongs,
                now,
            ) {
                remove(inner, session.as_ref()).await;
            }
        }
    }
    if caches.tokens.is_live() {
        for token in caches.tokens.list(|_| true) {
            let spec = &token.spec;
            let belongs = |user: &KiteUser| is_token_of(&token, user, &platform);
            let user = user(&spec.user);
            if is_dead(
                token.as_ref(),
                spec.expires_at.0,
                user.as_deref(),
                belongs,
                now,
            ) {
                remove(inner, token.as_ref()).await;
            }
        }
    }
}

async fn remove<K: Object>(inner: &Inner, object: &K) {
    let gone = PropagationPolicy::Background;
    if let Err(error) = inner.cluster.remove(object, gone).await {
        tracing::warn!(%error, "what is dead stays until the next sweep");
    }
}
