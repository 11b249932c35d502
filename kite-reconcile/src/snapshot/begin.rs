//! How a snapshot is taken: what is to be done next, in steps.

use k8s_openapi::{api::core::v1::PersistentVolumeClaim, apimachinery::pkg::apis::meta::v1::Time};
use kite_core::{
    crd::{FreezeStatus, KiteVirtualMachine, Quiesce, SnapshotFailure, SnapshotSource},
    names,
    quantity::Bytes,
};
use kite_disks::taking::{Before, Consistency, Failed, Guest, Next, take};
use kite_render::{restore, snapshot as render};
use kube::ResourceExt as _;

use super::{
    plan::{AT_ONCE, Draft, SOON},
    room::{Room, room},
    storage::Chosen,
    taking::{family, guest, is_lease_ours, limit, taking},
    told::{Told, tell},
};
use crate::{
    disk_claim::claim_size,
    plan::{Change, Step},
    refused::Refused,
    standing::guarded,
};

impl<'a> Draft<'a> {
    /// Goes on with one of which this is told.
    pub(super) fn take(&mut self, told: Option<Told>) {
        let taken = self.own();
        let mut chosen = None;
        if told.is_none() && taken.is_none() && !self.goes() {
            chosen = self.prepare();
            if chosen.is_none() {
                return;
            }
        }
        let (object, seen) = (self.object(), self.seen);
        let before = taken.and_then(render::before);
        let known = taking(object, seen, chosen.as_ref(), taken, before.as_ref(), told);
        if let Some(before) = &before
            && told.is_none()
            && before.frozen.is_none()
            && !before.is_off
        {
            self.note_why_not_frozen();
        }
        match (take(&known), told) {
            (Next::Wait, Some(told)) => self.rest(told),
            (Next::Wait, None) => self.wait_for_it(taken.is_some()),
            (Next::Note(freeze), _) => self.note(freeze.instance, &Time(freeze.since)),
            (Next::Freeze(instance), _) => self.freeze(instance),
            (Next::Cut(before), _) => self.ask_storage(before, chosen.as_ref()),
            (Next::Tell(found), _) => self.tell(found),
            (Next::Thaw(instance), told) => {
                self.let_go_on(instance);
                if told.is_some() && !self.seen.thawed {
                    // A guest that hangs may take long.
                    self.note_consistency();
                }
            }
            // Others wait for the Lease.
            (Next::Discard, _) => {
                let _ = self.gives_lease_back() || self.discards();
            }
        }
    }

    fn tell(&mut self, found: Result<Consistency, Failed>) {
        let before = self.own().and_then(render::before);
        let was_noted = before.is_some_and(|it| it.frozen.is_some());
        let mut found = found;
        if found == Err(Failed::NotAtRest) && was_noted && self.status.freeze.is_none() {
            // The note goes only once something is told: the status is lost, and what was told
            // may have been that it is good.
            found = Ok(Consistency::CrashConsistent);
            let lost = "what was known of it is lost".to_owned();
            self.status.consistency_note = Some(lost);
        }
        let why_not_frozen = self.refusal().map(ToOwned::to_owned);
        let taken = self.own();
        tell(&mut self.status, found, taken, why_not_frozen.as_deref());
        self.steps.push(Step::WriteStatus);
    }

    /// Why the guest was not frozen when it was last asked, if that was a moment ago.
    fn refusal(&self) -> Option<&'a str> {
        let refused = Refused::Freeze.among(&self.seen.refused, &self.object().metadata);
        refused.map(|it| it.why.as_str())
    }

    /// Has the status say why the guest was not at rest, as far as that is known now.
    fn note_why_not_frozen(&mut self) {
        if self.status.consistency_note.is_some() {
            return;
        }
        let why = match (self.object().spec.quiesce, self.refusal(), guest(self.seen)) {
            (Quiesce::No, ..) => "spec.quiesce is No".to_owned(),
            (_, Some(why), _) => format!("the guest was not frozen: {why}"),
            (
                _,
                None,
                Guest::Runs {
                    can_freeze: false, ..
                },
            ) => "the guest's agent was not connected, or the guest was paused".to_owned(),
            _ => "the guest was starting, stopping or moving, or could not be frozen".to_owned(),
        };
        self.status.consistency_note = Some(why);
    }

    fn wait_for_it(&mut self, is_asked: bool) {
        if is_asked {
            self.wait(
                SOON,
                "Cutting",
                "storage has been asked, and has not cut yet",
            );
        } else if let Some(lease) = &self.seen.lease
            && !is_lease_ours(self.object(), self.seen)
        {
            if self.seen.lease_is_forgotten {
                self.delete(lease.clone().into());
                return;
            }
            let message = "waiting until another snapshot has let the VM's guest go on";
            self.wait(SOON, "Waiting", message);
        } else {
            let message = "waiting for the VM's guest, which starts, stops, moves, or is frozen \
                           by somebody else";
            self.wait(SOON, "Waiting", message);
        }
    }

    /// Notes the freeze: the Lease first, of which there is one, and then the status.
    fn note(&mut self, instance: &str, since: &Time) {
        if is_lease_ours(self.object(), self.seen) {
            self.status.freeze = Some(FreezeStatus {
                instance_uid: instance.to_owned(),
                // No finer than other times of the API.
                since: Time(jiff::Timestamp::from_second(since.0.as_second()).unwrap_or(since.0)),
            });
            self.steps.push(Step::WriteStatus);
            return;
        }
        let lease = render::freeze_lease(&self.snapshot, &self.object().spec.vm, since);
        let apply = Change::Apply(guarded(&lease, None).into());
        self.steps.push(Step::Change(apply));
    }

    fn freeze(&mut self, instance: &str) {
        if self.seen.froze {
            let message = "the guest's file systems are being brought to rest";
            self.wait(AT_ONCE, "Freezing", message);
            return;
        }
        if let Some(why) = self.refusal() {
            let message = format!("the guest is not frozen, which is tried again: {why}");
            self.wait(SOON, "Freezing", message);
            return;
        }
        let freeze = Change::Freeze {
            instance: self.machine(),
            uid: instance.to_owned(),
            limit: limit(family(self.seen)),
        };
        self.steps.push(Step::Change(freeze));
    }

    fn ask_storage(&mut self, before: Before<'_>, chosen: Option<&Chosen<'_>>) {
        // One that goes is not begun.
        let Some(chosen) = chosen else {
            return;
        };
        let refused = Refused::Taking.among(&self.seen.refused, &self.object().metadata);
        if let Some(refused) = refused {
            self.fail(SnapshotFailure {
                reason: "Refused".to_owned(),
                message: format!(
                    "the request to storage was refused ({}): an administrator must look at the \
                     quotas and policies of the namespace; create another snapshot",
                    refused.why
                ),
            });
            return;
        }
        let before = render::Before {
            machine: before.machine.to_owned(),
            frozen: before.frozen.map(ToOwned::to_owned),
            is_off: before.is_off,
            source: self.status.source.clone(),
            size: self.status.size.clone(),
        };
        let claim = self.status.source.as_ref().map(|it| it.claim.clone());
        let claim = claim.unwrap_or_else(|| names::disk(&self.object().spec.vm));
        let desired = render::volume_snapshot(&self.snapshot, &claim, chosen.class, &before);
        let noted = self.status.freeze.clone();
        if let Some(freeze) = noted.filter(|_| before.frozen.is_none() && !self.seen.thawed) {
            // Its time is over, and the request may take long to be heard.
            self.let_go_on(&freeze.instance_uid);
        }
        let ask = Change::Take(guarded(&desired, None).into());
        self.steps.push(Step::Change(ask));
    }

    /// What has to be before anything is begun: a VM, its disk, a class and room. None where
    /// something is in the way, or is to be told first.
    fn prepare(&mut self) -> Option<Chosen<'a>> {
        if self.seen.taken.is_some() {
            let name = self.snapshot.name;
            self.fail(SnapshotFailure {
                reason: "NameTaken".to_owned(),
                message: format!(
                    "VolumeSnapshot {name} is there and belongs to something else: create a \
                     snapshot of another name"
                ),
            });
            return None;
        }
        let vm = self.machine_to_snapshot()?;
        let no_disk = |why: &str| SnapshotFailure {
            reason: "NoDisk".to_owned(),
            message: format!("{why}: create another snapshot once the VM has run"),
        };
        let seen = self.seen;
        let (Some(claim), Some(storage)) = (&seen.claim, &seen.storage) else {
            self.fail(no_disk("the VM has no disk yet"));
            return None;
        };
        if claim.metadata.deletion_timestamp.is_some() {
            self.fail(no_disk("the VM's disk is being deleted"));
            return None;
        }
        let pointed = seen.machine.as_ref().and_then(restore::disk_of);
        if pointed.is_some_and(|it| it != claim.name_any()) {
            let message = "waiting until the VM has the disk that is restored";
            self.wait(SOON, "Waiting", message);
            return None;
        }
        let chosen = match storage.choose() {
            Ok(chosen) => chosen,
            Err(why) => {
                self.fail(SnapshotFailure {
                    reason: "SnapshotsUnavailable".to_owned(),
                    message: format!("no snapshot of the disk can be taken: {why}"),
                });
                return None;
            }
        };
        let Some(size) = size_of(vm, claim) else {
            self.fail(no_disk("how large the VM's disk is cannot be read"));
            return None;
        };
        let claim_uid = claim.metadata.uid.clone().unwrap_or_default();
        match room(self.object(), seen, &size) {
            Room::Granted => self.status.granted = true,
            Room::Ask => {
                self.status.size = Some(size);
                self.status.source = Some(SnapshotSource {
                    vm_uid: vm.metadata.uid.clone().unwrap_or_default(),
                    claim: claim.name_any(),
                    claim_uid,
                    storage_class: claim
                        .spec
                        .as_ref()
                        .and_then(|it| it.storage_class_name.clone()),
                    outlives_disk: chosen.outlives_disk,
                    image: vm.spec.image.clone(),
                    cpu: vm.spec.cpu,
                    memory: vm.spec.memory.clone(),
                    os_family: family(seen),
                });
                self.steps.push(Step::WriteStatus);
                return None;
            }
            Room::Wait => {
                let message = "waiting until all snapshots of the user are seen to have room \
                               beside each other";
                self.wait(AT_ONCE, "WaitingForQuota", message);
                return None;
            }
            Room::None(failure) => {
                self.fail(failure);
                return None;
            }
        }
        let is_same = |it: &SnapshotSource| it.claim_uid == claim_uid;
        if !self.status.source.as_ref().is_some_and(is_same) {
            self.fail(no_disk(
                "the VM's disk is another one than when this was begun",
            ));
            return None;
        }
        Some(chosen)
    }

    /// The VM that is meant, if a snapshot can be taken of it.
    fn machine_to_snapshot(&mut self) -> Option<&'a KiteVirtualMachine> {
        let spec = &self.object().spec;
        let seen = self.seen;
        let gone = |why: String| SnapshotFailure {
            reason: "NoVm".to_owned(),
            message: format!("{why}: create another snapshot, of a VM that is there"),
        };
        let Some(vm) = &seen.vm else {
            self.fail(gone(format!("there is no KiteVirtualMachine {}", spec.vm)));
            return None;
        };
        let meant = self.status.source.as_ref().map(|it| &it.vm_uid);
        let meant = [meant, spec.vm_uid.as_ref()];
        if meant
            .into_iter()
            .flatten()
            .any(|it| vm.metadata.uid.as_ref() != Some(it))
        {
            let message = format!(
                "KiteVirtualMachine {} is another one than is meant",
                spec.vm
            );
            self.fail(gone(message));
            return None;
        }
        if vm.metadata.deletion_timestamp.is_some() {
            self.fail(gone(format!(
                "KiteVirtualMachine {} is being deleted",
                spec.vm
            )));
            return None;
        }
        Some(vm)
    }
}

/// The size of the disk, with which the snapshot's owner is charged: as the VM has it, else as
/// the claim asks for.
fn size_of(vm: &KiteVirtualMachine, claim: &PersistentVolumeClaim) -> Option<Bytes> {
    let told = vm
        .status
        .as_ref()
        .and_then(|it| it.disk.as_ref()?.size.clone());
    told.or_else(|| claim_size(claim))
}
