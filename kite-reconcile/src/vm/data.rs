//! What there is of a VM's data: the disk that counts, its claim, and what restores have made.

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kite_core::{
    cdi::DataVolume,
    cluster::{Cluster, ClusterError, ClusterExt as _, Listed, Object, ObjectKey},
    crd::{KiteSnapshot, KiteVirtualMachine},
    kubevirt::{VirtualMachine, VirtualMachineInstance},
    labels, names,
    volume_snapshot::VolumeSnapshot,
};
use kite_render::{Vm, restore};
use kube::{
    Resource, ResourceExt,
    api::{ListParams, ObjectMeta},
};

use super::{
    decided::Deed,
    disks::{Disks, Known, View},
    lost,
    restore::Source,
};
use crate::cache::uncached;

/// How many names of disks that somebody has taken are passed over.
const MOST_TAKEN: usize = 16;

/// What may run on a VM's disks.
pub(super) type Run<'a> = (
    Option<&'a VirtualMachine>,
    Option<&'a VirtualMachineInstance>,
);

/// What there is of a VM's data.
#[derive(Default)]
pub(super) struct Found {
    /// The disk that counts.
    pub(super) disk: Option<DataVolume>,
    /// Its claim.
    pub(super) claim: Option<PersistentVolumeClaim>,
    /// What else there is.
    pub(super) disks: Disks,
}

impl Found {
    /// The disk of this `name` and its claim, out of all.
    pub(super) fn of(name: &str, mut disks: Disks) -> Self {
        let others = &mut disks.others;
        let disk = others.iter().position(|it| it.name_any() == name);
        let disk = disk.map(|at| others.remove(at));
        let claims = &mut disks.claims;
        let claim = claims.iter().position(|it| it.name_any() == name);
        let claim = claim.map(|at| claims.remove(at));
        Self { disk, claim, disks }
    }

    /// The metadata of all of it.
    pub(super) fn metadata(&self) -> impl Iterator<Item = &ObjectMeta> {
        let disks = self.disk.iter().chain(&self.disks.others);
        let claims = self.claim.iter().chain(&self.disks.claims);
        disks.map(Resource::meta).chain(claims.map(Resource::meta))
    }
}

fn view<'a>(vm: &'a Vm<'a>, (machine, instance): Run<'a>, disks: &'a Disks) -> View<'a> {
    let known = Known {
        claims: (None, &disks.claims),
        needs: disks.needs.as_deref(),
        machine,
        instance,
        ..Known::disks_alone(&disks.others)
    };
    View::of(vm, known)
}

/// The disk that counts out of `all`, its claim and the others. That one with data is gone is
/// a grave thing to say: caches do not do for that.
pub(super) async fn look<C: Cluster>(
    cluster: &C,
    vm: &Vm<'_>,
    run: Run<'_>,
    all: Vec<DataVolume>,
) -> Result<Found, ClusterError> {
    if vm.object.metadata.deletion_timestamp.is_some() {
        let disks = Disks {
            claims: claims(vm, cluster).await?,
            others: all,
            ..Disks::default()
        };
        let name = view(vm, run, &disks).current();
        return Ok(Found::of(&name, disks));
    }
    let was_there = lost::had_data(vm.object).or_else(|| lost::marked(run.0));
    if all.is_empty() && was_there.is_none() {
        let disks = Disks {
            origin: origin(vm, cluster).await?,
            ..Disks::default()
        };
        return Ok(Found {
            disks,
            ..Found::default()
        });
    }
    let found = look_at_disks(cluster, vm, run, all).await?;
    let disk = found.disk.as_ref();
    if disk.is_none_or(|it| lost::had(vm, it) && found.claim.is_none()) {
        let again = Box::pin(async {
            let all = find(vm, run.0, cluster).await?;
            look_at_disks(cluster, vm, run, all).await
        });
        return uncached(again).await;
    }
    Ok(found)
}

async fn look_at_disks<C: Cluster>(
    cluster: &C,
    vm: &Vm<'_>,
    run: Run<'_>,
    all: Vec<DataVolume>,
) -> Result<Found, ClusterError> {
    let mut disks = Disks {
        others: all,
        ..Disks::default()
    };
    let name = view(vm, run, &disks).current();
    if disks.others.iter().any(|it| it.name_any() != name) {
        disks.claims = claims(vm, cluster).await?;
        disks.needs = Some(needed(vm, &name, cluster).await?);
    } else {
        let key = ObjectKey::namespaced(vm.namespace, name);
        disks.claims.extend(cluster.get_opt(&key).await?);
    }
    let (name, is_asked) = {
        let view = view(vm, run, &disks);
        (view.current(), view.is_asked())
    };
    let restore = vm.object.spec.restore.as_ref();
    if let Some(snapshot) = restore.and_then(|it| it.snapshot.as_deref())
        && is_asked
    {
        let source = Source::read(vm, snapshot, cluster).await?;
        disks.source = Some(source.if_of(vm, snapshot));
        // Somebody may have a disk of the name that is next, without the VM's label.
        for _ in 0..MOST_TAKEN {
            let Some(next) = next(vm, run, &disks) else {
                break;
            };
            let key = ObjectKey::namespaced(vm.namespace, names::disk_of(vm.name, next));
            let Some(taken) = cluster.get_opt(&key).await? else {
                break;
            };
            disks.others.push(taken);
        }
    }
    let name = if disks.source.is_some() {
        view(vm, run, &disks).current()
    } else {
        name
    };
    let mut found = Found::of(&name, disks);
    if found.disk.is_none() {
        found.disks.origin = origin(vm, cluster).await?;
    }
    Ok(found)
}

/// The number of the disk that a restore would make.
fn next(vm: &Vm<'_>, (machine, instance): Run<'_>, disks: &Disks) -> Option<u32> {
    let known = Known {
        claims: (None, &disks.claims),
        needs: disks.needs.as_deref(),
        source: disks.source.as_ref(),
        machine,
        instance,
        // Whether its time has come is another question.
        now: vm.object.spec.restore.as_ref()?.at.0,
        ..Known::disks_alone(&disks.others)
    };
    let deeds = View::of(vm, known).decide().deeds;
    deeds.into_iter().find_map(|it| match it {
        Deed::Make { number, .. } => Some(number),
        _ => None,
    })
}

/// The snapshot that a VM without a disk is made from, where it is.
async fn origin<C: Cluster>(vm: &Vm<'_>, cluster: &C) -> Result<Option<Source>, ClusterError> {
    match &vm.object.spec.from_snapshot {
        Some(snapshot) => Source::read(vm, snapshot, cluster).await.map(Some),
        None => Ok(None),
    }
}

/// All disks under names of the VM's, whosever they are; none where there is no such kind.
pub(super) async fn find<C: Cluster>(
    vm: &Vm<'_>,
    machine: Option<&VirtualMachine>,
    cluster: &C,
) -> Result<Vec<DataVolume>, ClusterError> {
    let of_vm = format!("{}={}", labels::VM_NAME, vm.name);
    let of_vm = ListParams::default().labels(&of_vm);
    let found = cluster.list::<DataVolume>(Some(vm.namespace.to_owned()), &of_vm);
    let mut all = match found.await {
        Ok(found) => found.complete()?,
        Err(ClusterError::NotFound { .. }) => Vec::new(),
        Err(error) => return Err(error),
    };
    all.retain(|it| is_named(vm, it));
    // Somebody may have taken the label off.
    let pointed = machine.and_then(restore::disk_of);
    let pointed = pointed.filter(|it| names::number_of_disk(vm.name, it).is_some());
    let first = names::disk(vm.name);
    for name in std::iter::once(first.as_str()).chain(pointed) {
        if !all.iter().any(|it| it.name_any() == name) {
            let key = ObjectKey::namespaced(vm.namespace, name);
            all.extend(cluster.get_opt(&key).await?);
        }
    }
    Ok(all)
}

/// The claims of the VM's disks, also where these are gone.
async fn claims<C: Cluster>(
    vm: &Vm<'_>,
    cluster: &C,
) -> Result<Vec<PersistentVolumeClaim>, ClusterError> {
    let all = ListParams::default();
    let found = cluster.list::<PersistentVolumeClaim>(Some(vm.namespace.to_owned()), &all);
    let mut claims = found.await?.complete()?;
    claims.retain(|it| is_named(vm, it));
    Ok(claims)
}

/// What snapshots in the VM's namespace need of claims, whoever has taken them. What cannot be
/// read of them, or is not known yet, is of the disk that counts, or of the first one.
async fn needed<C: Cluster>(
    vm: &Vm<'_>,
    current: &str,
    cluster: &C,
) -> Result<Vec<(String, bool)>, ClusterError> {
    let all = ListParams::default();
    let namespace = Some(vm.namespace.to_owned());
    let own = cluster.list::<KiteSnapshot>(namespace.clone(), &all).await;
    let own = complete(own)?;
    let on_storage = cluster.list::<VolumeSnapshot>(namespace, &all).await;
    let on_storage = complete(on_storage)?;
    let mut needs = Vec::new();
    for snapshot in &own {
        let status = snapshot.status.as_ref();
        if status.is_some_and(|it| it.failure.is_some()) {
            continue;
        }
        match status.and_then(|it| it.source.as_ref()) {
            Some(source) => {
                let is_taken = status.is_some_and(|it| it.consistency.is_some());
                needs.push((source.claim.clone(), source.outlives_disk && is_taken));
            }
            // Of what it will be, or of which it cannot be read.
            None if snapshot.spec.vm == vm.name => {
                let may_be_of = [current.to_owned(), names::disk(vm.name)];
                needs.extend(may_be_of.map(|disk| (disk, false)));
            }
            None => {}
        }
    }
    for taken in on_storage {
        // What is said of it by one that cannot be read, or that failed, does not count.
        let is_told = own.iter().any(|it| {
            let status = it.status.as_ref();
            it.name_any() == taken.name_any()
                && status.is_some_and(|it| it.source.is_some() && it.failure.is_none())
        });
        let claim = taken.spec.source.persistent_volume_claim_name;
        needs.extend(claim.filter(|_| !is_told).map(|claim| (claim, false)));
    }
    Ok(needs)
}

fn complete<K: Object>(found: Result<Listed<K>, ClusterError>) -> Result<Vec<K>, ClusterError> {
    match found {
        Ok(found) => found.complete(),
        Err(ClusterError::NotFound { .. }) => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// Whether an object has a name of one of the VM's disks.
pub(super) fn is_named<K: Object>(vm: &Vm<'_>, object: &K) -> bool {
    names::number_of_disk(vm.name, &object.name_any()).is_some()
}

/// The disk that counts of a VM whose machine is not looked at.
pub(crate) async fn present_disk<C: Cluster>(
    object: &KiteVirtualMachine,
    cluster: &C,
) -> Result<Option<DataVolume>, ClusterError> {
    let Ok(vm) = Vm::of(object) else {
        return Ok(None);
    };
    let all = find(&vm, None, cluster).await?;
    let name = View::of(&vm, Known::disks_alone(&all)).current();
    Ok(all.into_iter().find(|it| it.name_any() == name))
}
