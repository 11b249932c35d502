//! How a VM goes: first nobody reaches it, then nobody moves it, then it stops, then its
//! disk goes, and its names are free last.

use std::time::Duration;

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Secret};
use kite_core::{
    cdi::DataVolume,
    cluster::Object,
    conditions::{self, NewCondition},
    crd::{KiteVirtualMachine, KiteVirtualMachineStatus, VmPhase, VmSize, vm_condition},
    kubevirt::VirtualMachineInstanceMigration,
    labels::VM_FINALIZER,
    names,
};
use kite_render::{Vm, exposure, restore::DiskNotes};
use kube::{ResourceExt as _, api::PropagationPolicy};

use super::{observe::Observed, offer, snapshots};
use crate::{
    objects::AnyObject,
    plan::{Change, Plan, Step},
    stage::RESYNC,
    standing::{Standing, standing},
};

/// Annotation in which cert-manager says for which Certificate it made a Secret.
const CERTIFICATE_NAME: &str = "cert-manager.io/certificate-name";

/// Annotation of cert-manager on Secrets that it made: the hosts, with commas between.
const ALT_NAMES: &str = "cert-manager.io/alt-names";

/// Why a VM that goes is not ready.
pub(super) const DELETING: &str = "Deleting";

/// Why a VM that goes leaves something behind.
const SECRETS_LEFT: &str = "SecretsLeft";

/// When to look again at what is on its way out; most of it is watched too.
const LOOK_AGAIN: Duration = Duration::from_secs(3);

/// The same of snapshots.
const LOOK_SELDOM: Duration = Duration::from_secs(20);

/// Whether a step for a VM that goes may be taken by what caches say: that it goes is
/// final, and the step deletes by its uid what is the VM's own. Whoever looked at the
/// VM after it was to go makes nothing for it any more. What is judged by what is *not*
/// there any more has to be certain: the disk may go when nothing writes to it, and the
/// names when nothing is left.
pub(super) fn may_be_old(object: &KiteVirtualMachine, seen: &Observed, step: &Step) -> bool {
    let Step::Change(Change::Delete(what, _)) = step else {
        return false;
    };
    let may_be_old = match what {
        AnyObject::Ingress(_)
        | AnyObject::HttpRoute(_)
        | AnyObject::Service(_)
        | AnyObject::VirtualMachine(_)
        | AnyObject::VirtualMachineInstanceMigration(_) => true,
        // Whether the VM has had its offer is judged by the disk, too.
        AnyObject::DataVolume(_) => {
            seen.is_surely_off && (object.spec.offer.is_none() || offer::is_noted(object))
        }
        // Not what others have made of it, such as a certificate.
        AnyObject::Secret(secret) => {
            let mut owners = secret.metadata.owner_references.iter().flatten();
            let is_its = |uid: &String| object.metadata.uid.as_ref() == Some(uid);
            seen.is_surely_off
                && owners.any(|owner| owner.controller == Some(true) && is_its(&owner.uid))
        }
        _ => false,
    };
    may_be_old && object.metadata.deletion_timestamp.is_some()
}

/// What to do about a VM that is to go.
pub(super) fn plan(vm: &Vm<'_>, seen: &Observed) -> Plan<KiteVirtualMachineStatus> {
    let (steps, waiting_for) = next(vm, seen);
    let mut message = format!("waiting for {} to go", waiting_for.unwrap_or("nothing"));
    let are_next = waiting_for == Some(Teardown::Snapshots.words());
    let kept = are_next.then(|| snapshots::kept(vm, seen));
    let kept = kept.filter(|kept| steps.is_empty() && !kept.is_empty());
    let copied = are_next.then(|| snapshots::copied(vm, seen));
    let copied = copied.filter(|copied| steps.is_empty() && !copied.is_empty());
    let reason = if let Some(kept) = kept {
        message = format!(
            "the VM is off, and its disk stays for the snapshots that are to be kept, {}: it \
             goes with the last of them; take spec.keepUntil away and set spec.protected to \
             false, and they go with the VM",
            kept.join(", ")
        );
        snapshots::KEPT
    } else if let Some(copied) = copied {
        message = format!(
            "the VM is off, and its disk stays for snapshots that others are copied from, {}: it \
             goes once these have run; kubectl get kitesnapshot -n {} says which they are: start \
             them, or delete them",
            copied.join(", "),
            vm.namespace
        );
        snapshots::KEPT
    } else if seen.are_secrets_out_of_reach {
        message = format!(
            "{message}; the namespace {namespace} is no user's, and the controller may not see \
             Secrets there: those of the VM stay ({keys}, {user_data}), and an administrator of \
             the cluster deletes them",
            namespace = vm.namespace,
            keys = names::ssh_key_secret(vm.name),
            user_data = names::cloud_init_secret(vm.name),
        );
        SECRETS_LEFT
    } else {
        DELETING
    };
    let mut old = vm.object.status.clone().unwrap_or_default();
    if reason == snapshots::KEPT {
        // Of the quota it has its disk, and nothing else any more.
        let disk = old.granted.take().and_then(|it| it.disk);
        let disk = disk.or_else(|| old.disk.as_ref()?.size.clone());
        old.granted = Some(VmSize {
            disk,
            ..VmSize::default()
        });
        old.asking = None;
    }
    Plan {
        steps,
        status: KiteVirtualMachineStatus {
            phase: Some(VmPhase::Deleting),
            // Nobody is to be let in any more.
            access: None,
            conditions: Vec::new(),
            ..old
        },
        conditions: vec![NewCondition::new(
            vm_condition::READY,
            false,
            reason,
            message,
        )],
        requeue_after: if reason == snapshots::KEPT {
            RESYNC
        } else if are_next {
            // Each look is a request, and whatever becomes of them is heard of.
            LOOK_SELDOM
        } else {
            LOOK_AGAIN
        },
    }
}

/// The steps of the first part that is not gone, and what it waits for.
fn next(vm: &Vm<'_>, seen: &Observed) -> (Vec<Step>, Option<&'static str>) {
    // First of all: what the VM has had is not to be had again.
    if let Some(note) = offer::note(vm, seen) {
        return (vec![note], Some("its offer to be noted"));
    }
    for part in Teardown::ALL {
        let left = match part {
            Teardown::Moves => moves(vm, seen),
            Teardown::Copies => copies(vm, seen),
            Teardown::Snapshots => snapshots::left(vm, seen),
            Teardown::Disk => disks(vm, seen),
            Teardown::Claim => claims(vm, seen),
            _ => seen.made.left(vm, seen, part),
        };
        let steps = left.iter().filter_map(Left::step).collect::<Vec<_>>();
        if !steps.is_empty() || left.iter().any(Left::is_there) {
            return (steps, Some(part.words()));
        }
        // The instance goes with its VirtualMachine, but after it: until then
        // it writes to the disk.
        if part == Teardown::Machine && instance_is_ours(vm, seen) {
            return (Vec::new(), Some("its running instance"));
        }
        // What is left of the VM may stay for long, and has none of them.
        if part == Teardown::Machine {
            let volumes = seen.claims.release_volumes();
            if !volumes.is_empty() {
                return (volumes, Some("its volumes to be given back"));
            }
        }
    }
    if seen.are_secrets_out_of_reach && !is_left_told(vm) {
        return (vec![Step::WriteStatus], Some("its Secrets to be told of"));
    }
    let mut steps = seen.claims.release();
    steps.extend(
        offer::unfulfilled(vm, seen)
            .cloned()
            .map(|it| Change::Unclaim(it).into()),
    );
    // Whoever may edit the VM may have taken it off: what is the VM's goes all the
    // same, as long as others keep the VM.
    let finalizers = vm.object.metadata.finalizers.iter().flatten();
    if finalizers.into_iter().any(|it| it == VM_FINALIZER) {
        steps.push(Step::RemoveFinalizer(VM_FINALIZER));
        return (steps, None);
    }
    (steps, Some("the finalizers of others"))
}

/// Whether it stands in the VM's status that its Secrets stay.
fn is_left_told(vm: &Vm<'_>) -> bool {
    let status = vm.object.status.as_ref();
    let told = status.and_then(|it| conditions::find(&it.conditions, vm_condition::READY));
    told.is_some_and(|told| told.reason == SECRETS_LEFT)
}

/// In which order it goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Teardown {
    /// Nobody reaches it any more.
    Ways,
    /// `KubeVirt` does not let go of a migration whose instance is gone, and then neither
    /// of the namespace.
    Moves,
    Machine,
    /// Before the snapshots: storage lets go of none that is copied from, and finishes no copy
    /// of one that goes.
    Copies,
    /// Before the disk: storage may not let go of it while there are some, and with some of it
    /// they are gone with the disk.
    Snapshots,
    Disk,
    Claim,
    Secrets,
}

impl Teardown {
    const ALL: [Self; 8] = [
        Self::Ways,
        Self::Moves,
        Self::Machine,
        Self::Copies,
        Self::Snapshots,
        Self::Disk,
        Self::Claim,
        Self::Secrets,
    ];

    /// What is waited for.
    fn words(self) -> &'static str {
        match self {
            Self::Ways => "its Ingress or HTTPRoute, and its Services",
            Self::Moves => "its VirtualMachineInstanceMigrations",
            Self::Machine => "its VirtualMachine",
            Self::Copies => "the disk that it was to be restored to",
            Self::Snapshots => "its snapshots",
            Self::Disk => "its disk",
            Self::Claim => "its disk's claim",
            Self::Secrets => "its Secrets",
        }
    }
}

/// Whether something of the VM is still there.
pub(super) enum Left {
    /// No, or it is not the VM's.
    Nothing,
    /// It is to be deleted.
    Delete(AnyObject),
    /// It is to be deleted as it was seen: an edit may have it stay.
    DeleteUnchanged(AnyObject),
    /// It is on its way out.
    Leaving,
}

impl Left {
    fn step(&self) -> Option<Step> {
        match self {
            Self::Delete(object) => Some(Step::Change(Change::Delete(
                object.clone(),
                PropagationPolicy::Background,
            ))),
            Self::DeleteUnchanged(object) => {
                Some(Step::Change(Change::DeleteUnchanged(object.clone())))
            }
            Self::Nothing | Self::Leaving => None,
        }
    }

    fn is_there(&self) -> bool {
        !matches!(self, Self::Nothing)
    }
}

/// Of what Kite makes: it is the VM's if Kite made it for this one.
pub(super) fn left<K: Object>(vm: &Vm<'_>, _: &Observed, stored: Option<&K>, name: &str) -> Left
where
    AnyObject: From<K>,
{
    let Some(stored) = stored else {
        return Left::Nothing;
    };
    match standing(stored.meta(), &vm.metadata(name.to_owned())) {
        Standing::Ours => Left::Delete(stored.clone().into()),
        Standing::Leaving => Left::Leaving,
        Standing::Foreign => Left::Nothing,
    }
}

/// The orders to move it that `KubeVirt` has not let go of. The others go with the VM, by the
/// garbage collector.
fn moves(vm: &Vm<'_>, seen: &Observed) -> Vec<Left> {
    let own = seen.moves.iter().flat_map(|moves| &moves.own);
    let is_held = |it: &&VirtualMachineInstanceMigration| {
        let mut finalizers = it.metadata.finalizers.iter().flatten();
        !it.is_over() || finalizers.next().is_some()
    };
    own.filter(is_held)
        .map(|order| left(vm, seen, Some(order), &order.name_any()))
        .collect()
}

/// Disks that were made for a restore, and have not become its own.
fn copies(vm: &Vm<'_>, seen: &Observed) -> Vec<Left> {
    let never_was_its = |it: &&DataVolume| {
        let notes = DiskNotes::of(&it.metadata);
        notes.made_for.is_some() && notes.mark.is_none() && notes.has_run_on.is_none()
    };
    let all = seen.all_disks().filter(never_was_its);
    all.map(|it| left(vm, seen, Some(it), &it.name_any()))
        .collect()
}

/// All disks that were made for it.
fn disks(vm: &Vm<'_>, seen: &Observed) -> Vec<Left> {
    let all = seen.all_disks();
    all.map(|it| left(vm, seen, Some(it), &it.name_any()))
        .collect()
}

/// Their claims.
fn claims(vm: &Vm<'_>, seen: &Observed) -> Vec<Left> {
    let all = seen.claim.iter().chain(&seen.disks.claims);
    all.map(|it| claim(vm, seen, it)).collect()
}

/// The disk's claim goes with the disk, by the garbage collector: until then the
/// VM is not gone. One that lost its owner is deleted here, by our labels. As
/// long as there is a disk of this name, it is another's, and so is its claim.
fn claim(vm: &Vm<'_>, seen: &Observed, claim: &PersistentVolumeClaim) -> Left {
    let name = claim.name_any();
    if seen.all_disks().any(|it| it.name_any() == name) {
        return Left::Nothing;
    }
    let was_of_a_disk = claim
        .metadata
        .owner_references
        .iter()
        .flatten()
        .any(|owner| {
            owner.controller == Some(true) && owner.kind == "DataVolume" && owner.name == name
        });
    if was_of_a_disk {
        return Left::Leaving;
    }
    left(vm, seen, Some(claim), &name)
}

/// What cert-manager made for the VM's domain: it leaves it behind when the
/// Ingress goes that asked for it.
pub(super) fn certificate(
    vm: &Vm<'_>,
    seen: &Observed,
    stored: Option<&Secret>,
    name: &str,
) -> Left {
    let is_its = |secret: &&Secret| {
        let annotations = secret.metadata.annotations.as_ref();
        annotations.and_then(|all| all.get(CERTIFICATE_NAME))
            .is_some_and(|it| it == name)
            && is_of_domain(vm, seen, annotations.and_then(|all| all.get(ALT_NAMES)))
            // The one that the platform names is everybody's.
            && seen.platform.exposure.certificate.secret_name.as_deref() != Some(name)
            && !seen.platform.is_unread("exposure")
    };
    match stored.filter(is_its) {
        Some(secret) if secret.metadata.deletion_timestamp.is_some() => Left::Leaving,
        Some(secret) => Left::Delete(secret.clone().into()),
        None => Left::Nothing,
    }
}

/// Whether a certificate for `hosts` is of a domain of the VM's. In a user's namespace nobody
/// else has certificates of that name; elsewhere others may.
fn is_of_domain(vm: &Vm<'_>, seen: &Observed, hosts: Option<&String>) -> bool {
    if names::user_of_namespace(vm.namespace).is_some() {
        return true;
    }
    let status = vm.object.status.as_ref();
    let access = status.and_then(|it| it.access.as_ref());
    let told = access.and_then(|it| it.domain.clone());
    let own = [exposure::host(vm, &seen.platform), told];
    let mut hosts = hosts.map_or("", String::as_str).split(',');
    hosts.any(|host| own.iter().flatten().any(|it| it == host))
}

/// Whether the instance is what is left of the VM's own machine: not that of
/// somebody else's machine of this name, which stays and may run for ever.
fn instance_is_ours(vm: &Vm<'_>, seen: &Observed) -> bool {
    let machine = seen
        .machine
        .as_ref()
        .and_then(|machine| machine.metadata.uid.as_deref());
    seen.instance.as_ref().is_some_and(|instance| {
        instance
            .metadata
            .owner_references
            .iter()
            .flatten()
            .any(|owner| {
                owner.controller == Some(true)
                    && owner.kind == "VirtualMachine"
                    && owner.name == vm.name
                    && machine != Some(owner.uid.as_str())
            })
    })
}
