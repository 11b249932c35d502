//! The machine: made once all that it needs is there, on or off as it is to be.

use kite_core::{
    conditions::{ConditionStatus, NewCondition},
    crd::{KiteVirtualMachineStatus, PowerState, vm_condition::VIRTUAL_MACHINE_READY},
    kubevirt::{VirtualMachine, VirtualMachineInstance},
};
use kite_render::{machine, restore};

use super::{
    disks::View, draft::VmDraft, hold::power, image::hardware, isolation, observe::Observed, quota,
    volumes,
};
use crate::stage::{Flow, Stage};

/// The machine of the VM as it may be. What runs can always be switched off, whatever else is
/// in the way. Goes by `machine`, `instance`, `disk`, `image`, `lacks_policies`, `platform`,
/// `volumes`, `claims`, and what says whether it is to be on: `owner`, `activity` and `now`.
pub(super) struct Machine;

impl Stage<VmDraft<'_>> for Machine {
    fn plan(&self, draft: &mut VmDraft<'_>) -> Flow {
        let seen = draft.seen;
        let may_start = draft.is_prepared && draft.has_disk();
        let unprotected = isolation::obstacle(draft.vm, seen).filter(|_| seen.lacks_policies);
        let unfit = unprotected.or_else(|| quota::obstacle(&draft.share, &quota::MACHINE, seen));
        let unfit = unfit.or_else(|| volumes::obstacle(draft.vm, seen));
        let unfit = unfit.filter(|_| may_start && seen.machine.is_none());
        if let Some(unfit) = unfit {
            // Its spec was edited after its disk was made, its network policies were taken down, or
            // it waits for a volume.
            draft.obstacles.push(unfit);
        } else if may_start || seen.machine.is_some() {
            let fitted = draft.fitted();
            let vm = &draft.as_fitted(&fitted);
            let mut desired = machine::virtual_machine_for(vm, hardware(seen), power(vm, seen));
            machine::ask(&mut desired, &seen.platform.nameservers);
            volumes::attach(&mut desired, vm, seen);
            point(&mut desired, draft);
            draft.wanted(&desired, seen.machine.as_ref());
            draft.refuse_if_changed();
        }
        Flow::Next
    }

    fn condition(&self, draft: &VmDraft<'_>) -> Option<NewCondition> {
        let (seen, judgement) = (draft.seen, &draft.judgement);
        if let Some(said) = draft.said(VIRTUAL_MACHINE_READY) {
            return Some(said);
        }
        let refused = draft.share.refusal(&quota::MACHINE);
        let (status, reason, message) = match refused.filter(|_| seen.machine.is_some()) {
            Some(why) => (ConditionStatus::False, "QuotaExceeded", why),
            None if seen.machine.is_none() && judgement.status == ConditionStatus::True => (
                ConditionStatus::False,
                "NotMade",
                "the VirtualMachine is not made yet",
            ),
            None => (
                judgement.status,
                judgement.reason.as_str(),
                judgement.message.as_str(),
            ),
        };
        Some(NewCondition::new(
            VIRTUAL_MACHINE_READY,
            status,
            reason,
            message,
        ))
    }

    fn report(&self, draft: &VmDraft<'_>, status: &mut KiteVirtualMachineStatus) {
        let instance = draft.seen.instance.as_ref().and_then(Alive::of);
        status.power_state = Some(if instance.as_ref().is_some_and(|it| it.runs) {
            PowerState::On
        } else {
            PowerState::Off
        });
        status.node_name = instance.as_ref().and_then(|it| it.node.clone());
        status.ip_address = instance.and_then(|it| it.address);
    }
}

/// Has the machine point at the disk that is decided; else at the one that it has.
fn point(desired: &mut VirtualMachine, draft: &VmDraft<'_>) {
    if let Some((disk, mark)) = &draft.point {
        restore::point(desired, disk, mark.as_ref());
        return;
    }
    keep_disk(desired, &draft.view, draft.seen);
}

/// Leaves the machine at the disk that it has, or that the VM has where there is none yet.
pub(super) fn keep_disk(desired: &mut VirtualMachine, view: &View<'_>, seen: &Observed) {
    let pointed = view.machine.map(|it| it.disk);
    let has = || seen.disk_name(view.vm);
    let mark = match (&pointed, &seen.machine) {
        (Some(_), Some(machine)) => restore::mark_of(&machine.metadata),
        _ => view.mark_of(&has()),
    };
    let disk = pointed.map_or_else(has, str::to_owned);
    restore::point(desired, &disk, mark.as_ref());
}

/// What is reported of an instance that has not ended.
struct Alive {
    runs: bool,
    node: Option<String>,
    address: Option<String>,
}

impl Alive {
    fn of(instance: &VirtualMachineInstance) -> Option<Self> {
        let status = instance.status.as_ref()?;
        let phase = status.phase.as_deref();
        if matches!(phase, Some("Succeeded" | "Failed")) {
            return None;
        }
        Some(Self {
            runs: phase == Some("Running"),
            node: status.node_name.clone(),
            address: status
                .interfaces
                .iter()
                .find_map(|interface| interface.ip_address.clone()),
        })
    }
}
