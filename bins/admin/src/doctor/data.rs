//! What people have on disks: what is lost of it, and what is not kept by the schedules that
//! they have set.

use kube::{ResourceExt as _, api::DynamicObject};

use super::{
    facts::Facts,
    finding::{Finding, State},
};

/// How many are named.
const NAMED: usize = 10;

/// VMs and volumes whose data is lost or is about to go; none where nothing is.
pub(super) fn lost(facts: &Facts) -> Option<Finding> {
    let vms = facts.vms.known().into_iter().flatten();
    let disks = vms.filter_map(|vm| {
        let reason = reason_of(vm, "DiskReady")?;
        let is_lost = matches!(reason, "DiskLost" | "DiskLeaving");
        is_lost.then(|| format!("VM {} ({reason})", place(vm)))
    });
    let volumes = facts.volumes.known().into_iter().flatten();
    let lost = volumes.filter(|it| it.data["status"]["phase"] == "Lost");
    let lost = lost.map(|it| format!("volume {}", place(it)));
    let named = named(disks.chain(lost).collect())?;
    Some(Finding::of(
        "lostData",
        State::Warning,
        format!("data is gone from disks, or goes with the next stop: {named}"),
        "look at the conditions of each (kubectl describe): what can be done stands there; and \
         find out who deletes disks",
    ))
}

/// VMs whose schedules of snapshots are not followed, in taking new ones or in clearing old ones
/// away; none where all are.
pub(super) fn schedules(facts: &Facts) -> Option<Finding> {
    let vms = facts.vms.known().into_iter().flatten();
    let stuck = vms.filter_map(|vm| {
        let reason = reason_of(vm, "SnapshotsScheduled")?;
        let is_stuck = matches!(
            reason,
            "ScheduleSuspended" | "SnapshotRefused" | "ScheduleInvalid"
        );
        is_stuck.then(|| format!("{} ({reason})", place(vm)))
    });
    let named = named(stuck.collect())?;
    Some(Finding::of(
        "snapshotSchedules",
        State::Warning,
        format!("schedules of snapshots are not followed: {named}"),
        "look at the condition SnapshotsScheduled of each (kubectl describe ktvm), and at \
         `snapshots` here; the owners can mend what is theirs",
    ))
}

/// Why a condition does not hold.
fn reason_of<'a>(object: &'a DynamicObject, kind: &str) -> Option<&'a str> {
    let conditions = object.data["status"]["conditions"].as_array()?;
    let told = conditions.iter().find(|it| it["type"] == kind)?;
    (told["status"] == "False").then(|| told["reason"].as_str())?
}

fn place(object: &DynamicObject) -> String {
    let namespace = object.namespace().unwrap_or_default();
    format!("{namespace}/{}", object.name_any())
}

/// Some of them by name, and how many more there are; none where there are none.
fn named(all: Vec<String>) -> Option<String> {
    if all.is_empty() {
        return None;
    }
    let more = all.len().saturating_sub(NAMED);
    let first = all.into_iter().take(NAMED).collect::<Vec<_>>().join(", ");
    Some(if more > 0 {
        format!("{first} and {more} more")
    } else {
        first
    })
}
