//! What keeps a VM off though its owner starts it.

use jiff::Timestamp;
use kite_core::{
    conditions,
    crd::{
        KiteUser, KiteVirtualMachine, PowerState, VmPhase,
        vm_condition::{DISK_READY, READY},
    },
    labels,
};
use kite_rest::{Change, Problem, ProblemKind};

use crate::vm_fields::EditedFields;

/// Why starting or restarting the VM would have no effect, with the remedy; none if
/// it would.
pub(super) fn to_running(
    vm: &KiteVirtualMachine,
    owner: &KiteUser,
    now: Timestamp,
) -> Option<Problem> {
    let why = suspended(owner)
        .or_else(|| unreadable(vm))
        .or_else(|| expired(vm, now))
        .or_else(|| refused(vm))
        .or_else(|| without_disk(vm))?;
    Some(Problem::new(ProblemKind::Conflict, why))
}

/// Why an edit that switches the VM on would have no effect; none if it would, or if
/// it is about something else.
pub(super) fn to_edit(
    vm: &KiteVirtualMachine,
    owner: &KiteUser,
    edit: &EditedFields,
    now: Timestamp,
) -> Option<Problem> {
    if edit.changes.power_state != Change::Set(PowerState::On)
        || vm.metadata.deletion_timestamp.is_some()
    {
        return None;
    }
    let is_alone = edit.actions.len() == 1;
    if !is_alone && vm.spec.power_state == PowerState::On {
        // It repeats what is so, and is about the rest.
        return None;
    }
    let mut after = vm.clone();
    after.spec.expires_at = edit.changes.applied_to(&vm.spec).expires_at;
    if !is_alone {
        // The rest may mend what cannot be read, and what was refused.
        after.spec.unreadable = None;
        after.metadata.generation = None;
    }
    to_running(&after, owner, now)
}

fn suspended(owner: &KiteUser) -> Option<String> {
    owner.spec.suspended.then(|| {
        "the VM is kept off: its owner is suspended; an administrator has to end that first"
            .to_owned()
    })
}

/// That the VM stays as it is, for its settings cannot be read.
pub(super) fn unreadable(vm: &KiteVirtualMachine) -> Option<String> {
    let why = vm.unreadable()?;
    Some(format!(
        "the VM stays as it is, for its settings cannot be read ({why}): mend the field that is \
         named first, with kubectl or by an edit"
    ))
}

fn expired(vm: &KiteVirtualMachine, now: Timestamp) -> Option<String> {
    let end = vm.spec.expires_at.as_ref()?.0;
    if end > now {
        return None;
    }
    let deleted = vm.status.as_ref().and_then(|it| it.expiry.as_ref());
    let deleted = deleted.map_or_else(
        || "and is then deleted with its disk".to_owned(),
        |expiry| format!("and is deleted with its disk at {}", expiry.delete_at.0),
    );
    let remedy = match vm.spec.offer {
        Some(_) => {
            "it is from an offer, whose end cannot be moved: save what you need (an administrator \
             can give you another offer)"
        }
        None => {
            "to keep it, set expiresAt to a time in the future, or to null, with PATCH \
             /api/v1/vms/{name}, and then start it"
        }
    };
    Some(format!(
        "the VM expired at {end}, stays off {deleted}: {remedy}"
    ))
}

/// Nothing was made of it, or no disk can be, and nothing will be until a person does
/// something.
fn refused(vm: &KiteVirtualMachine) -> Option<String> {
    let status = vm.status.as_ref()?;
    let disk = conditions::find(&status.conditions, DISK_READY);
    let has_none = status.disk.is_none() || disk.is_some_and(|it| it.reason == "CloneFailed");
    let is_refused = status.phase == Some(VmPhase::Failed)
        && has_none
        && status.observed_generation == vm.metadata.generation;
    let ready = conditions::find(&status.conditions, READY).filter(|_| is_refused)?;
    Some(format!("the VM cannot run: {}", ready.message))
}

/// Its disk is gone, or goes as soon as the VM is off, and nobody has asked for another.
fn without_disk(vm: &KiteVirtualMachine) -> Option<String> {
    let status = vm.status.as_ref()?;
    let told = conditions::find(&status.conditions, DISK_READY)?;
    let is_lost = matches!(told.reason.as_str(), "DiskLost" | "DiskLeaving");
    let disk = status.disk.as_ref()?;
    let annotations = vm.metadata.annotations.as_ref();
    let asked = annotations.and_then(|all| all.get(labels::REPLACE_DISK));
    let is_replaced = asked.is_some_and(|it| it == disk.uid.as_ref().unwrap_or(&disk.name));
    (is_lost && !is_replaced)
        .then(|| format!("the VM cannot start without its disk: {}", told.message))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use kite_core::{
        conditions::{NewCondition, merge},
        crd::{
            DiskStatus, ExpiryStatus, KiteUserSpec, KiteVirtualMachineSpec,
            KiteVirtualMachineStatus, VmPhase,
        },
        quantity::Bytes,
    };

    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn vm(end: &str) -> KiteVirtualMachine {
        let (memory, disk) = (Bytes::from_gib(1), Bytes::from_gib(5));
        let mut vm = KiteVirtualMachine::new(
            "web",
            KiteVirtualMachineSpec::new(1, memory, disk, "debian-12", "web"),
        );
        vm.spec.expires_at = Some(Time(at(end)));
        vm
    }

    fn ann() -> KiteUser {
        KiteUser::new("ann", KiteUserSpec::new("ann"))
    }

    const NOW: &str = "2026-05-04T08:00:00Z";

    fn told(vm: &KiteVirtualMachine, owner: &KiteUser) -> Option<String> {
        let problem = to_running(vm, owner, at(NOW))?;
        assert_eq!(problem.kind(), ProblemKind::Conflict);
        Some(problem.detail().to_owned())
    }

    #[test]
    fn what_would_run_is_not_held_up() {
        assert_eq!(told(&vm("2026-05-04T08:00:01Z"), &ann()), None);
    }

    #[test]
    fn who_starts_an_expired_vm_is_told_how_to_keep_it() {
        let mut vm = vm("2026-05-04T08:00:00Z");
        let text = told(&vm, &ann()).unwrap();
        assert!(
            text.contains("2026-05-04T08:00:00Z") && text.contains("null"),
            "{text}"
        );
        vm.status = Some(KiteVirtualMachineStatus {
            expiry: Some(ExpiryStatus {
                expired_at: Time(at(NOW)),
                delete_at: Time(at("2026-05-07T08:00:00Z")),
            }),
            ..KiteVirtualMachineStatus::default()
        });
        let text = told(&vm, &ann()).unwrap();
        assert!(text.contains("at 2026-05-07T08:00:00Z"), "{text}");
        vm.spec.offer = Some("spring".to_owned());
        let text = told(&vm, &ann()).unwrap();
        assert!(text.contains("offer") && !text.contains("null"), "{text}");
    }

    #[test]
    fn what_is_kept_off_says_by_whom() {
        let mut owner = ann();
        owner.spec.suspended = true;
        let text = told(&vm("2027-01-01T00:00:00Z"), &owner).unwrap();
        assert!(text.contains("suspended"), "{text}");
        let mut odd = vm("2027-01-01T00:00:00Z");
        odd.spec.unreadable = Some("spec.cpu: a few".to_owned());
        assert!(told(&odd, &ann()).unwrap().contains("a few"));
    }

    #[test]
    fn what_was_refused_says_why() {
        let mut vm = vm("2027-01-01T00:00:00Z");
        let ready = NewCondition::new(READY, false, "QuotaExceeded", "spec.cpu: too many");
        vm.status = Some(KiteVirtualMachineStatus {
            phase: Some(VmPhase::Failed),
            conditions: merge(&[], &[ready], 0, at(NOW)),
            ..KiteVirtualMachineStatus::default()
        });
        assert!(told(&vm, &ann()).unwrap().contains("too many"));
        // It may be mended by what was edited since.
        vm.metadata.generation = Some(2);
        assert_eq!(told(&vm, &ann()), None);
    }

    #[test]
    fn what_has_a_disk_that_could_not_be_made_says_so() {
        let mut vm = vm("2027-01-01T00:00:00Z");
        for (reason, is_told) in [("CloneFailed", true), ("CloneBlocked", false)] {
            let ready = NewCondition::new(READY, false, "DiskFailed", "create it again");
            let disk = NewCondition::new(DISK_READY, false, reason, "the source is gone");
            vm.status = Some(KiteVirtualMachineStatus {
                phase: Some(VmPhase::Failed),
                disk: Some(DiskStatus::default()),
                conditions: merge(&[], &[ready, disk], 0, at(NOW)),
                ..KiteVirtualMachineStatus::default()
            });
            let told = told(&vm, &ann());
            let is_right = told.is_some_and(|it| it.contains("create it again"));
            assert_eq!(is_right, is_told, "{reason}");
        }
    }

    #[test]
    fn what_has_lost_its_disk_says_so_until_another_is_asked_for() {
        let mut vm = vm("2027-01-01T00:00:00Z");
        let lost = NewCondition::new(DISK_READY, false, "DiskLost", "the disk is gone");
        vm.status = Some(KiteVirtualMachineStatus {
            phase: Some(VmPhase::Failed),
            disk: Some(DiskStatus {
                name: "web-disk".to_owned(),
                uid: Some("u-1".to_owned()),
                ..DiskStatus::default()
            }),
            conditions: merge(&[], &[lost], 0, at(NOW)),
            ..KiteVirtualMachineStatus::default()
        });
        assert!(told(&vm, &ann()).unwrap().contains("the disk is gone"));
        let mut replace = |uid: &str| {
            let asked = (labels::REPLACE_DISK.to_owned(), uid.to_owned());
            vm.metadata.annotations = Some([asked].into());
            told(&vm, &ann())
        };
        assert!(replace("another").is_some());
        assert_eq!(replace("u-1"), None);
    }

    #[test]
    fn what_has_all_data_in_its_claim_is_started() {
        let mut vm = vm("2027-01-01T00:00:00Z");
        let left =
            |holds: bool| NewCondition::new(DISK_READY, holds, "DiskUnmanaged", "nothing is lost");
        // Whether the disk is to grow, which it cannot, or not.
        for holds in [true, false] {
            vm.status = Some(KiteVirtualMachineStatus {
                phase: Some(VmPhase::Stopped),
                disk: Some(DiskStatus {
                    name: "web-disk".to_owned(),
                    uid: Some("u-1".to_owned()),
                    ..DiskStatus::default()
                }),
                conditions: merge(&[], &[left(holds)], 0, at(NOW)),
                ..KiteVirtualMachineStatus::default()
            });
            assert_eq!(told(&vm, &ann()), None);
        }
    }
}
