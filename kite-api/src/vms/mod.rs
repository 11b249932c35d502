//! Virtual machines: list, create, get, edit, delete.

mod checks;
mod data;
mod input;
mod obstacles;
mod power;
mod restore;
mod routes;

use axum::extract::{Path, Query, State};
use kite_core::{
    cluster::{Cluster as _, ObjectKey},
    crd::{KiteUser, KiteVirtualMachine, VmPhase},
    names,
    quantity::Bytes,
};
use kite_identity::{Caller, whose};
use kite_rest::{
    Accepted, Answer, Cache, Change, Created, Deleting, Form, IdempotencyKey, IfMatch, Items,
    Named, Page, Problem, ProblemKind, Sent, Shown, Stamp, edit_noting, judge_edit, judge_new,
    require_future, whole_of_edit, whole_of_new,
};
use kube::ResourceExt as _;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use self::{
    checks::{Demand, UniqueName, check_quota, check_unique},
    data::{check_schedule, check_source, check_volumes},
    input::{Edit, NewVm, check_password, generate_ssh_id, model},
};
pub(crate) use self::{
    checks::{check_image, obstacle_of_offer},
    input::Claim,
    routes::routes,
};

use crate::{
    caches::Caches,
    notices::{forget_end, note_new_vm, note_vm_edit},
    owned::{
        self, Asking, Begun, Owned, Owner, answer, find, find_owner, listed, name_taken, refusal,
        refuse, remove, wait_for_namespace,
    },
    policy::Action,
    state::ApiState,
    vm_fields::NewFields,
    vm_view::VmView,
    vocabulary::VOCABULARY,
};

/// A VM that the caller may see, and whose it is.
type Found = owned::Found<KiteVirtualMachine>;

impl Owned for KiteVirtualMachine {
    const WHAT: &'static str = "VM";
    const PATH: &'static str = "vms";
    const SEE: Action = Action::SeeVm;
    const DELETE: Action = Action::DeleteVm;
    type View = VmView;

    fn copies(caches: &Caches) -> &Cache<Self> {
        &caches.vms
    }

    fn view(&self, state: &ApiState) -> VmView {
        VmView::among(&state.caches().users, self)
    }
}

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

/// `GET /api/v1/vms`
async fn list(
    State(state): State<ApiState>,
    caller: Caller,
    Query(scope): Query<Scope>,
    page: Page,
) -> Result<Answer<Items<Shown<VmView>>>, Problem> {
    let owner = scope.owner.as_deref();
    let namespace = listed(&state, &caller, owner, scope.all, Action::SeeVm).await?;
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

/// `POST /api/v1/vms`
async fn create(
    State(state): State<ApiState>,
    caller: Caller,
    Query(Owner { owner }): Query<Owner>,
    once: IdempotencyKey,
    Sent { input, form }: Sent<NewVm>,
) -> Result<Created<VmView>, Problem> {
    let owner = find_owner(&state, &caller, owner.as_deref(), Action::SeeVm).await?;
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
    if form.names("fromSnapshot") {
        caller.require(Action::CopyVm, whose(caller, owner))?;
    }
    if form.names("volumes") {
        caller.require(Action::AttachVolumes, whose(caller, owner))?;
    }
    if offer.is_none() {
        check_source(state, owner, &mut form).await?;
    }
    check_schedule(&mut form);
    check_volumes(state, owner, &mut form, None).await?;
    let names = ["name", "sshId"].map(|field| form.peek::<String>(field));
    check_password(&mut form, owner, names.each_ref().map(Option::as_deref));
    if form.peek::<String>("domainPrefix").is_some() {
        check_base_domain(state, &mut form);
    }
    let begun = Asking::begin::<KiteVirtualMachine>(state, caller, owner, &once, &form).await?;
    let asking = match begun {
        Begun::Now(asking) => asking,
        Begun::Before(made) => return Ok(made),
    };
    let stamp = asking.stamp.as_ref();
    let made = create_new(state, owner, new, &mut form, offer, stamp).await;
    asking.end(made).await
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
        obstacles.push(name_taken::<KiteVirtualMachine>(&name));
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
        Err(error) => refusal::<KiteVirtualMachine>(error, &name, form),
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
    let Found {
        object: vm,
        owner,
        whose,
    } = find(&state, &caller, &name, owner.as_deref()).await?;
    for action in input.iter().flat_map(|Edit(edit)| &edit.actions) {
        caller.require(*action, whose)?;
    }
    let names = [Some(name.as_str()), Some(vm.spec.ssh_id.as_str())];
    check_password(&mut form, &owner, names);
    check_schedule(&mut form);
    check_volumes(&state, &owner, &mut form, Some(&vm)).await?;
    let Some(Edit(edit)) = input else {
        return form.finish().map(|()| answer(&state, vm.as_ref()));
    };
    // What is wrong whatever was edited meanwhile is told first.
    if !form.is_faulty() {
        condition.check(vm.as_ref())?;
        if edit.actions.is_empty() {
            return Ok(answer(&state, vm.as_ref()));
        }
    }
    // What was its end may stay: who edits something else need not mend it.
    let after = edit.changes.applied_to(&vm.spec);
    let new_end = after.expires_at.as_ref();
    let new_end = new_end.filter(|end| vm.spec.expires_at.as_ref() != Some(*end));
    require_future(
        &mut form,
        "expiresAt",
        new_end,
        "null if the VM is not to expire",
    );
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
    let (found, gone): (Found, _) =
        remove(&state, &caller, &name, owner.as_deref(), &condition).await?;
    // Now that no sweep keeps it again.
    forget_end(&state, &found.owner, &found.object).await;
    Ok(gone)
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

/// Changes fields of the spec of `vm` for a request that has no fields of its own.
async fn act(
    state: &ApiState,
    caller: &Caller,
    vm: &KiteVirtualMachine,
    condition: &IfMatch,
    spec: &Value,
) -> Result<Answer<VmView>, Problem> {
    let form = Form::new(Map::new()).speaking(VOCABULARY);
    let edited = write(state, caller, vm, condition, spec, &form).await?;
    Ok(answer(state, &edited))
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
