//! What all comes to, in a phase and a sentence.

use kite_core::{
    conditions::NewCondition,
    crd::{Consistency, SnapshotPhase},
    volume_snapshot::VolumeSnapshot,
};

use super::{
    plan::{Draft, READY},
    told::error_of,
};

/// Why a snapshot is not ready with which storage has trouble, as it says itself.
const FAILING: &str = "StorageFailing";

impl Draft<'_> {
    /// The summary, with the phase in the status.
    pub(super) fn sum_up(&mut self) -> NewCondition {
        let (phase, holds, reason, message) = self.judge();
        self.status.phase = Some(phase);
        NewCondition::new(READY, holds, reason, message)
    }

    fn judge(&self) -> (SnapshotPhase, bool, String, String) {
        let no = |phase, reason: &str, message: String| (phase, false, reason.to_owned(), message);
        let waits = self.waits.as_ref();
        let waits = |phase, reason: &'static str, message: &str| {
            let (reason, message) = waits.map_or((reason, message), |it| (it.0, &*it.1));
            no(phase, reason, message.to_owned())
        };
        if self.goes() {
            let message = "the snapshot is being deleted";
            return waits(SnapshotPhase::Deleting, "Deleting", message);
        }
        if let Some(failure) = &self.status.failure {
            let message = failure.message.clone();
            return no(SnapshotPhase::Failed, &failure.reason, message);
        }
        let taken = self.own();
        let Some(consistency) = self.status.consistency else {
            let phase = match (taken, &self.status.freeze) {
                (Some(_), _) => SnapshotPhase::Cutting,
                (None, Some(_)) => SnapshotPhase::Freezing,
                (None, None) => SnapshotPhase::Pending,
            };
            let words = error_of(taken);
            if let Some(words) = words {
                let message = format!("storage has not cut yet, and tries again: {words}");
                return no(phase, FAILING, message);
            }
            return waits(phase, "Pending", "the snapshot is being taken");
        };
        if let Some(why) = self.loss() {
            return no(SnapshotPhase::Lost, "Lost", why);
        }
        let status = taken.and_then(|it| it.status.as_ref());
        if status.is_none_or(|it| it.ready_to_use != Some(true)) {
            let (reason, message) = match error_of(taken) {
                Some(words) => (
                    FAILING,
                    format!(
                        "it is taken, and storage does not say that disks can be made from it: \
                         {words}"
                    ),
                ),
                None => (
                    "Completing",
                    "it is taken, and storage prepares it".to_owned(),
                ),
            };
            return no(SnapshotPhase::Completing, reason, message);
        }
        let how = match (consistency, &self.status.consistency_note) {
            (Consistency::Offline, _) => "the VM was off".to_owned(),
            (Consistency::Quiesced, _) => "the guest's file systems were at rest".to_owned(),
            (Consistency::CrashConsistent, Some(note)) => {
                format!("it is as after a power failure ({note})")
            }
            (Consistency::CrashConsistent, None) => "it is as after a power failure".to_owned(),
        };
        let message = format!("disks can be made from it; {how}");
        (
            SnapshotPhase::Ready,
            true,
            consistency.as_str().to_owned(),
            message,
        )
    }

    /// Why the data of one that was taken is gone, if it is. Storage may go on calling it
    /// ready.
    fn loss(&self) -> Option<String> {
        let taken = self.own();
        let told = self.status.volume_snapshot_uid.as_ref();
        let is_told = |it: &VolumeSnapshot| {
            let is_leaving = it.metadata.deletion_timestamp.is_some();
            !is_leaving && told.is_none_or(|told| it.metadata.uid.as_ref() == Some(told))
        };
        if !taken.is_some_and(is_told) {
            return Some(format!(
                "its data is gone: somebody has deleted VolumeSnapshot {}",
                self.snapshot.name
            ));
        }
        let source = self.status.source.as_ref().filter(|it| !it.outlives_disk)?;
        let claim = self
            .seen
            .claim
            .as_ref()
            .and_then(|it| it.metadata.uid.as_ref());
        (claim != Some(&source.claim_uid)).then(|| {
            format!(
                "the disk that it was taken of, PersistentVolumeClaim {}, is gone, and with its \
                 storage that is the end of the snapshot's data, too",
                source.claim
            )
        })
    }
}
