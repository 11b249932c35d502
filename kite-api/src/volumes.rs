//! Volumes, which are disks apart from VMs: list, create, get, edit, delete.

mod input;
mod view;

use std::sync::Arc;

use aide::axum::{ApiRouter, routing::get_with};
use axum::extract::{Path, Query, State};
use kite_core::{
    crd::{KiteUser, KiteVirtualMachine, KiteVolume, VolumePhase},
    quantity::Bytes,
};
use kite_identity::{Caller, whose};
use kite_rest::{
    Answer, Cache, Created, IdempotencyKey, IfMatch, Items, Named, Page, Problem, ProblemKind,
    Sent, judge_edit, openapi::about,
};
use kube::ResourceExt as _;
use schemars::JsonSchema;
use serde::Deserialize;

use self::{
    input::{Edit, NewVolume, model},
    view::VolumeView,
};
use crate::{
    amount::Amount,
    caches::Caches,
    owned::{self, Asking, Begun, New, Owned, Owner, all_of, answer, find_owner, find_to, refuse},
    policy::Action,
    state::ApiState,
};

impl Owned for KiteVolume {
    const WHAT: &'static str = "volume";
    const PATH: &'static str = "volumes";
    const SEE: Action = Action::SeeVolumes;
    const DELETE: Action = Action::DeleteVolumes;
    type View = VolumeView;

    fn copies(caches: &Caches) -> &Cache<Self> {
        &caches.volumes
    }

    fn view(&self, _: &ApiState) -> VolumeView {
        VolumeView::of(self)
    }

    /// One that a VM has, or is to have, stays: the VM would not start any more without it.
    fn kept(&self, state: &ApiState, owner: &KiteUser) -> Option<String> {
        in_use(state, owner, self)
    }
}

/// The paths below `/volumes`.
pub(crate) fn routes() -> ApiRouter<ApiState> {
    use ProblemKind::{Conflict, NotFound, QuotaExceeded, Taken};
    const TAG: &str = "volumes";
    ApiRouter::new()
        .api_route(
            "/volumes",
            get_with(list, about(TAG, "listVolumes", "List volumes", &[NotFound])).post_with(
                create,
                about(
                    TAG,
                    "createVolume",
                    "Create a volume",
                    &[NotFound, Taken, QuotaExceeded, Conflict],
                ),
            ),
        )
        .api_route(
            "/volumes/{name}",
            get_with(
                owned::get::<KiteVolume>,
                about(TAG, "getVolume", "See a volume", &[NotFound]),
            )
            .patch_with(
                patch,
                about(
                    TAG,
                    "editVolume",
                    "Change a volume",
                    &[NotFound, QuotaExceeded, Conflict],
                ),
            )
            .delete_with(
                owned::delete::<KiteVolume>,
                about(
                    TAG,
                    "deleteVolume",
                    "Delete a volume and its data",
                    &[NotFound, Conflict],
                ),
            ),
        )
}

/// Which volumes a request is about.
#[derive(Deserialize, JsonSchema)]
struct Scope {
    /// Name of the account; by default the caller's.
    owner: Option<String>,
    /// Everybody's, for those who may see them.
    #[serde(default)]
    all: bool,
    /// Only those in this phase.
    phase: Option<VolumePhase>,
}

/// `GET /api/v1/volumes`
async fn list(
    State(state): State<ApiState>,
    caller: Caller,
    Query(scope): Query<Scope>,
    page: Page,
) -> Result<Answer<Items<VolumeView>>, Problem> {
    let wanted = |it: &KiteVolume| {
        let is_so = scope.phase.is_none_or(|phase| view::phase(it) == phase);
        is_so && page.wants(view::texts(it))
    };
    let whose = (scope.owner.as_deref(), scope.all);
    owned::list(&state, &caller, whose, &page, wanted).await
}

/// `POST /api/v1/volumes`
async fn create(
    State(state): State<ApiState>,
    caller: Caller,
    Query(Owner { owner }): Query<Owner>,
    once: IdempotencyKey,
    Sent { input, mut form }: Sent<NewVolume>,
) -> Result<Created<VolumeView>, Problem> {
    let owner = find_owner(&state, &caller, owner.as_deref(), KiteVolume::SEE).await?;
    caller.require(Action::MakeVolumes, whose(&caller, &owner))?;
    let begun = Asking::begin::<KiteVolume>(&state, &caller, &owner, &once, &form).await?;
    let asking = match begun {
        Begun::Now(asking) => asking,
        Begun::Before(made) => return Ok(made),
    };
    let others = all_of::<KiteVolume>(&state, &owner);
    let size = form.peek::<Bytes>("size");
    let new = New {
        input,
        object: |NewVolume { name, spec }| KiteVolume::new(&name, spec),
        obstacle: without_room(&owner, &others, size.as_ref(), None),
        model: model(),
    };
    asking.create(&mut form, new).await
}

/// That the quota has no room for a volume of this size beside the others, or `instead_of` one of
/// them. Told sooner here; the wall is the namespace's quota of Kubernetes, and the controller.
fn without_room(
    owner: &KiteUser,
    all: &[Arc<KiteVolume>],
    size: Option<&Bytes>,
    instead_of: Option<&KiteVolume>,
) -> Option<Problem> {
    let quota = owner.spec.effective_quota();
    let most = quota.most_volumes();
    if instead_of.is_none() && all.len() >= usize::try_from(most).unwrap_or(usize::MAX) {
        return Some(Problem::new(
            ProblemKind::QuotaExceeded,
            format!(
                "the quota does not allow so many volumes ({most}): delete one, or ask an \
                 administrator for more"
            ),
        ));
    }
    let size = size?;
    let others = all
        .iter()
        .filter(|it| instead_of.is_none_or(|old| old.uid() != it.uid()));
    let limit = quota.volume_disk();
    let amount = Amount {
        field: "size",
        what: "disk in volumes",
        // Who is above a quota that was lowered may still edit the rest.
        grows: instead_of.is_none_or(|old| *size > old.spec.size),
        asked: size.bytes(),
        value: Some(size.to_string().into()),
        used: others.map(|it| taken(it)).sum(),
        limit: limit.bytes(),
        limit_text: limit.to_string(),
        is_bytes: true,
    };
    amount.is_exceeded().then(|| {
        Problem::new(
            ProblemKind::QuotaExceeded,
            format!(
                "the quota does not allow so large volumes together ({limit}): delete others, ask \
                 for less, or ask an administrator for more"
            ),
        )
        .with_error(amount.into_error())
    })
}

/// Bytes that a volume takes of its owner's quota: not what it asks for in vain.
fn taken(volume: &KiteVolume) -> u64 {
    match volume.status {
        None => volume.spec.size.bytes(),
        Some(_) => volume.charge(),
    }
}

/// `PATCH /api/v1/volumes/{name}`
async fn patch(
    State(state): State<ApiState>,
    caller: Caller,
    Path(Named { name }): Path<Named>,
    Query(Owner { owner }): Query<Owner>,
    condition: IfMatch,
    Sent { input, mut form }: Sent<Edit>,
) -> Result<Answer<VolumeView>, Problem> {
    let make = Action::MakeVolumes;
    let found = find_to::<KiteVolume>(make, &state, &caller, &name, owner.as_deref()).await?;
    let volume = found.object.as_ref();
    if !form.is_faulty() {
        condition.check(volume)?;
    }
    let all = all_of::<KiteVolume>(&state, &found.owner);
    let size = form.peek::<Bytes>("size");
    let obstacle = without_room(&found.owner, &all, size.as_ref(), Some(volume));
    if form.is_faulty() || obstacle.is_some() {
        judge_edit::<Edit, _>(state.store(), &mut form, volume).await;
        refuse(&mut form, obstacle.into_iter().collect())?;
    }
    let Edit(spec) = form.finish_with(input)?;
    if spec.is_empty() {
        return Ok(answer(&state, volume));
    }
    if volume.metadata.deletion_timestamp.is_some() {
        return Err(Problem::new(
            ProblemKind::Conflict,
            "the volume is being deleted: it cannot be changed any more",
        ));
    }
    owned::edit::<Edit, _>(&state, volume, &condition, spec, &mut form).await
}

/// Which VM has a volume, or is to have it, and what to do about that.
fn in_use(state: &ApiState, owner: &KiteUser, volume: &KiteVolume) -> Option<String> {
    let name = volume.name_any();
    let vms = all_of::<KiteVirtualMachine>(state, owner);
    let listing = vms.iter().find(|vm| {
        let is_there = vm.metadata.deletion_timestamp.is_none();
        is_there && vm.spec.volumes.iter().any(|it| it.volume == name)
    });
    if let Some(vm) = listing {
        let vm = vm.name_any();
        return Some(format!(
            "the VM {vm:?} has it in its volumes: take it out of them first, with PATCH \
             /api/v1/vms/{vm}"
        ));
    }
    let attached = volume.status.as_ref()?.attached_to.as_ref()?;
    // Of one that was taken away by force nobody takes that back.
    vms.iter().find(|vm| vm.name_any() == attached.vm)?;
    Some(format!(
        "the VM {:?} still has it, until it has stopped or restarted: delete it then",
        attached.vm
    ))
}
