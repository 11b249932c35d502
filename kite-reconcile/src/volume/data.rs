//! What there is of a volume's data.

use k8s_openapi::{
    api::core::v1::PersistentVolumeClaim, apimachinery::pkg::apis::meta::v1::OwnerReference,
};
use kite_core::{cdi::DataVolume, cluster::Object, crd::VolumeDisk, quantity::Bytes};
use kite_render::{Volume, restore::DiskNotes};
use kube::api::ObjectMeta;

use super::observe::Observed;
use crate::{
    disk_claim::{Overhead, claim_size, disk_size},
    standing::{Standing, standing},
    vm::DiskState,
};

/// What there is under the name of a volume's disk.
#[derive(Clone, Copy, Debug)]
pub(super) enum Data<'a> {
    /// Nothing, and there never was.
    None,
    /// An object of this kind is somebody else's.
    Foreign(&'static str),
    /// The disk, of which there is no claim yet.
    Begun(&'a DataVolume),
    /// The disk and its claim; or the claim alone, which has all of the data.
    There(Option<&'a DataVolume>, &'a PersistentVolumeClaim),
    /// An object of this kind is on its way out, and the data with it.
    Leaving(&'static str),
    /// It is gone, or another claim has its name.
    Lost,
}

const DISK: &str = "DataVolume";
const CLAIM: &str = "PersistentVolumeClaim";

impl<'a> Data<'a> {
    pub(super) fn of(volume: &Volume<'_>, seen: &'a Observed) -> Self {
        let told = told(volume).and_then(|it| it.claim_uid.as_ref());
        let (disk, claim) = (seen.disk.as_ref(), seen.claim.as_ref());
        if disk.is_some_and(|it| !is_own(volume, it, claim)) {
            return Self::Foreign(DISK);
        }
        let Some(claim) = claim else {
            return match (disk, told) {
                (Some(disk), _) if is_leaving(disk) => Self::Leaving(DISK),
                (_, Some(_)) => Self::Lost,
                (Some(disk), None) if has_its_data(disk) => Self::Lost,
                (Some(disk), None) => Self::Begun(disk),
                (None, None) => Self::None,
            };
        };
        match disk {
            _ if told.is_some() && !is_told(volume, claim) => Self::Lost,
            _ if !is_its(volume, disk, claim) => Self::Foreign(CLAIM),
            Some(disk) if is_leaving(disk) => Self::Leaving(DISK),
            _ if is_leaving(claim) => Self::Leaving(CLAIM),
            disk => Self::There(disk, claim),
        }
    }

    pub(super) fn claim(&self) -> Option<&'a PersistentVolumeClaim> {
        match self {
            Self::There(_, claim) => Some(claim),
            _ => None,
        }
    }

    pub(super) fn disk(&self) -> Option<&'a DataVolume> {
        match self {
            Self::Begun(disk) => Some(disk),
            Self::There(disk, _) => *disk,
            _ => None,
        }
    }

    /// Whether a VM can be given it.
    pub(super) fn is_usable(&self) -> bool {
        match self {
            // Without its disk the garbage collector takes it.
            Self::There(None, claim) => controller(&claim.metadata).is_none(),
            Self::There(Some(disk), _) => match DiskState::of(Some(disk)) {
                DiskState::Filled | DiskState::WaitingForStart => true,
                DiskState::Missing | DiskState::Filling | DiskState::Failed | DiskState::Lost => {
                    false
                }
            },
            _ => false,
        }
    }

    /// What the file system of the claim takes of it.
    pub(super) fn overhead(&self, volume: &Volume<'_>) -> Overhead {
        let told = told(volume);
        let size = told.and_then(|it| it.size.as_ref());
        let overhead = told.and_then(|it| it.filesystem_overhead.as_deref());
        match self {
            Self::There(disk, claim) => Overhead::of(claim, *disk, None, overhead, size),
            _ => Overhead::default(),
        }
    }

    /// Whether the disk is as large as `size`.
    pub(super) fn has(&self, volume: &Volume<'_>, size: &Bytes) -> bool {
        let made = self.disk().and_then(disk_size);
        let asked = self.claim().and_then(claim_size);
        let overhead = self.overhead(volume);
        made.is_some_and(|made| made >= *size)
            || asked.is_some_and(|asked| overhead.has_room(&asked, size))
    }

    /// How large it is, in terms of the spec: what was asked for last it has if there is room
    /// for that in its claim. Of one that has nothing but its claim that is all there is to go
    /// by.
    pub(super) fn size(&self, volume: &Volume<'_>) -> Option<Bytes> {
        let status = volume.object.status.as_ref();
        let before = told(volume).and_then(|it| it.size.clone());
        let made = self.disk().and_then(disk_size);
        let granted = status.and_then(|it| it.granted.clone());
        let asking = status.and_then(|it| it.asking.clone());
        let wanted = [granted, asking, Some(volume.object.spec.size.clone())];
        let wanted = wanted.into_iter().flatten();
        let has = wanted.filter(|it| self.has(volume, it));
        let known = has.chain(before).chain(made).max();
        let of_claim = || {
            let claim = self.claim().and_then(claim_size)?;
            Some(self.overhead(volume).disk_for(&claim))
        };
        known.or_else(of_claim)
    }
}

fn told<'a>(volume: &Volume<'a>) -> Option<&'a VolumeDisk> {
    volume.object.status.as_ref()?.disk.as_ref()
}

/// Whether it is the claim that the volume was told to have.
fn is_told(volume: &Volume<'_>, claim: &PersistentVolumeClaim) -> bool {
    let told = told(volume).and_then(|it| it.claim_uid.as_ref());
    told.is_some() && claim.metadata.uid.as_ref() == told
}

/// Whether the disk was made for the volume: by its labels, or, should somebody have taken those
/// off, by its claim.
pub(super) fn is_own(
    volume: &Volume<'_>,
    disk: &DataVolume,
    claim: Option<&PersistentVolumeClaim>,
) -> bool {
    let is_of = |it: &&PersistentVolumeClaim| {
        let owner = controller(&it.metadata);
        owner.is_some_and(|it| Some(&it.uid) == disk.metadata.uid.as_ref())
    };
    standing(&disk.metadata, &volume.metadata()) != Standing::Foreign
        || claim.filter(is_of).is_some_and(|it| is_told(volume, it))
}

/// Whether the claim is the volume's: the one that was told of, or that of its disk, or what is
/// left of one, with the volume's labels.
pub(super) fn is_its(
    volume: &Volume<'_>,
    disk: Option<&DataVolume>,
    claim: &PersistentVolumeClaim,
) -> bool {
    if is_told(volume, claim) {
        return true;
    }
    match (controller(&claim.metadata), disk) {
        (Some(owner), Some(disk)) => {
            Some(&owner.uid) == disk.metadata.uid.as_ref() && is_own(volume, disk, None)
        }
        // It is deleted by the garbage collector, which may take its time.
        (Some(owner), None) => {
            let mut bare = claim.metadata.clone();
            bare.owner_references = None;
            owner.kind == DISK
                && Some(&owner.name) == claim.metadata.name.as_ref()
                && standing(&bare, &volume.metadata()) != Standing::Foreign
        }
        (None, _) => standing(&claim.metadata, &volume.metadata()) != Standing::Foreign,
    }
}

/// What the garbage collector deletes it after.
pub(super) fn controller(metadata: &ObjectMeta) -> Option<&OwnerReference> {
    let mut owners = metadata.owner_references.iter().flatten();
    owners.find(|it| it.controller == Some(true))
}

/// Whether it has been filled, by which CDI makes no other claim for it.
pub(super) fn has_its_data(disk: &DataVolume) -> bool {
    DiskNotes::of(&disk.metadata).has_its_data
}

pub(super) fn is_leaving<K: Object>(object: &K) -> bool {
    object.meta().deletion_timestamp.is_some()
}
