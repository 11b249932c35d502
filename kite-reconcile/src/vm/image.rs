//! The image that a disk is made from.

use kite_core::{
    conditions::{ConditionStatus, NewCondition},
    crd::{
        ImagePhase, KiteImage, KiteVirtualMachineStatus, OsFamily, VmPhase,
        vm_condition::IMAGE_READY,
    },
};
use kite_render::{Vm, disk, machine};

use super::{
    draft::{Obstacle, VmDraft},
    observe::{ImageSeen, Observed},
    origin,
};
use crate::{
    image::stands_still,
    stage::{Flow, Stage},
};

/// Goes by `image`, once the VM has its login name and nothing else is in the way, and by
/// `disk`.
pub(super) struct Image;

impl Stage<VmDraft<'_>> for Image {
    fn plan(&self, draft: &mut VmDraft<'_>) -> Flow {
        if draft.is_new() && draft.obstacles.is_empty() && draft.is_entitled {
            let obstacle = match &draft.vm.object.spec.from_snapshot {
                Some(snapshot) => origin::obstacle(draft.vm, draft.seen, snapshot),
                None => obstacle(draft.vm, &draft.seen.image),
            };
            draft.obstacles.extend(obstacle);
        }
        Flow::Next
    }

    fn report(&self, draft: &VmDraft<'_>, status: &mut KiteVirtualMachineStatus) {
        status.snapshot_uid = origin::told(draft.vm, draft.seen);
    }

    fn condition(&self, draft: &VmDraft<'_>) -> Option<NewCondition> {
        let (vm, seen) = (draft.vm, draft.seen);
        if let Some(said) = draft.said(IMAGE_READY) {
            return Some(said);
        }
        let image = origin::name(vm);
        let made = seen.own_disk(vm).is_some() || draft.loss.is_some();
        let (status, reason, message) = match &seen.image {
            _ if made && vm.object.spec.from_snapshot.is_some() => (
                ConditionStatus::True,
                "FromSnapshot",
                format!("the disk is made from {image}"),
            ),
            _ if made => (
                ConditionStatus::True,
                "Cloned",
                format!("the disk is made from {image}"),
            ),
            _ if vm.object.spec.from_snapshot.is_some() && draft.is_entitled => {
                (ConditionStatus::True, "Ready", format!("{image} is ready"))
            }
            ImageSeen::Found(_) if draft.is_entitled => (
                ConditionStatus::True,
                "Ready",
                format!("image {image} is ready"),
            ),
            _ => (
                ConditionStatus::Unknown,
                "Waiting",
                "the image is looked at once the VM has its login name".to_owned(),
            ),
        };
        Some(NewCondition::new(IMAGE_READY, status, reason, message))
    }
}

/// Why no disk can be made from the image.
fn obstacle(vm: &Vm<'_>, image: &ImageSeen) -> Option<Obstacle> {
    let name = &vm.object.spec.image;
    let image = match image {
        ImageSeen::Found(image) => image,
        ImageSeen::Unknown { available } => {
            let remedy = if available.is_empty() {
                "the catalogue is empty: an administrator must create a KiteImage".to_owned()
            } else {
                format!("create another VM with one of: {}", available.join(", "))
            };
            return Some(Obstacle::new(
                IMAGE_READY,
                VmPhase::Failed,
                "UnknownImage",
                format!("spec.image: there is no image {name:?}; {remedy}"),
            ));
        }
    };
    if !is_ready(image) {
        if let Some(why) = stands_still(image) {
            return Some(Obstacle::new(
                IMAGE_READY,
                VmPhase::Pending,
                "ImageFailed",
                format!(
                    "image {name} is not ready, and waiting does not help ({why}): an \
                     administrator must look at it; the VM goes on when it is ready"
                ),
            ));
        }
        let progress = image.status.as_ref().and_then(|s| s.progress.clone());
        return Some(Obstacle::new(
            IMAGE_READY,
            VmPhase::Pending,
            "ImageNotReady",
            format!(
                "waiting for image {name} to be imported{}",
                progress.map(|p| format!(" ({p})")).unwrap_or_default()
            ),
        ));
    }
    let (disk, least) = (&vm.object.spec.disk, image.least_disk());
    (disk < least).then(|| {
        Obstacle::new(
            IMAGE_READY,
            VmPhase::Failed,
            "DiskTooSmall",
            format!(
                "spec.disk {disk} is smaller than the {least} that image {name} needs: \
                 set spec.disk to at least {least}"
            ),
        )
    })
}

fn is_ready(image: &KiteImage) -> bool {
    image.metadata.deletion_timestamp.is_none()
        && image
            .status
            .as_ref()
            .is_some_and(|status| status.phase == Some(ImagePhase::Ready))
}

/// The family of the guest: as the disk remembers it, for a later image of the
/// same name may be of another; else as the snapshot says that it is to be made from, or the
/// image.
pub(super) fn family(seen: &Observed) -> Option<OsFamily> {
    let of_disk = seen.disk.as_ref().and_then(disk::family_of);
    let of_snapshot = || Some(seen.disks.origin.as_ref()?.of.as_ref()?.1.os_family);
    of_disk.or_else(of_snapshot).or(match &seen.image {
        ImageSeen::Found(image) => Some(image.spec.os_family),
        ImageSeen::Unknown { .. } => None,
    })
}

/// The family that the VM's hardware is for; when nothing else says so, as it
/// is.
pub(super) fn hardware(seen: &Observed) -> OsFamily {
    let of_machine = || seen.machine.as_ref().map(machine::family_of);
    family(seen).or_else(of_machine).unwrap_or_default()
}
