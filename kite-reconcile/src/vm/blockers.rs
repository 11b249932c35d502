//! What `KubeVirt` and CDI say is in the way of a VM, in their own words.
//!
//! Their reasons are many, and come with each version. So it is known what they say
//! of what is merely on its way, and all else is told that does not hold, and for
//! which they give words, or that holds and sounds like a failure.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kite_core::kubevirt::{StatusCondition, VirtualMachine, VirtualMachineInstance};
use serde_json::Value;

use crate::reports::{bounded, is_amiss, told, words_of};

/// Conditions of VMs and instances that may be as they like: each is looked at where
/// it matters, or says nothing about whether a VM starts: Kite gives no access credentials
/// by `KubeVirt` and asks for no agent, and that volumes of a running instance change or
/// its storage moves is ordered by whoever looks at it.
const OTHERWISE: &[&str] = &[
    "AccessCredentialsSynchronized",
    "AgentConnected",
    "AgentVersionNotSupported",
    "DataVolumesReady",
    "EvictionRequested",
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

/// Conditions of a claim that may be as they like, or are looked at where it grows.
/// `Unused` is every claim's since Kubernetes 1.37, and does not hold, with words to it,
/// while a pod has the claim.
const OF_CLAIMS: &[&str] = &[
    "ControllerResizeError",
    "FileSystemResizePending",
    "ModifyingVolume",
    "NodeResizeError",
    "Resizing",
    "Unused",
];

/// What keeps `KubeVirt` from doing with the machine what it should: the gravest
/// first. That the claim of its disk is not there is looked at elsewhere.
pub(super) fn of_machine(
    machine: Option<&VirtualMachine>,
    instance: Option<&VirtualMachineInstance>,
) -> Option<String> {
    let machine = of_vm(machine);
    let all = || of_instance(instance).iter().chain(machine);
    let fails = machine.iter().find(|it| is(it, "Failure", "True"));
    let lost = || all().find(|it| is(it, "ManualRecoveryRequired", "True"));
    let differs = || all().find(|it| is(it, "Synchronized", "False") && !lacks_claim(it));
    let unknown = || all().find(|it| !OTHERWISE.contains(&it.type_.as_str()) && is_amiss(it));
    let found = fails.or_else(lost).or_else(differs).or_else(unknown)?;
    Some(told(found))
}

/// What `KubeVirt` says of a claim that it does not see.
pub(super) fn of_unseen_claim(
    machine: Option<&VirtualMachine>,
    instance: Option<&VirtualMachineInstance>,
) -> Option<String> {
    let mut all = of_instance(instance).iter().chain(of_vm(machine));
    all.find(|it| it.status == "False" && lacks_claim(it))
        .and_then(words_of)
}

/// Why no node has room, as the scheduler says it.
pub(super) fn of_scheduling(instance: Option<&VirtualMachineInstance>) -> Option<String> {
    let mut conditions = of_instance(instance).iter();
    let found = conditions.find(|it| is(it, "PodScheduled", "False"))?;
    words_of(found)
}

/// How an instance comes off a node that is to be emptied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Drain {
    /// It is to move, since this time as far as that is told.
    Asked(Option<Timestamp>),
    /// It was to move and could not, for this reason.
    Failed(String),
    /// It cannot be moved, for this reason, and holds up whoever empties the node.
    Held(String),
}

/// Whether the instance is to leave its node, and what is in the way.
pub(super) fn drain(instance: Option<&VirtualMachineInstance>) -> Option<Drain> {
    let status = instance?.status.as_ref()?;
    let node = status.other.get("evacuationNodeName");
    let is_marked = node
        .and_then(Value::as_str)
        .is_some_and(|it| !it.is_empty());
    let conditions = &status.conditions;
    let find = |type_, word| conditions.iter().find(|it| is(it, type_, word));
    if !is_marked && find("EvictionRequested", "True").is_none() {
        return None;
    }
    if let Some(fixed) = find("LiveMigratable", "False") {
        return Some(Drain::Held(told(fixed)));
    }
    let asked = find("EvictionRequested", "True").and_then(since);
    Some(failed_move(instance, asked).map_or(Drain::Asked(asked), Drain::Failed))
}

/// Since when a condition is as it is, as far as that is told.
pub(super) fn since(condition: &StatusCondition) -> Option<Timestamp> {
    condition.last_transition_time.as_deref()?.parse().ok()
}

/// Why the last migration of an instance has failed, if it has. One that ended before it was
/// `asked` for what it is to move for now was for something else; of times that are not told
/// nobody knows.
pub(super) fn failed_move(
    instance: Option<&VirtualMachineInstance>,
    asked: Option<Timestamp>,
) -> Option<String> {
    let state = instance?.status.as_ref()?.other.get("migrationState")?;
    if state.get("failed").and_then(Value::as_bool) != Some(true) {
        return None;
    }
    let ended = state.get("endTimestamp").and_then(Value::as_str);
    let ended = ended.and_then(|it| it.parse::<Timestamp>().ok());
    if ended.zip(asked).is_some_and(|(ended, asked)| ended < asked) {
        return None;
    }
    let why = state.get("failureReason").and_then(Value::as_str);
    let why = why.and_then(bounded);
    Some(why.unwrap_or_else(|| "its last migration failed, for no reason that is told".to_owned()))
}

/// Why an instance cannot be moved while it runs, where `KubeVirt` says so.
pub(super) fn fixed(instance: Option<&VirtualMachineInstance>) -> Option<String> {
    let mut conditions = of_instance(instance).iter();
    let found = conditions.find(|it| is(it, "LiveMigratable", "False"))?;
    Some(told(found))
}

/// Whether `KubeVirt` says that an instance can be moved while it runs.
pub(super) fn may_move(instance: Option<&VirtualMachineInstance>) -> bool {
    let mut conditions = of_instance(instance).iter();
    conditions.any(|it| is(it, "LiveMigratable", "True"))
}

/// Whether an instance is on its way to another launcher.
pub(crate) fn is_moving(instance: Option<&VirtualMachineInstance>) -> bool {
    let status = instance.and_then(|it| it.status.as_ref());
    let state = status.and_then(|it| it.other.get("migrationState"));
    state.is_some_and(|state| {
        let is = |field: &str| state.get(field).and_then(Value::as_bool) == Some(true);
        state.is_object() && !is("completed") && !is("failed")
    })
}

/// What storage says of a claim that nobody else looks at.
pub(super) fn of_claim(claim: &PersistentVolumeClaim) -> Option<String> {
    let conditions = claim.status.as_ref()?.conditions.as_ref()?;
    let others = conditions.iter().map(|it| StatusCondition {
        type_: it.type_.clone(),
        status: it.status.clone(),
        reason: it.reason.clone(),
        message: it.message.clone(),
        ..StatusCondition::default()
    });
    let mut others = others.filter(|it| !OF_CLAIMS.contains(&it.type_.as_str()));
    others.find(is_amiss).map(|it| told(&it))
}

fn of_vm(machine: Option<&VirtualMachine>) -> &[StatusCondition] {
    let status = machine.and_then(|it| it.status.as_ref());
    status.map_or(&[][..], |status| &status.conditions)
}

fn of_instance(instance: Option<&VirtualMachineInstance>) -> &[StatusCondition] {
    let status = instance.and_then(|it| it.status.as_ref());
    status.map_or(&[][..], |status| &status.conditions)
}

fn is(condition: &StatusCondition, type_: &str, status: &str) -> bool {
    condition.type_ == type_ && condition.status == status
}

/// While a disk is cloned, and for a moment after it, its claim is not seen.
fn lacks_claim(condition: &StatusCondition) -> bool {
    condition.reason.as_deref() == Some("FailedPvcNotFound")
}

#[cfg(test)]
#[path = "blockers_tests.rs"]
mod tests;
