//! Who needs a disk or a snapshot, so that it stays.

use crate::seen::{Disk, Fill, Snapshot};

/// Whether one of `snapshots` dies with `disk`.
///
/// A driver may delete them with it, and go on calling them ready.
#[must_use]
pub fn is_needed(disk: &Disk<'_>, snapshots: &[Snapshot<'_>]) -> bool {
    let mut own = snapshots.iter().filter(|it| it.of == disk.name);
    own.any(|it| !it.outlives)
}

/// Whether the snapshot `name` may be deleted for what is known of `disks`, of all machines:
/// none of them still copies from it.
///
/// That a copy is called done is no proof.
#[must_use]
pub fn may_be_deleted<'a>(name: &str, disks: impl IntoIterator<Item = &'a Disk<'a>>) -> bool {
    let mut copies = disks.into_iter().filter(|it| it.copy_of == Some(name));
    copies.all(|it| it.is_proven || it.is_leaving || it.fill == Fill::Failed)
}
