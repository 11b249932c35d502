//! A disk that had data, and of which something is gone or goes without the VM.
//!
//! Somebody has deleted its `DataVolume` or its claim, or restores a backup and has
//! not come to it yet. A disk from the image would look like the former one and have
//! nothing of it. So none is made until somebody asks for it, and says which disk
//! they mean: [`REPLACE_DISK`](labels::REPLACE_DISK).
//!
//! Where the `DataVolume` alone is gone, all data is in the claim, and the VM starts
//! from that: see [`Loss::Unmanaged`].
//!
//! CDI makes a claim that is gone anew, unless the disk is said to have its data, which a disk is
//! told once it has: see [`is_to_say_so`]. One from before that is known by the uid of the claim on
//! which a guest has run: see [`Loss::Remade`].

mod told;

use std::borrow::Cow;

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kite_core::{
    cdi::{self, DataVolume},
    conditions::NewCondition,
    crd::KiteVirtualMachine,
    kubevirt::VirtualMachine,
    labels,
};
use kite_render::{
    Vm, disk,
    restore::{self, DiskNotes},
};
use kube::api::ObjectMeta;

pub(super) use self::told::condition;
use super::{
    judge::{self, DiskState},
    observe::Observed,
};
use crate::standing::{Standing, standing};

/// What was lost of a disk that had data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Loss {
    /// An object of this kind is on its way out, and the rest with it.
    Leaving(&'static str),
    /// The `DataVolume`, and no data: the claim is left, and is taken as it is.
    Unmanaged,
    /// The claim, and the one of its name is not the disk's.
    Foreign,
    /// The claim, and CDI has made another in its place, which is as new.
    Remade,
    /// The claim, and one is back that is the VM's, which CDI has not taken for the disk.
    Untaken,
    /// What the claim is bound to.
    Volume,
    /// It is gone: there is no object of this kind.
    Gone(&'static str),
}

const DISK: &str = "DataVolume";
const CLAIM: &str = "PersistentVolumeClaim";

/// Where the disk stands.
pub(super) fn disk_state(vm: &Vm<'_>, seen: &Observed) -> DiskState {
    match loss(vm, seen) {
        Some(Loss::Unmanaged) => DiskState::Filled,
        Some(
            Loss::Leaving(_)
            | Loss::Foreign
            | Loss::Remade
            | Loss::Untaken
            | Loss::Volume
            | Loss::Gone(_),
        ) => DiskState::Lost,
        None => DiskState::of(seen.own_disk(vm)),
    }
}

/// What was lost of the disk, if something was and nobody has asked for another.
pub(super) fn loss(vm: &Vm<'_>, seen: &Observed) -> Option<Loss> {
    let lost = whatever_lost(vm, seen)?;
    let is_over = matches!(lost, Loss::Gone(_));
    (!is_over || !is_replaced(vm, seen)).then_some(lost)
}

/// Whether the disk has all its data, and no `DataVolume` by which it could grow.
pub(super) fn is_unmanaged(vm: &Vm<'_>, seen: &Observed) -> bool {
    loss(vm, seen) == Some(Loss::Unmanaged)
}

/// Whether the `DataVolume` is there, its claim is lost, and somebody has asked for
/// another disk: then it is in the way of that.
pub(super) fn is_to_go(vm: &Vm<'_>, seen: &Observed) -> bool {
    seen.own_disk(vm).is_some()
        && matches!(whatever_lost(vm, seen), Some(Loss::Gone(_)))
        && is_replaced(vm, seen)
}

/// Uid of the disk that had data, as far as that is known.
pub(super) fn uid<'a>(vm: &Vm<'a>, seen: &'a Observed) -> Option<&'a str> {
    if let Some(disk) = seen.own_disk(vm) {
        return disk.metadata.uid.as_deref().filter(|_| had(vm, disk));
    }
    had_data(vm.object).or_else(|| marked(seen.machine.as_ref()))
}

/// The disk for which a machine has a mark: it was there, whatever the status says.
pub(super) fn marked(machine: Option<&VirtualMachine>) -> Option<&str> {
    let machine = machine?;
    restore::mark_of(&machine.metadata)?;
    restore::disk_of(machine)
}

/// Uid of the disk that had data, as the status says. An earlier version did not say
/// which one it was.
pub(super) fn had_data(vm: &KiteVirtualMachine) -> Option<&str> {
    let disk = vm.status.as_ref()?.disk.as_ref()?;
    let is_filled = disk.phase.as_deref() == Some("Succeeded");
    disk.uid
        .as_deref()
        .or_else(|| is_filled.then_some(disk.name.as_str()))
}

/// Whether the disk was filled, whatever CDI says of it now that its claim may be gone.
pub(super) fn had_its_data(disk: &DataVolume) -> bool {
    DiskState::of(Some(disk)) == DiskState::Filled || DiskNotes::of(&disk.metadata).has_its_data
}

/// The same, also where CDI has begun to fill another claim for it.
pub(super) fn had(vm: &Vm<'_>, disk: &DataVolume) -> bool {
    had_its_data(disk) || is_told(vm, disk)
}

/// Whether the VM's status says that this disk had data.
fn is_told(vm: &Vm<'_>, disk: &DataVolume) -> bool {
    let uid = disk.metadata.uid.as_deref();
    uid.is_some() && had_data(vm.object) == uid
}

/// Whether the disk is to say from now on that it has its data, whatever has become of its claim:
/// one of before, or the VM's, once that is told of, so that it is missed should it go meanwhile.
pub(super) fn is_to_say_so(vm: &Vm<'_>, disk: &DataVolume) -> bool {
    let notes = DiskNotes::of(&disk.metadata);
    DiskState::of(Some(disk)) == DiskState::Filled
        && !leaves(&disk.metadata)
        && (notes.mark.is_some() || is_told(vm, disk))
}

/// Why the VM is kept off: `KubeVirt` starts its guest from whatever claim of the name comes. One
/// that runs goes on; and from what goes, none is started, but what holds it would let go of it.
pub(super) fn hold(vm: &Vm<'_>, seen: &Observed) -> Option<NewCondition> {
    let runs = judge::runs(seen.instance.as_ref());
    match loss(vm, seen)? {
        Loss::Leaving(_) | Loss::Unmanaged => None,
        Loss::Foreign | Loss::Remade | Loss::Untaken | Loss::Volume | Loss::Gone(_) => {
            condition(vm, seen, None).filter(|_| !runs)
        }
    }
}

/// Uid of the claim that a guest has run on, where the disk's present one is another that CDI has
/// made for it since, and nobody has said that this one will do.
pub(super) fn remade<'a>(
    vm: &Vm<'a>,
    disk: &'a DataVolume,
    claim: Option<&PersistentVolumeClaim>,
) -> Option<Cow<'a, str>> {
    let claim = &claim?.metadata;
    let made_for = claim.annotations.as_ref()?.get(cdi::MADE_FOR);
    let told = vm.object.status.as_ref().and_then(|it| it.disk.as_ref());
    let told = told.filter(|it| it.uid.is_some() && it.uid == disk.metadata.uid);
    let noted = DiskNotes::of(&disk.metadata).has_run_on.map(Cow::Owned);
    let had = noted.or_else(|| Some(Cow::Borrowed(told?.has_run_on.as_deref()?)))?;
    // One that somebody has brought back says so.
    let is_another = made_for.is_some()
        && made_for == disk.metadata.uid.as_ref()
        && !is_said_to_be_filled(claim)
        && claim.uid.as_deref() != Some(&had);
    (is_another && replaced(vm) != Some(&had)).then_some(had)
}

/// Whether somebody says of the claim that it has the data of the disk of its name.
fn is_said_to_be_filled(claim: &ObjectMeta) -> bool {
    let annotations = claim.annotations.as_ref();
    let of = annotations.and_then(|it| it.get(cdi::POPULATED_FOR));
    of.is_some() && of == claim.name.as_ref()
}

fn whatever_lost(vm: &Vm<'_>, seen: &Observed) -> Option<Loss> {
    let Some(disk) = &seen.disk else {
        had_data(vm.object).or_else(|| marked(seen.machine.as_ref()))?;
        let claim = seen.claim.as_ref();
        return Some(claim.map_or(Loss::Gone(DISK), |claim| left_alone(vm, claim)));
    };
    let own = seen.own_disk(vm)?;
    let is_remade = remade(vm, own, seen.claim.as_ref()).is_some();
    if !had(vm, own) {
        return None;
    }
    match &seen.claim {
        _ if leaves(&disk.metadata) => Some(Loss::Leaving(DISK)),
        Some(claim) if leaves(&claim.metadata) => Some(Loss::Leaving(CLAIM)),
        Some(claim) if is_owned(claim, &disk.metadata) => {
            let status = claim.status.as_ref();
            let is_unbound = status.is_some_and(|it| it.phase.as_deref() == Some("Lost"));
            let volume = is_unbound.then_some(Loss::Volume);
            is_remade.then_some(Loss::Remade).or(volume)
        }
        // As from a backup, it may belong to nobody.
        Some(claim) => match left_alone(vm, claim) {
            Loss::Unmanaged => {
                let is_taken = DiskState::of(Some(own)) == DiskState::Filled;
                (!is_taken).then_some(Loss::Untaken)
            }
            loss => Some(loss),
        },
        None => Some(Loss::Gone(CLAIM)),
    }
}

/// Whether the claim is the `DataVolume`'s own.
fn is_owned(claim: &PersistentVolumeClaim, by: &ObjectMeta) -> bool {
    let mut owners = claim.metadata.owner_references.iter().flatten();
    owners.any(|owner| Some(&owner.uid) == by.uid.as_ref())
}

fn leaves(metadata: &ObjectMeta) -> bool {
    metadata.deletion_timestamp.is_some()
}

/// What a claim says of a disk that has no `DataVolume` any more, or another than the claim.
fn left_alone(vm: &Vm<'_>, claim: &PersistentVolumeClaim) -> Loss {
    if leaves(&claim.metadata) {
        return Loss::Leaving(CLAIM);
    }
    let name = claim.metadata.name.as_deref().unwrap_or_default();
    let mut owners = claim.metadata.owner_references.iter().flatten();
    // Kubernetes has not come to it yet: what is owned by nothing but that goes after it.
    if owners.any(|owner| owner.kind == DISK && owner.name == name) {
        return Loss::Leaving(DISK);
    }
    match standing(&claim.metadata, &disk::metadata(vm)) {
        Standing::Ours | Standing::Leaving => Loss::Unmanaged,
        Standing::Foreign => Loss::Foreign,
    }
}

fn is_replaced(vm: &Vm<'_>, seen: &Observed) -> bool {
    replaced(vm).is_some_and(|asked| Some(asked) == uid(vm, seen))
}

/// Uid of the disk, or of its claim, of which somebody has said that another one will do.
fn replaced<'a>(vm: &Vm<'a>) -> Option<&'a str> {
    let annotations = vm.object.metadata.annotations.as_ref()?;
    annotations.get(labels::REPLACE_DISK).map(String::as_str)
}

#[cfg(test)]
#[path = "lost_tests.rs"]
mod tests;
