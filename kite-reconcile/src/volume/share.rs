//! Whether there is room for a volume in its owner's quota.
//!
//! How many there are the API server bounds itself; how large they are together is bounded
//! here.

use kite_core::{names, quantity::Bytes};
use kite_render::Volume;
use kube::ResourceExt as _;

use super::{data::Data, observe::Observed};
use crate::{
    room::{Other, Room, room},
    vm::{age, gibibytes},
};

/// What a volume may have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Share {
    /// How large it may be; none before it has been granted anything.
    pub(super) granted: Option<Bytes>,
    /// What it asks for.
    pub(super) asking: Option<Bytes>,
    /// Why it does not get more: a reason and a sentence.
    pub(super) refused: Option<(&'static str, String)>,
    /// Whether others have to be looked at once more before it is known.
    pub(super) waits: bool,
}

/// What it has been granted, or has anyway: the status may be lost. What it was granted and has
/// not grown by yet is taken back where less is asked for by now.
fn held(volume: &Volume<'_>, seen: &Observed) -> Option<Bytes> {
    let status = volume.object.status.as_ref();
    let granted = status.and_then(|it| it.granted.clone());
    let granted = granted.map(|it| it.min(volume.object.spec.size.clone()));
    granted.max(Data::of(volume, seen).size(volume))
}

/// Whether it is to have more than it was granted.
pub(super) fn asks(volume: &Volume<'_>, seen: &Observed) -> bool {
    let wanted = &volume.object.spec.size;
    held(volume, seen).is_none_or(|held| held < *wanted)
}

pub(super) fn share(volume: &Volume<'_>, seen: &Observed) -> Share {
    let object = volume.object;
    let wanted = &object.spec.size;
    let granted = held(volume, seen);
    let is_larger = granted.as_ref().is_none_or(|held| held < wanted);
    let refused = |reason, message| Share {
        granted: granted.clone(),
        refused: Some((reason, message)),
        ..Share::default()
    };
    let Some(user) = names::user_of_namespace(volume.namespace) else {
        // Nobody's quota bounds it.
        let granted = if is_larger {
            Some(wanted.clone())
        } else {
            granted
        };
        return Share {
            granted,
            ..Share::default()
        };
    };
    if !is_larger {
        return Share {
            granted,
            ..Share::default()
        };
    }
    let unknown = |why: &str| {
        let message = format!(
            "what is left of the quota is not known, since {why}: an administrator must mend that"
        );
        refused("QuotaUnknown", message)
    };
    let quota = match &seen.owner {
        Some(owner) if owner.spec.unreadable.is_none() => owner.spec.effective_quota(),
        Some(_) => return unknown(&format!("KiteUser {user} cannot be read")),
        None => return unknown(&format!("there is no KiteUser {user}")),
    };
    if let Some(unread) = seen.siblings.unread.first() {
        return unknown(&format!("KiteVolume {unread}"));
    }
    let others = seen
        .siblings
        .all
        .iter()
        .filter(|it| it.uid() != object.uid());
    let others = others.map(|it| Other {
        granted: it.granted(),
        charge: it.charge(),
        is_older: age(&it.metadata) < age(&object.metadata),
    });
    let others: Vec<_> = others.collect();
    let limit = quota.volume_disk();
    let asking = object.status.as_ref().and_then(|it| it.asking.as_ref());
    let has_asked = asking == Some(wanted);
    let are_known = seen.siblings.are_known();
    match room(wanted.bytes(), limit.bytes(), has_asked, &others, are_known) {
        Room::Granted => Share {
            granted: Some(wanted.clone()),
            ..Share::default()
        },
        Room::Ask => Share {
            granted,
            asking: Some(wanted.clone()),
            ..Share::default()
        },
        Room::Wait => Share {
            granted,
            asking: asking.cloned(),
            waits: true,
            ..Share::default()
        },
        Room::None { others } => {
            let has = granted.as_ref();
            let has = has
                .map(|has| format!(" (it has {has})"))
                .unwrap_or_default();
            let message = format!(
                "the volume is to have {wanted}{has}, the user's other volumes have {}, and the \
                 quota is {limit}: ask for less, delete others, or ask an administrator for more \
                 (spec.quota.volumeDisk of the KiteUser)",
                gibibytes(others)
            );
            refused("QuotaExceeded", message)
        }
    }
}
