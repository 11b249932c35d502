//! What of a user's quota a VM is charged with.

use super::{
    KiteVirtualMachine, KiteVirtualMachineSpec, KiteVirtualMachineStatus, Quota, VmPhase, VmSize,
};
use crate::quantity::Bytes;

/// CPUs, memory and disk, to be summed up and compared with a quota.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Charge {
    /// Virtual CPUs.
    pub cpu: u64,
    /// Memory in bytes.
    pub memory: u64,
    /// Disk in bytes.
    pub disk: u64,
}

impl Charge {
    /// Of both together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        self.with(other, u64::saturating_add)
    }

    /// What is left without the other's.
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        self.with(other, u64::saturating_sub)
    }

    /// The larger of both, each field for itself.
    #[must_use]
    pub fn or_more(self, other: Self) -> Self {
        self.with(other, u64::max)
    }

    fn with(self, other: Self, both: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            cpu: both(self.cpu, other.cpu),
            memory: both(self.memory, other.memory),
            disk: both(self.disk, other.disk),
        }
    }
}

impl From<&VmSize> for Charge {
    fn from(size: &VmSize) -> Self {
        let bytes = |bytes: &Option<Bytes>| bytes.as_ref().map_or(0, Bytes::bytes);
        Self {
            cpu: size.cpu.unwrap_or_default().into(),
            memory: bytes(&size.memory),
            disk: bytes(&size.disk),
        }
    }
}

impl From<&KiteVirtualMachineSpec> for Charge {
    fn from(spec: &KiteVirtualMachineSpec) -> Self {
        Self {
            cpu: spec.cpu.into(),
            memory: spec.memory.bytes(),
            disk: spec.disk.bytes(),
        }
    }
}

impl From<&Quota> for Charge {
    fn from(quota: &Quota) -> Self {
        Self {
            cpu: quota.cpu.into(),
            memory: quota.memory.bytes(),
            disk: quota.disk.bytes(),
        }
    }
}

impl KiteVirtualMachine {
    /// What the VM is charged with for good, as its status says: not with what it
    /// asks for in vain. One whose status was written before it told so is
    /// charged with what it asks for, if it was made.
    pub fn granted_charge(&self) -> Charge {
        let granted = self.status.as_ref().and_then(|it| it.granted.as_ref());
        match granted {
            Some(granted) => granted.into(),
            None if self.is_charged_by_spec() => (&self.spec).into(),
            None => Charge::default(),
        }
    }

    /// Whether only the spec tells what the VM has: it was made before its status
    /// told of what it was granted.
    fn is_charged_by_spec(&self) -> bool {
        self.status.as_ref().is_some_and(|status| {
            status.granted.is_none() && status.asking.is_none() && status.disk.is_some()
        })
    }

    /// Whether it is known what the VM is charged with. Of one whose spec cannot be
    /// read its status tells, unless that was written before it told so, or cannot be read
    /// in what it tells of this.
    pub fn has_known_charge(&self) -> bool {
        let is_unread = self.status.as_ref().is_some_and(|status| {
            let unread = |field| status.unreadable.as_ref().is_some_and(|it| it.keeps(field));
            let is_untold = status.granted.is_none() && status.asking.is_none();
            unread("granted") || unread("asking") || (unread("disk") && is_untold)
        });
        !is_unread && (self.spec.unreadable.is_none() || !self.is_charged_by_spec())
    }

    /// What the VM is charged with: what it was granted, and what it is about to
    /// be granted.
    pub fn charge(&self) -> Charge {
        let asking = self.status.as_ref().and_then(|it| it.asking.as_ref());
        let asking = asking.map(Charge::from).unwrap_or_default();
        self.granted_charge().or_more(asking)
    }

    /// What the VM is to be reckoned with by whoever asks for something now: what
    /// it is charged with; and what it asks for, unless its status speaks of that
    /// and did not grant it. Nothing is reckoned with that can be had no more: of what
    /// cannot be read, or is being deleted.
    pub fn expected_charge(&self) -> Charge {
        let status = self.status.as_ref();
        let is_answered = status.is_some_and(|status| {
            status.observed_generation == self.metadata.generation
                && (status.granted.is_some() || is_refused(status))
        });
        let asks_no_more =
            self.unreadable().is_some() || self.metadata.deletion_timestamp.is_some();
        if is_answered || asks_no_more {
            self.charge()
        } else {
            self.charge().or_more(Charge::from(&self.spec))
        }
    }
}

/// Whether the VM gets nothing of what it asks for: until a person does something,
/// nothing is made of it. So it is of one that is kept off and was never made, too.
fn is_refused(status: &KiteVirtualMachineStatus) -> bool {
    let is_at_rest = matches!(status.phase, Some(VmPhase::Failed | VmPhase::Stopped));
    is_at_rest && status.disk.is_none() && status.asking.is_none()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::crd::{DiskStatus, KiteVirtualMachineStatus};

    fn vm() -> KiteVirtualMachine {
        let (memory, disk) = ("2Gi".parse().unwrap(), "10Gi".parse().unwrap());
        let spec = KiteVirtualMachineSpec::new(4, memory, disk, "debian-12", "web");
        KiteVirtualMachine::new("web", spec)
    }

    #[test]
    fn a_vm_is_charged_with_what_it_has_and_not_with_what_it_wants() {
        let mut vm = vm();
        assert_eq!(vm.charge(), Charge::default());
        let status = vm.status.insert(KiteVirtualMachineStatus::default());
        status.asking = Some(VmSize {
            cpu: Some(3),
            memory: None,
            disk: None,
        });
        assert_eq!((vm.charge().cpu, vm.granted_charge().cpu), (3, 0));
        vm.status.as_mut().unwrap().granted = Some(VmSize {
            cpu: Some(2),
            memory: Some("1Gi".parse().unwrap()),
            disk: None,
        });
        let charge = vm.charge();
        assert_eq!((charge.cpu, charge.memory, charge.disk), (3, 1 << 30, 0));
        assert_eq!(vm.granted_charge().cpu, 2);
        // It wants 4, and nobody has said yet whether it gets them.
        vm.metadata.generation = Some(2);
        assert_eq!(vm.expected_charge().cpu, 4);
        vm.status.as_mut().unwrap().observed_generation = Some(2);
        assert_eq!(vm.expected_charge().cpu, 3);
    }

    #[test]
    fn what_was_refused_is_not_reckoned_with() {
        let mut vm = vm();
        vm.metadata.generation = Some(1);
        assert_eq!(vm.expected_charge().cpu, 4, "nobody has looked at it yet");
        let status = vm.status.insert(KiteVirtualMachineStatus {
            phase: Some(VmPhase::Pending),
            observed_generation: Some(1),
            ..KiteVirtualMachineStatus::default()
        });
        status.observed_generation = Some(1);
        assert_eq!(
            vm.expected_charge().cpu,
            4,
            "it asks when its image is there"
        );
        for phase in [VmPhase::Stopped, VmPhase::Failed] {
            vm.status.as_mut().unwrap().phase = Some(phase);
            assert_eq!(vm.expected_charge(), Charge::default(), "{phase:?}");
        }
        vm.status.as_mut().unwrap().asking = Some(VmSize {
            cpu: Some(3),
            ..VmSize::default()
        });
        assert_eq!(vm.expected_charge().cpu, 4, "it is asking");
        vm.status.as_mut().unwrap().asking = None;
        vm.metadata.generation = Some(2);
        assert_eq!(vm.expected_charge().cpu, 4, "it was edited since");
        vm.spec.unreadable = Some("spec.cpu".to_owned());
        assert_eq!(vm.expected_charge(), Charge::default());
    }

    #[test]
    fn what_a_vm_has_that_cannot_be_read_its_status_tells() {
        let mut vm = vm();
        vm.spec.unreadable = Some("spec.cpu".to_owned());
        assert!(vm.has_known_charge());
        let status = vm.status.insert(KiteVirtualMachineStatus::default());
        assert!(status.granted.is_none());
        status.disk = Some(DiskStatus::default());
        assert!(!vm.has_known_charge(), "made before the status told of it");
        vm.status.as_mut().unwrap().granted = Some(VmSize {
            cpu: Some(2),
            ..VmSize::default()
        });
        assert!(vm.has_known_charge());
        assert_eq!(vm.expected_charge().cpu, 2);
    }

    #[test]
    fn one_that_was_made_before_this_was_told_is_charged_with_its_spec() {
        let mut vm = vm();
        vm.status.insert(KiteVirtualMachineStatus::default()).disk = Some(DiskStatus::default());
        assert_eq!(vm.charge(), Charge::from(&vm.spec));
    }
}
