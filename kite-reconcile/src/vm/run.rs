//! The machine: made once all that it needs is there, on or off as it is to be.

use kite_core::{
    conditions::{ConditionStatus, NewCondition},
    crd::vm_condition::VIRTUAL_MACHINE_READY,
};
use kite_render::{Vm, machine};

use super::{
    draft::{self, Draft, Obstacle},
    hold::power,
    image::hardware,
    machine::Judgement,
    observe::Observed,
    quota::{self, Share},
    walls,
};

impl Draft<'_> {
    /// The machine of the VM as it may be (`fitted`). What runs can always be switched off,
    /// whatever else is in the way.
    pub(super) fn machine(
        &mut self,
        fitted: &Vm<'_>,
        seen: &Observed,
        share: &Share,
        may_start: bool,
    ) {
        let unwalled = walls::obstacle(fitted, seen).filter(|_| seen.is_unwalled);
        let unfit = unwalled.or_else(|| quota::obstacle(share, &quota::MACHINE, seen));
        let unfit = unfit.filter(|_| may_start && seen.machine.is_none());
        if let Some(unfit) = unfit {
            // Its spec was edited after its disk was made, or its walls were taken down.
            self.obstacles.push(unfit);
        } else if may_start || seen.machine.is_some() {
            let power = power(fitted, seen);
            let mut desired = machine::virtual_machine_for(fitted, hardware(seen), power);
            machine::ask(&mut desired, &seen.platform.nameservers);
            self.wanted(&desired, seen.machine.as_ref());
        }
    }
}

/// What is said of it.
pub(super) fn condition(
    judgement: &Judgement,
    seen: &Observed,
    obstacles: &[Obstacle],
    share: &Share,
) -> NewCondition {
    if let Some(condition) = draft::condition_of(obstacles, VIRTUAL_MACHINE_READY) {
        return condition;
    }
    let refused = share.refusal(&quota::MACHINE);
    if let Some(why) = refused.filter(|_| seen.machine.is_some()) {
        return NewCondition::new(VIRTUAL_MACHINE_READY, false, "QuotaExceeded", why);
    }
    if seen.machine.is_none() && judgement.status == ConditionStatus::True {
        return NewCondition::new(
            VIRTUAL_MACHINE_READY,
            false,
            "NotMade",
            "the VirtualMachine is not made yet",
        );
    }
    NewCondition {
        type_: VIRTUAL_MACHINE_READY,
        status: judgement.status,
        reason: judgement.reason.clone(),
        message: judgement.message.clone(),
    }
}
