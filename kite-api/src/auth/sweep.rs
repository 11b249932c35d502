//! Removing session objects that open nothing any more.

use std::time::Duration;

use jiff::Timestamp;
use kite_core::{
    cluster::{ClusterExt as _, ObjectKey},
    crd::{KiteSession, KiteUser},
};
use kube::{ResourceExt as _, api::PropagationPolicy};

use crate::state::Inner;

/// Time between two sweeps.
pub(crate) const INTERVAL: Duration = Duration::from_secs(60);

/// Whether a session has expired or its user is gone, another, or suspended.
/// Requests are refused from that moment on anyway; removing the object keeps a
/// later pardon from opening it again.
fn is_dead(session: &KiteSession, user: Option<&KiteUser>, now: Timestamp) -> bool {
    if session.spec.expires_at.0 <= now {
        return true;
    }
    match user {
        Some(user) if user.spec.suspended => true,
        Some(user) if user.uid().as_deref() == Some(&session.spec.user_uid) => false,
        // A new user's session may come by its watch before the user does.
        _ => session
            .metadata
            .creation_timestamp
            .as_ref()
            .is_some_and(|made| made.0 + INTERVAL <= now),
    }
}

/// Removes every dead session once. Several replicas may do so at a time.
pub(crate) async fn sweep(inner: &Inner) {
    let caches = &inner.caches;
    // A user that is not in a stale copy may well exist.
    if !caches.users.is_live() || !caches.sessions.is_live() {
        return;
    }
    let now = Timestamp::now();
    for session in caches.sessions.list(|_| true) {
        let user = caches.users.get(&ObjectKey::cluster(&session.spec.user));
        if !is_dead(&session, user.as_deref(), now) {
            continue;
        }
        if let Err(error) = inner
            .cluster
            .remove(session.as_ref(), PropagationPolicy::Background)
            .await
        {
            tracing::warn!(%error, "a dead session stays until the next sweep");
        }
    }
}
