//! Snapshots of VMs' disks: list, take, get, edit, delete.

mod input;
mod view;

use std::sync::Arc;

use aide::axum::{ApiRouter, routing::get_with};
use axum::extract::{Path, Query, State};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kite_core::{
    crd::{KiteSnapshot, KiteSnapshotSpec, KiteUser, KiteVirtualMachine, SnapshotPhase},
    quantity::Bytes,
};
use kite_identity::{Caller, whose};
use kite_rest::{
    Answer, Cache, Created, Form, IdempotencyKey, IfMatch, Items, Named, Page, Problem,
    ProblemKind, Sent, finish_edit, openapi::about, require_future,
};
use kube::ResourceExt as _;
use schemars::JsonSchema;
use serde::Deserialize;

use self::{
    input::{Edit, NewSnapshot, model},
    view::SnapshotView,
};
use crate::{
    amount::Amount,
    caches::Caches,
    owned::{self, Asking, Begun, New, Owned, Owner, all_of, answer, find_owner, find_to},
    policy::Action,
    state::ApiState,
};

impl Owned for KiteSnapshot {
    const WHAT: &'static str = "snapshot";
    const PATH: &'static str = "snapshots";
    const SEE: Action = Action::SeeSnapshots;
    const DELETE: Action = Action::DeleteSnapshots;
    type View = SnapshotView;

    fn copies(caches: &Caches) -> &Cache<Self> {
        &caches.snapshots
    }

    fn view(&self, _: &ApiState) -> SnapshotView {
        SnapshotView::of(self)
    }

    fn kept(&self, _: &ApiState, _: &KiteUser) -> Option<String> {
        self.spec.protected.then(|| {
            format!(
                "the snapshot is protected: set protected to false first, with PATCH \
                 /api/v1/snapshots/{}",
                self.name_any()
            )
        })
    }
}

/// The paths below `/snapshots`.
pub(crate) fn routes() -> ApiRouter<ApiState> {
    use ProblemKind::{Conflict, NotFound, QuotaExceeded, Taken};
    const TAG: &str = "snapshots";
    ApiRouter::new()
        .api_route(
            "/snapshots",
            get_with(
                list,
                about(TAG, "listSnapshots", "List snapshots", &[NotFound]),
            )
            .post_with(
                create,
                about(
                    TAG,
                    "createSnapshot",
                    "Take a snapshot of a VM's disk",
                    &[NotFound, Taken, QuotaExceeded, Conflict],
                ),
            ),
        )
        .api_route(
            "/snapshots/{name}",
            get_with(
                owned::get::<KiteSnapshot>,
                about(TAG, "getSnapshot", "See a snapshot", &[NotFound]),
            )
            .patch_with(
                patch,
                about(
                    TAG,
                    "editSnapshot",
                    "Change how long a snapshot is kept",
                    &[NotFound, Conflict],
                ),
            )
            .delete_with(
                owned::delete::<KiteSnapshot>,
                about(
                    TAG,
                    "deleteSnapshot",
                    "Delete a snapshot and its data",
                    &[NotFound, Conflict],
                ),
            ),
        )
}

/// Which snapshots a request is about.
#[derive(Deserialize, JsonSchema)]
struct Scope {
    /// Name of the account; by default the caller's.
    owner: Option<String>,
    /// Everybody's, for those who may see them.
    #[serde(default)]
    all: bool,
    /// Only those of VMs of this name.
    vm: Option<String>,
    /// Only those in this phase.
    phase: Option<SnapshotPhase>,
}

/// `GET /api/v1/snapshots`
async fn list(
    State(state): State<ApiState>,
    caller: Caller,
    Query(scope): Query<Scope>,
    page: Page,
) -> Result<Answer<Items<SnapshotView>>, Problem> {
    let wanted = |it: &KiteSnapshot| {
        let is_of = scope.vm.as_ref().is_none_or(|vm| it.spec.vm == *vm);
        let is_so = scope.phase.is_none_or(|phase| view::phase(it) == phase);
        is_of && is_so && page.wants(view::texts(it))
    };
    let whose = (scope.owner.as_deref(), scope.all);
    owned::list(&state, &caller, whose, &page, wanted).await
}

/// `POST /api/v1/snapshots`
async fn create(
    State(state): State<ApiState>,
    caller: Caller,
    Query(Owner { owner }): Query<Owner>,
    once: IdempotencyKey,
    Sent { input, mut form }: Sent<NewSnapshot>,
) -> Result<Created<SnapshotView>, Problem> {
    let owner = find_owner(&state, &caller, owner.as_deref(), KiteSnapshot::SEE).await?;
    caller.require(Action::MakeSnapshots, whose(&caller, &owner))?;
    let vm = find_vm(&state, &owner, &mut form).await?;
    let begun = Asking::begin::<KiteSnapshot>(&state, &caller, &owner, &once, &form).await?;
    let asking = match begun {
        Begun::Now(asking) => asking,
        Begun::Before(made) => return Ok(made),
    };
    let others = all_of::<KiteSnapshot>(&state, &owner);
    let obstacle = without_room(&owner, &others, vm.as_deref());
    // The one that its owner sees: not another that comes under the name meanwhile.
    let vm_uid = vm.and_then(|it| it.uid());
    let new = New {
        input,
        object: |NewSnapshot { name, spec }| {
            KiteSnapshot::new(&name, KiteSnapshotSpec { vm_uid, ..spec })
        },
        obstacle,
        model: model(),
    };
    asking.create(&mut form, new).await
}

/// The VM that the body names; where there is none, that is noted.
async fn find_vm(
    state: &ApiState,
    owner: &KiteUser,
    form: &mut Form,
) -> Result<Option<Arc<KiteVirtualMachine>>, Problem> {
    let Some(name) = form.peek::<String>("vm") else {
        return Ok(None);
    };
    let vm = owned::of::<KiteVirtualMachine>(state, owner, &name).await?;
    match &vm {
        None => form.error("vm", "is no VM of the account: write the name of one"),
        Some(vm) if vm.metadata.deletion_timestamp.is_some() => {
            form.error(
                "vm",
                "is being deleted: no snapshot can be taken of it any more",
            );
        }
        Some(_) => {}
    }
    Ok(vm)
}

/// That the quota has no room for one more of this VM. Told sooner here; the wall is the
/// namespace's quota of Kubernetes, and the controller.
fn without_room(
    owner: &KiteUser,
    others: &[Arc<KiteSnapshot>],
    vm: Option<&KiteVirtualMachine>,
) -> Option<Problem> {
    let quota = owner.spec.effective_quota();
    let most = quota.most_snapshots();
    if others.len() >= usize::try_from(most).unwrap_or(usize::MAX) {
        return Some(Problem::new(
            ProblemKind::QuotaExceeded,
            format!(
                "the quota does not allow so many snapshots ({most}): delete one, or ask an \
                 administrator for more"
            ),
        ));
    }
    let vm = vm?;
    let has = vm
        .status
        .as_ref()
        .and_then(|it| it.disk.as_ref()?.size.clone());
    let size: Bytes = has.unwrap_or_else(|| vm.spec.disk.clone());
    let limit = quota.snapshot_disk();
    let amount = Amount {
        field: "vm",
        what: "disk in snapshots",
        grows: true,
        asked: size.bytes(),
        value: None,
        used: others.iter().map(|it| it.charge()).sum(),
        limit: limit.bytes(),
        limit_text: limit.to_string(),
        is_bytes: true,
    };
    amount.is_exceeded().then(|| {
        Problem::new(
            ProblemKind::QuotaExceeded,
            format!(
                "the quota does not allow so large snapshots together ({limit}; the VM's disk has \
                 {size}): delete others, or ask an administrator for more"
            ),
        )
        .with_error(amount.into_error())
    })
}

/// `PATCH /api/v1/snapshots/{name}`. One that is being deleted can be edited, too: while it is
/// protected its data stays.
async fn patch(
    State(state): State<ApiState>,
    caller: Caller,
    Path(Named { name }): Path<Named>,
    Query(Owner { owner }): Query<Owner>,
    condition: IfMatch,
    Sent { input, mut form }: Sent<Edit>,
) -> Result<Answer<SnapshotView>, Problem> {
    let make = Action::MakeSnapshots;
    let found = find_to::<KiteSnapshot>(make, &state, &caller, &name, owner.as_deref()).await?;
    let snapshot = found.object.as_ref();
    // What was its end may stay: who edits something else need not mend it.
    let end = form.peek::<Time>("keepUntil");
    let end = end.filter(|it| snapshot.spec.keep_until.as_ref() != Some(it));
    let otherwise = "null for as long as its VM";
    require_future(&mut form, "keepUntil", end.as_ref(), otherwise);
    let Edit(spec) = finish_edit(state.store(), &mut form, input, snapshot).await?;
    condition.check(snapshot)?;
    if spec.is_empty() {
        return Ok(answer(&state, snapshot));
    }
    owned::edit::<Edit, _>(&state, snapshot, &condition, spec, &mut form).await
}

/// Why no disk can be made from a snapshot, now or later; none where one can, or may be once
/// it is ready.
pub(crate) fn unusable(snapshot: &KiteSnapshot) -> Option<String> {
    if let Some(why) = snapshot.unreadable() {
        return Some(format!("it cannot be read ({why})"));
    }
    if snapshot.metadata.deletion_timestamp.is_some() {
        return Some("it is being deleted".to_owned());
    }
    match view::phase(snapshot) {
        SnapshotPhase::Pending
        | SnapshotPhase::Freezing
        | SnapshotPhase::Cutting
        | SnapshotPhase::Completing
        | SnapshotPhase::Ready => None,
        SnapshotPhase::Deleting => Some("it is being deleted".to_owned()),
        SnapshotPhase::Failed => Some(format!("there is none: {}", view::told(snapshot))),
        SnapshotPhase::Lost => Some(format!("its data is gone: {}", view::told(snapshot))),
    }
}

/// Whether disks can be made from it now.
pub(crate) fn is_ready(snapshot: &KiteSnapshot) -> bool {
    view::phase(snapshot) == SnapshotPhase::Ready
}

/// Whether it is of this VM, and not of a former one of its name.
pub(crate) fn is_taken_of(snapshot: &KiteSnapshot, vm: &KiteVirtualMachine) -> bool {
    let source = snapshot.status.as_ref().and_then(|it| it.source.as_ref());
    let uid = source
        .map(|it| &it.vm_uid)
        .or(snapshot.spec.vm_uid.as_ref());
    snapshot.spec.vm == vm.name_any() && uid.is_none_or(|it| Some(it) == vm.metadata.uid.as_ref())
}
