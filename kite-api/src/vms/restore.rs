//! Restoring a VM's disk from a snapshot, and taking that back.

use std::{sync::Arc, time::Duration};

use axum::extract::{Path, Query, State};
use jiff::Timestamp;
use kite_core::{
    cluster::{ClusterExt as _, ObjectKey},
    conditions,
    crd::{KiteSnapshot, KiteUser, KiteVirtualMachine, RestoreRequest, vm_condition::RESTORED},
    span::Span,
};
use kite_identity::Caller;
use kite_rest::{Answer, Form, IfMatch, Input, Named, Problem, ProblemKind, Sent};
use kube::ResourceExt as _;
use schemars::{JsonSchema as _, Schema, SchemaGenerator};
use serde_json::{Value, json};

use super::{Found, act, obstacles, write};
use crate::{
    owned::{self, Owner, all_of, answer, find_to},
    policy::Action,
    snapshots::{is_ready, is_taken_of, unusable},
    state::ApiState,
    vm_view::VmView,
};

/// How far ahead of our clock that of whoever asked before may be: what is asked for later than
/// that is meant for then.
const AHEAD: Duration = Duration::from_secs(300);

/// What a VM's disk is to be made from anew.
pub(super) struct Restore {
    snapshot: Option<String>,
    disk: Option<String>,
    keep: Option<Span>,
}

impl Input for Restore {
    const NAME: &'static str = "Restore";

    fn example() -> Option<Value> {
        Some(json!({"snapshot": "before-the-update", "keep": "72h"}))
    }

    fn read(form: &mut Form) -> Option<Self> {
        let snapshot: Option<String> = form.optional("snapshot");
        let disk: Option<String> = form.optional("disk");
        let keep = form.optional("keep");
        match (&snapshot, &disk) {
            (Some(_), Some(_)) => form.error(
                "disk",
                "cannot be named beside a snapshot: leave one of them out",
            ),
            (None, None) if !form.is_faulty() => form.error(
                "snapshot",
                "is missing: write the name of a snapshot of the VM, or that of a former disk \
                 into disk",
            ),
            _ => {}
        }
        Some(Self {
            snapshot,
            disk,
            keep,
        })
    }

    fn resource(generator: &mut SchemaGenerator) -> Option<Schema> {
        Some(RestoreRequest::json_schema(generator))
    }
}

/// `POST /api/v1/vms/{name}/restore`
pub(super) async fn restore(
    State(state): State<ApiState>,
    caller: Caller,
    Path(Named { name }): Path<Named>,
    Query(Owner { owner }): Query<Owner>,
    condition: IfMatch,
    Sent { input, mut form }: Sent<Restore>,
) -> Result<Answer<VmView>, Problem> {
    let found = find_now(&state, &caller, &name, owner.as_deref()).await?;
    let vm = found.object.as_ref();
    if let Some(name) = input.as_ref().and_then(|it| it.snapshot.as_deref()) {
        check_snapshot(&state, &found.owner, vm, name, &mut form).await?;
    }
    if let Some(name) = input.as_ref().and_then(|it| it.disk.as_deref()) {
        check_disk(vm, name, &mut form);
    }
    let Restore {
        snapshot,
        disk,
        keep,
    } = form.finish_with(input)?;
    condition.check(vm)?;
    if let Some(why) = obstacles::unreadable(vm) {
        return Err(Problem::new(ProblemKind::Conflict, why));
    }
    let at = moment(vm, Timestamp::now())?;
    let keep = keep.or_else(|| kept(vm));
    let asked = json!({
        "snapshot": snapshot, "disk": disk, "keep": keep, "at": at.to_string(),
    });
    // Whoever asks for another one at the same moment would be told of a field that they have
    // not written.
    let condition = condition.as_found(vm);
    let spec = json!({ "restore": asked });
    let edited = write(&state, &caller, vm, &condition, &spec, &form).await?;
    Ok(answer(&state, &edited))
}

/// `DELETE /api/v1/vms/{name}/restore`: what has not been done yet is not done any more.
pub(super) async fn cancel(
    State(state): State<ApiState>,
    caller: Caller,
    Path(Named { name }): Path<Named>,
    Query(Owner { owner }): Query<Owner>,
    condition: IfMatch,
) -> Result<Answer<VmView>, Problem> {
    let found = find_now(&state, &caller, &name, owner.as_deref()).await?;
    let vm = found.object.as_ref();
    condition.check(vm)?;
    // One that cannot be read counts as none, and is in the way of everything.
    if vm.spec.restore.is_none() && vm.spec.unreadable.is_none() {
        return Ok(answer(&state, vm));
    }
    if let Some(why) = carried_out(vm) {
        return Err(Problem::new(ProblemKind::Conflict, why));
    }
    let condition = condition.as_found(vm);
    let spec = json!({ "restore": null });
    act(&state, &caller, vm, &condition, &spec).await
}

/// The VM as the API server has it: what is decided here rests on its status, and on what was
/// asked for last, which a copy may be behind of.
async fn find_now(
    state: &ApiState,
    caller: &Caller,
    name: &str,
    owner: Option<&str>,
) -> Result<Found, Problem> {
    let mut found: Found = find_to(Action::RestoreVm, state, caller, name, owner).await?;
    let key = ObjectKey::of(found.object.as_ref());
    let now = state.cluster().get_opt::<KiteVirtualMachine>(&key).await?;
    let now = now.ok_or_else(|| Problem::not_found("VM", name))?;
    found.object = Arc::new(now);
    Ok(found)
}

/// That the restore was carried out, or may have been: without it in the spec, the disk from
/// before would be kept for a shorter time than was asked for.
fn carried_out(vm: &KiteVirtualMachine) -> Option<String> {
    let status = vm.status.as_ref()?;
    if status.observed_generation != vm.metadata.generation {
        return Some(
            "the controller has not seen the last edit of the VM yet: try again".to_owned(),
        );
    }
    let restored = conditions::find(&status.conditions, RESTORED);
    restored.is_some_and(|it| it.status == "True").then(|| {
        "the restore was carried out, and there is nothing to take back: put a former disk back by \
         its name in disk (status.formerDisks)"
            .to_owned()
    })
}

/// For how long disks from before are kept at present: who restores once more, and does not say
/// for how long, has them no shorter.
fn kept(vm: &KiteVirtualMachine) -> Option<Span> {
    let has_former = vm
        .status
        .as_ref()
        .is_some_and(|it| !it.former_disks.is_empty());
    let restore = vm.spec.restore.as_ref().filter(|_| has_former)?;
    restore.keep.clone()
}

/// Notes or tells why the disk cannot be made from the snapshot of this name.
async fn check_snapshot(
    state: &ApiState,
    owner: &KiteUser,
    vm: &KiteVirtualMachine,
    name: &str,
    form: &mut Form,
) -> Result<(), Problem> {
    let snapshot = owned::of::<KiteSnapshot>(state, owner, name).await?;
    let Some(snapshot) = snapshot else {
        form.error(
            "snapshot",
            format!("is no snapshot: {}", of_vm(state, owner, vm)),
        );
        return Ok(());
    };
    if !is_taken_of(&snapshot, vm) {
        form.error(
            "snapshot",
            format!(
                "is of another VM ({}): create a VM from it with fromSnapshot, or {}",
                snapshot.spec.vm,
                of_vm(state, owner, vm)
            ),
        );
        return Ok(());
    }
    let is_on_its_way = || "it is not ready yet: restore it once its phase is Ready".to_owned();
    let why = unusable(&snapshot).or_else(|| (!is_ready(&snapshot)).then(is_on_its_way));
    match why {
        Some(why) if !form.is_faulty() => Err(Problem::new(
            ProblemKind::Conflict,
            format!("the snapshot {name:?} cannot be restored: {why}"),
        )),
        _ => Ok(()),
    }
}

/// Which snapshots to choose among, in the words after "or".
fn of_vm(state: &ApiState, owner: &KiteUser, vm: &KiteVirtualMachine) -> String {
    let all = all_of::<KiteSnapshot>(state, owner);
    let own = all.iter().filter(|it| is_ready(it) && is_taken_of(it, vm));
    let names: Vec<_> = own.map(|it| it.name_any()).collect();
    match names.as_slice() {
        [] => "take one of this VM, which has none that is ready".to_owned(),
        names => format!("choose one of this VM's, {}", some(names)),
    }
}

/// Notes that the VM has no such former disk.
fn check_disk(vm: &KiteVirtualMachine, name: &str, form: &mut Form) {
    let formers = vm.status.iter().flat_map(|it| &it.former_disks);
    let names: Vec<_> = formers.map(|it| it.name.clone()).collect();
    if names.iter().any(|it| it == name) {
        return;
    }
    let told = match names.as_slice() {
        [] => "the VM has none".to_owned(),
        names => format!("the VM has {}", some(names)),
    };
    form.error(
        "disk",
        format!("is no former disk (status.formerDisks): {told}"),
    );
}

/// As many names as somebody reads.
fn some(names: &[String]) -> String {
    const MOST: usize = 8;
    let rest = names.len().saturating_sub(MOST);
    let told = names[..names.len().min(MOST)].join(", ");
    if rest == 0 {
        told
    } else {
        format!("{told} and {rest} more")
    }
}

/// When a restore is asked for: now, and later than the one before.
fn moment(vm: &KiteVirtualMachine, now: Timestamp) -> Result<Timestamp, Problem> {
    let before = vm.spec.restore.as_ref().map(|it| it.at.0);
    let Some(before) = before.filter(|it| *it >= now) else {
        return Ok(now);
    };
    if before.duration_since(now).unsigned_abs() > AHEAD {
        return Err(Problem::new(
            ProblemKind::Conflict,
            format!(
                "a restore is asked for at {before} already: take that back first, with DELETE \
                 /api/v1/vms/{}/restore",
                vm.name_any()
            ),
        ));
    }
    // By a clock that is ahead of ours.
    Ok(before.checked_add(Duration::from_secs(1)).unwrap_or(before))
}
