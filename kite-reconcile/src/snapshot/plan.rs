//! What to do about a snapshot. Pure.

use std::time::Duration;

use kite_core::{
    cluster::ObjectKey,
    conditions::NewCondition,
    crd::{KiteSnapshot, KiteSnapshotStatus, SnapshotFailure},
    labels::{CONSISTENCY, SNAPSHOT_FINALIZER},
    volume_snapshot::VolumeSnapshot,
};
use kite_render::{Snapshot, snapshot as render};
use kube::api::PropagationPolicy;

use super::{
    observe::Observed,
    taking::is_lease_ours,
    told::{Told, error_of, own, told},
};
use crate::{
    Error,
    objects::AnyObject,
    plan::{Change, Plan, Step},
    refused::Refused,
    stage::{Finalizer, RESYNC},
    standing::guarded,
    unreadable::unreadable,
    vm::COPIED,
};

/// The one condition: whether disks can be made from it.
pub(super) const READY: &str = "Ready";

/// When to look again at a guest that is being frozen.
pub(super) const AT_ONCE: Duration = Duration::from_secs(2);
/// When to look again at what is waited for before storage is asked.
pub(super) const SOON: Duration = Duration::from_secs(5);

/// A plan of a snapshot while it is made.
pub(super) struct Draft<'a> {
    pub(super) snapshot: Snapshot<'a>,
    pub(super) seen: &'a Observed,
    pub(super) status: KiteSnapshotStatus,
    pub(super) steps: Vec<Step>,
    again: Duration,
    /// What is in the way, where something is: a reason and a sentence.
    pub(super) waits: Option<(&'static str, String)>,
}

/// What to do about the snapshot `object`, given what was observed.
///
/// # Errors
/// [`Error::Render`] if the object has no name, namespace or uid from which others can be made.
pub fn plan(object: &KiteSnapshot, seen: &Observed) -> Result<Plan<KiteSnapshotStatus>, Error> {
    let mut status = object.status.clone().unwrap_or_default();
    status.conditions.clear();
    let mut draft = Draft {
        snapshot: Snapshot::of(object)?,
        seen,
        status,
        steps: Vec::new(),
        again: RESYNC,
        waits: None,
    };
    let goes = object.metadata.deletion_timestamp.is_some();
    let finalizer = Finalizer(SNAPSHOT_FINALIZER);
    let stays = !goes || is_held(object, draft.own(), seen);
    if let Some(why) = object.unreadable().filter(|_| stays) {
        return Ok(draft.end(unreadable(READY, "the snapshot", &why)));
    }
    match (finalizer.is_on(&object.metadata), goes) {
        (true, _) => draft.go_on(),
        (false, false) => draft.steps.push(Step::AddFinalizer(SNAPSHOT_FINALIZER)),
        (false, true) => {
            let message = "waiting for the finalizers of others to go";
            draft.waits = Some(("Deleting", message.to_owned()));
        }
    }
    let ready = draft.sum_up();
    Ok(draft.end(ready))
}

impl<'a> Draft<'a> {
    pub(super) fn object(&self) -> &'a KiteSnapshot {
        self.snapshot.object
    }

    pub(super) fn goes(&self) -> bool {
        self.object().metadata.deletion_timestamp.is_some()
    }

    fn end(self, ready: NewCondition) -> Plan<KiteSnapshotStatus> {
        Plan {
            steps: self.steps,
            status: self.status,
            conditions: vec![ready],
            requeue_after: self.again,
        }
    }

    pub(super) fn wait(
        &mut self,
        again: Duration,
        reason: &'static str,
        message: impl Into<String>,
    ) {
        self.again = self.again.min(again);
        self.waits = Some((reason, message.into()));
    }

    pub(super) fn fail(&mut self, failure: SnapshotFailure) {
        self.status.failure = Some(failure);
        self.steps.push(Step::WriteStatus);
    }

    /// The request to storage, if it is this snapshot's.
    pub(super) fn own(&self) -> Option<&'a VolumeSnapshot> {
        own(&self.snapshot, self.seen.taken.as_ref())
    }

    fn go_on(&mut self) {
        let unread = self.object().unreadable();
        let found = if self.goes() && unread.is_some() {
            // Nobody can say more of it.
            Some(Told::Failed)
        } else {
            told(self.object(), self.own())
        };
        if let Some(Told::Taken(consistency)) = found {
            self.status.consistency = Some(consistency);
            let uid = self.own().and_then(|it| it.metadata.uid.clone());
            self.status.volume_snapshot_uid = self.status.volume_snapshot_uid.take().or(uid);
        }
        if let Some(before) = self.own().and_then(render::before) {
            // Should the status be lost, what is told of the data stands beside that.
            self.status.source = self.status.source.take().or(before.source);
            self.status.size = self.status.size.take().or(before.size);
            self.status.granted = true;
        }
        self.take(found);
    }

    /// Nothing is left to be asked of a guest or of storage.
    pub(super) fn rest(&mut self, found: Told) {
        match found {
            Told::Failed => self.clear_away(),
            Told::Taken(_) if self.goes() => self.end_of_life(),
            Told::Taken(_) => self.settle(),
        }
    }

    /// Has the guest go on, and takes the note away once it has said so, or is gone.
    pub(super) fn let_go_on(&mut self, instance: &str) {
        if self.seen.thawed {
            self.status.freeze = None;
            self.steps.push(Step::WriteStatus);
            return;
        }
        let refused = Refused::Thaw.among(&self.seen.refused, &self.object().metadata);
        if let Some(refused) = refused {
            let message = format!(
                "the guest is asked to go on, which is tried again until it does or has stopped: {}",
                refused.why
            );
            self.wait(SOON, "Thawing", message);
            return;
        }
        let thaw = Change::Thaw {
            instance: self.machine(),
            uid: instance.to_owned(),
        };
        self.steps.push(Step::Change(thaw));
    }

    pub(super) fn machine(&self) -> ObjectKey {
        ObjectKey::namespaced(self.snapshot.namespace, &*self.object().spec.vm)
    }

    /// Whether the Lease had to be given back first.
    pub(super) fn gives_lease_back(&mut self) -> bool {
        let Some(lease) = &self.seen.lease else {
            return false;
        };
        if !is_lease_ours(self.object(), self.seen) {
            return false;
        }
        if lease.metadata.deletion_timestamp.is_none() {
            self.delete(lease.clone().into());
        }
        true
    }

    pub(super) fn delete(&mut self, what: AnyObject) {
        let delete = Change::Delete(what, PropagationPolicy::Background);
        self.steps.push(Step::Change(delete));
    }

    /// Whether something of it is still on storage, which is deleted.
    pub(super) fn discards(&mut self) -> bool {
        let Some(taken) = self.own().cloned() else {
            return false;
        };
        if taken.metadata.deletion_timestamp.is_none() {
            self.delete(taken.into());
        } else {
            let words = error_of(Some(&taken));
            let words = words.map(|it| format!(": {it}")).unwrap_or_default();
            let message = format!("waiting for storage to delete it{words}");
            self.wait(SOON, "Deleting", message);
        }
        true
    }

    /// What is left of one that was not taken.
    fn clear_away(&mut self) {
        if self.gives_lease_back() || self.discards() {
            return;
        }
        if self.goes() {
            self.steps.push(Step::RemoveFinalizer(SNAPSHOT_FINALIZER));
        } else {
            self.ends_in_time();
        }
    }

    /// One that was taken, and is to go.
    fn end_of_life(&mut self) {
        if is_held(self.object(), self.own(), self.seen) {
            if self.gives_lease_back() {
                return;
            }
            self.note_consistency();
            let message = "it is protected, and its data stays: set spec.protected to false to \
                           let it go";
            self.wait(RESYNC, "Protected", message);
            return;
        }
        if !self.seen.copies.is_empty() {
            let copies = self.seen.copies.join(", ");
            let message = format!(
                "its data stays until a guest has run on what is copied from it, {copies}: start \
                 the VM once, or delete it, or ask for another restore"
            );
            self.wait(SOON, COPIED, message);
            return;
        }
        self.clear_away();
    }

    /// Whether its time is over.
    fn ends_in_time(&mut self) -> bool {
        let spec = &self.object().spec;
        let Some(until) = spec.keep_until.as_ref().filter(|_| !spec.protected) else {
            return false;
        };
        let left = Duration::try_from(until.0.duration_since(self.seen.now));
        let Some(left) = left.ok().filter(|it| !it.is_zero()) else {
            self.steps.push(Step::DeleteSelf);
            return true;
        };
        self.again = self.again.min(left);
        false
    }

    /// One that was taken, and stays.
    fn settle(&mut self) {
        if self.gives_lease_back() || self.ends_in_time() {
            return;
        }
        self.note_consistency();
        let cut = self.own().and_then(|it| it.status.as_ref());
        let restore_size = cut.and_then(|it| it.restore_size.as_ref());
        let restore_size = restore_size.map(|it| it.0.clone());
        let taken_at = cut.and_then(|it| it.creation_time.clone());
        let told = &mut self.status;
        told.taken_at = taken_at.or(told.taken_at.take());
        told.restore_size = restore_size.or(told.restore_size.take());
    }

    /// Has what was told stand beside the data, too: it outlives the status.
    pub(super) fn note_consistency(&mut self) {
        let (Some(taken), Some(consistency)) = (self.own(), self.status.consistency) else {
            return;
        };
        let is_leaving = taken.metadata.deletion_timestamp.is_some();
        if is_leaving || render::consistency(taken) == Some(consistency) {
            return;
        }
        let class = taken.spec.volume_snapshot_class_name.as_deref();
        let claim = taken.spec.source.persistent_volume_claim_name.as_deref();
        let (Some(class), Some(claim)) = (class, claim) else {
            return;
        };
        // Somebody may have taken that away.
        let before = render::before(taken).unwrap_or_default();
        let mut desired = render::volume_snapshot(&self.snapshot, claim, class, &before);
        let annotations = desired.metadata.annotations.get_or_insert_default();
        annotations.insert(CONSISTENCY.to_owned(), consistency.as_str().to_owned());
        let apply = Change::Apply(guarded(&desired, Some(taken)).into());
        self.steps.push(Step::Change(apply));
    }
}

fn owner_goes(seen: &Observed) -> bool {
    let owner = seen.owner.as_ref();
    owner.is_some_and(|it| it.metadata.deletion_timestamp.is_some())
}

/// Whether one that was deleted has data that stays until its owner says otherwise.
pub(super) fn is_held(
    object: &KiteSnapshot,
    taken: Option<&VolumeSnapshot>,
    seen: &Observed,
) -> bool {
    let is_there = taken.is_some_and(|it| it.metadata.deletion_timestamp.is_none());
    object.spec.protected && is_there && !owner_goes(seen)
}
