//! `POST /api/v1/auth/refresh`: a new pair of cookies for the one that a browser
//! has.

use std::{convert::Infallible, net::IpAddr, time::Duration};

use aide::OperationInput;
use axum::{
    extract::FromRef,
    extract::{FromRequestParts, State},
};
use http::{HeaderValue, request::Parts};
use jiff::Timestamp;
use kite_core::{
    cluster::{Cluster as _, ClusterError, ObjectKey},
    crd::KiteSession,
};
use kite_rest::{
    Done, Problem, ProblemKind,
    audit::note,
    cookie::{self, Role},
};
use kube::ResourceExt as _;
use serde_json::json;

use crate::{
    caller::find_user,
    client::client_address,
    origin::check_origin,
    rotation::{self, Rotation},
    session::{Pair, end_session, is_open, new_pair},
    state::{Accounts, Settings},
    token::{ACCESS, Halves, REFRESH},
};

/// How often a renewal is tried again that others of the same session were faster
/// than.
const ATTEMPTS: usize = 20;

/// The refresh token of a request, and the session that it names.
pub(crate) struct Presented {
    token: Halves,
    /// Where it came from.
    address: Option<IpAddr>,
}

impl Presented {
    /// The refresh token that belongs to the access cookie, whether or not that one
    /// has ended. A host below Kite's own can plant a refresh cookie, but with TLS
    /// no access cookie beside it: so nobody is signed in as somebody else by it,
    /// and it does not stand in the way of the right one.
    pub(crate) fn of(parts: &Parts, state: &Accounts) -> Option<Self> {
        let (headers, secure) = (&parts.headers, state.settings().secure_cookies);
        let access: Vec<Halves> = cookie::tokens(headers, Role::Access, secure)
            .iter()
            .filter_map(|token| Halves::parse(ACCESS, token))
            .collect();
        cookie::tokens(headers, Role::Refresh, secure)
            .iter()
            .filter_map(|token| Halves::parse(REFRESH, token))
            .find(|refresh| access.iter().any(|access| access.is_sibling_of(*refresh)))
            .map(|token| Self {
                token,
                address: client_address(parts, state),
            })
    }

    /// Its session as the API server has it.
    pub(crate) async fn session(&self, state: &Accounts) -> Result<Option<KiteSession>, Problem> {
        let key = ObjectKey::cluster(self.token.session_name());
        let cache = &state.caches().sessions;
        let session = state
            .lookups()
            .ask(
                state.cluster(),
                cache,
                &key,
                true,
                state.source_of(self.address),
            )
            .await?;
        Ok(session.filter(is_open))
    }

    /// Whether it may renew a session. That it was used already is not looked at.
    pub(crate) async fn opens(&self, state: &Accounts) -> Result<bool, Problem> {
        Ok(match self.session(state).await? {
            Some(session) => find_user(state, &session).await?.is_some(),
            None => false,
        })
    }
}

impl Pair {
    /// Both cookies, to be kept for `lifetime`.
    pub(crate) fn cookies(&self, lifetime: Duration, settings: &Settings) -> Vec<HeaderValue> {
        [(Role::Access, &self.access), (Role::Refresh, &self.refresh)]
            .into_iter()
            .filter_map(|(role, token)| cookie::set(role, token, lifetime, settings.secure_cookies))
            .collect()
    }
}

/// Extractor: the refresh token, or nothing; a problem if the request comes from
/// another site.
pub(crate) struct Renewal(pub(super) Result<Option<Presented>, Problem>);

impl<S: Send + Sync> FromRequestParts<S> for Renewal
where
    Accounts: FromRef<S>,
{
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Infallible> {
        let state = &Accounts::from_ref(state);
        let settings = state.settings();
        let checked = check_origin(&parts.method, &parts.headers, &settings.origins, true);
        Ok(Self(checked.map(|()| Presented::of(parts, state))))
    }
}

impl OperationInput for Renewal {}

/// `POST /api/v1/auth/refresh`
pub(crate) async fn refresh(
    State(state): State<Accounts>,
    Renewal(presented): Renewal,
) -> Result<Done, Problem> {
    let settings = state.settings();
    let renewed = match presented? {
        Some(presented) => renew(&state, &presented).await,
        None => Err(ended()),
    };
    match renewed {
        Ok((pair, session)) => {
            let left = session.spec.expires_at.0.duration_since(Timestamp::now());
            let left = Duration::try_from(left).unwrap_or_default();
            Ok(Done::cookies(pair.cookies(left, settings)))
        }
        Err(problem) if problem.kind() == ProblemKind::Unauthenticated => {
            Err(problem.with_cookies(cookie::clear(settings.secure_cookies)))
        }
        Err(problem) => Err(problem),
    }
}

fn ended() -> Problem {
    Problem::new(
        ProblemKind::Unauthenticated,
        "the session has ended: sign in again",
    )
}

/// Stores a new pair of tokens on the condition that nobody did so meanwhile, on
/// whatever replica: who was slower looks again.
async fn renew(state: &Accounts, presented: &Presented) -> Result<(Pair, KiteSession), Problem> {
    let token = &presented.token;
    for _ in 0..ATTEMPTS {
        let session = presented.session(state).await?.ok_or_else(ended)?;
        let tokens = session.spec.tokens.as_ref().ok_or_else(ended)?;
        find_user(state, &session).await?.ok_or_else(ended)?;
        let now = Timestamp::now();
        let (pair, hashes) = new_pair(state, *token, now)?;
        let next = match rotation::rotate(tokens, &token.fingerprint(), hashes, now) {
            Rotation::Renewed(next) => next,
            Rotation::Stolen => {
                note(|notes| {
                    notes.came_in(&session.spec.user);
                    notes.remark("a refresh token came again that had been replaced");
                });
                tracing::warn!(
                    user = session.spec.user,
                    session = session.name_any(),
                    "a refresh token came again that had been replaced: somebody else has it, \
                     and the session is ended"
                );
                end_session(state, &session).await?;
                return Err(ended());
            }
            Rotation::Crowded => {
                return Err(Problem::new(
                    ProblemKind::TooManyRequests,
                    "too many ask to renew this session at once: try again shortly",
                )
                .retry_after(Duration::from_secs(2)));
            }
        };
        let patch = json!({
            "metadata": { "uid": session.uid(), "resourceVersion": session.resource_version() },
            "spec": { "tokens": next },
        });
        let key = ObjectKey::of(&session);
        match state
            .cluster()
            .merge_patch(state.store().manager(), &key, &patch)
            .await
        {
            Ok(stored) => {
                state.caches().sessions.caught_up_with(&stored).await;
                return Ok((pair, stored));
            }
            Err(ClusterError::Conflict { .. }) => {}
            Err(ClusterError::NotFound { .. }) => return Err(ended()),
            Err(error) => return Err(error.into()),
        }
    }
    Err(Problem::new(
        ProblemKind::Unavailable,
        "too many ask to renew this session at once: try again shortly",
    )
    .retry_after(Duration::from_secs(2)))
}
