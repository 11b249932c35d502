//! The snapshots of a VM that goes: they go with it, but for those that are to be kept. As
//! long as one of these needs the disk, that stays, and so does the VM, without a machine.

use kite_core::{
    cluster::{Cluster, ClusterError},
    conditions,
    crd::{KiteSnapshot, vm_condition::READY},
    kubevirt::VirtualMachine,
};
use kite_render::Vm;
use kube::{
    ResourceExt as _,
    api::{ListParams, ObjectMeta},
};

use super::{delete::Left, observe::Observed};
use crate::{
    cache::{reading::as_known, uncached},
    standing::{Standing, standing},
};

/// Why a snapshot that is deleted is still there: for what is copied from it.
pub(crate) const COPIED: &str = "Copied";

/// Why a VM that goes is still there.
pub(super) const KEPT: &str = "SnapshotsKept";

/// All in the namespace of a VM that has a schedule, or that goes, once its machine is gone: then as the API server itself
/// knows them while its data is to go next, since with that goes what is not seen. There are
/// none where there is no such kind.
pub(super) async fn look<C: Cluster>(
    vm: &Vm<'_>,
    machine: Option<&VirtualMachine>,
    mut data: impl Iterator<Item = &ObjectMeta>,
    cluster: &C,
) -> Result<Option<Vec<KiteSnapshot>>, ClusterError> {
    let like = vm.metadata(vm.name.to_owned());
    let runs = machine.is_some_and(|it| standing(&it.metadata, &like) != Standing::Foreign);
    let goes = vm.object.metadata.deletion_timestamp.is_some();
    if goes && runs || !goes && vm.object.spec.snapshots.is_none() {
        return Ok(None);
    }
    let namespace = Some(vm.namespace.to_owned());
    let all = ListParams::default();
    let found = cluster.list::<KiteSnapshot>(namespace, &all);
    let found = if !goes {
        found.await
    } else if data.any(|it| it.deletion_timestamp.is_none()) {
        uncached(found).await
    } else {
        // What is left then needs no disk, and could be seen before that went.
        as_known(found).await
    };
    match found {
        Ok(found) => found.complete().map(Some),
        Err(ClusterError::NotFound { .. }) => Ok(Some(Vec::new())),
        Err(error) => Err(error),
    }
}

/// What becomes of one of the VM's snapshots.
enum Fate<'a> {
    /// It needs nothing of the VM, and stays.
    Stays,
    /// It stays, and needs the disk.
    NeedsDisk(&'a KiteSnapshot),
    /// It goes.
    Goes(&'a KiteSnapshot),
}

fn fates<'a>(vm: &Vm<'_>, seen: &'a Observed) -> impl Iterator<Item = Fate<'a>> {
    let uid = vm.uid.to_owned();
    let name = vm.name.to_owned();
    let claims = seen.claim.iter().chain(&seen.disks.claims);
    let claims: Vec<_> = claims.filter_map(|it| it.metadata.uid.clone()).collect();
    let now = seen.now;
    let owner = seen.owner.as_ref();
    // With the account goes all that it has.
    let owner_goes = owner.is_some_and(|it| it.metadata.deletion_timestamp.is_some());
    let is_its = move |it: &&KiteSnapshot| {
        let source = it.status.as_ref().and_then(|it| it.source.as_ref());
        let is_of_disk = source.is_some_and(|it| claims.contains(&it.claim_uid));
        let of = source.map(|it| &it.vm_uid).or(it.spec.vm_uid.as_ref());
        let is_of_vm = it.spec.vm == name && of.is_none_or(|of| *of == uid);
        // Of which one it is nobody can say.
        let is_doubtful = source.is_none() && it.unreadable().is_some() && it.is_kept(now);
        is_of_disk || is_of_vm || is_doubtful
    };
    seen.snapshots
        .iter()
        .flatten()
        .filter(is_its)
        .map(move |it| {
            let status = it.status.as_ref();
            if !it.is_kept(seen.now) || owner_goes {
                return Fate::Goes(it);
            }
            let has_failed = status.is_some_and(|it| it.failure.is_some());
            if has_failed || is_independent(it) {
                Fate::Stays
            } else {
                Fate::NeedsDisk(it)
            }
        })
}

/// Whether its data needs nothing of the VM.
fn is_independent(snapshot: &KiteSnapshot) -> bool {
    snapshot.status.as_ref().is_some_and(|it| {
        let outlives = it.source.as_ref().is_some_and(|it| it.outlives_disk);
        outlives && it.consistency.is_some()
    })
}

/// Whether it goes, and is held for what is copied from it.
fn is_copied(snapshot: &KiteSnapshot) -> bool {
    let status = snapshot.status.as_ref();
    let told = status.and_then(|it| conditions::find(&it.conditions, READY));
    let is_held = told.is_some_and(|it| it.reason == COPIED);
    snapshot.metadata.deletion_timestamp.is_some() && is_held
}

/// What is left of them. Those that are to be kept and need the disk hold it.
pub(super) fn left(vm: &Vm<'_>, seen: &Observed) -> Vec<Left> {
    if seen.snapshots.is_none() {
        // What was not looked at may be there.
        return vec![Left::Leaving];
    }
    let left = fates(vm, seen).map(|fate| match fate {
        Fate::Stays => Left::Nothing,
        Fate::NeedsDisk(_) => Left::Leaving,
        // What is copied from it needs that, and not the VM.
        Fate::Goes(it) if is_copied(it) && is_independent(it) => Left::Nothing,
        Fate::Goes(it) if it.metadata.deletion_timestamp.is_some() => Left::Leaving,
        Fate::Goes(it) => Left::DeleteUnchanged(it.clone().into()),
    });
    left.collect()
}

/// Names of those that are to be kept and need the disk.
pub(super) fn kept(vm: &Vm<'_>, seen: &Observed) -> Vec<String> {
    let kept = fates(vm, seen).filter_map(|fate| match fate {
        Fate::NeedsDisk(it) => Some(it.name_any()),
        Fate::Stays | Fate::Goes(_) => None,
    });
    kept.collect()
}

/// Names of those that go, need the disk, and are held for what is copied from them.
pub(super) fn copied(vm: &Vm<'_>, seen: &Observed) -> Vec<String> {
    let copied = fates(vm, seen).filter_map(|fate| match fate {
        Fate::Goes(it) if is_copied(it) => Some(it.name_any()),
        Fate::Goes(_) | Fate::NeedsDisk(_) | Fate::Stays => None,
    });
    copied.collect()
}
