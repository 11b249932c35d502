//! What a VM holds of its owner's quota, as its status and what there is of it say.

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kite_core::{
    crd::VmSize,
    kubevirt::{Domain, VirtualMachine},
    quantity::Bytes,
};
use kite_render::Vm;

use super::ALL;
use crate::{
    disk_claim::{Overhead, claim_size, disk_size},
    standing::{Standing, standing},
    vm::{lost, observe::Observed},
};

/// What the VM was granted. What it has asked for and has was given to it, though
/// the status does not say so yet. Where that says nothing, as one that was written
/// before it told of this, or that was lost, it is what there is of the VM.
pub(super) fn held(vm: &Vm<'_>, seen: &Observed, has_disk: Option<&Bytes>) -> VmSize {
    let status = vm.object.status.as_ref();
    let granted = status.and_then(|status| status.granted.clone());
    let asking = status.and_then(|status| status.asking.clone());
    let mut held = granted.unwrap_or_default();
    // What a disk has cannot be taken from it.
    held.disk = held.disk.max(has_disk.cloned());
    if held.cpu.is_none() || held.memory.is_none() || asking.is_some() {
        let is_own = |machine: &&VirtualMachine| {
            standing(&machine.metadata, &vm.metadata(vm.name.to_owned())) != Standing::Foreign
        };
        let machine = seen.machine.as_ref().filter(is_own);
        let has = machine.map(|machine| size_of(&machine.spec.template.spec.domain));
        let has = has.unwrap_or_default();
        let asking = asking.unwrap_or_default();
        held.cpu = held.cpu.max(asking.cpu.filter(|it| has.cpu == Some(*it)));
        held.cpu = held.cpu.or(has.cpu);
        let given = asking.memory.filter(|it| has.memory.as_ref() == Some(it));
        held.memory = held.memory.max(given).or(has.memory);
    }
    held
}

/// CPUs and memory of a domain.
fn size_of(domain: &Domain) -> VmSize {
    let memory = || domain.memory.as_ref()?.guest.as_ref()?.0.parse().ok();
    VmSize {
        cpu: domain.cpu.as_ref().and_then(|cpu| cpu.sockets),
        memory: memory(),
        disk: None,
    }
}

/// The size of the disk in terms of the VM's spec. The claim alone does not tell:
/// for a file system it is somewhat larger. What was asked for last it has if there
/// is room for it in its claim; else what it had before. Of one that has nothing but its
/// claim that is all there is to go by.
pub(super) fn given_disk(vm: &Vm<'_>, seen: &Observed) -> Option<Bytes> {
    if lost::is_unmanaged(vm, seen) {
        return Some(told_disk(vm));
    }
    let disk = seen.own_disk(vm)?;
    let made = disk_size(disk);
    let claim = own_claim(seen).and_then(claim_size);
    let overhead = overhead(vm, seen).unwrap_or_default();
    let has_room = |size: &Bytes| {
        let is_made = made.as_ref().is_some_and(|made| size <= made);
        let in_claim = |claim: &Bytes| overhead.has_room(claim, size);
        is_made || claim.as_ref().is_some_and(in_claim)
    };
    let status = vm.object.status.as_ref();
    let granted = status.and_then(|it| it.granted.as_ref()?.disk.clone());
    let asking = status.and_then(|it| it.asking.as_ref()?.disk.clone());
    let before = status.and_then(|it| it.disk.as_ref()?.size.clone());
    let is_told = granted.is_some() || asking.is_some();
    let told = granted.or_else(|| (!is_told).then(|| vm.object.spec.disk.clone()));
    let sizes = [told, before, made.clone()].into_iter().flatten();
    // A claim that was grown has the size that it was to have, and no more.
    let grown = |asking: &Bytes| claim.as_ref() == Some(&overhead.claim_for(asking));
    let asking = asking.filter(grown);
    sizes.chain(asking).filter(has_room).max()
}

/// The size of the disk as the status says it; where an earlier version wrote that, as
/// the spec does.
fn told_disk(vm: &Vm<'_>) -> Bytes {
    let status = vm.object.status.as_ref();
    let size = status.and_then(|it| it.disk.as_ref()?.size.clone());
    let granted = || status.and_then(|it| it.granted.as_ref()?.disk.clone());
    let size = size.or_else(granted);
    size.unwrap_or_else(|| vm.object.spec.disk.clone())
}

/// What the file system of the disk's volume takes of it, as far as there is a disk
/// and a claim.
pub(in crate::vm) fn overhead(vm: &Vm<'_>, seen: &Observed) -> Option<Overhead> {
    let disk = seen.own_disk(vm)?;
    let claim = own_claim(seen)?;
    let told = vm.object.status.as_ref().and_then(|it| it.disk.as_ref());
    let size = told.and_then(|told| told.size.as_ref());
    let told = told.and_then(|told| told.filesystem_overhead.as_deref());
    let instance = seen.instance.as_ref();
    Some(Overhead::of(claim, Some(disk), instance, told, size))
}

/// The claim of the disk that was seen.
pub(in crate::vm) fn own_claim(seen: &Observed) -> Option<&PersistentVolumeClaim> {
    let disk = seen.disk.as_ref()?.metadata.uid.as_ref();
    seen.claim.as_ref().filter(|claim| {
        let mut owners = claim.metadata.owner_references.iter().flatten();
        owners.any(|owner| Some(&owner.uid) == disk)
    })
}

/// What the VM is to be charged with: what it may have, or of what it held before
/// as much as it still uses. An instance gives back nothing while it runs, and a
/// disk never.
pub(super) fn in_use(
    size: &VmSize,
    held: &VmSize,
    seen: &Observed,
    has_disk: Option<&Bytes>,
) -> VmSize {
    let has_ended = |phase: Option<&str>| matches!(phase, Some("Succeeded" | "Failed"));
    let instance = seen.instance.as_ref().filter(|instance| {
        let status = instance.status.as_ref();
        !has_ended(status.and_then(|status| status.phase.as_deref()))
    });
    let mut used = instance
        .map(|instance| size_of(&instance.spec.domain))
        .unwrap_or_default();
    used.disk = has_disk.cloned();
    let mut charged = size.clone();
    for field in ALL {
        let [may, had, has] = [size, held, &used].map(|size| field.in_size(size));
        if has > may && had > may {
            field.copy(if has < had { &used } else { held }, &mut charged);
        }
    }
    charged
}
