//! The orders to move a VM that grows while it runs: whose they are, how far they are, and
//! when there is another.

use std::time::Duration;

use jiff::Timestamp;
use kite_core::{
    kubevirt::{VirtualMachineInstance, VirtualMachineInstanceMigration},
    labels, names,
};
use kite_render::{Vm, migration};
use kube::ResourceExt as _;

use crate::{
    reports,
    standing::{Standing, standing},
};

/// Orders of Kite's in the whole cluster that are under way: as many as `KubeVirt` carries
/// out at a time, by its defaults. Who looks at the same moment may be one more; then
/// `KubeVirt` has that one wait.
const MOST: usize = 5;

/// For how long an order that has not begun counts as one that is about to.
const YOUNG: Duration = Duration::from_secs(60);

/// How often it is tried to move an instance for one change. `KubeVirt` bounds nothing of
/// what it is ordered.
pub(super) const TRIES: u32 = 6;

/// How long after the first migration that came to nothing there is another one; it doubles
/// with each further one. An order that has not begun after as long is called off.
pub(super) const PAUSE: Duration = Duration::from_secs(300);

/// How long an instance that was moved may wait still: for the agent on its node to give it
/// what it has, and for that to be seen.
const SETTLES: Duration = Duration::from_secs(120);

/// What `KubeVirt` says of an order for whose target the namespace's quota has no room.
const REJECTED: &str = "migrationRejectedByResourceQuota";

/// The orders there are.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Moves {
    /// Those of Kite's for the VM, whatever size they were for. What is left of the last one
    /// for a size is the memory of how often it was tried.
    pub own: Vec<VirtualMachineInstanceMigration>,
    /// What others have ordered for the instance and is not over, as `KubeVirt` itself does
    /// for a drain.
    pub foreign: Vec<VirtualMachineInstanceMigration>,
    /// Another VM in the namespace has one of Kite's that is not over.
    pub is_beside: bool,
    /// Those of Kite's for other VMs in the whole cluster that are not over.
    pub others: Vec<VirtualMachineInstanceMigration>,
}

/// How far it is with the orders for the size that an instance is to have now.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Progress<'a> {
    /// There was none.
    Unordered,
    /// That of this number is not over.
    Ordered(u32, &'a VirtualMachineInstanceMigration),
    /// That of this number came to nothing, and another one is due at this time.
    Failed(u32, Timestamp),
    /// It was moved, and should have its size by this time.
    Moved(Timestamp),
    /// So many came to nothing that there is no other.
    GivenUp,
}

impl Moves {
    /// Sorts what was found, for a VM with this instance.
    pub(super) fn of(
        vm: &Vm<'_>,
        instance: Option<&VirtualMachineInstance>,
        found: Vec<VirtualMachineInstanceMigration>,
    ) -> Self {
        let like = vm.metadata(String::new());
        let mut moves = Self::default();
        for order in found {
            let is_here = order.metadata.namespace.as_deref() == Some(vm.namespace);
            let is_ours = || standing(&order.metadata, &like) != Standing::Foreign;
            // Of its name there can be no other.
            let is_named = || instance.is_some_and(|it| number(&order, it).is_some());
            if is_here && (is_ours() || is_named()) {
                moves.own.push(order);
            } else if !order.is_over() {
                let is_kites = is_kites(&order);
                moves.is_beside |= is_here && is_kites;
                if is_here && order.spec.vmi_name == vm.name {
                    moves.foreign.push(order.clone());
                }
                moves.others.extend(is_kites.then_some(order));
            }
        }
        moves
    }

    /// Takes in what came of a step.
    pub(super) fn absorb(&mut self, order: VirtualMachineInstanceMigration, is_gone: bool) {
        self.own
            .retain(|other| other.metadata.name != order.metadata.name);
        self.own.extend((!is_gone).then_some(order));
    }

    /// How far those are for the size that `instance` is to have now.
    pub(super) fn progress(&self, instance: &VirtualMachineInstance) -> Progress<'_> {
        let Some((number, order)) = self.latest(instance) else {
            return Progress::Unordered;
        };
        if !order.is_over() {
            Progress::Ordered(number, order)
        } else if order.has_succeeded() {
            Progress::Moved(after(order, SETTLES))
        } else if number >= TRIES {
            Progress::GivenUp
        } else {
            let doublings = number.saturating_sub(1).min(16);
            Progress::Failed(number, after(order, PAUSE.saturating_mul(1 << doublings)))
        }
    }

    /// Whether `order` is the memory of what was tried for the present size.
    pub(super) fn is_memory(
        &self,
        order: &VirtualMachineInstanceMigration,
        instance: &VirtualMachineInstance,
    ) -> bool {
        let latest = self.latest(instance);
        latest.is_some_and(|(_, latest)| latest.metadata.name == order.metadata.name)
    }

    /// Whether one of Kite's own for the VM is not over, whatever it is for.
    pub(super) fn is_unfinished(&self) -> bool {
        self.own.iter().any(|it| !it.is_over())
    }

    /// Whether the VM is on its way, whoever has ordered that: its instance says so later.
    pub(super) fn has_begun(&self) -> bool {
        let mut all = self.own.iter().chain(&self.foreign);
        all.any(VirtualMachineInstanceMigration::has_begun)
    }

    /// Why what others have ordered for the instance has not begun, as far as it is told or
    /// has lasted.
    pub(super) fn held_up(&self, now: Timestamp) -> Option<String> {
        let late = |order| stuck_at(order).is_some_and(|at| at <= now);
        let minutes = PAUSE.as_secs() / 60;
        let said = self.foreign.iter().find_map(said);
        said.or_else(|| {
            let is_late = self.foreign.iter().any(late);
            is_late.then(|| format!("KubeVirt has not begun with it in {minutes} minutes"))
        })
    }

    /// How many others are to move first; 0 if it is the VM's turn. One that has not begun
    /// for long holds up its own namespace alone.
    pub(super) fn ahead(&self, now: Timestamp) -> usize {
        let others = self.others.iter();
        let under_way = others.filter(|it| it.has_begun() || is_young(it, now));
        let under_way = under_way.count();
        if under_way >= MOST {
            return under_way;
        }
        usize::from(self.is_beside)
    }

    /// The last one for the present size, and its number.
    fn latest(
        &self,
        instance: &VirtualMachineInstance,
    ) -> Option<(u32, &VirtualMachineInstanceMigration)> {
        let numbered = self.own.iter();
        let numbered = numbered.filter_map(|order| Some((number(order, instance)?, order)));
        numbered.max_by_key(|(number, _)| *number)
    }
}

/// The number of an order among those for what `instance` is to have now, if it is one.
fn number(
    order: &VirtualMachineInstanceMigration,
    instance: &VirtualMachineInstance,
) -> Option<u32> {
    let name = order.metadata.name.as_deref()?;
    let first = migration::name_for_resize(instance, 1)?;
    let number = name.strip_prefix(names::change_of_resize(&first))?;
    number.strip_prefix('-')?.parse().ok()
}

fn is_young(order: &VirtualMachineInstanceMigration, now: Timestamp) -> bool {
    made(order).is_some_and(|made| later(made, YOUNG) > now)
}

fn is_kites(order: &VirtualMachineInstanceMigration) -> bool {
    let by = order.labels().get(labels::MANAGED_BY).map(String::as_str);
    by == Some(labels::MANAGED_BY_CONTROLLER)
}

/// When an order was given.
pub(super) fn made(order: &VirtualMachineInstanceMigration) -> Option<Timestamp> {
    order.creation_timestamp().map(|it| it.0)
}

/// When an order that has not begun is to be called off; none of one that has.
pub(super) fn stuck_at(order: &VirtualMachineInstanceMigration) -> Option<Timestamp> {
    let waits = !order.is_over() && !order.has_begun();
    made(order).filter(|_| waits).map(|made| later(made, PAUSE))
}

/// What `KubeVirt` says of an order that has not begun.
pub(super) fn said(order: &VirtualMachineInstanceMigration) -> Option<String> {
    if order.is_over() || order.has_begun() {
        return None;
    }
    let mut conditions = order.status.iter().flat_map(|it| &it.conditions);
    let found = conditions.find(|it| it.status == "True")?;
    Some(match found.type_.as_str() {
        REJECTED => format!("{REJECTED}: the namespace's quota has no room for its target"),
        _ => reports::told(found),
    })
}

/// So long after an order came to its present phase; of one that tells no time, now.
fn after(order: &VirtualMachineInstanceMigration, pause: Duration) -> Timestamp {
    let told: Option<Timestamp> = order.since().and_then(|since| since.parse().ok());
    let since = told.or_else(|| made(order));
    since.map_or(Timestamp::MIN, |since| later(since, pause))
}

fn later(since: Timestamp, pause: Duration) -> Timestamp {
    since.checked_add(pause).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
#[path = "orders_tests.rs"]
mod tests;
