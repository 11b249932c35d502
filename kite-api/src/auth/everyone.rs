//! `POST /api/v1/admin/sign-out-everyone`.

use axum::{
    extract::State,
    response::{IntoResponse as _, Response},
};
use http::StatusCode;
use jiff::Timestamp;
use kite_core::{
    cluster::{Cluster as _, ClusterError, FieldManager, ObjectKey},
    crd::KitePlatform,
    names,
};
use serde_json::{Map, json};

use super::{Caller, without_cookies};
use crate::{
    policy::{Action, Whose},
    problem::{Problem, ProblemKind},
    state::ApiState,
    web::Form,
};

/// A number that no earlier epoch had. That it tells the time is for people; it is
/// only compared for equality.
pub(crate) fn new_epoch() -> i64 {
    Timestamp::now().as_millisecond()
}

/// Ends all sessions on all replicas, the caller's too, and with `tokens` all API
/// tokens. They name the platform's epoch in which they began, so one write ends
/// them all, also those that somebody begins at this moment on a replica that has
/// not heard of it. Their objects are removed by the next sweep.
pub(crate) async fn sign_out(
    State(state): State<ApiState>,
    caller: Caller,
    mut form: Form,
) -> Result<Response, Problem> {
    let tokens = form.optional("tokens").unwrap_or(false);
    caller.require(Action::SignOutEveryone, Whose::Own)?;
    form.finish()?;
    let mut spec = Map::from_iter([("sessionEpoch".to_owned(), json!(new_epoch()))]);
    if tokens {
        spec.insert("tokenEpoch".to_owned(), json!(new_epoch()));
    }
    let key = ObjectKey::cluster(names::PLATFORM);
    let patch = json!({ "spec": spec });
    let written: KitePlatform = match state.cluster().edit(FieldManager::API, &key, &patch).await {
        Ok(written) => written,
        Err(ClusterError::NotFound { .. }) => {
            return Err(Problem::new(
                ProblemKind::Conflict,
                "there is no KitePlatform to note it in: create the one named default, or end \
                 all sessions with kubectl delete kitesessions --all",
            ));
        }
        Err(error) => return Err(error.into()),
    };
    state.caches().platforms.caught_up_with(&written).await;
    tracing::warn!(by = caller.name(), tokens, "signed everyone out");
    let done = StatusCode::NO_CONTENT.into_response();
    Ok(without_cookies(&state, done))
}
