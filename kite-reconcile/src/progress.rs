//! How far objects are on their way, by which those that are begun go first.

use kite_core::crd::{KiteVirtualMachine, VmPhase};
use kite_runtime::queue::Progress;

/// How far a VM is.
pub(crate) fn of_vm(vm: &KiteVirtualMachine) -> Progress {
    if vm.metadata.deletion_timestamp.is_some() {
        return Progress::AtRest;
    }
    match vm.status.as_ref().map(|status| status.phase) {
        None => Progress::New,
        Some(None | Some(VmPhase::Provisioning | VmPhase::Starting)) => Progress::InProgress,
        // Whoever waits for a person or for room may do so for long.
        Some(Some(
            VmPhase::Pending
            | VmPhase::Running
            | VmPhase::Migrating
            | VmPhase::Paused
            | VmPhase::Stopping
            | VmPhase::Stopped
            | VmPhase::Deleting
            | VmPhase::Failed,
        )) => Progress::AtRest,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use kite_core::crd::{KiteVirtualMachineSpec, KiteVirtualMachineStatus};

    use super::*;

    #[test]
    fn a_vm_is_new_until_its_status_says_otherwise() {
        let spec = KiteVirtualMachineSpec::new(
            1,
            "1Gi".parse().unwrap(),
            "9Gi".parse().unwrap(),
            "debian-12",
            "web",
        );
        let mut vm = KiteVirtualMachine::new("web", spec);
        assert_eq!(of_vm(&vm), Progress::New);
        let mut with = |phase| {
            vm.status = Some(KiteVirtualMachineStatus {
                phase,
                ..KiteVirtualMachineStatus::default()
            });
            of_vm(&vm)
        };
        assert_eq!(with(None), Progress::InProgress);
        assert_eq!(with(Some(VmPhase::Provisioning)), Progress::InProgress);
        assert_eq!(with(Some(VmPhase::Running)), Progress::AtRest);
        assert_eq!(with(Some(VmPhase::Pending)), Progress::AtRest);
        vm.status = None;
        vm.metadata.deletion_timestamp = Some(
            k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(jiff::Timestamp::UNIX_EPOCH),
        );
        assert_eq!(of_vm(&vm), Progress::AtRest, "it goes");
    }
}
