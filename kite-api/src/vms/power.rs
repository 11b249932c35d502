//! Switching VMs on and off.

use axum::extract::{Path, Query, State};
use kite_core::crd::{KiteUser, KiteVirtualMachine, PowerState};
use kite_identity::Caller;
use kite_rest::{Answer, IfMatch, Named, Problem, ProblemKind};
use serde_json::json;

use super::{Found, act, obstacles};
use crate::{
    owned::{Owner, find_to},
    policy::Action,
    state::ApiState,
    vm_view::VmView,
};

/// `POST /api/v1/vms/{name}/start`
pub(super) async fn start(
    State(state): State<ApiState>,
    caller: Caller,
    Path(Named { name }): Path<Named>,
    Query(Owner { owner }): Query<Owner>,
    condition: IfMatch,
) -> Result<Answer<VmView>, Problem> {
    let Found {
        object: vm, owner, ..
    } = find_to(Action::PowerVm, &state, &caller, &name, owner.as_deref()).await?;
    require_effect(&vm, &owner)?;
    let is_idle = vm.status.as_ref().is_some_and(|it| it.idle.is_some());
    // One that is idle is off though it is to be on: any edit starts it, and
    // this one is there for that.
    let spec = if is_idle {
        json!({ "powerState": PowerState::On, "restartedAt": now() })
    } else {
        json!({ "powerState": PowerState::On })
    };
    act(&state, &caller, &vm, &condition, &spec).await
}

/// `POST /api/v1/vms/{name}/stop`
pub(super) async fn stop(
    State(state): State<ApiState>,
    caller: Caller,
    Path(Named { name }): Path<Named>,
    Query(Owner { owner }): Query<Owner>,
    condition: IfMatch,
) -> Result<Answer<VmView>, Problem> {
    let Found { object: vm, .. } =
        find_to(Action::PowerVm, &state, &caller, &name, owner.as_deref()).await?;
    let spec = json!({ "powerState": PowerState::Off });
    act(&state, &caller, &vm, &condition, &spec).await
}

/// `POST /api/v1/vms/{name}/restart`
pub(super) async fn restart(
    State(state): State<ApiState>,
    caller: Caller,
    Path(Named { name }): Path<Named>,
    Query(Owner { owner }): Query<Owner>,
    condition: IfMatch,
) -> Result<Answer<VmView>, Problem> {
    let Found {
        object: vm, owner, ..
    } = find_to(Action::PowerVm, &state, &caller, &name, owner.as_deref()).await?;
    require_effect(&vm, &owner)?;
    if vm.spec.power_state == PowerState::Off {
        return Err(Problem::new(
            ProblemKind::Conflict,
            "the VM is off: start it with POST /api/v1/vms/{name}/start",
        ));
    }
    let spec = json!({ "restartedAt": now() });
    act(&state, &caller, &vm, &condition, &spec).await
}

fn now() -> String {
    jiff::Timestamp::now().to_string()
}

/// Refuses to start what would stay off. Of what is being deleted that is told below.
fn require_effect(vm: &KiteVirtualMachine, owner: &KiteUser) -> Result<(), Problem> {
    if vm.metadata.deletion_timestamp.is_some() {
        return Ok(());
    }
    obstacles::to_running(vm, owner, jiff::Timestamp::now()).map_or(Ok(()), Err)
}
