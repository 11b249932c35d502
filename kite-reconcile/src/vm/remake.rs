//! A disk that CDI cannot fill as it stands. The spec of a `DataVolume` cannot be
//! changed, so what mends it takes another one: of a disk that was never filled
//! nothing is lost.

use kite_core::cdi::DataVolume;
use kite_render::Vm;

use super::{
    judge::{self, DiskState},
    lost,
    observe::Observed,
};
use crate::{
    disk_claim::disk_size,
    plan::{Change, Step},
    reports,
};

/// The step that has the stored disk make way for the `desired` one.
pub(super) fn step(vm: &Vm<'_>, seen: &Observed, desired: &DataVolume) -> Option<Step> {
    let stored = seen.own_disk(vm)?;
    if stored.metadata.deletion_timestamp.is_some() {
        return None;
    }
    let is_mended = is_stuck(vm, seen) && is_mended(stored, desired);
    let stored = || stored.clone().into();
    (is_mended || lost::is_to_go(vm, seen)).then(|| Step::Change(Change::DeleteUnchanged(stored())))
}

/// What a person can do about a disk that cannot be filled.
pub(super) fn remedy(vm: &Vm<'_>, seen: &Observed) -> &'static str {
    if is_stuck(vm, seen) {
        "set a larger spec.disk, and the disk is made anew, if it is too small; else an \
         administrator must look at the storage class, the image and the quota"
    } else {
        "an administrator must look at the storage class, the image and the quota"
    }
}

/// Whether the disk is not filled, was not before, and CDI says why.
fn is_stuck(vm: &Vm<'_>, seen: &Observed) -> bool {
    let Some(disk) = seen.own_disk(vm) else {
        return false;
    };
    let is_under_way = matches!(
        DiskState::of(Some(disk)),
        DiskState::Filling | DiskState::WaitingForStart
    );
    let told = vm.object.status.as_ref().and_then(|it| it.disk.as_ref());
    let had_data = told.is_some_and(|told| told.uid.is_some() && told.uid == disk.metadata.uid);
    // A guest that runs writes to something.
    let is_used = judge::runs(seen.instance.as_ref());
    is_under_way
        && !had_data
        && !lost::had_its_data(disk)
        && !is_used
        && reports::of_disk(disk).is_some()
}

/// Whether another disk differs in what can mend it: a larger size, or another class.
fn is_mended(stored: &DataVolume, desired: &DataVolume) -> bool {
    let class = |disk: &DataVolume| {
        let storage = disk.spec.storage.as_ref();
        storage.and_then(|storage| storage.storage_class_name.clone())
    };
    disk_size(desired) > disk_size(stored) || class(desired) != class(stored)
}
