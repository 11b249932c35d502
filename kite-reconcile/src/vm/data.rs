//! What there is of a VM's data: the disk that counts, its claim, and what restores have made.

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kite_core::{
    cdi::DataVolume,
    cluster::{Cluster, ClusterError, ObjectKey},
    kubevirt::{VirtualMachine, VirtualMachineInstance},
};
use kite_render::Vm;

use super::{
    disks::{self, Disks},
    judge::DiskState,
    lost,
    observe::{Observed, find},
    restore::Source,
};
use crate::cache::uncached;

/// What may run on a VM's disks.
pub(super) type Run = (Option<VirtualMachine>, Option<VirtualMachineInstance>);

/// The disk of a VM, its claim, and the others.
pub(super) type Found = (Option<DataVolume>, Option<PersistentVolumeClaim>, Disks);

/// The disk that counts out of `all`, its claim, and the others.
pub(super) async fn look<C: Cluster>(
    cluster: &C,
    vm: &Vm<'_>,
    run: Run,
    all: Vec<DataVolume>,
) -> Result<Found, ClusterError> {
    if vm.object.metadata.deletion_timestamp.is_some() {
        Box::pin(what_is_left(cluster, vm, run, all)).await
    } else {
        Box::pin(look_for_disk(cluster, vm, run, all)).await
    }
}

/// The disk of a VM out of `all`, its claim and the others. That one with data is gone is a
/// grave thing to say: caches do not do for that.
async fn look_for_disk<C: Cluster>(
    cluster: &C,
    vm: &Vm<'_>,
    run: Run,
    all: Vec<DataVolume>,
) -> Result<Found, ClusterError> {
    let was_there = lost::had_data(vm).or_else(|| lost::marked(run.0.as_ref()));
    if all.is_empty() && was_there.is_none() {
        return Ok(Found::default());
    }
    let found = Box::pin(look_at_disks(cluster, vm, run.clone(), all)).await?;
    let is_filled = DiskState::of(found.0.as_ref()) == DiskState::Filled;
    if found.0.is_none() || (is_filled && found.1.is_none()) {
        let again = Box::pin(async {
            let all = disks::find(vm, run.0.as_ref(), cluster).await?;
            look_at_disks(cluster, vm, run, all).await
        });
        return uncached(again).await;
    }
    Ok(found)
}

async fn look_at_disks<C: Cluster>(
    cluster: &C,
    vm: &Vm<'_>,
    (machine, instance): Run,
    all: Vec<DataVolume>,
) -> Result<Found, ClusterError> {
    let mut seen = Box::new(Observed {
        instance,
        ..Observed::default()
    });
    (seen.made.machine, seen.disks.others) = (machine, all);
    seen.choose(vm);
    if seen.disks.others.is_empty() {
        let key = ObjectKey::namespaced(vm.namespace, seen.disk_name(vm));
        seen.made.claim = find(cluster, key).await?;
    } else {
        seen.disks.claims = disks::claims(vm, cluster).await?;
        seen.disks.needs = Some(disks::needed(vm, cluster).await?);
        seen.choose(vm);
    }
    let restore = vm.object.spec.restore.as_ref();
    if let Some(snapshot) = restore.and_then(|it| it.snapshot.as_deref())
        && disks::is_asked(vm, &seen)
    {
        seen.disks.source = Some(Source::read(vm, snapshot, cluster).await?);
    }
    Ok(taken(*seen))
}

/// What is left of the disks of a VM that goes.
async fn what_is_left<C: Cluster>(
    cluster: &C,
    vm: &Vm<'_>,
    (machine, instance): Run,
    all: Vec<DataVolume>,
) -> Result<Found, ClusterError> {
    let mut seen = Box::new(Observed {
        instance,
        ..Observed::default()
    });
    seen.disks.claims = disks::claims(vm, cluster).await?;
    (seen.made.machine, seen.disks.others) = (machine, all);
    seen.choose(vm);
    Ok(taken(*seen))
}

fn taken(seen: Observed) -> Found {
    (seen.made.disk, seen.made.claim, seen.disks)
}
