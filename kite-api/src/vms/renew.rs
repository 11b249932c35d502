//! A VM is kept for another week.

use axum::extract::State;
use kite_rest::{Answer, IfMatch, Path, Problem, Query};
use serde_json::json;

use super::power::power;
use crate::{policy::Action, state::ApiState, vm_view::VmView};
use kite_identity::Caller;

use super::{Found, Named, Owner, find};

/// `POST /api/v1/vms/{name}/renew`
pub(super) async fn renew(
    State(state): State<ApiState>,
    caller: Caller,
    Path(Named { name }): Path<Named>,
    Query(Owner { owner }): Query<Owner>,
    condition: IfMatch,
) -> Result<Answer<VmView>, Problem> {
    let Found { vm, whose, .. } = find(&state, &caller, &name, owner.as_deref()).await?;
    caller.require(Action::RenewVm, whose)?;
    let week = jiff::SignedDuration::from_hours(7 * 24);
    let spec = json!({ "expiresAt": (jiff::Timestamp::now() + week).to_string() });
    power(&state, &caller, &vm, &condition, &spec).await
}
