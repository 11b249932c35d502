//! Why a VM is off though its owner wants it on.

use kite_core::{
    conditions::NewCondition,
    crd::{PowerState, vm_condition::READY},
};
use kite_render::Vm;

use super::{decided::holds_off, expiry::Expiry, idle::Idleness, lost, observe::Observed, volumes};

/// What keeps a VM off.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Hold {
    /// Its owner is suspended.
    Suspended,
    /// Its time is over.
    Expired(Expiry),
    /// Nobody uses it.
    Idle(Idleness),
    /// It stops so that it starts from another disk.
    Restoring,
    /// Its disk is lost, whether something else is in its place or nothing is, and no guest runs
    /// on it.
    Disk(NewCondition),
    /// It cannot have one of its volumes, and has not been started.
    Volumes(NewCondition),
}

impl Hold {
    /// What keeps the VM off, if something does.
    pub(super) fn of(vm: &Vm<'_>, seen: &Observed) -> Option<Self> {
        let owner = seen.owner.as_ref();
        if owner.is_some_and(|owner| owner.spec.suspended) {
            return Some(Self::Suspended);
        }
        let expiry = Self::expiry(vm, seen);
        let idle = || Idleness::of(vm, seen).filter(Idleness::is_decided);
        let restoring = || holds_off(vm, seen).then_some(Self::Restoring);
        let hold = expiry.map(Self::Expired);
        let hold = hold.or_else(|| idle().map(Self::Idle));
        let disk = || lost::hold(vm, seen).map(Self::Disk);
        let volumes = || volumes::hold(vm, seen).map(Self::Volumes);
        hold.or_else(restoring).or_else(disk).or_else(volumes)
    }

    /// What its owner is told to keep the VM off. One that they switched off
    /// themselves needs no other reason for that; but a VM whose time is over is
    /// never in order, whoever switched it off.
    pub(super) fn told(vm: &Vm<'_>, seen: &Observed) -> Option<Self> {
        let is_wanted = vm.object.spec.power_state == PowerState::On;
        let hold = Self::of(vm, seen).filter(|_| is_wanted);
        hold.or_else(|| Self::expiry(vm, seen).map(Self::Expired))
    }

    /// That its time is over.
    fn expiry(vm: &Vm<'_>, seen: &Observed) -> Option<Expiry> {
        Expiry::of(vm.object, seen.now).filter(Expiry::is_expired)
    }

    /// The condition `Ready` of a VM that is held.
    pub(super) fn ready(&self) -> NewCondition {
        let because = |condition: NewCondition| {
            NewCondition::new(READY, false, condition.reason, condition.message)
        };
        match self {
            Self::Suspended => NewCondition::new(
                READY,
                false,
                "Suspended",
                "the VM is kept off: its owner is suspended by an administrator",
            ),
            Self::Expired(expiry) => because(expiry.condition()),
            Self::Idle(idleness) => because(idleness.condition()),
            Self::Disk(told) | Self::Volumes(told) => because(told.clone()),
            Self::Restoring => NewCondition::new(
                READY,
                false,
                "Restoring",
                "the VM stops, and starts from the disk that was restored",
            ),
        }
    }
}

/// The power by which the VM is judged: one that is kept off for its disk is not in order.
pub(super) fn judged_power(vm: &Vm<'_>, seen: &Observed) -> PowerState {
    match Hold::of(vm, seen) {
        Some(Hold::Disk(_)) | None => vm.object.spec.power_state,
        Some(_) => PowerState::Off,
    }
}

/// Whether the VM is to run: as its spec says, unless something keeps it off.
pub(super) fn power(vm: &Vm<'_>, seen: &Observed) -> PowerState {
    match Hold::of(vm, seen) {
        Some(_) => PowerState::Off,
        None => vm.object.spec.power_state,
    }
}
