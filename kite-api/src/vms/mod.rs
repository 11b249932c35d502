//! Virtual machines: list, create, get, edit, start, stop, delete.

mod checks;
mod input;
mod view;

use std::sync::Arc;

use axum::{
    Json,
    extract::{Path, Query, State},
    response::{IntoResponse as _, Response},
};
use http::{HeaderValue, StatusCode, header};
use kite_core::{
    cluster::{Cluster as _, ClusterError, ClusterExt as _, FieldManager, ObjectKey},
    crd::{AccessLevel, KiteUser, KiteVirtualMachine, KiteVirtualMachineSpec, PowerState},
    names,
};
use kube::{ResourceExt as _, api::PropagationPolicy};
use serde::Deserialize;
use serde_json::{Value, json};

pub(crate) use self::checks::check_image;
use self::{
    checks::{
        Demand, UniqueName, check_quota, check_unique, namespace_not_ready, wait_for_namespace,
    },
    input::{Edit, NewVm, generate_ssh_id},
    view::VmView,
};
use crate::{
    auth::Caller,
    policy::{Action, Whose},
    problem::{Problem, ProblemKind},
    state::ApiState,
    users::whose,
    web::{Form, Items},
};

/// Whose VMs a request is about.
#[derive(Deserialize)]
pub(crate) struct Scope {
    /// Name of the account; by default the caller's.
    owner: Option<String>,
    /// Everybody's. Only for lists.
    #[serde(default)]
    all: bool,
}

/// `?owner=…` of a request about one VM.
#[derive(Deserialize)]
pub(crate) struct Owner {
    pub(crate) owner: Option<String>,
}

/// `GET /api/v1/vms`
pub(crate) async fn list(
    State(state): State<ApiState>,
    caller: Caller,
    Query(scope): Query<Scope>,
) -> Result<Json<Items<VmView>>, Problem> {
    let vms = if scope.all {
        caller.require(Action::SeeVm, Whose::Other(AccessLevel::Admin))?;
        state.caches().vms.list(|_| true)
    } else {
        let owner = find_owner(&state, &caller, scope.owner.as_deref())?;
        caller.require(Action::SeeVm, whose(&caller, &owner))?;
        let namespace = names::user_namespace(&owner.name_any());
        state
            .caches()
            .vms
            .list(|vm| vm.metadata.namespace.as_deref() == Some(&namespace))
    };
    Ok(Json(Items {
        items: vms.iter().map(|vm| VmView::of(vm)).collect(),
    }))
}

/// `GET /api/v1/vms/{name}`
pub(crate) async fn get(
    State(state): State<ApiState>,
    caller: Caller,
    Path(name): Path<String>,
    Query(Owner { owner }): Query<Owner>,
) -> Result<Json<VmView>, Problem> {
    let found = find(&state, &caller, &name, owner.as_deref())?;
    Ok(Json(VmView::of(&found.vm)))
}

/// `POST /api/v1/vms`
pub(crate) async fn create(
    State(state): State<ApiState>,
    caller: Caller,
    Query(Owner { owner }): Query<Owner>,
    form: Form,
) -> Result<Response, Problem> {
    let owner = find_owner(&state, &caller, owner.as_deref())?;
    caller.require(Action::CreateVm, whose(&caller, &owner))?;
    make(&state, &caller, &owner, form, None).await
}

/// Creates a VM of `owner`, from an offer if one is named.
pub(crate) async fn make(
    state: &ApiState,
    caller: &Caller,
    owner: &KiteUser,
    mut form: Form,
    offer: Option<String>,
) -> Result<Response, Problem> {
    let new = NewVm::read(&mut form);
    check_image(state, &mut form);
    if form.peek::<String>("domainPrefix").is_some() {
        check_base_domain(state, &mut form);
    }
    form.finish()?;
    let Some(new) = new else {
        return Err(Problem::invalid(Vec::new()));
    };
    let key = ObjectKey::namespaced(names::user_namespace(&owner.name_any()), &new.name);
    if state.caches().vms.get(&key).is_some() {
        return Err(name_taken(&new.name));
    }
    let demand = Demand {
        cpu: new.cpu,
        memory: &new.memory,
        disk: &new.disk,
    };
    check_quota(state, owner, &demand, None)?;
    let ssh_id = choose_ssh_id(state, &new).await?;
    if let Some(prefix) = &new.domain_prefix {
        check_unique(state, UniqueName::Domain(prefix), None).await?;
    }
    wait_for_namespace(state, owner).await?;

    let mut vm = KiteVirtualMachine::new(
        &new.name,
        KiteVirtualMachineSpec {
            power_state: new.power_state,
            ssh_password_hash: match new.ssh_password {
                Some(password) => Some(state.passwords().hash(password).await?),
                None => None,
            },
            ssh_public_keys: new.ssh_public_keys,
            domain_prefix: new.domain_prefix,
            expires_at: new.expires_at,
            expiry_grace_period: new.expiry_grace_period,
            idle_timeout: new.idle_timeout,
            start_on_connect: new.start_on_connect,
            ssh_login: new.ssh_login,
            offer,
            ..KiteVirtualMachineSpec::new(new.cpu, new.memory, new.disk, new.image, ssh_id)
        },
    );
    vm.metadata.namespace.clone_from(&key.namespace);
    let created = match state.cluster().create(&vm).await {
        Err(ClusterError::AlreadyExists { .. }) => return Err(name_taken(&new.name)),
        Err(ClusterError::NotFound { .. }) => return Err(namespace_not_ready()),
        created => created.map_err(|error| form.blame(error))?,
    };
    state.caches().vms.caught_up_with(&created).await;
    tracing::info!(by = caller.name(), vm = %key, "created a VM");
    let mut response = (StatusCode::CREATED, Json(VmView::of(&created))).into_response();
    if let Ok(location) = HeaderValue::from_str(&format!("/api/v1/vms/{}", new.name)) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    Ok(response)
}

/// `PATCH /api/v1/vms/{name}`
pub(crate) async fn patch(
    State(state): State<ApiState>,
    caller: Caller,
    Path(name): Path<String>,
    Query(Owner { owner }): Query<Owner>,
    mut form: Form,
) -> Result<Json<VmView>, Problem> {
    let Found { vm, owner, whose } = find(&state, &caller, &name, owner.as_deref())?;
    let edit = Edit::read(&mut form)?;
    for action in &edit.actions {
        caller.require(*action, whose)?;
    }
    if edit.is_empty() {
        return Ok(Json(VmView::of(&vm)));
    }
    let demand = Demand {
        cpu: edit.cpu.unwrap_or(vm.spec.cpu),
        memory: edit.memory.as_ref().unwrap_or(&vm.spec.memory),
        disk: edit.disk.as_ref().unwrap_or(&vm.spec.disk),
    };
    check_quota(&state, &owner, &demand, Some(&vm))?;
    if let Some(prefix) = &edit.domain_prefix {
        check_base_domain(&state, &mut form);
        form.finish()?;
        let uid = vm.uid();
        check_unique(&state, UniqueName::Domain(prefix), uid.as_deref()).await?;
    }
    let mut spec = edit.spec;
    if let Some(password) = edit.ssh_password {
        let hash = state.passwords().hash(password).await?;
        spec.insert("sshPasswordHash".to_owned(), json!(hash));
    }
    let edited = write(&state, &caller, &vm, spec.into(), &form).await?;
    Ok(Json(VmView::of(&edited)))
}

/// `POST /api/v1/vms/{name}/start`
pub(crate) async fn start(
    state: State<ApiState>,
    caller: Caller,
    name: Path<String>,
    owner: Query<Owner>,
) -> Result<Json<VmView>, Problem> {
    power(state, caller, name, owner, PowerState::On).await
}

/// `POST /api/v1/vms/{name}/stop`
pub(crate) async fn stop(
    state: State<ApiState>,
    caller: Caller,
    name: Path<String>,
    owner: Query<Owner>,
) -> Result<Json<VmView>, Problem> {
    power(state, caller, name, owner, PowerState::Off).await
}

async fn power(
    State(state): State<ApiState>,
    caller: Caller,
    Path(name): Path<String>,
    Query(Owner { owner }): Query<Owner>,
    power: PowerState,
) -> Result<Json<VmView>, Problem> {
    let Found { vm, whose, .. } = find(&state, &caller, &name, owner.as_deref())?;
    caller.require(Action::PowerVm, whose)?;
    let form = Form::new(serde_json::Map::new());
    let mut spec = json!({ "powerState": power });
    let is_idle = vm.status.as_ref().is_some_and(|it| it.idle.is_some());
    if power == PowerState::On && is_idle {
        // It is off though it is to be on: any edit starts it, and this one is
        // there for that.
        spec["restartedAt"] = json!(jiff::Timestamp::now().to_string());
    }
    let edited = write(&state, &caller, &vm, spec, &form).await?;
    Ok(Json(VmView::of(&edited)))
}

/// `DELETE /api/v1/vms/{name}`
pub(crate) async fn delete(
    State(state): State<ApiState>,
    caller: Caller,
    Path(name): Path<String>,
    Query(Owner { owner }): Query<Owner>,
) -> Result<(StatusCode, Json<Value>), Problem> {
    let Found { vm, whose, .. } = find(&state, &caller, &name, owner.as_deref())?;
    caller.require(Action::DeleteVm, whose)?;
    state
        .cluster()
        .remove(vm.as_ref(), PropagationPolicy::Background)
        .await?;
    state.caches().vms.caught_up_with_deletion(&vm).await;
    tracing::info!(by = caller.name(), vm = %ObjectKey::of(vm.as_ref()), "deleted a VM");
    Ok((
        StatusCode::ACCEPTED,
        Json(json!({ "name": name, "deleting": true })),
    ))
}

/// A VM that the caller may see, and whose it is.
pub(crate) struct Found {
    pub(crate) vm: Arc<KiteVirtualMachine>,
    pub(crate) owner: Arc<KiteUser>,
    pub(crate) whose: Whose,
}

pub(crate) fn find(
    state: &ApiState,
    caller: &Caller,
    name: &str,
    owner: Option<&str>,
) -> Result<Found, Problem> {
    let owner = find_owner(state, caller, owner)?;
    let whose = whose(caller, &owner);
    caller.require(Action::SeeVm, whose)?;
    let key = ObjectKey::namespaced(names::user_namespace(&owner.name_any()), name);
    let vm = state
        .caches()
        .vms
        .get(&key)
        .ok_or_else(|| Problem::not_found("VM", name))?;
    Ok(Found { vm, owner, whose })
}

/// The account that a request is about. Who may not see the VMs of others
/// learns nothing of which accounts there are.
fn find_owner(
    state: &ApiState,
    caller: &Caller,
    owner: Option<&str>,
) -> Result<Arc<KiteUser>, Problem> {
    match owner {
        None => Ok(Arc::clone(caller.user())),
        Some(owner) if owner == caller.name() => Ok(Arc::clone(caller.user())),
        Some(owner) => {
            caller.require(Action::SeeVm, Whose::Other(AccessLevel::ReadOnly))?;
            state
                .caches()
                .users
                .get(&ObjectKey::cluster(owner))
                .ok_or_else(|| Problem::not_found("user", owner))
        }
    }
}

/// Changes fields of the spec of `vm` as it was found, and only those.
async fn write(
    state: &ApiState,
    caller: &Caller,
    vm: &KiteVirtualMachine,
    spec: Value,
    form: &Form,
) -> Result<KiteVirtualMachine, Problem> {
    if vm.metadata.deletion_timestamp.is_some() {
        return Err(Problem::new(
            ProblemKind::Conflict,
            "the VM is being deleted: it cannot be changed any more",
        ));
    }
    let key = ObjectKey::of(vm);
    let fields: Vec<&String> = spec
        .as_object()
        .map(|spec| spec.keys().collect())
        .unwrap_or_default();
    tracing::info!(by = caller.name(), vm = %key, ?fields, "edits a VM");
    let patch = json!({ "metadata": { "uid": vm.uid() }, "spec": spec });
    let edited: KiteVirtualMachine = state
        .cluster()
        .edit(FieldManager::API, &key, &patch)
        .await
        .map_err(|error| form.blame(error))?;
    state.caches().vms.caught_up_with(&edited).await;
    Ok(edited)
}

/// The login name that was asked for, if it is free, or one that is.
async fn choose_ssh_id(state: &ApiState, new: &NewVm) -> Result<String, Problem> {
    if let Some(asked) = &new.ssh_id {
        check_unique(state, UniqueName::SshId(asked), None).await?;
        return Ok(asked.clone());
    }
    let mut generated = generate_ssh_id(&new.name);
    for _ in 0..4 {
        match check_unique(state, UniqueName::SshId(&generated), None).await {
            Err(problem) if problem.kind() == ProblemKind::Taken => {
                generated = generate_ssh_id(&new.name);
            }
            checked => return checked.map(|()| generated),
        }
    }
    Err(Problem::new(
        ProblemKind::Taken,
        "no free login name was found: choose one in sshId",
    ))
}

fn check_base_domain(state: &ApiState, form: &mut Form) {
    if state.platform().base_domain.is_none() {
        form.error(
            "domainPrefix",
            "cannot be used: the platform has no base domain; leave it out",
        );
    }
}

fn name_taken(name: &str) -> Problem {
    Problem::field(
        ProblemKind::Taken,
        "name",
        name,
        "is the name of another VM of yours: choose another",
    )
}
