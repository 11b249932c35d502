//! Of snapshots of VMs' disks.

use super::Mutation;
use crate::suite::Suite::{Properties, Scenarios, Sweep};

const PLAN: &str = "kite-reconcile/src/snapshot/plan.rs";
const TAKING: &str = "kite-reconcile/src/snapshot/taking.rs";
const TOLD: &str = "kite-reconcile/src/snapshot/told.rs";
const SUMMARY: &str = "kite-reconcile/src/snapshot/summary.rs";
const OF_VM: &str = "kite-reconcile/src/vm/snapshots.rs";
const DISKS: &str = "kite-reconcile/src/vm/disks.rs";
const DISK: &str = "kite-reconcile/src/vm/disk.rs";
const RESTORE: &str = "kite-reconcile/src/vm/restore.rs";
const OBSERVE: &str = "kite-reconcile/src/snapshot/observe.rs";

pub(super) const ALL: &[Mutation] = &[
    Mutation {
        name: "protection-forgotten",
        what: "deletes the data of a protected snapshot when that is deleted",
        file: PLAN,
        edits: &[(
            "object.spec.protected && is_there && !owner_goes(seen)",
            "object.spec.protected && is_there && !owner_goes(seen) && false",
        )],
        first: (Sweep, "snapshot_kept"),
    },
    Mutation {
        name: "protection-of-one-who-goes",
        what: "keeps what was protected by an account that goes",
        file: PLAN,
        edits: &[(
            "object.spec.protected && is_there && !owner_goes(seen)",
            "object.spec.protected && is_there",
        )],
        first: (Scenarios, "keeping::an_account"),
    },
    Mutation {
        name: "disk-not-held",
        what: "deletes a VM's disk though a snapshot needs it that is to be kept",
        file: OF_VM,
        edits: &[(
            "Fate::NeedsDisk(_) => Left::Leaving,",
            "Fate::NeedsDisk(_) => Left::Nothing,",
        )],
        first: (Sweep, "snapshot_kept"),
    },
    Mutation {
        name: "snapshots-unseen-for-none",
        what: "takes snapshots that it has not looked at for none",
        file: OF_VM,
        edits: &[(
            "if seen.snapshots.is_none() {",
            "if seen.snapshots.is_none() && seen.machine.is_some() {",
        )],
        first: (Properties, "vm_laws::no_disk"),
    },
    Mutation {
        name: "snapshots-left-behind",
        what: "leaves a VM's snapshots behind when it goes",
        file: OF_VM,
        edits: &[(
            "Fate::Goes(it) => Left::DeleteUnchanged(it.clone().into())",
            "Fate::Goes(_) => Left::Nothing",
        )],
        first: (Scenarios, "keeping::they_go"),
    },
    Mutation {
        name: "note-without-a-lease",
        what: "has a guest frozen that another snapshot has frozen",
        file: TAKING,
        edits: &[(
            "is_another_on: seen.lease.is_some() && !is_lease_ours(object, seen),",
            "is_another_on: seen.lease.is_none() && is_lease_ours(object, seen),",
        )],
        first: (Scenarios, "taking::two_of"),
    },
    Mutation {
        name: "thaw-believed",
        what: "takes the note of a freeze away before the guest was asked to go on",
        file: PLAN,
        edits: &[("if self.seen.thawed {", "if !self.seen.thawed {")],
        first: (Scenarios, "taking::of_a_vm_that_runs"),
    },
    Mutation {
        name: "windows-for-a-minute",
        what: "believes that Windows stays at rest for a minute",
        file: TAKING,
        edits: &[(
            "OsFamily::Windows => LIMIT_OF_WINDOWS,",
            "OsFamily::Windows => LIMIT,",
        )],
        first: (Scenarios, "taking::windows"),
    },
    Mutation {
        name: "copy-called-done-believed",
        what: "takes a snapshot of a disk on which nothing has run",
        file: TAKING,
        edits: &[(
            "|| chosen.outlives_disk && phase == Some(\"Succeeded\")",
            "|| phase == Some(\"Succeeded\")",
        )],
        first: (Scenarios, "taking::of_a_disk"),
    },
    Mutation {
        name: "word-of-storage-believed",
        what: "calls a snapshot ready whose data went with the disk",
        file: SUMMARY,
        edits: &[(
            "(claim != Some(&source.claim_uid)).then(|| {",
            "(claim.is_some() && claim != Some(&source.claim_uid)).then(|| {",
        )],
        first: (Scenarios, "keeping::data_that"),
    },
    Mutation {
        name: "another-cut-for-it",
        what: "takes another cut of its name for what it was told of",
        file: SUMMARY,
        edits: &[(
            "!is_leaving && told.is_none_or(|told| it.metadata.uid.as_ref() == Some(told))",
            "!is_leaving && told.is_none_or(|told| !told.is_empty())",
        )],
        first: (Scenarios, "keeping::another_cut"),
    },
    Mutation {
        name: "told-lost-with-the-status",
        what: "judges anew what was told, once the status is lost",
        file: TOLD,
        edits: &[(
            "let told = of_status.or_else(|| snapshot::consistency(own?));",
            "let told = of_status.or_else(|| snapshot::consistency(own?).filter(|_| false));",
        )],
        first: (Scenarios, "keeping::what_is_told"),
    },
    Mutation {
        name: "snapshots-beyond-the-quota",
        what: "gives each of those who ask at once what is left for one",
        file: "kite-reconcile/src/room.rs",
        edits: &[(
            "let all = sum(|it| it.charge);",
            "let all = sum(|it| it.granted);",
        )],
        first: (Scenarios, "keeping::quotas"),
    },
    Mutation {
        name: "former-disk-not-held",
        what: "deletes a former disk though a snapshot needs it",
        file: DISKS,
        edits: &[("outlives: *outlives", "outlives: *outlives || true")],
        first: (Scenarios, "restoring::a_vm_is_restored"),
    },
    Mutation {
        name: "restore-by-another-s",
        what: "restores a VM from a snapshot of another VM",
        file: RESTORE,
        edits: &[("&& of.vm_uid != vm.uid", "&& false")],
        first: (Scenarios, "restoring::what_cannot_be_restored"),
    },
    Mutation {
        name: "copy-takes-itself-for-another",
        what: "gives a VM from a snapshot the identity that KubeVirt makes up",
        file: "kite-render/src/machine.rs",
        edits: &[(
            "if spec.from_snapshot.is_some() {",
            "if spec.from_snapshot.is_some() && is_windows {",
        )],
        first: (Scenarios, "making::a_new_vm"),
    },
    Mutation {
        name: "schedule-forgets-what-was-begun",
        what: "takes a snapshot anew that its owner has deleted",
        file: "kite-reconcile/src/vm/scheduled.rs",
        edits: &[(
            "            begun,\n            offset",
            "            begun: None,\n            offset",
        )],
        first: (Scenarios, "by_schedule::one_that_is_deleted"),
    },
    Mutation {
        name: "schedule-takes-what-is-kept",
        what: "clears away a snapshot that its owner keeps",
        file: "kite-reconcile/src/vm/scheduled.rs",
        edits: &[("self.object.is_kept(now) || self", "self")],
        first: (Scenarios, "by_schedule::snapshots_are_taken"),
    },
    Mutation {
        name: "schedule-of-what-never-ran",
        what: "has a VM that is off fill its schedule with what does not differ",
        file: "kite-reconcile/src/vm/scheduled.rs",
        edits: &[("&& seen.instance.is_none()", "&& seen.instance.is_some()")],
        first: (Scenarios, "by_schedule::a_vm_that_is_off"),
    },
    Mutation {
        name: "copy-of-what-goes",
        what: "makes a VM from a snapshot that cannot be used",
        file: "kite-reconcile/src/vm/origin.rs",
        edits: &[(
            "    if let Some(why) = why {",
            "    if let Some(why) = why.filter(|_| source.is_none()) {",
        )],
        first: (Scenarios, "making::what_it_cannot"),
    },
    Mutation {
        name: "restore-not-proven",
        what: "deletes the data of a snapshot though no guest has run on what is copied from it",
        file: OBSERVE,
        edits: &[(
            "(uid.is_none() || has_run_on != uid)",
            "(uid.is_none() && has_run_on != uid)",
        )],
        first: (Scenarios, "restoring::a_vm_that_is_off"),
    },
    Mutation {
        name: "replaced-disk-takes-over-the-mark",
        what: "gives a disk that replaces a lost one the day of the lost one's mark",
        file: DISK,
        edits: &[(
            "            since: seen.now,\n            ..it",
            "            ..it",
        )],
        first: (Scenarios, "restoring::former_disks"),
    },
    Mutation {
        name: "restore-without-a-mark",
        what: "marks another disk while the machine has no mark yet",
        file: RESTORE,
        edits: &[(
            "deeds.retain(|it| !matches!(it, Deed::Mark { .. }));",
            "deeds.retain(|it| !matches!(it, Deed::Point { .. }));",
        )],
        first: (Scenarios, "restoring::a_lost_disk"),
    },
];
