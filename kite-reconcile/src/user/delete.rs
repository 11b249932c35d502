//! How a user goes.

use std::borrow::Cow;

use kite_core::{
    cluster::ObjectKey,
    conditions::NewCondition,
    crd::{KiteUserStatus, KiteVolume, UserPhase, VOLUMES_KEPT},
    labels::USER_FINALIZER,
};
use kite_render::{User, namespace, quota};
use kube::{ResourceExt as _, api::PropagationPolicy};

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
    stage::{Finalizer, RESYNC},
    standing::{Standing, standing},
};

/// Why a user is not gone yet.
enum Waiting {
    /// For this, which is on its way.
    For(Cow<'static, str>),
    /// For somebody to decide what becomes of volumes that outlive the account; and perhaps for
    /// others to go.
    Kept { kept: String, going: Option<String> },
}

impl Waiting {
    const fn on(what: &'static str) -> Self {
        Self::For(Cow::Borrowed(what))
    }
}

/// VMs first, each by its own reconciler, while the network policies stand; then volumes, of
/// which those that are to be kept hold all that follows; then the namespace; then the names
/// are free.
pub(super) fn plan(user: &User<'_>, seen: &Observed, settings: &Settings) -> Plan<KiteUserStatus> {
    let (steps, waiting) = next(user, seen, settings);
    let old = user.object.status.clone().unwrap_or_default();
    // It goes like the others, unless somebody holds it, who should know.
    let unread = seen.vms.iter().find_map(|vm| Some((vm, vm.unreadable()?)));
    let (reason, message, again) = match (unread, waiting) {
        (None, Waiting::For(what)) => ("Deleting", format!("waiting for {what}"), LOOK_AGAIN),
        (Some((vm, why)), Waiting::For(what)) => (
            "Unreadable",
            format!(
                "waiting for {what}; {} cannot be read: {why}; mend the field that is named",
                ObjectKey::of(vm)
            ),
            LOOK_AGAIN,
        ),
        (_, Waiting::Kept { kept, going }) => {
            let mut message = outlive(&user.namespace(), &kept);
            let again = going.map_or(RESYNC, |going| {
                message = format!("{message}; the volumes {going} go, and are waited for");
                LOOK_AGAIN
            });
            (VOLUMES_KEPT, message, again)
        }
    };
    Plan {
        steps,
        status: KiteUserStatus {
            phase: Some(UserPhase::Deleting),
            usage: Some(usage(&seen.vms)),
            conditions: Vec::new(),
            ..old
        },
        conditions: vec![NewCondition::new(READY, false, reason, message)],
        requeue_after: again,
    }
}

fn outlive(namespace: &str, volumes: &str) -> String {
    format!(
        "the volumes {volumes} in {namespace} outlive the account (onAccountDeletion: Keep), which \
         keeps its names until an administrator has deleted them, or has set onAccountDeletion to \
         Delete"
    )
}

fn next(user: &User<'_>, seen: &Observed, settings: &Settings) -> (Vec<Step>, Waiting) {
    if !Finalizer(USER_FINALIZER).is_on(&user.object.metadata) {
        return (Vec::new(), Waiting::on("the finalizers of others to go"));
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
                Waiting::on("the network policies of the namespace to be in order"),
            );
        }
        if !seen.vms.is_empty() {
            let steps = seen
                .vms
                .iter()
                .filter(|vm| vm.metadata.deletion_timestamp.is_none())
                .map(|vm| Step::Change(Change::Delete(vm.clone().into(), background.clone())))
                .collect();
            return (steps, Waiting::on("the user's VMs to go"));
        }
        if ours == Some(Standing::Ours) && !seen.volumes.is_empty() {
            return part(&seen.volumes);
        }
        let steps = match (&seen.namespace, ours) {
            (Some(stored), Some(Standing::Ours)) => {
                let mut steps = Vec::new();
                let emptied = namespace::emptied(user, settings.pod_security);
                want(&mut steps, &emptied, Some(stored));
                if steps.is_empty() {
                    let delete = Change::Delete(stored.clone().into(), background);
                    steps.push(Step::Change(delete));
                }
                steps
            }
            _ => Vec::new(),
        };
        return (steps, Waiting::on("the user's namespace to go"));
    }
    let mut steps = seen.claims.release();
    steps.push(Step::RemoveFinalizer(USER_FINALIZER));
    (steps, Waiting::on("nothing"))
}

/// Has volumes go, each as it was seen: somebody may say right now that it is to outlive the
/// account. Those that do are kept, and with them the namespace.
fn part(volumes: &[KiteVolume]) -> (Vec<Step>, Waiting) {
    let (kept, others): (Vec<_>, Vec<_>) = volumes.iter().partition(|it| it.outlives_account());
    let delete = |it: &&KiteVolume| Step::Change(Change::DeleteUnchanged((*it).clone().into()));
    let steps = others
        .iter()
        .filter(|it| it.metadata.deletion_timestamp.is_none())
        .map(delete)
        .collect();
    let going = names(&others);
    let waiting = if kept.is_empty() {
        Waiting::For(format!("the user's volumes to go: {going}").into())
    } else {
        Waiting::Kept {
            kept: names(&kept),
            going: (!others.is_empty()).then_some(going),
        }
    };
    (steps, waiting)
}

fn names(volumes: &[&KiteVolume]) -> String {
    let mut names: Vec<_> = volumes.iter().map(|it| it.name_any()).collect();
    names.sort_unstable();
    names.join(", ")
}
