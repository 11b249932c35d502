//! What the plan of a snapshot depends on.

use jiff::Timestamp;
use k8s_openapi::api::{coordination::v1::Lease, core::v1::PersistentVolumeClaim};
use kite_core::{
    cdi::DataVolume,
    cluster::{Cluster, ClusterError, ClusterExt as _, Object, ObjectKey},
    crd::{KiteSnapshot, KiteUser, KiteVirtualMachine},
    kubevirt::{VirtualMachine, VirtualMachineInstance},
    labels, names,
    volume_snapshot::VolumeSnapshot,
};
use kite_render::{
    Snapshot,
    restore::{self, DiskNotes},
    snapshot,
};
use kube::{ResourceExt as _, api::ListParams};

use super::{
    storage::StorageSeen,
    told::{own, told},
};
use crate::{
    Error,
    cache::{reading::as_known, uncached},
    objects::AnyObject,
    plan::{Outcome, Refusal},
    siblings::{self, Siblings},
    vm::present_disk,
};

/// What was seen of a snapshot and of what it depends on.
#[derive(Clone, Debug, Default)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "facts that do not depend on one another"
)]
pub struct Observed {
    /// When it was looked at.
    pub now: Timestamp,
    /// The user in whose namespace it is, if it is a user's.
    pub owner: Option<KiteUser>,
    /// The VM of the name in its spec; only looked at before storage is asked.
    pub vm: Option<KiteVirtualMachine>,
    /// The VM's disk; only looked at until it is taken.
    pub disk: Option<DataVolume>,
    /// The disk's claim; not looked at once what was taken outlives it.
    pub claim: Option<PersistentVolumeClaim>,
    /// The disk's storage; only looked at before that is asked for anything.
    pub storage: Option<StorageSeen>,
    /// All snapshots in the owner's namespace; only looked at before storage is asked, to
    /// judge the owner's quota.
    pub siblings: Siblings<KiteSnapshot>,
    /// What storage was asked for.
    pub taken: Option<VolumeSnapshot>,
    /// The Lease of who may have the VM's guest frozen.
    pub lease: Option<Lease>,
    /// Whether the snapshot that has the Lease is gone: somebody has taken it off the cluster
    /// by force.
    pub lease_is_forgotten: bool,
    /// The VM's machine; only looked at while the snapshot is taken.
    pub machine: Option<VirtualMachine>,
    /// Its instance, likewise.
    pub instance: Option<VirtualMachineInstance>,
    /// Names of disks that are copied from it, and of which it is not known that all of their
    /// data is there, and of VMs that are made from it without having run; only looked at when
    /// it goes.
    pub copies: Vec<String>,
    /// What was refused a while ago or just now, and is not tried again yet.
    pub refused: Vec<Refusal>,
    /// Whether the guest was asked to freeze just now.
    pub froze: bool,
    /// Whether the guest was asked to go on just now, or is gone.
    pub thawed: bool,
}

impl Observed {
    /// Reads all of it.
    ///
    /// # Errors
    /// [`Error::Cluster`] if the API server refuses a read, [`Error::Render`] if the object has
    /// no name, namespace or uid.
    pub async fn read<C: Cluster>(object: &KiteSnapshot, cluster: &C) -> Result<Self, Error> {
        let snapshot = Snapshot::of(object)?;
        let mut seen = Self {
            taken: find(cluster, object, snapshot.name).await?,
            ..Self::default()
        };
        if told(object, own(&snapshot, seen.taken.as_ref())).is_some() {
            seen.owner = owner(cluster, snapshot.namespace).await?;
            let lease = names::freeze_lease(&object.spec.vm);
            seen.lease = find(cluster, object, &lease).await?;
            seen.look_at_what_was_taken(object, cluster).await?;
            if object.metadata.deletion_timestamp.is_some() && seen.taken.is_some() {
                seen.copies = copies(object, cluster).await?;
            }
        } else {
            uncached(seen.look_at_what_is_taken(object, cluster)).await?;
        }
        Ok(seen)
    }

    /// Looks at what it takes to tell how consistent a snapshot is: how far storage is before
    /// the machine, and its guest last, all of it as the API server itself knows it. By what is
    /// old something would be told that was not so.
    async fn look_at_what_is_taken<C: Cluster>(
        &mut self,
        object: &KiteSnapshot,
        cluster: &C,
    ) -> Result<(), ClusterError> {
        self.taken = find(cluster, object, &object.name_any()).await?;
        self.owner = owner(cluster, &object.namespace().unwrap_or_default()).await?;
        let vm = &*object.spec.vm;
        match &self.taken {
            None => self.look_at_what_it_takes(object, cluster).await?,
            Some(taken) => {
                let claim = taken.spec.source.persistent_volume_claim_name.clone();
                let disk = claim.unwrap_or_else(|| names::disk(vm));
                self.disk = find(cluster, object, &disk).await?;
            }
        }
        self.machine = find(cluster, object, vm).await?;
        self.instance = find(cluster, object, vm).await?;
        Ok(())
    }

    /// Looks at what it takes to ask storage. What is not there ends it for good.
    async fn look_at_what_it_takes<C: Cluster>(
        &mut self,
        object: &KiteSnapshot,
        cluster: &C,
    ) -> Result<(), ClusterError> {
        let vm = &*object.spec.vm;
        self.vm = find(cluster, object, vm).await?;
        if let Some(vm) = &self.vm {
            self.disk = present_disk(vm, cluster).await?;
        }
        if let Some(disk) = &self.disk {
            self.claim = find(cluster, object, &disk.name_any()).await?;
        } else {
            self.claim = find(cluster, object, &names::disk(vm)).await?;
        }
        self.lease = find(cluster, object, &names::freeze_lease(vm)).await?;
        self.look_at_holder(object, cluster).await?;
        if let Some(claim) = &self.claim {
            let mut storage = as_known(StorageSeen::read(claim, cluster)).await?;
            if storage.choose().is_err() {
                storage = StorageSeen::read(claim, cluster).await?;
            }
            self.storage = Some(storage);
        }
        let is_granted = object.status.as_ref().is_some_and(|it| it.granted);
        if self.owner.is_some() && !is_granted {
            self.siblings = as_known(siblings::told(object, cluster)).await?;
        }
        Ok(())
    }

    /// Looks whether another snapshot that has the Lease is still there.
    async fn look_at_holder<C: Cluster>(
        &mut self,
        object: &KiteSnapshot,
        cluster: &C,
    ) -> Result<(), ClusterError> {
        let labels = self
            .lease
            .as_ref()
            .and_then(|it| it.metadata.labels.as_ref());
        let of = |key: &str| labels.and_then(|all| all.get(key)).cloned();
        let (Some(name), Some(uid)) = (of(labels::SNAPSHOT_NAME), of(labels::SNAPSHOT_UID)) else {
            return Ok(());
        };
        if Some(&uid) == object.metadata.uid.as_ref() {
            return Ok(());
        }
        let holder: Option<KiteSnapshot> = find(cluster, object, &name).await?;
        self.lease_is_forgotten = holder.is_none_or(|it| it.uid() != Some(uid));
        Ok(())
    }

    /// The VM's disk, if the claim is its own.
    pub(super) fn own_disk(&self) -> Option<&DataVolume> {
        let (disk, claim) = (self.disk.as_ref()?, self.claim.as_ref()?);
        let mut owners = claim.metadata.owner_references.iter().flatten();
        let is_its = owners.any(|it| Some(&it.uid) == disk.metadata.uid.as_ref());
        is_its.then_some(disk)
    }

    /// Looks at what storage has. That it is gone is a grave thing to say: caches do not do
    /// for that.
    async fn look_at_what_was_taken<C: Cluster>(
        &mut self,
        object: &KiteSnapshot,
        cluster: &C,
    ) -> Result<(), ClusterError> {
        if self.taken.is_none() {
            self.taken = uncached(find(cluster, object, &object.name_any())).await?;
        }
        let source = object.status.as_ref().and_then(|it| it.source.clone());
        let of_object = || snapshot::before(self.taken.as_ref()?)?.source;
        let source = source.or_else(of_object);
        let Some(source) = source.filter(|it| !it.outlives_disk) else {
            return Ok(());
        };
        let is_its = |it: &PersistentVolumeClaim| it.uid().as_ref() == Some(&source.claim_uid);
        let known = find(cluster, object, &source.claim).await?;
        self.claim = match known.filter(is_its) {
            Some(claim) => Some(claim),
            None => uncached(find(cluster, object, &source.claim)).await?,
        };
        Ok(())
    }

    /// Takes in what was refused a while ago.
    pub(super) fn recall(&mut self, refusal: Refusal) {
        self.refused.retain(|it| it.of != refusal.of);
        self.refused.push(refusal);
    }

    /// Takes in what came of a change.
    pub fn absorb(&mut self, outcome: Outcome) {
        let (object, is_gone) = match outcome {
            Outcome::Froze => {
                self.froze = true;
                return;
            }
            Outcome::Thawed => {
                self.thawed = true;
                return;
            }
            Outcome::Refused(refusal) => return self.recall(refusal),
            Outcome::Stored(object) => (object, false),
            Outcome::Gone(object) => (object, true),
            Outcome::RestartAsked | Outcome::Claimed(..) => return,
        };
        match object {
            AnyObject::VolumeSnapshot(taken) => self.taken = (!is_gone).then_some(*taken),
            AnyObject::Lease(lease) => self.lease = (!is_gone).then_some(*lease),
            _ => {}
        }
    }
}

async fn find<K: Object, C: Cluster>(
    cluster: &C,
    beside: &KiteSnapshot,
    name: &str,
) -> Result<Option<K>, ClusterError> {
    let namespace = beside.namespace().unwrap_or_default();
    cluster
        .get_opt(&ObjectKey::namespaced(namespace, name))
        .await
}

/// Names of VMs that are made from the snapshot and have not run on their disk yet, whatever
/// has become of that: it can be made anew. And of other disks that are copied from the snapshot
/// and that a guest has not run on. Those of a VM that goes are given up with it.
async fn copies<C: Cluster>(
    object: &KiteSnapshot,
    cluster: &C,
) -> Result<Vec<String>, ClusterError> {
    let all = ListParams::default();
    let name = object.name_any();
    let disks = cluster.list::<DataVolume>(object.namespace(), &all).await?;
    let vms = cluster.list::<KiteVirtualMachine>(object.namespace(), &all);
    let vms = vms.await?.complete()?;
    let status = object.status.as_ref();
    let image = status.and_then(|it| Some(&it.source.as_ref()?.image));
    let is_made_from = vms.iter().filter(|it| {
        let status = it.status.as_ref();
        let disk = status.and_then(|it| it.disk.as_ref());
        let made_from = status.and_then(|it| it.snapshot_uid.as_ref());
        let first = names::disk(&it.name_any());
        it.metadata.deletion_timestamp.is_none()
            && it.spec.from_snapshot.as_ref() == Some(&name)
            && made_from.is_none_or(|uid| Some(uid) == object.metadata.uid.as_ref())
            // Else it never can be.
            && image.is_none_or(|image| it.spec.image == *image)
            && disk.is_none_or(|it| it.has_run_on.is_none() && it.name == first)
    });
    let mut copies: Vec<_> = is_made_from
        .map(|it| format!("VM {}", it.name_any()))
        .collect();
    for disk in disks.complete()? {
        let phase = disk.status.as_ref().and_then(|it| it.phase.as_deref());
        let is_over = disk.metadata.deletion_timestamp.is_some() || phase == Some("Failed");
        if restore::copy_of(&disk) != Some(&name) || is_over {
            continue;
        }
        let Some(vm) = disk.labels().get(labels::VM_NAME) else {
            // Somebody else's, of which nothing else tells.
            copies.extend((phase != Some("Succeeded")).then(|| disk.name_any()));
            continue;
        };
        let vm = vms.iter().find(|it| it.metadata.name.as_ref() == Some(vm));
        if vm.is_none_or(|it| it.metadata.deletion_timestamp.is_some()) {
            continue;
        }
        let claim: Option<PersistentVolumeClaim> = find(cluster, object, &disk.name_any()).await?;
        let uid = claim.and_then(|it| it.metadata.uid);
        let has_run_on = DiskNotes::of(&disk.metadata).has_run_on;
        copies.extend((uid.is_none() || has_run_on != uid).then(|| disk.name_any()));
    }
    Ok(copies)
}

/// The user in whose namespace it is, if it is a user's.
async fn owner<C: Cluster>(cluster: &C, namespace: &str) -> Result<Option<KiteUser>, ClusterError> {
    match names::user_of_namespace(namespace) {
        Some(user) => cluster.get_opt(&ObjectKey::cluster(user)).await,
        None => Ok(None),
    }
}
