//! The volumes of a VM: disks apart from it, of which it has each alone.
//!
//! That it has one is a reservation, made before anything else is, and given back when neither
//! the machine nor what runs has the disk any more. Only then another VM may have it. Should
//! somebody delete the reservation meanwhile, or an earlier request come late, the disk itself is
//! looked at once it is claimed and before it is given, as the API server knows all of that: a
//! disk that two guests write to is lost.

use std::time::Duration;

use futures::try_join;
use kite_core::{
    cluster::{Cluster, ClusterError, ClusterExt as _, ObjectKey},
    conditions::{self, NewCondition},
    crd::{
        KiteReservation, KiteVolume, OsFamily, VmPhase, VolumePhase, vm_condition::VOLUMES_ATTACHED,
    },
    kubevirt::{VirtualMachine, VirtualMachineInstance, Volume},
    names::{self, VmClaim},
};
use kite_render::{Vm, volume as render};
use kube::{ResourceExt as _, api::ListParams};

use super::{
    draft::{Obstacle, SOON, VmDraft},
    image::hardware,
    observe::Observed,
};
use crate::{
    claims::{ClaimState, Claims, holder_text},
    stage::Stage,
};

/// When to look again at what was claimed only now.
const AT_ONCE: Duration = Duration::from_secs(1);

/// Why a VM that runs does not have a volume yet.
pub(super) const AT_NEXT_START: &str = "AttachedAtNextStart";

/// A volume that the spec lists.
#[derive(Clone, Debug, Default)]
pub struct VolumeSeen {
    /// Its name.
    pub name: String,
    /// The volume, if there is one.
    pub object: Option<KiteVolume>,
    /// The machine that has its disk, other than the VM's own; only looked at before the VM's gets
    /// it.
    pub used_by: Option<String>,
    /// Whether the VM has claimed it only after that was looked at.
    pub is_just_claimed: bool,
}

/// Looks at the volumes that the spec lists.
pub(super) async fn look<C: Cluster>(
    vm: &Vm<'_>,
    claims: &Claims,
    machine: Option<&VirtualMachine>,
    cluster: &C,
) -> Result<Vec<VolumeSeen>, ClusterError> {
    let listed = &vm.object.spec.volumes;
    if listed.is_empty() || vm.object.metadata.deletion_timestamp.is_some() {
        return Ok(Vec::new());
    }
    let mut all = Vec::new();
    for it in listed {
        let key = ObjectKey::namespaced(vm.namespace, &*it.volume);
        all.push(VolumeSeen {
            name: it.volume.clone(),
            object: cluster.get_opt(&key).await?,
            ..VolumeSeen::default()
        });
    }
    let is_new = |it: &VolumeSeen| {
        let is_attached = machine.is_some_and(|machine| has_disk(machine, &it.name));
        !is_attached && is_mine(claims, vm, &it.name) && unusable(vm, it).is_none()
    };
    if !all.iter().any(is_new) {
        return Ok(all);
    }
    let namespace = || Some(vm.namespace.to_owned());
    let list = ListParams::default();
    // What runs may still have what its machine has no more.
    let machines = cluster.list::<VirtualMachine>(namespace(), &list);
    let instances = cluster.list::<VirtualMachineInstance>(namespace(), &list);
    let (machines, instances) = try_join!(machines, instances)?;
    let machines = machines.complete()?.into_iter();
    let machines = machines.map(|it| (it.name_any(), it.spec.template.spec.volumes));
    let instances = instances.complete()?.into_iter();
    let instances = instances.map(|it| (it.name_any(), it.spec.volumes));
    let others = machines
        .chain(instances)
        .filter(|(name, _)| name != vm.name);
    let others: Vec<_> = others.collect();
    for it in all.iter_mut().filter(|it| is_new(it)) {
        let disk = names::volume_disk(&it.name);
        let user = others.iter().find(|(_, volumes)| uses(volumes, &disk));
        it.used_by = user.map(|(name, _)| name.clone());
    }
    Ok(all)
}

fn uses(volumes: &[Volume], disk: &str) -> bool {
    volumes.iter().any(|it| {
        let by_name = it.data_volume.as_ref().map(|it| &it.name);
        let by_claim = it.persistent_volume_claim.as_ref().map(|it| &it.claim_name);
        [by_name, by_claim]
            .into_iter()
            .flatten()
            .any(|it| it == disk)
    })
}

/// Whether the plan gives a machine a volume that it has not.
pub(super) fn attaches(desired: &VirtualMachine, stored: Option<&VirtualMachine>) -> bool {
    let mut volumes = render::attached(&desired.spec.template.spec.volumes);
    volumes.any(|it| !stored.is_some_and(|stored| has_disk(stored, it)))
}

fn has_disk(machine: &VirtualMachine, volume: &str) -> bool {
    let volumes = &machine.spec.template.spec.volumes;
    uses(volumes, &names::volume_disk(volume))
}

/// Whether the machine, or what runs of it, has the volume that a reservation stands for.
pub(super) fn has(seen: &Observed, claim: &KiteReservation) -> bool {
    let name = claim.metadata.name.as_deref().unwrap_or_default();
    let Some(VmClaim::Volume { volume, .. }) = names::vm_claim_of_reservation(name) else {
        return false;
    };
    let machine = seen.machine.as_ref();
    let instance = seen.instance.as_ref();
    // One that is to come may be as the machine was before.
    let is_between = is_started(seen) && instance.is_none();
    is_between
        || machine.is_some_and(|it| has_disk(it, volume))
        || instance.is_some_and(|it| uses(&it.spec.volumes, &names::volume_disk(volume)))
}

/// Why the VM cannot have a volume: a reason and a sentence.
type Reason = (&'static str, String);

/// Why the VM cannot have the volume for now.
fn lack(vm: &Vm<'_>, seen: &Observed, it: &VolumeSeen) -> Option<Reason> {
    let name = &it.name;
    if let Some(why) = unclaimed(vm, seen, name).or_else(|| unusable(vm, it)) {
        return Some(why);
    }
    if it.is_just_claimed {
        let message = format!("spec.volumes: KiteVolume {name} is looked at once more");
        return Some(("VolumeNotReady", message));
    }
    let other = it.used_by.as_ref()?;
    let message = format!(
        "spec.volumes: VirtualMachine {other} has the disk of KiteVolume {name}: it must let go \
         of it first"
    );
    Some(("VolumeBusy", message))
}

/// Why nobody can have the volume for now.
fn unusable(vm: &Vm<'_>, it: &VolumeSeen) -> Option<Reason> {
    let name = &it.name;
    let Some(volume) = &it.object else {
        let message = format!(
            "spec.volumes: there is no KiteVolume {name} in namespace {}: create it, or take it \
             out",
            vm.namespace
        );
        return Some(("VolumeMissing", message));
    };
    if volume.metadata.deletion_timestamp.is_some() {
        let message = format!(
            "spec.volumes: KiteVolume {name} is being deleted, which waits until this VM does not \
             list it any more: take it out"
        );
        return Some(("VolumeDeleted", message));
    }
    let status = volume.status.as_ref();
    let told = status.and_then(|it| conditions::find(&it.conditions, "Ready"));
    let told = told.map_or("it is new", |it| it.message.as_str());
    match status.and_then(|it| it.phase) {
        Some(VolumePhase::Available | VolumePhase::Attached) => None,
        Some(VolumePhase::Lost) => {
            let message = format!("spec.volumes: KiteVolume {name} has lost its data: {told}");
            Some(("VolumeLost", message))
        }
        _ => {
            let message = format!("spec.volumes: KiteVolume {name} is not ready: {told}");
            Some(("VolumeNotReady", message))
        }
    }
}

fn is_mine(claims: &Claims, vm: &Vm<'_>, name: &str) -> bool {
    matches!(state(claims, vm, name), Some(ClaimState::Mine(_)))
}

/// How the VM's claim to the volume stands.
fn state<'a>(claims: &'a Claims, vm: &Vm<'_>, name: &str) -> Option<&'a ClaimState> {
    let claim = names::volume_reservation(vm.namespace, name);
    let mut all = claims.wanted.iter();
    let found = all.find(|it| it.wanted.metadata.name.as_ref() == Some(&claim));
    found.map(|it| &it.state)
}

/// Has those be looked at once more that were claimed only now.
pub(super) fn claimed(seen: &mut Observed, claim: &KiteReservation) {
    let name = claim.metadata.name.as_deref().unwrap_or_default();
    if let Some(VmClaim::Volume { volume, .. }) = names::vm_claim_of_reservation(name)
        && let Some(it) = seen.volumes.iter_mut().find(|it| it.name == volume)
    {
        it.is_just_claimed = true;
    }
}

/// Why the volume is not the VM's.
fn unclaimed(vm: &Vm<'_>, seen: &Observed, name: &str) -> Option<Reason> {
    match state(&seen.claims, vm, name) {
        Some(ClaimState::Mine(_)) => None,
        Some(ClaimState::Held { reservation, .. }) => {
            let holder = holder_text(&reservation.spec.holder);
            let message = format!(
                "spec.volumes: {holder} has KiteVolume {name}: take it out of that VM's \
                 spec.volumes, and stop or restart that VM if it runs"
            );
            Some(("VolumeBusy", message))
        }
        _ => {
            let message = format!("spec.volumes: KiteVolume {name} is being reserved");
            Some(("VolumeNotReady", message))
        }
    }
}

/// Why the VM cannot have the first of those that it cannot have.
fn first_lack(vm: &Vm<'_>, seen: &Observed) -> Option<Reason> {
    let mut all = seen.volumes.iter();
    all.find_map(|it| lack(vm, seen, it))
}

/// Whether the machine is to run by what `KubeVirt` was told last.
fn is_started(seen: &Observed) -> bool {
    let machine = seen.machine.as_ref();
    machine.is_some_and(|it| it.spec.run_strategy.as_deref() != Some("Halted"))
}

/// Why the VM is not started: without what its owner keeps on a volume its guest would begin
/// anew. One that runs goes on.
pub(super) fn hold(vm: &Vm<'_>, seen: &Observed) -> Option<NewCondition> {
    if is_started(seen) {
        return None;
    }
    let (reason, message) = first_lack(vm, seen)?;
    let message = format!("{message}; the VM starts once it has its volumes");
    Some(NewCondition::new(VOLUMES_ATTACHED, false, reason, message))
}

/// Why the machine of a VM that has none yet is not made.
pub(super) fn obstacle(vm: &Vm<'_>, seen: &Observed) -> Option<Obstacle> {
    let condition = hold(vm, seen)?;
    let (reason, message) = (&condition.reason, condition.message.clone());
    let phase = VmPhase::Pending;
    Some(Obstacle::new(VOLUMES_ATTACHED, phase, reason, message))
}

/// Gives the machine the volumes that the VM can have. One that runs keeps what it has.
pub(super) fn attach(desired: &mut VirtualMachine, vm: &Vm<'_>, seen: &Observed) {
    for it in &seen.volumes {
        let has = seen.machine.as_ref().is_some_and(|m| has_disk(m, &it.name));
        let keeps = has && is_started(seen) && unclaimed(vm, seen, &it.name).is_none();
        if keeps || lack(vm, seen, it).is_none() {
            render::attach(desired, vm, &it.name);
        }
    }
}

/// Tells whether the VM has its volumes. Goes by `volumes`, `claims`, `machine`, `instance` and
/// `image`.
pub(super) struct Volumes;

impl Stage<VmDraft<'_>> for Volumes {
    fn condition(&self, draft: &VmDraft<'_>) -> Option<NewCondition> {
        let (vm, seen) = (draft.vm, draft.seen);
        if vm.object.spec.volumes.is_empty() {
            return None;
        }
        let told = |holds, reason, message: String| {
            NewCondition::new(VOLUMES_ATTACHED, holds, reason, message)
        };
        if let Some((reason, message)) = first_lack(vm, seen) {
            return Some(told(false, reason, message));
        }
        let names: Vec<_> = seen.volumes.iter().map(|it| it.name.as_str()).collect();
        let instance = seen.instance.as_ref();
        let lacks = |name: &&&str| {
            let disk = names::volume_disk(name);
            instance.is_some_and(|it| !uses(&it.spec.volumes, &disk))
        };
        let lacking: Vec<_> = names.iter().filter(lacks).copied().collect();
        if !lacking.is_empty() {
            let message = format!(
                "the VM gets its volumes when it starts next: restart it ({})",
                lacking.join(", ")
            );
            return Some(told(false, AT_NEXT_START, message));
        }
        let mut listed = vm.object.spec.volumes.iter();
        let is_unmounted =
            hardware(seen) == OsFamily::Windows && listed.any(|it| it.path.is_some());
        let unmounted = if is_unmounted {
            "; spec.volumes[].path is not for Windows: give the disk a letter there"
        } else {
            ""
        };
        let message = format!("the VM has {}{unmounted}", names.join(", "));
        Some(told(true, "Attached", message))
    }

    fn look_again(&self, draft: &VmDraft<'_>) -> Option<Duration> {
        let all = || draft.seen.volumes.iter();
        let at_once = all().any(|it| it.is_just_claimed).then_some(AT_ONCE);
        // What other machines have, no watch tells.
        let soon = || all().any(|it| it.used_by.is_some()).then_some(SOON);
        at_once.or_else(soon)
    }
}
