//! What a VM's first disk is made from: its image, or a snapshot of any VM beside it.

use kite_core::{
    cdi::DataVolume,
    crd::{VmPhase, vm_condition::IMAGE_READY},
};
use kite_render::{Vm, disk, image as images, restore};

use super::{
    draft::Obstacle,
    observe::{ImageSeen, Observed},
};

/// What is said of it.
pub(super) fn name(vm: &Vm<'_>) -> String {
    match &vm.object.spec.from_snapshot {
        Some(snapshot) => format!("snapshot {snapshot}"),
        None => vm.object.spec.image.clone(),
    }
}

/// The same where it is not clear that an image may be meant.
pub(super) fn kind_and_name(vm: &Vm<'_>) -> String {
    match &vm.object.spec.from_snapshot {
        Some(_) => name(vm),
        None => format!("image {}", name(vm)),
    }
}

/// The disk as it is to be made. Of one that is there it stays from where it came.
pub(super) fn disk(vm: &Vm<'_>, seen: &Observed) -> DataVolume {
    let size = &vm.object.spec.disk;
    let Some(snapshot) = &vm.object.spec.from_snapshot else {
        let images = match &seen.image {
            ImageSeen::Found(image) => images::namespace(image, &seen.platform),
            ImageSeen::Unknown { .. } => seen.platform.image_namespace(),
        };
        return disk::data_volume(vm, &seen.platform, images);
    };
    let stored = seen.disk.as_ref().and_then(|it| it.spec.storage.as_ref());
    let class = match stored {
        Some(stored) => stored.storage_class_name.clone(),
        None => seen.disks.origin.as_ref().and_then(|it| it.class.clone()),
    };
    let class = class.unwrap_or_else(|| seen.platform.storage_class().to_owned());
    restore::first_from(vm, snapshot, size, Some(class))
}

/// Uid of the snapshot that the VM is made from, once that was looked at.
fn made_from<'a>(vm: &Vm<'a>) -> Option<&'a String> {
    vm.object.status.as_ref()?.snapshot_uid.as_ref()
}

/// What the status says of it.
pub(super) fn told(vm: &Vm<'_>, seen: &Observed) -> Option<String> {
    vm.object.spec.from_snapshot.as_ref()?;
    let usable = seen.disks.origin.as_ref();
    let usable = usable.filter(|it| it.why_not.is_none() || it.leaves);
    made_from(vm).or_else(|| usable?.uid.as_ref()).cloned()
}

/// Why no disk can be made from the snapshot of this name.
pub(super) fn obstacle(vm: &Vm<'_>, seen: &Observed, snapshot: &str) -> Option<Obstacle> {
    let no = |phase, reason, message| Some(Obstacle::new(IMAGE_READY, phase, reason, message));
    let source = seen.disks.origin.as_ref();
    // Its former disk has gone a moment ago.
    let unseen = || format!("KiteSnapshot {snapshot} was not looked at yet");
    let why = source.map_or_else(|| Some(unseen()), |it| it.why_not.clone());
    // Until a guest has run on what is made from it, one that goes has its data.
    let why = why.filter(|_| !source.is_some_and(|it| it.leaves));
    if let Some(why) = why {
        let message = format!(
            "spec.fromSnapshot: {why}: the VM goes on once it is ready; or create another VM \
             (kubectl get kitesnapshots -n {} lists snapshots)",
            vm.namespace
        );
        return no(VmPhase::Pending, "SnapshotNotReady", message);
    }
    let source = source?;
    if let (Some(was), Some(is)) = (made_from(vm), &source.uid)
        && was != is
    {
        let message = format!(
            "spec.fromSnapshot: the VM was made from another snapshot than the {snapshot} that is \
             there now (uid {was}, and not {is}): create another VM"
        );
        return no(VmPhase::Failed, "OtherSnapshot", message);
    }
    let (_, was) = source.of.as_ref()?;
    let (image, its) = (&vm.object.spec.image, &was.image);
    if image != its {
        let message = format!(
            "spec.image is {image}, and snapshot {snapshot} is of a VM with image {its}: create \
             another VM with spec.image {its}"
        );
        return no(VmPhase::Failed, "OtherImage", message);
    }
    let (disk, least) = (&vm.object.spec.disk, source.size.as_ref()?);
    if disk < least {
        let message = format!(
            "spec.disk {disk} is smaller than the {least} that snapshot {snapshot} needs: set \
             spec.disk to at least {least}"
        );
        return no(VmPhase::Failed, "SmallerThanSnapshot", message);
    }
    None
}
