//! What is reported of a VM.

use kite_core::{
    conditions::{self, ConditionStatus, NewCondition},
    crd::{
        AccessStatus, Charge, Claim, DiskStatus, KiteVirtualMachineStatus, PowerState, VmPhase,
        VmSize,
        vm_condition::{DISK_READY, IMAGE_READY, READY, RESERVED, VIRTUAL_MACHINE_READY},
    },
    kubevirt::VirtualMachineInstance,
    names,
    quantity::Bytes,
};
use kite_render::{Vm, exposure};

use super::{
    blockers, delete,
    expiry::Expiry,
    exposed,
    growth::{Growth, growth},
    hold::{Hold, power},
    idle::Idleness,
    login, lost,
    machine::{self, DiskState, Judgement, judge},
    observe::{ImageSeen, Observed},
    offer,
    plan::{Obstacle, claim_size},
    quota::{self, Field, Share},
    remake, resize,
    volume::Overhead,
};
use kite_runtime::plan::Urgency;

use crate::claims::{ClaimState, WantedClaim, holder_text};

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
        && is_blocked(old) == is_blocked(new)
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

/// Reason of `DiskReady` where CDI says what is in its way.
const CLONE_BLOCKED: &str = "CloneBlocked";

/// Whether somebody has to do something for the disk to go on.
fn is_blocked(status: &KiteVirtualMachineStatus) -> bool {
    let told = conditions::find(&status.conditions, DISK_READY);
    told.is_some_and(|told| told.reason == CLONE_BLOCKED)
}

/// What the VM is charged with: that its owner's other VMs have to know.
fn charged(status: &KiteVirtualMachineStatus) -> Charge {
    let of = |size: &Option<VmSize>| size.as_ref().map(Charge::from).unwrap_or_default();
    of(&status.granted).or_more(of(&status.asking))
}

/// Whether the VM has its login name.
pub(super) fn has_ssh_id(seen: &Observed) -> bool {
    has(seen, Claim::SshId)
}

/// Whether the VM has the domain that its spec asks for.
pub(super) fn has_domain(seen: &Observed) -> bool {
    has(seen, Claim::Domain)
}

fn has(seen: &Observed, claim: Claim) -> bool {
    wanted(seen, claim).is_some_and(WantedClaim::is_mine)
}

fn wanted(seen: &Observed, claim: Claim) -> Option<&WantedClaim> {
    seen.claims
        .wanted
        .iter()
        .find(|wanted| wanted.wanted.spec.claim == claim)
}

/// Whether the claim is kept for somebody else.
fn is_kept_from(seen: &Observed, claim: Claim) -> bool {
    wanted(seen, claim).is_some_and(|it| match &it.state {
        ClaimState::Kept(kept) => seen.claims.is_kept_from(kept, &it.wanted),
        _ => false,
    })
}

/// The status and its conditions.
pub(super) fn report(
    vm: &Vm<'_>,
    seen: &Observed,
    obstacles: &[Obstacle],
    share: &Share,
) -> (KiteVirtualMachineStatus, Vec<NewCondition>) {
    let power = power(vm, seen);
    let disk = lost::disk_state(vm, seen);
    let judgement = judge(power, disk, seen);
    let mut conditions = vec![
        reserved(vm, seen),
        image_ready(vm, seen, obstacles),
        disk_ready(vm, seen, disk, share),
        machine_ready(&judgement, seen, obstacles, share),
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
        disk: disk_status(vm, seen, share),
        granted: share.granted.clone(),
        asking: share.asking.clone(),
        restart: None,
        access: access(vm, seen),
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
        return match wanted(seen, Claim::SshId).map(|claim| &claim.state) {
            Some(ClaimState::Kept(_)) if !is_kept_from(seen, Claim::SshId) => VmPhase::Pending,
            Some(ClaimState::Held { .. } | ClaimState::Kept(_) | ClaimState::Reserved(_)) => {
                VmPhase::Failed
            }
            Some(ClaimState::Free | ClaimState::Mine(_)) | None => VmPhase::Pending,
        };
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

fn reserved(vm: &Vm<'_>, seen: &Observed) -> NewCondition {
    let spec = &vm.object.spec;
    for wanted in &seen.claims.wanted {
        let (field, value, taken, kept, remedy) = match wanted.wanted.spec.claim {
            Claim::Domain => (
                "spec.domainPrefix",
                spec.domain_prefix.as_deref().unwrap_or_default(),
                "DomainTaken",
                "DomainKept",
                "choose another; the VM itself is not affected",
            ),
            Claim::SshId | Claim::Username | Claim::Email | Claim::Identity | Claim::Offer => (
                "spec.sshId",
                spec.ssh_id.as_str(),
                "SshIdTaken",
                "SshIdKept",
                "create the VM with another sshId, or wait until it is free",
            ),
        };
        match &wanted.state {
            ClaimState::Mine(_) => {}
            ClaimState::Kept(claim) if is_kept_from(seen, wanted.wanted.spec.claim) => {
                let name = claim.metadata.name.as_deref().unwrap_or_default();
                let until = claim.spec.kept.as_ref().map(|it| it.until.0.to_string());
                let until = until.unwrap_or_default();
                return NewCondition::new(
                    RESERVED,
                    false,
                    kept,
                    format!(
                        "{field} {value:?} is kept until {until} for whoever had it before, unless \
                         an administrator releases it (kubectl delete kitereservation {name}): \
                         {remedy}"
                    ),
                );
            }
            ClaimState::Reserved(why) => {
                let message = format!("{field} {value:?} {why}");
                return NewCondition::new(RESERVED, false, "DomainReserved", message);
            }
            ClaimState::Free | ClaimState::Kept(_) => {
                return NewCondition::new(
                    RESERVED,
                    false,
                    "Reserving",
                    format!("{field} {value:?} is being reserved"),
                );
            }
            ClaimState::Held { reservation, .. } => {
                let holder = holder_text(&reservation.spec.holder);
                return NewCondition::new(
                    RESERVED,
                    false,
                    taken,
                    format!("{field} {value:?} is taken by {holder}: {remedy}"),
                );
            }
        }
    }
    NewCondition::new(RESERVED, true, "Reserved", "its names belong to the VM")
}

fn image_ready(vm: &Vm<'_>, seen: &Observed, obstacles: &[Obstacle]) -> NewCondition {
    if let Some(condition) = obstacle(obstacles, IMAGE_READY) {
        return condition;
    }
    let image = &vm.object.spec.image;
    if seen.own_disk(vm).is_some() || lost::loss(vm, seen).is_some() {
        return NewCondition::new(
            IMAGE_READY,
            true,
            "Cloned",
            format!("the disk is made from {image}"),
        );
    }
    match (&seen.image, has_ssh_id(seen)) {
        (ImageSeen::Found(_), true) => NewCondition::new(
            IMAGE_READY,
            true,
            "Ready",
            format!("image {image} is ready"),
        ),
        (ImageSeen::Unknown { .. }, _) | (_, false) => NewCondition::new(
            IMAGE_READY,
            ConditionStatus::Unknown,
            "Waiting",
            "the image is looked at once the VM has its login name",
        ),
    }
}

fn disk_ready(vm: &Vm<'_>, seen: &Observed, state: DiskState, share: &Share) -> NewCondition {
    let status = seen.own_disk(vm).and_then(|disk| disk.status.as_ref());
    let phase = status.and_then(|s| s.phase.as_deref()).unwrap_or("Pending");
    let progress = status
        .and_then(|s| s.progress.as_deref())
        .filter(|progress| *progress != "N/A")
        .map(|progress| format!(", {progress}"))
        .unwrap_or_default();
    let image = &vm.object.spec.image;
    if let Some(lost) = lost::condition(vm, seen, share.has_disk.as_ref()) {
        return lost;
    }
    if let Some(why) = &seen.growth_refused {
        let size = wanted_disk(vm, share);
        return NewCondition::new(
            DISK_READY,
            false,
            "GrowthRefused",
            format!(
                "the disk cannot grow to {size}: {why}; it keeps its size, and an administrator \
                 must look at its StorageClass and quota"
            ),
        );
    }
    let refused = share.refusal(&[Field::Disk]);
    if let Some(why) = refused.filter(|_| share.has_disk.is_some()) {
        return NewCondition::new(DISK_READY, false, "QuotaExceeded", why);
    }
    let of_claim = || seen.claim.as_ref().and_then(blockers::of_claim);
    let blocked = seen.own_disk(vm).and_then(blockers::of_disk);
    match (state, blocked.or_else(of_claim)) {
        (DiskState::Filling | DiskState::WaitingForStart, Some(words)) => NewCondition::new(
            DISK_READY,
            false,
            CLONE_BLOCKED,
            format!(
                "the disk cannot be made from {image} as it stands, which CDI tries again and \
                 again ({words}): {}",
                remake::remedy(vm, seen)
            ),
        ),
        (DiskState::Missing | DiskState::Lost, _) => {
            NewCondition::new(DISK_READY, false, "NotMade", "the disk is not made yet")
        }
        (DiskState::Filling, None) => NewCondition::new(
            DISK_READY,
            false,
            "Cloning",
            format!("the disk is being cloned from {image} ({phase}{progress})"),
        ),
        (DiskState::WaitingForStart, None) => NewCondition::new(
            DISK_READY,
            false,
            "WaitingForStart",
            "the disk is filled when the VM is first started",
        ),
        (DiskState::Filled, _) => filled(vm, seen, share),
        (DiskState::Failed, words) => {
            let reason = words
                .or_else(|| status?.conditions.iter().rev().find_map(blockers::words_of))
                .unwrap_or_else(|| "CDI gives no reason".to_owned());
            NewCondition::new(
                DISK_READY,
                false,
                "CloneFailed",
                format!("the disk could not be cloned from {image}: {reason}"),
            )
        }
    }
}

/// Of a disk that is filled and may be growing. The guest is given the new size
/// while it runs; its partitions grow at its next boot.
fn filled(vm: &Vm<'_>, seen: &Observed, share: &Share) -> NewCondition {
    let size = wanted_disk(vm, share);
    let overhead = quota::overhead(vm, seen).unwrap_or_default();
    // What was asked for may do, and be less than what would be asked for now.
    let asked = seen.claim.as_ref().and_then(claim_size);
    let asked = asked.filter(|asked| overhead.has_room(asked, size));
    let of_claim = asked.unwrap_or_else(|| overhead.claim_for(size));
    let storage = seen.claim.as_ref().and_then(blockers::of_claim);
    let growth = seen.claim.as_ref().map(|claim| growth(claim, &of_claim));
    match (growth, storage) {
        (None | Some(Growth::Done), Some(words)) => NewCondition::new(
            DISK_READY,
            true,
            "DiskWithFault",
            format!(
                "the disk can be used, and storage says: {words}; an administrator must look at \
                 its PersistentVolumeClaim {}",
                names::disk(vm.name)
            ),
        ),
        (None | Some(Growth::Done), None) => {
            // Somebody took back what it was just growing by.
            let too_large = share.has_disk.as_ref();
            let too_large = too_large.filter(|has| **has > vm.object.spec.disk);
            let message = match too_large {
                Some(has) => format!(
                    "the disk is ready, with {has}, which is more than spec.disk says: disks \
                     do not become smaller"
                ),
                None => "the disk is ready".to_owned(),
            };
            NewCondition::new(DISK_READY, true, "Filled", message)
        }
        (Some(Growth::Going(what)), storage) => {
            let storage = storage.map(|words| format!("; storage says: {words}"));
            let storage = storage.unwrap_or_default();
            let message = format!("the disk can be used, and grows to {size}: {what}{storage}");
            NewCondition::new(DISK_READY, true, "Growing", message)
        }
        (Some(Growth::Failed(why)), _) => NewCondition::new(
            DISK_READY,
            false,
            "GrowthFailed",
            format!(
                "the disk does not grow to {size}: {why}; it can be used with the size it has, \
                 and an administrator must look at its PersistentVolumeClaim {}",
                names::disk(vm.name)
            ),
        ),
    }
}

/// The size that the disk is to have now.
fn wanted_disk<'a>(vm: &Vm<'a>, share: &'a Share) -> &'a Bytes {
    share.size.disk.as_ref().unwrap_or(&vm.object.spec.disk)
}

fn machine_ready(
    judgement: &Judgement,
    seen: &Observed,
    obstacles: &[Obstacle],
    share: &Share,
) -> NewCondition {
    if let Some(condition) = obstacle(obstacles, VIRTUAL_MACHINE_READY) {
        return condition;
    }
    let refused = share.refusal(&quota::MACHINE);
    if let Some(why) = refused.filter(|_| seen.machine.is_some()) {
        return NewCondition::new(VIRTUAL_MACHINE_READY, false, "QuotaExceeded", why);
    }
    if seen.machine.is_none() && judgement.status == ConditionStatus::True {
        return NewCondition::new(
            VIRTUAL_MACHINE_READY,
            false,
            "NotMade",
            "the VirtualMachine is not made yet",
        );
    }
    NewCondition {
        type_: VIRTUAL_MACHINE_READY,
        status: judgement.status,
        reason: judgement.reason.clone(),
        message: judgement.message.clone(),
    }
}

fn obstacle(obstacles: &[Obstacle], type_: &str) -> Option<NewCondition> {
    let found = obstacles.iter().find(|it| it.condition.type_ == type_)?;
    Some(found.condition.clone())
}

fn disk_status(vm: &Vm<'_>, seen: &Observed, share: &Share) -> Option<DiskStatus> {
    let told = vm.object.status.as_ref().and_then(|it| it.disk.clone());
    let Some(disk) = seen.own_disk(vm) else {
        // What is lost is told of until there is another.
        return told.filter(|_| lost::loss(vm, seen).is_some());
    };
    let status = disk.status.as_ref();
    let overhead = quota::overhead(vm, seen).map(Overhead::text);
    let of_this = told.filter(|told| told.uid.is_none() || told.uid == disk.metadata.uid);
    Some(DiskStatus {
        name: names::disk(vm.name),
        uid: lost::uid(vm, seen).map(str::to_owned),
        filesystem_overhead: overhead.or_else(|| of_this?.filesystem_overhead),
        size: share.has_disk.clone(),
        phase: status.and_then(|status| status.phase.clone()),
        progress: status.and_then(|status| status.progress.clone()),
    })
}

/// How the VM is reached: nobody gets in by a login name that is not the VM's.
fn access(vm: &Vm<'_>, seen: &Observed) -> Option<AccessStatus> {
    // Nobody is sent to what belongs to somebody else.
    exposed::own(vm, seen.access_service.as_ref())?;
    exposed::own(vm, seen.key_secret.as_ref())?;
    if !has_ssh_id(seen) {
        return None;
    }
    Some(AccessStatus {
        service: names::access_service(vm.name),
        key_secret: names::ssh_key_secret(vm.name),
        ssh_command: ssh_command(&vm.object.spec.ssh_id, seen),
        domain: exposure::host(vm, &seen.platform)
            .filter(|_| has_domain(seen) && exposed::is_made(vm, seen)),
    })
}

/// The command that logs in, if it is known where the gateway is.
fn ssh_command(ssh_id: &str, seen: &Observed) -> Option<String> {
    let platform = &seen.platform;
    let host = platform.host_of_users(&seen.gateway_addresses)?;
    Some(match platform.gateway.port_of_users(seen.gateway_port)? {
        22 => format!("ssh {ssh_id}@{host}"),
        port => format!("ssh -p {port} {ssh_id}@{host}"),
    })
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
