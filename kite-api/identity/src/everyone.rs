//! `POST /api/v1/admin/sign-out-everyone`.

use axum::extract::State;
use jiff::Timestamp;
use kite_core::{
    cluster::{Cluster as _, ClusterError, ObjectKey},
    crd::KitePlatform,
    names,
};
use kite_rest::{Done, Form, Input, Problem, ProblemKind, Sent, cookie};
use serde_json::{Map, Value, json};

use crate::{account_action::AccountAction, act::Whose, caller::Caller, state::Accounts};

/// A number that no earlier epoch had. That it tells the time is for people; it is
/// only compared for equality.
pub(crate) fn new_epoch() -> i64 {
    Timestamp::now().as_millisecond()
}

/// Who is signed out.
pub(crate) struct Everyone {
    tokens: bool,
}

impl Input for Everyone {
    const NAME: &'static str = "Everyone";
    const MEANING: &'static [(&'static str, &'static str)] =
        &[("tokens", "Whether all API tokens are over, too.")];

    fn example() -> Option<Value> {
        Some(json!({"tokens": false}))
    }

    fn read(form: &mut Form) -> Option<Self> {
        Some(Self {
            tokens: form.optional("tokens").unwrap_or(false),
        })
    }
}

/// Ends all sessions on all replicas, the caller's too, and with `tokens` all API
/// tokens. They name the platform's epoch in which they began, so one write ends
/// them all, also those that somebody begins at this moment on a replica that has
/// not heard of it. Their objects are removed by the next sweep.
pub(crate) async fn sign_everyone_out(
    State(state): State<Accounts>,
    caller: Caller,
    Sent { input, mut form }: Sent<Everyone>,
) -> Result<Done, Problem> {
    caller.require(AccountAction::SignOutEveryone, Whose::Own)?;
    let Everyone { tokens } = form.finish_with(input)?;
    let mut spec = Map::from_iter([("sessionEpoch".to_owned(), json!(new_epoch()))]);
    if tokens {
        spec.insert("tokenEpoch".to_owned(), json!(new_epoch()));
    }
    let key = ObjectKey::cluster(names::PLATFORM);
    let patch = json!({ "spec": spec });
    let written: KitePlatform = match state
        .cluster()
        .merge_patch(state.store().manager(), &key, &patch)
        .await
    {
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
    Ok(Done::cookies(cookie::clear(
        state.settings().secure_cookies,
    )))
}
