//! What drivers of storage do, by the provisioner that a storage class names.

use kube::api::DynamicObject;

use crate::actors::objects::text;

/// What becomes of a snapshot when the volume goes that it was taken of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Bond {
    /// It stays, and so do its data (Ceph, and most others).
    Independent,
    /// Its data go with the volume. The `VolumeSnapshot` goes on saying `readyToUse`.
    DiesWithVolume,
    /// The volume stays until its snapshots are gone.
    HoldsVolume,
}

/// How a driver behaves where drivers differ.
///
/// ```
/// use kite_fake::actors::storage::{Bond, Driver};
///
/// let longhorn = Driver::named("driver.longhorn.io");
/// assert_eq!(longhorn.bond, Bond::DiesWithVolume);
/// assert!(longhorn.binds_early);
/// assert_eq!(Driver::named("rook-ceph.rbd.csi.ceph.com"), Driver::default());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Driver {
    /// What its snapshots are to their volumes.
    pub bond: Bond,
    /// A copy is bound while its data still come from its source. It can be attached when
    /// they all are there, and never if the source has gone before.
    pub binds_early: bool,
    /// How many snapshots a volume has at most.
    pub most_snapshots: Option<usize>,
    /// A class of snapshots means backups to another place unless its parameter `type` says
    /// `snap`, and there is no such place.
    pub backs_up: bool,
}

impl Default for Driver {
    fn default() -> Self {
        Self {
            bond: Bond::Independent,
            binds_early: false,
            most_snapshots: None,
            backs_up: false,
        }
    }
}

impl Driver {
    /// The driver behind a provisioner: Longhorn and Cinder as they are known to behave, all
    /// others by [`Driver::default`].
    pub fn named(provisioner: &str) -> Self {
        match provisioner {
            "driver.longhorn.io" => Self {
                bond: Bond::DiesWithVolume,
                binds_early: true,
                most_snapshots: Some(250),
                backs_up: true,
            },
            "cinder.csi.openstack.org" => Self {
                bond: Bond::HoldsVolume,
                ..Self::default()
            },
            _ => Self::default(),
        }
    }

    /// The driver of a volume; `None` for one that no driver has made.
    pub fn of_volume(volume: &DynamicObject) -> Option<Self> {
        let name = text(volume, "/spec/csi/driver");
        (!name.is_empty()).then(|| Self::named(name))
    }

    /// Why it takes no snapshot by a class of which a volume has `taken` already.
    pub(in crate::actors) fn refusal(self, class: &DynamicObject, taken: usize) -> Option<String> {
        if self.backs_up && text(class, "/parameters/type") != "snap" {
            return Some(
                "rpc error: code = Internal desc = the backup target default is not available"
                    .to_owned(),
            );
        }
        let most = self.most_snapshots.filter(|most| taken >= *most)?;
        Some(format!(
            "rpc error: code = Internal desc = the volume has {taken} snapshots, and {most} is the \
             most that it can have"
        ))
    }
}
