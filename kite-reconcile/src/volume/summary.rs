//! What all comes to, in a phase and a sentence.

use kite_core::{conditions::NewCondition, crd::VolumePhase, names};

use super::{
    data::Data,
    plan::{Draft, READY},
};
use crate::{
    disk_claim::{Growth, claim_size, growth},
    refused::Refused,
    reports,
    vm::DiskState,
};

impl Draft<'_> {
    /// The summary, with the phase in the status.
    pub(super) fn sum_up(&mut self) -> NewCondition {
        let (phase, holds, reason, message) = self.judge();
        self.status.phase = Some(phase);
        NewCondition::new(READY, holds, reason, message)
    }

    fn judge(&self) -> (VolumePhase, bool, &'static str, String) {
        let no = |phase, reason, message: String| (phase, false, reason, message);
        let name = names::volume_disk(self.volume.name);
        match self.data {
            Data::Foreign(kind) => no(
                VolumePhase::Failed,
                "NameTaken",
                format!(
                    "{kind} {name} is there and belongs to something else: it must go, or the \
                     volume needs another name"
                ),
            ),
            Data::Leaving(kind) => no(
                VolumePhase::Lost,
                "Lost",
                format!(
                    "somebody has deleted {kind} {name}, and its data goes with it: back up what \
                     a VM that has it can still read, and delete the volume"
                ),
            ),
            Data::Lost => no(
                VolumePhase::Lost,
                "Lost",
                format!(
                    "its data is gone: somebody has deleted PersistentVolumeClaim {name}; no \
                     empty one takes its place. Delete the volume, and create another"
                ),
            ),
            Data::None | Data::Begun(_) => self.before(),
            Data::There(..) if !self.data.is_usable() => self.before(),
            Data::There(..) => self.there(),
        }
    }

    /// Of one that no VM can be given yet.
    fn before(&self) -> (VolumePhase, bool, &'static str, String) {
        let disk = self.data.disk();
        if let (None, Some((reason, message))) = (disk, &self.share.refused) {
            return (VolumePhase::Pending, false, reason, message.clone());
        }
        if self.share.waits {
            let message = "waiting until all volumes of the user are seen to have room beside \
                           each other";
            return (
                VolumePhase::Pending,
                false,
                "WaitingForQuota",
                message.to_owned(),
            );
        }
        let words = disk.and_then(reports::of_disk);
        if DiskState::of(disk) == DiskState::Failed {
            let why = words.unwrap_or_else(|| "CDI gives no reason".to_owned());
            let message = format!("the disk could not be made ({why}): delete the volume");
            return (VolumePhase::Failed, false, "ProvisioningFailed", message);
        }
        match words {
            Some(words) => (
                VolumePhase::Provisioning,
                false,
                "ProvisioningBlocked",
                format!("the disk is not made, which CDI tries again and again ({words})"),
            ),
            None => (
                VolumePhase::Provisioning,
                false,
                "Provisioning",
                "the disk is being made".to_owned(),
            ),
        }
    }

    /// Of one that a VM can be given, whatever its size.
    fn there(&self) -> (VolumePhase, bool, &'static str, String) {
        let phase = match self.status.attached_to {
            Some(_) => VolumePhase::Attached,
            None => VolumePhase::Available,
        };
        if let Some((reason, message)) = &self.share.refused {
            return (phase, false, reason, message.clone());
        }
        let wanted = &self.object().spec.size;
        let refused = Refused::Growth.among(&self.seen.refused, &self.object().metadata);
        if let Some(refused) = refused.filter(|_| !self.data.has(&self.volume, wanted)) {
            let message = format!(
                "the volume cannot grow to {wanted}: {}; it keeps its size, and an administrator \
                 must look at its StorageClass and quota",
                refused.why
            );
            return (phase, false, "GrowthRefused", message);
        }
        let asked = self.data.claim().and_then(|it| Some((it, claim_size(it)?)));
        match asked.map(|(claim, asked)| growth(claim, &asked)) {
            Some(Growth::Failed(why)) => {
                let message = format!(
                    "the volume does not grow to {wanted}: {why}; it can be used with the size it \
                     has, and an administrator must look at PersistentVolumeClaim {}",
                    names::volume_disk(self.volume.name)
                );
                (phase, false, "GrowthFailed", message)
            }
            Some(Growth::Going(what)) => {
                let message = format!("the volume can be used, and grows to {wanted}: {what}");
                (phase, true, "Growing", message)
            }
            Some(Growth::Done) | None => match &self.status.attached_to {
                Some(to) => (phase, true, "Attached", format!("VM {} has it", to.vm)),
                None if DiskState::of(self.data.disk()) == DiskState::WaitingForStart => (
                    phase,
                    true,
                    "WaitingForStart",
                    "the disk is made when a VM first starts with it".to_owned(),
                ),
                None => (phase, true, "Available", "a VM can be given it".to_owned()),
            },
        }
    }
}
