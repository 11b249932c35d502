//! Whether there is room for a snapshot in its owner's quota.
//!
//! How many there are the API server bounds itself; how large they are together is bounded
//! here.

use kite_core::{
    crd::{KiteSnapshot, SnapshotFailure},
    names,
    quantity::Bytes,
};
use kube::ResourceExt as _;

use super::observe::Observed;
use crate::{
    room::{Other, Room as Verdict, room as judge},
    vm::{age, gibibytes},
};

/// What is said to a snapshot that needs so much room.
pub(super) enum Room {
    /// It has it.
    Granted,
    /// It has to be told first how much.
    Ask,
    /// It is not known yet, or those who asked later have to give way first.
    Wait,
    /// There is none.
    None(SnapshotFailure),
}

pub(super) fn room(object: &KiteSnapshot, seen: &Observed, size: &Bytes) -> Room {
    let namespace = object.namespace().unwrap_or_default();
    let status = object.status.as_ref();
    let has_asked = status.is_some_and(|it| it.size.as_ref() == Some(size));
    if status.is_some_and(|it| it.granted) {
        return Room::Granted;
    }
    let Some(user) = names::user_of_namespace(&namespace) else {
        return if has_asked { Room::Granted } else { Room::Ask };
    };
    let quota = match &seen.owner {
        Some(owner) if owner.spec.unreadable.is_none() => owner.spec.effective_quota(),
        Some(_) => return unknown(&format!("KiteUser {user} cannot be read")),
        None => return unknown(&format!("there is no KiteUser {user}")),
    };
    if let Some(unread) = seen.siblings.unread.first() {
        return unknown(&format!("KiteSnapshot {unread}"));
    }
    let limit = quota.snapshot_disk();
    let others = seen
        .siblings
        .all
        .iter()
        .filter(|it| it.uid() != object.uid());
    let others = others.map(|it| {
        let charge = it.charge();
        let is_granted = it.status.as_ref().is_some_and(|it| it.granted);
        Other {
            granted: if is_granted { charge } else { 0 },
            charge,
            is_older: age(&it.metadata) < age(&object.metadata),
        }
    });
    let others: Vec<_> = others.collect();
    let (needs, most) = (size.bytes(), limit.bytes());
    let are_known = seen.siblings.are_known();
    let others = match judge(needs, most, has_asked, &others, are_known) {
        Verdict::Granted => return Room::Granted,
        Verdict::Ask => return Room::Ask,
        Verdict::Wait => return Room::Wait,
        Verdict::None { others } => others,
    };
    none(
        "QuotaExceeded",
        format!(
            "the snapshot needs {size}, the user's other snapshots have {}, and the quota is \
             {limit}: delete other snapshots, or ask an administrator for more \
             (spec.quota.snapshotDisk of the KiteUser), and create another one",
            gibibytes(others)
        ),
    )
}

/// That it is not known how much room there is.
fn unknown(why: &str) -> Room {
    none(
        "QuotaUnknown",
        format!(
            "what is left of the quota is not known, since {why}: an administrator must mend \
             that; create another snapshot then"
        ),
    )
}

fn none(reason: &str, message: String) -> Room {
    Room::None(SnapshotFailure {
        reason: reason.to_owned(),
        message,
    })
}
