//! A VM that runs and waits for more than its launcher has, where `KubeVirt` moves nothing
//! for that by itself, as it is by default: Kite orders the migration, one for each
//! instance and change.
//!
//! ```text
//! the instance waits ► VirtualMachineInstanceMigration ► KubeVirt moves it ► the order goes
//! ```

use std::time::Duration;

use jiff::Timestamp;
use kite_core::{
    cluster::{Cluster, ClusterError, ClusterExt as _, ObjectKey},
    crd::PowerState,
    kubevirt::{KubeVirt, VirtualMachineInstance, VirtualMachineInstanceMigration},
    labels,
};
use kite_render::{Vm, migration};
use kube::{
    ResourceExt as _,
    api::{ListParams, PropagationPolicy},
};

use super::{
    blockers::{drain, is_moving, may_move},
    hold::power,
    machine::runs,
    observe::Observed,
    resize,
};
use crate::{
    plan::Step,
    standing::{Standing, standing},
};

/// Orders of Kite's in the whole cluster that are not carried out yet: as many as
/// `KubeVirt` carries out at a time, by its defaults. Who looks at the same moment may be
/// one more; then `KubeVirt` has that one wait.
const MOST: usize = 5;

/// How long after a migration that came to nothing there is another one. `KubeVirt`
/// bounds nothing of what it is ordered.
const PAUSE: Duration = Duration::from_secs(300);

/// When to look again whether others have moved.
const TURN: Duration = Duration::from_secs(20);

/// The orders there are.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Moves {
    /// That for the size which the instance is to have now.
    pub own: Option<VirtualMachineInstanceMigration>,
    /// Somebody has ordered another migration of the instance, which is not over.
    pub is_ordered: bool,
    /// How many of Kite's in the whole cluster are not over.
    pub under_way: usize,
}

impl Moves {
    /// Whether others are to move first.
    pub(super) fn are_many(&self) -> bool {
        self.own.is_none() && self.under_way >= MOST
    }
}

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
    let Some(wanted) = instance.and_then(|it| migration::for_resize(vm, it)) else {
        return Ok(None);
    };
    let is_wanted = is_left_to_kite(instance, kubevirt);
    if !is_wanted && !has_moved(instance) {
        return Ok(None);
    }
    match read(vm, &wanted, is_wanted, cluster).await {
        Ok(moves) => Ok(Some(moves)),
        Err(ClusterError::NotFound { .. } | ClusterError::Forbidden { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

async fn read<C: Cluster>(
    vm: &Vm<'_>,
    wanted: &VirtualMachineInstanceMigration,
    with_others: bool,
    cluster: &C,
) -> Result<Moves, ClusterError> {
    let own = cluster.find(&ObjectKey::of(wanted)).await?;
    if !with_others {
        return Ok(Moves {
            own,
            ..Moves::default()
        });
    }
    let all = ListParams::default();
    let found = cluster.list::<VirtualMachineInstanceMigration>(None, &all);
    let found = found.await?.items;
    let others = found.iter().filter(|it| !it.is_over());
    let is_kites = |it: &&VirtualMachineInstanceMigration| {
        let by = it.labels().get(labels::MANAGED_BY).map(String::as_str);
        by == Some(labels::MANAGED_BY_CONTROLLER)
    };
    let is_another = |it: &VirtualMachineInstanceMigration| {
        it.namespace().as_deref() == Some(vm.namespace)
            && it.spec.vmi_name == vm.name
            && it.metadata.name != wanted.metadata.name
    };
    Ok(Moves {
        own,
        is_ordered: others.clone().any(is_another),
        under_way: others.filter(is_kites).count(),
    })
}

/// Whether the instance was ever moved, so that an order may have been left.
fn has_moved(instance: Option<&VirtualMachineInstance>) -> bool {
    let status = instance.and_then(|it| it.status.as_ref());
    status.is_some_and(|it| it.other.contains_key("migrationState"))
}

/// What to do about the order; it is its turn when nothing else is left to do. Pure.
pub(super) fn step(vm: &Vm<'_>, seen: &Observed) -> Option<Step> {
    let (moves, instance) = (seen.moves.as_ref()?, seen.instance.as_ref()?);
    let wanted = migration::for_resize(vm, instance)?;
    let Some(own) = &moves.own else {
        return may_be_ordered(vm, seen, moves).then(|| Step::Move(Box::new(wanted)));
    };
    let is_ours = standing(&own.metadata, &wanted.metadata) == Standing::Ours;
    let is_due =
        !resize::is_under_way(Some(instance)) || again(own).is_none_or(|it| it <= seen.now);
    // One that is under way is KubeVirt's: deleted, it would be broken off.
    (is_ours && own.is_over() && is_due)
        .then(|| Step::Delete(own.clone().into(), PropagationPolicy::Background))
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
        // It comes off its node by another migration, and has its size by that.
        && drain(instance).is_none()
        && !moves.is_ordered
        && !moves.are_many()
        && seen.move_refused.is_none()
}

/// When time alone calls for something.
pub(super) fn next(seen: &Observed) -> Option<Timestamp> {
    let moves = seen.moves.as_ref()?;
    if !resize::is_under_way(seen.instance.as_ref()) {
        return None;
    }
    if moves.are_many() {
        return seen.now.checked_add(TURN).ok();
    }
    let own = moves.own.as_ref().filter(|own| own.is_over())?;
    again(own).filter(|again| *again > seen.now)
}

/// When there is to be another one in the place of one that is over.
fn again(own: &VirtualMachineInstanceMigration) -> Option<Timestamp> {
    let told: Option<Timestamp> = own.since().and_then(|since| since.parse().ok());
    let made = || own.creation_timestamp().map(|it| it.0);
    told.or_else(made)?.checked_add(PAUSE).ok()
}

#[cfg(test)]
#[path = "moving_tests.rs"]
mod tests;
