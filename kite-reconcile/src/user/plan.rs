//! What to do about a user. Pure.

use std::time::Duration;

use k8s_openapi::api::networking::v1::NetworkPolicy;
use kite_core::{
    cluster::Object,
    conditions::NewCondition,
    crd::{KiteUser, KiteUserStatus, KiteVirtualMachine, Usage, UserPhase},
    labels::{USER_FINALIZER, WALLS_FINALIZER},
};
use kite_render::{User, grant, namespace, quota, walls};
use kube::ResourceExt as _;

use super::{Observed, closed::Closed, delete, reserved};
use crate::{
    Error,
    context::Settings,
    matches::is_applied,
    objects::AnyObject,
    plan::{Change, Plan, Step},
    platform,
    standing::{Needed, Standing, guarded, needed, standing},
    unreadable::{as_before, unreadable},
};

/// When to look at a user again that waits for nothing.
const RESYNC: Duration = Duration::from_secs(600);
/// When to look again at what is on its way.
const LOOK_AGAIN: Duration = Duration::from_secs(3);

/// Types of the conditions of a user.
pub(super) const READY: &str = "Ready";
pub(super) const RESERVED: &str = "Reserved";
const NAMESPACE_READY: &str = "NamespaceReady";

/// What to do about the user `object`, given what was observed.
pub fn plan(
    object: &KiteUser,
    seen: &Observed,
    settings: &Settings,
) -> Result<Plan<KiteUserStatus>, Error> {
    let user = User::of(object)?;
    if object.metadata.deletion_timestamp.is_some() {
        return Ok(delete::plan(&user, seen, settings));
    }
    if let Some(why) = &object.spec.unreadable {
        let told = vec![unreadable(READY, "the account", why)];
        return Ok(plan_kept(&user, seen, settings, UserPhase::Failed, told));
    }
    if let Some(why) = &seen.unread {
        let old = object.status.as_ref();
        let phase = old.and_then(|status| status.phase);
        let phase = phase.unwrap_or(UserPhase::Pending);
        let mut told = vec![platform::waits(READY, why)];
        let conditions = old.map(|status| status.conditions.as_slice());
        told.extend(as_before(
            conditions.unwrap_or_default(),
            [RESERVED, NAMESPACE_READY],
        ));
        return Ok(plan_kept(&user, seen, settings, phase, told));
    }
    let (steps, namespace) = steps(&user, seen, settings);
    let reserved = reserved::condition(&user, seen);
    let suspended = object.spec.suspended;
    let phase = match (&reserved, &namespace.status) {
        (reserved, _) if reserved.status.as_str() != "True" => UserPhase::Failed,
        (_, status) if status.as_str() != "True" => UserPhase::Pending,
        _ if suspended => UserPhase::Suspended,
        _ => UserPhase::Ready,
    };
    let ready = match phase {
        UserPhase::Ready => NewCondition::new(READY, true, "Ready", "the user can have VMs"),
        UserPhase::Suspended => NewCondition::new(
            READY,
            false,
            "Suspended",
            "an administrator has suspended the user: all VMs are kept off",
        ),
        UserPhase::Failed => NewCondition {
            type_: READY,
            ..reserved.clone()
        },
        UserPhase::Pending | UserPhase::Deleting => NewCondition {
            type_: READY,
            ..namespace.clone()
        },
    };
    let is_there = namespace.status.as_str() == "True";
    let is_leaving = seen.namespace.as_ref().is_some_and(is_leaving)
        || seen.policies.iter().any(|it| is_leaving(it) && is_held(it));
    let opens = Closed::of(seen, &settings.walls).wait(seen.now);
    Ok(Plan {
        steps,
        status: KiteUserStatus {
            observed_generation: None,
            phase: Some(phase),
            namespace: is_there.then(|| user.namespace()),
            usage: Some(usage(&seen.vms)),
            conditions: Vec::new(),
            unreadable: None,
        },
        conditions: vec![ready, reserved, namespace],
        requeue_after: if is_leaving {
            LOOK_AGAIN
        } else {
            opens.unwrap_or(RESYNC).min(RESYNC)
        },
    })
}

/// What is known of a user stands, while the account or the platform's settings cannot be
/// read: the walls, and the rights of Kite's processes, which do not depend on the spec, are
/// kept as they should be, and nothing else is changed.
fn plan_kept(
    user: &User<'_>,
    seen: &Observed,
    settings: &Settings,
    phase: UserPhase,
    conditions: Vec<NewCondition>,
) -> Plan<KiteUserStatus> {
    let mut steps = Vec::new();
    let desired = namespace::namespace(user, settings.pod_security);
    let stored = seen.namespace.as_ref();
    if stored.is_some_and(|it| standing(&it.metadata, &desired.metadata) == Standing::Ours) {
        want_walls(&mut steps, user, seen, settings);
        want_grants(&mut steps, user, seen, settings);
    }
    let old = user.object.status.clone().unwrap_or_default();
    Plan {
        steps,
        status: KiteUserStatus {
            phase: Some(phase),
            usage: Some(usage(&seen.vms)),
            conditions: Vec::new(),
            ..old
        },
        conditions,
        requeue_after: RESYNC,
    }
}

/// The steps, and the condition of the namespace when there are none.
fn steps(user: &User<'_>, seen: &Observed, settings: &Settings) -> (Vec<Step>, NewCondition) {
    let waiting =
        |reason: &str, message: String| NewCondition::new(NAMESPACE_READY, false, reason, message);
    let not_yet = || {
        waiting(
            "NotMade",
            "the namespace or its walls are not made yet".to_owned(),
        )
    };
    if !user.object.finalizers().iter().any(|f| f == USER_FINALIZER) {
        return (vec![Step::AddFinalizer(USER_FINALIZER)], not_yet());
    }
    let mut claims = seen.claims.wants();
    if claims.is_empty() {
        claims = seen.claims.give_back(|_| true);
    }
    if !claims.is_empty() {
        return (claims, not_yet());
    }
    let lost = seen.claims.wanted.iter().any(|claim| !claim.is_mine());
    if lost && seen.namespace.is_none() {
        return (Vec::new(), not_yet());
    }
    let desired = namespace::namespace(user, settings.pod_security);
    let name = user.namespace();
    let mut steps = Vec::new();
    match needed(&desired, seen.namespace.as_ref(), "user") {
        Needed::Nothing => {}
        Needed::Apply => {
            let desired = guarded(&desired, seen.namespace.as_ref());
            steps.push(Step::Change(Change::Apply(desired.into())));
        }
        Needed::Wait(message) => {
            want_walls(&mut steps, user, seen, settings);
            return (steps, waiting("WaitingForDeletion", message));
        }
        Needed::Blocked(message) => {
            // What holds up the end of a namespace of an earlier life.
            if seen.namespace.as_ref().is_some_and(is_leaving) {
                want_walls(&mut steps, user, seen, settings);
                steps.retain(|step| matches!(step, Step::Change(Change::RemoveFinalizer(..))));
            }
            return (steps, waiting("NameTaken", message));
        }
    }
    want_walls(&mut steps, user, seen, settings);
    let given = quota::Given::to(&seen.vms);
    let quota = quota::resource_quota(user, &given, &seen.overhead(settings));
    want(&mut steps, &quota, seen.quota.as_ref());
    want_grants(&mut steps, user, seen, settings);
    // Nobody is told that the namespace is there before its walls stand.
    let condition = if steps.is_empty() {
        let message = format!("namespace {name} stands with its walls and quota");
        NewCondition::new(NAMESPACE_READY, true, "Ready", message)
    } else {
        not_yet()
    };
    (steps, condition)
}

fn is_leaving<K: Object>(object: &K) -> bool {
    object.meta().deletion_timestamp.is_some()
}

fn is_held(policy: &NetworkPolicy) -> bool {
    policy.finalizers().iter().any(|it| it == WALLS_FINALIZER)
}

/// The walls, for as long as the namespace stands: made where there are none. What was
/// deleted of them is held, and kept as it should be, until there is no machine any
/// more; then it is let go, and made anew if the user stays.
pub(super) fn want_walls(
    steps: &mut Vec<Step>,
    user: &User<'_>,
    seen: &Observed,
    settings: &Settings,
) {
    let is_ending = seen.namespace.as_ref().is_some_and(is_leaving);
    let may_fall = !seen.has_machines && (is_ending || !is_leaving(user.object));
    let closed = Closed::of(seen, &settings.walls);
    let around = settings.walls.around(closed.ranges());
    let around = around.around(&seen.blocked).exposed_by(&seen.exposure);
    let around = around.asking(&seen.nameservers, seen.asks_cluster);
    for mut policy in walls::policies(user, &around, &seen.image_namespaces) {
        closed.note(&mut policy);
        let stored = seen.policy(policy.metadata.name.as_deref());
        let held = stored.filter(|it| is_held(it));
        match (stored.filter(|it| is_leaving(*it)), held) {
            (Some(_), Some(held)) if may_fall => {
                let held = held.clone();
                steps.push(Step::Change(Change::RemoveFinalizer(
                    held.into(),
                    WALLS_FINALIZER,
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

/// Walls, quotas and grants are put right whoever's they seem: a policy of ours that
/// somebody has taken the labels off must not open the wall.
pub(super) fn want<K: Object>(steps: &mut Vec<Step>, desired: &K, stored: Option<&K>)
where
    AnyObject: From<K>,
{
    if !stored.is_some_and(|stored| is_applied(desired, stored)) {
        steps.push(Step::Change(Change::Apply(guarded(desired, stored).into())));
    }
}

pub(super) fn usage(vms: &[KiteVirtualMachine]) -> Usage {
    vms.iter().fold(Usage::default(), |usage, vm| {
        let add =
            |sum: i64, bytes: u64| sum.saturating_add(i64::try_from(bytes).unwrap_or(i64::MAX));
        // Not what they ask for in vain.
        let charge = vm.expected_charge();
        let cpu = u32::try_from(charge.cpu).unwrap_or(u32::MAX);
        Usage {
            vms: usage.vms.saturating_add(1),
            cpu: usage.cpu.saturating_add(cpu),
            memory: add(usage.memory, charge.memory),
            disk: add(usage.disk, charge.disk),
        }
    })
}
