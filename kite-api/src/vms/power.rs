//! Switching VMs on and off.

use axum::extract::{Path, Query, State};
use kite_core::crd::{KiteUser, KiteVirtualMachine, PowerState};
use kite_identity::Caller;
use kite_rest::{Answer, Form, IfMatch, Named, Problem, ProblemKind};
use serde_json::{Value, json};

use super::{Found, obstacles, write};
use crate::{
    owned::{Owner, answer, find},
    policy::Action,
    state::ApiState,
    vm_view::VmView,
    vocabulary::VOCABULARY,
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
    } = find_to_power(&state, &caller, &name, owner.as_deref()).await?;
    require_effect(&vm, &owner)?;
    let is_idle = vm.status.as_ref().is_some_and(|it| it.idle.is_some());
    // One that is idle is off though it is to be on: any edit starts it, and
    // this one is there for that.
    let spec = if is_idle {
        json!({ "powerState": PowerState::On, "restartedAt": now() })
    } else {
        json!({ "powerState": PowerState::On })
    };
    power(&state, &caller, &vm, &condition, &spec).await
}

/// `POST /api/v1/vms/{name}/stop`
pub(super) async fn stop(
    State(state): State<ApiState>,
    caller: Caller,
    Path(Named { name }): Path<Named>,
    Query(Owner { owner }): Query<Owner>,
    condition: IfMatch,
) -> Result<Answer<VmView>, Problem> {
    let Found { object: vm, .. } = find_to_power(&state, &caller, &name, owner.as_deref()).await?;
    let spec = json!({ "powerState": PowerState::Off });
    power(&state, &caller, &vm, &condition, &spec).await
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
    } = find_to_power(&state, &caller, &name, owner.as_deref()).await?;
    require_effect(&vm, &owner)?;
    if vm.spec.power_state == PowerState::Off {
        return Err(Problem::new(
            ProblemKind::Conflict,
            "the VM is off: start it with POST /api/v1/vms/{name}/start",
        ));
    }
    let spec = json!({ "restartedAt": now() });
    power(&state, &caller, &vm, &condition, &spec).await
}

fn now() -> String {
    jiff::Timestamp::now().to_string()
}

async fn find_to_power(
    state: &ApiState,
    caller: &Caller,
    name: &str,
    owner: Option<&str>,
) -> Result<Found, Problem> {
    let found: Found = find(state, caller, name, owner).await?;
    caller.require(Action::PowerVm, found.whose)?;
    Ok(found)
}

/// Refuses to start what would stay off. Of what is being deleted that is told below.
fn require_effect(vm: &KiteVirtualMachine, owner: &KiteUser) -> Result<(), Problem> {
    if vm.metadata.deletion_timestamp.is_some() {
        return Ok(());
    }
    obstacles::to_running(vm, owner, jiff::Timestamp::now()).map_or(Ok(()), Err)
}

async fn power(
    state: &ApiState,
    caller: &Caller,
    vm: &KiteVirtualMachine,
    condition: &IfMatch,
    spec: &Value,
) -> Result<Answer<VmView>, Problem> {
    let form = Form::new(serde_json::Map::new()).speaking(VOCABULARY);
    let edited = write(state, caller, vm, condition, spec, &form).await?;
    Ok(answer(state, &edited))
}
