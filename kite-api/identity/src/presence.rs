//! `GET /api/v1/auth/session`: whether a browser is signed in. To be refused is an error,
//! which browsers note in their console; to be told that nobody is signed in is none.

use aide::OperationInput;
use axum::{
    extract::FromRef,
    extract::{FromRequestParts, State},
};
use http::request::Parts;
use kite_rest::{Answer, Problem, ProblemKind};
use schemars::JsonSchema;
use serde::Serialize;

use crate::{caller::Caller, refresh::Presented, state::Accounts};

/// Whether somebody is signed in.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Presence")]
pub(crate) struct PresenceView {
    /// Whether the request comes with a session that is open, or that `auth/refresh`
    /// renews.
    signed_in: bool,
}

/// Extractor: whether the request is one of somebody's, and what could make it so.
pub(crate) struct Visitor {
    is_known: bool,
    renewal: Option<Presented>,
}

impl<S: Send + Sync> FromRequestParts<S> for Visitor
where
    Accounts: FromRef<S>,
{
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let is_known = match Caller::from_request_parts(parts, state).await {
            Ok(_) => true,
            Err(problem) if problem.kind() == ProblemKind::Unauthenticated => false,
            Err(problem) => return Err(problem),
        };
        let renewal = Presented::of(parts, &Accounts::from_ref(state));
        Ok(Self { is_known, renewal })
    }
}

impl OperationInput for Visitor {}

/// `GET /api/v1/auth/session`
pub(crate) async fn session(
    State(state): State<Accounts>,
    Visitor { is_known, renewal }: Visitor,
) -> Result<Answer<PresenceView>, Problem> {
    let signed_in = is_known
        || match renewal {
            Some(renewal) => renewal.opens(&state).await?,
            None => false,
        };
    Ok(Answer::new(PresenceView { signed_in }))
}
