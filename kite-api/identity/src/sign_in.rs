//! Signing in and out.

use std::sync::Arc;

use axum::extract::State;
use http::HeaderValue;
use kite_core::{
    conditions,
    crd::{Identity, KiteUser},
};
use kite_rest::{Answer, Done, Form, Input, Problem, ProblemKind, Sent, audit::note, cookie};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use crate::{
    caller::Caller,
    client::Client,
    key_dates::KeyView,
    openapi::EXAMPLE_PASSWORD,
    password::known_hash,
    places::note_place,
    refresh::Renewal,
    second_factor::require_second_factor,
    session::{Entry, Tokens, end_session, open_session},
    state::Accounts,
    take_in::take_in,
    throttle::too_many,
    view::UserView,
};

/// What a client gets for signing in.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SignedIn {
    /// Absent if the client asked for a cookie instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<String>,
    /// When the session ends.
    #[schemars(extend("format" = "date-time"))]
    expires_at: String,
    /// The account.
    user: UserView,
    /// After a new password: the account's keys that came since the one before, and those
    /// of which nobody knows when. Whoever had that password may have put them there.
    #[serde(skip_serializing_if = "Option::is_none")]
    keys_since_password: Option<Vec<KeyView>>,
}

impl SignedIn {
    /// Tells of keys that came since the password before.
    pub(crate) fn with_keys(mut self, keys: Vec<KeyView>) -> Self {
        self.keys_since_password = Some(keys);
        self
    }
}

/// What `cookie` means wherever somebody is signed in.
pub(crate) const COOKIE_MEANING: (&str, &str) = (
    "cookie",
    "Whether the session is put into cookies, for pages, and not into the answer.",
);

/// Who signs in, and with what.
pub(crate) struct Credentials {
    username: String,
    password: String,
    code: Option<String>,
    cookie: bool,
}

impl Input for Credentials {
    const NAME: &'static str = "Credentials";
    const MEANING: &'static [(&'static str, &'static str)] = &[
        ("username", "The name of the account."),
        ("password", "Its password."),
        (
            "code",
            "What the authenticator app shows, or a recovery code, where the account has a \
             second factor.",
        ),
        COOKIE_MEANING,
    ];

    fn example() -> Option<Value> {
        Some(json!({"username": "ann", "password": EXAMPLE_PASSWORD}))
    }

    fn read(form: &mut Form) -> Option<Self> {
        let username = form.required("username");
        let password = form.required("password");
        let code = form.optional("code");
        let cookie = form.optional("cookie").unwrap_or(false);
        Some(Self {
            username: username?,
            password: password?,
            code,
            cookie,
        })
    }
}

/// `POST /api/v1/auth/sign-in`
pub(crate) async fn sign_in(
    State(state): State<Accounts>,
    client: Client,
    Sent { input, mut form }: Sent<Credentials>,
) -> Result<Answer<SignedIn>, Problem> {
    let Credentials {
        username,
        password,
        code,
        cookie,
    } = form.finish_with(input)?;
    // No username is longer; the throttle must not keep whole bodies.
    let account: String = username.trim().chars().take(64).collect();
    note(|notes| notes.sign_in("password", Some(&account)));
    let checked = check(&state, &client, &account, password, code.as_deref()).await;
    let outcome = checked.as_ref().map(|_| ()).map_err(Problem::kind);
    state.counts().signed_in(outcome);
    greet(&state, &*checked?, &client, cookie).await
}

/// The account, if the password is its own and it may come in.
async fn check(
    state: &Accounts,
    client: &Client,
    account: &str,
    password: String,
    code: Option<&str>,
) -> Result<Arc<KiteUser>, Problem> {
    let user = find_by_username(state, account);
    let_in(state, client, account, user, password, code).await
}

/// `user`, who is known as `account`, if the password is theirs and they may come in.
/// Nobody is refused like somebody with another password, and it takes and counts as
/// much. Only who is at the very address of an account's owner can tell the two apart, once
/// an address has to wait and the owner, as an exception, does not.
pub(crate) async fn let_in(
    state: &Accounts,
    client: &Client,
    account: &str,
    user: Option<Arc<KiteUser>>,
    password: String,
    code: Option<&str>,
) -> Result<Arc<KiteUser>, Problem> {
    // Of the account that is guessed at, though `user` may be nobody.
    let owner = find_by_username(state, account);
    let source = match &owner {
        Some(owner) => client.source_of(state, owner),
        None => client.source(state),
    };
    let attempt = state
        .sign_in_throttle()
        .attempt(account, source)
        .map_err(too_many)?;
    let known = known_hash(state, user.as_deref());
    let fits = match state.passwords().verify(source, known, password).await {
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
    if !user.spec.may_come_in() || user.metadata.deletion_timestamp.is_some() {
        attempt.succeeded();
        return Err(Problem::new(
            ProblemKind::Suspended,
            "the account is suspended: ask an administrator",
        ));
    }
    match require_second_factor(state, &user, source, code).await {
        Ok(()) => {
            attempt.succeeded();
            Ok(as_taken_in(state, user).await)
        }
        // The address is not the owner's yet, for all that is known.
        Err(problem) => {
            attempt.undecided();
            Err(problem)
        }
    }
}

/// The account, whose hash is put out of sight before somebody is told of how it is, if
/// it can be.
async fn as_taken_in(state: &Accounts, user: Arc<KiteUser>) -> Arc<KiteUser> {
    match take_in(state, &user).await {
        Ok(Some(edited)) => Arc::new(edited),
        Ok(None) => user,
        Err(problem) => {
            let why = problem.detail();
            tracing::warn!(
                why,
                "the hash of a password stays in its account until the sweep"
            );
            user
        }
    }
}

/// The account that may sign in by `username`. Objects are usually called like
/// their username; where two claim the same one it is who has it reserved, and
/// nobody while that is not decided.
pub(crate) fn find_by_username(state: &Accounts, username: &str) -> Option<Arc<KiteUser>> {
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

/// Opens a session in the cookies of a browser that came back from a sign-in
/// provider as `identity`: what sets them.
pub(crate) async fn open_in_browser(
    state: &Accounts,
    user: &KiteUser,
    client: &Client,
    identity: &Identity,
) -> Result<Vec<HeaderValue>, Problem> {
    let entry = Entry {
        client: client.agent.as_deref(),
        as_cookie: true,
        identity: Some(identity),
    };
    note_place(state, user, client).await?;
    let session = open_session(state, user, entry).await?;
    let settings = state.settings();
    Ok(match session.tokens {
        Tokens::One(_) => Vec::new(),
        Tokens::Pair(pair) => pair.cookies(settings.session_lifetime, settings),
    })
}

/// Opens a session and answers with it.
pub(crate) async fn greet<const STATUS: u16>(
    state: &Accounts,
    user: &KiteUser,
    client: &Client,
    as_cookie: bool,
) -> Result<Answer<SignedIn, STATUS>, Problem> {
    let entry = Entry {
        client: client.agent.as_deref(),
        as_cookie,
        identity: None,
    };
    note_place(state, user, client).await?;
    let session = open_session(state, user, entry).await?;
    let settings = state.settings();
    let (token, cookies) = match session.tokens {
        Tokens::One(token) => (Some(token), Vec::new()),
        Tokens::Pair(pair) => (None, pair.cookies(settings.session_lifetime, settings)),
    };
    let body = SignedIn {
        token,
        expires_at: session.expires_at.to_string(),
        user: UserView::of(user),
        keys_since_password: None,
    };
    Ok(Answer::new(body).cookies(cookies))
}

/// `POST /api/v1/auth/sign-out`: also for a browser whose access token has ended,
/// as long as it has the one that renews it.
pub(crate) async fn sign_out(
    State(state): State<Accounts>,
    Renewal(renewal): Renewal,
    caller: Result<Caller, Problem>,
) -> Result<Done, Problem> {
    let clear = || clear_cookies(&state);
    let refused = match caller {
        Ok(caller) => {
            if let Some(session) = caller.session() {
                end_session(&state, session).await?;
                tracing::info!(user = caller.name(), "signed out");
            }
            return Ok(Done::cookies(clear()));
        }
        Err(problem) if problem.kind() == ProblemKind::Unauthenticated => problem,
        Err(problem) => return Err(problem),
    };
    let session = match renewal? {
        Some(presented) => presented.session(&state).await?,
        None => None,
    };
    let session = session.ok_or_else(|| refused.with_cookies(clear()))?;
    note(|notes| notes.came_in(&session.spec.user));
    end_session(&state, &session).await?;
    tracing::info!(user = session.spec.user, "signed out");
    Ok(Done::cookies(clear()))
}

/// What takes the cookies of a session from a browser.
pub(crate) fn clear_cookies(state: &Accounts) -> Vec<HeaderValue> {
    cookie::clear(state.settings().secure_cookies)
}
