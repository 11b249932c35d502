//! What is told of a snapshot for good.

use kite_core::{
    crd::{Consistency, KiteSnapshot, KiteSnapshotStatus, SnapshotFailure},
    volume_snapshot::VolumeSnapshot,
};
use kite_disks::taking::{self, Failed};
use kite_render::{Snapshot, snapshot};

use crate::{
    reports,
    standing::{Standing, standing},
};

/// What is told of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told {
    /// It was taken.
    Taken(Consistency),
    /// There is none.
    Failed,
}

/// The request to storage of this name, if it is the snapshot's.
pub(super) fn own<'a>(
    snapshot: &Snapshot<'_>,
    taken: Option<&'a VolumeSnapshot>,
) -> Option<&'a VolumeSnapshot> {
    let like = snapshot.metadata(snapshot.name.to_owned());
    taken.filter(|it| standing(&it.metadata, &like) != Standing::Foreign)
}

/// What is told already. Should the status be lost, its own request to storage says it.
pub(super) fn told(object: &KiteSnapshot, own: Option<&VolumeSnapshot>) -> Option<Told> {
    let status = object.status.as_ref();
    if status.is_some_and(|it| it.failure.is_some()) {
        return Some(Told::Failed);
    }
    let of_status = status.and_then(|it| it.consistency);
    let told = of_status.or_else(|| snapshot::consistency(own?));
    told.map(Told::Taken)
}

/// Writes into a status what was found.
pub(super) fn tell(
    status: &mut KiteSnapshotStatus,
    found: Result<taking::Consistency, Failed>,
    taken: Option<&VolumeSnapshot>,
    why_not_frozen: Option<&str>,
) {
    match found {
        Ok(found) => {
            let cut = taken.and_then(|it| it.status.as_ref());
            status.taken_at = cut.and_then(|it| it.creation_time.clone());
            status.volume_snapshot_uid = taken.and_then(|it| it.metadata.uid.clone());
            if found == taking::Consistency::CrashConsistent {
                let late = "the guest had gone on before storage cut, or the VM was started";
                status
                    .consistency_note
                    .get_or_insert_with(|| late.to_owned());
            } else {
                status.consistency_note = None;
            }
            status.consistency = Some(match found {
                taking::Consistency::Offline => Consistency::Offline,
                taking::Consistency::Quiesced => Consistency::Quiesced,
                taking::Consistency::CrashConsistent => Consistency::CrashConsistent,
            });
        }
        Err(why) => status.failure = Some(failure(why, taken, why_not_frozen)),
    }
}

fn failure(
    why: Failed,
    taken: Option<&VolumeSnapshot>,
    why_not_frozen: Option<&str>,
) -> SnapshotFailure {
    let because = |words: Option<String>| words.map(|it| format!(" ({it})")).unwrap_or_default();
    let (reason, message) = match why {
        Failed::NeverRan => (
            "NeverRan",
            "no guest has run on the disk yet, so that its data may still be on its way: start \
             the VM once, and create another snapshot"
                .to_owned(),
        ),
        Failed::CannotFreeze => (
            "CannotFreeze",
            "the guest cannot be frozen, since its agent is not connected or it is paused: \
             install qemu-guest-agent, or create another snapshot with spec.quiesce IfPossible, \
             or while the VM is off"
                .to_owned(),
        ),
        Failed::NotAtRest => (
            "NotAtRest",
            format!(
                "the guest was not at rest while storage cut, or is not known to have been{}: \
                 create another snapshot, with spec.quiesce IfPossible where it may be as after \
                 a power failure",
                because(why_not_frozen.and_then(reports::bounded))
            ),
        ),
        Failed::Storage => (
            "StorageFailed",
            format!(
                "storage has not taken it{}: an administrator must look at its driver; create \
                 another snapshot",
                because(error_of(taken))
            ),
        ),
        Failed::Deleted => ("Deleted", "it was deleted before it was taken".to_owned()),
    };
    SnapshotFailure {
        reason: reason.to_owned(),
        message,
    }
}

/// What storage says of a snapshot that it has trouble with.
pub(super) fn error_of(taken: Option<&VolumeSnapshot>) -> Option<String> {
    let error = taken?.status.as_ref()?.error.as_ref()?;
    reports::bounded(error.message.as_deref()?)
}
