//! What to do about a VM. Pure: the same spec and the same observations give
//! the same plan.

use std::time::Duration;

use kite_core::{
    crd::{KiteVirtualMachine, KiteVirtualMachineStatus},
    labels::VM_FINALIZER,
};
use kite_render::Vm;

use super::{
    access, delete, disk, draft::VmDraft, expiry, exposed, idle, image, isolation, login, machine,
    moving, observe::Observed, offer, quota, reserved, resize, restart, restore, scheduled,
    unreadable, volumes,
};
use crate::{
    Error,
    plan::Plan,
    stage::{self, Finalizer, Stage},
};

/// The stages, in the order in which they plan and in which their conditions are told.
const STAGES: &[&dyn for<'a> Stage<VmDraft<'a>>] = &[
    &Finalizer(VM_FINALIZER),
    &expiry::Due,
    &reserved::Names,
    &expiry::TooLate,
    &isolation::Isolation,
    &image::Image,
    &quota::Quota,
    &access::Secrets,
    &disk::Disk,
    &restore::Restoring,
    &machine::Machine,
    &volumes::Volumes,
    &access::Access,
    &exposed::Exposure,
    &disk::Growing,
    &restore::Kept,
    &reserved::FormerNames,
    &restart::Required,
    &resize::Resize,
    &login::Login,
    // When it is known that nothing else is in the way.
    &offer::Offer,
    &expiry::End,
    &idle::Idle,
    &scheduled::Scheduled,
    &quota::Asking,
    // What was changed with it must be in place before it.
    &restart::Restarting,
    &moving::Moving,
];

/// What to do about the VM `object`, given what was observed.
///
/// # Errors
/// [`Error::Render`] if the object has no name, namespace or uid from which others can be made,
/// or its user data cannot be rendered.
pub fn plan(
    object: &KiteVirtualMachine,
    seen: &Observed,
) -> Result<Plan<KiteVirtualMachineStatus>, Error> {
    let vm = Vm::of(object)?;
    if object.metadata.deletion_timestamp.is_some() {
        return Ok(delete::plan(&vm, seen));
    }
    if let Some(why) = object.unreadable() {
        return Ok(unreadable::plan(&vm, seen, &why));
    }
    if let Some(why) = &seen.platform.unreadable {
        return Ok(unreadable::plan_beside(&vm, seen, why));
    }
    let mut plan = stage::compose(STAGES, VmDraft::new(&vm, seen))?;
    plan.requeue_after = plan.requeue_after.min(until_next_deadline(&vm, seen));
    Ok(plan)
}

/// When time alone calls for something.
pub(super) fn next_deadline(vm: &Vm<'_>, seen: &Observed) -> Option<jiff::Timestamp> {
    let refused = seen.refused.iter().map(|it| it.until);
    let refused = refused.filter(|at| *at > seen.now);
    let deadline = stage::deadline::<VmDraft<'_>>(STAGES, &(vm, seen));
    refused.chain(deadline).min()
}

/// How long until time alone calls for something.
pub(super) fn until_next_deadline(vm: &Vm<'_>, seen: &Observed) -> Duration {
    next_deadline(vm, seen).map_or(Duration::MAX, |next| {
        Duration::try_from(next.duration_since(seen.now)).unwrap_or_default()
    })
}
