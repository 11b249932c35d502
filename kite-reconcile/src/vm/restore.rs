//! `spec.restore`: the VM's disk made anew from a snapshot, or the one before put back.
//!
//! ```text
//! asked for ► the disk is copied, the VM runs on ► the VM stops ► the copy is the VM's by its
//! mark ► the machine points there ► it runs, which proves the copy ► the former disk is kept
//! for a while, and goes unless snapshots need it
//! ```
//!
//! What is done next [`kite_disks`] decides; here is what it takes to carry that out, and what
//! is told of it.

use std::time::Duration;

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kite_core::{
    cdi::DataVolume,
    cluster::{Cluster, ClusterError, ClusterExt as _, ObjectKey},
    conditions::NewCondition,
    crd::{
        KiteSnapshot, KiteVirtualMachineStatus, OsFamily, RestoreRequest, SnapshotPhase,
        SnapshotSource, vm_condition::RESTORED,
    },
    quantity::Bytes,
    volume_snapshot::VolumeSnapshot,
};
use kite_disks::{Refusal, Standing};
use kite_render::{
    Vm, disk,
    restore::{self as render, DiskMark, DiskNotes},
};
use kube::ResourceExt as _;

use super::{
    decided::Deed,
    disks::{AHEAD, Known, View},
    draft::{SOON, Seen, VmDraft},
    image, lost,
    observe::Observed,
    quota,
};
use crate::{
    objects::AnyObject,
    plan::{Change, Step},
    refused::Refused,
    reports,
    stage::{Flow, Stage},
    standing::guarded,
};

/// What a disk is to be restored from.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Source {
    /// Why it cannot be used.
    pub why_not: Option<String>,
    /// Uid of the snapshot.
    pub uid: Option<String>,
    /// Whether it is being deleted, and is nothing else in the way.
    pub leaves: bool,
    /// Size of the disk that the snapshot is of.
    pub size: Option<Bytes>,
    /// The least size of a claim that it can be copied to.
    pub least_claim: Option<Bytes>,
    /// The `StorageClass` of what it was taken of, as far as that is known.
    pub class: Option<String>,
    /// What it was taken of, beside the VM's name.
    pub of: Option<(String, SnapshotSource)>,
}

impl Source {
    /// Whether it can be used.
    pub(super) fn is_usable(&self) -> bool {
        self.why_not.is_none()
    }

    /// The same, if it is of this VM.
    pub(super) fn if_of(mut self, vm: &Vm<'_>, snapshot: &str) -> Self {
        if let Some((name, of)) = &self.of
            && of.vm_uid != vm.uid
        {
            self.why_not = Some(format!(
                "KiteSnapshot {snapshot} is of another VM, {name}, and a disk is restored from \
                 its own VM's snapshots"
            ));
        }
        self
    }

    /// Looks at the snapshot of this name in the VM's namespace.
    pub(super) async fn read<C: Cluster>(
        vm: &Vm<'_>,
        name: &str,
        cluster: &C,
    ) -> Result<Self, ClusterError> {
        let key = |name: &str| ObjectKey::namespaced(vm.namespace, name);
        let snapshot: Option<KiteSnapshot> = cluster.get_opt(&key(name)).await?;
        let Some(snapshot) = snapshot else {
            let why = format!(
                "there is no KiteSnapshot {name} in namespace {}",
                vm.namespace
            );
            return Ok(Self {
                why_not: Some(why),
                ..Self::default()
            });
        };
        let taken: Option<VolumeSnapshot> = cluster.get_opt(&key(name)).await?;
        let status = snapshot.status.clone().unwrap_or_default();
        let source = status.source.as_ref();
        let claim = match source {
            Some(source) => {
                let claim: Option<PersistentVolumeClaim> =
                    cluster.get_opt(&key(&source.claim)).await?;
                claim.filter(|it| it.uid().as_ref() == Some(&source.claim_uid))
            }
            None => None,
        };
        let cut = taken.as_ref().and_then(|it| it.status.as_ref());
        let least = cut.and_then(|it| it.restore_size.as_ref());
        let found = (taken.as_ref(), claim.as_ref());
        let (why_not, leaves) = match why_not(&snapshot, found) {
            None if snapshot.metadata.deletion_timestamp.is_some() => {
                (Some(format!("KiteSnapshot {name} is being deleted")), true)
            }
            why_not => (why_not, false),
        };
        Ok(Self {
            uid: snapshot.uid(),
            leaves,
            why_not,
            size: status.size.clone(),
            least_claim: least.and_then(|it| it.0.parse().ok()),
            class: source
                .and_then(|it| it.storage_class.clone())
                .or_else(|| claim?.spec?.storage_class_name),
            of: source.map(|it| (snapshot.spec.vm.clone(), it.clone())),
        })
    }
}

fn why_not(
    snapshot: &KiteSnapshot,
    (taken, claim): (Option<&VolumeSnapshot>, Option<&PersistentVolumeClaim>),
) -> Option<String> {
    let name = snapshot.name_any();
    let status = snapshot.status.as_ref();
    let source = status.and_then(|it| it.source.as_ref());
    if let Some(why) = snapshot.unreadable() {
        return Some(format!("KiteSnapshot {name} cannot be read: {why}"));
    }
    let needs_disk = source.is_some_and(|it| !it.outlives_disk);
    if needs_disk && claim.is_none_or(|it| it.metadata.deletion_timestamp.is_some()) {
        return Some(format!(
            "the disk that KiteSnapshot {name} was taken of is gone, and its data with it"
        ));
    }
    let phase = status.and_then(|it| it.phase);
    // One that goes has its data for as long as somebody is made from it.
    let is_told = status.is_some_and(|it| it.consistency.is_some() && it.failure.is_none());
    let is_ready =
        phase == Some(SnapshotPhase::Ready) || phase == Some(SnapshotPhase::Deleting) && is_told;
    let can_be_used = taken.is_some_and(|it| {
        let uid = status.and_then(|it| it.volume_snapshot_uid.as_ref());
        let status = it.status.as_ref();
        it.metadata.deletion_timestamp.is_none()
            && (uid.is_none() || uid == it.metadata.uid.as_ref())
            && status.and_then(|it| it.ready_to_use) == Some(true)
    });
    (!is_ready || !can_be_used || source.is_none()).then(|| {
        let phase = status.and_then(|it| it.phase);
        let phase = phase.map_or_else(|| "not looked at yet".to_owned(), |it| format!("{it:?}"));
        format!("KiteSnapshot {name} is not ready (its phase is {phase})")
    })
}

/// Carries out what is decided about the disks. Goes by `disks`, `disk`, `claim`, `machine`,
/// `instance`, `image`, `platform` and `now`.
pub(super) struct Restoring;

impl Stage<VmDraft<'_>> for Restoring {
    fn plan(&self, draft: &mut VmDraft<'_>) -> Flow {
        let mut deeds = draft.decided.deeds.clone();
        let decides = |it: &Deed| matches!(it, Deed::Stop | Deed::Mark { .. });
        if let Some(unmarked) = draft.view.unmarked()
            && deeds.iter().any(decides)
        {
            // Once another disk has a mark, a machine without one says nothing any more.
            deeds.retain(|it| !matches!(it, Deed::Mark { .. }));
            draft.point = Some((unmarked.to_owned(), Some(first(draft.seen.now))));
        }
        for deed in deeds {
            let step = step(draft, deed);
            draft.steps.extend(step);
        }
        Flow::Next
    }

    fn condition(&self, draft: &VmDraft<'_>) -> Option<NewCondition> {
        let restore = draft.vm.object.spec.restore.as_ref()?;
        Some(condition(draft, restore))
    }

    fn report(&self, draft: &VmDraft<'_>, status: &mut KiteVirtualMachineStatus) {
        status.former_disks = draft.view.formers();
    }

    fn look_again(&self, draft: &VmDraft<'_>) -> Option<Duration> {
        // Of what a snapshot is waited for no watch need tell.
        let waits = draft.decided.standing == Standing::Refused(Refusal::Snapshot);
        waits.then_some(SOON)
    }

    fn deadline(&self, (vm, seen): &Seen<'_>) -> Option<jiff::Timestamp> {
        let at = vm.object.spec.restore.as_ref().map(|it| it.at.0);
        if at.is_none() && seen.disks.others.is_empty() {
            return None;
        }
        let at = at.filter(|at| *at > seen.now);
        let over = View::of(vm, Known::of(seen)).decide().look_again;
        let over = over.and_then(|left| seen.now.checked_add(left).ok());
        at.into_iter().chain(over).min()
    }
}

/// Has all disks of the VM say that they have their data, once they have. After the machine, which
/// can be switched off whatever else is in the way. Goes by `disks`, `disk` and `image`.
pub(super) struct Kept;

impl Stage<VmDraft<'_>> for Kept {
    fn plan(&self, draft: &mut VmDraft<'_>) -> Flow {
        let current = draft.seen.disk_name(draft.vm);
        let own: Vec<_> = draft.view.own().collect();
        for (name, disk) in own {
            let family = image::family(draft.seen).filter(|_| name == current);
            let step = keep(draft.vm, disk, family).filter(|_| !has_step(draft, name));
            draft.steps.extend(step);
        }
        Flow::Next
    }
}

/// Why no disk can be made for now.
fn refusal<'a>(draft: &VmDraft<'a>) -> Option<&'a str> {
    let meta = &draft.vm.object.metadata;
    let refusal = Refused::Copying.among(&draft.seen.refused, meta)?;
    Some(&refusal.why)
}

/// The mark of the first disk.
fn first(now: jiff::Timestamp) -> DiskMark {
    DiskMark {
        turn: 0,
        request: None,
        since: now,
    }
}

/// What carries a deed out.
fn step(draft: &mut VmDraft<'_>, deed: Deed) -> Option<Step> {
    let (vm, seen) = (draft.vm, draft.seen);
    let of = |name: &str| seen.all_disks().find(|it| it.name_any() == name);
    let change = match deed {
        // By keeping it off.
        Deed::Stop => return None,
        // It is tried again after a while.
        Deed::Make { .. } if refusal(draft).is_some() => return None,
        Deed::Make { number, at } => Change::Take(guarded(&made(draft, number, at)?, None).into()),
        Deed::Mark { disk, mark } => {
            let marked = noted(vm, of(&disk)?, |notes| notes.mark = Some(mark));
            Change::Apply(marked.into())
        }
        Deed::Point { disk, mark } => {
            // Before the first restore nothing has a mark.
            draft.point = Some((disk, Some(mark).filter(|it| it.turn > 0)));
            return None;
        }
        Deed::Prove { disk } => {
            let disk = of(&disk)?;
            // Of the first one its VM's status tells that.
            render::copy_of(disk)?;
            let claim = seen.claim_of(&disk.name_any())?;
            if lost::remade(vm, disk, Some(claim)).is_some() {
                return None;
            }
            let uid = claim.metadata.uid.clone();
            Change::Apply(noted(vm, disk, |notes| notes.has_run_on = uid).into())
        }
        Deed::Delete { disk } => Change::DeleteUnchanged(of(&disk)?.clone().into()),
    };
    Some(Step::Change(change))
}

/// Whether something is planned for the disk of this name.
fn has_step(draft: &VmDraft<'_>, disk: &str) -> bool {
    draft.steps.iter().any(|it| {
        matches!(
            it,
            Step::Change(
                Change::Apply(AnyObject::DataVolume(of))
                    | Change::DeleteUnchanged(AnyObject::DataVolume(of))
            ) if of.name_any() == disk
        )
    })
}

/// What has a disk say that it has its data, where it is to and does not; and the family of its
/// guest, where that is known.
pub(super) fn keep(vm: &Vm<'_>, stored: &DataVolume, os: Option<OsFamily>) -> Option<Step> {
    let is_said = DiskNotes::of(&stored.metadata).has_its_data;
    if is_said || !lost::is_to_say_so(vm, stored) {
        return None;
    }
    let mut kept = noted(vm, stored, |_| ());
    if let Some(os) = os {
        disk::remember_family(&mut kept, os);
    }
    Some(Step::Change(Change::Apply(kept.into())))
}

/// The disk of this number for the restore of this time.
fn made(draft: &VmDraft<'_>, number: u32, at: jiff::Timestamp) -> Option<DataVolume> {
    let (vm, seen) = (draft.vm, draft.seen);
    let snapshot = vm.object.spec.restore.as_ref()?.snapshot.as_deref()?;
    let source = seen.disks.source.as_ref()?;
    let overhead = quota::overhead(vm, seen).unwrap_or_default();
    let least = source.least_claim.as_ref().map(|it| overhead.disk_for(it));
    // Of those that are the same the last, in the spelling of the VM.
    let sizes = [least, source.size.clone(), draft.share.has_disk.clone()];
    let size = sizes.into_iter().flatten().max()?;
    let class = source.class.clone().or_else(|| {
        let claim = seen.claim.as_ref()?;
        claim.spec.as_ref()?.storage_class_name.clone()
    });
    let class = class.unwrap_or_else(|| seen.platform.storage_class().to_owned());
    let mut disk = render::restored(vm, number, snapshot, at, &size, Some(class));
    if let Some(os) = image::family(seen) {
        disk::remember_family(&mut disk, os);
    }
    Some(disk)
}

/// The disk with other notes, to be applied over what was seen and nothing else.
fn noted(vm: &Vm<'_>, stored: &DataVolume, change: impl FnOnce(&mut DiskNotes)) -> DataVolume {
    let mut notes = DiskNotes::of(&stored.metadata);
    change(&mut notes);
    notes.has_its_data |= lost::is_to_say_so(vm, stored);
    let mut desired = DataVolume {
        metadata: disk::metadata(vm),
        spec: stored.spec.clone(),
        status: None,
    };
    desired.metadata.name.clone_from(&stored.metadata.name);
    notes.put_on(&mut desired.metadata);
    if let Some(os) = disk::family_of(stored) {
        disk::remember_family(&mut desired, os);
    }
    let mut desired = guarded(&desired, Some(stored));
    let version = &stored.metadata.resource_version;
    desired.metadata.resource_version.clone_from(version);
    desired
}

fn condition(draft: &VmDraft<'_>, restore: &RestoreRequest) -> NewCondition {
    let (vm, seen) = (draft.vm, draft.seen);
    let at = restore.at.0;
    let not = |reason: &str, message: String| NewCondition::new(RESTORED, false, reason, message);
    let what = match (&restore.snapshot, &restore.disk) {
        (Some(snapshot), _) => format!("snapshot {snapshot}"),
        (None, disk) => format!("disk {}", disk.as_deref().unwrap_or_default()),
    };
    if seen.now.saturating_add(AHEAD).is_ok_and(|now| at > now) {
        return not(
            "Scheduled",
            format!("the restore from {what} is carried out at {at}"),
        );
    }
    if let Some(last) = draft.view.last_request().filter(|last| *last > at) {
        return not(
            "NotLater",
            format!(
                "nothing is restored from {what}: a restore that was asked for at {last} was \
                 carried out, which is later than spec.restore.at; set it to the present time"
            ),
        );
    }
    if !draft.view.is_asked() {
        let disk = seen.disk_name(vm);
        let message = format!("the VM has disk {disk}, restored from {what} as asked for at {at}");
        return NewCondition::new(RESTORED, true, "Restored", message);
    }
    match draft.decided.standing {
        Standing::Refused(Refusal::Snapshot) => {
            let why = seen.disks.source.as_ref().and_then(|it| it.why_not.clone());
            let why = why.unwrap_or_else(|| "it was not looked at".to_owned());
            not(
                "SnapshotUnusable",
                format!(
                    "spec.restore.snapshot: {why}: nothing was changed; ask for another one with \
                     a later spec.restore.at (kubectl get kitesnapshots -n {} lists them)",
                    vm.namespace
                ),
            )
        }
        Standing::Refused(Refusal::Former) => {
            let former = draft.view.formers();
            let names: Vec<&str> = former.iter().map(|it| it.name.as_str()).collect();
            let names = if names.is_empty() {
                "there is none".to_owned()
            } else {
                format!("there are: {}", names.join(", "))
            };
            not(
                "NoFormerDisk",
                format!(
                    "spec.restore.disk: {what} is no former disk of the VM that is whole \
                     ({names}): nothing was changed; ask for another one with a later \
                     spec.restore.at"
                ),
            )
        }
        Standing::Refused(Refusal::Copy) => not(
            "CopyFailed",
            format!(
                "no disk can be made from {what}{}: nothing was changed; an administrator must \
                 look at the storage, and spec.restore.at must be later for another try",
                words(copy(draft, at))
            ),
        ),
        Standing::Stopping => not(
            "Stopping",
            format!("the copy of {what} is there, and the VM stops to start from it"),
        ),
        Standing::Switching => not(
            "Switching",
            format!("the VM is given the disk that was restored from {what}"),
        ),
        Standing::Copying | Standing::Settled | Standing::Lost => {
            let copy = copy(draft, at);
            if let (None, Some(why)) = (copy, refusal(draft)) {
                let message = format!(
                    "no disk can be made from {what}: the API server refuses it: {why}; it is \
                     tried again each minute, and until then nothing is changed"
                );
                return not("CopyRefused", message);
            }
            let progress = copy.and_then(|it| it.status.as_ref()?.progress.as_deref());
            let progress = progress.filter(|it| *it != "N/A");
            let progress = progress.map(|it| format!(", {it}")).unwrap_or_default();
            not(
                "Copying",
                format!(
                    "a disk is made from {what}{progress}{}; until it is there the VM is as it was",
                    words(copy)
                ),
            )
        }
    }
}

/// The disk that was made for the restore of this time.
fn copy<'a>(draft: &VmDraft<'a>, at: jiff::Timestamp) -> Option<&'a DataVolume> {
    let made_for = |it: &&DataVolume| DiskNotes::of(&it.metadata).made_for == Some(at);
    draft.seen.all_disks().find(made_for)
}

/// What CDI says of it.
fn words(of: Option<&DataVolume>) -> String {
    let words = of.and_then(reports::of_disk);
    words.map(|it| format!(" ({it})")).unwrap_or_default()
}

/// Whether a step decides about a disk, so that what it rests on must be true and not old.
pub(super) fn decides(seen: &Observed, desired: &DataVolume) -> bool {
    let name = desired.name_any();
    let stored = seen.all_disks().find(|it| it.name_any() == name);
    let of = |disk: &DataVolume| DiskNotes {
        // By which nothing is decided.
        has_its_data: false,
        ..DiskNotes::of(&disk.metadata)
    };
    let notes = of(desired);
    match stored {
        Some(stored) => of(stored) != notes,
        // What is copied must not be on its way out.
        None => notes != DiskNotes::default() || render::copy_of(desired).is_some(),
    }
}
