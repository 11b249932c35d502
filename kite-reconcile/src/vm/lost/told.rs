//! What is said of a disk that is lost, and what to do about it.

use kite_core::{
    cdi, conditions::NewCondition, crd::vm_condition::DISK_READY, labels, quantity::Bytes,
};
use kite_render::{Vm, restore};

use super::{Loss, is_said_to_be_filled, loss, remade, uid};
use crate::vm::{
    blockers,
    disks::{Known, View},
    observe::Observed,
    origin,
};

/// What is said of it. `size`: that of the disk, as far as it is known.
pub(in super::super) fn condition(
    vm: &Vm<'_>,
    seen: &Observed,
    size: Option<&Bytes>,
) -> Option<NewCondition> {
    let loss = loss(vm, seen)?;
    let name = seen.disk_name(vm);
    let (reason, message) = match loss {
        Loss::Leaving(kind) => (
            "DiskLeaving",
            format!(
                "somebody has deleted the disk's {kind} {name}: it goes, with all that is on it, \
                 when the VM is off, and nothing takes that back; save what is on it while the \
                 VM runs"
            ),
        ),
        Loss::Unmanaged => return Some(unmanaged(vm, seen, size)),
        Loss::Foreign => (
            "DiskLost",
            format!(
                "the disk is gone, and the PersistentVolumeClaim {name} that is there is not the \
                 disk's: it has another owner, or lacks the VM's labels; restore the disk from a \
                 backup with the VM's labels, or have that claim deleted, or the VM, which leaves \
                 that claim alone"
            ),
        ),
        Loss::Volume => (
            "DiskLost",
            format!(
                "the PersistentVolume of the disk is gone, with all that was on it unless storage \
                 has that still, so that PersistentVolumeClaim {name} is Lost: an administrator \
                 must look at the storage"
            ),
        ),
        Loss::Untaken
            if seen
                .claim
                .as_ref()
                .is_some_and(|it| is_said_to_be_filled(&it.metadata)) =>
        {
            (
                "DiskLost",
                format!(
                    "the disk's PersistentVolumeClaim {name} is another than it had, and CDI has \
                     not taken it for the disk yet: where that lasts, what the disk was made from \
                     may be gone; have DataVolume {name} deleted then, and its claim kept (kubectl \
                     delete datavolume -n {} {name} --cascade=orphan)",
                    vm.namespace
                ),
            )
        }
        Loss::Untaken => (
            "DiskLost",
            format!(
                "the disk's PersistentVolumeClaim {name} is another than it had, and CDI does not \
                 take it for the disk: once all data is in it, say so (kubectl annotate pvc -n {} \
                 {name} {}={name})",
                vm.namespace,
                cdi::POPULATED_FOR
            ),
        ),
        Loss::Remade => {
            let (key, formers) = (labels::REPLACE_DISK, formers(vm, seen));
            let copied = seen.own_disk(vm).and_then(restore::copy_of);
            let copied = copied.map(|it| format!("KiteSnapshot {it}"));
            let origin = copied.unwrap_or_else(|| origin::kind_and_name(vm));
            let claim = seen.own_disk(vm).zip(seen.claim.as_ref());
            let had = claim.and_then(|(disk, claim)| remade(vm, disk, Some(claim)));
            let message = format!(
                "the disk is gone with all that was on it: somebody has deleted \
                 PersistentVolumeClaim {name}, and CDI has made another in its place, which is as \
                 {origin} is: {formers}restore it from a snapshot (spec.restore.snapshot) or from \
                 a backup, delete the VM, or take the disk as it is now (kubectl annotate \
                 kitevirtualmachine -n {} {} {key}={})",
                vm.namespace,
                vm.name,
                had.unwrap_or_default()
            );
            ("DiskLost", message)
        }
        Loss::Gone(kind) => {
            let (key, uid) = (labels::REPLACE_DISK, uid(vm, seen).unwrap_or_default());
            let (origin, namespace) = (origin::kind_and_name(vm), vm.namespace);
            let formers = formers(vm, seen);
            let message = format!(
                "the disk is gone with all that was on it, for there is no {kind} {name} any \
                 more: {formers}restore it from a snapshot (spec.restore.snapshot) or from a \
                 backup, delete the VM, or have a new disk made from {origin} (kubectl annotate kitevirtualmachine -n {namespace} {} {key}={uid})",
                vm.name
            );
            ("DiskLost", message)
        }
    };
    Some(NewCondition::new(DISK_READY, false, reason, message))
}

/// The former disks that the VM can be given again, as a remedy.
fn formers(vm: &Vm<'_>, seen: &Observed) -> String {
    let formers = View::of(vm, Known::of(seen)).formers();
    let names: Vec<_> = formers.into_iter().map(|it| it.name).collect();
    if names.is_empty() {
        return String::new();
    }
    format!(
        "have a former disk again (spec.restore.disk: {}), ",
        names.join(" or ")
    )
}

/// What is said of a disk that has its data and no `DataVolume`. That it can be used
/// holds; that it has the size which is asked for need not.
fn unmanaged(vm: &Vm<'_>, seen: &Observed, size: Option<&Bytes>) -> NewCondition {
    let name = seen.disk_name(vm);
    let wanted = &vm.object.spec.disk;
    let kept = size.filter(|size| *size < wanted);
    let growth = match kept {
        Some(size) => format!("does not grow to {wanted} and keeps its {size}"),
        None => "cannot grow".to_owned(),
    };
    let storage = seen.claim.as_ref().and_then(blockers::of_claim);
    let storage = storage.map(|words| format!("; storage says: {words}"));
    NewCondition::new(
        DISK_READY,
        kept.is_none(),
        "DiskUnmanaged",
        format!(
            "nothing is lost, and the VM starts: its data is in PersistentVolumeClaim {name}. The \
             DataVolume {name} is gone: somebody has deleted it alone, or CDI has cleared it away \
             (dataVolumeTTLSeconds). Without it the disk {growth}, until an administrator makes \
             it again over the claim{}",
            storage.unwrap_or_default()
        ),
    )
}
