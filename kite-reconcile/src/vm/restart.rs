//! `spec.restartedAt`: one restart for each value, whatever happens on the way.
//!
//! ```text
//! a new value ► note in the status which instance is to end, and that one asks
//!             ► ask for the restart ► until another instance runs
//! ```
//!
//! The note comes first and names the instance by its uid. So whoever comes after
//! a crash or a lost answer can tell whether the restart is still to be done (that
//! instance runs) or was done (another one does, or none). The value itself is
//! compared with no clock: those of the person, of the controller and of the
//! cluster may differ.
//!
//! `KubeVirt` is asked by the name of the VM, without a uid: who asks late would
//! end the instance that the restart has begun. So only who wrote the note asks,
//! which the API server grants to one; another does if nothing came of it for
//! [`ASK_AGAIN`].

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kite_core::{
    cluster::ObjectKey,
    conditions::NewCondition,
    crd::{KiteVirtualMachine, KiteVirtualMachineStatus, PowerState, RestartStatus},
    kubevirt::VirtualMachineInstance,
};
use kite_render::Vm;

use super::{
    draft::{SOON, Seen, VmDraft},
    hold::power,
    judge,
    observe::Observed,
};
use crate::{
    plan::{Change, Step},
    stage::{Flow, Stage},
};

/// Tells what a restart would change. Goes by `machine` and `instance`.
pub(super) struct Required;

impl Stage<VmDraft<'_>> for Required {
    fn condition(&self, draft: &VmDraft<'_>) -> Option<NewCondition> {
        judge::restart_required(draft.seen)
    }
}

/// The restart that the spec asks for, when nothing else is left to do. Goes by `machine`,
/// `instance`, `restart_asked`, and what says whether the VM is to be on: `owner`, `activity`
/// and `now`.
pub(super) struct Restarting;

impl Stage<VmDraft<'_>> for Restarting {
    fn plan(&self, draft: &mut VmDraft<'_>) -> Flow {
        let restart = plan(draft.vm, draft.seen, draft.steps.is_empty());
        draft.restart = restart.status;
        draft.steps.extend(restart.step);
        // A restart gives it its size, too.
        let restarts = draft.seen.restart_asked || restart.again.is_some();
        if restarts { Flow::Stop } else { Flow::Next }
    }

    fn report(&self, draft: &VmDraft<'_>, status: &mut KiteVirtualMachineStatus) {
        status.restart.clone_from(&draft.restart);
    }

    fn look_again(&self, draft: &VmDraft<'_>) -> Option<Duration> {
        // It may have been refused, of which no watch tells.
        draft.seen.restart_asked.then_some(SOON)
    }

    fn deadline(&self, (vm, seen): &Seen<'_>) -> Option<Timestamp> {
        // When who noted that it asks has had its time.
        plan(vm, seen, true).again
    }
}

/// How long who has noted that it asks for a restart is let ask: longer than a
/// request is waited for.
const ASK_AGAIN: Duration = Duration::from_secs(30);

/// What to do about a VM's restart.
#[derive(Debug, Default, PartialEq)]
struct Restart {
    /// What to note in the status.
    pub status: Option<RestartStatus>,
    /// What to do now.
    pub step: Option<Step>,
    /// When to look whether anything came of what was asked.
    pub again: Option<Timestamp>,
}

/// What is noted of a restart while its turn has not come.
pub(super) fn noted(vm: &Vm<'_>, seen: &Observed) -> Option<RestartStatus> {
    plan(vm, seen, false).status
}

/// What to do about the restart that the spec asks for; it is its turn when
/// nothing else is left to do. Pure.
fn plan(vm: &Vm<'_>, seen: &Observed, is_its_turn: bool) -> Restart {
    let Some(asked) = &vm.object.spec.restarted_at else {
        return Restart::default();
    };
    let running = running(vm, seen);
    let fresh = |instance_uid| RestartStatus {
        restarted_at: asked.clone(),
        instance_uid,
        asked_at: None,
    };
    let note = match &vm.object.status {
        // Of a VM that was never looked at nothing runs yet; one that was brought
        // back from a backup is not restarted for what was asked long ago.
        None => fresh(None),
        Some(status) => match &status.restart {
            Some(note) if note.restarted_at == *asked => note.clone(),
            Some(_) | None => fresh(running.clone()),
        },
    };
    let is_due = running.is_some() && running == note.instance_uid;
    if !is_due || !is_its_turn || is_under_way(seen) {
        return Restart {
            status: Some(note),
            ..Restart::default()
        };
    }
    if let Some(again) = others_turn(&note, seen.now) {
        return Restart {
            status: Some(note),
            again: Some(again),
            step: None,
        };
    }
    Restart {
        status: Some(RestartStatus {
            asked_at: Some(Time(seen.now)),
            ..note
        }),
        step: Some(Step::Change(Change::Restart {
            machine: ObjectKey::namespaced(vm.namespace, vm.name),
            instance: running.unwrap_or_default(),
        })),
        again: None,
    }
}

/// Until when who noted that it asks may ask; none if that is over. A time that is
/// as far ahead is of a clock that differs.
fn others_turn(note: &RestartStatus, now: Timestamp) -> Option<Timestamp> {
    let asked_at = note.asked_at.as_ref()?.0;
    let passed = now.duration_since(asked_at).unsigned_abs();
    let left = ASK_AGAIN.checked_sub(passed)?;
    (!left.is_zero()).then(|| now + left)
}

/// Whether the spec asks for a restart of which the status knows nothing yet.
pub(super) fn is_new(vm: &KiteVirtualMachine) -> bool {
    let noted = vm.status.as_ref().and_then(|it| it.restart.as_ref());
    let noted = noted.map(|restart| restart.restarted_at.as_str());
    vm.spec.restarted_at.is_some() && noted != vm.spec.restarted_at.as_deref()
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
    use crate::vm::Made;

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
            made: Made {
                machine: Some(VirtualMachine::default()),
                ..Made::default()
            },
            instance: Some(instance),
            ..Observed::default()
        }
    }

    fn planned(vm: &KiteVirtualMachine, seen: &Observed) -> Restart {
        plan(&Vm::of(vm).unwrap(), seen, true)
    }

    fn note(vm: &mut KiteVirtualMachine, instance: Option<&str>) {
        vm.status.as_mut().unwrap().restart = Some(RestartStatus {
            restarted_at: ASKED.to_owned(),
            instance_uid: instance.map(str::to_owned),
            asked_at: None,
        });
    }

    /// What is seen so long after the epoch.
    fn seen_at(seconds: i64, uid: &str) -> Observed {
        Observed {
            now: Timestamp::from_second(seconds).unwrap(),
            ..seen(uid)
        }
    }

    #[test]
    fn what_is_noted_goes_with_what_is_asked() {
        let mut vm = vm();
        let seen = seen_at(1_000, "a");
        let first = planned(&vm, &seen);
        assert!(
            matches!(&first.step, Some(Step::Change(Change::Restart { instance, .. })) if instance == "a")
        );
        let told = first.status.unwrap();
        assert_eq!(told.instance_uid.as_deref(), Some("a"));
        assert_eq!(told.asked_at, Some(Time(seen.now)));

        // Until the rest is done it is only noted which instance is meant.
        let waiting = plan(&Vm::of(&vm).unwrap(), &seen, false);
        assert_eq!(waiting.step, None);
        let told = waiting.status.unwrap();
        assert_eq!(told.instance_uid.as_deref(), Some("a"));
        assert_eq!(told.asked_at, None);
        vm.status.as_mut().unwrap().restart = Some(told);
        assert!(planned(&vm, &seen).step.is_some());
    }

    #[test]
    fn who_did_not_note_it_asks_only_when_nothing_came_of_it() {
        let mut vm = vm();
        let asked = planned(&vm, &seen_at(1_000, "a"));
        vm.status.as_mut().unwrap().restart = asked.status;
        for (now, again) in [(1_000, 30), (1_029, 1), (971, 1)] {
            let restart = planned(&vm, &seen_at(now, "a"));
            assert_eq!(restart.step, None, "at {now}");
            let again = Timestamp::from_second(now + again).unwrap();
            assert_eq!(restart.again, Some(again));
            assert_eq!(restart.status, vm.status.as_ref().unwrap().restart);
        }
        // Long enough, or by another clock altogether.
        for now in [1_030, 5_000, 970, 1] {
            let restart = planned(&vm, &seen_at(now, "a"));
            assert!(restart.step.is_some(), "at {now}");
            let told = restart.status.unwrap().asked_at.unwrap();
            assert_eq!(told.0.as_second(), now);
        }
        let restarted = planned(&vm, &seen_at(1_001, "b"));
        assert_eq!((restarted.step, restarted.again), (None, None));
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
            assert_eq!((restart.step, restart.again), (None, None));
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
        at_it.made.machine.as_mut().unwrap().status = Some(VirtualMachineStatus {
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
            assert_eq!((restart.step, restart.again), (None, None));
            assert_eq!(restart.status.unwrap().instance_uid, None);
        }
    }
}
