//! Signing in and out.

use std::{sync::Arc, time::Duration};

use axum::extract::State;
use kite_core::{conditions, crd::KiteUser};
use schemars::JsonSchema;
use serde::Serialize;

use super::{Caller, Client, cookie, end_session, open_session};
use crate::{
    problem::{Problem, ProblemKind},
    state::ApiState,
    users::UserView,
    web::{Answer, Done, Form, Input, Sent},
};

/// What a client gets for signing in.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SignedIn {
    /// Absent if the client asked for a cookie instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<String>,
    /// When the session ends.
    expires_at: String,
    user: UserView,
}

/// What `cookie` means wherever somebody is signed in.
pub(crate) const COOKIE_MEANING: (&str, &str) = (
    "cookie",
    "Whether the session is put into a cookie, for pages, and not into the answer.",
);

/// Who signs in, and with what.
pub(crate) struct Credentials {
    username: String,
    password: String,
    cookie: bool,
}

impl Input for Credentials {
    const NAME: &'static str = "Credentials";
    const MEANING: &'static [(&'static str, &'static str)] = &[
        ("username", "The name of the account."),
        ("password", "Its password."),
        COOKIE_MEANING,
    ];

    fn read(form: &mut Form) -> Option<Self> {
        let username = form.required("username");
        let password = form.required("password");
        let cookie = form.optional("cookie").unwrap_or(false);
        Some(Self {
            username: username?,
            password: password?,
            cookie,
        })
    }
}

/// `POST /api/v1/auth/sign-in`
pub(super) async fn sign_in(
    State(state): State<ApiState>,
    client: Client,
    Sent { input, mut form }: Sent<Credentials>,
) -> Result<Answer<SignedIn>, Problem> {
    let Credentials {
        username,
        password,
        cookie,
    } = form.finish_with(input)?;
    // No username is longer; the throttle must not keep whole bodies.
    let account: String = username.trim().chars().take(64).collect();
    let checked = check(&state, &client, &account, password).await;
    let outcome = checked.as_ref().map(|_| ()).map_err(Problem::kind);
    state.metrics().signed_in(outcome);
    greet(&state, &*checked?, &client, cookie).await
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
pub(crate) async fn greet<const STATUS: u16>(
    state: &ApiState,
    user: &KiteUser,
    client: &Client,
    as_cookie: bool,
) -> Result<Answer<SignedIn, STATUS>, Problem> {
    let session = open_session(state, user, client.agent.as_deref()).await?;
    let settings = state.settings();
    let set_cookie = as_cookie
        .then(|| {
            cookie::set(
                &session.token,
                settings.session_lifetime,
                settings.secure_cookies,
            )
        })
        .flatten();
    let body = SignedIn {
        token: (!as_cookie).then_some(session.token),
        expires_at: session.expires_at.to_string(),
        user: UserView::of(user),
    };
    Ok(Answer::new(body).cookies(set_cookie))
}

/// `POST /api/v1/auth/sign-out`
pub(super) async fn sign_out(
    State(state): State<ApiState>,
    caller: Caller,
) -> Result<Done, Problem> {
    if let Some(session) = caller.session() {
        end_session(&state, session).await?;
        tracing::info!(user = caller.name(), "signed out");
    }
    Ok(Done::cookies(cookie::clear(
        state.settings().secure_cookies,
    )))
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
