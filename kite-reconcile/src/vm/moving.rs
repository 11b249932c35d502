//! A VM that runs and waits for more than its launcher has, where `KubeVirt` moves nothing
//! for that by itself, as it is by default: Kite orders the migration, one at a time, and a
//! few for each instance and change.
//!
//! ```text
//! the instance waits ► VirtualMachineInstanceMigration ► KubeVirt moves it ► the order goes
//!                              ▲        │ it fails: stays as the memory of the try
//!                              └────────┘ after a pause that doubles, under the next number
//! ```

use std::time::Duration;

use jiff::Timestamp;
use kite_core::{
    cluster::{Cluster, ClusterError},
    crd::PowerState,
    kubevirt::{KubeVirt, VirtualMachine, VirtualMachineInstance, VirtualMachineInstanceMigration},
    names,
};
use kite_render::{Vm, migration};
use kube::api::{ListParams, PropagationPolicy};

use super::{
    blockers::{Drain, drain, is_moving, may_move},
    draft::{Seen, VmDraft},
    hold::power,
    judge::runs,
    observe::Observed,
    orders::{self, Moves, PAUSE, Progress},
    resize,
};
use crate::{
    cache::reading::as_known,
    plan::{Change, Refusal, Step},
    stage::{Flow, Stage},
    standing::{Standing, standing},
};

/// The orders, when nothing else is left to do. Goes by `moves`, `instance`, `kubevirt`,
/// `refused`, and what says whether the VM is to be on: `owner`, `activity` and `now`.
pub(super) struct Moving;

impl Stage<VmDraft<'_>> for Moving {
    fn plan(&self, draft: &mut VmDraft<'_>) -> Flow {
        if draft.steps.is_empty() {
            draft.steps.extend(step(draft.vm, draft.seen));
        }
        Flow::Next
    }

    fn deadline(&self, (_, seen): &Seen<'_>) -> Option<Timestamp> {
        next(seen)
    }
}

/// When to look again whether others have moved, or whether what somebody else ordered for
/// the VM is over: no watch leads from those back here.
const TURN: Duration = Duration::from_secs(20);

/// How long it may take `KubeVirt` to begin with an instance that is to leave its node: it
/// moves few at a time.
const SLOW: Duration = Duration::from_secs(3600);

/// Whether `instance` waits for more, and nobody moves it for that unless Kite does. Of a
/// cluster of which nobody knows how it is configured that is not said.
pub(super) fn is_left_to_kite(
    instance: Option<&VirtualMachineInstance>,
    kubevirt: Option<&KubeVirt>,
) -> bool {
    resize::is_under_way(instance) && kubevirt.is_some_and(|it| !it.migrates_updates())
}

/// Looks at the orders, where there may be one or is to be: nothing where not, and where
/// the controller may not look, as with rights of an earlier version.
pub(super) async fn look<C: Cluster>(
    vm: &Vm<'_>,
    instance: Option<&VirtualMachineInstance>,
    kubevirt: Option<&KubeVirt>,
    cluster: &C,
) -> Result<Option<Moves>, ClusterError> {
    let concerns = resize::is_under_way(instance) || has_moved(instance) || is_to_leave(instance);
    if !concerns {
        return Ok(None);
    }
    // Whose turn it is matters only to one that is to move.
    let is_wanted = is_left_to_kite(instance, kubevirt);
    let place = (!is_wanted).then(|| vm.namespace.to_owned());
    read(vm, instance, place, cluster).await
}

/// Looks at the orders for a VM that goes, while its `machine` is there: by what caches know,
/// so that one that has none costs no request.
pub(super) async fn look_at_rest<C: Cluster>(
    vm: &Vm<'_>,
    machine: Option<&VirtualMachine>,
    cluster: &C,
) -> Result<Option<Moves>, ClusterError> {
    if machine.is_none() {
        return Ok(None);
    }
    as_known(read(vm, None, Some(vm.namespace.to_owned()), cluster)).await
}

async fn read<C: Cluster>(
    vm: &Vm<'_>,
    instance: Option<&VirtualMachineInstance>,
    place: Option<String>,
    cluster: &C,
) -> Result<Option<Moves>, ClusterError> {
    let all = ListParams::default();
    let found = cluster.list::<VirtualMachineInstanceMigration>(place, &all);
    match found.await {
        Ok(found) => Ok(Some(Moves::of(vm, instance, found.items))),
        Err(ClusterError::NotFound { .. } | ClusterError::Forbidden { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether the instance was ever moved, so that an order may have been left.
fn has_moved(instance: Option<&VirtualMachineInstance>) -> bool {
    let status = instance.and_then(|it| it.status.as_ref());
    status.is_some_and(|it| it.other.contains_key("migrationState"))
}

/// What to do about the orders; it is their turn when nothing else is left to do. Pure.
fn step(vm: &Vm<'_>, seen: &Observed) -> Option<Step> {
    let (moves, instance) = (seen.moves.as_ref()?, seen.instance.as_ref()?);
    let like = vm.metadata(String::new());
    let ours = moves.own.iter();
    let ours: Vec<&VirtualMachineInstanceMigration> = ours
        .filter(|it| standing(&it.metadata, &like) == Standing::Ours)
        .collect();
    let called_off = ours
        .iter()
        .find_map(|order| called_off(order, instance, seen.now));
    if called_off.is_some() {
        return called_off;
    }
    let is_resized = !resize::is_under_way(Some(instance));
    // One that is under way is KubeVirt's: deleted, it would be broken off.
    let is_left = |it: &VirtualMachineInstanceMigration| {
        it.is_over() && (is_resized || !moves.is_memory(it, instance))
    };
    match ours.into_iter().find(|it| is_left(it)) {
        Some(left) => {
            let left = left.clone().into();
            Some(Step::Change(Change::Delete(
                left,
                PropagationPolicy::Background,
            )))
        }
        None => ordered(vm, seen, moves, instance),
    }
}

/// Takes back an order that has not begun and is in the way: `KubeVirt` moves no instance
/// off a node for which there is one, and one of others may take its turn.
fn called_off(
    order: &VirtualMachineInstanceMigration,
    instance: &VirtualMachineInstance,
    now: Timestamp,
) -> Option<Step> {
    if order.is_over() || order.has_begun() {
        return None;
    }
    if drain(Some(instance)).is_some() {
        // It comes off its node by another migration, and has its size by that.
        return Some(Step::Change(Change::DeleteUnchanged(order.clone().into())));
    }
    let is_stuck = orders::stuck_at(order).is_some_and(|at| at <= now);
    is_stuck.then(|| {
        let minutes = PAUSE.as_secs() / 60;
        let why = orders::said(order).map(|why| format!(": {why}"));
        let why = why.unwrap_or_default();
        let why = format!("KubeVirt did not begin to in {minutes} minutes{why}");
        Step::Change(Change::CallOff(Box::new(order.clone()), why))
    })
}

/// Gives the order, if it is time.
fn ordered(
    vm: &Vm<'_>,
    seen: &Observed,
    moves: &Moves,
    instance: &VirtualMachineInstance,
) -> Option<Step> {
    let number = match moves.progress(instance) {
        Progress::Unordered => 1,
        Progress::Failed(number, again) if again <= seen.now => number.saturating_add(1),
        Progress::Failed(..) | Progress::Ordered(..) | Progress::Moved(_) | Progress::GivenUp => {
            return None;
        }
    };
    if !may_be_ordered(vm, seen, moves) {
        return None;
    }
    let wanted = migration::for_resize(vm, instance, number)?;
    Some(Step::Change(Change::Move(Box::new(wanted))))
}

fn may_be_ordered(vm: &Vm<'_>, seen: &Observed, moves: &Moves) -> bool {
    let instance = seen.instance.as_ref();
    let stays = instance.is_some_and(|it| it.metadata.deletion_timestamp.is_none());
    stays
        && power(vm, seen) == PowerState::On
        && runs(instance)
        && is_left_to_kite(instance, seen.kubevirt.as_ref())
        && may_move(instance)
        && !is_moving(instance)
        && drain(instance).is_none()
        && !moves.is_unfinished()
        && moves.foreign.is_empty()
        && moves.ahead(seen.now) == 0
        && refused(seen).is_none()
}

/// Whether an instance is to leave its node, as far as is known can, and does not yet.
fn is_to_leave(instance: Option<&VirtualMachineInstance>) -> bool {
    matches!(drain(instance), Some(Drain::Asked(_))) && !is_moving(instance)
}

/// Why an instance that is to leave its node does not begin to: what `KubeVirt` says of its
/// order, or that nothing has come of it for long.
pub(super) fn kept_from_leaving(seen: &Observed) -> Option<String> {
    let instance = seen.instance.as_ref();
    if !is_to_leave(instance) {
        return None;
    }
    let moves = seen.moves.as_ref();
    if moves.is_some_and(Moves::has_begun) {
        return None;
    }
    let said = moves.and_then(|it| it.held_up(seen.now));
    said.or_else(|| {
        let is_late = late_at(instance).is_some_and(|at| at <= seen.now);
        let minutes = SLOW.as_secs() / 60;
        is_late.then(|| format!("KubeVirt has not begun with it in {minutes} minutes"))
    })
}

/// When one that is to leave its node should long have begun to, if it is told since when.
fn late_at(instance: Option<&VirtualMachineInstance>) -> Option<Timestamp> {
    match drain(instance)? {
        Drain::Asked(since) => since?.checked_add(SLOW).ok(),
        Drain::Failed(_) | Drain::Held(_) => None,
    }
}

/// When time alone calls for something.
fn next(seen: &Observed) -> Option<Timestamp> {
    let (moves, instance) = (seen.moves.as_ref()?, seen.instance.as_ref()?);
    let stuck = moves.own.iter().filter_map(orders::stuck_at);
    let is_left = is_left_to_kite(Some(instance), seen.kubevirt.as_ref());
    let progress = is_left.then(|| moves.progress(instance));
    let due = progress.and_then(|it| match it {
        Progress::Failed(_, at) | Progress::Moved(at) => Some(at),
        Progress::Unordered | Progress::Ordered(..) | Progress::GivenUp => None,
    });
    let is_held_up = || !moves.foreign.is_empty() || moves.ahead(seen.now) > 0;
    let leaves = is_to_leave(Some(instance));
    let waits = leaves || is_left && !moves.is_unfinished() && is_held_up();
    let turn = waits.then(|| seen.now.checked_add(TURN).ok()).flatten();
    let refused = refused(seen).map(|it| it.until);
    let all = stuck.chain(due).chain(turn).chain(refused);
    all.filter(|at| *at > seen.now).min()
}

/// Why the instance is not moved for now for the size that it is to have.
pub(super) fn refused(seen: &Observed) -> Option<&Refusal> {
    let name = migration::name_for_resize(seen.instance.as_ref()?, 1)?;
    let of = names::change_of_resize(&name);
    seen.refused.iter().find(|it| it.of == of)
}

#[cfg(test)]
#[path = "moving_tests.rs"]
mod tests;
