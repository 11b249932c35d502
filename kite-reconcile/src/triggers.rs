//! What triggers a reconcile of what.
//!
//! Beside its own kind a controller hears of what it makes, led back by Kite's
//! labels rather than by owner references, because what is cluster-scoped or has
//! lost its owner must lead back too; and of what it depends on, led back by its
//! spec. Whoever does the listening is a [`Listener`]: kube's `Controller` in
//! production, a simulated one in tests, so that both hear of the same.

mod claims;
mod edits;
mod owners;

use std::{
    collections::HashMap,
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
        KiteImage, KitePlatform, KiteReservation, KiteUser, KiteVirtualMachine,
        KiteVirtualMachineOffer,
    },
    gateway_api::{Gateway, HttpRoute},
    kubevirt::{VirtualMachine, VirtualMachineInstance},
    labels,
    names::{self, VmClaim},
};
use kite_render::walls;
use kube::{
    ResourceExt as _,
    runtime::{
        reflector::{ObjectRef, Store},
        watcher,
    },
};

use self::{
    claims::{Claims, claimants, namesakes},
    edits::Edits,
    owners::{image_of, platform_of, user_of, vm_of},
};

/// Listens for the controller of `K`.
pub trait Listener<K: Object>: Sized {
    /// A change of an object of kind `W`, if `config` selects it, triggers what
    /// the mapper says; it gets the controller's cache. `start` makes the mapper
    /// when the controller starts: what a mapper remembers is lost in a crash. An
    /// object that is gone should be handed over with a deletionTimestamp, as a
    /// [`Feeder`](crate::cache::Feeder) tells of it: only then is it certain that
    /// whoever waits for a name hears that it is free.
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
