//! Who accounts are at sign-in providers, for administrators.

use axum::extract::{Path, State};
use kite_core::crd::Identity;
use kite_rest::{Done, Problem, ProblemKind};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{find, whose};

use crate::{
    auth::Caller,
    identities::take_away,
    policy::{Action, Whose},
    state::ApiState,
};

/// Somebody at a sign-in provider with whom an account is linked.
#[derive(Serialize, JsonSchema)]
pub(super) struct LinkedIdentity {
    /// By which it is unlinked.
    id: String,
    /// Where the provider is.
    issuer: String,
    /// What the provider calls them for ever.
    subject: String,
}

impl LinkedIdentity {
    pub(super) fn of(identity: &Identity) -> Self {
        Self {
            id: identity.id(),
            issuer: identity.issuer.clone(),
            subject: identity.subject.clone(),
        }
    }
}

/// An identity of an account.
#[derive(Deserialize, JsonSchema)]
pub(super) struct OfUser {
    /// Name of the account.
    name: String,
    /// What the account calls the identity.
    id: String,
}

/// `DELETE /api/v1/admin/users/{name}/identities/{id}`: the sessions that began with
/// it are over, on every replica.
pub(super) async fn unlink(
    State(state): State<ApiState>,
    caller: Caller,
    Path(OfUser { name, id }): Path<OfUser>,
) -> Result<Done, Problem> {
    let user = find(&state, &caller, &name).await?;
    let whose = whose(&caller, &user);
    caller.require(Action::ManageIdentities, whose)?;
    if whose == Whose::Own {
        // There it is asked who one is.
        return Err(Problem::new(
            ProblemKind::Conflict,
            "it is your own account: unlink it with DELETE /api/v1/me/identities/{id}",
        ));
    }
    take_away(&state, &user, &id)
        .await
        .map_err(|problem| match problem.kind() {
            ProblemKind::Conflict => Problem::new(
                ProblemKind::Conflict,
                "it is the only way to sign in to the account: give it a password first, or \
                 suspend it",
            ),
            _ => problem,
        })?;
    tracing::info!(by = caller.name(), user = name, "unlinked an identity");
    Ok(Done::default())
}
