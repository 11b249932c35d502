//! Whether a VM fits into its owner's quota.
//!
//! The number of VMs, and what pods and claims ask for, is bounded by the API
//! server itself (see [`kite_render::quota`]). This is for people: a VM that
//! cannot fit is told so before anything is made of it.

use kite_core::{
    crd::{KiteVirtualMachine, Quota},
    quantity::Bytes,
};
use kite_render::Vm;

use super::observe::Observed;

/// Why the VM does not fit, for people.
pub(super) fn excess(vm: &Vm<'_>, seen: &Observed) -> Option<String> {
    let owner = seen.owner.as_ref()?;
    let quota = owner.spec.effective_quota();
    let before = seen
        .siblings
        .iter()
        .filter(|other| other.metadata.uid.as_deref() != Some(vm.uid))
        .filter(|other| comes_first(other, vm.object));
    let mut sum = Sum::default();
    before.for_each(|other| sum.add(other));
    sum.add(vm.object);
    let (field, used, most) = sum.over(&quota)?;
    Some(format!(
        "{field}: with this VM the user's VMs would have {used} together, and the quota is \
         {most}: delete others or make them smaller, or ask an administrator for more"
    ))
}

/// Whether `other` has its share before `vm` has: it has been made already, or
/// is older. All VMs agree on that order, so two that come at once do not both
/// take the last of it.
fn comes_first(other: &KiteVirtualMachine, vm: &KiteVirtualMachine) -> bool {
    let made = other
        .status
        .as_ref()
        .is_some_and(|status| status.disk.is_some());
    let age = |vm: &KiteVirtualMachine| {
        let created = vm.metadata.creation_timestamp.as_ref().map(|time| time.0);
        (created, vm.metadata.name.clone())
    };
    made || age(other) < age(vm)
}

#[derive(Default)]
struct Sum {
    cpu: u64,
    memory: u64,
    disk: u64,
}

impl Sum {
    fn add(&mut self, vm: &KiteVirtualMachine) {
        self.cpu = self.cpu.saturating_add(u64::from(vm.spec.cpu));
        self.memory = self.memory.saturating_add(vm.spec.memory.bytes());
        self.disk = self.disk.saturating_add(vm.spec.disk.bytes());
    }

    /// The first field that is over its quota: its path, what there would be,
    /// and what there may be.
    fn over(&self, quota: &Quota) -> Option<(&'static str, String, String)> {
        if self.cpu > u64::from(quota.cpu) {
            return Some(("spec.cpu", cpus(self.cpu), cpus(u64::from(quota.cpu))));
        }
        let bytes = |field, used: u64, most: &Bytes| {
            (used > most.bytes()).then(|| (field, gibibytes(used), most.to_string()))
        };
        bytes("spec.memory", self.memory, &quota.memory)
            .or_else(|| bytes("spec.disk", self.disk, &quota.disk))
    }
}

fn cpus(count: u64) -> String {
    format!("{count} CPUs")
}

/// In tenths of a gibibyte, rounded up.
fn gibibytes(bytes: u64) -> String {
    let tenths = (u128::from(bytes) * 10).div_ceil(1 << 30);
    match tenths % 10 {
        0 => format!("{}Gi", tenths / 10),
        tenth => format!("{}.{tenth}Gi", tenths / 10),
    }
}
