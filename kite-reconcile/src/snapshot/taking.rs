//! What was seen, in the words of [`kite_disks::taking`].

use std::time::Duration;

use jiff::Timestamp;
use kite_core::{
    crd::{FreezeStatus, KiteSnapshot, OsFamily, Quiesce},
    volume_snapshot::VolumeSnapshot,
};
use kite_disks::taking::{
    Before, Consistency, Cut, Failed, Freeze, Guest, Quiesce as Wanted, Taking,
};
use kite_render::{disk, machine, snapshot};

use super::{observe::Observed, plan::is_held, storage::Chosen, told::Told};
use crate::vm::{is_moving, runs_on};

/// For how long a snapshot waits for a guest that starts, stops or moves, and then for storage
/// to cut.
const PATIENCE: Duration = Duration::from_secs(600);
/// For how long a guest is frozen at most.
const LIMIT: Duration = Duration::from_secs(60);
/// The same with Windows, whose own limit it is.
const LIMIT_OF_WINDOWS: Duration = Duration::from_secs(10);

/// For how long a guest of this family is frozen at most.
pub(super) fn limit(of: OsFamily) -> Duration {
    match of {
        OsFamily::Windows => LIMIT_OF_WINDOWS,
        _ => LIMIT,
    }
}

/// What is seen of the guest.
pub(super) fn guest(seen: &Observed) -> Guest<'_> {
    let Some(instance) = &seen.instance else {
        // Without a machine there is no version by which a start would be known.
        let is_off = seen
            .machine
            .as_ref()
            .is_some_and(|it| it.spec.run_strategy.as_deref() == Some("Halted"));
        return if is_off { Guest::Off } else { Guest::Changes };
    };
    let status = instance.status.as_ref();
    let runs = status.is_some_and(|it| it.phase.as_deref() == Some("Running"));
    let leaves = instance.metadata.deletion_timestamp.is_some();
    let uid = instance.metadata.uid.as_deref();
    let (true, false, Some(uid), Some(status)) =
        (runs, leaves || is_moving(Some(instance)), uid, status)
    else {
        return Guest::Changes;
    };
    let holds = |type_: &str| {
        let mut conditions = status.conditions.iter();
        conditions.any(|it| it.type_ == type_ && it.status == "True")
    };
    let reported = status.other.get("fsFreezeStatus");
    Guest::Runs {
        instance: uid,
        can_freeze: holds("AgentConnected") && !holds("Paused"),
        is_frozen: reported.and_then(|it| it.as_str()) == Some("frozen"),
    }
}

/// How far storage is.
fn cut<'a>(taken: Option<&VolumeSnapshot>, before: Option<&'a snapshot::Before>) -> Cut<'a> {
    let Some(taken) = taken else {
        return Cut::None;
    };
    let cut = taken
        .status
        .as_ref()
        .and_then(|it| it.creation_time.as_ref());
    match cut {
        // Somebody has deleted it.
        None if taken.metadata.deletion_timestamp.is_some() => Cut::Failed,
        None => Cut::Asked,
        Some(_) => Cut::Made(before.map_or(
            // Somebody has changed what stands on it: nothing is known.
            Before {
                machine: "",
                frozen: None,
                is_off: false,
            },
            |it| Before {
                machine: &it.machine,
                frozen: it.frozen.as_deref(),
                is_off: it.is_off,
            },
        )),
    }
}

/// The note of a freeze in a status.
fn noted(status: &FreezeStatus) -> Freeze<'_> {
    Freeze {
        instance: &status.instance_uid,
        since: status.since.0,
    }
}

/// Whether the Lease of the VM's guest is this snapshot's.
pub(super) fn is_lease_ours(object: &KiteSnapshot, seen: &Observed) -> bool {
    let holder = seen.lease.as_ref().and_then(|it| it.spec.as_ref());
    let holder = holder.and_then(|it| it.holder_identity.as_ref());
    holder.is_some() && holder == object.metadata.uid.as_ref()
}

/// All of it. `taken` is its own request to storage, and `before` what stands on that.
pub(super) fn taking<'a>(
    object: &'a KiteSnapshot,
    seen: &'a Observed,
    chosen: Option<&Chosen<'_>>,
    taken: Option<&VolumeSnapshot>,
    before: Option<&'a snapshot::Before>,
    told: Option<Told>,
) -> Taking<'a> {
    let status = object.status.as_ref();
    let guest = guest(seen);
    let is_proven = chosen.is_some_and(|it| is_proven(seen, it));
    let since = taken.map_or(&object.metadata, |it| &it.metadata);
    let since = since
        .creation_timestamp
        .as_ref()
        .map_or(Timestamp::MAX, |it| it.0);
    let waited = Duration::try_from(seen.now.duration_since(since));
    Taking {
        quiesce: match object.spec.quiesce {
            Quiesce::IfPossible => Wanted::IfPossible,
            Quiesce::Required => Wanted::Required,
            Quiesce::No => Wanted::No,
        },
        guest,
        machine: seen
            .machine
            .as_ref()
            .and_then(|it| it.metadata.resource_version.as_deref())
            .unwrap_or_default(),
        freeze: status.and_then(|it| it.freeze.as_ref()).map(noted),
        is_another_on: seen.lease.is_some() && !is_lease_ours(object, seen),
        limit: limit(family(seen)),
        is_proven,
        is_late: waited.is_ok_and(|it| it >= PATIENCE),
        is_leaving: object.metadata.deletion_timestamp.is_some() && !is_held(object, taken, seen),
        told: told.map(|it| match it {
            Told::Failed => Err(Failed::Storage),
            // Which it is matters to nobody any more.
            Told::Taken(_) => Ok(Consistency::CrashConsistent),
        }),
        cut: cut(taken, before),
        now: seen.now,
    }
}

/// Whether all of the disk's data is known to be there: a guest runs on it or has run, or the
/// disk is filled by storage whose copies are there at once.
fn is_proven(seen: &Observed, chosen: &Chosen<'_>) -> bool {
    let Some(claim) = &seen.claim else {
        return false;
    };
    let uid = claim.metadata.uid.as_deref();
    let status = seen.vm.as_ref().and_then(|it| it.status.as_ref());
    let noted = status.and_then(|it| it.disk.as_ref()?.has_run_on.as_deref());
    let phase = seen
        .own_disk()
        .and_then(|it| it.status.as_ref()?.phase.as_deref());
    let runs = seen.instance.as_ref();
    runs.is_some_and(|it| runs_on(it, claim))
        || noted.is_some() && noted == uid
        || chosen.outlives_disk && phase == Some("Succeeded")
}

/// The family of the guest on the disk, as that remembers it, or as the machine was made for.
pub(super) fn family(seen: &Observed) -> OsFamily {
    let of_disk = seen.disk.as_ref().and_then(disk::family_of);
    let of_machine = || seen.machine.as_ref().map(machine::family_of);
    of_disk.or_else(of_machine).unwrap_or_default()
}
