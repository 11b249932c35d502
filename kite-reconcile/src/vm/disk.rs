//! The root disk: made from the image, kept as it was made, and grown.

use std::time::Duration;

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kite_core::{
    conditions::{self, NewCondition},
    crd::{DiskStatus, KiteVirtualMachineStatus, vm_condition::DISK_READY},
    kubevirt::{PhaseTransition, VirtualMachineInstance},
    quantity::Bytes,
};
use kite_render::{
    Vm, disk,
    restore::{DiskMark, DiskNotes, mark_of},
};

use super::{
    blockers,
    draft::{A_WHILE, SOON, VmDraft},
    image,
    judge::DiskState,
    lost::{self, Loss},
    observe::Observed,
    origin,
    quota::{self, Field, Share},
    remake,
};
use crate::{
    disk_claim::{Growth, Overhead, claim_size, growth, is_bound},
    plan::{Change, Refusal, Step},
    refused::Refused,
    reports,
    stage::{Flow, Stage},
    standing::guarded,
};

/// Reason of `DiskReady` where the disk is filled when the VM first starts.
pub(super) const FIRST_START: &str = "WaitingForStart";

/// Reason of `DiskReady` where CDI says what is in its way.
const CLONE_BLOCKED: &str = "CloneBlocked";

/// The disk, once both Secrets are there. Goes by `disk`, `claim`, `image`, `platform`,
/// `instance` and `refused`.
pub(super) struct Disk;

impl Stage<VmDraft<'_>> for Disk {
    fn plan(&self, draft: &mut VmDraft<'_>) -> Flow {
        // What is left of a VM that has lost its disk is kept as it should be.
        draft.is_prepared = draft.has_secrets && (draft.loss.is_some() || made(draft));
        Flow::Next
    }

    fn condition(&self, draft: &VmDraft<'_>) -> Option<NewCondition> {
        Some(condition(draft.vm, draft.seen, &draft.share))
    }

    fn report(&self, draft: &VmDraft<'_>, told: &mut KiteVirtualMachineStatus) {
        told.disk = status(draft.vm, draft.seen, &draft.share);
    }

    fn look_again(&self, draft: &VmDraft<'_>) -> Option<Duration> {
        match &draft.seen.claim {
            Some(claim) if !is_bound(claim) => Some(SOON),
            _ => draft.loss.map(|_| A_WHILE),
        }
    }
}

/// Whether the disk is there or will be by the steps so far.
fn made(draft: &mut VmDraft<'_>) -> bool {
    let seen = draft.seen;
    let fitted = draft.fitted();
    let vm = &draft.as_fitted(&fitted);
    let mut desired = origin::disk(vm, seen);
    if let Some(step) = remake::step(vm, seen, &desired) {
        draft.steps.push(step);
        return false;
    }
    let name = seen.disk_name(vm);
    let mut notes = DiskNotes::default();
    if let Some(stored) = &seen.disk {
        // Immutable once made.
        desired.spec = stored.spec.clone();
        notes = DiskNotes::of(&stored.metadata);
    } else {
        // In the place of one that is lost, whatever its number: what had its mark is on the
        // machine, and former ones are kept from now on.
        let mark = seen.machine.as_ref().and_then(|it| mark_of(&it.metadata));
        notes.mark = mark.map(|it| DiskMark {
            turn: it.turn + 1,
            since: seen.now,
            ..it
        });
    }
    desired.metadata.name = Some(name);
    notes.put_on(&mut desired.metadata);
    if let Some(os) = image::family(seen) {
        disk::remember_family(&mut desired, os);
    }
    draft.wanted(&desired, seen.disk.as_ref())
}

/// Uid of the claim on which a guest runs: until one has, a copy may be called done that is
/// still on its way.
fn claim_in_use(seen: &Observed) -> Option<String> {
    let claim = quota::own_claim(seen)?;
    let instance = seen.instance.as_ref()?;
    runs_on(instance, claim).then(|| claim.metadata.uid.clone())?
}

/// Whether an instance runs on this claim, and not on a former one of its name. It may have
/// waited for the claim to be made.
pub(crate) fn runs_on(instance: &VirtualMachineInstance, claim: &PersistentVolumeClaim) -> bool {
    if began(instance) < claim.metadata.creation_timestamp.as_ref().map(|it| it.0) {
        return false;
    }
    let status = instance.status.as_ref();
    let name = claim.metadata.name.as_deref().unwrap_or_default();
    let mut volumes = instance.spec.volumes.iter();
    status.is_some_and(|it| it.phase.as_deref() == Some("Running"))
        && volumes.any(|it| it.data_volume.as_ref().is_some_and(|it| it.name == name))
}

/// When the launcher of an instance had its disks: when the guest itself began, `KubeVirt` does
/// not tell.
fn began(instance: &VirtualMachineInstance) -> Option<jiff::Timestamp> {
    let times = &instance.status.as_ref()?.phase_transition_timestamps;
    let told = PhaseTransition::time_of(times, "Scheduled").and_then(|it| it.parse().ok());
    let made = instance.metadata.creation_timestamp.as_ref();
    // The clocks of those who tell it may differ.
    told.max(made.map(|it| it.0))
}

/// Has the disk grow, after all else, because storage may not be able to: see
/// [`Change::Grow`]. Goes by `disk`, `claim`, `instance` and `refused`.
pub(super) struct Growing;

impl Stage<VmDraft<'_>> for Growing {
    fn plan(&self, draft: &mut VmDraft<'_>) -> Flow {
        if !draft.is_prepared || draft.loss.is_some() {
            return Flow::Next;
        }
        let (vm, seen) = (draft.vm, draft.seen);
        // Only once it is bound it may grow.
        let claim = quota::own_claim(seen).filter(|claim| is_bound(claim));
        let overhead = quota::overhead(vm, seen).unwrap_or_default();
        let wanted = wanted_disk(vm, &draft.share);
        let size = overhead.claim_for(wanted);
        if is_smaller(vm, seen, wanted) && growth_refused(vm, seen).is_none() {
            let grown = disk::grown_claim(vm.namespace, &seen.disk_name(vm), &size);
            let grown = guarded(&grown, claim);
            let grow = Change::Grow(Box::new(grown));
            draft.steps.push(Step::Change(grow));
        }
        Flow::Next
    }
}

/// Whether the disk's claim, which may grow once it is bound, has no room for `wanted`.
fn is_smaller(vm: &Vm<'_>, seen: &Observed, wanted: &Bytes) -> bool {
    let claim = quota::own_claim(seen).filter(|claim| is_bound(claim));
    let overhead = quota::overhead(vm, seen).unwrap_or_default();
    let has = claim.and_then(claim_size);
    has.is_some_and(|has| !overhead.has_room(&has, wanted))
}

/// Why it does not grow for now.
fn growth_refused<'a>(vm: &Vm<'_>, seen: &'a Observed) -> Option<&'a Refusal> {
    Refused::Growth.among(&seen.refused, &vm.object.metadata)
}

/// Whether somebody has to do something for the disk to go on.
pub(super) fn is_blocked(status: &KiteVirtualMachineStatus) -> bool {
    let told = conditions::find(&status.conditions, DISK_READY);
    told.is_some_and(|told| told.reason == CLONE_BLOCKED)
}

/// What is said of it.
fn condition(vm: &Vm<'_>, seen: &Observed, share: &Share) -> NewCondition {
    let status = seen.own_disk(vm).and_then(|disk| disk.status.as_ref());
    let phase = status.and_then(|s| s.phase.as_deref()).unwrap_or("Pending");
    let progress = status
        .and_then(|s| s.progress.as_deref())
        .filter(|progress| *progress != "N/A")
        .map(|progress| format!(", {progress}"))
        .unwrap_or_default();
    let image = origin::name(vm);
    if let Some(lost) = lost::condition(vm, seen, share.has_disk.as_ref()) {
        return lost;
    }
    let size = wanted_disk(vm, share);
    // Somebody may have made it larger since, or what is wanted is less.
    let refused = growth_refused(vm, seen).filter(|_| is_smaller(vm, seen, size));
    if let Some(Refusal { why, .. }) = refused {
        return NewCondition::new(
            DISK_READY,
            false,
            "GrowthRefused",
            format!(
                "the disk cannot grow to {size}: {why}; it keeps its size, and an administrator \
                 must look at its StorageClass and quota"
            ),
        );
    }
    let refused = share.refusal(&[Field::Disk]);
    if let Some(why) = refused.filter(|_| share.has_disk.is_some()) {
        return NewCondition::new(DISK_READY, false, "QuotaExceeded", why);
    }
    let of_claim = || seen.claim.as_ref().and_then(blockers::of_claim);
    let blocked = seen.own_disk(vm).and_then(reports::of_disk);
    match (lost::disk_state(vm, seen), blocked.or_else(of_claim)) {
        (DiskState::Filling | DiskState::WaitingForStart, Some(words)) => NewCondition::new(
            DISK_READY,
            false,
            CLONE_BLOCKED,
            format!(
                "the disk cannot be made from {image} as it stands, which CDI tries again and \
                 again ({words}): {}",
                remake::remedy(vm, seen)
            ),
        ),
        (DiskState::Missing | DiskState::Lost, _) => {
            NewCondition::new(DISK_READY, false, "NotMade", "the disk is not made yet")
        }
        (DiskState::Filling, None) => NewCondition::new(
            DISK_READY,
            false,
            "Cloning",
            format!("the disk is being cloned from {image} ({phase}{progress})"),
        ),
        (DiskState::WaitingForStart, None) => NewCondition::new(
            DISK_READY,
            false,
            FIRST_START,
            "the disk is filled when the VM is first started",
        ),
        (DiskState::Filled, _) => filled(vm, seen, share),
        (DiskState::Failed, words) => {
            let reason = words
                .or_else(|| status?.conditions.iter().rev().find_map(reports::words_of))
                .unwrap_or_else(|| "CDI gives no reason".to_owned());
            NewCondition::new(
                DISK_READY,
                false,
                "CloneFailed",
                format!("the disk could not be cloned from {image}: {reason}"),
            )
        }
    }
}

/// Of a disk that is filled and may be growing. The guest is given the new size
/// while it runs; its partitions grow at its next boot.
fn filled(vm: &Vm<'_>, seen: &Observed, share: &Share) -> NewCondition {
    let size = wanted_disk(vm, share);
    let overhead = quota::overhead(vm, seen).unwrap_or_default();
    // What was asked for may do, and be less than what would be asked for now.
    let asked = seen.claim.as_ref().and_then(claim_size);
    let asked = asked.filter(|asked| overhead.has_room(asked, size));
    let of_claim = asked.unwrap_or_else(|| overhead.claim_for(size));
    let storage = seen.claim.as_ref().and_then(blockers::of_claim);
    let growth = seen.claim.as_ref().map(|claim| growth(claim, &of_claim));
    match (growth, storage) {
        (None | Some(Growth::Done), Some(words)) => NewCondition::new(
            DISK_READY,
            true,
            "DiskWithFault",
            format!(
                "the disk can be used, and storage says: {words}; an administrator must look at \
                 its PersistentVolumeClaim {}",
                seen.disk_name(vm)
            ),
        ),
        (None | Some(Growth::Done), None) => {
            // Somebody took back what it was just growing by.
            let too_large = share.has_disk.as_ref();
            let too_large = too_large.filter(|has| **has > vm.object.spec.disk);
            let message = match too_large {
                Some(has) => format!(
                    "the disk is ready, with {has}, which is more than spec.disk says: disks \
                     do not become smaller"
                ),
                None => "the disk is ready".to_owned(),
            };
            NewCondition::new(DISK_READY, true, "Filled", message)
        }
        (Some(Growth::Going(what)), storage) => {
            let storage = storage.map(|words| format!("; storage says: {words}"));
            let storage = storage.unwrap_or_default();
            let message = format!("the disk can be used, and grows to {size}: {what}{storage}");
            NewCondition::new(DISK_READY, true, "Growing", message)
        }
        (Some(Growth::Failed(why)), _) => NewCondition::new(
            DISK_READY,
            false,
            "GrowthFailed",
            format!(
                "the disk does not grow to {size}: {why}; it can be used with the size it has, \
                 and an administrator must look at its PersistentVolumeClaim {}",
                seen.disk_name(vm)
            ),
        ),
    }
}

/// The size that the disk is to have now.
fn wanted_disk<'a>(vm: &Vm<'a>, share: &'a Share) -> &'a Bytes {
    share.size.disk.as_ref().unwrap_or(&vm.object.spec.disk)
}

fn status(vm: &Vm<'_>, seen: &Observed, share: &Share) -> Option<DiskStatus> {
    let told = vm.object.status.as_ref().and_then(|it| it.disk.clone());
    let Some(disk) = seen.own_disk(vm) else {
        // What is lost is told of until there is another.
        let mut told = told.filter(|_| lost::loss(vm, seen).is_some())?;
        if lost::is_unmanaged(vm, seen) {
            let (claim, instance) = (seen.claim.as_ref(), seen.instance.as_ref());
            let runs = claim.zip(instance).filter(|(it, on)| runs_on(on, it));
            let uid = runs.and_then(|(it, _)| it.metadata.uid.clone());
            told.has_run_on = uid.or(told.has_run_on);
        }
        return Some(told);
    };
    let status = disk.status.as_ref();
    let overhead = quota::overhead(vm, seen).map(Overhead::text);
    let of_this = told.filter(|told| told.uid.is_none() || told.uid == disk.metadata.uid);
    let is_remade = lost::loss(vm, seen) == Some(Loss::Remade);
    let in_use = claim_in_use(seen).filter(|_| !is_remade);
    Some(DiskStatus {
        name: seen.disk_name(vm),
        uid: lost::uid(vm, seen).map(str::to_owned),
        has_run_on: in_use.or_else(|| of_this.as_ref()?.has_run_on.clone()),
        filesystem_overhead: overhead.or_else(|| of_this?.filesystem_overhead),
        size: share.has_disk.clone(),
        phase: status.and_then(|status| status.phase.clone()),
        progress: status.and_then(|status| status.progress.clone()),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;

    use super::*;

    #[test]
    fn a_guest_runs_on_a_claim_that_was_there_when_its_launcher_began() {
        let at = |minute: u8| format!("2026-05-04T08:{minute:02}:00Z");
        for (made, begun, claimed, runs) in [
            (0, Some(1), 0, true),
            // It has waited for the claim.
            (0, Some(6), 5, true),
            // The claim is another than it has, which somebody took off by force.
            (0, Some(1), 5, false),
            // Not told: it is younger than the claim, or may be of the one before.
            (5, None, 5, true),
            (0, None, 5, false),
            // The clock of whoever tells it is late.
            (5, Some(4), 5, true),
        ] {
            let begun: Vec<_> = begun
                .map(|it| json!({"phase": "Scheduled", "phaseTransitionTimestamp": at(it)}))
                .into_iter()
                .collect();
            let instance = serde_json::from_value(json!({
                "metadata": {"name": "web", "creationTimestamp": at(made)},
                "spec": {
                    "domain": {"devices": {}},
                    "volumes": [{"name": "root", "dataVolume": {"name": "web-disk"}}],
                },
                "status": {"phase": "Running", "phaseTransitionTimestamps": begun},
            }));
            let claim = serde_json::from_value(json!({
                "metadata": {"name": "web-disk", "creationTimestamp": at(claimed)},
            }));
            let (instance, claim) = (instance.unwrap(), claim.unwrap());
            assert_eq!(
                runs_on(&instance, &claim),
                runs,
                "{made} {begun:?} {claimed}"
            );
        }
    }
}
