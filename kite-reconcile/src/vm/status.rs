//! What is reported of a VM.

use kite_core::{
    conditions::{self, ConditionStatus, NewCondition},
    crd::{
        Charge, KiteVirtualMachineStatus, PowerState, VmPhase, VmSize,
        vm_condition::{DISK_READY, READY, RESERVED},
    },
    kubevirt::VirtualMachineInstance,
};
use kite_render::Vm;
use kite_runtime::plan::Urgency;

use super::{
    access, delete,
    disk::{self, FIRST_START},
    draft::Obstacle,
    expiry::Expiry,
    exposed,
    hold::{Hold, power},
    idle::Idleness,
    image, login, lost,
    machine::{self, Judgement, judge},
    observe::Observed,
    offer,
    quota::Share,
    reserved::{self, has_ssh_id},
    resize, run,
};

/// How soon a status is to be written. While a VM is on its way to its first
/// start, disks tell every second how far they are, and `KubeVirt` which step it
/// has taken: that can wait. Where it has arrived, and whether it is reached,
/// cannot; that it will be, can.
pub(super) fn urgency(old: &KiteVirtualMachineStatus, new: &KiteVirtualMachineStatus) -> Urgency {
    let is_on_its_way = |status: &KiteVirtualMachineStatus| {
        matches!(
            status.phase,
            None | Some(VmPhase::Pending | VmPhase::Provisioning | VmPhase::Starting)
        )
    };
    let is_same = old.power_state == new.power_state
        && old.observed_generation == new.observed_generation
        && (old.access == new.access || old.access.is_none())
        && disk::is_blocked(old) == disk::is_blocked(new)
        && charged(old) == charged(new);
    if is_same && is_going(old) && is_going(new) {
        return Urgency::Later;
    }
    if !is_same || !is_on_its_way(old) || !is_on_its_way(new) {
        return Urgency::Now;
    }
    let gist = |status: &KiteVirtualMachineStatus| {
        let conditions = status.conditions.iter();
        let conditions = conditions.map(|it| (it.type_.clone(), it.status.clone()));
        let is_reached = status.access.is_some();
        (status.phase, is_reached, conditions.collect::<Vec<_>>())
    };
    if gist(old) == gist(new) {
        Urgency::Later
    } else {
        Urgency::Soon
    }
}

/// Whether it says no more than what a VM that goes waits for: one that leaves something
/// behind says so, too.
fn is_going(status: &KiteVirtualMachineStatus) -> bool {
    let told = conditions::find(&status.conditions, READY);
    status.phase == Some(VmPhase::Deleting)
        && status.access.is_none()
        && told.is_some_and(|told| told.reason == delete::DELETING)
}

/// What the VM is charged with: that its owner's other VMs have to know.
fn charged(status: &KiteVirtualMachineStatus) -> Charge {
    let of = |size: &Option<VmSize>| size.as_ref().map(Charge::from).unwrap_or_default();
    of(&status.granted).or_more(of(&status.asking))
}

/// The status and its conditions.
pub(super) fn report(
    vm: &Vm<'_>,
    seen: &Observed,
    obstacles: &[Obstacle],
    share: &Share,
) -> (KiteVirtualMachineStatus, Vec<NewCondition>) {
    let power = power(vm, seen);
    let state = lost::disk_state(vm, seen);
    let judgement = judge(power, state, seen);
    let mut conditions = vec![
        reserved::condition(vm, seen),
        image::condition(vm, seen, obstacles),
        disk::condition(vm, seen, state, share),
        run::condition(&judgement, seen, obstacles, share),
    ];
    let held = Hold::told(vm, seen);
    let expiry = Expiry::of(vm.object, seen.now);
    let idle = Idleness::of(vm, seen);
    conditions.insert(0, ready(&conditions, obstacles, &judgement, held.as_ref()));
    conditions.extend(exposed::condition(vm, seen));
    conditions.extend(machine::restart_required(seen));
    conditions.extend(resize::condition(seen));
    conditions.extend(login::condition(vm, seen));
    conditions.extend(offer::condition(vm, seen, obstacles));
    conditions.extend(expiry.as_ref().map(Expiry::condition));
    conditions.extend(idle.as_ref().map(Idleness::condition));

    let instance = seen.instance.as_ref().and_then(Alive::of);
    let status = KiteVirtualMachineStatus {
        observed_generation: None,
        phase: Some(phase(vm, seen, obstacles, &judgement)),
        power_state: Some(if instance.as_ref().is_some_and(|it| it.runs) {
            PowerState::On
        } else {
            PowerState::Off
        }),
        node_name: instance.as_ref().and_then(|it| it.node.clone()),
        ip_address: instance.and_then(|it| it.address),
        disk: disk::status(vm, seen, share),
        granted: share.granted.clone(),
        asking: share.asking.clone(),
        restart: None,
        access: access::status(vm, seen),
        guest_key: login::guest_key(vm, seen),
        expiry: expiry.and_then(|expiry| expiry.status()),
        idle: idle.and_then(|idle| idle.status()),
        conditions: Vec::new(),
        unreadable: None,
    };
    (status, conditions)
}

fn phase(vm: &Vm<'_>, seen: &Observed, obstacles: &[Obstacle], judgement: &Judgement) -> VmPhase {
    if let Some(obstacle) = obstacles.first() {
        return obstacle.phase;
    }
    if seen.disk.is_none() && !has_ssh_id(seen) && lost::loss(vm, seen).is_none() {
        return reserved::phase_without(seen);
    }
    judgement.phase
}

fn ready(
    others: &[NewCondition],
    obstacles: &[Obstacle],
    judgement: &Judgement,
    held: Option<&Hold>,
) -> NewCondition {
    if let Some(hold) = held {
        return hold.ready();
    }
    let is_flaw = |condition: &&NewCondition| match condition.type_ {
        // A disk that waits for the first start is no flaw of a VM that is off.
        DISK_READY if judgement.phase == VmPhase::Stopped => condition.reason.starts_with("DiskL"),
        // Why that does not come is said by the machine.
        DISK_READY if judgement.phase == VmPhase::Failed && condition.reason == FIRST_START => {
            false
        }
        _ => condition.status != ConditionStatus::True,
    };
    // What stands in the way says more than what has not come of it.
    let in_the_way = obstacles.iter().map(|obstacle| &obstacle.condition);
    let reserved = others.iter().filter(|other| other.type_ == RESERVED);
    let flaw = reserved.chain(in_the_way).chain(others).find(is_flaw);
    match flaw {
        Some(flaw) => NewCondition {
            type_: READY,
            status: ConditionStatus::False,
            ..flaw.clone()
        },
        None => NewCondition::new(
            READY,
            true,
            judgement.reason.clone(),
            judgement.message.clone(),
        ),
    }
}

/// What is reported of an instance that has not ended.
struct Alive {
    runs: bool,
    node: Option<String>,
    address: Option<String>,
}

impl Alive {
    fn of(instance: &VirtualMachineInstance) -> Option<Self> {
        let status = instance.status.as_ref()?;
        let phase = status.phase.as_deref();
        if matches!(phase, Some("Succeeded" | "Failed")) {
            return None;
        }
        Some(Self {
            runs: phase == Some("Running"),
            node: status.node_name.clone(),
            address: status
                .interfaces
                .iter()
                .find_map(|interface| interface.ip_address.clone()),
        })
    }
}
