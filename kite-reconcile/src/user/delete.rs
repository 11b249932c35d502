//! How a user goes.

use kite_core::{
    cluster::ObjectKey,
    conditions::NewCondition,
    crd::{KiteUserStatus, UserPhase},
    labels::USER_FINALIZER,
};
use kite_render::{User, namespace, quota};
use kube::api::PropagationPolicy;

use super::{
    Observed,
    draft::{LOOK_AGAIN, READY, want},
    isolation::want_policies,
    namespace::want_grants,
    quota::usage,
};
use crate::{
    context::Settings,
    plan::{Change, Plan, Step},
    stage::Finalizer,
    standing::{Standing, standing},
};

/// VMs first, each by its own reconciler, while the network policies stand; then the
/// namespace; then the names are free.
pub(super) fn plan(user: &User<'_>, seen: &Observed, settings: &Settings) -> Plan<KiteUserStatus> {
    let (steps, waiting_for) = next(user, seen, settings);
    let old = user.object.status.clone().unwrap_or_default();
    // It goes like the others, unless somebody holds it, who should know.
    let unread = seen.vms.iter().find_map(|vm| Some((vm, vm.unreadable()?)));
    let (reason, besides) = match unread {
        None => ("Deleting", String::new()),
        Some((vm, why)) => (
            "Unreadable",
            format!(
                "; {} cannot be read: {why}; mend the field that is named",
                ObjectKey::of(vm)
            ),
        ),
    };
    Plan {
        steps,
        status: KiteUserStatus {
            phase: Some(UserPhase::Deleting),
            usage: Some(usage(&seen.vms)),
            conditions: Vec::new(),
            ..old
        },
        conditions: vec![NewCondition::new(
            READY,
            false,
            reason,
            format!("waiting for {waiting_for}{besides}"),
        )],
        requeue_after: LOOK_AGAIN,
    }
}

fn next(user: &User<'_>, seen: &Observed, settings: &Settings) -> (Vec<Step>, &'static str) {
    if !Finalizer(USER_FINALIZER).is_on(&user.object.metadata) {
        return (Vec::new(), "the finalizers of others to go");
    }
    let background = PropagationPolicy::Background;
    let wanted = namespace::namespace(user, settings.pod_security);
    let ours = seen
        .namespace
        .as_ref()
        .map(|stored| standing(&stored.metadata, &wanted.metadata));
    // Only what lies in the user's own namespace is the user's.
    if matches!(ours, Some(Standing::Ours | Standing::Leaving)) {
        let mut steps = Vec::new();
        if ours == Some(Standing::Ours) {
            // No VM comes any more.
            let given = quota::Given::to(&seen.vms).and(&seen.volumes);
            let closed = quota::closed(user, &given, &seen.overhead(settings));
            want(&mut steps, &closed, seen.quota.as_ref());
        }
        want_policies(&mut steps, user, seen, settings);
        if ours == Some(Standing::Ours) {
            // Nor do VMs go without the rights to take away what is theirs.
            want_grants(&mut steps, user, seen, settings);
        }
        if !steps.is_empty() {
            return (
                steps,
                "the network policies of the namespace to be in order",
            );
        }
        if !seen.vms.is_empty() {
            let steps = seen
                .vms
                .iter()
                .filter(|vm| vm.metadata.deletion_timestamp.is_none())
                .map(|vm| Step::Change(Change::Delete(vm.clone().into(), background.clone())))
                .collect();
            return (steps, "the user's VMs to go");
        }
        let steps = match (&seen.namespace, ours) {
            (Some(stored), Some(Standing::Ours)) => {
                vec![Step::Change(Change::Delete(
                    stored.clone().into(),
                    background,
                ))]
            }
            _ => Vec::new(),
        };
        return (steps, "the user's namespace to go");
    }
    let mut steps = seen.claims.release();
    steps.push(Step::RemoveFinalizer(USER_FINALIZER));
    (steps, "nothing")
}
