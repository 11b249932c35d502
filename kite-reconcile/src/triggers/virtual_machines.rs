//! What the controller of VMs hears of.

use k8s_openapi::api::{
    coordination::v1::Lease,
    core::v1::{PersistentVolumeClaim, Secret, Service},
    networking::v1::Ingress,
};
use kite_core::{
    cdi::DataVolume,
    conditions::find,
    crd::{
        KiteImage, KitePlatform, KiteReservation, KiteSnapshot, KiteUser, KiteVirtualMachine,
        KiteVirtualMachineOffer, KiteVolume,
    },
    gateway_api::HttpRoute,
    kubevirt::{KubeVirt, VirtualMachine, VirtualMachineInstance, VirtualMachineInstanceMigration},
    labels, names,
};
use kube::{
    ResourceExt as _,
    runtime::reflector::{ObjectRef, Store},
};

use super::{
    CERTIFICATE, Listener,
    changes::Changes,
    claims::{Claims, claimants, lists},
    edits::Edits,
    everything, has_disk, managed,
    owners::vm_of,
    select,
    settings::Settings,
    shares::Shares,
};

/// All that the controller of VMs hears of.
pub fn virtual_machines<L: Listener<KiteVirtualMachine>>(listener: L) -> L {
    rests_on(made(listener))
}

/// What is made for a VM.
fn made<L: Listener<KiteVirtualMachine>>(listener: L) -> L {
    listener
        .on(managed(), || |o: &Lease, _: &_| vm_of(o))
        .on(everything(), || {
            |secret: &Secret, vms: &_| {
                if secret.type_.as_deref() != Some(CERTIFICATE) {
                    return vm_of(secret);
                }
                // Somebody else puts certificates there.
                let namespace = secret.namespace();
                select(vms, |vm: &KiteVirtualMachine| {
                    vm.spec.domain_prefix.is_some() && vm.metadata.namespace == namespace
                })
            }
        })
        .on(managed(), || |o: &DataVolume, _: &_| vm_of(o))
        .on(managed(), || |o: &PersistentVolumeClaim, _: &_| vm_of(o))
        .on(managed(), || |o: &VirtualMachine, _: &_| vm_of(o))
        .on(managed(), || |o: &VirtualMachineInstance, _: &_| vm_of(o))
        .on(managed(), || {
            |o: &VirtualMachineInstanceMigration, _: &_| vm_of(o)
        })
        .on(managed(), || |o: &Service, _: &_| vm_of(o))
        .on(managed(), || |o: &Ingress, _: &_| vm_of(o))
        .on(managed(), || |o: &HttpRoute, _: &_| vm_of(o))
        .on(managed(), || {
            let claims = Claims::default();
            move |claim: &KiteReservation, vms: &_| claimants(&claims, vms, claim)
        })
}

/// What a VM rests on, and is somebody else's.
fn rests_on<L: Listener<KiteVirtualMachine>>(listener: L) -> L {
    listener
        .on(everything(), || {
            let changes = Changes::default();
            move |platform: &KitePlatform, vms: &_| {
                // Where the gateway is reached is told to who logs in.
                let reached = platform
                    .status
                    .as_ref()
                    .map(|it| (it.gateway_port, it.gateway_addresses.first().cloned()))
                    .unwrap_or_default();
                let facts = (platform.metadata.generation, reached);
                if changes.is_one(platform, facts, &platform.status) {
                    select(vms, |_| true)
                } else {
                    Vec::new()
                }
            }
        })
        .on(everything(), || {
            let edits = Edits::default();
            move |user: &KiteUser, vms: &_| {
                // VMs wait for the network policies of the namespace.
                let stands = user.status.as_ref().is_some_and(|s| s.namespace.is_some());
                if !edits.is_one(user, stands) {
                    return Vec::new();
                }
                let namespace = names::user_namespace(&user.name_any());
                select(vms, |vm: &KiteVirtualMachine| {
                    vm.metadata.namespace.as_ref() == Some(&namespace)
                })
            }
        })
        .on(everything(), || {
            let phases = Edits::default();
            move |snapshot: &KiteSnapshot, vms: &_| concerned_by_snapshot(&phases, snapshot, vms)
        })
        .on(everything(), || {
            let phases = Edits::default();
            move |volume: &KiteVolume, vms: &_| {
                let status = volume.status.as_ref();
                // What is in its way is told by VMs that wait for it.
                let ready = status.and_then(|it| find(&it.conditions, "Ready"));
                let reason = ready.map(|it| it.reason.clone());
                if !phases.is_one(volume, (status.and_then(|it| it.phase), reason)) {
                    return Vec::new();
                }
                let (namespace, name) = (volume.namespace(), volume.name_any());
                select(vms, |vm: &KiteVirtualMachine| {
                    vm.metadata.namespace == namespace && lists(vm, &name)
                })
            }
        })
        .on(everything(), || {
            // What one VM of a user gives back, another waits for.
            let shares = Shares::default();
            move |vm: &KiteVirtualMachine, _: &_| shares.freed(vm)
        })
        .on(everything(), || {
            let settings = Settings::default();
            move |kubevirt: &KubeVirt, vms: &_| {
                // Whether they are moved to grow.
                if settings.are_new(kubevirt) {
                    select(vms, |_| true)
                } else {
                    Vec::new()
                }
            }
        })
        .on(everything(), || {
            |image: &KiteImage, vms: &_| {
                let name = image.name_any();
                select(vms, |vm: &KiteVirtualMachine| {
                    vm.spec.image == name && !has_disk(vm)
                })
            }
        })
        .on(everything(), || {
            |offer: &KiteVirtualMachineOffer, vms: &_| {
                let name = offer.name_any();
                select(vms, |vm: &KiteVirtualMachine| {
                    vm.spec.offer.as_ref() == Some(&name) && !has_disk(vm)
                })
            }
        })
}

/// A VM that goes waits for its snapshots, one that is restored for one of them, one that is
/// made from one for that, and a schedule for what becomes of its own.
fn concerned_by_snapshot(
    phases: &Edits,
    snapshot: &KiteSnapshot,
    vms: &Store<KiteVirtualMachine>,
) -> Vec<ObjectRef<KiteVirtualMachine>> {
    let phase = snapshot.status.as_ref().and_then(|it| it.phase);
    let of = snapshot.labels().get(labels::SCHEDULE_OF);
    let of = of.filter(|_| phases.is_one(snapshot, phase));
    let namespace = snapshot.namespace();
    let name = snapshot.name_any();
    select(vms, |vm: &KiteVirtualMachine| {
        let is_of = vm.metadata.name.as_ref() == Some(&snapshot.spec.vm);
        let restore = vm.spec.restore.as_ref();
        let is_asked = restore.and_then(|it| it.snapshot.as_ref()) == Some(&name);
        let goes = vm.metadata.deletion_timestamp.is_some();
        let is_made_from = vm.spec.from_snapshot.as_ref() == Some(&name);
        let by_schedule = of.is_some() && of == vm.metadata.uid.as_ref();
        let waits = is_of && (goes || is_asked || by_schedule) || is_made_from && !has_disk(vm);
        waits && vm.metadata.namespace == namespace
    })
}
