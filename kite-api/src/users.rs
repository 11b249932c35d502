//! Everybody's accounts, for administrators.

use std::sync::Arc;

use axum::{
    Json,
    extract::{Path, State},
};
use http::StatusCode;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kite_core::{
    cluster::{Cluster as _, ClusterExt as _, FieldManager, ObjectKey},
    crd::{AccessLevel, KiteUser, KiteUserSpec, Quota, Usage, UserPhase},
};
use kube::{ResourceExt as _, api::PropagationPolicy};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::{
    auth::{Caller, create_user, end_sessions_of, new_epoch, read_password, require_free_email},
    policy::{Action, Whose},
    problem::Problem,
    state::ApiState,
    web::{Change, Form, Items},
};

/// An account as the API shows it: never a hash.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct UserView {
    name: String,
    username: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    email: Option<String>,
    access_level: AccessLevel,
    suspended: bool,
    ssh_public_keys: Vec<String>,
    quota: Quota,
    usage: Usage,
    #[serde(skip_serializing_if = "Option::is_none")]
    phase: Option<UserPhase>,
    /// Absent until VMs can be created.
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<String>,
    conditions: Vec<Condition>,
    #[serde(skip_serializing_if = "Option::is_none")]
    created_at: Option<String>,
    deleting: bool,
}

impl UserView {
    pub(crate) fn of(user: &KiteUser) -> Self {
        let status = user.status.clone().unwrap_or_default();
        Self {
            name: user.name_any(),
            username: user.spec.username.clone(),
            email: user.spec.email.clone(),
            access_level: user.spec.access_level,
            suspended: user.spec.suspended,
            ssh_public_keys: user.spec.ssh_public_keys.clone(),
            quota: user.spec.effective_quota(),
            usage: status.usage.unwrap_or_default(),
            phase: status.phase,
            namespace: status.namespace,
            conditions: status.conditions,
            created_at: user.creation_timestamp().map(|time| time.0.to_string()),
            deleting: user.metadata.deletion_timestamp.is_some(),
        }
    }
}

/// Whose account `user` is from the caller's point of view.
pub(crate) fn whose(caller: &Caller, user: &KiteUser) -> Whose {
    if user.uid() == caller.user().uid() {
        Whose::Own
    } else {
        Whose::Other(user.spec.access_level)
    }
}

/// The account called `name`. Who may not see accounts learns nothing of which
/// there are.
fn find(state: &ApiState, caller: &Caller, name: &str) -> Result<Arc<KiteUser>, Problem> {
    caller.require(Action::SeeUsers, Whose::Other(AccessLevel::ReadOnly))?;
    state
        .caches()
        .users
        .get(&ObjectKey::cluster(name))
        .ok_or_else(|| Problem::not_found("user", name))
}

/// `GET /api/v1/admin/users`
pub(crate) async fn list(
    State(state): State<ApiState>,
    caller: Caller,
) -> Result<Json<Items<UserView>>, Problem> {
    caller.require(Action::SeeUsers, Whose::Other(AccessLevel::ReadOnly))?;
    let users = state.caches().users.list(|_| true);
    Ok(Json(Items {
        items: users.iter().map(|user| UserView::of(user)).collect(),
    }))
}

/// `GET /api/v1/admin/users/{name}`
pub(crate) async fn get(
    State(state): State<ApiState>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<Json<UserView>, Problem> {
    Ok(Json(UserView::of(&*find(&state, &caller, &name)?)))
}

/// `POST /api/v1/admin/users`
pub(crate) async fn create(
    State(state): State<ApiState>,
    caller: Caller,
    mut form: Form,
) -> Result<(StatusCode, Json<UserView>), Problem> {
    let username: Option<String> = form.required("username");
    let email: Option<String> = form.optional("email");
    let password: Option<String> = form.optional("password");
    let access_level: AccessLevel = form.optional("accessLevel").unwrap_or_default();
    let ssh_public_keys = form.optional("sshPublicKeys").unwrap_or_default();
    let quota = form.optional("quota");
    if let Some(password) = &password {
        read_password(
            &mut form,
            "password",
            password,
            &[username.as_deref(), email.as_deref()],
        );
    }
    caller.require(Action::CreateUser, Whose::Other(access_level))?;
    form.finish()?;
    let Some(username) = username else {
        return Err(Problem::invalid(Vec::new()));
    };
    let spec = KiteUserSpec {
        email,
        access_level,
        ssh_public_keys,
        quota,
        ..KiteUserSpec::new(username)
    };
    let user = create_user(&state, &form, spec, password).await?;
    tracing::info!(by = caller.name(), user = user.name_any(), "created a user");
    Ok((StatusCode::CREATED, Json(UserView::of(&user))))
}

/// `PATCH /api/v1/admin/users/{name}`
pub(crate) async fn patch(
    State(state): State<ApiState>,
    caller: Caller,
    Path(name): Path<String>,
    mut form: Form,
) -> Result<Json<UserView>, Problem> {
    let user = find(&state, &caller, &name)?;
    let whose = whose(&caller, &user);
    let mut spec = Map::new();
    form.fixed("username", "cannot be changed: create another user");
    if let Some(level) = form.changed::<AccessLevel>("accessLevel") {
        if level != user.spec.access_level {
            caller.require(Action::SetAccessLevel, whose)?;
        }
        spec.insert("accessLevel".to_owned(), json!(level));
    }
    let suspended = form.changed::<bool>("suspended");
    if let Some(suspended) = suspended {
        if suspended != user.spec.suspended {
            caller.require(Action::SuspendUser, whose)?;
        }
        // `false` is the default and not written out.
        spec.insert(
            "suspended".to_owned(),
            if suspended { json!(true) } else { Value::Null },
        );
    }
    let end_tokens = form.optional("endTokens").unwrap_or(false);
    if end_tokens {
        caller.require(Action::EditUser, whose)?;
    }
    // A later pardon does not bring them back.
    if end_tokens || suspended == Some(true) {
        spec.insert("tokenEpoch".to_owned(), json!(new_epoch()));
    }
    let edits = [
        change_to_json("email", form.change::<String>("email")),
        change_to_json("quota", form.change::<Quota>("quota")),
        change_to_json("sshPublicKeys", form.change::<Vec<String>>("sshPublicKeys")),
    ];
    for (field, value) in edits.into_iter().flatten() {
        caller.require(Action::EditUser, whose)?;
        spec.insert(field.to_owned(), value);
    }
    let password = form.changed::<String>("password");
    if let Some(password) = &password {
        caller.require(Action::ChangePassword, whose)?;
        if whose == Whose::Own {
            form.error("password", "is changed by POST /api/v1/me/password");
        }
        let names = [
            Some(user.spec.username.as_str()),
            user.spec.email.as_deref(),
        ];
        read_password(&mut form, "password", password, &names);
    }
    form.finish()?;
    if let Some(password) = password {
        let hash = state.passwords().hash(password).await?;
        spec.insert("passwordHash".to_owned(), json!(hash));
    }
    if spec.is_empty() {
        return Ok(Json(UserView::of(&user)));
    }
    if let Some(Value::String(email)) = spec.get("email") {
        require_free_email(&state, email, user.uid().as_deref()).await?;
    }

    let patch = json!({ "metadata": { "uid": user.uid() }, "spec": spec });
    let edited: KiteUser = state
        .cluster()
        .edit(FieldManager::API, &ObjectKey::cluster(&name), &patch)
        .await
        .map_err(|error| form.blame(error))?;
    state.caches().users.caught_up_with(&edited).await;
    if edited.spec.suspended || spec.contains_key("passwordHash") {
        end_sessions_of(&state, &edited).await?;
    }
    tracing::info!(by = caller.name(), user = name, "edited a user");
    Ok(Json(UserView::of(&edited)))
}

/// One field of a merge patch, unless it is to be kept.
pub(crate) fn change_to_json<T: Serialize>(
    field: &'static str,
    change: Change<T>,
) -> Option<(&'static str, Value)> {
    match change {
        Change::Keep => None,
        Change::Clear => Some((field, Value::Null)),
        Change::Set(value) => Some((field, json!(value))),
    }
}

/// `DELETE /api/v1/admin/users/{name}`
pub(crate) async fn delete(
    State(state): State<ApiState>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<(StatusCode, Json<UserView>), Problem> {
    let user = find(&state, &caller, &name)?;
    caller.require(Action::DeleteUser, whose(&caller, &user))?;
    state
        .cluster()
        .remove(user.as_ref(), PropagationPolicy::Background)
        .await?;
    state.caches().users.caught_up_with_deletion(&user).await;
    end_sessions_of(&state, &user).await?;
    tracing::info!(by = caller.name(), user = name, "deleted a user");
    let mut view = UserView::of(&user);
    view.deleting = true;
    Ok((StatusCode::ACCEPTED, Json(view)))
}
