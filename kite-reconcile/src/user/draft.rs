//! A plan of a user while it is made.

use std::time::Duration;

use kite_core::{
    cluster::Object,
    conditions::NewCondition,
    crd::{KiteUserStatus, UserPhase},
};
use kite_render::User;
use kube::api::ObjectMeta;

use super::Observed;
use crate::{
    context::Settings,
    matches::is_applied,
    objects::AnyObject,
    plan::{Change, Step},
    stage::{Draft, Flow},
    standing::guarded,
};

/// When to look again at what is on its way.
pub(super) const LOOK_AGAIN: Duration = Duration::from_secs(3);

/// Types of the conditions of a user.
pub(super) const READY: &str = "Ready";
pub(super) const RESERVED: &str = "Reserved";
pub(super) const NAMESPACE_READY: &str = "NamespaceReady";

/// What the stages of a user's plan share.
pub(super) struct UserDraft<'a> {
    pub user: &'a User<'a>,
    pub seen: &'a Observed,
    pub settings: &'a Settings,
    /// What is to be done, so far. Each stage adds to it.
    pub steps: Vec<Step>,
    /// Why the namespace does not stand: set by the stages of names and namespace.
    pub waiting: Option<NewCondition>,
}

impl UserDraft<'_> {
    /// Has the namespace, and what lies in it, wait for this.
    pub(super) fn wait(&mut self, reason: &str, message: impl Into<String>) -> Flow {
        self.waiting = Some(NewCondition::new(NAMESPACE_READY, false, reason, message));
        Flow::Stop
    }

    /// Whether the namespace stands with all that belongs into it. Nobody is told that it is
    /// there before its network policies stand.
    pub(super) fn stands(&self) -> bool {
        self.waiting.is_none() && self.steps.is_empty()
    }
}

impl Draft for UserDraft<'_> {
    type Seen = Observed;
    type Status = KiteUserStatus;

    fn meta(&self) -> &ObjectMeta {
        &self.user.object.metadata
    }

    fn steps(&mut self) -> &mut Vec<Step> {
        &mut self.steps
    }

    fn sum_up(&self, others: &[NewCondition], status: &mut KiteUserStatus) -> NewCondition {
        let flaw = others.iter().find(|other| other.status.as_str() != "True");
        let (phase, ready) = match flaw {
            Some(flaw) => {
                let ready = NewCondition {
                    type_: READY,
                    ..flaw.clone()
                };
                let phase = match flaw.type_ {
                    RESERVED => UserPhase::Failed,
                    _ => UserPhase::Pending,
                };
                (phase, ready)
            }
            None if self.user.object.spec.suspended => (
                UserPhase::Suspended,
                NewCondition::new(
                    READY,
                    false,
                    "Suspended",
                    "an administrator has suspended the user: all VMs are kept off",
                ),
            ),
            None => (
                UserPhase::Ready,
                NewCondition::new(READY, true, "Ready", "the user can have VMs"),
            ),
        };
        status.phase = Some(phase);
        ready
    }
}

/// Network policies, quotas and grants are put right whoever's they seem: a network policy
/// of ours must not stay open because somebody has taken its labels off.
pub(super) fn want<K: Object>(steps: &mut Vec<Step>, desired: &K, stored: Option<&K>)
where
    AnyObject: From<K>,
{
    if !stored.is_some_and(|stored| is_applied(desired, stored)) {
        steps.push(Step::Change(Change::Apply(guarded(desired, stored).into())));
    }
}
