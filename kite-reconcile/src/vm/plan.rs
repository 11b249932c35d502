//! What to do about a VM. Pure: the same spec and the same observations give
//! the same plan.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kite_core::{
    conditions::NewCondition,
    crd::{
        KiteVirtualMachine, KiteVirtualMachineStatus, VmPhase, vm_condition::VIRTUAL_MACHINE_READY,
    },
    labels::VM_FINALIZER,
};
use kite_render::{Vm, service};

use super::{
    delete, disk,
    draft::{Draft, Obstacle},
    expiry::Expiry,
    exposed,
    idle::Idleness,
    image,
    lost::{self, Loss},
    moving,
    observe::Observed,
    offer,
    quota::{self, Share, WAITING_FOR_QUOTA},
    reserved::has_ssh_id,
    resize, restart, status, unreadable, walls,
};
use crate::{
    Error,
    plan::{Plan, Step},
};

/// When to look at a VM again that waits for nothing: everything that concerns
/// it is watched, this is for what a watch has missed.
const RESYNC: Duration = Duration::from_secs(600);

/// When to look again at what waits for something that may not lead back here,
/// such as a claim of CDI's that has to be bound before it grows.
const SOON: Duration = Duration::from_secs(20);

/// When to try again what the API server refused and nobody watches.
const A_WHILE: Duration = Duration::from_secs(60);

/// When to look again at a VM that has only told what it asks for: a watch leads
/// back here sooner.
const AT_ONCE: Duration = Duration::from_secs(1);

/// What to do about the VM `object`, given what was observed.
pub fn plan(
    object: &KiteVirtualMachine,
    seen: &Observed,
) -> Result<Plan<KiteVirtualMachineStatus>, Error> {
    let vm = Vm::of(object)?;
    if object.metadata.deletion_timestamp.is_some() {
        return Ok(delete::plan(&vm, seen));
    }
    if let Some(why) = object.unreadable() {
        return Ok(unreadable::plan(&vm, seen, &why));
    }
    if let Some(why) = &seen.platform.unreadable {
        return Ok(unreadable::plan_beside(&vm, seen, why));
    }
    let mut obstacles = Vec::new();
    let (mut steps, share) = steps(&vm, seen, &mut obstacles)?;
    let told = object.status.as_ref().and_then(|it| it.asking.as_ref());
    if steps.is_empty() && share.asking.is_some() && share.asking.as_ref() != told {
        steps.push(Step::WriteStatus);
        // Mostly it is given at once: what is told with it is true by then.
        obstacles.retain(|obstacle| obstacle.condition.reason != WAITING_FOR_QUOTA);
    }
    let (mut status, conditions) = status::report(&vm, seen, &obstacles, &share);
    // What was changed with it must be in place before it.
    let restart = restart::plan(&vm, seen, steps.is_empty());
    status.restart = restart.status;
    steps.extend(restart.step);
    // A restart gives it its size, too.
    let restarts = seen.restart_asked || restart.again.is_some();
    if steps.is_empty() && !restarts {
        steps.extend(moving::step(&vm, seen));
    }
    Ok(Plan {
        steps,
        status,
        conditions,
        requeue_after: match (&seen.claim, obstacles.is_empty()) {
            _ if share.is_unknown() => AT_ONCE,
            // It may have been refused, of which no watch tells.
            _ if seen.restart_asked => SOON,
            (Some(claim), _) if !disk::is_bound(claim) => SOON,
            _ if lost::loss(&vm, seen).is_some() => A_WHILE,
            (_, false) => SOON,
            _ if share.refusal(&quota::ALL).is_some() => A_WHILE,
            (Some(_) | None, true) => RESYNC,
        }
        .min(until_next_deadline(&vm, seen)),
    })
}

/// When time alone calls for something.
pub(super) fn next_deadline(vm: &Vm<'_>, seen: &Observed) -> Option<jiff::Timestamp> {
    let expiry = Expiry::of(vm.object, seen.now).and_then(|expiry| expiry.next());
    let idle = Idleness::of(vm, seen).and_then(|idle| idle.next(seen.now));
    let restart = restart::next(vm, seen);
    let resize = resize::next(seen);
    let all = expiry.into_iter().chain(idle).chain(restart);
    let refused = seen.refused.iter().map(|it| it.until);
    let refused = refused.filter(|at| *at > seen.now);
    let all = all.chain(resize).chain(moving::next(seen));
    all.chain(refused).min()
}

/// How long until time alone calls for something.
pub(super) fn until_next_deadline(vm: &Vm<'_>, seen: &Observed) -> Duration {
    next_deadline(vm, seen).map_or(Duration::MAX, |next| {
        Duration::try_from(next.duration_since(seen.now)).unwrap_or_default()
    })
}

fn steps(
    vm: &Vm<'_>,
    seen: &Observed,
    obstacles: &mut Vec<Obstacle>,
) -> Result<(Vec<Step>, Share), Error> {
    let first = |steps| Ok((steps, Share::as_told(vm, seen)));
    if !has_finalizer(&vm.object.metadata) {
        return first(vec![Step::AddFinalizer(VM_FINALIZER)]);
    }
    let expiry = Expiry::of(vm.object, seen.now);
    if expiry.as_ref().is_some_and(Expiry::is_due) {
        return first(vec![Step::DeleteSelf]);
    }
    let claims = seen.claims.wants();
    if !claims.is_empty() {
        return first(claims);
    }
    let entitled = has_ssh_id(seen);
    // A VM that was made keeps what it has, whatever became of its claim or of
    // its image; one that was not yet, waits.
    let lost = lost::loss(vm, seen);
    let is_new = seen.disk.is_none() && lost.is_none();
    if is_new {
        obstacles.extend(expiry.filter(Expiry::is_expired).map(|expiry| Obstacle {
            condition: NewCondition {
                type_: VIRTUAL_MACHINE_READY,
                status: false.into(),
                ..expiry.condition()
            },
            phase: VmPhase::Failed,
        }));
        obstacles.extend(walls::obstacle(vm, seen));
        if obstacles.is_empty() {
            obstacles.extend(image::obstacle(vm, &seen.image).filter(|_| entitled));
        }
    }
    let is_unmanaged = lost == Some(Loss::Unmanaged);
    // It is there, though it may be that nobody looks after it.
    let has_disk = lost.is_none() || is_unmanaged;
    let may_ask = match &seen.disk {
        None if is_unmanaged => true,
        None => entitled && obstacles.is_empty() && offer::may_be_had(vm, seen),
        Some(_) => seen.own_disk(vm).is_some(),
    } && has_disk;
    let share = Share::of(vm, seen, may_ask);
    let fitted = share.fitted(vm.object);
    let fitted = Vm {
        object: &fitted,
        ..*vm
    };
    if is_new && obstacles.is_empty() {
        obstacles.extend(quota::obstacle(&share, &quota::ALL, seen));
    }
    // What is left of a VM that has lost its disk is kept as it should be.
    let is_made = seen.disk.is_some() || lost.is_some();
    let may_be_made = obstacles.is_empty() && (entitled || is_made);
    let mut steps = Draft {
        steps: Vec::new(),
        obstacles,
    };
    let is_prepared = may_be_made
        && steps.keys_and_user_data(vm, seen)?
        && (lost.is_some() || steps.disk(&fitted, seen));
    let may_start = is_prepared && has_disk;
    steps.machine(&fitted, seen, &share, may_start);
    if is_prepared {
        if entitled {
            steps.wanted(&service::access(vm), seen.access_service.as_ref());
        }
        let is_led = steps.wanted(&service::web(vm), seen.web_service.as_ref());
        steps.exposure(vm, seen, is_led);
        if lost.is_none() {
            steps.growth(&fitted, seen);
        }
    }
    if steps.steps.is_empty() {
        let unled = |claim: &_| !exposed::leads_from(vm, seen, claim);
        steps.steps.extend(seen.claims.give_back(unled));
    }
    let mut steps = steps.steps;
    if seen.own_disk(vm).is_some() || lost.is_some() {
        steps.extend(offer::note(vm, seen));
        return Ok((steps, share));
    }
    // Last of all, when it is known that nothing else is in the way.
    let blocked = !entitled || !obstacles.is_empty();
    let steps = offer::gate(vm, seen, steps, blocked, obstacles);
    Ok((steps, share))
}

fn has_finalizer(metadata: &ObjectMeta) -> bool {
    metadata
        .finalizers
        .iter()
        .flatten()
        .any(|finalizer| finalizer == VM_FINALIZER)
}
