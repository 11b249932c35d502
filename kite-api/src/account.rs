//! One's own account: what is in it, its password, and where one is signed in.

use axum::{
    Json,
    extract::{Path, State},
    response::{IntoResponse as _, Response},
};
use http::StatusCode;
use kite_core::{
    cluster::{Cluster as _, FieldManager, ObjectKey},
    crd::{KiteSession, KiteUser},
};
use kube::ResourceExt as _;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::{
    auth::{
        Caller, Client, belongs_to, end_session, end_sessions_but, greet, is_open, new_epoch,
        read_password, require_free_email, sessions_of, too_many,
    },
    policy::{Action, Whose},
    problem::{Problem, ProblemKind},
    state::ApiState,
    users::{UserView, change_to_json},
    web::{Form, Items},
};

/// The caller's account and session.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Me {
    #[serde(flatten)]
    user: UserView,
    #[serde(skip_serializing_if = "Option::is_none")]
    session_expires_at: Option<String>,
}

/// `GET /api/v1/me`
pub(crate) async fn get(caller: Caller) -> Result<Json<Me>, Problem> {
    caller.require(Action::UseAccount, Whose::Own)?;
    Ok(Json(Me {
        user: UserView::of(caller.user()),
        session_expires_at: caller
            .session()
            .map(|session| session.spec.expires_at.0.to_string()),
    }))
}

/// `PATCH /api/v1/me`
pub(crate) async fn patch(
    State(state): State<ApiState>,
    caller: Caller,
    mut form: Form,
) -> Result<Json<UserView>, Problem> {
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
    let edits = [
        change_to_json("email", form.change::<String>("email")),
        change_to_json("sshPublicKeys", form.change::<Vec<String>>("sshPublicKeys")),
    ];
    caller.require(Action::EditAccount, Whose::Own)?;
    form.finish()?;
    let user = caller.user();
    let spec: Map<String, Value> = edits
        .into_iter()
        .flatten()
        .map(|(field, value)| (field.to_owned(), value))
        .collect();
    if spec.is_empty() {
        return Ok(Json(UserView::of(user)));
    }
    if let Some(Value::String(email)) = spec.get("email") {
        require_free_email(&state, email, user.uid().as_deref()).await?;
    }
    let edited = edit(&state, user, &form, spec).await?;
    tracing::info!(user = caller.name(), "edited the own account");
    Ok(Json(UserView::of(&edited)))
}

/// `POST /api/v1/me/password`: all sessions are over, but for the new one that
/// this answers with.
pub(crate) async fn change_password(
    State(state): State<ApiState>,
    caller: Caller,
    client: Client,
    mut form: Form,
) -> Result<Response, Problem> {
    caller.require(Action::ChangePassword, Whose::Own)?;
    let user = caller.user();
    let known = user.spec.password_hash.as_ref();
    // An account without a password has none to be told.
    let current: Option<String> = if known.is_some() {
        form.required("currentPassword")
    } else {
        form.optional("currentPassword")
    };
    let new: Option<String> = form.required("newPassword");
    let cookie = form.optional("cookie").unwrap_or(false);
    let end_tokens = form.optional("endTokens").unwrap_or(false);
    if let Some(new) = &new {
        let names = [
            Some(user.spec.username.as_str()),
            user.spec.email.as_deref(),
        ];
        read_password(&mut form, "newPassword", new, &names);
        if current.as_ref() == Some(new) {
            form.error("newPassword", "is the current one: choose another");
        }
    }
    form.finish()?;
    let Some(new) = new else {
        return Err(Problem::invalid(Vec::new()));
    };
    if known.is_some() {
        let attempt = state
            .sign_in_throttle()
            .attempt(&user.spec.username, client.address)
            .map_err(too_many)?;
        let fits = state
            .passwords()
            .verify(known, current.unwrap_or_default())
            .await;
        match fits {
            Ok(true) => attempt.succeeded(),
            Ok(false) => {
                return Err(Problem::new(
                    ProblemKind::WrongCredentials,
                    "currentPassword is not the password of the account: try again",
                ));
            }
            Err(problem) => {
                attempt.undecided();
                return Err(problem);
            }
        }
    }
    let hash = state.passwords().hash(new).await?;
    let mut spec = Map::from_iter([("passwordHash".to_owned(), json!(hash))]);
    if end_tokens {
        spec.insert("tokenEpoch".to_owned(), json!(new_epoch()));
    }
    let edited = edit(&state, user, &form, spec).await?;
    tracing::info!(user = caller.name(), "changed the own password");
    // They are over by now; this clears them away.
    end_sessions_but(&state, &edited, None).await?;
    greet(&state, &edited, &client, cookie, StatusCode::OK).await
}

async fn edit(
    state: &ApiState,
    user: &KiteUser,
    form: &Form,
    spec: Map<String, Value>,
) -> Result<KiteUser, Problem> {
    let patch = json!({ "metadata": { "uid": user.uid() }, "spec": spec });
    let key = ObjectKey::cluster(user.name_any());
    let edited: KiteUser = state
        .cluster()
        .edit(FieldManager::API, &key, &patch)
        .await
        .map_err(|error| form.blame(error))?;
    state.caches().users.caught_up_with(&edited).await;
    Ok(edited)
}

/// A session as its owner sees it: its name is no secret, its token is.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SessionView {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    created_at: Option<String>,
    expires_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    client: Option<String>,
    /// Whether it is the one by which this was asked.
    current: bool,
}

/// `GET /api/v1/me/sessions`
pub(crate) async fn sessions(
    State(state): State<ApiState>,
    caller: Caller,
) -> Result<Json<Items<SessionView>>, Problem> {
    caller.require(Action::UseAccount, Whose::Own)?;
    let current = caller.session().map(kube::ResourceExt::name_any);
    let user = caller.user();
    let epoch = state.platform().session_epoch;
    let mut open = sessions_of(&state, user);
    open.retain(|session| is_open(session) && belongs_to(session, user, epoch));
    open.sort_by_key(|session| std::cmp::Reverse(session.spec.expires_at.0));
    let view = |session: &KiteSession| SessionView {
        current: current.as_ref() == Some(&session.name_any()),
        name: session.name_any(),
        created_at: session.creation_timestamp().map(|time| time.0.to_string()),
        expires_at: session.spec.expires_at.0.to_string(),
        client: session.spec.client.clone(),
    };
    Ok(Json(Items {
        items: open.iter().map(|session| view(session)).collect(),
    }))
}

/// `DELETE /api/v1/me/sessions`
pub(crate) async fn end_others(
    State(state): State<ApiState>,
    caller: Caller,
) -> Result<StatusCode, Problem> {
    caller.require(Action::UseAccount, Whose::Own)?;
    end_sessions_but(&state, caller.user(), caller.session()).await?;
    tracing::info!(user = caller.name(), "signed out everywhere else");
    Ok(StatusCode::NO_CONTENT)
}

/// `DELETE /api/v1/me/sessions/{name}`
pub(crate) async fn end_one(
    State(state): State<ApiState>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<Response, Problem> {
    caller.require(Action::UseAccount, Whose::Own)?;
    let user = caller.user();
    let epoch = state.platform().session_epoch;
    // Somebody else's is as much not there as one that never was.
    let session = sessions_of(&state, user)
        .into_iter()
        .find(|session| session.name_any() == name && belongs_to(session, user, epoch))
        .ok_or_else(|| Problem::not_found("session", &name))?;
    end_session(&state, &session).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}
