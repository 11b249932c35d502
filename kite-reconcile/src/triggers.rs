//! What triggers a reconcile of what.
//!
//! Beside its own kind a controller hears of what it makes, led back by Kite's
//! labels rather than by owner references, because what is cluster-scoped or has
//! lost its owner must lead back too; and of what it depends on, led back by its
//! spec. Whoever does the listening is a [`Listener`]: kube's `Controller` in
//! production, a simulated one in tests, so that both hear of the same.

use std::{
    collections::{HashMap, HashSet},
    hash::{BuildHasher as _, RandomState},
    sync::{Mutex, PoisonError},
};

use k8s_openapi::api::{
    coordination::v1::Lease,
    core::v1::{Namespace, Node, PersistentVolumeClaim, ResourceQuota, Secret, Service},
    networking::v1::{Ingress, NetworkPolicy},
};
use kite_core::{
    cdi::{DATA_IMPORT_CRON_LABEL, DataImportCron, DataSource, DataVolume},
    cluster::Object,
    crd::{
        Claim, KiteImage, KitePlatform, KiteReservation, KiteUser, KiteVirtualMachine,
        KiteVirtualMachineOffer,
    },
    gateway_api::{Gateway, HttpRoute},
    kubevirt::{VirtualMachine, VirtualMachineInstance},
    labels,
    names::{self, VmClaim},
};
use kite_render::walls;
use kube::{
    Resource as _, ResourceExt as _,
    runtime::{
        reflector::{ObjectRef, Store},
        watcher,
    },
};

/// Listens for the controller of `K`.
pub trait Listener<K: Object>: Sized {
    /// A change of an object of kind `W`, if `config` selects it, triggers what
    /// the mapper says; it gets the controller's cache. `start` makes the mapper
    /// when the controller starts: what a mapper remembers is lost in a crash.
    #[must_use]
    fn on<W, M>(self, config: watcher::Config, start: fn() -> M) -> Self
    where
        W: Object,
        M: Fn(&W, &Store<K>) -> Vec<ObjectRef<K>> + Send + Sync + 'static;
}

/// All that the controller of VMs hears of.
pub fn virtual_machines<L: Listener<KiteVirtualMachine>>(listener: L) -> L {
    listener
        .on(managed(), || |o: &Lease, _: &_| vm_of(o))
        .on(managed(), || |o: &Secret, _: &_| vm_of(o))
        .on(managed(), || |o: &DataVolume, _: &_| vm_of(o))
        .on(managed(), || |o: &PersistentVolumeClaim, _: &_| vm_of(o))
        .on(managed(), || |o: &VirtualMachine, _: &_| vm_of(o))
        .on(managed(), || |o: &VirtualMachineInstance, _: &_| vm_of(o))
        .on(managed(), || |o: &Service, _: &_| vm_of(o))
        .on(managed(), || |o: &Ingress, _: &_| vm_of(o))
        .on(managed(), || |o: &HttpRoute, _: &_| vm_of(o))
        .on(managed(), || {
            let claims = Claims::default();
            move |claim: &KiteReservation, vms: &_| claimants(&claims, vms, claim)
        })
        .on(everything(), || {
            |_: &KitePlatform, vms: &_| select(vms, |_| true)
        })
        .on(everything(), || {
            let edits = Edits::default();
            move |user: &KiteUser, vms: &_| {
                // VMs wait for the walls of the namespace.
                let stands = user.status.as_ref().is_some_and(|s| s.namespace.is_some());
                if !edits.is_one(user, stands) {
                    return Vec::new();
                }
                let namespace = names::user_namespace(&user.name_any());
                select(vms, |vm: &KiteVirtualMachine| {
                    vm.namespace().as_deref() == Some(&namespace)
                })
            }
        })
        .on(everything(), || {
            |image: &KiteImage, vms: &_| {
                let name = image.name_any();
                select(vms, |vm: &KiteVirtualMachine| {
                    vm.spec.image == name && !has_disk(vm)
                })
            }
        })
        .on(everything(), || {
            |offer: &KiteVirtualMachineOffer, vms: &_| {
                let name = offer.name_any();
                select(vms, |vm: &KiteVirtualMachine| {
                    vm.spec.offer.as_ref() == Some(&name) && !has_disk(vm)
                })
            }
        })
}

/// All that the controller of offers hears of.
pub fn offers<L: Listener<KiteVirtualMachineOffer>>(listener: L) -> L {
    listener
        .on(managed(), || {
            |claim: &KiteReservation, _: &_| {
                let name = claim.name_any();
                match names::vm_claim_of_reservation(&name) {
                    Some(VmClaim::Offer(offer)) => vec![ObjectRef::new(offer)],
                    _ => Vec::new(),
                }
            }
        })
        .on(everything(), || {
            |vm: &KiteVirtualMachine, _: &_| {
                let offer = vm.spec.offer.as_deref().map(ObjectRef::new);
                offer.into_iter().collect()
            }
        })
}

/// All that the controller of users hears of.
pub fn users<L: Listener<KiteUser>>(listener: L) -> L {
    listener
        .on(managed(), || |o: &Namespace, _: &_| user_of(o))
        .on(managed(), || |o: &NetworkPolicy, _: &_| user_of(o))
        .on(managed(), || |o: &ResourceQuota, _: &_| user_of(o))
        .on(everything(), || {
            let edits = Edits::default();
            move |vm: &KiteVirtualMachine, _: &_| {
                if !edits.is_one(vm, false) {
                    return Vec::new();
                }
                let namespace = vm.namespace().unwrap_or_default();
                let user = names::user_of_namespace(&namespace).map(ObjectRef::new);
                user.into_iter().collect()
            }
        })
        .on(managed(), || {
            let claims = Claims::default();
            move |claim: &KiteReservation, users: &_| namesakes(&claims, users, claim)
        })
        .on(everything(), || {
            |_: &KitePlatform, users: &_| select(users, |_| true)
        })
        .on(everything(), || {
            let seen = Mutex::new(HashMap::new());
            move |node: &Node, users: &_| {
                // A node reports all the time, and seldom moves.
                let addresses = walls::addresses([node]);
                let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
                if seen.insert(node.name_any(), addresses.clone()) == Some(addresses) {
                    return Vec::new();
                }
                select(users, |_| true)
            }
        })
}

/// All that the controller of images hears of.
pub fn images<L: Listener<KiteImage>>(listener: L) -> L {
    listener
        .on(managed(), || |o: &DataVolume, _: &_| image_of(o))
        .on(managed(), || |o: &DataImportCron, _: &_| image_of(o))
        .on(managed(), || |o: &DataSource, _: &_| image_of(o))
        // CDI makes these, and puts a label of its own on them.
        .on(by_cron(), || |o: &DataVolume, _: &_| image_of(o))
        .on(by_cron(), || |o: &DataSource, _: &_| image_of(o))
}

/// All that the controller of the platform hears of.
pub fn platforms<L: Listener<KitePlatform>>(listener: L) -> L {
    // Of the many Services and Ingresses only the platform's own.
    let own = || watcher::Config::default().labels(labels::PLATFORM_NAME);
    listener
        .on(own(), || |o: &Service, _: &_| platform_of(o))
        .on(own(), || |o: &Ingress, _: &_| platform_of(o))
        .on(own(), || |o: &HttpRoute, _: &_| platform_of(o))
        .on(everything(), || {
            |gateway: &Gateway, platforms: &_| {
                select(platforms, |platform: &KitePlatform| {
                    let named = platform.spec.exposure.gateway.as_ref();
                    named.is_some_and(|named| {
                        named.name == gateway.name_any()
                            && gateway.namespace().as_deref() == Some(&named.namespace)
                    })
                })
            }
        })
}

/// A watch of objects that Kite made.
fn managed() -> watcher::Config {
    watcher::Config::default().labels(&format!(
        "{}={}",
        labels::MANAGED_BY,
        labels::MANAGED_BY_CONTROLLER
    ))
}

/// A watch of what CDI's crons made.
fn by_cron() -> watcher::Config {
    watcher::Config::default().labels(DATA_IMPORT_CRON_LABEL)
}

fn everything() -> watcher::Config {
    watcher::Config::default()
}

/// Tells edits of a spec and deletions from changes of a status: a user's status
/// changes with each of their VMs, and a VM's with each step of its start.
#[derive(Default)]
struct Edits {
    /// Generations, and what else was told, by the hash of the object's uid.
    seen: Mutex<HashMap<u64, (Option<i64>, bool)>>,
    hasher: RandomState,
}

impl Edits {
    /// Whether it is an edit, a deletion, or a change of `fact`, something that
    /// the status says.
    fn is_one<K: Object>(&self, object: &K, fact: bool) -> bool {
        let metadata = object.meta();
        let id = self.hasher.hash_one(&metadata.uid);
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        // Whatever is heard of these may be the last: they may be gone.
        if metadata.deletion_timestamp.is_some() || object.finalizers().is_empty() {
            seen.remove(&id);
            return true;
        }
        let now = (metadata.generation, fact);
        seen.insert(id, now) != Some(now)
    }
}

/// The VM that an object belongs to: by its labels, and by its owner, should a
/// label have been taken off or changed.
fn vm_of<K: Object>(object: &K) -> Vec<ObjectRef<KiteVirtualMachine>> {
    let labels = object.labels();
    let name = labels.get(labels::VM_NAME);
    let namespace = labels.get(labels::VM_NAMESPACE);
    let by_label = name
        .zip(namespace)
        .map(|(name, namespace)| ObjectRef::new(name).within(namespace));
    let mut owners = object.owner_references().iter();
    let owner = owners.find(|owner| {
        owner.controller == Some(true) && owner.kind == KiteVirtualMachine::kind(&())
    });
    let by_owner = owner
        .zip(object.namespace())
        .map(|(owner, namespace)| ObjectRef::new(&owner.name).within(&namespace))
        .filter(|vm| by_label.as_ref() != Some(vm));
    by_label.into_iter().chain(by_owner).collect()
}

/// The user whose namespace it is or lies in, and whom its label names: somebody
/// may have taken the label off together with what it was there for.
fn user_of<K: Object>(object: &K) -> Vec<ObjectRef<KiteUser>> {
    let namespace = object.namespace().unwrap_or_else(|| object.name_any());
    let by_place = names::user_of_namespace(&namespace);
    let by_label = object.labels().get(labels::USER_NAME).map(String::as_str);
    let others = by_label.filter(|name| Some(*name) != by_place);
    by_place
        .into_iter()
        .chain(others)
        .map(ObjectRef::new)
        .collect()
}

fn platform_of<K: Object>(object: &K) -> Vec<ObjectRef<KitePlatform>> {
    let name = object.labels().get(labels::PLATFORM_NAME);
    name.map(|name| ObjectRef::new(name)).into_iter().collect()
}

fn image_of<K: Object>(object: &K) -> Vec<ObjectRef<KiteImage>> {
    let labels = object.labels();
    let name = labels
        .get(labels::IMAGE_NAME)
        .or_else(|| labels.get(DATA_IMPORT_CRON_LABEL));
    name.map(|name| ObjectRef::new(name)).into_iter().collect()
}

/// Tells claims that were made from those that may be free again. A reservation
/// cannot be changed: the first that is heard of it concerns its holder alone,
/// as long as there is one; only what comes after that may concern the others
/// who want the claim, and is worth a look at all of them.
#[derive(Default)]
struct Claims {
    /// Hashes of the uids of reservations that were heard of.
    known: Mutex<HashSet<u64>>,
    hasher: RandomState,
}

impl Claims {
    /// The objects that `claim` concerns, of which `wants` picks those that want
    /// the same.
    fn concerned<K: Object>(
        &self,
        claim: &KiteReservation,
        store: &Store<K>,
        wants: impl Fn(&K) -> bool,
    ) -> Vec<ObjectRef<K>> {
        let holder = &claim.spec.holder;
        let mut reference = ObjectRef::<K>::new(&holder.name);
        reference.namespace.clone_from(&holder.namespace);
        let is_held = store
            .get(&reference)
            .is_some_and(|held_by| held_by.meta().uid.as_ref() == Some(&holder.uid));
        let id = self.hasher.hash_one(&claim.metadata.uid);
        let is_new = {
            let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            if is_held {
                known.insert(id)
            } else {
                // Nothing is remembered for the departed: whatever is heard of
                // their claims concerns everybody.
                known.remove(&id);
                false
            }
        };
        if is_new {
            return vec![reference];
        }
        select(store, wants)
    }
}

/// The VMs that `claim` concerns: when it goes, one that wants the same may have
/// it.
fn claimants(
    claims: &Claims,
    vms: &Store<KiteVirtualMachine>,
    claim: &KiteReservation,
) -> Vec<ObjectRef<KiteVirtualMachine>> {
    let name = claim.name_any();
    match names::vm_claim_of_reservation(&name) {
        Some(VmClaim::SshId(ssh_id)) => claims.concerned(claim, vms, |vm| vm.spec.ssh_id == ssh_id),
        Some(VmClaim::Domain(prefix)) => claims.concerned(claim, vms, |vm| {
            vm.spec.domain_prefix.as_deref() == Some(prefix)
        }),
        Some(VmClaim::Offer(offer)) => claims.concerned(claim, vms, |vm| {
            vm.spec.offer.as_deref() == Some(offer) && !has_disk(vm)
        }),
        None => Vec::new(),
    }
}

/// The users that `claim` concerns.
fn namesakes(
    claims: &Claims,
    users: &Store<KiteUser>,
    claim: &KiteReservation,
) -> Vec<ObjectRef<KiteUser>> {
    let name = claim.name_any();
    match claim.spec.claim {
        Claim::Username => claims.concerned(claim, users, |user| {
            names::username_reservation(&user.spec.username) == name
        }),
        Claim::Email => claims.concerned(claim, users, |user| {
            let email = user.spec.email.as_deref();
            email.is_some_and(|email| names::email_reservation(email) == name)
        }),
        Claim::SshId | Claim::Domain | Claim::Offer => Vec::new(),
    }
}

/// The known objects that `wanted` picks.
fn select<K: Object>(store: &Store<K>, wanted: impl Fn(&K) -> bool) -> Vec<ObjectRef<K>> {
    store
        .state()
        .iter()
        .filter(|object| wanted(object))
        .map(|object| ObjectRef::from_obj(&**object))
        .collect()
}

fn has_disk(vm: &KiteVirtualMachine) -> bool {
    vm.status
        .as_ref()
        .is_some_and(|status| status.disk.is_some())
}

#[cfg(test)]
mod tests {
    use kite_core::crd::{Holder, HolderKind, KiteReservationSpec, KiteVirtualMachineSpec};
    use kube::runtime::reflector;

    use super::*;

    fn vm(name: &str) -> KiteVirtualMachine {
        let (memory, disk) = ("1Gi".parse().unwrap(), "10Gi".parse().unwrap());
        let spec = KiteVirtualMachineSpec::new(1, memory, disk, "debian-12", "web");
        let mut vm = KiteVirtualMachine::new(name, spec);
        vm.metadata.namespace = Some("dev".to_owned());
        vm.metadata.uid = Some(format!("uid-of-{name}"));
        vm
    }

    fn claim_of(vm: &KiteVirtualMachine) -> KiteReservation {
        let holder = Holder {
            kind: HolderKind::KiteVirtualMachine,
            namespace: vm.namespace(),
            name: vm.name_any(),
            uid: vm.uid().unwrap(),
        };
        let claim = Claim::SshId;
        let mut reservation = KiteReservation::new(
            &names::ssh_id_reservation("web"),
            KiteReservationSpec { claim, holder },
        );
        reservation.metadata.uid = Some("uid-of-the-claim".to_owned());
        reservation
    }

    #[test]
    fn a_claim_concerns_its_holder_first_and_everybody_when_it_goes() {
        let (vms, mut writer) = reflector::store();
        let (first, second) = (vm("first"), vm("second"));
        for vm in [&first, &second] {
            writer.apply_watcher_event(&watcher::Event::Apply(vm.clone()));
        }
        let claims = Claims::default();
        let claim = claim_of(&first);
        let concerned = || {
            let mut names: Vec<String> = claimants(&claims, &vms, &claim)
                .into_iter()
                .map(|vm| vm.name)
                .collect();
            names.sort();
            names
        };
        // Made.
        assert_eq!(concerned(), ["first"]);
        // Released, though its holder lives on.
        assert_eq!(concerned(), ["first", "second"]);
        // Whatever is heard of the claim of one that is gone.
        writer.apply_watcher_event(&watcher::Event::Delete(first));
        assert_eq!(concerned(), ["second"]);
        assert_eq!(concerned(), ["second"]);
    }

    #[test]
    fn edits_and_deletions_are_told_from_changes_of_a_status() {
        let edits = Edits::default();
        let mut vm = vm("first");
        vm.metadata.generation = Some(1);
        assert!(edits.is_one(&vm, false), "made");
        // Nothing holds it: this may be its end.
        assert!(edits.is_one(&vm, false));
        vm.metadata.finalizers = Some(vec![labels::VM_FINALIZER.to_owned()]);
        assert!(edits.is_one(&vm, false));
        vm.status = Some(kite_core::crd::KiteVirtualMachineStatus::default());
        assert!(!edits.is_one(&vm, false), "a status");
        vm.metadata.generation = Some(2);
        assert!(edits.is_one(&vm, false), "an edit");
        assert!(edits.is_one(&vm, true), "a fact in the status");
        assert!(edits.is_one(&vm, false), "and its end");
        assert!(!edits.is_one(&vm, false));
        vm.metadata.deletion_timestamp = Some(
            k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(jiff::Timestamp::UNIX_EPOCH),
        );
        assert!(edits.is_one(&vm, false), "deleted");
        assert!(edits.is_one(&vm, false), "gone");
        assert!(edits.seen.lock().unwrap().is_empty());
    }

    #[test]
    fn users_do_not_hear_of_claims_of_vms() {
        let (users, _writer) = reflector::store();
        let claims = Claims::default();
        assert!(namesakes(&claims, &users, &claim_of(&vm("first"))).is_empty());
        assert!(claims.known.lock().unwrap().is_empty());
    }
}
