//! What can be said of a VM's data before the cluster decides: the snapshot that its disk is
//! copied from, its schedule of snapshots, and its volumes.

use kite_core::{
    crd::{
        KiteSnapshot, KiteUser, KiteVirtualMachine, KiteVolume, SNAPSHOTS_APART, SnapshotSchedule,
        VOLUMES_MAX, VolumeAttachment,
    },
    quantity::Bytes,
};
use kite_disks::schedule::{Invalid, Schedule};
use kite_rest::{Form, Problem, Whole};
use kube::ResourceExt as _;

use crate::{
    owned::{self, all_of},
    snapshots::unusable,
    state::ApiState,
};

/// The snapshot must be the account's and good for something, and the VM like that which it is
/// of.
pub(super) async fn check_source(
    state: &ApiState,
    owner: &KiteUser,
    form: &mut Form,
    name: &str,
) -> Result<(), Problem> {
    const FIELD: &str = "fromSnapshot";
    let Some(snapshot) = owned::of::<KiteSnapshot>(state, owner, name).await? else {
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
    let status = snapshot.status.as_ref();
    if let Some(source) = status.and_then(|it| it.source.as_ref())
        && let Some(image) = form.peek::<String>("image")
        && image != source.image
    {
        form.error(
            "image",
            format!("is not that of the snapshot: write {:?}", source.image),
        );
    }
    if let Some(size) = status.and_then(|it| it.size.as_ref())
        && let Some(disk) = form.peek::<Bytes>("disk")
        && disk < *size
    {
        form.error(
            "disk",
            format!("is too small for the snapshot {name:?}: write at least {size}"),
        );
    }
    Ok(())
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
        if owned::of::<KiteVolume>(state, owner, volume)
            .await?
            .is_none()
        {
            form.error(
                &field,
                "is no volume of the account: create it first, or leave it out",
            );
            continue;
        }
        let others = vms
            .iter()
            .filter(|vm| own.is_none_or(|own| own.uid() != vm.uid()));
        if let Some(other) = others.into_iter().find(|vm| lists(vm, volume)) {
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
