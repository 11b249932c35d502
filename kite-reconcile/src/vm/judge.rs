//! What `KubeVirt`'s and CDI's reports mean for a VM's owner.
//!
//! The disk is looked at first: while it is being cloned, `KubeVirt` reports
//! `ErrorPvcNotFound` and `ErrorUnschedulable` of a VM that only has to wait.

use kite_core::{
    cdi::DataVolume,
    conditions::{ConditionStatus, NewCondition},
    crd::{PowerState, VmPhase, vm_condition::RESTART_REQUIRED},
    kubevirt::{StatusCondition, VirtualMachine, VirtualMachineInstance},
};

use super::{
    blockers::{self, Drain},
    moving,
    observe::Observed,
    resize,
};
use crate::reports;

/// `KubeVirt`'s condition of a VM whose template cannot be given to its instance.
const RESTART: &str = "RestartRequired";

/// Where the root disk is on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DiskState {
    /// There is none.
    Missing,
    /// It is being filled.
    Filling,
    /// It is filled when the VM is first switched on, so that it lies where
    /// the VM will run.
    WaitingForStart,
    /// It is filled.
    Filled,
    /// It could not be filled.
    Failed,
    /// It was filled, and is gone or on its way out.
    Lost,
}

impl DiskState {
    /// Reads a `DataVolume`'s phase; one that is not known is on its way.
    pub(crate) fn of(disk: Option<&DataVolume>) -> Self {
        let Some(disk) = disk else {
            return Self::Missing;
        };
        let phase = disk
            .status
            .as_ref()
            .and_then(|status| status.phase.as_deref());
        match phase {
            Some("Succeeded") => Self::Filled,
            Some("Failed") => Self::Failed,
            Some("WaitForFirstConsumer" | "PendingPopulation") => Self::WaitingForStart,
            _ => Self::Filling,
        }
    }
}

/// What is made of the reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Judgement {
    /// Where the VM is in its life.
    pub phase: VmPhase,
    /// Whether `KubeVirt` keeps it as asked.
    pub status: ConditionStatus,
    /// One word for programs.
    pub reason: String,
    /// A sentence for people, with the remedy where there is one.
    pub message: String,
}

impl Judgement {
    fn new(
        phase: VmPhase,
        status: impl Into<ConditionStatus>,
        reason: &str,
        message: impl Into<String>,
    ) -> Self {
        Self {
            phase,
            status: status.into(),
            reason: reason.to_owned(),
            message: message.into(),
        }
    }
}

/// What `KubeVirt` says of a VM that has not come to start.
const BEFORE_A_START: &[&str] = &[
    "Stopped",
    "Provisioning",
    "Starting",
    "WaitingForVolumeBinding",
    "WaitingForReceiver",
    "CrashLoopBackOff",
];

/// Where the VM stands that is to be `power`. How a resize goes is judged with the
/// rest: see [`resize`].
pub(super) fn judge(power: PowerState, disk: DiskState, seen: &Observed) -> Judgement {
    let (machine, instance) = (seen.machine.as_ref(), seen.instance.as_ref());
    let printable = machine
        .and_then(|machine| machine.status.as_ref())
        .and_then(|status| status.printable_status.as_deref());
    match (disk, power) {
        (DiskState::Failed, _) => Judgement::new(
            VmPhase::Failed,
            false,
            "DiskFailed",
            "the disk could not be made: delete the VM and create it again; if that fails too, \
             an administrator must look at the image",
        ),
        (DiskState::Missing | DiskState::Filling, _) => waiting_for_disk(),
        // It is filled once the VM's launcher is on a node, which is kept from there as any.
        (DiskState::WaitingForStart, PowerState::On) => start_blocked(machine, instance)
            .or_else(|| blockers::of_scheduling(instance).map(|words| unscheduled(Some(words))))
            .unwrap_or_else(waiting_for_disk),
        (DiskState::WaitingForStart | DiskState::Filled | DiskState::Lost, PowerState::Off) => {
            off(printable, machine, instance)
        }
        (DiskState::Filled, PowerState::On) => on(printable, seen),
        // What runs has its disk until it ends.
        (DiskState::Lost, PowerState::On) if runs(instance) => on(printable, seen),
        (DiskState::Lost, PowerState::On) => Judgement::new(
            VmPhase::Failed,
            false,
            "DiskLost",
            "the VM cannot start without its disk",
        ),
    }
}

/// Whether a guest runs in the instance.
pub(super) fn runs(instance: Option<&VirtualMachineInstance>) -> bool {
    let status = instance.and_then(|instance| instance.status.as_ref());
    status.and_then(|status| status.phase.as_deref()) == Some("Running")
}

fn off(
    printable: Option<&str>,
    machine: Option<&VirtualMachine>,
    instance: Option<&VirtualMachineInstance>,
) -> Judgement {
    let stopped = || Judgement::new(VmPhase::Stopped, true, "Stopped", "the VM is off");
    match (printable, instance) {
        (Some("Stopped") | None, _) | (_, None) => stopped(),
        (Some(_), Some(_)) => match blockers::of_machine(machine, instance) {
            Some(words) => Judgement::new(
                VmPhase::Stopping,
                false,
                "StopBlocked",
                format!("the guest is to shut down, and KubeVirt says: {words}"),
            ),
            None => Judgement::new(
                VmPhase::Stopping,
                false,
                "Stopping",
                "the guest is shutting down",
            ),
        },
    }
}

fn on(printable: Option<&str>, seen: &Observed) -> Judgement {
    let (machine, instance) = (seen.machine.as_ref(), seen.instance.as_ref());
    let starting =
        |reason: &str, message: &str| Judgement::new(VmPhase::Starting, false, reason, message);
    let failed =
        |reason: &str, message: &str| Judgement::new(VmPhase::Failed, false, reason, message);
    let blocked = || start_blocked(machine, instance);
    let of_disk = || seen.disk.as_ref().and_then(reports::of_disk);
    let Some(printable) = printable else {
        return blocked()
            .unwrap_or_else(|| starting("Starting", "KubeVirt has not seen the VM yet"));
    };
    if BEFORE_A_START.contains(&printable)
        && let Some(blocked) = blocked()
    {
        return blocked;
    }
    match printable {
        "Running" => running(seen),
        "Stopped" | "Provisioning" | "Starting" => starting("Starting", "the VM is being started"),
        "WaitingForVolumeBinding" => starting(
            "WaitingForVolumeBinding",
            "the disk is being attached to a node",
        ),
        "WaitingForReceiver" => {
            starting("WaitingForReceiver", "waiting to take over a migrated VM")
        }
        "Migrating" => Judgement::new(
            VmPhase::Migrating,
            true,
            "Migrating",
            "the VM runs and is being moved to another node",
        ),
        "Paused" => paused(instance),
        "Stopping" | "Terminating" => Judgement::new(
            VmPhase::Stopping,
            false,
            "Restarting",
            "the former instance is shutting down",
        ),
        // Left over from the time of the clone until KubeVirt looks again.
        "ErrorPvcNotFound" => starting(
            "Starting",
            &format!(
                "KubeVirt has not seen the disk yet{}: if it stays so, an administrator must look \
                 at the disk's PersistentVolumeClaim",
                in_words(blockers::of_unseen_claim(machine, instance))
            ),
        ),
        "ErrorUnschedulable" if !disks_are_ready(machine) => {
            starting("Starting", "KubeVirt has not seen the disk yet")
        }
        "ErrorUnschedulable" => unscheduled(blockers::of_scheduling(instance)),
        "CrashLoopBackOff" => failed(
            "CrashLoopBackOff",
            "the guest crashes again and again: look at its console; it is started again and again",
        ),
        "ErrImagePull" | "ImagePullBackOff" => failed(
            "ImagePull",
            &format!(
                "KubeVirt's launcher image cannot be fetched{}: an administrator must look at \
                 the node's registry access",
                in_words(blockers::of_machine(machine, instance))
            ),
        ),
        "DataVolumeError" => failed(
            "DataVolumeError",
            &format!(
                "the disk has an error{}: an administrator must look at its DataVolume",
                in_words(of_disk().or_else(|| blockers::of_machine(machine, instance)))
            ),
        ),
        "Unknown" => Judgement::new(
            VmPhase::Failed,
            ConditionStatus::Unknown,
            "NodeUnreachable",
            "the node of the VM does not report: an administrator must look at the node",
        ),
        // A state of a newer KubeVirt is neither ready nor failed.
        other => Judgement::new(
            VmPhase::Starting,
            ConditionStatus::Unknown,
            "UnknownStatus",
            format!(
                "KubeVirt reports {other:?}, which Kite does not know{}",
                in_words(blockers::of_machine(machine, instance))
            ),
        ),
    }
}

fn waiting_for_disk() -> Judgement {
    let message = "waiting for the disk";
    Judgement::new(VmPhase::Provisioning, false, "DiskNotReady", message)
}

/// That no node has room for the VM, in the scheduler's words.
fn unscheduled(words: Option<String>) -> Judgement {
    let message = format!(
        "no node has room for the VM{}: it starts when there is some; until then make it smaller \
         (spec.cpu, spec.memory), switch others off, or have nodes added",
        in_words(words)
    );
    Judgement::new(VmPhase::Failed, false, "Unschedulable", message)
}

/// That `KubeVirt` says why it cannot start the VM.
fn start_blocked(
    machine: Option<&VirtualMachine>,
    instance: Option<&VirtualMachineInstance>,
) -> Option<Judgement> {
    let words = blockers::of_machine(machine, instance)?;
    Some(Judgement::new(
        VmPhase::Failed,
        false,
        "StartBlocked",
        format!(
            "KubeVirt cannot start the VM, and tries again and again ({words}): an administrator \
             must look at that; what a quota or a limit is in the way of starts when the VM is \
             smaller (spec.cpu, spec.memory), too"
        ),
    ))
}

/// Words of `KubeVirt` as they stand in a sentence.
fn in_words(words: Option<String>) -> String {
    words.map(|words| format!(" ({words})")).unwrap_or_default()
}

fn running(seen: &Observed) -> Judgement {
    let (machine, instance) = (seen.machine.as_ref(), seen.instance.as_ref());
    let drain = blockers::drain(instance);
    let (reason, message) = if let Some(told) =
        drain.as_ref().and_then(|it| kept_from_leaving(it, seen))
    {
        told
    } else if is_true(of_machine(machine, RESTART)) {
        (
            "RestartRequired",
            "the VM runs; what was changed takes effect at its next restart".to_owned(),
        )
    } else if let Some(told) = resize::told(seen) {
        told
    } else if let Some(words) = blockers::of_machine(machine, instance) {
        (
            "RunningWithFault",
            format!("the VM runs, and KubeVirt says: {words}"),
        )
    } else if drain.is_some() {
        let message = "the VM runs and is to move to another node, for its own is to be emptied";
        ("Running", message.to_owned())
    } else {
        ("Running", "the VM runs".to_owned())
    };
    Judgement::new(VmPhase::Running, true, reason, message)
}

/// That the VM stays on a node that is to be emptied, and who has to do what: the node
/// waits for it.
fn kept_from_leaving(drain: &Drain, seen: &Observed) -> Option<(&'static str, String)> {
    let message = match drain {
        Drain::Asked(_) => {
            let why = moving::kept_from_leaving(seen)?;
            format!(
                "the VM runs on a node that is to be emptied, and does not begin to move to \
                 another ({why}): the node waits for it; an administrator must look at its \
                 VirtualMachineInstanceMigrations and at the quotas of its namespace; switched \
                 off and on (spec.powerState), it starts on another node"
            )
        }
        Drain::Held(why) => format!(
            "the VM runs on a node that is to be emptied, and cannot be moved while it runs \
             ({why}): the node waits for it; switch it off and on (spec.powerState), and it \
             starts on another node"
        ),
        Drain::Failed(why) => format!(
            "the VM runs on a node that is to be emptied, and could not be moved to another \
             ({why}), which KubeVirt tries again: an administrator must look at its \
             VirtualMachineInstanceMigrations and at the room on other nodes; switched off and \
             on (spec.powerState), it starts on another node"
        ),
    };
    Some(("RunningWithFault", message))
}

/// A guest is paused by a person, or by `KubeVirt` when it cannot write.
fn paused(instance: Option<&VirtualMachineInstance>) -> Judgement {
    let paused = of_instance(instance, "Paused");
    let reason = paused.and_then(|paused| paused.reason.as_deref());
    let words = in_words(paused.and_then(reports::words_of));
    let (reason, message) = match reason {
        Some("PausedIOError") => (
            "PausedIOError",
            format!(
                "the VM is paused because its disk could not be written{words}: an administrator \
                 must look at the storage; it goes on when the disk can be written again"
            ),
        ),
        _ => (
            "Paused",
            format!("the VM is paused{words}: unpause it, or switch it off and on"),
        ),
    };
    Judgement::new(VmPhase::Paused, false, reason, message)
}

/// That a change waits for a restart, with what `KubeVirt` says of it; nothing
/// where none does, or where nothing runs that could be restarted.
pub(super) fn restart_required(seen: &Observed) -> Option<NewCondition> {
    let found = of_machine(seen.machine.as_ref(), RESTART).filter(|found| is_true(Some(found)))?;
    seen.instance.as_ref()?;
    let what = found.message.as_deref().unwrap_or_default();
    let what = what.trim_end_matches('.');
    Some(NewCondition::new(
        RESTART_REQUIRED,
        true,
        "ChangedWhileRunning",
        format!(
            "a change cannot be made while the VM runs{}{what}: set spec.restartedAt to the \
             present time, or switch the VM off and on",
            if what.is_empty() { "" } else { ", " }
        ),
    ))
}

/// Whether `KubeVirt` itself has seen that the disk is filled. Without the
/// condition it has no reason to doubt it.
fn disks_are_ready(machine: Option<&VirtualMachine>) -> bool {
    of_machine(machine, "DataVolumesReady").is_none_or(|found| found.status == "True")
}

fn of_machine<'a>(machine: Option<&'a VirtualMachine>, type_: &str) -> Option<&'a StatusCondition> {
    let status = machine?.status.as_ref()?;
    status.conditions.iter().find(|found| found.type_ == type_)
}

fn of_instance<'a>(
    instance: Option<&'a VirtualMachineInstance>,
    type_: &str,
) -> Option<&'a StatusCondition> {
    let status = instance?.status.as_ref()?;
    status.conditions.iter().find(|found| found.type_ == type_)
}

fn is_true(condition: Option<&StatusCondition>) -> bool {
    condition.is_some_and(|found| found.status == "True")
}

#[cfg(test)]
#[path = "judge_tests.rs"]
mod tests;
