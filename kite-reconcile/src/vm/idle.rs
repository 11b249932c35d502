//! A VM that nobody uses: it is switched off until its owner wants it again.
//!
//! The gateway says in a Lease of its own when a VM was last used. The decision
//! that a VM is idle is written into its status *first*, and carried out only by
//! a plan that finds it there and has read the Lease after that: what was
//! reported meanwhile undoes the decision before anything has come of it.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kite_core::{
    activity::last_used,
    conditions::{self, NewCondition},
    crd::{IdleStatus, KiteVirtualMachineStatus, PowerState, vm_condition::IDLE},
    kubevirt::VirtualMachineInstance,
};
use kite_render::Vm;

use super::{
    draft::{Seen, VmDraft},
    expiry::{later, whole_seconds},
    observe::Observed,
};
use crate::stage::Stage;

/// Tells whether it is idle. Goes by `activity`, `instance` and `now`.
pub(super) struct Idle;

impl Stage<VmDraft<'_>> for Idle {
    fn condition(&self, draft: &VmDraft<'_>) -> Option<NewCondition> {
        let idle = Idleness::of(draft.vm, draft.seen)?;
        Some(idle.condition())
    }

    fn report(&self, draft: &VmDraft<'_>, status: &mut KiteVirtualMachineStatus) {
        let idle = Idleness::of(draft.vm, draft.seen);
        status.idle = idle.and_then(|idle| idle.status());
    }

    fn deadline(&self, (vm, seen): &Seen<'_>) -> Option<Timestamp> {
        Idleness::of(vm, seen)?.next(seen.now)
    }
}

/// Where a VM with an idle timeout stands.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Idleness {
    /// It is off anyway, or not there yet.
    NotRunning(SignedDuration),
    /// It is in use, or may be, until then.
    InUse(SignedDuration, Timestamp),
    /// It is idle, which is to be written down before anything comes of it.
    Found(SignedDuration, IdleStatus),
    /// It is idle, and everybody can read so: it is to be off.
    Decided(SignedDuration, IdleStatus),
}

impl Idleness {
    /// How it stands with the VM; nothing of one without an idle timeout.
    pub(super) fn of(vm: &Vm<'_>, seen: &Observed) -> Option<Self> {
        let timeout = vm.object.spec.idle_timeout.as_ref()?.duration();
        let timeout = SignedDuration::try_from(timeout).unwrap_or(SignedDuration::MAX);
        if vm.object.spec.power_state == PowerState::Off {
            return Some(Self::NotRunning(timeout));
        }
        let report = seen.activity.as_ref();
        let used = report.and_then(|lease| last_used(lease, vm.uid));
        // A door whose clock is ahead must not keep the VM on for ever.
        let used = used.map(|at| at.min(seen.now));
        let decided = vm.object.status.as_ref().and_then(|it| it.idle.as_ref());
        let generation = vm.object.metadata.generation.unwrap_or_default();
        if let Some(idle) = decided
            && idle.generation == generation
            && used.is_none_or(|used| later(used, timeout) <= idle.since.0)
        {
            return Some(Self::Decided(timeout, idle.clone()));
        }
        let Some(started) = seen.instance.as_ref().and_then(started) else {
            return Some(Self::NotRunning(timeout));
        };
        let begun = started.max(known_since(vm, seen.now));
        let until = later(used.map_or(begun, |used| used.max(begun)), timeout);
        if seen.now < until {
            return Some(Self::InUse(timeout, until));
        }
        let since = Time(whole_seconds(seen.now));
        Some(Self::Found(timeout, IdleStatus { since, generation }))
    }

    /// Whether it is to be off.
    pub(super) fn is_decided(&self) -> bool {
        matches!(self, Self::Decided(..))
    }

    /// What is reported of it.
    pub(super) fn status(&self) -> Option<IdleStatus> {
        match self {
            Self::Found(_, idle) | Self::Decided(_, idle) => Some(idle.clone()),
            Self::NotRunning(_) | Self::InUse(..) => None,
        }
    }

    /// When to look again.
    pub(super) fn next(&self, now: Timestamp) -> Option<Timestamp> {
        match self {
            Self::InUse(_, until) => Some(*until),
            Self::Found(..) => Some(now),
            Self::NotRunning(_) | Self::Decided(..) => None,
        }
    }

    /// What is said of it.
    pub(super) fn condition(&self) -> NewCondition {
        match self {
            Self::NotRunning(timeout) | Self::InUse(timeout, _) => NewCondition::new(
                IDLE,
                false,
                "NotIdle",
                format!("the VM is switched off when nobody has had a session for {timeout:#}"),
            ),
            Self::Found(timeout, _) | Self::Decided(timeout, _) => NewCondition::new(
                IDLE,
                true,
                "Idle",
                format!(
                    "nobody has had a session on the VM for {timeout:#}, so it is off: a login \
                     starts it again, and so does any edit of its spec"
                ),
            ),
        }
    }
}

/// Since when somebody may report the use of the VM: the gateway does not of one
/// without an idle timeout, which may be in use when it gets one.
fn known_since(vm: &Vm<'_>, now: Timestamp) -> Timestamp {
    let status = vm.object.status.as_ref();
    let known = status.and_then(|status| conditions::find(&status.conditions, IDLE));
    known.map_or(now, |known| known.last_transition_time.0)
}

/// Since when the instance is there, unless it has ended or is on its way out:
/// an edit while it shuts down wants the next one.
fn started(instance: &VirtualMachineInstance) -> Option<Timestamp> {
    let phase = instance.status.as_ref()?.phase.as_deref();
    let ended = matches!(phase, Some("Succeeded" | "Failed"));
    let created = instance.metadata.creation_timestamp.as_ref()?.0;
    let is_leaving = instance.metadata.deletion_timestamp.is_some();
    (!ended && !is_leaving).then_some(created)
}
