//! The network policies of the namespace.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kite_core::labels::NETWORK_POLICY_FINALIZER;
use kite_render::{User, isolation};
use kube::ResourceExt as _;

use super::{
    Observed,
    closed::{self, Closed},
    draft::{LOOK_AGAIN, UserDraft, want},
    namespace::is_leaving,
};
use crate::{
    context::Settings,
    plan::{Change, Step},
    stage::{Flow, RESYNC, Stage},
};

/// Goes by `policies`, `namespace`, `has_machines`, `cluster`, `blocked`, `exposure`, the
/// nameservers, `asks_cluster`, `image_namespaces`, `unread` and `now`.
pub(super) struct Isolation;

impl Stage<UserDraft<'_>> for Isolation {
    fn plan(&self, draft: &mut UserDraft<'_>) -> Flow {
        want_policies(&mut draft.steps, draft.user, draft.seen, draft.settings);
        Flow::Next
    }

    fn look_again(&self, draft: &UserDraft<'_>) -> Option<Duration> {
        let seen = draft.seen;
        if seen.policies.iter().any(|it| is_leaving(it) && is_held(it)) {
            return Some(LOOK_AGAIN);
        }
        let opens = Closed::of(seen, &draft.settings.isolation).wait(seen.now)?;
        Some(opens.min(RESYNC))
    }

    fn deadline(&self, seen: &Observed) -> Option<Timestamp> {
        closed::opens(seen)
    }
}

fn is_held(policy: &NetworkPolicy) -> bool {
    policy
        .finalizers()
        .iter()
        .any(|it| it == NETWORK_POLICY_FINALIZER)
}

/// The network policies, for as long as the namespace stands: made where there are none. What was
/// deleted of them is held, and kept as it should be, until there is no machine any
/// more; then it is let go, and made anew if the user stays.
pub(super) fn want_policies(
    steps: &mut Vec<Step>,
    user: &User<'_>,
    seen: &Observed,
    settings: &Settings,
) {
    let is_ending = seen.namespace.as_ref().is_some_and(is_leaving);
    let may_fall = !seen.has_machines && (is_ending || !is_leaving(user.object));
    let closed = Closed::of(seen, &settings.isolation);
    let around = settings.isolation.around(closed.ranges());
    let around = around.around(&seen.blocked).exposed_by(&seen.exposure);
    let around = around.asking(&seen.nameservers, seen.asks_cluster);
    for mut policy in isolation::policies(user, &around, &seen.image_namespaces) {
        closed.note(&mut policy);
        let stored = seen.policy(policy.metadata.name.as_deref());
        let held = stored.filter(|it| is_held(it));
        match (stored.filter(|it| is_leaving(*it)), held) {
            (Some(_), Some(held)) if may_fall => {
                let held = held.clone();
                steps.push(Step::Change(Change::RemoveFinalizerFrom(
                    held.into(),
                    NETWORK_POLICY_FINALIZER,
                )));
            }
            // Nothing new can be made in it.
            (_, None) if is_ending => {}
            // By stand-ins one is made where none is, which are strict; what stands has
            // what the settings said.
            _ if seen.unread.is_some() && stored.is_some() => {}
            (left, held) => {
                if left.is_some() && held.is_none() {
                    // Held by others only: the API server takes no finalizer for it.
                    policy.metadata.finalizers = None;
                }
                want(steps, &policy, stored);
            }
        }
    }
}
