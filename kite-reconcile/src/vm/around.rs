//! Reads what a VM depends on.

use futures::try_join;
use k8s_openapi::api::{coordination::v1::Lease, core::v1::Secret, networking::v1::NetworkPolicy};
use kite_core::{
    cdi::DataVolume,
    cluster::{Cluster, ClusterError, ClusterExt as _, Object, ObjectKey},
    conditions,
    crd::{
        KiteImage, KitePlatformSpec, KiteReservation, KiteUser, KiteVirtualMachine,
        vm_condition::RESIZING,
    },
    kubevirt::{KubeVirt, VirtualMachine, VirtualMachineInstance},
    labels,
    names::{self, VmClaim},
};
use kite_render::{Vm, exposure, isolation, reservation};
use kube::{ResourceExt, api::ListParams};

use super::{
    lost, moving,
    observe::ImageSeen,
    offer::{self, OfferSeen},
    orders::Moves,
    resize,
};
use crate::{
    Error,
    cache::{
        reading::{as_known, restless},
        uncached,
    },
    claims::Claims,
    configured,
    ending::{goes_with_namespace, is_out_of_reach},
};

/// Names of images that are named to a person at most.
const IMAGES_NAMED: usize = 20;

pub(super) async fn find<K: Object, C: Cluster>(
    cluster: &C,
    key: ObjectKey,
) -> Result<Option<K>, ClusterError> {
    cluster.get_opt(&key).await
}

/// Whose the VM is, and how the names stand that it wants and holds.
pub(super) async fn owner_and_claims<C: Cluster>(
    cluster: &C,
    vm: &Vm<'_>,
) -> Result<(Option<KiteUser>, Claims), ClusterError> {
    let owner = whose(cluster, vm).await?;
    // Of a user who came after the VM it is not: it was an earlier one's.
    let made = vm.object.creation_timestamp();
    let was_there = |it: &&KiteUser| it.creation_timestamp() <= made;
    let user_uid = owner.as_ref().filter(was_there).and_then(ResourceExt::uid);
    let held_by = labels::for_vm(vm.namespace, vm.name);
    let wanted = reservation::of_vm(vm);
    let claims = Claims::observe(cluster, wanted, &held_by, user_uid).await?;
    Ok((owner, claims))
}

/// Whose the VM is. Of one that goes that was settled when it was made: whoever was known
/// then and is since gone is as good.
pub(super) async fn whose<C: Cluster>(
    cluster: &C,
    vm: &Vm<'_>,
) -> Result<Option<KiteUser>, ClusterError> {
    if vm.object.metadata.deletion_timestamp.is_some() {
        let known = as_known(owner(cluster, vm.namespace)).await?;
        if known.is_some() {
            return Ok(known);
        }
    }
    owner(cluster, vm.namespace).await
}

/// The running machine. Which one a restart is to end may not be known from an old view.
pub(super) async fn instance<C: Cluster>(
    cluster: &C,
    key: ObjectKey,
    object: &KiteVirtualMachine,
) -> Result<Option<VirtualMachineInstance>, ClusterError> {
    let instance = find(cluster, key);
    if super::restart::is_new(object) {
        uncached(instance).await
    } else {
        instance.await
    }
}

/// Since when the VM's status says that it waits for more CPUs or memory.
pub(super) fn resizing_since(object: &KiteVirtualMachine) -> Option<jiff::Timestamp> {
    let told = conditions::find(&object.status.as_ref()?.conditions, RESIZING)?;
    Some(told.last_transition_time.0)
}

/// How `KubeVirt` is configured, and which moves are ordered, as far as an instance that
/// is given more is concerned by it, or what is left of them where a machine goes.
pub(super) async fn look_at_moves<C: Cluster>(
    cluster: &C,
    vm: &Vm<'_>,
    (machine, instance): (Option<&VirtualMachine>, Option<&VirtualMachineInstance>),
) -> Result<(Option<KubeVirt>, Option<Moves>), ClusterError> {
    if vm.object.metadata.deletion_timestamp.is_some() {
        let moves = moving::look_at_rest(vm, machine, cluster).await?;
        return Ok((None, moves));
    }
    let kubevirt = if resize::is_under_way(instance) {
        configured::kubevirt(cluster).await?
    } else {
        None
    };
    let moves = moving::look(vm, instance, kubevirt.as_ref(), cluster).await?;
    Ok((kubevirt, moves))
}

/// The offer that the VM names, where it is to be looked at.
pub(super) async fn look_for_offer<C: Cluster>(
    cluster: &C,
    object: &KiteVirtualMachine,
    disk: Option<&DataVolume>,
) -> Result<Option<OfferSeen>, Error> {
    let deleting = object.metadata.deletion_timestamp.is_some();
    match &object.spec.offer {
        Some(name) if disk.is_none() || deleting || is_to_be_noted(object, disk) => {
            Ok(Some(uncached(OfferSeen::read(cluster, name)).await?))
        }
        _ => Ok(None),
    }
}

/// What `read` finds; nothing, and without a request, where that does not matter.
pub(super) async fn unless<T: Default>(
    does_not_matter: bool,
    read: impl Future<Output = Result<T, ClusterError>>,
) -> Result<T, ClusterError> {
    if does_not_matter {
        return Ok(T::default());
    }
    read.await
}

/// Whether the disk of a VM that goes may have to go next, or its Secrets.
pub(super) fn is_next(disks: &[DataVolume], secrets: [Option<&Secret>; 2]) -> bool {
    if disks.is_empty() {
        return secrets.iter().any(Option::is_some);
    }
    let mut disks = disks.iter();
    disks.any(|it| it.metadata.deletion_timestamp.is_none())
}

/// What may write to a VM's disk. Of a VM that goes the machine first: once it is gone,
/// no instance is made any more, and until then one may come after any that has ended.
pub(super) async fn running<C: Cluster>(
    cluster: &C,
    key: ObjectKey,
    object: &KiteVirtualMachine,
) -> Result<(Option<VirtualMachine>, Option<VirtualMachineInstance>), ClusterError> {
    if object.metadata.deletion_timestamp.is_none() {
        return try_join!(find(cluster, key.clone()), instance(cluster, key, object));
    }
    let machine = find(cluster, key.clone()).await?;
    let instance = find(cluster, key);
    let instance = match machine {
        Some(_) => restless(instance).await?,
        None => instance.await?,
    };
    Ok((machine, instance))
}

/// Why no VM gets what is claimed, if it is a domain that stands for the platform.
pub(super) fn why_reserved(platform: &KitePlatformSpec, claim: &KiteReservation) -> Option<String> {
    let name = claim.metadata.name.as_deref().unwrap_or_default();
    match names::vm_claim_of_reservation(name) {
        Some(VmClaim::Domain(prefix)) => platform.reserved_domain(prefix).map(|it| it.to_string()),
        _ => None,
    }
}

/// Whether a network policy is missing around a user's VMs. Where a machine is made again,
/// they may have been taken down with it a moment ago: caches do not do then.
pub(super) async fn lacks_policies<C: Cluster>(
    cluster: &C,
    namespace: &str,
    again: bool,
) -> Result<bool, ClusterError> {
    let all = ListParams::default();
    let found = cluster.list::<NetworkPolicy>(Some(namespace.to_owned()), &all);
    let found = if again {
        uncached(found).await?
    } else {
        found.await?
    };
    let stands = |name: &&str| {
        let mut found = found.items.iter();
        found.any(|it| it.name_any() == **name && it.metadata.deletion_timestamp.is_none())
    };
    Ok(!isolation::POLICIES.iter().all(stands))
}

/// Whether the VM has got what was offered, and its status does not say yet that
/// the claim tells so.
pub(super) fn is_to_be_noted(object: &KiteVirtualMachine, disk: Option<&DataVolume>) -> bool {
    disk.is_some_and(lost::had_its_data) && !offer::is_noted(object)
}

/// When the VM was last used, as the gateway reports it.
pub(super) async fn activity<C: Cluster>(
    cluster: &C,
    vm: &Vm<'_>,
    machine: Option<&VirtualMachine>,
) -> Result<Option<Lease>, ClusterError> {
    let key = ObjectKey::namespaced(vm.namespace, names::activity_lease(vm.name));
    let lease = find(cluster, key);
    let status = vm.object.status.as_ref();
    if status.is_some_and(|it| it.idle.is_some()) && machine.is_some_and(may_run) {
        // About to be switched off: what was reported up to now counts.
        uncached(lease).await
    } else {
        lease.await
    }
}

/// What cert-manager left of the certificate. Of what is there the cache need not have
/// what tells whose it is.
pub(super) async fn left_certificate<C: Cluster>(
    cluster: &C,
    vm: &Vm<'_>,
    deleting: bool,
) -> Result<Option<Secret>, ClusterError> {
    if !deleting {
        return Ok(None);
    }
    let key = || ObjectKey::namespaced(vm.namespace, names::certificate_secret(vm.name));
    match secret(cluster, key(), true).await? {
        Some(_) => uncached(secret(cluster, key(), true)).await,
        None => Ok(None),
    }
}

/// A Secret of the VM. Of one that goes nothing is there that may not be read any more
/// because the namespace ends, or that may never be because it is no user's: a VM does not
/// stay for ever for what is not to be cleared away.
pub(super) async fn secret<C: Cluster>(
    cluster: &C,
    key: ObjectKey,
    deleting: bool,
) -> Result<Option<Secret>, ClusterError> {
    match cluster.get_opt(&key).await {
        Err(error) if deleting => {
            let namespace = key.namespace.as_deref();
            if goes_with_namespace(cluster, namespace, &error).await
                || is_out_of_reach(cluster, namespace, &error).await
            {
                Ok(None)
            } else {
                Err(error)
            }
        }
        found => found,
    }
}

/// Whether its Secrets may not be seen for want of a right that nobody gives.
pub(super) async fn is_refused<C: Cluster>(cluster: &C, vm: &Vm<'_>) -> bool {
    let key = ObjectKey::namespaced(vm.namespace, names::ssh_key_secret(vm.name));
    match cluster.get_opt::<Secret>(&key).await {
        Ok(_) => false,
        Err(error) => is_out_of_reach(cluster, key.namespace.as_deref(), &error).await,
    }
}

/// Whether the certificate is not there that the platform says is.
pub(super) async fn lacks_certificate<C: Cluster>(
    cluster: &C,
    vm: &Vm<'_>,
    platform: &KitePlatformSpec,
) -> Result<bool, ClusterError> {
    let Some(name) = exposure::given_certificate(vm, platform) else {
        return Ok(false);
    };
    let found = find::<Secret, C>(cluster, ObjectKey::namespaced(vm.namespace, name));
    Ok(found.await?.is_none())
}

/// Whether `KubeVirt` is not told yet that the machine is to be off.
pub(super) fn may_run(machine: &VirtualMachine) -> bool {
    machine.spec.run_strategy.as_deref() != Some("Halted")
}

/// The user whose namespace this is.
pub(super) async fn owner<C: Cluster>(
    cluster: &C,
    namespace: &str,
) -> Result<Option<KiteUser>, ClusterError> {
    match names::user_of_namespace(namespace) {
        Some(user) => cluster.get_opt(&ObjectKey::cluster(user)).await,
        None => Ok(None),
    }
}

pub(super) async fn image<C: Cluster>(cluster: &C, name: &str) -> Result<ImageSeen, ClusterError> {
    if let Some(image) = cluster
        .get_opt::<KiteImage>(&ObjectKey::cluster(name))
        .await?
    {
        return Ok(ImageSeen::Found(Box::new(image)));
    }
    let all = cluster
        .list::<KiteImage>(None, &ListParams::default().limit(100))
        .await?;
    let mut available = all
        .items
        .iter()
        .map(ResourceExt::name_any)
        .collect::<Vec<_>>();
    available.sort();
    available.truncate(IMAGES_NAMED);
    Ok(ImageSeen::Unknown { available })
}
