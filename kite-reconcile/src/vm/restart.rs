//! `spec.restartedAt`: one restart for each value, whatever happens on the way.
//!
//! ```text
//! a new value ► note in the status which instance is to end ► ask for the restart
//!             ► until another instance runs
//! ```
//!
//! The note comes first and names the instance by its uid. So whoever comes after
//! a crash or a lost answer can tell whether the restart is still to be done (that
//! instance runs) or was done (another one does, or none). No clock is asked:
//! those of the person, of the controller and of the cluster may differ.

use kite_core::{
    cluster::ObjectKey,
    crd::{KiteVirtualMachine, PowerState, RestartStatus},
    kubevirt::VirtualMachineInstance,
};
use kite_render::Vm;

use super::{hold::power, observe::Observed};
use crate::plan::Step;

/// What to do about a VM's restart.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Restart {
    /// What to note in the status.
    pub status: Option<RestartStatus>,
    /// What to do now.
    pub step: Option<Step>,
    /// Whether it is only noted yet.
    pub pending: bool,
}

/// What to do about the restart that the spec asks for. Pure.
pub(super) fn plan(vm: &Vm<'_>, seen: &Observed) -> Restart {
    let Some(asked) = &vm.object.spec.restarted_at else {
        return Restart::default();
    };
    let Some(status) = &vm.object.status else {
        // Of a VM that was never looked at nothing runs yet; one that was brought
        // back from a backup is not restarted for what was asked long ago.
        return noted(asked, None);
    };
    let running = running(vm, seen);
    let Some(note) = status
        .restart
        .as_ref()
        .filter(|it| it.restarted_at == *asked)
    else {
        return Restart {
            pending: running.is_some(),
            ..noted(asked, running)
        };
    };
    let is_due = running.is_some() && running == note.instance_uid;
    let step = Step::Restart {
        machine: ObjectKey::namespaced(vm.namespace, vm.name),
        instance: running.unwrap_or_default(),
    };
    Restart {
        status: Some(note.clone()),
        step: (is_due && !is_under_way(seen)).then_some(step),
        pending: false,
    }
}

/// Whether the spec asks for a restart of which the status knows nothing yet.
pub(super) fn is_new(vm: &KiteVirtualMachine) -> bool {
    let noted = vm.status.as_ref().and_then(|it| it.restart.as_ref());
    let noted = noted.map(|restart| restart.restarted_at.as_str());
    vm.spec.restarted_at.is_some() && noted != vm.spec.restarted_at.as_deref()
}

fn noted(asked: &str, instance_uid: Option<String>) -> Restart {
    Restart {
        status: Some(RestartStatus {
            restarted_at: asked.to_owned(),
            instance_uid,
        }),
        ..Restart::default()
    }
}

/// The instance that would have to end: of a VM that goes off, or whose instance
/// is ending as it is, there is none.
fn running(vm: &Vm<'_>, seen: &Observed) -> Option<String> {
    if power(vm, seen) == PowerState::Off || seen.machine.is_none() {
        return None;
    }
    let stays = |instance: &&VirtualMachineInstance| {
        let status = instance.status.as_ref();
        let phase = status.and_then(|status| status.phase.as_deref());
        instance.metadata.deletion_timestamp.is_none()
            && !matches!(phase, Some("Succeeded" | "Failed"))
    };
    let instance = seen.instance.as_ref().filter(stays)?;
    instance.metadata.uid.clone()
}

/// Whether the restart was asked for and `KubeVirt` is at it.
fn is_under_way(seen: &Observed) -> bool {
    let status = seen.machine.as_ref().and_then(|it| it.status.as_ref());
    seen.restart_asked || status.is_some_and(|status| !status.state_change_requests.is_empty())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use kite_core::{
        crd::{KiteVirtualMachineSpec, KiteVirtualMachineStatus},
        kubevirt::{
            StateChangeRequest, VirtualMachine, VirtualMachineInstanceStatus, VirtualMachineStatus,
        },
    };

    use super::*;

    const ASKED: &str = "2026-05-04T08:00:00Z";

    fn vm() -> KiteVirtualMachine {
        let size = |text: &str| text.parse().unwrap();
        let spec = KiteVirtualMachineSpec::new(1, size("1Gi"), size("5Gi"), "debian-12", "web");
        let mut vm = KiteVirtualMachine::new("web", spec);
        vm.metadata.namespace = Some("ns".to_owned());
        vm.metadata.uid = Some("u".to_owned());
        vm.spec.restarted_at = Some(ASKED.to_owned());
        vm.status = Some(KiteVirtualMachineStatus::default());
        vm
    }

    fn seen(uid: &str) -> Observed {
        let mut instance = VirtualMachineInstance::default();
        instance.metadata.uid = Some(uid.to_owned());
        instance.status = Some(VirtualMachineInstanceStatus {
            phase: Some("Running".to_owned()),
            ..VirtualMachineInstanceStatus::default()
        });
        Observed {
            machine: Some(VirtualMachine::default()),
            instance: Some(instance),
            ..Observed::default()
        }
    }

    fn planned(vm: &KiteVirtualMachine, seen: &Observed) -> Restart {
        plan(&Vm::of(vm).unwrap(), seen)
    }

    fn note(vm: &mut KiteVirtualMachine, instance: Option<&str>) {
        vm.status.as_mut().unwrap().restart = Some(RestartStatus {
            restarted_at: ASKED.to_owned(),
            instance_uid: instance.map(str::to_owned),
        });
    }

    #[test]
    fn it_is_noted_before_it_is_asked_for() {
        let mut vm = vm();
        let first = planned(&vm, &seen("a"));
        assert_eq!(first.step, None);
        assert!(first.pending);
        assert_eq!(first.status.unwrap().instance_uid.as_deref(), Some("a"));

        note(&mut vm, Some("a"));
        let second = planned(&vm, &seen("a"));
        assert!(matches!(second.step, Some(Step::Restart { instance, .. }) if instance == "a"));
    }

    #[test]
    fn it_is_done_when_the_instance_is_another_or_none() {
        let mut vm = vm();
        note(&mut vm, Some("a"));
        let mut none = seen("a");
        none.instance = None;
        let mut leaving = seen("a");
        leaving
            .instance
            .as_mut()
            .unwrap()
            .metadata
            .deletion_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(
            ASKED.parse().unwrap(),
        ));
        for seen in [&seen("b"), &none, &leaving] {
            let restart = planned(&vm, seen);
            assert_eq!((restart.step, restart.pending), (None, false));
            assert_eq!(
                restart.status.as_ref(),
                vm.status.as_ref().unwrap().restart.as_ref()
            );
        }
    }

    #[test]
    fn it_is_asked_for_once() {
        let mut vm = vm();
        note(&mut vm, Some("a"));
        let mut asked = seen("a");
        asked.restart_asked = true;
        assert_eq!(planned(&vm, &asked).step, None);
        let mut at_it = seen("a");
        at_it.machine.as_mut().unwrap().status = Some(VirtualMachineStatus {
            state_change_requests: vec![StateChangeRequest::default()],
            ..VirtualMachineStatus::default()
        });
        assert_eq!(planned(&vm, &at_it).step, None);
    }

    #[test]
    fn of_a_vm_that_is_off_or_new_there_is_nothing_to_restart() {
        let mut off = vm();
        off.spec.power_state = PowerState::Off;
        let mut new = vm();
        new.status = None;
        for vm in [off, new] {
            let restart = planned(&vm, &seen("a"));
            assert_eq!((restart.step, restart.pending), (None, false));
            assert_eq!(restart.status.unwrap().instance_uid, None);
        }
    }
}
