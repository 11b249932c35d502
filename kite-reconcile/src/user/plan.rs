//! What to do about a user. Pure.

use kite_core::{
    conditions::NewCondition,
    crd::{KiteUser, KiteUserStatus, UserPhase},
    labels::USER_FINALIZER,
};
use kite_render::{User, namespace};

use super::{
    Observed, delete,
    draft::{NAMESPACE_READY, READY, RESERVED, UserDraft},
    isolation::{Isolation, want_policies},
    namespace::{Grants, Namespace, want_grants},
    quota::{Quota, usage},
    reserved::Names,
};
use crate::{
    Error,
    context::Settings,
    plan::Plan,
    platform,
    stage::{Finalizer, RESYNC, Stage, compose},
    standing::{Standing, standing},
    unreadable::{as_before, unreadable},
};

/// The stages, in the order in which they plan and in which their conditions are told.
pub(super) const STAGES: &[&dyn for<'a> Stage<UserDraft<'a>>] = &[
    &Finalizer(USER_FINALIZER),
    &Names,
    &Namespace,
    &Isolation,
    &Quota,
    &Grants,
];

/// What to do about the user `object`, given what was observed.
///
/// # Errors
/// [`Error::Render`] if the object has no name or uid from which others can be made.
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
    let draft = UserDraft {
        user: &user,
        seen,
        settings,
        steps: Vec::new(),
        waiting: None,
    };
    compose(STAGES, draft)
}

/// What is known of a user stands, while the account or the platform's settings cannot be
/// read: the network policies, and the rights of Kite's processes, which do not depend on the
/// spec, are kept as they should be, and nothing else is changed.
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
        want_policies(&mut steps, user, seen, settings);
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
