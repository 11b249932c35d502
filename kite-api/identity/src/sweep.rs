//! Removing the objects of sessions, API tokens, invites and passwords that open nothing
//! any more.

use std::{collections::HashMap, sync::Arc, time::Duration};

use jiff::Timestamp;
use kite_core::{
    cluster::{ClusterExt as _, Object, ObjectKey},
    crd::{InviteAccount, KiteInvite, KiteUser},
};
use kube::{ResourceExt as _, api::PropagationPolicy};

use crate::{
    invite::{InviteState, state_of},
    orphans::sweep_passwords,
    permit::Permit as _,
    personal::is_token_of,
    session::belongs_to,
    state::Accounts,
    take_in::take_in_all,
};

/// Time between two sweeps.
pub const INTERVAL: Duration = Duration::from_secs(60);
/// How long an invite is still to be seen after it was used or has expired: 30 days.
const INVITE_KEPT: Duration = Duration::from_secs(30 * 24 * 3600);

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

/// Whether a sweep looks: not while the copies, or the platform, cannot be read. What an
/// application sweeps beside it goes by the same.
pub fn can_sweep(state: &Accounts) -> bool {
    let caches = state.caches();
    // A user that is not in a stale copy may well exist.
    caches.users.is_live()
        && caches.platforms.is_live()
        // What ends nobody can say: they open nothing, and are there again when it is mended.
        && state.platform().unreadable.is_none()
}

/// Removes everything that is dead once, and takes in passwords that others set. Several
/// replicas may do so at a time.
pub async fn sweep(state: &Accounts) {
    if !can_sweep(state) {
        return;
    }
    let caches = state.caches();
    let (now, platform) = (Timestamp::now(), state.platform());
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
                remove(state, session.as_ref()).await;
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
                remove(state, token.as_ref()).await;
            }
        }
    }
    take_in_all(state).await;
    sweep_passwords(state).await;
    if caches.invites.is_live() {
        let invites = caches.invites.list(|_| true);
        for user in second_accounts(&invites, &caches.users.list(is_by_invite)) {
            tracing::warn!(
                user = user.name_any(),
                "removes an account whose invite had made another"
            );
            remove(state, user.as_ref()).await;
        }
        for invite in invites {
            let maker = user(&invite.spec.created_by.name);
            if is_past(&invite, maker.as_deref(), now) {
                remove(state, invite.as_ref()).await;
            }
        }
    }
}

fn is_by_invite(user: &KiteUser) -> bool {
    user.annotations().contains_key(KiteInvite::MADE_BY)
}

/// Accounts that were made by an invite which another account used up: what is left
/// where a request that lost its race could not remove its own any more. One that was
/// put back from a backup has another uid, but its name.
fn second_accounts(
    invites: &[Arc<KiteInvite>],
    made_by_invite: &[Arc<KiteUser>],
) -> Vec<Arc<KiteUser>> {
    let uses: HashMap<String, (&InviteAccount, Timestamp)> = invites
        .iter()
        .filter_map(|invite| {
            let status = invite.status.as_ref()?;
            let used = (status.used_by.as_ref()?, status.used_at.as_ref()?.0);
            Some((invite.uid()?, used))
        })
        .collect();
    let is_second = |user: &&Arc<KiteUser>| {
        let invite = user.annotations().get(KiteInvite::MADE_BY);
        let Some((account, used_at)) = invite.and_then(|uid| uses.get(uid)) else {
            return false;
        };
        // Made later, it is a copy that somebody made by hand.
        let is_of_the_race = user
            .creation_timestamp()
            .is_some_and(|made| made.0 <= *used_at + INTERVAL);
        is_of_the_race
            && account.name != user.name_any()
            && user.uid().as_ref() != Some(&account.uid)
    };
    made_by_invite.iter().filter(is_second).cloned().collect()
}

/// Whether nobody needs to see an invite any more. One whose maker may not make it
/// is among them at once, for a later pardon must not bring it back.
fn is_past(invite: &KiteInvite, maker: Option<&KiteUser>, now: Timestamp) -> bool {
    let used_at = invite.status.as_ref().and_then(|it| it.used_at.as_ref());
    match state_of(invite, maker, now) {
        InviteState::Open | InviteState::Claimed => false,
        InviteState::Used => used_at.is_none_or(|used| used.0 + INVITE_KEPT <= now),
        InviteState::Expired => invite.spec.expires_at.0 + INVITE_KEPT <= now,
        // Its maker may come by the watch later than it.
        InviteState::Void => invite
            .creation_timestamp()
            .is_some_and(|made| made.0 + INTERVAL <= now),
    }
}

async fn remove<K: Object>(state: &Accounts, object: &K) {
    let gone = PropagationPolicy::Background;
    if let Err(error) = state.cluster().delete_by_uid(object, gone).await {
        tracing::warn!(%error, "what is dead stays until the next sweep");
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use jiff::ToSpan as _;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use kite_core::crd::{AccessLevel, KiteUserSpec};
    use serde_json::{Value, json};

    use super::*;

    fn invite(created: &str, expires: &str, status: &Value) -> KiteInvite {
        serde_json::from_value(json!({
            "metadata": {"name": "i", "creationTimestamp": created},
            "spec": {"hash": "x", "createdBy": {"name": "root", "uid": "1"},
                     "expiresAt": expires},
            "status": status,
        }))
        .unwrap()
    }

    fn root() -> KiteUser {
        let mut root = KiteUser::new("root", KiteUserSpec::new("root"));
        root.metadata.uid = Some("1".to_owned());
        root.spec.access_level = AccessLevel::Admin;
        root
    }

    #[test]
    fn of_two_accounts_of_one_invite_the_one_that_used_it_stays() {
        let used_at: Timestamp = "2026-06-01T00:00:00Z".parse().unwrap();
        let account = |name: &str, uid: &str, invite: &str, created: Timestamp| {
            let mut user = KiteUser::new(name, KiteUserSpec::new(name));
            user.metadata.uid = Some(uid.to_owned());
            let made_by = KiteInvite::MADE_BY.to_owned();
            user.annotations_mut().insert(made_by, invite.to_owned());
            user.metadata.creation_timestamp = Some(Time(created));
            Arc::new(user)
        };
        let of = |uid: &str, status: &Value| {
            let mut invite = invite("2026-05-30T00:00:00Z", "2026-06-02T00:00:00Z", status);
            invite.metadata.uid = Some(uid.to_owned());
            Arc::new(invite)
        };
        let used = json!({"claimedFor": "ann", "usedBy": {"name": "ann", "uid": "2"},
                          "usedAt": "2026-06-01T00:00:00Z"});
        let invites = [
            of("i", &used),
            of("j", &json!({"claimedFor": "bob"})),
            of("k", &json!({})),
        ];
        let second = |name: &str, uid: &str, invite: &str| {
            !second_accounts(&invites, &[account(name, uid, invite, used_at)]).is_empty()
        };
        let copy = account("eve", "3", "i", used_at + 61.seconds());
        assert!(
            second_accounts(&invites, &[copy]).is_empty(),
            "made by hand"
        );
        assert!(second("eve", "3", "i"));
        assert!(!second("ann", "2", "i"), "it is hers");
        assert!(!second("ann", "9", "i"), "put back from a backup");
        assert!(!second("eve", "3", "j"), "it may still become the account");
        assert!(!second("eve", "3", "k"));
        assert!(!second("eve", "3", "gone"), "nothing is known of it");
    }

    #[test]
    fn invites_stay_as_long_as_somebody_may_look_for_them() {
        let now: Timestamp = "2026-06-01T00:00:00Z".parse().unwrap();
        let maker = root();
        let past = |invite: &KiteInvite, maker, days: i64| {
            is_past(invite, maker, now + (days * 24).hours())
        };
        let open = invite("2026-05-30T00:00:00Z", "2026-06-02T00:00:00Z", &json!({}));
        assert!(!past(&open, Some(&maker), 0));
        assert!(!past(&open, Some(&maker), 30), "it expired 29 days ago");
        assert!(past(&open, Some(&maker), 31));

        let used = json!({"claimedFor": "ann", "usedBy": {"name": "ann", "uid": "2"},
                          "usedAt": "2026-06-01T00:00:00Z"});
        let used = invite("2026-05-30T00:00:00Z", "2026-06-02T00:00:00Z", &used);
        assert!(!past(&used, None, 29), "whoever made it");
        assert!(past(&used, None, 30));

        let mut suspended = root();
        suspended.spec.suspended = true;
        assert!(past(&open, Some(&suspended), 0));
        assert!(past(&open, None, 0));
        let new = invite("2026-05-31T23:59:30Z", "2026-06-02T00:00:00Z", &json!({}));
        assert!(!past(&new, None, 0), "its maker may be on the way");
    }
}
