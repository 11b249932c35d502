//! What to do about a snapshot. Pure.

use std::time::Duration;

use kite_core::{
    cluster::ObjectKey,
    conditions::NewCondition,
    crd::{FreezeStatus, KiteSnapshot, KiteSnapshotStatus, SnapshotFailure},
    labels::{CONSISTENCY, SNAPSHOT_FINALIZER},
    volume_snapshot::VolumeSnapshot,
};
use kite_render::{Snapshot, snapshot as render};
use kube::api::PropagationPolicy;

use super::{
    observe::Observed,
    taking::is_lease_ours,
    told::{Told, error_of, told},
};
use crate::{
    Error,
    objects::AnyObject,
    plan::{Change, Plan, Step},
    stage::{Finalizer, RESYNC},
    standing::{Standing, guarded, standing},
    unreadable::unreadable,
};

/// The one condition: whether disks can be made from it.
pub(super) const READY: &str = "Ready";

/// When to look again at a guest that is being frozen.
pub(super) const AT_ONCE: Duration = Duration::from_secs(1);
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
    let stays = !goes || object.spec.protected;
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
        let taken = self.seen.taken.as_ref()?;
        let like = self.snapshot.metadata(self.snapshot.name.to_owned());
        (standing(&taken.metadata, &like) != Standing::Foreign).then_some(taken)
    }

    fn go_on(&mut self) {
        let found = told(self.object(), self.seen.taken.as_ref());
        if let Some(Told::Taken(consistency)) = found {
            self.status.consistency = Some(consistency);
        }
        if let Some(before) = self.own().and_then(render::before) {
            // Should the status be lost, what is told of the data stands beside that.
            self.status.source = self.status.source.take().or(before.source);
            self.status.size = self.status.size.take().or(before.size);
            self.status.granted = true;
        }
        // Before all else a guest goes on.
        if let Some(freeze) = self.status.freeze.clone().filter(|_| found.is_some()) {
            self.let_go_on(freeze);
        } else if found == Some(Told::Failed) {
            self.clear_away();
        } else if self.goes() && found.is_some() {
            self.end_of_life();
        } else if found.is_some() {
            self.settle();
        } else {
            self.take();
        }
    }

    /// Has the guest go on, and takes the note away once it has said so, or is gone.
    fn let_go_on(&mut self, freeze: FreezeStatus) {
        if self.seen.thawed {
            self.status.freeze = None;
            self.steps.push(Step::WriteStatus);
            return;
        }
        let thaw = Change::Thaw {
            instance: self.machine(),
            uid: freeze.instance_uid,
        };
        self.steps.push(Step::Change(thaw));
    }

    pub(super) fn machine(&self) -> ObjectKey {
        ObjectKey::namespaced(self.snapshot.namespace, &*self.object().spec.vm)
    }

    /// Whether the Lease had to be given back first.
    fn gives_lease_back(&mut self) -> bool {
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

    fn delete(&mut self, what: AnyObject) {
        let delete = Change::Delete(what, PropagationPolicy::Background);
        self.steps.push(Step::Change(delete));
    }

    /// Whether something of it is still on storage, which is deleted.
    fn discards(&mut self) -> bool {
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
        if self.discards() || self.gives_lease_back() {
            return;
        }
        if self.goes() {
            self.steps.push(Step::RemoveFinalizer(SNAPSHOT_FINALIZER));
        }
    }

    /// One that was taken, and is to go.
    fn end_of_life(&mut self) {
        let is_there = self
            .own()
            .is_some_and(|it| it.metadata.deletion_timestamp.is_none());
        let owner = self.seen.owner.as_ref();
        let owner_goes = owner.is_some_and(|it| it.metadata.deletion_timestamp.is_some());
        if self.object().spec.protected && is_there && !owner_goes {
            let message = "it is protected, and its data stays: set spec.protected to false to \
                           let it go";
            self.wait(RESYNC, "Protected", message);
            return;
        }
        self.clear_away();
    }

    /// One that was taken, and stays.
    fn settle(&mut self) {
        if self.gives_lease_back() {
            return;
        }
        if let Some(until) = &self.object().spec.keep_until
            && !self.object().spec.protected
        {
            let left = Duration::try_from(until.0.duration_since(self.seen.now));
            let Some(left) = left.ok().filter(|it| !it.is_zero()) else {
                self.steps.push(Step::DeleteSelf);
                return;
            };
            self.again = self.again.min(left);
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
    fn note_consistency(&mut self) {
        let (Some(taken), Some(consistency)) = (self.own(), self.status.consistency) else {
            return;
        };
        let is_leaving = taken.metadata.deletion_timestamp.is_some();
        if is_leaving || render::consistency(taken) == Some(consistency) {
            return;
        }
        let class = taken.spec.volume_snapshot_class_name.as_deref();
        let claim = taken.spec.source.persistent_volume_claim_name.as_deref();
        let (Some(class), Some(claim), Some(before)) = (class, claim, render::before(taken)) else {
            return;
        };
        let mut desired = render::volume_snapshot(&self.snapshot, claim, class, &before);
        let annotations = desired.metadata.annotations.get_or_insert_default();
        annotations.insert(CONSISTENCY.to_owned(), consistency.as_str().to_owned());
        let apply = Change::Apply(guarded(&desired, Some(taken)).into());
        self.steps.push(Step::Change(apply));
    }
}
