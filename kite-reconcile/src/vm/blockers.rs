//! What `KubeVirt` and CDI say is in the way of a VM, in their own words.
//!
//! Their reasons are many, and come with each version. So it is known what they say
//! of what is merely on its way, and all else that does not hold, and for which they
//! give words, is told.

use kite_core::{
    cdi::DataVolume,
    kubevirt::{StatusCondition, VirtualMachine, VirtualMachineInstance},
};

/// Characters of others' words that are told at most.
const LONGEST: usize = 600;

/// Conditions of VMs and instances that may be as they like: each is looked at where
/// it matters, or says nothing about whether a VM starts.
const OTHERWISE: &[&str] = &[
    "AccessCredentialsSynchronized",
    "AgentConnected",
    "AgentVersionNotSupported",
    "DataVolumesReady",
    "EvacuationRequested",
    "Failure",
    "HotMemoryChange",
    "HotVCPUChange",
    "Initialized",
    "LiveMigratable",
    "ManualRecoveryRequired",
    "MigrationRequired",
    "Paused",
    "PodScheduled",
    "Provisioning",
    "Ready",
    "RestartRequired",
    "StorageLiveMigratable",
    "Synchronized",
    "VolumesChange",
];

/// Reasons of a `DataVolume` that is on its way.
const ON_ITS_WAY: &[&str] = &[
    "",
    "Bound",
    "Completed",
    "ContainerCreating",
    "NotFound",
    "Pending",
    "PendingPopulation",
    "PodInitializing",
    "Pod is running",
    "TransferRunning",
    "WaitForFirstConsumer",
];

/// What keeps `KubeVirt` from doing with the machine what it should: the gravest
/// first. That the claim of its disk is not there is looked at elsewhere.
pub(super) fn of_machine(
    machine: Option<&VirtualMachine>,
    instance: Option<&VirtualMachineInstance>,
) -> Option<String> {
    let machine = machine.and_then(|it| it.status.as_ref());
    let machine = machine.map_or(&[][..], |status| &status.conditions);
    let instance = instance.and_then(|it| it.status.as_ref());
    let instance = instance.map_or(&[][..], |status| &status.conditions);
    let all = || instance.iter().chain(machine);
    let fails = machine.iter().find(|it| is(it, "Failure", "True"));
    let differs = all().find(|it| is(it, "Synchronized", "False") && !lacks_claim(it));
    let unknown = all().find(|it| {
        it.status == "False" && !OTHERWISE.contains(&it.type_.as_str()) && words_of(it).is_some()
    });
    let found = fails.or(differs).or(unknown)?;
    Some(told(found))
}

/// Why no node has room, as the scheduler says it.
pub(super) fn of_scheduling(instance: Option<&VirtualMachineInstance>) -> Option<String> {
    let status = instance?.status.as_ref()?;
    let mut conditions = status.conditions.iter();
    let found = conditions.find(|it| is(it, "PodScheduled", "False"))?;
    words_of(found)
}

/// What keeps CDI from filling the disk.
pub(super) fn of_disk(disk: &DataVolume) -> Option<String> {
    let conditions = &disk.status.as_ref()?.conditions;
    let is_blocked = |it: &&StatusCondition| {
        let reason = it.reason.as_deref().unwrap_or_default();
        let is_step = ["InProgress", "Scheduled", "Succeeded"]
            .iter()
            .any(|end| reason.ends_with(end));
        it.status != "True" && !is_step && !ON_ITS_WAY.contains(&reason) && words_of(it).is_some()
    };
    conditions.iter().find(is_blocked).map(told)
}

fn is(condition: &StatusCondition, type_: &str, status: &str) -> bool {
    condition.type_ == type_ && condition.status == status
}

/// While a disk is cloned, and for a moment after it, its claim is not seen.
fn lacks_claim(condition: &StatusCondition) -> bool {
    condition.reason.as_deref() == Some("FailedPvcNotFound")
}

/// Reason and words of a condition; its type, if it gives none.
fn told(condition: &StatusCondition) -> String {
    let reason = condition.reason.as_deref().filter(|it| !it.is_empty());
    let reason = reason.unwrap_or(&condition.type_);
    match words_of(condition) {
        Some(words) => format!("{reason}: {words}"),
        None => reason.to_owned(),
    }
}

/// A condition's words, none where it has none: without a stop at the end, as a
/// sentence goes on after them, and cut off where they are too many.
pub(super) fn words_of(condition: &StatusCondition) -> Option<String> {
    let message = condition.message.as_deref().unwrap_or_default();
    bounded(message)
}

/// Others' words as they are told.
pub(super) fn bounded(words: &str) -> Option<String> {
    let words = words.trim().trim_end_matches('.');
    let mut kept: String = words.chars().take(LONGEST).collect();
    if kept.len() < words.len() {
        kept.push('…');
    }
    (!kept.is_empty()).then_some(kept)
}

#[cfg(test)]
#[path = "blockers_tests.rs"]
mod tests;
