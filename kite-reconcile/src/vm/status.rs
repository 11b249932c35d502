//! What all that is reported of a VM comes to, and how soon that is to be written.

use kite_core::{
    conditions::{self, ConditionStatus, NewCondition},
    crd::{
        Charge, KiteVirtualMachineStatus, VmPhase, VmSize,
        vm_condition::{
            DISK_READY, IMAGE_READY, READY, RESERVED, VIRTUAL_MACHINE_READY, VOLUMES_ATTACHED,
        },
    },
};
use kite_runtime::plan::Urgency;

use super::{
    delete,
    disk::{self, FIRST_START},
    draft::VmDraft,
    hold::Hold,
    reserved,
    volumes::AT_NEXT_START,
};

/// What a VM has to have to be ready. The other conditions tell of what befalls it beside.
const NEEDED: [&str; 5] = [
    RESERVED,
    IMAGE_READY,
    DISK_READY,
    VIRTUAL_MACHINE_READY,
    VOLUMES_ATTACHED,
];

/// How soon a status is to be written. While a VM is on its way to its first
/// start, disks tell every second how far they are, and `KubeVirt` which step it
/// has taken: that can wait. Where it has arrived, and whether it is reached,
/// cannot; that it will be, can.
pub(super) fn urgency(old: &KiteVirtualMachineStatus, new: &KiteVirtualMachineStatus) -> Urgency {
    let is_on_its_way = |status: &KiteVirtualMachineStatus| {
        matches!(
            status.phase,
            None | Some(VmPhase::Pending | VmPhase::Provisioning | VmPhase::Starting)
        )
    };
    let is_same = old.power_state == new.power_state
        && old.observed_generation == new.observed_generation
        && (old.access == new.access || old.access.is_none())
        && disk::is_blocked(old) == disk::is_blocked(new)
        && charged(old) == charged(new);
    if is_same && is_going(old) && is_going(new) {
        return Urgency::Later;
    }
    if !is_same || !is_on_its_way(old) || !is_on_its_way(new) {
        return Urgency::Now;
    }
    let gist = |status: &KiteVirtualMachineStatus| {
        let conditions = status.conditions.iter();
        let conditions = conditions.map(|it| (it.type_.clone(), it.status.clone()));
        let is_reached = status.access.is_some();
        (status.phase, is_reached, conditions.collect::<Vec<_>>())
    };
    if gist(old) == gist(new) {
        Urgency::Later
    } else {
        Urgency::Soon
    }
}

/// Whether it says no more than what a VM that goes waits for: one that leaves something
/// behind says so, too.
fn is_going(status: &KiteVirtualMachineStatus) -> bool {
    let told = conditions::find(&status.conditions, READY);
    status.phase == Some(VmPhase::Deleting)
        && status.access.is_none()
        && told.is_some_and(|told| told.reason == delete::DELETING)
}

/// What the VM is charged with: that its owner's other VMs have to know.
fn charged(status: &KiteVirtualMachineStatus) -> Charge {
    let of = |size: &Option<VmSize>| size.as_ref().map(Charge::from).unwrap_or_default();
    of(&status.granted).or_more(of(&status.asking))
}

/// The phase that the VM is in.
pub(super) fn phase(draft: &VmDraft<'_>) -> VmPhase {
    if let Some(obstacle) = draft.obstacles.first() {
        return obstacle.phase;
    }
    if draft.is_new() && !draft.is_entitled {
        return reserved::phase_without(draft.seen);
    }
    draft.judgement.phase
}

/// The condition `Ready`, in view of the `others`.
pub(super) fn ready(draft: &VmDraft<'_>, others: &[NewCondition]) -> NewCondition {
    if let Some(hold) = Hold::told(draft.vm, draft.seen) {
        return hold.ready();
    }
    let judgement = &draft.judgement;
    let is_flaw = |condition: &&NewCondition| match condition.type_ {
        // A disk that waits for the first start is no flaw of a VM that is off.
        DISK_READY if judgement.phase == VmPhase::Stopped => condition.reason.starts_with("DiskL"),
        // Why that does not come is said by the machine.
        DISK_READY if judgement.phase == VmPhase::Failed && condition.reason == FIRST_START => {
            false
        }
        // That a restart is needed is told by itself.
        VOLUMES_ATTACHED if condition.reason == AT_NEXT_START => false,
        _ => condition.status != ConditionStatus::True,
    };
    // What stands in the way says more than what has not come of it.
    let in_the_way = draft.obstacles.iter().map(|obstacle| &obstacle.condition);
    let reserved = others.iter().filter(|other| other.type_ == RESERVED);
    let needed = others.iter().filter(|other| NEEDED.contains(&other.type_));
    let flaw = reserved.chain(in_the_way).chain(needed).find(is_flaw);
    match flaw {
        Some(flaw) => NewCondition {
            type_: READY,
            status: ConditionStatus::False,
            ..flaw.clone()
        },
        None => NewCondition::new(
            READY,
            true,
            judgement.reason.clone(),
            judgement.message.clone(),
        ),
    }
}
