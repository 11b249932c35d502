//! [`Caller`]: who sent a request.

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use aide::{OperationInput, generate::GenContext, openapi::Operation};
use axum::extract::{ConnectInfo, FromRequestParts};
use http::{HeaderMap, header, request::Parts};
use jiff::Timestamp;
use kite_core::{
    cluster::{ClusterExt as _, ObjectKey},
    crd::{AccessLevel, KiteSession, KiteUser},
};
use kube::ResourceExt as _;

use super::{
    cookie,
    origin::check_origin,
    session::{belongs_to, find_session, is_open},
};
use crate::{
    openapi::signed_in,
    policy::{self, Action, Whose},
    problem::{Problem, ProblemKind},
    state::ApiState,
};

/// A signed-in account.
///
/// A project that mounts the router under its own authentication puts one into
/// the request's extensions; Kite's sessions are then not asked.
#[derive(Clone, Debug)]
pub struct Principal {
    user: Arc<KiteUser>,
    session: Option<Arc<KiteSession>>,
}

impl Principal {
    /// An account that was authenticated elsewhere.
    pub fn new(user: Arc<KiteUser>) -> Self {
        Self {
            user,
            session: None,
        }
    }

    /// The account.
    pub fn user(&self) -> &Arc<KiteUser> {
        &self.user
    }

    /// The session by which it was recognised.
    pub fn session(&self) -> Option<&KiteSession> {
        self.session.as_deref()
    }

    /// The name of its `KiteUser`.
    pub fn name(&self) -> String {
        self.user.name_any()
    }

    /// Its access level.
    pub fn level(&self) -> AccessLevel {
        self.user.spec.access_level
    }

    /// When it ends by itself.
    pub(crate) fn expires_at(&self) -> Option<Timestamp> {
        self.session
            .as_ref()
            .map(|session| session.spec.expires_at.0)
    }

    /// The same as it is now, for what lasts longer than a request; `None` when
    /// the session is over or the account may not come in any more.
    pub(crate) fn renewed(&self, state: &ApiState) -> Option<Self> {
        let caches = state.caches();
        let user = caches.users.get(&ObjectKey::cluster(self.name()))?;
        let session = match &self.session {
            None => None,
            Some(known) => {
                let key = ObjectKey::cluster(known.name_any());
                let session = caches.sessions.get(&key)?;
                if !is_open(&session) || !belongs_to(&session, &user) {
                    return None;
                }
                Some(session)
            }
        };
        (user.uid() == self.user.uid() && may_come_in(&user)).then_some(Self { user, session })
    }

    /// Refuses what the policy does not allow.
    pub(crate) fn require(&self, action: Action, whose: Whose) -> Result<(), Problem> {
        if policy::allows(self.level(), action, whose) {
            return Ok(());
        }
        let owner = match whose {
            Whose::Own => "your own account",
            Whose::Other(_) => "another account",
        };
        Err(Problem::new(
            ProblemKind::Forbidden,
            format!(
                "you may not {} ({owner}) with access level {:?}: ask an administrator",
                action.describe(),
                self.level()
            ),
        ))
    }
}

/// Extractor: the account that sent the request, or a 401 problem.
#[derive(Clone, Debug)]
pub struct Caller(pub Principal);

impl std::ops::Deref for Caller {
    type Target = Principal;

    fn deref(&self) -> &Principal {
        &self.0
    }
}

impl FromRequestParts<ApiState> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &ApiState) -> Result<Self, Problem> {
        if let Some(principal) = parts.extensions.get::<Principal>() {
            return Ok(Self(principal.clone()));
        }
        let token = if let Some(token) = bearer(&parts.headers)? {
            token
        } else {
            let Some(token) = cookie::token(&parts.headers, state.settings().secure_cookies) else {
                return Err(Problem::new(
                    ProblemKind::Unauthenticated,
                    "sign in with POST /api/v1/auth/sign-in and send the token in the header \
                     Authorization: Bearer <token>",
                ));
            };
            check_origin(
                &parts.method,
                &parts.headers,
                &state.settings().origins,
                true,
            )?;
            token
        };
        let ended = || {
            Problem::new(
                ProblemKind::Unauthenticated,
                "the session has ended: sign in again",
            )
        };
        let session = find_session(state, &token).await?.ok_or_else(ended)?;
        let user = find_user(state, &session).await?.ok_or_else(ended)?;
        tracing::Span::current().record("user", user.name_any());
        Ok(Self(Principal {
            user,
            session: Some(session),
        }))
    }
}

impl OperationInput for Caller {
    fn operation_input(ctx: &mut GenContext, operation: &mut Operation) {
        signed_in(ctx, operation);
    }
}

/// The session's account, unless it is gone, replaced, going or suspended, or has
/// another password since.
async fn find_user(
    state: &ApiState,
    session: &KiteSession,
) -> Result<Option<Arc<KiteUser>>, Problem> {
    let key = ObjectKey::cluster(&session.spec.user);
    let cache = &state.caches().users;
    let user = match cache.get(&key) {
        Some(user) if cache.is_live() => Some(user),
        _ => state.cluster().find::<KiteUser>(&key).await?.map(Arc::new),
    };
    Ok(user.filter(|user| belongs_to(session, user) && may_come_in(user)))
}

fn may_come_in(user: &KiteUser) -> bool {
    user.metadata.deletion_timestamp.is_none() && !user.spec.suspended
}

fn bearer(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    let Some(value) = headers.get(header::AUTHORIZATION) else {
        return Ok(None);
    };
    value
        .to_str()
        .ok()
        .and_then(|text| text.split_once(' '))
        .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
        .map(|(_, token)| Some(token.trim().to_owned()))
        .ok_or_else(|| {
            Problem::new(
                ProblemKind::Unauthenticated,
                "the Authorization header must read: Bearer <token>",
            )
        })
}

/// The address of the client, as far as it can be trusted: the peer of the
/// connection, or what the outermost trusted proxy wrote down.
pub(crate) fn address_of(
    headers: &HeaderMap,
    peer: Option<SocketAddr>,
    proxies: usize,
) -> Option<IpAddr> {
    if proxies == 0 {
        return peer.map(|peer| peer.ip());
    }
    // Each proxy appends the address it heard from, so the entries that trusted
    // proxies wrote are at the end; whatever stands before is the client's word.
    headers
        .get_all("x-forwarded-for")
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|line| line.split(','))
        .collect::<Vec<_>>()
        .iter()
        .rev()
        .nth(proxies - 1)
        .and_then(|text| text.trim().parse().ok())
        .or_else(|| peer.map(|peer| peer.ip()))
}

/// What guards against guessing need to know of a request.
pub(crate) struct Client {
    pub(crate) address: Option<IpAddr>,
    pub(crate) agent: Option<String>,
}

impl OperationInput for Client {}

impl FromRequestParts<ApiState> for Client {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &ApiState) -> Result<Self, Problem> {
        // Signing somebody in to an account that is not theirs is an attack too.
        check_origin(
            &parts.method,
            &parts.headers,
            &state.settings().origins,
            false,
        )?;
        let peer = parts
            .extensions
            .get::<ConnectInfo<SocketAddr>>()
            .map(|ConnectInfo(peer)| *peer);
        Ok(Self {
            address: address_of(&parts.headers, peer, state.settings().trusted_proxies),
            agent: parts
                .headers
                .get(header::USER_AGENT)
                .and_then(|value| value.to_str().ok())
                .map(str::to_owned),
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn only_what_trusted_proxies_wrote_is_believed() {
        let peer = Some("10.0.0.1:5000".parse().unwrap());
        let mut headers = HeaderMap::new();
        headers.insert(
            "x-forwarded-for",
            "1.1.1.1, 2.2.2.2, 3.3.3.3".parse().unwrap(),
        );
        let address = |proxies| address_of(&headers, peer, proxies).unwrap().to_string();
        assert_eq!(address(0), "10.0.0.1");
        assert_eq!(address(1), "3.3.3.3");
        assert_eq!(address(2), "2.2.2.2");
        assert_eq!(address(9), "10.0.0.1");
    }
}
