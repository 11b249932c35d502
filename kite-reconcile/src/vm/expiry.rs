//! A VM whose time is over: it is switched off, then deleted, and can be kept
//! until the very end.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kite_core::{
    conditions::NewCondition,
    crd::{
        EXPIRY_GRACE_PERIOD, ExpiryStatus, KiteVirtualMachine, KiteVirtualMachineStatus, VmPhase,
        vm_condition::{EXPIRED, VIRTUAL_MACHINE_READY},
    },
    span::Span,
};

use super::draft::{Obstacle, Seen, VmDraft};
use crate::{
    plan::Step,
    stage::{Flow, Stage},
};

/// Deletes a VM whose time is over. Goes by `now`.
pub(super) struct Due;

impl Stage<VmDraft<'_>> for Due {
    fn plan(&self, draft: &mut VmDraft<'_>) -> Flow {
        let expiry = Expiry::of(draft.vm.object, draft.seen.now);
        if !expiry.is_some_and(|expiry| expiry.is_due()) {
            return Flow::Next;
        }
        draft.steps.push(Step::DeleteSelf);
        Flow::Stop
    }
}

/// Has nothing made of a new VM whose time is over. Goes by `now`.
pub(super) struct TooLate;

impl Stage<VmDraft<'_>> for TooLate {
    fn plan(&self, draft: &mut VmDraft<'_>) -> Flow {
        let expiry = Expiry::of(draft.vm.object, draft.seen.now).filter(|_| draft.is_new());
        let expired = expiry.filter(Expiry::is_expired);
        draft.obstacles.extend(expired.map(|expiry| Obstacle {
            condition: NewCondition {
                type_: VIRTUAL_MACHINE_READY,
                status: false.into(),
                ..expiry.condition()
            },
            phase: VmPhase::Failed,
        }));
        Flow::Next
    }
}

/// Tells of its end. Goes by `now`.
pub(super) struct End;

impl Stage<VmDraft<'_>> for End {
    fn condition(&self, draft: &VmDraft<'_>) -> Option<NewCondition> {
        let expiry = Expiry::of(draft.vm.object, draft.seen.now)?;
        Some(expiry.condition())
    }

    fn report(&self, draft: &VmDraft<'_>, status: &mut KiteVirtualMachineStatus) {
        let expiry = Expiry::of(draft.vm.object, draft.seen.now);
        status.expiry = expiry.and_then(|expiry| expiry.status());
    }

    fn deadline(&self, (vm, seen): &Seen<'_>) -> Option<Timestamp> {
        Expiry::of(vm.object, seen.now)?.next()
    }
}

/// How long before it expires a VM warns.
const WARNING: SignedDuration = SignedDuration::from_hours(24);

/// Where a VM that has an end stands.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Expiry {
    now: Timestamp,
    expires_at: Timestamp,
    grace: SignedDuration,
    /// Since when it is known to have expired, if it has.
    expired_at: Option<Timestamp>,
    /// Whether that stands in the VM's status, for its owner to read.
    reported: bool,
}

impl Expiry {
    /// The expiry of `vm`; none of one that does not expire.
    pub(super) fn of(vm: &KiteVirtualMachine, now: Timestamp) -> Option<Self> {
        let expires_at = vm.spec.expires_at.as_ref()?.0;
        let grace = vm.spec.expiry_grace_period.as_ref();
        let grace = grace.map_or(EXPIRY_GRACE_PERIOD, Span::duration);
        let reported = vm
            .status
            .as_ref()
            .and_then(|status| status.expiry.as_ref())
            .map(|expiry| expiry.expired_at.0)
            // What was reported of an earlier end does not count for this one.
            .filter(|expired_at| *expired_at >= expires_at && now >= expires_at);
        let expired = (now >= expires_at).then(|| whole_seconds(now));
        Some(Self {
            now,
            expires_at,
            grace: SignedDuration::try_from(grace).unwrap_or(SignedDuration::MAX),
            expired_at: reported.or(expired),
            reported: reported.is_some(),
        })
    }

    /// Whether its time is over.
    pub(super) fn is_expired(&self) -> bool {
        self.expired_at.is_some()
    }

    /// Whether it is to be deleted now. Never before its owner could read of it.
    pub(super) fn is_due(&self) -> bool {
        self.reported && self.delete_at().is_some_and(|at| self.now >= at)
    }

    fn delete_at(&self) -> Option<Timestamp> {
        self.expired_at.map(|at| later(at, self.grace))
    }

    /// What is reported of it once it has expired.
    pub(super) fn status(&self) -> Option<ExpiryStatus> {
        Some(ExpiryStatus {
            expired_at: Time(self.expired_at?),
            delete_at: Time(self.delete_at()?),
        })
    }

    /// The next moment at which something is to be done or said.
    pub(super) fn next(&self) -> Option<Timestamp> {
        let moments = [
            later(self.expires_at, -WARNING),
            self.expires_at,
            self.delete_at().unwrap_or(self.expires_at),
        ];
        moments.into_iter().filter(|at| *at > self.now).min()
    }

    /// What is said of it. Times are absolute, so that it does not change with
    /// each look.
    pub(super) fn condition(&self) -> NewCondition {
        let (expires_at, grace) = (self.expires_at, self.grace);
        if let Some(delete_at) = self.delete_at() {
            return NewCondition::new(
                EXPIRED,
                true,
                "Expired",
                format!(
                    "the VM expired at {expires_at} and is off: at {delete_at} it is deleted with \
                     its disk; to keep it, set spec.expiresAt to a time in the future, or remove it"
                ),
            );
        }
        let end = format!(
            "at {expires_at} the VM is switched off, and {grace:#} later it is deleted with its disk"
        );
        if self.now >= later(expires_at, -WARNING) {
            let keep = "to keep it, set spec.expiresAt to a later time, or remove it";
            return NewCondition::new(EXPIRED, false, "ExpiresSoon", format!("{end}: {keep}"));
        }
        NewCondition::new(EXPIRED, false, "NotExpired", end)
    }
}

/// `at` and `span` together, or the end of time.
pub(super) fn later(at: Timestamp, span: SignedDuration) -> Timestamp {
    at.checked_add(span).unwrap_or(if span.is_negative() {
        Timestamp::MIN
    } else {
        Timestamp::MAX
    })
}

/// `at` as the API can say it, which knows no parts of seconds; never before it.
pub(super) fn whole_seconds(at: Timestamp) -> Timestamp {
    let seconds = at.as_second() + i64::from(at.subsec_nanosecond() > 0);
    Timestamp::from_second(seconds).unwrap_or(at)
}
