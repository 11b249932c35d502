//! What to do about a volume. Pure.

use std::time::Duration;

use kite_core::{
    cdi::DataVolume,
    conditions::NewCondition,
    crd::{AttachedTo, KiteVolume, KiteVolumeStatus, VolumeDisk, VolumePhase},
    labels::VOLUME_FINALIZER,
    names,
    quantity::Bytes,
};
use kite_render::{Volume, disk, volume as render};
use kube::api::PropagationPolicy;

use super::{
    data::{Data, controller, has_its_data, is_its, is_leaving, is_own},
    observe::Observed,
    share::{Share, share},
};
use crate::{
    Error,
    claims::holder_text,
    disk_claim::is_bound,
    matches::is_applied,
    objects::AnyObject,
    plan::{Change, Plan, Step},
    refused::Refused,
    stage::{Finalizer, RESYNC},
    standing::guarded,
    unreadable::unreadable,
    vm::DiskState,
};

/// The one condition: whether it is as its spec wants it.
pub(super) const READY: &str = "Ready";

/// When to look again at others that ask for room, too.
const AT_ONCE: Duration = Duration::from_secs(2);
/// When to look again at what is on its way; most of it is watched, too.
const SOON: Duration = Duration::from_secs(20);
/// When to look again whether there is room, of which no watch tells.
const A_WHILE: Duration = Duration::from_secs(60);

/// A plan of a volume while it is made.
pub(super) struct Draft<'a> {
    pub(super) volume: Volume<'a>,
    pub(super) seen: &'a Observed,
    pub(super) data: Data<'a>,
    pub(super) share: Share,
    pub(super) status: KiteVolumeStatus,
    steps: Vec<Step>,
    pub(super) again: Duration,
}

/// What to do about the volume `object`, given what was observed.
///
/// # Errors
/// [`Error::Render`] if the object has no name, namespace or uid from which others can be made.
pub fn plan(object: &KiteVolume, seen: &Observed) -> Result<Plan<KiteVolumeStatus>, Error> {
    let volume = Volume::of(object)?;
    let mut status = object.status.clone().unwrap_or_default();
    status.conditions.clear();
    let mut draft = Draft {
        data: Data::of(&volume, seen),
        share: share(&volume, seen),
        volume,
        seen,
        status,
        steps: Vec::new(),
        again: RESYNC,
    };
    draft.tell_holder();
    let goes = is_leaving(object);
    let finalizer = Finalizer(VOLUME_FINALIZER).is_on(&object.metadata);
    let ready = match (goes, finalizer) {
        (true, true) => draft.end_of_life(),
        (true, false) => draft.goes("Deleting", "waiting for the finalizers of others to go"),
        (false, _) if object.unreadable().is_some() => {
            let why = object.unreadable().unwrap_or_default();
            unreadable(READY, "the volume", &why)
        }
        (false, true) => {
            draft.make();
            draft.sum_up()
        }
        (false, false) => {
            draft.steps.push(Step::AddFinalizer(VOLUME_FINALIZER));
            draft.sum_up()
        }
    };
    Ok(Plan {
        steps: draft.steps,
        status: draft.status,
        conditions: vec![ready],
        requeue_after: draft.again,
    })
}

impl Draft<'_> {
    pub(super) fn object(&self) -> &KiteVolume {
        self.volume.object
    }

    fn tell_holder(&mut self) {
        let holder = self.seen.holder.as_ref().map(|it| &it.spec.holder);
        self.status.attached_to = holder.map(|it| AttachedTo {
            vm: it.name.clone(),
            uid: it.uid.clone(),
        });
        let serial = names::volume_serial(self.volume.namespace, self.volume.name);
        self.status.serial = Some(serial);
    }

    /// Has the disk be there, as large as it may be.
    fn make(&mut self) {
        // Whatever it may have by now.
        self.tell_disk();
        let is_asked = self.share.asking.is_some() && self.share.asking != self.status.asking;
        self.status.asking.clone_from(&self.share.asking);
        if self.share.waits {
            self.again = AT_ONCE;
            return;
        }
        if is_asked {
            // Others have to be able to see it before it is given.
            self.steps.push(Step::WriteStatus);
            return;
        }
        if names::user_of_namespace(self.volume.namespace).is_some() {
            self.status.granted.clone_from(&self.share.granted);
        }
        if self.share.refused.is_some() {
            self.again = A_WHILE;
        }
        let Some(granted) = self.share.granted.clone() else {
            return;
        };
        match self.data {
            Data::None => {
                let made = render::data_volume(&self.volume, &granted, &self.seen.platform);
                let apply = Change::Apply(guarded(&made, None).into());
                self.steps.push(Step::Change(apply));
            }
            Data::Begun(made) => {
                self.again = SOON;
                self.keep_labels(made);
            }
            Data::There(made, claim) => {
                if let Some(made) = made {
                    self.keep_labels(made);
                }
                if !is_bound(claim) {
                    self.again = self.again.min(SOON);
                }
                self.grow(&granted);
            }
            Data::Leaving(_) => {
                self.again = SOON;
                let (made, claim) = (self.seen.disk.as_ref(), self.seen.claim.as_ref());
                let made = made.filter(|it| is_own(&self.volume, it, claim) && !is_leaving(*it));
                if let Some(made) = made {
                    self.keep_labels(made);
                }
            }
            Data::Foreign(_) | Data::Lost => self.again = A_WHILE,
        }
    }

    /// Puts right what somebody has changed of the disk's labels, and says of one with data that
    /// it has that.
    fn keep_labels(&mut self, stored: &DataVolume) {
        let mut desired = DataVolume {
            metadata: self.volume.metadata(),
            spec: stored.spec.clone(),
            status: None,
        };
        let told = self
            .object()
            .status
            .as_ref()
            .and_then(|it| it.disk.as_ref());
        let is_filled = DiskState::of(Some(stored)) == DiskState::Filled;
        let is_whole = is_filled && told.is_some_and(|it| it.claim_uid.is_some());
        if is_whole || has_its_data(stored) {
            disk::has_its_data(&mut desired.metadata);
        }
        if !is_applied(&desired, stored) {
            let apply = Change::Apply(guarded(&desired, Some(stored)).into());
            self.steps.push(Step::Change(apply));
        }
    }

    /// Has the claim grow, once it is bound: before, storage refuses that.
    fn grow(&mut self, granted: &Bytes) {
        let Some(claim) = self.data.claim().filter(|it| is_bound(it)) else {
            return;
        };
        let refused = Refused::Growth.among(&self.seen.refused, &self.object().metadata);
        if self.data.has(&self.volume, granted) || refused.is_some() {
            return;
        }
        let size = self.data.overhead(&self.volume).claim_for(granted);
        let name = names::volume_disk(self.volume.name);
        let grown = disk::grown_claim(self.volume.namespace, &name, &size);
        let grow = Change::Grow(Box::new(guarded(&grown, Some(claim))));
        self.steps.push(Step::Change(grow));
    }

    fn tell_disk(&mut self) {
        let Some(claim) = self.data.claim() else {
            return;
        };
        let before = self.status.disk.take().unwrap_or_default();
        let overhead = self.data.overhead(&self.volume);
        self.status.disk = Some(VolumeDisk {
            name: names::volume_disk(self.volume.name),
            claim_uid: before.claim_uid.or_else(|| claim.metadata.uid.clone()),
            size: self.data.size(&self.volume),
            filesystem_overhead: Some(overhead.text()),
        });
    }

    fn goes(&mut self, reason: &str, message: impl Into<String>) -> NewCondition {
        self.status.phase = Some(VolumePhase::Deleting);
        NewCondition::new(READY, false, reason, message.into())
    }

    /// Deletes the data, once no VM has it.
    fn end_of_life(&mut self) -> NewCondition {
        let (disk, claim) = (self.seen.disk.as_ref(), self.seen.claim.as_ref());
        let disk = disk.filter(|it| is_own(&self.volume, it, claim));
        let claim = claim.filter(|it| is_its(&self.volume, self.seen.disk.as_ref(), it));
        let goes = disk.is_some_and(is_leaving) || claim.is_some_and(is_leaving);
        if let Some(holder) = &self.seen.holder
            && !self.seen.holder_is_gone
            && !goes
        {
            self.again = SOON;
            let vm = holder_text(&holder.spec.holder);
            let message = format!(
                "the volume stays as long as {vm} has it: take it out of the VM's spec.volumes, \
                 and stop or restart the VM if it runs"
            );
            return self.goes("InUse", message);
        }
        if let Some(disk) = disk {
            if !is_leaving(disk) {
                self.delete(disk.clone().into());
            }
            self.again = SOON;
            return self.goes("Deleting", "waiting for its DataVolume to go");
        }
        if let Some(claim) = claim {
            // The garbage collector does that.
            let was_of_a_disk = controller(&claim.metadata).is_some();
            if !is_leaving(claim) && !was_of_a_disk {
                self.delete(claim.clone().into());
            }
            self.again = SOON;
            return self.goes("Deleting", "waiting for its PersistentVolumeClaim to go");
        }
        if let Some(holder) = self
            .seen
            .holder
            .as_ref()
            .filter(|_| self.seen.holder_is_gone)
        {
            let unclaim = Change::Unclaim(holder.clone());
            self.steps.push(Step::Change(unclaim));
        }
        self.steps.push(Step::RemoveFinalizer(VOLUME_FINALIZER));
        self.goes("Deleting", "all of it is gone")
    }

    fn delete(&mut self, what: AnyObject) {
        let delete = Change::Delete(what, PropagationPolicy::Background);
        self.steps.push(Step::Change(delete));
    }
}
