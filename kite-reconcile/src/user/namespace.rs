//! The namespace, with what Kite's processes may do in it.

use std::time::Duration;

use kite_core::{cluster::Object, conditions::NewCondition, crd::KiteUserStatus};
use kite_render::{User, grant, namespace};

use super::{
    Observed,
    draft::{LOOK_AGAIN, NAMESPACE_READY, UserDraft, want},
    isolation::want_policies,
};
use crate::{
    context::Settings,
    plan::{Change, Step},
    stage::{Flow, Stage},
    standing::{Needed, guarded, needed},
};

/// Goes by `namespace`; while that is on its way out, by what [`want_policies`] does.
pub(super) struct Namespace;

impl Stage<UserDraft<'_>> for Namespace {
    fn plan(&self, draft: &mut UserDraft<'_>) -> Flow {
        let (user, seen, settings) = (draft.user, draft.seen, draft.settings);
        let desired = namespace::namespace(user, settings.pod_security);
        match needed(&desired, seen.namespace.as_ref(), "user") {
            Needed::Nothing => {}
            Needed::Apply => {
                let desired = guarded(&desired, seen.namespace.as_ref());
                draft
                    .steps
                    .push(Step::Change(Change::Apply(desired.into())));
            }
            Needed::Wait(message) => {
                want_policies(&mut draft.steps, user, seen, settings);
                return draft.wait("WaitingForDeletion", message);
            }
            Needed::Blocked(message) => {
                // What holds up the end of a namespace of an earlier life.
                if seen.namespace.as_ref().is_some_and(is_leaving) {
                    want_policies(&mut draft.steps, user, seen, settings);
                    let lets_go =
                        |step: &Step| matches!(step, Step::Change(Change::RemoveFinalizerFrom(..)));
                    draft.steps.retain(lets_go);
                }
                return draft.wait("NameTaken", message);
            }
        }
        Flow::Next
    }

    fn condition(&self, draft: &UserDraft<'_>) -> Option<NewCondition> {
        if draft.waiting.is_some() {
            return draft.waiting.clone();
        }
        let name = draft.user.namespace();
        let (reason, message) = if draft.stands() {
            (
                "Ready",
                format!("namespace {name} stands with its network policies and quota"),
            )
        } else {
            ("NotMade", NOT_MADE.to_owned())
        };
        Some(NewCondition::new(
            NAMESPACE_READY,
            draft.stands(),
            reason,
            message,
        ))
    }

    fn report(&self, draft: &UserDraft<'_>, status: &mut KiteUserStatus) {
        status.namespace = draft.stands().then(|| draft.user.namespace());
    }

    fn look_again(&self, draft: &UserDraft<'_>) -> Option<Duration> {
        let is_leaving = draft.seen.namespace.as_ref().is_some_and(is_leaving);
        is_leaving.then_some(LOOK_AGAIN)
    }
}

/// What is said of it while something has to come first.
pub(super) const NOT_MADE: &str = "the namespace or its network policies are not made yet";

pub(super) fn is_leaving<K: Object>(object: &K) -> bool {
    object.meta().deletion_timestamp.is_some()
}

/// Goes by `grants`.
pub(super) struct Grants;

impl Stage<UserDraft<'_>> for Grants {
    fn plan(&self, draft: &mut UserDraft<'_>) -> Flow {
        want_grants(&mut draft.steps, draft.user, draft.seen, draft.settings);
        Flow::Next
    }
}

/// What Kite's processes may do in the namespace, the controller itself among them.
pub(super) fn want_grants(
    steps: &mut Vec<Step>,
    user: &User<'_>,
    seen: &Observed,
    settings: &Settings,
) {
    for grant in &settings.grants {
        let binding = grant::binding(user, grant);
        want(steps, &binding, seen.grant(&grant.role));
    }
}
