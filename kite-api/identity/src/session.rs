//! Login sessions: opaque tokens that only the client has, and a `KiteSession`
//! object that is named after a hash of them.

use std::{net::IpAddr, sync::Arc};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kite_core::{
    cluster::{Cluster as _, ClusterExt as _, ObjectKey},
    crd::{Identity, KiteSession, KiteSessionSpec, KiteUser, SessionTokens},
    names,
};
use kite_rest::Problem;
use kube::{ResourceExt as _, api::PropagationPolicy};

use crate::{
    rotation::{self, NewPair},
    state::Accounts,
    token::{ACCESS, Halves, REFRESH, is_session_token, new_session_token},
    unread::require_read,
};

/// Most sessions of a user; a new one ends the oldest.
const MOST_SESSIONS: usize = 32;

/// A fresh session: its tokens are nowhere else and cannot be had again.
pub(crate) struct NewSession {
    pub(crate) tokens: Tokens,
    pub(crate) expires_at: Timestamp,
}

/// What the client gets.
pub(crate) enum Tokens {
    /// One that is good for the whole session, for scripts.
    One(String),
    /// A pair that is renewed all along, for the cookies of a browser.
    Pair(Pair),
}

/// The tokens in a browser's cookies.
pub(crate) struct Pair {
    pub(crate) access: String,
    pub(crate) refresh: String,
}

/// How somebody signs in.
#[derive(Clone, Copy)]
pub(crate) struct Entry<'a> {
    /// What the client calls itself.
    pub(crate) client: Option<&'a str>,
    /// Whether it becomes a session of a browser's cookies.
    pub(crate) as_cookie: bool,
    /// Who a sign-in provider says it is, where one does.
    pub(crate) identity: Option<&'a Identity>,
}

/// That a session can be opened at all: while it cannot be read which epoch it is, one
/// would be over when that is mended, or be of an epoch that is over. Whoever makes an
/// account for somebody to sign in to asks first.
pub(crate) fn require_epoch(state: &Accounts) -> Result<(), Problem> {
    require_read(&state.platform(), "sessionEpoch")
}

/// Signs `user` in.
pub(crate) async fn open_session(
    state: &Accounts,
    user: &KiteUser,
    entry: Entry<'_>,
) -> Result<NewSession, Problem> {
    require_epoch(state)?;
    let now = Timestamp::now();
    let expires_at = now + state.settings().session_lifetime;
    let (name, tokens, hashes) = if entry.as_cookie {
        let id = Halves::random()?;
        let (pair, hashes) = new_pair(state, id, now)?;
        let hashes = rotation::first(hashes, now);
        (id.session_name(), Tokens::Pair(pair), Some(hashes))
    } else {
        let token = new_session_token()?;
        (names::session(&token), Tokens::One(token), None)
    };
    let session = KiteSession::new(&name, spec(state, user, entry, expires_at, hashes));
    let created = state.cluster().create(&session).await?;
    state.caches().sessions.caught_up_with(&created).await;
    end_oldest(state, user, &created).await;
    Ok(NewSession { tokens, expires_at })
}

fn spec(
    state: &Accounts,
    user: &KiteUser,
    entry: Entry<'_>,
    expires_at: Timestamp,
    tokens: Option<SessionTokens>,
) -> KiteSessionSpec {
    KiteSessionSpec {
        user: user.name_any(),
        user_uid: user.uid().unwrap_or_default(),
        credential: user.spec.credential().map(Into::into),
        identity: entry.identity.map(Identity::id),
        expires_at: Time(expires_at),
        epoch: state.platform().session_epoch,
        tokens,
        proved_at: Some(Time(Timestamp::now())),
        client: entry.client.map(|client| {
            client
                .chars()
                .filter(|c| !c.is_control())
                .take(200)
                .collect()
        }),
    }
}

/// New tokens of the session to which `id` leads, and what is stored of them.
pub(crate) fn new_pair(
    state: &Accounts,
    id: Halves,
    now: Timestamp,
) -> Result<(Pair, NewPair), Problem> {
    let (access, refresh) = (id.renewed()?, id.renewed()?);
    let pair = Pair {
        access: access.token(ACCESS),
        refresh: refresh.token(REFRESH),
    };
    let hashes = NewPair {
        access: access.fingerprint(),
        refresh: refresh.fingerprint(),
        access_expires_at: now + state.settings().access_lifetime,
    };
    Ok((pair, hashes))
}

/// A token that is to open a session.
enum Presented {
    /// The only one of its session.
    One(String),
    /// An access token.
    Access(Halves),
}

impl Presented {
    fn parse(token: &str) -> Option<Self> {
        if is_session_token(token) {
            return Some(Self::One(token.to_owned()));
        }
        Halves::parse(ACCESS, token).map(Self::Access)
    }

    fn session_name(&self) -> String {
        match self {
            Self::One(token) => names::session(token),
            Self::Access(halves) => halves.session_name(),
        }
    }

    /// Until when it opens `session`; nothing if the session does not know it.
    fn opens_until(&self, session: &KiteSession) -> Option<Timestamp> {
        match (self, &session.spec.tokens) {
            (Self::One(_), None) => Some(session.spec.expires_at.0),
            (Self::Access(halves), Some(tokens)) => {
                rotation::access_until(tokens, &halves.fingerprint())
            }
            (Self::One(_), Some(_)) | (Self::Access(_), None) => None,
        }
    }
}

/// The session that `token` opens, if neither has ended.
///
/// A session or token that another replica made a moment ago may not have come by
/// the watch yet, and one may have ended while the watch is broken: in both cases
/// the API server is asked, by a bounded number of requests at once.
pub(crate) async fn find_session(
    state: &Accounts,
    token: &str,
    address: Option<IpAddr>,
) -> Result<Option<Arc<KiteSession>>, Problem> {
    let Some(presented) = Presented::parse(token) else {
        return Ok(None);
    };
    let key = ObjectKey::cluster(presented.session_name());
    let cache = &state.caches().sessions;
    let mut session = cache
        .get(&key)
        .filter(|session| cache.is_live() && presented.opens_until(session).is_some());
    if session.is_none() {
        let asked = state
            .lookups()
            .ask(state.cluster(), cache, &key, true, state.source_of(address))
            .await?;
        session = asked.map(Arc::new);
    }
    let now = Timestamp::now();
    Ok(session.filter(|session| {
        is_open(session) && presented.opens_until(session).is_some_and(|end| end > now)
    }))
}

/// Whether it has neither expired nor been ended.
pub fn is_open(session: &KiteSession) -> bool {
    session.spec.expires_at.0 > Timestamp::now() && session.metadata.deletion_timestamp.is_none()
}

/// Ends one session.
pub(crate) async fn end_session(state: &Accounts, session: &KiteSession) -> Result<(), Problem> {
    state
        .cluster()
        .delete_by_uid(session, PropagationPolicy::Background)
        .await?;
    state
        .caches()
        .sessions
        .caught_up_with_deletion(session)
        .await;
    Ok(())
}

/// Ends all sessions of an account.
pub(crate) async fn end_sessions_of(state: &Accounts, user: &KiteUser) -> Result<(), Problem> {
    end_sessions_but(state, user, None).await
}

/// Ends all sessions of an account but one.
pub(crate) async fn end_sessions_but(
    state: &Accounts,
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
pub(crate) fn sessions_of(state: &Accounts, user: &KiteUser) -> Vec<Arc<KiteSession>> {
    let name = user.name_any();
    state
        .caches()
        .sessions
        .list(|session| session.spec.user == name)
}

/// Whether a session is one of this account, as the account is now: not of an
/// earlier one of its name, not begun with another password or by an identity that
/// it has no more, and not from before everybody was signed out, which was when the
/// platform's epoch became `epoch`. One below zero is none: it cannot be read which it is.
pub fn belongs_to(session: &KiteSession, user: &KiteUser, epoch: i64) -> bool {
    let begun_with = session.spec.credential.as_deref();
    let password = user.spec.credential();
    let has_identity = |id: &str| {
        let mut identities = user.spec.identities.iter();
        identities.any(|identity| identity.id() == id)
    };
    user.uid().as_deref() == Some(session.spec.user_uid.as_str())
        && begun_with == password.as_deref()
        && session.spec.identity.as_deref().is_none_or(has_identity)
        && session.spec.epoch == epoch
        && epoch >= 0
}

async fn end_oldest(state: &Accounts, user: &KiteUser, new: &KiteSession) {
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

/// Until when a session counts as proved; nothing if it never was.
pub(crate) fn proved_until(state: &Accounts, session: &KiteSession) -> Option<Timestamp> {
    let proved_at = session.spec.proved_at.as_ref()?;
    Some(proved_at.0 + state.settings().proof_lifetime)
}

/// Whether whoever has the session has proved lately who they are.
pub(crate) fn is_proved(state: &Accounts, session: &KiteSession) -> bool {
    proved_until(state, session).is_some_and(|until| until > Timestamp::now())
}

/// The session as the API server has it; nothing if it has ended.
pub(crate) async fn session_now(
    state: &Accounts,
    session: &KiteSession,
) -> Result<Option<Arc<KiteSession>>, Problem> {
    let key = ObjectKey::of(session);
    let now = state.cluster().get_opt::<KiteSession>(&key).await?;
    let now = now.filter(|now| now.uid() == session.uid());
    Ok(now.filter(is_open).map(Arc::new))
}
