//! Signing in and out.

use std::{sync::Arc, time::Duration};

use axum::{
    Json,
    extract::State,
    response::{IntoResponse as _, Response},
};
use http::{HeaderMap, Method, StatusCode};
use kite_core::{conditions, crd::KiteUser};
use serde::Serialize;

use super::{
    Caller, Client, end_session, open_session,
    origin::check_origin,
    refresh::{self, with_pair, without_cookies},
    session::Tokens,
};
use crate::{
    problem::{Problem, ProblemKind},
    state::ApiState,
    users::UserView,
    web::Form,
};

/// What a client gets for signing in.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SignedIn {
    /// Absent if the client asked for a cookie instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<String>,
    expires_at: String,
    user: UserView,
}

/// `POST /api/v1/auth/sign-in`
pub(crate) async fn sign_in(
    State(state): State<ApiState>,
    client: Client,
    mut form: Form,
) -> Result<Response, Problem> {
    let username: Option<String> = form.required("username");
    let password: Option<String> = form.required("password");
    let cookie = form.optional("cookie").unwrap_or(false);
    form.finish()?;
    let (Some(username), Some(password)) = (username, password) else {
        return Err(Problem::invalid(Vec::new()));
    };
    // No username is longer; the throttle must not keep whole bodies.
    let account: String = username.trim().chars().take(64).collect();
    let checked = check(&state, &client, &account, password).await;
    let outcome = checked.as_ref().map(|_| ()).map_err(Problem::kind);
    state.metrics().signed_in(outcome);
    greet(&state, &*checked?, &client, cookie, StatusCode::OK).await
}

/// The account, if the password is its own and it may come in.
async fn check(
    state: &ApiState,
    client: &Client,
    account: &str,
    password: String,
) -> Result<Arc<KiteUser>, Problem> {
    let attempt = state
        .sign_in_throttle()
        .attempt(account, client.address)
        .map_err(too_many)?;
    let user = find_by_username(state, account);
    let hash = user
        .as_ref()
        .and_then(|user| user.spec.password_hash.as_ref());
    let fits = match state.passwords().verify(hash, password).await {
        Ok(fits) => fits,
        Err(problem) => {
            attempt.undecided();
            return Err(problem);
        }
    };
    let Some(user) = user.filter(|_| fits) else {
        return Err(Problem::new(
            ProblemKind::WrongCredentials,
            "username and password do not fit: mind upper and lower case, then try again",
        ));
    };
    attempt.succeeded();
    if user.spec.suspended || user.metadata.deletion_timestamp.is_some() {
        return Err(Problem::new(
            ProblemKind::Suspended,
            "the account is suspended: ask an administrator",
        ));
    }
    Ok(user)
}

/// The account that may sign in by `username`. Objects are usually called like
/// their username; where two claim the same one it is who has it reserved, and
/// nobody while that is not decided.
fn find_by_username(state: &ApiState, username: &str) -> Option<Arc<KiteUser>> {
    let claimants = state
        .caches()
        .users
        .list(|user| user.spec.username == username);
    let reserved = |user: &KiteUser| {
        let conditions = user
            .status
            .as_ref()
            .map(|status| status.conditions.as_slice());
        conditions::find(conditions.unwrap_or_default(), "Reserved")
            .map(|condition| condition.status == "True")
    };
    match claimants.as_slice() {
        // `Reserved` also speaks of the email address, which is no reason to
        // keep the only one of this name out.
        [only] => Some(Arc::clone(only)),
        several => several
            .iter()
            .find(|user| reserved(user) == Some(true))
            .cloned(),
    }
}

/// Opens a session and answers with it.
pub(crate) async fn greet(
    state: &ApiState,
    user: &KiteUser,
    client: &Client,
    as_cookie: bool,
    status: StatusCode,
) -> Result<Response, Problem> {
    let session = open_session(state, user, client.agent.as_deref(), as_cookie).await?;
    let (token, pair) = match session.tokens {
        Tokens::One(token) => (Some(token), None),
        Tokens::Pair(pair) => (None, Some(pair)),
    };
    let body = SignedIn {
        token,
        expires_at: session.expires_at.to_string(),
        user: UserView::of(user),
    };
    let answer = (status, Json(body)).into_response();
    let settings = state.settings();
    Ok(match pair {
        Some(pair) => with_pair(
            answer,
            &pair,
            settings.session_lifetime,
            settings.secure_cookies,
        ),
        None => answer,
    })
}

/// `POST /api/v1/auth/sign-out`: also for a browser whose access token has ended,
/// as long as it has the one that renews it.
pub(crate) async fn sign_out(
    State(state): State<ApiState>,
    method: Method,
    headers: HeaderMap,
    caller: Result<Caller, Problem>,
) -> Result<Response, Problem> {
    let done = StatusCode::NO_CONTENT.into_response();
    let refused = match caller {
        Ok(caller) => {
            if let Some(session) = caller.session() {
                end_session(&state, session).await?;
                tracing::info!(user = caller.name(), "signed out");
            }
            return Ok(without_cookies(&state, done));
        }
        Err(problem) if problem.kind() == ProblemKind::Unauthenticated => problem,
        Err(problem) => return Err(problem),
    };
    let settings = state.settings();
    check_origin(&method, &headers, &settings.origins, true)?;
    let session = match refresh::Presented::of(&headers, settings.secure_cookies) {
        Some(presented) => presented.session(&state).await?,
        None => None,
    };
    let answer = match session {
        Some(session) => {
            end_session(&state, &session).await?;
            tracing::info!(user = session.spec.user, "signed out");
            done
        }
        None => refused.into_response(),
    };
    Ok(without_cookies(&state, answer))
}

/// The problem of a client that must wait.
pub(crate) fn too_many(wait: Duration) -> Problem {
    let seconds = wait.as_secs() + 1;
    Problem::new(
        ProblemKind::TooManyRequests,
        format!("too many attempts: try again in {seconds} s"),
    )
    .retry_after(wait)
}
