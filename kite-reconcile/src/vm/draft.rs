//! A plan of a VM while it is made: what is to be done, and what is in its way.

use kite_core::{
    cluster::Object,
    conditions::NewCondition,
    crd::{VmPhase, vm_condition::VIRTUAL_MACHINE_READY},
};

use crate::{
    objects::AnyObject,
    plan::{Change, Step},
    standing::{Needed, guarded, needed},
};

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

/// What is said by what is in the way, of a condition.
pub(super) fn condition_of(obstacles: &[Obstacle], type_: &str) -> Option<NewCondition> {
    let found = obstacles.iter().find(|it| it.condition.type_ == type_)?;
    Some(found.condition.clone())
}

/// What is to be done, so far.
pub(super) struct Draft<'a> {
    pub steps: Vec<Step>,
    pub obstacles: &'a mut Vec<Obstacle>,
}

impl Draft<'_> {
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

    pub(super) fn obstacle(&mut self, phase: VmPhase, reason: &str, message: String) {
        self.obstacles
            .push(Obstacle::new(VIRTUAL_MACHINE_READY, phase, reason, message));
    }
}
