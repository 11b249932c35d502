//! Who accounts are at sign-in providers, for administrators.

use axum::extract::{Path, State};
use kite_rest::{Done, Problem, ProblemKind};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{find, whose};
use crate::{
    account_action::AccountAction, act::Whose, caller::Caller, identities::take_away,
    state::Accounts,
};

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
    State(state): State<Accounts>,
    caller: Caller,
    Path(OfUser { name, id }): Path<OfUser>,
) -> Result<Done, Problem> {
    let user = find(&state, &caller, &name).await?;
    let whose = whose(&caller, &user);
    caller.require(AccountAction::ManageIdentities, whose)?;
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
