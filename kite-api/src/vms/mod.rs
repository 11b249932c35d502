//! Virtual machines: list, create, get, edit, start, stop, delete.

mod checks;
mod input;
mod routes;
mod view;

use std::sync::Arc;

use axum::extract::{Path, Query, State};
use kite_core::{
    cluster::{Cluster as _, ClusterError, ClusterExt as _, ObjectKey},
    crd::{AccessLevel, KiteUser, KiteVirtualMachine, KiteVirtualMachineSpec, PowerState, VmPhase},
    names,
};
use kube::{ResourceExt as _, api::PropagationPolicy};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

pub(crate) use self::{checks::check_image, input::Claim, routes::routes, view::VmView};
use self::{
    checks::{
        Demand, UniqueName, check_quota, check_unique, namespace_not_ready, wait_for_namespace,
    },
    input::{Edit, NewVm, generate_ssh_id},
};
use crate::{
    auth::Caller,
    policy::{Action, Whose},
    problem::{Problem, ProblemKind},
    state::ApiState,
    users::whose,
    web::{
        Accepted, Answer, Created, Deleting, Form, IfMatch, Items, Named, Once, Page, Sent, Shown,
        Stamp, edit, tag_of,
    },
};

/// Whose VMs a request is about.
#[derive(Deserialize, JsonSchema)]
struct Scope {
    /// Name of the account; by default the caller's.
    owner: Option<String>,
    /// Everybody's, for those who may see them.
    #[serde(default)]
    all: bool,
    /// Only those in this phase.
    phase: Option<VmPhase>,
}

/// `?owner=…` of a request about one VM.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct Owner {
    /// Name of the account that the VM belongs to; by default the caller's.
    pub(crate) owner: Option<String>,
}

/// `GET /api/v1/vms`
async fn list(
    State(state): State<ApiState>,
    caller: Caller,
    Query(scope): Query<Scope>,
    page: Page,
) -> Result<Answer<Items<Shown<VmView>>>, Problem> {
    let namespace = if scope.all {
        caller.require(Action::SeeVm, Whose::Other(AccessLevel::Admin))?;
        None
    } else {
        let owner = find_owner(&state, &caller, scope.owner.as_deref())?;
        caller.require(Action::SeeVm, whose(&caller, &owner))?;
        Some(names::user_namespace(&owner.name_any()))
    };
    let vms = state.caches().vms.list_shown(namespace.as_deref(), |vm| {
        scope.phase.is_none_or(|phase| VmView::phase(vm) == phase) && page.wants(VmView::texts(vm))
    });
    let items = page.cut_by(
        &vms,
        |(vm, _)| vm.as_ref(),
        |(vm, shown)| Shown::new(shown.as_ref(), || VmView::of(vm)),
    );
    Ok(Answer::new(items))
}

/// `GET /api/v1/vms/{name}`
async fn get(
    State(state): State<ApiState>,
    caller: Caller,
    Path(Named { name }): Path<Named>,
    Query(Owner { owner }): Query<Owner>,
) -> Result<Answer<VmView>, Problem> {
    let found = find(&state, &caller, &name, owner.as_deref())?;
    Ok(answer(&found.vm))
}

/// A VM with the tag by which it is edited.
fn answer<const STATUS: u16>(vm: &KiteVirtualMachine) -> Answer<VmView, STATUS> {
    Answer::new(VmView::of(vm)).tagged(&tag_of(vm))
}

/// `POST /api/v1/vms`
async fn create(
    State(state): State<ApiState>,
    caller: Caller,
    Query(Owner { owner }): Query<Owner>,
    once: Once,
    Sent { input, form }: Sent<NewVm>,
) -> Result<Created<VmView>, Problem> {
    let owner = find_owner(&state, &caller, owner.as_deref())?;
    caller.require(Action::CreateVm, whose(&caller, &owner))?;
    make(&state, &caller, &owner, once, input, form, None).await
}

/// Creates a VM of `owner`, from an offer if one is named.
pub(crate) async fn make(
    state: &ApiState,
    caller: &Caller,
    owner: &KiteUser,
    once: Once,
    new: Option<NewVm>,
    mut form: Form,
    offer: Option<String>,
) -> Result<Created<VmView>, Problem> {
    let (image, disk) = match &new {
        Some(new) => (Some(new.image.clone()), Some(new.disk.clone())),
        None => (form.peek("image"), form.peek("disk")),
    };
    check_image(state, &mut form, image, disk);
    if form.peek::<String>("domainPrefix").is_some() {
        check_base_domain(state, &mut form);
    }
    let new = form.finish_with(new)?;
    let stamp = once.stamp(caller, &form);
    let namespace = names::user_namespace(&owner.name_any());
    let key = ObjectKey::namespaced(&namespace, &new.settings.name);
    let known = &state.caches().vms;
    if let Some(made) = made_by(state, caller, owner, &once, &form)? {
        return Ok(made);
    }
    if known.get(&key).is_some() {
        return Err(name_taken(&key.name));
    }
    match create_new(state, owner, &key, new, &form, offer, stamp.as_ref()).await {
        Ok(made) => {
            known.caught_up_with(&made).await;
            tracing::info!(by = caller.name(), vm = %key, "created a VM");
            Ok(created(&made))
        }
        Err(problem) => {
            // Perhaps an earlier try, whose answer was lost, is what stands in
            // the way: by its name, or by what it takes of the quota.
            let Some(stamp) = stamp else {
                return Err(problem);
            };
            // What cannot be looked for (by a name that is none) is not there.
            match state.cluster().find::<KiteVirtualMachine>(&key).await {
                Ok(Some(made)) if stamp.is_on(&made) => {
                    stamp.check(&made)?;
                    Ok(created(&made).replayed(true))
                }
                _ => Err(problem),
            }
        }
    }
}

/// The answer that the same request was given before, if it is known here that
/// it was.
pub(crate) fn made_by(
    state: &ApiState,
    caller: &Caller,
    owner: &KiteUser,
    once: &Once,
    form: &Form,
) -> Result<Option<Created<VmView>>, Problem> {
    let Some(stamp) = once.stamp(caller, form) else {
        return Ok(None);
    };
    let namespace = names::user_namespace(&owner.name_any());
    let made = state
        .caches()
        .vms
        .find(|vm| vm.metadata.namespace.as_deref() == Some(&namespace) && stamp.is_on(vm));
    let Some(made) = made else {
        return Ok(None);
    };
    stamp.check(made.as_ref())?;
    Ok(Some(created(&made).replayed(true)))
}

fn created(vm: &KiteVirtualMachine) -> Created<VmView> {
    answer(vm).at(&format!("/api/v1/vms/{}", vm.name_any()))
}

async fn create_new(
    state: &ApiState,
    owner: &KiteUser,
    key: &ObjectKey,
    new: NewVm,
    form: &Form,
    offer: Option<String>,
    stamp: Option<&Stamp>,
) -> Result<KiteVirtualMachine, Problem> {
    let demand = Demand {
        cpu: new.cpu,
        memory: &new.memory,
        disk: &new.disk,
    };
    check_quota(state, owner, &demand, None)?;
    let settings = new.settings;
    let ssh_id = choose_ssh_id(state, settings.ssh_id, &settings.name).await?;
    if let Some(prefix) = &settings.domain_prefix {
        check_unique(state, UniqueName::Domain(prefix), None).await?;
    }
    wait_for_namespace(state, owner).await?;

    let mut vm = KiteVirtualMachine::new(
        &key.name,
        KiteVirtualMachineSpec {
            power_state: settings.power_state,
            ssh_password_hash: match settings.ssh_password {
                Some(password) => Some(state.passwords().hash(password).await?),
                None => None,
            },
            ssh_public_keys: settings.ssh_public_keys,
            domain_prefix: settings.domain_prefix,
            expires_at: settings.expires_at,
            expiry_grace_period: settings.expiry_grace_period,
            idle_timeout: settings.idle_timeout,
            start_on_connect: settings.start_on_connect,
            ssh_login: settings.ssh_login,
            offer,
            ..KiteVirtualMachineSpec::new(new.cpu, new.memory, new.disk, new.image, ssh_id)
        },
    );
    vm.metadata.namespace.clone_from(&key.namespace);
    if let Some(stamp) = stamp {
        stamp.mark(&mut vm);
    }
    match state.cluster().create(&vm).await {
        Err(ClusterError::AlreadyExists { .. }) => Err(name_taken(&key.name)),
        Err(ClusterError::NotFound { .. }) => Err(namespace_not_ready()),
        created => created.map_err(|error| form.blame(error)),
    }
}

/// `PATCH /api/v1/vms/{name}`
async fn patch(
    State(state): State<ApiState>,
    caller: Caller,
    Path(Named { name }): Path<Named>,
    Query(Owner { owner }): Query<Owner>,
    condition: IfMatch,
    Sent { input, mut form }: Sent<Edit>,
) -> Result<Answer<VmView>, Problem> {
    let Found { vm, owner, whose } = find(&state, &caller, &name, owner.as_deref())?;
    let edit = form.finish_with(input)?;
    for action in &edit.actions {
        caller.require(*action, whose)?;
    }
    if edit.is_empty() {
        return Ok(answer(&vm));
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
    let edited = write(&state, &caller, &vm, &condition, &spec.into(), &form).await?;
    Ok(answer(&edited))
}

/// `POST /api/v1/vms/{name}/start`
async fn start(
    State(state): State<ApiState>,
    caller: Caller,
    Path(Named { name }): Path<Named>,
    Query(Owner { owner }): Query<Owner>,
) -> Result<Answer<VmView>, Problem> {
    let vm = find_to_power(&state, &caller, &name, owner.as_deref())?;
    let is_idle = vm.status.as_ref().is_some_and(|it| it.idle.is_some());
    // One that is idle is off though it is to be on: any edit starts it, and
    // this one is there for that.
    let spec = if is_idle {
        json!({ "powerState": PowerState::On, "restartedAt": now() })
    } else {
        json!({ "powerState": PowerState::On })
    };
    power(&state, &caller, &vm, &spec).await
}

/// `POST /api/v1/vms/{name}/stop`
async fn stop(
    State(state): State<ApiState>,
    caller: Caller,
    Path(Named { name }): Path<Named>,
    Query(Owner { owner }): Query<Owner>,
) -> Result<Answer<VmView>, Problem> {
    let vm = find_to_power(&state, &caller, &name, owner.as_deref())?;
    power(
        &state,
        &caller,
        &vm,
        &json!({ "powerState": PowerState::Off }),
    )
    .await
}

/// `POST /api/v1/vms/{name}/restart`
async fn restart(
    State(state): State<ApiState>,
    caller: Caller,
    Path(Named { name }): Path<Named>,
    Query(Owner { owner }): Query<Owner>,
) -> Result<Answer<VmView>, Problem> {
    let vm = find_to_power(&state, &caller, &name, owner.as_deref())?;
    if vm.spec.power_state == PowerState::Off {
        return Err(Problem::new(
            ProblemKind::Conflict,
            "the VM is off: start it with POST /api/v1/vms/{name}/start",
        ));
    }
    power(&state, &caller, &vm, &json!({ "restartedAt": now() })).await
}

fn now() -> String {
    jiff::Timestamp::now().to_string()
}

fn find_to_power(
    state: &ApiState,
    caller: &Caller,
    name: &str,
    owner: Option<&str>,
) -> Result<Arc<KiteVirtualMachine>, Problem> {
    let Found { vm, whose, .. } = find(state, caller, name, owner)?;
    caller.require(Action::PowerVm, whose)?;
    Ok(vm)
}

async fn power(
    state: &ApiState,
    caller: &Caller,
    vm: &KiteVirtualMachine,
    spec: &Value,
) -> Result<Answer<VmView>, Problem> {
    let form = Form::new(serde_json::Map::new());
    let edited = write(state, caller, vm, &IfMatch::default(), spec, &form).await?;
    Ok(answer(&edited))
}

/// `DELETE /api/v1/vms/{name}`
async fn delete(
    State(state): State<ApiState>,
    caller: Caller,
    Path(Named { name }): Path<Named>,
    Query(Owner { owner }): Query<Owner>,
) -> Result<Accepted<Deleting>, Problem> {
    let Found { vm, whose, .. } = find(&state, &caller, &name, owner.as_deref())?;
    caller.require(Action::DeleteVm, whose)?;
    state
        .cluster()
        .remove(vm.as_ref(), PropagationPolicy::Background)
        .await?;
    state.caches().vms.caught_up_with_deletion(&vm).await;
    tracing::info!(by = caller.name(), vm = %ObjectKey::of(vm.as_ref()), "deleted a VM");
    Ok(Deleting::of(name))
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
    condition: &IfMatch,
    spec: &Value,
    form: &Form,
) -> Result<KiteVirtualMachine, Problem> {
    if vm.metadata.deletion_timestamp.is_some() {
        return Err(Problem::new(
            ProblemKind::Conflict,
            "the VM is being deleted: it cannot be changed any more",
        ));
    }
    let fields: Vec<&String> = spec
        .as_object()
        .map(|spec| spec.keys().collect())
        .unwrap_or_default();
    tracing::info!(by = caller.name(), vm = %ObjectKey::of(vm), ?fields, "edits a VM");
    edit(state, &state.caches().vms, vm, condition, spec, form).await
}

/// The login name that was asked for, if it is free, or one that is.
async fn choose_ssh_id(
    state: &ApiState,
    asked: Option<String>,
    name: &str,
) -> Result<String, Problem> {
    if let Some(asked) = asked {
        check_unique(state, UniqueName::SshId(&asked), None).await?;
        return Ok(asked);
    }
    let mut generated = generate_ssh_id(name);
    for _ in 0..4 {
        match check_unique(state, UniqueName::SshId(&generated), None).await {
            Err(problem) if problem.kind() == ProblemKind::Taken => {
                generated = generate_ssh_id(name);
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
