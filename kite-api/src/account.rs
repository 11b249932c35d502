//! One's own account: what is in it, its password, and where one is signed in.

use std::time::Duration;

use aide::axum::{
    ApiRouter,
    routing::{delete_with, get_with, post_with},
};
use axum::extract::{Path, State};
use jiff::Timestamp;
use kite_core::crd::KiteSession;
use kube::ResourceExt as _;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::{
    auth::{
        COOKIE_MEANING, Caller, Client, PASSWORD, SignedIn, belongs_to, end_session,
        end_sessions_but, greet, is_open, new_epoch, read_password, require_free_email,
        sessions_of, too_many,
    },
    openapi::about,
    policy::{Action, Whose},
    problem::{FieldError, Problem, ProblemKind},
    state::ApiState,
    users::{self, UserView, as_map, change_to_json, spec_of_user},
    web::{
        Answer, Bounds, Done, Form, IfMatch, Input, Items, Named, Page, Sent, SshKeys, edit,
        finish_edit, tag_of,
    },
};

const TAG: &str = "me";

/// The paths below `/me`.
pub(crate) fn routes() -> ApiRouter<ApiState> {
    use ProblemKind::{Conflict, NotFound, Taken, TooManyRequests, WrongCredentials};
    ApiRouter::new()
        .api_route(
            "/me",
            get_with(get, about(TAG, "getMe", "See one's own account", &[])).patch_with(
                patch,
                about(
                    TAG,
                    "editMe",
                    "Change one's own account",
                    &[Taken, Conflict],
                ),
            ),
        )
        .api_route(
            "/me/password",
            post_with(
                change_password,
                about(
                    TAG,
                    "changePassword",
                    "Change one's password, which ends all sessions but the new one",
                    &[WrongCredentials, TooManyRequests, Conflict],
                ),
            ),
        )
        .api_route(
            "/me/sessions",
            get_with(
                sessions,
                about(TAG, "listSessions", "Where one is signed in", &[]),
            )
            .delete_with(
                end_others,
                about(TAG, "endOtherSessions", "Sign out everywhere else", &[]),
            ),
        )
        .api_route(
            "/me/sessions/{name}",
            delete_with(
                end_one,
                about(TAG, "endSession", "End one session", &[NotFound]),
            ),
        )
}

/// The caller's account and session.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Me {
    #[serde(flatten)]
    user: UserView,
    /// When the session ends by which this was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    session_expires_at: Option<String>,
}

/// `GET /api/v1/me`
async fn get(caller: Caller) -> Result<Answer<Me>, Problem> {
    caller.require(Action::UseAccount, Whose::Own)?;
    let me = Me {
        user: UserView::of(caller.user()),
        session_expires_at: caller
            .session()
            .map(|session| session.spec.expires_at.0.to_string()),
    };
    Ok(Answer::new(me).tagged(&tag_of(caller.user().as_ref())))
}

/// What people change of their own account.
pub(crate) struct AccountEdit(Map<String, Value>);

impl Input for AccountEdit {
    const NAME: &'static str = "AccountEdit";

    fn read(form: &mut Form) -> Option<Self> {
        let elsewhere = [
            ("username", "cannot be changed"),
            ("accessLevel", "is changed by an administrator"),
            ("quota", "is changed by an administrator"),
            ("suspended", "is changed by an administrator"),
            ("password", "is changed by POST /api/v1/me/password"),
        ];
        for (field, why) in elsewhere {
            form.fixed(field, why);
        }
        Some(Self(as_map([
            change_to_json("email", form.change::<String>("email")),
            change_to_json(
                "sshPublicKeys",
                form.change("sshPublicKeys").map(|SshKeys(keys)| keys),
            ),
        ])))
    }

    fn resource(generator: &mut SchemaGenerator) -> Option<Schema> {
        Some(spec_of_user(generator))
    }
}

/// `PATCH /api/v1/me`
async fn patch(
    State(state): State<ApiState>,
    caller: Caller,
    condition: IfMatch,
    Sent { input, mut form }: Sent<AccountEdit>,
) -> Result<Answer<UserView>, Problem> {
    caller.require(Action::EditAccount, Whose::Own)?;
    let user = caller.user().as_ref();
    let AccountEdit(spec) = finish_edit(&state, &mut form, input, user).await?;
    if spec.is_empty() {
        condition.check(user)?;
        return Ok(users::answer(user));
    }
    if let Some(Value::String(email)) = spec.get("email") {
        require_free_email(&state, email, user.uid().as_deref()).await?;
    }
    let cache = &state.caches().users;
    let edited = edit(&state, cache, user, &condition, &spec.into(), &form).await?;
    tracing::info!(user = caller.name(), "edited the own account");
    Ok(users::answer(&edited))
}

/// A new password, and the one until now.
pub(crate) struct NewPassword {
    current: Option<String>,
    new: String,
    cookie: bool,
    end_tokens: bool,
}

impl Input for NewPassword {
    const NAME: &'static str = "NewPassword";
    const MEANING: &'static [(&'static str, &'static str)] = &[
        (
            "currentPassword",
            "The password until now. Needed unless the account has none.",
        ),
        (
            "newPassword",
            "The password from now on: at least 8 characters.",
        ),
        COOKIE_MEANING,
        (
            "endTokens",
            "Whether all API tokens are over, too. They go on otherwise.",
        ),
    ];
    const BOUNDS: &'static [(&'static str, Bounds)] = &[("newPassword", PASSWORD)];

    fn read(form: &mut Form) -> Option<Self> {
        let current = form.optional("currentPassword");
        let new: Option<String> = form.required("newPassword");
        if new.is_some() && current == new {
            form.error("newPassword", "is the current one: choose another");
        }
        let cookie = form.optional("cookie").unwrap_or(false);
        let end_tokens = form.optional("endTokens").unwrap_or(false);
        Some(Self {
            current,
            new: new?,
            cookie,
            end_tokens,
        })
    }
}

/// `POST /api/v1/me/password`: all sessions are over, but for the new one that
/// this answers with.
async fn change_password(
    State(state): State<ApiState>,
    caller: Caller,
    client: Client,
    Sent { input, mut form }: Sent<NewPassword>,
) -> Result<Answer<SignedIn>, Problem> {
    caller.require(Action::ChangePassword, Whose::Own)?;
    let user = caller.user();
    let known = user.spec.password_hash.as_ref();
    // An account without a password has none to be told.
    if known.is_some() && form.peek::<String>("currentPassword").is_none() {
        form.missing::<String>("currentPassword");
    }
    if let Some(NewPassword { new, .. }) = &input {
        let names = [
            Some(user.spec.username.as_str()),
            user.spec.email.as_deref(),
        ];
        read_password(&mut form, "newPassword", new, &names);
    }
    let NewPassword {
        current,
        new,
        cookie,
        end_tokens,
    } = form.finish_with(input)?;
    let current = current.unwrap_or_default();
    prove_password(&state, &caller, &client, "currentPassword", current).await?;
    let hash = state.passwords().hash(new).await?;
    let mut spec = json!({ "passwordHash": hash });
    if end_tokens {
        spec["tokenEpoch"] = json!(new_epoch());
    }
    let cache = &state.caches().users;
    let anyhow = IfMatch::default();
    let edited = edit(&state, cache, user.as_ref(), &anyhow, &spec, &form).await?;
    tracing::info!(user = caller.name(), "changed the own password");
    // They are over by now; this clears them away.
    end_sessions_but(&state, &edited, None).await?;
    greet(&state, &edited, &client, cookie).await
}

/// How long after signing in somebody without a password is known well enough to
/// change how one gets into the account.
const FRESH: Duration = Duration::from_secs(10 * 60);

/// That the session of an account without a password is young: its provider has just
/// said who it is. An older one may be in other hands.
pub(crate) fn require_fresh(state: &ApiState, caller: &Caller) -> Result<(), Problem> {
    // A project with its own way of signing in has to see to it.
    let Some(session) = caller.session() else {
        return Ok(());
    };
    let lifetime = state.settings().session_lifetime;
    if is_fresh(session.spec.expires_at.0, lifetime, Timestamp::now()) {
        return Ok(());
    }
    Err(Problem::new(
        ProblemKind::Forbidden,
        "the account has no password by which you could show that it is yours: sign out, sign in \
         at your provider again, and do this within ten minutes",
    ))
}

/// Whether a session that ends at `end` after `lifetime` has just begun.
fn is_fresh(end: Timestamp, lifetime: Duration, now: Timestamp) -> bool {
    let left = Duration::try_from(end.duration_since(now)).unwrap_or_default();
    left + FRESH > lifetime
}

/// That whoever asks knows the password of their account, or has just come from a
/// provider if it has none.
pub(crate) async fn prove_password(
    state: &ApiState,
    caller: &Caller,
    client: &Client,
    field: &str,
    password: String,
) -> Result<(), Problem> {
    let user = caller.user();
    let Some(known) = &user.spec.password_hash else {
        return require_fresh(state, caller);
    };
    let attempt = state
        .sign_in_throttle()
        .attempt(&user.spec.username, client.address)
        .map_err(too_many)?;
    match state.passwords().verify(Some(known), password).await {
        Ok(true) => {
            attempt.succeeded();
            Ok(())
        }
        Ok(false) => {
            let problem = Problem::new(
                ProblemKind::WrongCredentials,
                format!("{field} is not the password of the account: try again"),
            );
            Err(problem.with_error(FieldError {
                field: field.to_owned(),
                value: None,
                message: "is not the password of the account: try again".to_owned(),
            }))
        }
        Err(problem) => {
            attempt.undecided();
            Err(problem)
        }
    }
}

/// A session as its owner sees it: its name is no secret, its token is.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Session")]
pub(crate) struct SessionView {
    /// By which it is ended.
    name: String,
    /// When it began.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    created_at: Option<String>,
    /// When it ends.
    #[schemars(extend("format" = "date-time"))]
    expires_at: String,
    /// What the client called itself that signed in.
    #[serde(skip_serializing_if = "Option::is_none")]
    client: Option<String>,
    /// Whether it is the one by which this was asked.
    current: bool,
}

/// `GET /api/v1/me/sessions`
async fn sessions(
    State(state): State<ApiState>,
    caller: Caller,
    page: Page,
) -> Result<Answer<Items<SessionView>>, Problem> {
    caller.require(Action::UseAccount, Whose::Own)?;
    let current = caller.session().map(kube::ResourceExt::name_any);
    let user = caller.user();
    let epoch = state.platform().session_epoch;
    let mut open = sessions_of(&state, user);
    open.retain(|session| {
        is_open(session)
            && belongs_to(session, user, epoch)
            && page.wants(session.spec.client.as_deref())
    });
    let view = |session: &KiteSession| SessionView {
        current: current.as_ref() == Some(&session.name_any()),
        name: session.name_any(),
        created_at: session.creation_timestamp().map(|time| time.0.to_string()),
        expires_at: session.spec.expires_at.0.to_string(),
        client: session.spec.client.clone(),
    };
    Ok(Answer::new(page.cut(&open, view)))
}

/// `DELETE /api/v1/me/sessions`
async fn end_others(State(state): State<ApiState>, caller: Caller) -> Result<Done, Problem> {
    caller.require(Action::UseAccount, Whose::Own)?;
    end_sessions_but(&state, caller.user(), caller.session()).await?;
    tracing::info!(user = caller.name(), "signed out everywhere else");
    Ok(Done::default())
}

/// `DELETE /api/v1/me/sessions/{name}`
async fn end_one(
    State(state): State<ApiState>,
    caller: Caller,
    Path(Named { name }): Path<Named>,
) -> Result<Done, Problem> {
    caller.require(Action::UseAccount, Whose::Own)?;
    let user = caller.user();
    let epoch = state.platform().session_epoch;
    // Somebody else's is as much not there as one that never was.
    let session = sessions_of(&state, user)
        .into_iter()
        .find(|session| session.name_any() == name && belongs_to(session, user, epoch))
        .ok_or_else(|| Problem::not_found("session", &name))?;
    end_session(&state, &session).await?;
    Ok(Done::default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_fresh_for_ten_minutes() {
        let begun = Timestamp::UNIX_EPOCH;
        let lifetime = Duration::from_secs(12 * 3600);
        let end = begun + lifetime;
        let fresh = |seconds| is_fresh(end, lifetime, begun + Duration::from_secs(seconds));
        assert!(fresh(0));
        assert!(fresh(599));
        assert!(!fresh(600));
        assert!(!fresh(13 * 3600));
    }
}
