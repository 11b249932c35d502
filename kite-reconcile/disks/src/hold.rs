//! Who needs a disk or a snapshot, so that it stays.

use crate::seen::{Disk, Fill, From, Request, Snapshot};

/// Whether one of `snapshots` dies with `disk`.
///
/// A driver may delete them with it, and go on calling them ready.
#[must_use]
pub fn is_needed(disk: &Disk<'_>, snapshots: &[Snapshot<'_>]) -> bool {
    let mut own = snapshots.iter().filter(|it| it.of == disk.name);
    own.any(|it| !it.outlives)
}

/// Whether the snapshot `name` may be deleted: none of `copies`, of whatever machine or image,
/// is still copied from it, and none of the open `requests` is to be made from it.
///
/// To be asked before a schedule deletes it, and before its data goes. The copies are read
/// after it was seen that the snapshot is on its way out, since from then on none is begun.
/// That a copy is called done is no proof. What no guest runs on, such as an image, is proven
/// by whoever has attached and read it.
#[must_use]
pub fn may_be_deleted<'a>(
    name: &str,
    copies: impl IntoIterator<Item = &'a Disk<'a>>,
    requests: impl IntoIterator<Item = Request<'a>>,
) -> bool {
    let mut copies = copies.into_iter().filter(|it| it.copy_of == Some(name));
    let is_asked = |it: Request<'_>| it.from == From::Snapshot(name);
    copies.all(|it| it.is_proven || it.is_leaving || it.fill == Fill::Failed)
        && !requests.into_iter().any(is_asked)
}
