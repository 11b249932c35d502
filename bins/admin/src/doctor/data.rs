//! What people have on disks: what is lost of it, and what is not kept by the schedules that
//! they have set.

use std::collections::BTreeSet;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kite_core::crd::KiteUser;
use kube::{Resource as _, ResourceExt, api::DynamicObject};

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

/// Namespaces that were made for accounts which are gone; none where each has its account. The
/// garbage collector is kept from them, so that nobody clears them away.
pub(super) fn left_behind(facts: &Facts) -> Option<Finding> {
    let users = facts.users.known()?;
    let uids: BTreeSet<_> = users.iter().filter_map(ResourceExt::uid).collect();
    let namespaces = facts.namespaces.known()?.iter();
    let left = namespaces.filter(|it| {
        let is_own = |owner: &&OwnerReference| {
            owner.kind == KiteUser::kind(&()) && owner.api_version == KiteUser::api_version(&())
        };
        let mut owners = it.owner_references().iter().filter(is_own).peekable();
        it.metadata.deletion_timestamp.is_none()
            && owners.peek().is_some()
            && owners.all(|owner| !uids.contains(&owner.uid))
    });
    let named = named(left.map(ResourceExt::name_any).collect())?;
    Some(Finding::of(
        "namespacesLeft",
        State::Warning,
        format!("namespaces are left of accounts that are not there any more: {named}"),
        "somebody took the finalizer off the KiteUser: look for volumes, snapshots and disks that are \
         still needed in each (kubectl get kvol,ksnap,dv,pvc -n NAMESPACE), then delete the namespace, and \
         all that is in it",
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
