//! What can be said of a VM's data before the cluster decides: the snapshot that its disk is
//! copied from, its schedule of snapshots, and its volumes.

use kite_core::{
    crd::{
        KiteSnapshot, KiteUser, KiteVirtualMachine, KiteVolume, SNAPSHOTS_APART, SnapshotSchedule,
        VOLUMES_MAX, VolumeAttachment, VolumePhase,
    },
    quantity::Bytes,
};
use kite_disks::schedule::{Invalid, Schedule};
use kite_rest::{Form, Problem, Whole};
use kube::ResourceExt as _;

use super::check_image;
use crate::{
    owned::{self, all_of},
    snapshots::{is_taken_of, unusable},
    state::ApiState,
};

/// What the disk is made from must be there: a snapshot of the account's that is good for
/// something, with a VM like that which it is of, or an image.
pub(super) async fn check_source(
    state: &ApiState,
    owner: &KiteUser,
    form: &mut Form,
) -> Result<(), Problem> {
    const FIELD: &str = "fromSnapshot";
    let (image, disk) = (form.peek::<String>("image"), form.peek::<Bytes>("disk"));
    let Some(name) = form.peek::<String>(FIELD) else {
        check_image(state, form, image, disk);
        return Ok(());
    };
    let Some(snapshot) = owned::of::<KiteSnapshot>(state, owner, &name).await? else {
        form.error(
            FIELD,
            "is no snapshot of the account: write the name of one",
        );
        return Ok(());
    };
    if let Some(why) = unusable(&snapshot) {
        form.error(FIELD, format!("cannot be used: {why}; choose another"));
        return Ok(());
    }
    let size = snapshot.status.as_ref().and_then(|it| it.size.as_ref());
    let too_large = size.filter(|size| disk.as_ref().is_some_and(|it| it < size));
    match image_of(state, owner, &snapshot) {
        // It may be gone.
        Some(own) if image.as_ref().is_some_and(|it| *it != own) => {
            form.error(
                "image",
                format!("is not that of the snapshot: write {own:?}"),
            );
        }
        Some(_) => {}
        // It is not known yet.
        None => check_image(state, form, image, disk),
    }
    if let Some(size) = too_large {
        form.error(
            "disk",
            format!("is too small for the snapshot {name:?}: write at least {size}"),
        );
    }
    Ok(())
}

/// The image of the VM that a snapshot is of, as it was then, or is.
fn image_of(state: &ApiState, owner: &KiteUser, snapshot: &KiteSnapshot) -> Option<String> {
    let status = snapshot.status.as_ref();
    if let Some(source) = status.and_then(|it| it.source.as_ref()) {
        return Some(source.image.clone());
    }
    let vms = all_of::<KiteVirtualMachine>(state, owner);
    let of = vms.iter().find(|vm| is_taken_of(snapshot, vm))?;
    Some(of.spec.image.clone())
}

/// The schedule must be one that comes, and not too often.
pub(super) fn check_schedule(form: &mut Form) {
    let Some(Whole(it)) = form.peek::<Whole<SnapshotSchedule>>("snapshots") else {
        return;
    };
    let (field, invalid) =
        match Schedule::parse(&it.schedule, it.time_zone.as_deref(), SNAPSHOTS_APART) {
            Ok(_) => return,
            Err(invalid @ Invalid::Zone(_)) => ("snapshots.timeZone", invalid),
            Err(invalid) => ("snapshots.schedule", invalid),
        };
    form.error(field, invalid.to_string());
}

/// The volumes must be the account's, and no other VM's. `own` is the VM, if it is there.
pub(super) async fn check_volumes(
    state: &ApiState,
    owner: &KiteUser,
    form: &mut Form,
    own: Option<&KiteVirtualMachine>,
) -> Result<(), Problem> {
    let Some(Whole(wanted)) = form.peek::<Whole<Vec<VolumeAttachment>>>("volumes") else {
        return Ok(());
    };
    // Of too many the API server tells.
    if wanted.is_empty() || wanted.len() > VOLUMES_MAX {
        return Ok(());
    }
    let vms = all_of::<KiteVirtualMachine>(state, owner);
    for (at, VolumeAttachment { volume, .. }) in wanted.iter().enumerate() {
        let field = format!("volumes[{at}].volume");
        if own.is_some_and(|vm| lists(vm, volume)) {
            continue;
        }
        let Some(found) = owned::of::<KiteVolume>(state, owner, volume).await? else {
            form.error(
                &field,
                "is no volume of the account: create it first, or leave it out",
            );
            continue;
        };
        if found.metadata.deletion_timestamp.is_some() {
            form.error(&field, "is being deleted: leave it out");
            continue;
        }
        if found.status.as_ref().and_then(|it| it.phase) == Some(VolumePhase::Lost) {
            form.error(&field, "has lost its data: leave it out");
            continue;
        }
        // One that goes has given it back, and cannot be edited any more.
        let mut others = vms.iter().filter(|vm| {
            let is_other = own.is_none_or(|own| own.uid() != vm.uid());
            is_other && vm.metadata.deletion_timestamp.is_none()
        });
        if let Some(other) = others.find(|vm| lists(vm, volume)) {
            form.error(
                &field,
                format!(
                    "is among the volumes of the VM {:?}: take it out of them first",
                    other.name_any()
                ),
            );
        }
    }
    Ok(())
}

fn lists(vm: &KiteVirtualMachine, volume: &str) -> bool {
    vm.spec.volumes.iter().any(|it| it.volume == volume)
}
