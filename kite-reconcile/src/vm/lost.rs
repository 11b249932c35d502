//! A disk that had data, and is gone or goes without the VM.
//!
//! Somebody has deleted its `DataVolume` or its claim, or restores a backup and has
//! not come to it yet. A disk from the image would look like the former one and have
//! nothing of it. So none is made until somebody asks for it, and says which disk
//! they mean: [`REPLACE_DISK`](labels::REPLACE_DISK).

use kite_core::{conditions::NewCondition, crd::vm_condition::DISK_READY, labels, names};
use kite_render::Vm;
use kube::api::ObjectMeta;

use super::{machine::DiskState, observe::Observed};

/// What became of a disk that had data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Loss {
    /// An object of this kind is on its way out, and the rest with it.
    Leaving(&'static str),
    /// The `DataVolume` is gone, and its claim is still there.
    Unowned,
    /// It is gone: there is no object of this kind.
    Gone(&'static str),
}

const DISK: &str = "DataVolume";
const CLAIM: &str = "PersistentVolumeClaim";

/// Where the disk stands.
pub(super) fn disk_state(vm: &Vm<'_>, seen: &Observed) -> DiskState {
    match loss(vm, seen) {
        Some(_) => DiskState::Lost,
        None => DiskState::of(seen.own_disk(vm)),
    }
}

/// What became of the disk, if it is lost and nobody has asked for another.
pub(super) fn loss(vm: &Vm<'_>, seen: &Observed) -> Option<Loss> {
    let lost = whatever_lost(vm, seen)?;
    let is_over = matches!(lost, Loss::Gone(_));
    (!is_over || !is_replaced(vm, seen)).then_some(lost)
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
        let is_filled = DiskState::of(Some(disk)) == DiskState::Filled;
        return disk.metadata.uid.as_deref().filter(|_| is_filled);
    }
    had_data(vm)
}

/// Uid of the disk that had data, as the status says. An earlier version did not say
/// which one it was.
pub(super) fn had_data<'a>(vm: &Vm<'a>) -> Option<&'a str> {
    let disk = vm.object.status.as_ref()?.disk.as_ref()?;
    let is_filled = disk.phase.as_deref() == Some("Succeeded");
    disk.uid
        .as_deref()
        .or_else(|| is_filled.then_some(disk.name.as_str()))
}

fn whatever_lost(vm: &Vm<'_>, seen: &Observed) -> Option<Loss> {
    let leaves = |metadata: &ObjectMeta| metadata.deletion_timestamp.is_some();
    let claim = seen.claim.as_ref().map(|claim| leaves(&claim.metadata));
    let Some(disk) = &seen.disk else {
        had_data(vm)?;
        return Some(match claim {
            None => Loss::Gone(DISK),
            Some(true) => Loss::Leaving(CLAIM),
            Some(false) => Loss::Unowned,
        });
    };
    let own = seen.own_disk(vm)?;
    if DiskState::of(Some(own)) != DiskState::Filled {
        return None;
    }
    match claim {
        _ if leaves(&disk.metadata) => Some(Loss::Leaving(DISK)),
        Some(true) => Some(Loss::Leaving(CLAIM)),
        None => Some(Loss::Gone(CLAIM)),
        Some(false) => None,
    }
}

fn is_replaced(vm: &Vm<'_>, seen: &Observed) -> bool {
    let annotations = vm.object.metadata.annotations.as_ref();
    let asked = annotations.and_then(|all| all.get(labels::REPLACE_DISK));
    asked.is_some_and(|asked| Some(asked.as_str()) == uid(vm, seen))
}

/// What is said of it.
pub(super) fn condition(vm: &Vm<'_>, seen: &Observed) -> Option<NewCondition> {
    let loss = loss(vm, seen)?;
    let name = names::disk(vm.name);
    let (reason, message) = match loss {
        Loss::Leaving(kind) => (
            "DiskLeaving",
            format!(
                "somebody has deleted the disk's {kind} {name}: it goes, with all that is on it, \
                 when the VM is off, and nothing takes that back; save what is on it while the \
                 VM runs"
            ),
        ),
        Loss::Unowned => (
            "DiskLost",
            format!(
                "the disk's DataVolume {name} is gone; what was on it is still in the \
                 PersistentVolumeClaim {name}: restore the DataVolume from a backup, or save what \
                 is on the claim and delete it or the VM"
            ),
        ),
        Loss::Gone(kind) => {
            let (key, uid) = (labels::REPLACE_DISK, uid(vm, seen).unwrap_or_default());
            let (image, namespace) = (&vm.object.spec.image, vm.namespace);
            let message = format!(
                "the disk is gone with all that was on it, for there is no {kind} {name} any \
                 more: restore it from a backup, delete the VM, or have a new disk made from \
                 image {image} (kubectl annotate kitevirtualmachine -n {namespace} {} {key}={uid})",
                vm.name
            );
            ("DiskLost", message)
        }
    };
    Some(NewCondition::new(DISK_READY, false, reason, message))
}
