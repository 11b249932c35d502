//! A plan of a VM while it is made: what its stages hand on to later ones.

use std::{borrow::Cow, time::Duration};

use kite_core::{
    cluster::Object,
    conditions::NewCondition,
    crd::{
        KiteVirtualMachine, KiteVirtualMachineStatus, RestartStatus, VmPhase,
        vm_condition::VIRTUAL_MACHINE_READY,
    },
};
use kite_disks::schedule::Invalid;
use kite_render::{
    Vm,
    restore::{DiskMark, mark_of},
};
use kube::api::ObjectMeta;

use super::{
    decided::Decided,
    disks::{Known, View},
    hold::judged_power,
    judge::{Judgement, judge},
    lost::{self, Loss},
    observe::Observed,
    quota::Share,
    reserved::has_ssh_id,
    restart,
    scheduled::Schedule,
    status, volumes,
};
use crate::{
    objects::AnyObject,
    plan::{Change, Step},
    stage::{Draft, RESYNC},
    standing::{Needed, guarded, needed},
};

/// When to look again at what waits for something that may not lead back here,
/// such as a claim of CDI's that has to be bound before it grows.
pub(super) const SOON: Duration = Duration::from_secs(20);

/// When to try again what the API server refused and nobody watches.
pub(super) const A_WHILE: Duration = Duration::from_secs(60);

/// A VM, and what was seen of it.
pub(super) type Seen<'a> = (&'a Vm<'a>, &'a Observed);

/// Why a part of the VM cannot be made now.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Obstacle {
    /// The condition that says so.
    pub condition: NewCondition,
    /// The phase that the VM is in by it.
    pub phase: VmPhase,
}

impl Obstacle {
    pub(super) fn new(type_: &'static str, phase: VmPhase, reason: &str, message: String) -> Self {
        Self {
            condition: NewCondition::new(type_, false, reason, message),
            phase,
        }
    }
}

/// What the stages of a VM's plan share.
pub(super) struct VmDraft<'a> {
    pub vm: &'a Vm<'a>,
    pub seen: &'a Observed,
    /// Whether it has its login name. Follows from what was seen.
    pub is_entitled: bool,
    /// What was lost of its disk. Follows from what was seen.
    pub loss: Option<Loss>,
    /// Where it stands by `KubeVirt` and CDI. Follows from what was seen.
    pub judgement: Judgement,
    /// Its disks and what is asked of them. Follows from what was seen.
    pub view: View<'a>,
    /// What is decided about its disks. Follows from what was seen.
    pub decided: Decided,
    /// What is known of its schedule of snapshots, or why that is none. Follows from what was
    /// seen.
    pub scheduled: Option<Result<Schedule<'a>, Invalid>>,
    /// Which disk the machine is to point at from now on: set by the stage of restores.
    pub point: Option<(String, Option<DiskMark>)>,
    /// What is to be done, so far. Each stage adds to it, and the offer takes away.
    pub steps: Vec<Step>,
    /// What is in the way, so far. Each stage adds to it.
    pub obstacles: Vec<Obstacle>,
    /// What it may have: what the status says, until the stage of the quota says more.
    pub share: Share,
    /// Whether both Secrets are there, or will be by the steps so far: set by their stage.
    pub has_secrets: bool,
    /// Whether all that the machine needs is there, or will be by the steps so far: set by
    /// the stage of the disk.
    pub is_prepared: bool,
    /// What the status notes of a restart: that of one whose turn has not come, until its
    /// stage says more.
    pub restart: Option<RestartStatus>,
}

impl<'a> VmDraft<'a> {
    pub(super) fn new(vm: &'a Vm<'a>, seen: &'a Observed) -> Self {
        let view = View::of(vm, Known::of(seen));
        Self {
            vm,
            seen,
            is_entitled: has_ssh_id(seen),
            loss: lost::loss(vm, seen),
            judgement: judge(judged_power(vm, seen), lost::disk_state(vm, seen), seen),
            decided: view.decide(),
            scheduled: Schedule::of(&view, seen),
            view,
            point: None,
            steps: Vec::new(),
            obstacles: Vec::new(),
            share: Share::as_told(vm, seen),
            has_secrets: false,
            is_prepared: false,
            restart: restart::noted(vm, seen),
        }
    }

    /// Whether nothing was made of it yet. A VM that was made keeps what it has, whatever
    /// became of its claim or of its image; one that was not, waits.
    pub(super) fn is_new(&self) -> bool {
        self.seen.disk.is_none() && self.loss.is_none()
    }

    /// Whether its disk has its data, if there is one, though it may be that nobody looks
    /// after it.
    pub(super) fn has_disk(&self) -> bool {
        self.loss.is_none() || self.loss == Some(Loss::Unmanaged)
    }

    /// The VM as it may be: no larger than its share.
    pub(super) fn fitted(&self) -> Cow<'a, KiteVirtualMachine> {
        self.share.fitted(self.vm.object)
    }

    /// The VM whose object is `fitted`.
    pub(super) fn as_fitted<'f>(&self, fitted: &'f KiteVirtualMachine) -> Vm<'f>
    where
        'a: 'f,
    {
        Vm {
            object: fitted,
            ..*self.vm
        }
    }

    /// What is said by what is in the way, of a condition.
    pub(super) fn said(&self, type_: &str) -> Option<NewCondition> {
        let mut said = self.obstacles.iter().map(|it| &it.condition);
        said.find(|condition| condition.type_ == type_).cloned()
    }

    /// Plans for `stored` to become like `desired`. Whether it is there or will
    /// be, and is ours.
    pub(super) fn wanted<K: Object>(&mut self, desired: &K, stored: Option<&K>) -> bool
    where
        AnyObject: From<K>,
    {
        match needed(desired, stored, "VM") {
            Needed::Nothing => true,
            Needed::Apply => {
                self.steps
                    .push(Step::Change(Change::Apply(guarded(desired, stored).into())));
                true
            }
            Needed::Wait(message) => {
                self.obstacle(VmPhase::Pending, "WaitingForDeletion", message);
                false
            }
            Needed::Blocked(message) => {
                self.obstacle(VmPhase::Failed, "NameTaken", message);
                false
            }
        }
    }

    /// Has the machine that was planned last be refused if it is not as it was seen, once there
    /// is more than one disk that it may have, or it gets a volume: that rests on all of it.
    pub(super) fn refuse_if_changed(&mut self) {
        let stored = self.seen.machine.as_ref();
        let is_marked = stored.is_some_and(|it| mark_of(&it.metadata).is_some());
        let is_asked = self.vm.object.spec.restore.is_some();
        let version = stored.and_then(|it| it.metadata.resource_version.clone());
        if let Some(Step::Change(Change::Apply(AnyObject::VirtualMachine(planned)))) =
            self.steps.last_mut()
            && (self.point.is_some() || is_marked || is_asked || volumes::attaches(planned, stored))
            && version.is_some()
        {
            planned.metadata.resource_version = version;
        }
    }

    pub(super) fn obstacle(&mut self, phase: VmPhase, reason: &str, message: String) {
        self.obstacles
            .push(Obstacle::new(VIRTUAL_MACHINE_READY, phase, reason, message));
    }
}

impl<'a> Draft for VmDraft<'a> {
    type Seen = Seen<'a>;
    type Status = KiteVirtualMachineStatus;

    fn meta(&self) -> &ObjectMeta {
        &self.vm.object.metadata
    }

    fn steps(&mut self) -> &mut Vec<Step> {
        &mut self.steps
    }

    fn sum_up(
        &self,
        others: &[NewCondition],
        status: &mut KiteVirtualMachineStatus,
    ) -> NewCondition {
        status.phase = Some(status::phase(self));
        status::ready(self, others)
    }

    fn resync(&self) -> Duration {
        if self.obstacles.is_empty() {
            RESYNC
        } else {
            SOON
        }
    }
}
