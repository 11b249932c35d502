//! One's own account: what is in it, its password, and where one is signed in.

use aide::axum::{
    ApiRouter,
    routing::{delete_with, get_with},
};
use axum::{
    extract::FromRef,
    extract::{Path, State},
};
use jiff::Timestamp;
use kite_core::{crd::KiteSession, crd::KiteUser};
use kite_rest::{
    Answer, Bodies, Bounds, Done, Form, IfMatch, Input, Items, Named, Page, Problem, ProblemKind,
    Sent, SshKeys, as_map, change_to_json, edit_noting, etag_of, finish_edit, openapi::about,
    texts,
};
use kube::ResourceExt as _;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::{
    account_action::AccountAction,
    act::Whose,
    caller::Caller,
    client::Client,
    everyone::new_epoch,
    free::require_free_email,
    key_dates,
    notices::note_edit,
    open_sign_up::EMAIL_UNVERIFIED,
    openapi::{EXAMPLE_KEY, EXAMPLE_PASSWORD},
    password::StoredPassword,
    password_rule::{Owner as PasswordOwner, PASSWORD, is_long, read_password, spec_of_user},
    prove::prove_password,
    raise::rest_on,
    session::proved_until,
    session::{belongs_to, end_session, end_sessions_but, is_open, sessions_of},
    sign_in::{COOKIE_MEANING, SignedIn, greet},
    state::Accounts,
    users::answer,
    view::UserView,
};

const TAG: &str = "me";

/// The paths below `/me`.
pub(crate) fn routes<S>() -> ApiRouter<S>
where
    S: Clone + Send + Sync + 'static,
    Accounts: FromRef<S>,
    Bodies: FromRef<S>,
{
    use ProblemKind::{Conflict, NotFound, Taken};
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
    /// Until then this session does what asks for a proof of who one is. Absent where it
    /// does not, and where nothing asks for one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    proved_until: Option<String>,
    /// Whether the account needs a second factor and has none: nothing else can be done
    /// until it is set up.
    second_factor_missing: bool,
}

/// `GET /api/v1/me`
async fn get(State(state): State<Accounts>, caller: Caller) -> Result<Answer<Me>, Problem> {
    caller.require(AccountAction::UseAccount, Whose::Own)?;
    let me = Me {
        user: UserView::of(caller.user()),
        session_expires_at: caller
            .session()
            .map(|session| session.spec.expires_at.0.to_string()),
        proved_until: caller
            .session()
            .and_then(|session| proved_until(&state, session))
            .filter(|until| *until > Timestamp::now())
            .map(|until| until.to_string()),
        second_factor_missing: caller.lacks_factor(),
    };
    Ok(Answer::new(me).with_etag(&etag_of(caller.user().as_ref())))
}

/// What people change of their own account.
pub(crate) struct AccountEdit(Map<String, Value>);

impl Input for AccountEdit {
    const NAME: &'static str = "AccountEdit";

    fn example() -> Option<Value> {
        Some(json!({"email": "ann@example.org", "sshPublicKeys": [EXAMPLE_KEY]}))
    }

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
    State(state): State<Accounts>,
    caller: Caller,
    condition: IfMatch,
    Sent { input, mut form }: Sent<AccountEdit>,
) -> Result<Answer<UserView>, Problem> {
    caller.require(AccountAction::EditAccount, Whose::Own)?;
    // To take all of them off with null, too.
    if form.names("sshPublicKeys") {
        caller.require(AccountAction::EditAccountKeys, Whose::Own)?;
    }
    let user = caller.user().as_ref();
    let AccountEdit(spec) = finish_edit(state.store(), &mut form, input, user).await?;
    if spec.is_empty() {
        condition.check(user)?;
        return Ok(answer(user));
    }
    if let Some(Value::String(email)) = spec.get("email") {
        require_free_email(&state, email, user.uid().as_deref()).await?;
    }
    let mut notes = match spec.get("sshPublicKeys") {
        Some(keys) => key_dates::note_keys(Some(user), &texts(keys)),
        None => Map::new(),
    };
    if let Some(email) = spec.get("email") {
        let is_unverified = email.is_string().then_some("true");
        notes.insert(EMAIL_UNVERIFIED.to_owned(), json!(is_unverified));
    }
    notes.append(&mut note_edit(user, &spec));
    let cache = &state.caches().users;
    let spec = Value::from(spec);
    let edited = edit_noting(state.store(), cache, user, &condition, &spec, &notes, &form).await?;
    tracing::info!(user = caller.name(), "edited the own account");
    Ok(answer(&edited))
}

/// A new password, and the one until now.
pub struct NewPassword {
    current: Option<String>,
    new: String,
    cookie: bool,
    keep_tokens: bool,
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
            "The password from now on: at least 8 characters, of an administrator 12, none that \
             many people have, and without the username or email address in it.",
        ),
        COOKIE_MEANING,
        (
            "keepTokens",
            "Whether API tokens outlive the password. They end with it otherwise.",
        ),
    ];
    const BOUNDS: &'static [(&'static str, Bounds)] = &[("newPassword", PASSWORD)];

    fn example() -> Option<Value> {
        Some(json!({
            "currentPassword": EXAMPLE_PASSWORD,
            "newPassword": "another good horse",
            "keepTokens": true,
        }))
    }

    fn read(form: &mut Form) -> Option<Self> {
        let current = form.optional("currentPassword");
        let new: Option<String> = form.required("newPassword");
        if new.is_some() && current == new {
            form.error("newPassword", "is the current one: choose another");
        }
        let cookie = form.optional("cookie").unwrap_or(false);
        let keep_tokens = form.optional("keepTokens").unwrap_or(false);
        form.fixed(
            "endTokens",
            "is so unless keepTokens says otherwise: leave it out",
        );
        Some(Self {
            current,
            new: new?,
            cookie,
            keep_tokens,
        })
    }
}

/// A password that its owner has changed: all sessions are over.
pub struct PasswordChanged {
    user: KiteUser,
    since: Option<Timestamp>,
    as_cookie: bool,
}

impl PasswordChanged {
    /// The account as it is now.
    pub fn user(&self) -> &KiteUser {
        &self.user
    }

    /// When the owner had been told last of what opens the account beside its password, if
    /// that is known: what came later somebody may have put there who had the password.
    pub fn since(&self) -> Option<Timestamp> {
        self.since
    }

    /// Opens the one session that goes on, and tells of the account's keys that came since
    /// the password before.
    ///
    /// # Errors
    /// A [`ProblemKind::Internal`] problem if no session token can be made, or the problem of a
    /// refusal by the API server.
    pub async fn sign_in(
        self,
        state: &Accounts,
        client: &Client,
    ) -> Result<Answer<SignedIn>, Problem> {
        let keys = key_dates::keys_since(&self.user, self.since);
        let answer = greet(state, &self.user, client, self.as_cookie).await?;
        Ok(answer.map(|signed_in: SignedIn| signed_in.with_keys(keys)))
    }
}

/// For `POST /api/v1/me/password`. The route is the application's, which tells of what else
/// opens what is the account's, before it [signs in](PasswordChanged::sign_in).
///
/// # Errors
/// A problem if the caller may not, the current password is missing or wrong, the new one is
/// not allowed, or the API server refuses.
pub async fn change_password(
    state: &Accounts,
    caller: &Caller,
    client: &Client,
    Sent { input, mut form }: Sent<NewPassword>,
) -> Result<PasswordChanged, Problem> {
    caller.permit(AccountAction::ChangePassword, Whose::Own)?;
    let user = caller.user();
    // An account without a password has none to be told.
    if user.spec.has_password() && form.peek::<String>("currentPassword").is_none() {
        form.missing::<String>("currentPassword");
    }
    if let Some(NewPassword { new, .. }) = &input {
        let owner = PasswordOwner {
            level: Some(user.spec.access_level),
            names: &[Some(&user.spec.username), user.spec.email.as_deref()],
        };
        read_password(&mut form, "newPassword", new, &owner);
    }
    let NewPassword {
        current,
        new,
        cookie,
        keep_tokens,
    } = form.finish_with(input)?;
    let current = current.unwrap_or_default();
    prove_password(state, caller, client, "currentPassword", current).await?;
    let is_long = is_long(&new);
    let as_sent = IfMatch::default();
    let (user, condition) = rest_on(state, user, as_sent, None, Some(&new)).await?;
    let user = &*user;
    let hash = state.passwords().hash(new).await?;
    let password = StoredPassword::make(state, &user.name_any(), &hash, is_long).await?;
    let mut spec = password.fields();
    if !keep_tokens {
        spec.insert("tokenEpoch".to_owned(), json!(new_epoch()));
    }
    let mut notes = key_dates::note_password();
    notes.append(&mut note_edit(user, &spec));
    let spec = Value::from(spec);
    let cache = &state.caches().users;
    let edited = edit_noting(state.store(), cache, user, &condition, &spec, &notes, &form).await;
    let edited = password.settle(state, Some(user), edited).await?;
    tracing::info!(user = caller.name(), "changed the own password");
    // They are over by now; this clears them away.
    end_sessions_but(state, &edited, None).await?;
    // Now, as no other session adds to it any more.
    let since = key_dates::told_up_to(user);
    Ok(PasswordChanged {
        user: edited,
        since,
        as_cookie: cookie,
    })
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
    State(state): State<Accounts>,
    caller: Caller,
    page: Page,
) -> Result<Answer<Items<SessionView>>, Problem> {
    caller.require(AccountAction::UseAccount, Whose::Own)?;
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
async fn end_others(State(state): State<Accounts>, caller: Caller) -> Result<Done, Problem> {
    caller.require(AccountAction::UseAccount, Whose::Own)?;
    end_sessions_but(&state, caller.user(), caller.session()).await?;
    tracing::info!(user = caller.name(), "signed out everywhere else");
    Ok(Done::default())
}

/// `DELETE /api/v1/me/sessions/{name}`
async fn end_one(
    State(state): State<Accounts>,
    caller: Caller,
    Path(Named { name }): Path<Named>,
) -> Result<Done, Problem> {
    caller.require(AccountAction::UseAccount, Whose::Own)?;
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
