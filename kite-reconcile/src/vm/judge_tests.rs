//! What is made of each word of `KubeVirt`'s.
#![allow(clippy::unwrap_used)]

use kite_core::kubevirt::{VirtualMachineInstanceStatus, VirtualMachineStatus};

use super::*;
use crate::vm::Made;
use VmPhase::{Failed, Migrating, Paused, Running, Starting, Stopped, Stopping};

/// Every `printableStatus` of `KubeVirt` 1.9, for a VM that is to run and whose
/// disk is filled: the phase, the status and reason of `VirtualMachineReady`, and
/// who has to do something about it.
const TABLE: &[(&str, VmPhase, &str, &str, &str)] = &[
    ("Stopped", Starting, "False", "Starting", ""),
    ("Provisioning", Starting, "False", "Starting", ""),
    ("Starting", Starting, "False", "Starting", ""),
    ("Running", Running, "True", "Running", ""),
    ("Paused", Paused, "False", "Paused", "unpause it"),
    ("Stopping", Stopping, "False", "Restarting", ""),
    ("Terminating", Stopping, "False", "Restarting", ""),
    (
        "CrashLoopBackOff",
        Failed,
        "False",
        "CrashLoopBackOff",
        "look at its console",
    ),
    ("Migrating", Migrating, "True", "Migrating", ""),
    (
        "Unknown",
        Failed,
        "Unknown",
        "NodeUnreachable",
        "an administrator must",
    ),
    (
        "ErrorUnschedulable",
        Failed,
        "False",
        "Unschedulable",
        "make it smaller",
    ),
    (
        "ErrImagePull",
        Failed,
        "False",
        "ImagePull",
        "an administrator must",
    ),
    (
        "ImagePullBackOff",
        Failed,
        "False",
        "ImagePull",
        "an administrator must",
    ),
    (
        "ErrorPvcNotFound",
        Starting,
        "False",
        "Starting",
        "an administrator must",
    ),
    (
        "DataVolumeError",
        Failed,
        "False",
        "DataVolumeError",
        "an administrator must",
    ),
    (
        "WaitingForVolumeBinding",
        Starting,
        "False",
        "WaitingForVolumeBinding",
        "",
    ),
    (
        "WaitingForReceiver",
        Starting,
        "False",
        "WaitingForReceiver",
        "",
    ),
    // Of a newer KubeVirt.
    (
        "Hibernating",
        Starting,
        "Unknown",
        "UnknownStatus",
        "\"Hibernating\"",
    ),
];

fn machine(printable: &str, conditions: &[&str]) -> VirtualMachine {
    VirtualMachine {
        status: Some(VirtualMachineStatus {
            printable_status: Some(printable.to_owned()),
            conditions: conditions.iter().map(|type_| holds(type_)).collect(),
            ..VirtualMachineStatus::default()
        }),
        ..VirtualMachine::default()
    }
}

fn instance(conditions: Vec<StatusCondition>) -> VirtualMachineInstance {
    VirtualMachineInstance {
        status: Some(VirtualMachineInstanceStatus {
            phase: Some("Running".to_owned()),
            conditions,
            ..VirtualMachineInstanceStatus::default()
        }),
        ..VirtualMachineInstance::default()
    }
}

fn holds(type_: &str) -> StatusCondition {
    StatusCondition {
        type_: type_.to_owned(),
        status: "True".to_owned(),
        ..StatusCondition::default()
    }
}

fn judged(
    power: PowerState,
    disk: DiskState,
    machine: &VirtualMachine,
    instance: Option<&VirtualMachineInstance>,
) -> Judgement {
    let seen = Observed {
        made: Made {
            machine: Some(machine.clone()),
            ..Made::default()
        },
        instance: instance.cloned(),
        ..Observed::default()
    };
    judge(power, disk, &seen)
}

fn told(printable: &str, disk: DiskState, power: PowerState) -> Judgement {
    let (machine, instance) = (machine(printable, &[]), instance(Vec::new()));
    judged(power, disk, &machine, Some(&instance))
}

fn says(type_: &str, status: &str, reason: &str, message: &str) -> StatusCondition {
    StatusCondition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
        ..StatusCondition::default()
    }
}

#[test]
fn what_is_in_the_way_of_a_start_is_told_and_goes_with_it() {
    let quota = "exceeded quota: kite-quota";
    for printable in BEFORE_A_START {
        let mut refused = machine(printable, &[]);
        let conditions = &mut refused.status.as_mut().unwrap().conditions;
        conditions.push(says("Failure", "True", "FailedCreate", quota));
        let told = judged(PowerState::On, DiskState::Filled, &refused, None);
        assert_eq!((told.phase, told.reason.as_str()), (Failed, "StartBlocked"));
        assert!(
            told.message.contains("FailedCreate: exceeded quota"),
            "{}",
            told.message
        );
        refused.status.as_mut().unwrap().conditions.clear();
        let told = judged(PowerState::On, DiskState::Filled, &refused, None);
        assert_ne!(told.reason, "StartBlocked", "{printable}");
        let synchronized = says(
            "Synchronized",
            "False",
            "FailedBackendStorageCreate",
            "no class",
        );
        let instance = instance(vec![synchronized]);
        let told = judged(PowerState::On, DiskState::Filled, &refused, Some(&instance));
        assert!(
            told.message
                .contains("FailedBackendStorageCreate: no class")
        );
        assert_eq!(told.reason, "StartBlocked");
    }
}

#[test]
fn the_words_of_others_stand_beside_kites_own() {
    let nodes = says(
        "PodScheduled",
        "False",
        "Unschedulable",
        "0/3 nodes are available: cpu.",
    );
    let pull = says("Synchronized", "False", "ErrImagePull", "unauthorized");
    let unseen = says(
        "Synchronized",
        "False",
        "FailedPvcNotFound",
        "PVC web-disk does not exist",
    );
    let paused = says(
        "Paused",
        "True",
        "OfTomorrow",
        "the node runs out of memory.",
    );
    let moved = says("EvictionRequested", "True", "", "");
    for (printable, condition, words) in [
        (
            "ErrorUnschedulable",
            &nodes,
            "(0/3 nodes are available: cpu)",
        ),
        ("ErrImagePull", &pull, "(ErrImagePull: unauthorized)"),
        ("Hibernating", &pull, "(ErrImagePull: unauthorized)"),
        (
            "Running",
            &pull,
            "KubeVirt says: ErrImagePull: unauthorized",
        ),
        ("DataVolumeError", &pull, "(ErrImagePull: unauthorized)"),
        ("ErrorPvcNotFound", &unseen, "(PVC web-disk does not exist)"),
        ("Paused", &paused, "(the node runs out of memory)"),
        ("Running", &moved, "the VM runs and is to move"),
    ] {
        let instance = instance(vec![condition.clone()]);
        let machine = machine(printable, &[]);
        let told = judged(PowerState::On, DiskState::Filled, &machine, Some(&instance));
        assert!(
            told.message.contains(words),
            "{printable}: {}",
            told.message
        );
    }
}

#[test]
fn a_vm_that_holds_up_a_drain_says_what_to_do() {
    let asked = says("EvictionRequested", "True", "", "");
    let fixed = says("LiveMigratable", "False", "HostDevices", "it has a device");
    let running = machine("Running", &["RestartRequired"]);
    let of = |instance: &VirtualMachineInstance| {
        judged(PowerState::On, DiskState::Filled, &running, Some(instance))
    };
    let held = of(&instance(vec![asked.clone(), fixed.clone()]));
    assert_eq!(
        (held.phase, held.status, held.reason.as_str()),
        (Running, ConditionStatus::True, "RunningWithFault")
    );
    for words in [
        "HostDevices: it has a device",
        "off and on",
        "the node waits",
    ] {
        assert!(held.message.contains(words), "{}", held.message);
    }
    let mut failed = instance(vec![asked]);
    let state = serde_json::json!({"failed": true, "failureReason": "no room"});
    let status = failed.status.as_mut().unwrap();
    status.other.insert("migrationState".to_owned(), state);
    let failed = of(&failed);
    assert_eq!(failed.reason, "RunningWithFault");
    assert!(failed.message.contains("(no room)"), "{}", failed.message);
    // That it could not be moved matters to nobody until it is to be.
    assert_eq!(of(&instance(vec![fixed])).reason, "RestartRequired");
}

#[test]
fn a_vm_without_its_disk_runs_on_and_does_not_start() {
    let running = machine("Running", &[]);
    let guest = instance(Vec::new());
    let on = |instance| judged(PowerState::On, DiskState::Lost, &running, instance);
    assert_eq!(on(Some(&guest)).phase, Running);
    assert_eq!(
        (on(None).phase, on(None).reason.as_str()),
        (Failed, "DiskLost")
    );
    let off = judged(
        PowerState::Off,
        DiskState::Lost,
        &machine("Stopped", &[]),
        None,
    );
    assert_eq!(off.phase, Stopped);
}

#[test]
fn every_word_has_a_phase_a_reason_and_where_it_can_a_remedy() {
    for (printable, phase, status, reason, remedy) in TABLE {
        let judged = told(printable, DiskState::Filled, PowerState::On);
        assert_eq!(
            (judged.phase, judged.status.as_str(), judged.reason.as_str()),
            (*phase, *status, *reason),
            "{printable}"
        );
        assert!(
            judged.message.contains(remedy),
            "{printable}: {}",
            judged.message
        );
        if *phase == Failed {
            assert!(!remedy.is_empty(), "{printable} needs a remedy");
        }
    }
}

#[test]
fn while_the_disk_is_cloned_no_word_is_a_failure() {
    for (printable, ..) in TABLE {
        for disk in [
            DiskState::Missing,
            DiskState::Filling,
            DiskState::WaitingForStart,
        ] {
            let judged = told(printable, disk, PowerState::On);
            assert_eq!(judged.phase, VmPhase::Provisioning, "{printable} {disk:?}");
            assert_eq!(judged.reason, "DiskNotReady");
        }
    }
}

#[test]
fn a_vm_that_is_to_be_off_is_off_or_going_off() {
    for (printable, ..) in TABLE {
        let phase = told(printable, DiskState::Filled, PowerState::Off).phase;
        let expected = if *printable == "Stopped" {
            Stopped
        } else {
            Stopping
        };
        assert_eq!(phase, expected, "{printable}");
        let machine = machine(printable, &[]);
        let gone = judged(PowerState::Off, DiskState::Filled, &machine, None);
        assert_eq!(gone.phase, Stopped, "{printable}, and nothing runs");
    }
}

#[test]
fn unschedulable_is_a_failure_only_when_kubevirt_has_seen_the_disk() {
    let mut unseen = machine("ErrorUnschedulable", &["DataVolumesReady"]);
    let phase =
        |machine: &VirtualMachine| judged(PowerState::On, DiskState::Filled, machine, None).phase;
    assert_eq!(phase(&unseen), Failed);
    unseen.status.as_mut().unwrap().conditions[0].status = "False".to_owned();
    assert_eq!(phase(&unseen), Starting);
}

#[test]
fn a_running_vm_says_what_it_waits_for() {
    let of = |conditions: &[&str], instance: &VirtualMachineInstance| {
        let machine = machine("Running", conditions);
        judged(PowerState::On, DiskState::Filled, &machine, Some(instance))
    };
    let plain = instance(Vec::new());
    assert_eq!(of(&["RestartRequired"], &plain).reason, "RestartRequired");
    let growing = instance(vec![holds("HotMemoryChange")]);
    assert_eq!(of(&[], &growing).reason, "Resizing");
    for judged in [of(&["RestartRequired"], &plain), of(&[], &growing)] {
        assert_eq!(
            (judged.phase, judged.status),
            (Running, ConditionStatus::True)
        );
    }
}

#[test]
fn a_guest_that_cannot_write_is_told_from_one_that_a_person_paused() {
    let mut condition = holds("Paused");
    condition.reason = Some("PausedIOError".to_owned());
    let instance = instance(vec![condition]);
    let machine = machine("Paused", &[]);
    let judged = judged(PowerState::On, DiskState::Filled, &machine, Some(&instance));
    assert_eq!(
        (judged.phase, judged.reason.as_str()),
        (Paused, "PausedIOError")
    );
}

#[test]
fn a_restart_that_is_required_comes_with_its_remedy() {
    let mut machine = machine("Running", &["RestartRequired"]);
    machine.status.as_mut().unwrap().conditions[0].message =
        Some("a non-live-updatable field was changed in the template spec".to_owned());
    let mut seen = Observed {
        made: Made {
            machine: Some(machine),
            ..Made::default()
        },
        instance: Some(instance(Vec::new())),
        ..Observed::default()
    };
    let told = restart_required(&seen).unwrap();
    for words in ["non-live-updatable", "spec.restartedAt", "off and on"] {
        assert!(told.message.contains(words), "{}", told.message);
    }
    seen.instance = None;
    assert_eq!(
        restart_required(&seen),
        None,
        "a VM that is off starts with what it has"
    );
}
