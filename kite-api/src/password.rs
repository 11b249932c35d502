//! `POST me/password`: what [`kite_identity::change_password`] does, and which VMs somebody
//! else may get into who had the password before.

use aide::axum::{ApiRouter, routing::post_with};
use axum::extract::State;
use kite_identity::{Caller, Client, NewPassword, SignedIn, change_password};
use kite_rest::{
    Answer, Problem,
    ProblemKind::{Conflict, TooManyRequests, WrongCredentials},
    Sent,
    openapi::about,
};
use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    state::ApiState,
    vm_access::{AccessView, access_since},
};

/// The path `/me/password`.
pub(crate) fn routes() -> ApiRouter<ApiState> {
    ApiRouter::new().api_route(
        "/me/password",
        post_with(
            change,
            about(
                "me",
                "changePassword",
                "Change one's password, which ends all sessions but the new one",
                &[WrongCredentials, TooManyRequests, Conflict],
            ),
        ),
    )
}

/// What a client gets for a new password.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "PasswordChanged")]
struct Changed {
    #[serde(flatten)]
    signed_in: SignedIn,
    /// The account's VMs that have keys or a password of their own since the one before,
    /// also those that were made since, and those of which nobody knows.
    vm_access_since_password: Vec<AccessView>,
}

/// `POST /api/v1/me/password`
async fn change(
    State(state): State<ApiState>,
    caller: Caller,
    client: Client,
    sent: Sent<NewPassword>,
) -> Result<Answer<Changed>, Problem> {
    let changed = change_password(state.accounts(), &caller, &client, sent).await?;
    let vms = access_since(&state, changed.user(), changed.since()).await;
    let answer = changed.sign_in(state.accounts(), &client).await?;
    Ok(answer.map(|signed_in| Changed {
        signed_in,
        vm_access_since_password: vms,
    }))
}
