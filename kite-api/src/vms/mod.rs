//! Virtual machines: list, create, get, edit, delete.

mod checks;
mod input;
mod obstacles;
mod power;
mod routes;

use std::sync::Arc;

use axum::extract::{Path, Query, State};
use kite_core::{
    cluster::{Cluster as _, ClusterError, ClusterExt as _, ObjectKey},
    crd::{AccessLevel, KiteUser, KiteVirtualMachine, VmPhase},
    names,
    quantity::Bytes,
};
use kite_identity::{Caller, whose};
use kite_rest::{
    Accepted, Answer, Change, Created, Deleting, Form, IdempotencyKey, IfMatch, Items, Named, Page,
    Problem, ProblemKind, Sent, Shown, Stamp, audit::note, edit_noting, etag_of, is_label,
    judge_edit, judge_new, present, require_future, whole_of_edit, whole_of_new,
};
use kube::ResourceExt as _;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use self::{
    checks::{
        Demand, UniqueName, check_quota, check_unique, count_is_behind, is_count_exceeded,
        namespace_not_ready, wait_for_namespace,
    },
    input::{Edit, NewVm, check_password, generate_ssh_id, model},
};
pub(crate) use self::{
    checks::{check_image, obstacle_of_offer},
    input::Claim,
    routes::routes,
};

use crate::{
    notices::{forget_end, note_new_vm, note_vm_edit},
    policy::{Action, Whose},
    state::ApiState,
    vm_fields::NewFields,
    vm_view::VmView,
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
        note(|notes| notes.of(None));
        None
    } else {
        let owner = find_owner(&state, &caller, scope.owner.as_deref()).await?;
        caller.require(Action::SeeVm, whose(&caller, &owner))?;
        Some(names::user_namespace(&owner.name_any()))
    };
    let vms = state.caches().vms.list_shown(namespace.as_deref(), |vm| {
        scope.phase.is_none_or(|phase| VmView::phase(vm) == phase) && page.wants(VmView::texts(vm))
    });
    let users = &state.caches().users;
    let items = page.cut_by(
        &vms,
        |(vm, _)| vm.as_ref(),
        |(vm, shown)| {
            // What was written down ahead knows nothing of the owner.
            let shown = shown.as_ref();
            let shown = shown.filter(|_| !VmView::is_of_suspended(users, vm));
            Shown::new(shown, || VmView::among(users, vm))
        },
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
    let found = find(&state, &caller, &name, owner.as_deref()).await?;
    Ok(answer(&state, &found.vm))
}

/// A VM with the tag by which it is edited.
fn answer<const STATUS: u16>(state: &ApiState, vm: &KiteVirtualMachine) -> Answer<VmView, STATUS> {
    Answer::new(VmView::among(&state.caches().users, vm)).with_etag(&etag_of(vm))
}

/// `POST /api/v1/vms`
async fn create(
    State(state): State<ApiState>,
    caller: Caller,
    Query(Owner { owner }): Query<Owner>,
    once: IdempotencyKey,
    Sent { input, form }: Sent<NewVm>,
) -> Result<Created<VmView>, Problem> {
    let owner = find_owner(&state, &caller, owner.as_deref()).await?;
    caller.require(Action::CreateVm, whose(&caller, &owner))?;
    Box::pin(make(&state, &caller, &owner, once, input, form, None)).await
}

/// Creates a VM of `owner`, from an offer if one is named.
pub(crate) async fn make(
    state: &ApiState,
    caller: &Caller,
    owner: &KiteUser,
    once: IdempotencyKey,
    new: Option<NewVm>,
    mut form: Form,
    offer: Option<String>,
) -> Result<Created<VmView>, Problem> {
    let keys = form
        .peek::<Vec<String>>("sshPublicKeys")
        .unwrap_or_default();
    if !keys.is_empty() || form.peek::<String>("sshPassword").is_some() {
        caller.require(Action::GiveVmAccess, whose(caller, owner))?;
    }
    if offer.is_none() {
        let (image, disk) = (form.peek("image"), form.peek("disk"));
        check_image(state, &mut form, image, disk);
    }
    let names = ["name", "sshId"].map(|field| form.peek::<String>(field));
    check_password(&mut form, owner, names.each_ref().map(Option::as_deref));
    if form.peek::<String>("domainPrefix").is_some() {
        check_base_domain(state, &mut form);
    }
    let stamp = stamp_of(&once, caller, owner, &form);
    let name = form.peek::<String>("name").filter(|name| is_label(name));
    let namespace = names::user_namespace(&owner.name_any());
    // What another request for the same is about to make is looked for when it has.
    let _turn = match &name {
        Some(name) => {
            let key = ObjectKey::namespaced(&namespace, name);
            Some(state.creations().of(&key).await)
        }
        None => None,
    };
    // What was in order when it was asked for first may be so no more: its end is past.
    // Of a key that was used for something else it is told when nothing else is wrong.
    match made_by(state, caller, owner, &once, &form).await {
        Ok(Some(made)) => return Ok(made),
        Err(reused) if !form.is_faulty() => return Err(reused),
        Ok(None) | Err(_) => {}
    }
    let known = &state.caches().vms;
    match create_new(state, owner, new, &mut form, offer, stamp.as_ref()).await {
        Ok(made) => {
            known.caught_up_with(&made).await;
            tracing::info!(by = caller.name(), vm = %ObjectKey::of(&made), "created a VM");
            Ok(created(state, caller, owner, &made))
        }
        Err(problem) => {
            // Perhaps an earlier try, whose answer was lost, is what stands in
            // the way: by its name, or by what it takes of the quota.
            let (Some(stamp), Some(name)) = (stamp, name) else {
                return Err(problem);
            };
            let key = ObjectKey::namespaced(namespace, name);
            match state.cluster().get_opt::<KiteVirtualMachine>(&key).await {
                Ok(Some(made)) if stamp.is_on(&made) => match stamp.check(&made) {
                    Ok(()) => {
                        known.caught_up_with(&made).await;
                        Ok(created(state, caller, owner, &made).replayed(true))
                    }
                    Err(_) if problem.kind() == ProblemKind::Invalid => Err(problem),
                    Err(reused) => Err(reused),
                },
                _ => Err(problem),
            }
        }
    }
}

/// The answer that the same request was given before, if it is known here that
/// it was.
pub(crate) async fn made_by(
    state: &ApiState,
    caller: &Caller,
    owner: &KiteUser,
    once: &IdempotencyKey,
    form: &Form,
) -> Result<Option<Created<VmView>>, Problem> {
    let Some(stamp) = stamp_of(once, caller, owner, form) else {
        return Ok(None);
    };
    let Some(made) = state.caches().vms.find(|vm| stamp.is_on(vm)) else {
        return Ok(None);
    };
    stamp.check(made.as_ref())?;
    state.caches().vms.caught_up_with(&made).await;
    Ok(Some(created(state, caller, owner, &made).replayed(true)))
}

/// What a VM of `owner` is marked with. A key is good for one account, too.
fn stamp_of(
    once: &IdempotencyKey,
    caller: &Caller,
    owner: &KiteUser,
    form: &Form,
) -> Option<Stamp> {
    let stamp = once.stamp(&caller.uid(), form)?;
    Some(match whose(caller, owner) {
        Whose::Own => stamp,
        Whose::Other(_) => stamp.of(owner),
    })
}

fn created(
    state: &ApiState,
    caller: &Caller,
    owner: &KiteUser,
    vm: &KiteVirtualMachine,
) -> Created<VmView> {
    let path = format!("/api/v1/vms/{}", vm.name_any());
    answer(state, vm).with_location(&match whose(caller, owner) {
        Whose::Own => path,
        Whose::Other(_) => format!("{path}?owner={}", owner.name_any()),
    })
}

/// Refuses what stands in the way of a body that is in order by itself. Where it is
/// not, that is told with the rest that is wrong with it.
fn refuse(form: &mut Form, obstacles: Vec<Problem>) -> Result<(), Problem> {
    if form.is_faulty() {
        for obstacle in obstacles {
            form.note(obstacle.errors().iter().cloned());
        }
        return form.finish();
    }
    match obstacles.into_iter().reduce(Problem::and) {
        Some(problem) => Err(problem.with_values(|field| form.value_of(field))),
        None => Ok(()),
    }
}

/// What stands in the way of a new VM beside what is wrong with its fields. The
/// second is the login name that it can have.
async fn obstacles(
    state: &ApiState,
    owner: &KiteUser,
    form: &Form,
    demand: &Demand<'_>,
) -> Result<(Vec<Problem>, Option<String>), Problem> {
    let mut obstacles = Vec::new();
    let namespace = names::user_namespace(&owner.name_any());
    let name = form.peek::<String>("name").unwrap_or_default();
    let key = ObjectKey::namespaced(namespace, &name);
    if state.caches().vms.get(&key).is_some() {
        obstacles.push(name_taken(&name));
    }
    obstacles.extend(check_quota(state, owner, demand, None).err());
    let ssh_id = choose_ssh_id(state, owner, form.peek("sshId"), &name).await;
    let ssh_id = taken_or(ssh_id, &mut obstacles, form)?;
    if let Some(prefix) = form.peek::<String>("domainPrefix") {
        let checked = check_unique(state, owner, UniqueName::Domain(&prefix), None).await;
        taken_or(checked, &mut obstacles, form)?;
    }
    Ok((obstacles, ssh_id))
}

/// Sorts what is taken among the obstacles. Other problems end the request, unless it is
/// refused anyhow.
fn taken_or<T>(
    checked: Result<T, Problem>,
    obstacles: &mut Vec<Problem>,
    form: &Form,
) -> Result<Option<T>, Problem> {
    match checked {
        Ok(checked) => Ok(Some(checked)),
        Err(problem) if problem.kind() == ProblemKind::Taken => {
            obstacles.push(problem);
            Ok(None)
        }
        Err(_) if form.is_faulty() => Ok(None),
        Err(problem) => Err(problem),
    }
}

async fn create_new(
    state: &ApiState,
    owner: &KiteUser,
    new: Option<NewVm>,
    form: &mut Form,
    offer: Option<String>,
    stamp: Option<&Stamp>,
) -> Result<KiteVirtualMachine, Problem> {
    let namespace = names::user_namespace(&owner.name_any());
    // Nothing is asked for of what cannot be read.
    let nothing = Bytes::from_gib(0);
    let sizes = ["memory", "disk"].map(|field| form.peek::<Bytes>(field));
    let is_offered = offer.is_some();
    let demand = match &new {
        Some(NewVm(new)) => Demand {
            is_offered,
            cpu: new.spec.cpu,
            memory: &new.spec.memory,
            disk: &new.spec.disk,
        },
        None => Demand {
            is_offered,
            cpu: form.peek("cpu").unwrap_or_default(),
            memory: sizes[0].as_ref().unwrap_or(&nothing),
            disk: sizes[1].as_ref().unwrap_or(&nothing),
        },
    };
    let (obstacles, ssh_id) = obstacles(state, owner, form, &demand).await?;
    let mut model = model(&namespace);
    model.spec.offer.clone_from(&offer);
    if form.is_faulty() || !obstacles.is_empty() {
        judge_new::<NewVm, _>(state.store(), form, &model).await;
        refuse(form, obstacles)?;
    }
    let NewVm(NewFields {
        name,
        mut spec,
        ssh_password,
    }) = form.finish_with(new)?;
    spec.ssh_id = ssh_id.ok_or_else(no_ssh_id)?;
    spec.offer = offer;
    wait_for_namespace(state, owner).await?;
    if let Some(password) = ssh_password {
        spec.ssh_password_hash = Some(state.passwords().hash(password).await?);
    }

    let mut vm = KiteVirtualMachine::new(&name, spec);
    vm.metadata.namespace = Some(namespace);
    note_new_vm(&mut vm);
    if let Some(stamp) = stamp {
        stamp.mark(&mut vm);
    }
    let problem = match state.cluster().create(&vm).await {
        Ok(created) => return Ok(created),
        Err(ClusterError::AlreadyExists { .. }) => name_taken(&name),
        Err(ClusterError::NotFound { .. }) => namespace_not_ready(),
        Err(error) if is_count_exceeded(&error) => count_is_behind(),
        Err(error) => form.blame(error),
    };
    Err(whole_of_new::<NewVm, _>(state.store(), form, problem, &model).await)
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
    let Found { vm, owner, whose } = find(&state, &caller, &name, owner.as_deref()).await?;
    for action in input.iter().flat_map(|Edit(edit)| &edit.actions) {
        caller.require(*action, whose)?;
    }
    let names = [Some(name.as_str()), Some(vm.spec.ssh_id.as_str())];
    check_password(&mut form, &owner, names);
    let Some(Edit(edit)) = input else {
        return form.finish().map(|()| answer(&state, &vm));
    };
    // What is wrong whatever was edited meanwhile is told first.
    if !form.is_faulty() {
        condition.check(vm.as_ref())?;
        if edit.actions.is_empty() {
            return Ok(answer(&state, &vm));
        }
    }
    // What was its end may stay: who edits something else need not mend it.
    let after = edit.changes.applied_to(&vm.spec);
    let new_end = after.expires_at.as_ref();
    let new_end = new_end.filter(|end| vm.spec.expires_at.as_ref() != Some(*end));
    require_future(&mut form, new_end, "null if the VM is not to expire");
    let demand = Demand {
        is_offered: false,
        cpu: after.cpu,
        memory: &after.memory,
        disk: &after.disk,
    };
    let mut obstacles: Vec<Problem> = Vec::new();
    obstacles.extend(check_quota(&state, &owner, &demand, Some(&vm)).err());
    if let Change::Set(Some(prefix)) = &edit.changes.domain_prefix {
        check_base_domain(&state, &mut form);
        let uid = vm.uid();
        let domain = UniqueName::Domain(prefix);
        let checked = check_unique(&state, &owner, domain, uid.as_deref()).await;
        taken_or(checked, &mut obstacles, &form)?;
    }
    obstacles.extend(obstacles::to_edit(
        &vm,
        &owner,
        &edit,
        jiff::Timestamp::now(),
    ));
    if form.is_faulty() || !obstacles.is_empty() {
        judge_edit::<Edit, _>(state.store(), &mut form, vm.as_ref()).await;
        refuse(&mut form, obstacles)?;
    }
    let mut spec = edit.spec;
    if let Some(password) = edit.ssh_password {
        let hash = state.passwords().hash(password).await?;
        spec.insert("sshPasswordHash".to_owned(), json!(hash));
    }
    let edited = write(&state, &caller, &vm, &condition, &spec.into(), &form).await;
    match edited {
        Ok(edited) => Ok(answer(&state, &edited)),
        Err(problem) => {
            Err(whole_of_edit::<Edit, _>(state.store(), &mut form, problem, vm.as_ref()).await)
        }
    }
}

/// `DELETE /api/v1/vms/{name}`
async fn delete(
    State(state): State<ApiState>,
    caller: Caller,
    Path(Named { name }): Path<Named>,
    Query(Owner { owner }): Query<Owner>,
    condition: IfMatch,
) -> Result<Accepted<Deleting>, Problem> {
    let Found { vm, owner, whose } = find(&state, &caller, &name, owner.as_deref()).await?;
    caller.require(Action::DeleteVm, whose)?;
    kite_rest::delete(state.store(), vm.as_ref(), &condition).await?;
    state.caches().vms.caught_up_with_deletion(&vm).await;
    // Now that no sweep keeps it again.
    forget_end(&state, &owner, &vm).await;
    tracing::info!(by = caller.name(), vm = %ObjectKey::of(vm.as_ref()), "deleted a VM");
    Ok(Deleting::of(name))
}

/// A VM that the caller may see, and whose it is.
pub(crate) struct Found {
    pub(crate) vm: Arc<KiteVirtualMachine>,
    pub(crate) owner: Arc<KiteUser>,
    pub(crate) whose: Whose,
}

pub(crate) async fn find(
    state: &ApiState,
    caller: &Caller,
    name: &str,
    owner: Option<&str>,
) -> Result<Found, Problem> {
    let owner = find_owner(state, caller, owner).await?;
    let whose = whose(caller, &owner);
    caller.require(Action::SeeVm, whose)?;
    let key = ObjectKey::namespaced(names::user_namespace(&owner.name_any()), name);
    let vm = present(state.cluster(), &state.caches().vms, &key).await?;
    let vm = vm.ok_or_else(|| Problem::not_found("VM", name))?;
    Ok(Found { vm, owner, whose })
}

/// The account that a request is about. Who may not see the VMs of others
/// learns nothing of which accounts there are.
async fn find_owner(
    state: &ApiState,
    caller: &Caller,
    owner: Option<&str>,
) -> Result<Arc<KiteUser>, Problem> {
    match owner {
        None => Ok(Arc::clone(caller.user())),
        Some(owner) if owner == caller.name() => Ok(Arc::clone(caller.user())),
        Some(owner) => {
            caller.require(Action::SeeVm, Whose::Other(AccessLevel::ReadOnly))?;
            let key = ObjectKey::cluster(owner);
            let found = present(state.cluster(), &state.caches().users, &key).await?;
            let found = found.ok_or_else(|| Problem::not_found("user", owner))?;
            note(|notes| notes.of(Some(owner)));
            Ok(found)
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
    let notes = match spec {
        Value::Object(spec) => note_vm_edit(vm, spec),
        _ => Map::new(),
    };
    let vms = &state.caches().vms;
    edit_noting(state.store(), vms, vm, condition, spec, &notes, form).await
}

/// The login name that was asked for, if it is free, or one that is.
async fn choose_ssh_id(
    state: &ApiState,
    owner: &KiteUser,
    asked: Option<String>,
    name: &str,
) -> Result<String, Problem> {
    if let Some(asked) = asked {
        check_unique(state, owner, UniqueName::SshId(&asked), None).await?;
        return Ok(asked);
    }
    let mut generated = generate_ssh_id(name);
    for _ in 0..4 {
        match check_unique(state, owner, UniqueName::SshId(&generated), None).await {
            Err(problem) if problem.kind() == ProblemKind::Taken => {
                generated = generate_ssh_id(name);
            }
            checked => return checked.map(|()| generated),
        }
    }
    Err(no_ssh_id())
}

fn no_ssh_id() -> Problem {
    Problem::new(
        ProblemKind::Taken,
        "no free login name was found: choose one in sshId",
    )
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
