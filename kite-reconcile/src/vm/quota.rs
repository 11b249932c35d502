//! Whether a VM fits into its owner's quota.
//!
//! The number of VMs, and what pods and claims ask for, is bounded by the API
//! server itself (see [`kite_render::quota`]), with room for what making VMs
//! takes. This keeps to the quota itself: a VM that cannot fit is told so before
//! anything is made of it, and one that is there stays as it is when its spec asks
//! for more than there is.

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kite_core::{
    cdi::DataVolume,
    crd::{KiteVirtualMachine, Quota},
    kubevirt::{Domain, VirtualMachine},
    quantity::Bytes,
};
use kite_render::Vm;

use super::{observe::Observed, plan::disk_size};

/// Why the VM does not fit, for people.
pub(super) fn excess(vm: &Vm<'_>, seen: &Observed) -> Option<String> {
    let owner = seen.owner.as_ref()?;
    if let Some(why) = unjudged(seen) {
        return Some(why);
    }
    let quota = owner.spec.effective_quota();
    let mut sum = Sum::of(others(vm, seen).filter(|other| comes_first(other, vm.object)));
    sum.add(vm.object);
    let (field, used, most) = sum.over(&quota)?;
    Some(format!(
        "{field}: with this VM the user's VMs would have {used} together, and the quota is \
         {most}: delete others or make them smaller, or ask an administrator for more"
    ))
}

/// Why it cannot be told what is left of the quota, for people.
fn unjudged(seen: &Observed) -> Option<String> {
    let unread = seen.unreadable_siblings.first()?;
    Some(format!(
        "what is left of the quota is not known, since KiteVirtualMachine {unread}"
    ))
}

/// What a VM asks for beyond what it has got.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Asked {
    cpu: bool,
    memory: bool,
    disk: bool,
}

impl Asked {
    /// Compares a spec with what there is of the VM; of what is not there
    /// nothing is said.
    pub(super) fn of(
        object: &KiteVirtualMachine,
        machine: Option<&VirtualMachine>,
        disk: Option<&DataVolume>,
        claim: Option<&PersistentVolumeClaim>,
    ) -> Self {
        let domain = machine.map(|machine| &machine.spec.template.spec.domain);
        let (cpu, memory) = (domain.and_then(sockets), domain.and_then(guest_memory));
        let spec = &object.spec;
        Self {
            cpu: cpu.is_some_and(|has| spec.cpu > has),
            memory: memory.is_some_and(|has| spec.memory > has),
            disk: granted_disk(disk, claim).is_some_and(|has| spec.disk > has),
        }
    }

    /// Whether it asks for anything more.
    pub(super) fn is_any(self) -> bool {
        self.cpu || self.memory || self.disk
    }
}

/// What a VM that is there asks for and may not have, each with the reason for
/// people.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Refusal {
    cpu: Option<String>,
    memory: Option<String>,
    /// Why the disk keeps its size.
    pub disk: Option<String>,
}

impl Refusal {
    /// Judges what the VM asks for beside *all* others of its owner, made or not:
    /// of several that ask for more at once none may have what another was
    /// promised.
    pub(super) fn of(vm: &Vm<'_>, seen: &Observed) -> Self {
        let (machine, disk) = (seen.machine.as_ref(), seen.disk.as_ref());
        let asked = Asked::of(vm.object, machine, disk, seen.claim.as_ref());
        let Some(owner) = seen.owner.as_ref().filter(|_| asked.is_any()) else {
            return Self::default();
        };
        if let Some(why) = unjudged(seen) {
            let refused = |is_asked: bool| is_asked.then(|| why.clone());
            return Self {
                cpu: refused(asked.cpu),
                memory: refused(asked.memory),
                disk: refused(asked.disk),
            };
        }
        let (spec, quota) = (&vm.object.spec, owner.spec.effective_quota());
        let used = Sum::of(others(vm, seen));
        let mut all = used;
        all.add(vm.object);
        let bytes = |field, asks: &Bytes, used, all, most: &Bytes| {
            (all > most.bytes()).then(|| {
                refusal(
                    field,
                    &asks.to_string(),
                    &gibibytes(used),
                    &most.to_string(),
                )
            })
        };
        let cpu = |count: u32| cpus(u64::from(count));
        let too_many = asked.cpu && all.cpu > u64::from(quota.cpu);
        let memory = bytes(
            "spec.memory",
            &spec.memory,
            used.memory,
            all.memory,
            &quota.memory,
        );
        let disk = bytes("spec.disk", &spec.disk, used.disk, all.disk, &quota.disk);
        Self {
            cpu: too_many
                .then(|| refusal("spec.cpu", &cpu(spec.cpu), &cpus(used.cpu), &cpu(quota.cpu))),
            memory: memory.filter(|_| asked.memory),
            disk: disk.filter(|_| asked.disk),
        }
    }

    /// Why the machine keeps its size.
    pub(super) fn machine(&self) -> Option<&str> {
        self.cpu.as_deref().or(self.memory.as_deref())
    }

    /// Whether anything is refused.
    pub(super) fn is_any(&self) -> bool {
        self.machine().is_some() || self.disk.is_some()
    }

    /// Leaves of `desired` as it is in `stored` what may not grow.
    pub(super) fn keep(&self, desired: &mut VirtualMachine, stored: Option<&VirtualMachine>) {
        let Some(stored) = stored else { return };
        let stored = &stored.spec.template.spec.domain;
        let desired = &mut desired.spec.template.spec.domain;
        if let (Some(cpu), Some(has)) = (&mut desired.cpu, sockets(stored))
            && self.cpu.is_some()
        {
            cpu.sockets = Some(has);
        }
        if let (Some(memory), Some(has)) = (&mut desired.memory, &stored.memory)
            && self.memory.is_some()
        {
            memory.guest.clone_from(&has.guest);
        }
    }
}

fn refusal(field: &str, asks: &str, used: &str, most: &str) -> String {
    format!(
        "{field}: the VM asks for {asks}, the user's other VMs have {used}, and the quota is \
         {most}: the VM stays as it is; ask for less, delete others or make them smaller, or ask \
         an administrator for more"
    )
}

fn sockets(domain: &Domain) -> Option<u32> {
    domain.cpu.as_ref()?.sockets
}

fn guest_memory(domain: &Domain) -> Option<Bytes> {
    domain.memory.as_ref()?.guest.as_ref()?.0.parse().ok()
}

/// The size that the disk was asked to have: by its claim, which may have grown.
fn granted_disk(disk: Option<&DataVolume>, claim: Option<&PersistentVolumeClaim>) -> Option<Bytes> {
    let of_claim = || {
        let resources = claim?.spec.as_ref()?.resources.as_ref()?;
        let size = resources.requests.as_ref()?.get("storage")?;
        size.0.parse().ok()
    };
    let disk = disk?;
    of_claim().or_else(|| disk_size(disk))
}

fn others<'a>(
    vm: &Vm<'a>,
    seen: &'a Observed,
) -> impl Iterator<Item = &'a KiteVirtualMachine> + use<'a> {
    let uid = vm.uid;
    let siblings = seen.siblings.iter();
    siblings.filter(move |other| other.metadata.uid.as_deref() != Some(uid))
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

#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    cpu: u64,
    memory: u64,
    disk: u64,
}

impl Sum {
    fn of<'a>(vms: impl Iterator<Item = &'a KiteVirtualMachine>) -> Self {
        let mut sum = Self::default();
        vms.for_each(|vm| sum.add(vm));
        sum
    }

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
