//! A VM whose spec, or whose platform's settings, cannot be read, or what only its status
//! tells: it stays as it is, and is switched off when it has to be. Nothing is made for it,
//! and nothing of it is deleted unless it is.

use kite_core::{
    conditions::NewCondition,
    crd::{
        KiteVirtualMachine, KiteVirtualMachineStatus, PowerState, VmPhase,
        vm_condition::{
            ACCESSIBLE, DISK_READY, EXPOSED, IDLE, IMAGE_READY, OFFER_CLAIMED, READY, RESERVED,
            RESIZING, RESTART_REQUIRED, RESTORED, SNAPSHOTS_SCHEDULED, VIRTUAL_MACHINE_READY,
        },
    },
    kubevirt::VirtualMachine,
};
use kite_render::{Vm, machine};

use super::{
    disks::{Known, View},
    expiry::Expiry,
    hold::{Hold, judged_power, power},
    image::hardware,
    judge::judge,
    lost,
    machine::keep_disk,
    observe::Observed,
    plan::until_next_deadline,
    restore,
};
use crate::{
    plan::{Change, Plan, Step},
    platform,
    stage::RESYNC,
    standing::{Standing, guarded, standing},
    unreadable::{as_before, unreadable},
};

/// What is said of a VM beside `Ready` and its end.
const OTHERS: [&str; 12] = [
    RESERVED,
    IMAGE_READY,
    DISK_READY,
    VIRTUAL_MACHINE_READY,
    RESTART_REQUIRED,
    RESIZING,
    EXPOSED,
    IDLE,
    ACCESSIBLE,
    OFFER_CLAIMED,
    RESTORED,
    SNAPSHOTS_SCHEDULED,
];

/// What to do about a VM of which `why` says what cannot be read.
pub(super) fn plan(vm: &Vm<'_>, seen: &Observed, why: &str) -> Plan<KiteVirtualMachineStatus> {
    let mut ready = unreadable(READY, "the VM", why);
    if why.contains("spec.expiresAt") {
        let end = "it does not expire, for nobody knows its end, and stays on or off as it is";
        ready.message = format!("{}; {end}", ready.message);
    }
    let mut plan = kept(vm, seen, ready, VmPhase::Failed);
    // What it had of an offer it does not have again once it can be read.
    plan.conditions.extend(told(vm, [OFFER_CLAIMED]));
    plan
}

/// What the VM said of these before.
fn told(vm: &Vm<'_>, types: impl IntoIterator<Item = &'static str>) -> Vec<NewCondition> {
    let status = vm.object.status.as_ref();
    let told = status.map(|status| status.conditions.as_slice());
    as_before(told.unwrap_or_default(), types)
}

/// What to do about a sound VM while, as `why` says, not all of the platform's settings can
/// be read: what its own spec and its owner's ask for, as far as nothing is made for it.
pub(super) fn plan_beside(
    vm: &Vm<'_>,
    seen: &Observed,
    why: &str,
) -> Plan<KiteVirtualMachineStatus> {
    let old = vm.object.status.as_ref().and_then(|status| status.phase);
    let phase = old.unwrap_or(VmPhase::Pending);
    let mut plan = kept(vm, seen, platform::waits(READY, why), phase);
    plan.conditions.extend(told(vm, OTHERS));
    // All that it says of its end can be read.
    if Expiry::of(vm.object, seen.now).is_some_and(|expiry| expiry.is_due()) {
        plan.steps = vec![Step::DeleteSelf];
    }
    plan
}

/// Leaves the VM as it is, unless it has to be off. `ready`: what it says of itself;
/// `unmade`: the phase of one without a machine.
fn kept(
    vm: &Vm<'_>,
    seen: &Observed,
    ready: NewCondition,
    unmade: VmPhase,
) -> Plan<KiteVirtualMachineStatus> {
    let expiry = Expiry::of(vm.object, seen.now);
    let machine = seen.machine.as_ref().filter(|machine| {
        standing(&machine.metadata, &vm.metadata(vm.name.to_owned())) == Standing::Ours
    });
    let disk = lost::disk_state(vm, seen);
    let power = power(vm, seen);
    let phase = match machine {
        Some(_) => judge(judged_power(vm, seen), disk, seen).phase,
        None => unmade,
    };
    let is_on = seen.instance.is_some() && phase != VmPhase::Stopped;
    let status = KiteVirtualMachineStatus {
        phase: Some(phase),
        power_state: Some(if is_on {
            PowerState::On
        } else {
            PowerState::Off
        }),
        expiry: expiry.as_ref().and_then(Expiry::status),
        conditions: Vec::new(),
        ..vm.object.status.clone().unwrap_or_default()
    };
    let mut conditions = vec![beside_hold(vm, seen, ready)];
    conditions.extend(expiry.as_ref().map(Expiry::condition));
    let off = machine.filter(|machine| power == PowerState::Off && may_run(machine));
    let off = off.map(|machine| switch_off(vm, seen, machine));
    let kept = seen.own_disk(vm).and_then(|it| restore::keep(vm, it, None));
    Plan {
        steps: off.into_iter().chain(kept).collect(),
        status,
        conditions,
        requeue_after: RESYNC.min(until_next_deadline(vm, seen)),
    }
}

fn beside_hold(vm: &Vm<'_>, seen: &Observed, mut ready: NewCondition) -> NewCondition {
    if let Some(hold) = Hold::told(vm, seen) {
        ready.message = format!("{}; besides, {}", ready.message, hold.ready().message);
    }
    ready
}

fn may_run(machine: &VirtualMachine) -> bool {
    machine.spec.run_strategy.as_deref() != Some("Halted")
}

/// The machine as it is, but off.
fn switch_off(vm: &Vm<'_>, seen: &Observed, stored: &VirtualMachine) -> Step {
    let object = sized_as(vm.object, stored);
    let vm = Vm {
        object: &object,
        ..*vm
    };
    let mut desired = machine::virtual_machine_for(&vm, hardware(seen), PowerState::Off);
    let view = View::of(&vm, Known::of(seen));
    keep_disk(&mut desired, &view, seen);
    if seen.platform.unreadable.is_none() {
        machine::ask(&mut desired, &seen.platform.nameservers);
    } else {
        // Whom it asks for names is not changed by what stands for settings.
        let (asks, asked) = (&mut desired.spec.template.spec, &stored.spec.template.spec);
        asks.dns_policy.clone_from(&asked.dns_policy);
        asks.dns_config.clone_from(&asked.dns_config);
    }
    Step::Change(Change::Apply(guarded(&desired, Some(stored)).into()))
}

/// The VM with the CPUs and the memory that its machine has.
fn sized_as(object: &KiteVirtualMachine, machine: &VirtualMachine) -> KiteVirtualMachine {
    let mut object = object.clone();
    let domain = &machine.spec.template.spec.domain;
    if let Some(cpu) = domain.cpu.as_ref().and_then(|cpu| cpu.sockets) {
        object.spec.cpu = cpu;
    }
    let memory = domain.memory.as_ref().and_then(|it| it.guest.as_ref());
    if let Some(memory) = memory.and_then(|it| it.0.parse().ok()) {
        object.spec.memory = memory;
    }
    object
}
