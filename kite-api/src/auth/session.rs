//! Login sessions: an opaque token that only the client has, and a
//! `KiteSession` object that is named after the token's hash.

use std::sync::Arc;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kite_core::{
    cluster::{Cluster as _, ClusterExt as _, ObjectKey},
    crd::{KiteSession, KiteSessionSpec, KiteUser},
    names,
};
use kube::{ResourceExt as _, api::PropagationPolicy};
use rand::TryRng as _;

use crate::{
    problem::{Problem, ProblemKind},
    state::ApiState,
};

/// How tokens begin, so that people and secret scanners know one when they see
/// it.
const PREFIX: &str = "kite_";
/// Random bytes in a token: 256 bits.
const TOKEN_BYTES: usize = 32;
/// Most sessions of a user; a new one ends the oldest.
const MOST_SESSIONS: usize = 32;

/// A fresh session: the token is nowhere else and cannot be had again.
pub(crate) struct NewSession {
    pub(crate) token: String,
    pub(crate) expires_at: Timestamp,
}

/// Signs `user` in.
pub(crate) async fn open_session(
    state: &ApiState,
    user: &KiteUser,
    client: Option<&str>,
) -> Result<NewSession, Problem> {
    let token = random_token(PREFIX)?;
    let expires_at = Timestamp::now() + state.settings().session_lifetime;
    let session = KiteSession::new(
        &names::session(&token),
        KiteSessionSpec {
            user: user.name_any(),
            user_uid: user.uid().unwrap_or_default(),
            credential: user.spec.password_hash.as_ref().map(names::credential),
            expires_at: Time(expires_at),
            client: client.map(|client| {
                client
                    .chars()
                    .filter(|c| !c.is_control())
                    .take(200)
                    .collect()
            }),
        },
    );
    let created = state.cluster().create(&session).await?;
    state.caches().sessions.caught_up_with(&created).await;
    end_oldest(state, user, &created).await;
    Ok(NewSession { token, expires_at })
}

/// 256 random bits as text, behind a prefix.
pub(crate) fn random_token(prefix: &str) -> Result<String, Problem> {
    let mut bytes = [0; TOKEN_BYTES];
    rand::rngs::SysRng
        .try_fill_bytes(&mut bytes)
        .map_err(|error| {
            tracing::error!(%error, "the system gave no random bytes");
            Problem::new(ProblemKind::Internal, "no random token could be made")
        })?;
    Ok(format!("{prefix}{}", URL_SAFE_NO_PAD.encode(bytes)))
}

/// Whether a text can be a token at all. What cannot is not worth a look-up.
fn is_token(text: &str) -> bool {
    text.strip_prefix(PREFIX)
        .and_then(|rest| URL_SAFE_NO_PAD.decode(rest).ok())
        .is_some_and(|bytes| bytes.len() == TOKEN_BYTES)
}

/// The session that `token` opens, if it has not ended.
///
/// A session that another replica made a moment ago may not have come by the
/// watch yet, and one may have ended while the watch is broken: in both cases
/// the API server is asked, by a bounded number of requests at once.
pub(crate) async fn find_session(
    state: &ApiState,
    token: &str,
) -> Result<Option<Arc<KiteSession>>, Problem> {
    if !is_token(token) {
        return Ok(None);
    }
    let key = ObjectKey::cluster(names::session(token));
    let cache = &state.caches().sessions;
    let session = match cache.get(&key) {
        Some(session) if cache.is_live() => Some(session),
        _ => {
            let _permit = state.session_lookups().try_acquire().map_err(|_| {
                Problem::new(
                    ProblemKind::Unavailable,
                    "too many sessions are being looked up: try again shortly",
                )
                .retry_after(std::time::Duration::from_secs(1))
            })?;
            state
                .cluster()
                .find::<KiteSession>(&key)
                .await?
                .map(Arc::new)
        }
    };
    Ok(session.filter(|session| is_open(session)))
}

/// Whether it has neither expired nor been ended.
pub(crate) fn is_open(session: &KiteSession) -> bool {
    session.spec.expires_at.0 > Timestamp::now() && session.metadata.deletion_timestamp.is_none()
}

/// Ends one session.
pub(crate) async fn end_session(state: &ApiState, session: &KiteSession) -> Result<(), Problem> {
    state
        .cluster()
        .remove(session, PropagationPolicy::Background)
        .await?;
    state
        .caches()
        .sessions
        .caught_up_with_deletion(session)
        .await;
    Ok(())
}

/// Ends all sessions of an account.
pub(crate) async fn end_sessions_of(state: &ApiState, user: &KiteUser) -> Result<(), Problem> {
    end_sessions_but(state, user, None).await
}

/// Ends all sessions of an account but one.
pub(crate) async fn end_sessions_but(
    state: &ApiState,
    user: &KiteUser,
    kept: Option<&KiteSession>,
) -> Result<(), Problem> {
    let kept = kept.map(kube::ResourceExt::name_any);
    for session in sessions_of(state, user) {
        if Some(session.name_any()) != kept {
            end_session(state, &session).await?;
        }
    }
    Ok(())
}

/// The sessions of an account, also those that are over and not cleared away yet.
pub(crate) fn sessions_of(state: &ApiState, user: &KiteUser) -> Vec<Arc<KiteSession>> {
    let name = user.name_any();
    state
        .caches()
        .sessions
        .list(|session| session.spec.user == name)
}

/// Whether a session is one of this account, as the account is now: not of an
/// earlier one of its name, and not begun with another password.
pub(crate) fn belongs_to(session: &KiteSession, user: &KiteUser) -> bool {
    let begun_with = session.spec.credential.as_deref();
    let password = user.spec.password_hash.as_ref().map(names::credential);
    user.uid().as_deref() == Some(session.spec.user_uid.as_str())
        && (begun_with.is_none() || begun_with == password.as_deref())
}

async fn end_oldest(state: &ApiState, user: &KiteUser, new: &KiteSession) {
    let mut sessions = sessions_of(state, user);
    sessions.retain(|session| session.metadata.name != new.metadata.name);
    sessions.sort_by_key(|session| session.spec.expires_at.0);
    let beyond = (sessions.len() + 1).saturating_sub(MOST_SESSIONS);
    for session in sessions.into_iter().take(beyond) {
        if let Err(problem) = end_session(state, &session).await {
            tracing::warn!(detail = problem.detail(), "an old session stays");
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn tokens_are_256_random_bits() {
        let (a, b) = (random_token(PREFIX).unwrap(), random_token(PREFIX).unwrap());
        assert_ne!(a, b);
        assert!(is_token(&a), "{a}");
        assert_eq!(a.len(), PREFIX.len() + 43);
    }

    #[test]
    fn what_cannot_be_a_token_is_not_looked_up() {
        let long = format!("{PREFIX}{}", "A".repeat(44));
        for text in ["", "kite_", "kite_abc", "../../pods", &long] {
            assert!(!is_token(text), "{text}");
        }
    }
}
