//! What triggers a reconcile of what.
//!
//! Beside its own kind a controller hears of what it makes, led back by Kite's
//! labels rather than by owner references, because what is cluster-scoped or has
//! lost its owner must lead back too; and of what it depends on, led back by its
//! spec. Whoever does the listening is a [`Listener`]: kube's `Controller` in
//! production, a simulated one in tests, so that both hear of the same.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use k8s_openapi::api::{
    core::v1::{Namespace, PersistentVolumeClaim, ResourceQuota, Secret, Service},
    networking::v1::{Ingress, NetworkPolicy},
};
use kite_core::{
    cdi::{DataSource, DataVolume},
    cluster::Object,
    crd::{KiteImage, KitePlatform, KiteReservation, KiteUser, KiteVirtualMachine},
    gateway_api::{Gateway, HttpRoute},
    kubevirt::{VirtualMachine, VirtualMachineInstance},
    labels,
    names::{self, VmClaim},
};
use kube::{
    ResourceExt as _,
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
        .on(managed(), || |o: &Secret, _: &_| vm_of(o))
        .on(managed(), || |o: &DataVolume, _: &_| vm_of(o))
        .on(managed(), || |o: &PersistentVolumeClaim, _: &_| vm_of(o))
        .on(managed(), || |o: &VirtualMachine, _: &_| vm_of(o))
        .on(managed(), || |o: &VirtualMachineInstance, _: &_| vm_of(o))
        .on(managed(), || |o: &Service, _: &_| vm_of(o))
        .on(managed(), || |o: &Ingress, _: &_| vm_of(o))
        .on(managed(), || {
            |claim: &KiteReservation, vms: &_| claimants(vms, claim)
        })
        .on(everything(), || {
            |_: &KitePlatform, vms: &_| select(vms, |_| true)
        })
        .on(everything(), || {
            let edits = Edits::default();
            move |user: &KiteUser, vms: &_| {
                if !edits.is_one(user) {
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
}

/// All that the controller of users hears of.
pub fn users<L: Listener<KiteUser>>(listener: L) -> L {
    listener
        .on(managed(), || |o: &Namespace, _: &_| user_of(o))
        .on(managed(), || |o: &NetworkPolicy, _: &_| user_of(o))
        .on(managed(), || |o: &ResourceQuota, _: &_| user_of(o))
        .on(everything(), || {
            |vm: &KiteVirtualMachine, _: &_| {
                let namespace = vm.namespace().unwrap_or_default();
                let user = names::user_of_namespace(&namespace).map(ObjectRef::new);
                user.into_iter().collect()
            }
        })
        .on(managed(), || {
            |claim: &KiteReservation, users: &_| {
                let name = claim.name_any();
                select(users, |user: &KiteUser| {
                    names::username_reservation(&user.spec.username) == name
                        || user
                            .spec
                            .email
                            .as_deref()
                            .map(names::email_reservation)
                            .as_ref()
                            == Some(&name)
                })
            }
        })
        .on(everything(), || {
            |_: &KitePlatform, users: &_| select(users, |_| true)
        })
}

/// All that the controller of images hears of.
pub fn images<L: Listener<KiteImage>>(listener: L) -> L {
    listener
        .on(managed(), || |o: &DataVolume, _: &_| image_of(o))
        .on(managed(), || |o: &DataSource, _: &_| image_of(o))
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

fn everything() -> watcher::Config {
    watcher::Config::default()
}

/// Tells edits of a spec from changes of a status: a user's status changes with
/// each of their VMs, and must not trigger all of them again.
#[derive(Default)]
struct Edits {
    seen: Mutex<HashMap<String, Option<i64>>>,
}

impl Edits {
    fn is_one<K: Object>(&self, object: &K) -> bool {
        let generation = object.meta().generation;
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.insert(object.uid().unwrap_or_default(), generation) != Some(generation)
    }
}

/// The VM that an object belongs to, by its labels.
fn vm_of<K: Object>(object: &K) -> Vec<ObjectRef<KiteVirtualMachine>> {
    let labels = object.labels();
    let name = labels.get(labels::VM_NAME);
    let namespace = labels.get(labels::VM_NAMESPACE);
    name.zip(namespace)
        .map(|(name, namespace)| ObjectRef::new(name).within(namespace))
        .into_iter()
        .collect()
}

fn user_of<K: Object>(object: &K) -> Vec<ObjectRef<KiteUser>> {
    let name = object.labels().get(labels::USER_NAME);
    name.map(|name| ObjectRef::new(name)).into_iter().collect()
}

fn platform_of<K: Object>(object: &K) -> Vec<ObjectRef<KitePlatform>> {
    let name = object.labels().get(labels::PLATFORM_NAME);
    name.map(|name| ObjectRef::new(name)).into_iter().collect()
}

fn image_of<K: Object>(object: &K) -> Vec<ObjectRef<KiteImage>> {
    let name = object.labels().get(labels::IMAGE_NAME);
    name.map(|name| ObjectRef::new(name)).into_iter().collect()
}

/// The VMs that want what `claim` stands for: when it goes, one of them may
/// have it.
fn claimants(
    vms: &Store<KiteVirtualMachine>,
    claim: &KiteReservation,
) -> Vec<ObjectRef<KiteVirtualMachine>> {
    let name = claim.name_any();
    match names::vm_claim_of_reservation(&name) {
        Some(VmClaim::SshId(ssh_id)) => select(vms, |vm| vm.spec.ssh_id == ssh_id),
        Some(VmClaim::Domain(prefix)) => {
            select(vms, |vm| vm.spec.domain_prefix.as_deref() == Some(prefix))
        }
        None => Vec::new(),
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
