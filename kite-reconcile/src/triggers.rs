//! What triggers a reconcile of what.
//!
//! Beside its own kind a controller hears of what it makes, led back by Kite's
//! labels rather than by owner references, because what is cluster-scoped or has
//! lost its owner must lead back too; and of what it depends on, led back by its
//! spec. Whoever does the listening is a [`Listener`]: kube's `Controller` in
//! production, a simulated one in tests, so that both hear of the same.

mod changes;
mod claims;
mod edits;
mod owners;
mod settings;
mod shares;
mod virtual_machines;
mod volumes;

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    sync::{Mutex, PoisonError},
};

use k8s_openapi::api::{
    coordination::v1::Lease,
    core::v1::{Namespace, Node, PersistentVolumeClaim, ResourceQuota, Secret, Service},
    discovery::v1::EndpointSlice,
    networking::v1::{Ingress, IngressClass, NetworkPolicy},
    rbac::v1::RoleBinding,
    storage::v1::StorageClass,
};
use kite_core::{
    cdi::{DATA_IMPORT_CRON_LABEL, DataImportCron, DataSource, DataVolume, StorageProfile},
    cert_manager::ClusterIssuer,
    cluster::Object,
    crd::{
        KiteImage, KitePlatform, KiteReservation, KiteSnapshot, KiteUser, KiteVirtualMachine,
        KiteVirtualMachineOffer, KiteVolume,
    },
    gateway_api::{Gateway, HttpRoute},
    kubevirt::{KubeVirt, VirtualMachineInstance},
    labels,
    names::{self, VmClaim},
    volume_snapshot::{VolumeSnapshot, VolumeSnapshotClass},
};
use kite_render::{isolation, machine, restore};
use kube::{
    ResourceExt as _,
    runtime::{
        reflector::{ObjectRef, Store},
        watcher,
    },
};

use self::{
    changes::Changes,
    claims::{Claims, namesakes},
    edits::Edits,
    owners::{image_of, platform_of, snapshot_of, user_of},
    settings::Settings,
};
pub use kite_runtime::Listener;

pub use self::{virtual_machines::virtual_machines, volumes::volumes};

use crate::{platform, user};

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

/// All that the controller of snapshots hears of. What it waits for while one is taken it
/// asks for itself, every few seconds: guests report all the time.
pub fn snapshots<L: Listener<KiteSnapshot>>(listener: L) -> L {
    listener
        .on(managed(), || |o: &VolumeSnapshot, _: &_| snapshot_of(o))
        .on(managed(), || {
            |lease: &Lease, all: &_| {
                // Others wait for it, too.
                let name = lease.name_any();
                match name.strip_suffix(names::FREEZE_LEASE) {
                    Some(vm) => of_vm(all, lease, Some(vm)),
                    None => Vec::new(),
                }
            }
        })
        // With some drivers what was taken of a disk is gone with it.
        .on(managed(), || {
            |o: &DataVolume, all: &_| {
                let mut concerned = of_leaving(all, o);
                // Those that go wait for what is copied from them.
                if let Some(source) = restore::copy_of(o) {
                    let namespace = o.namespace();
                    concerned.extend(select(all, |it: &KiteSnapshot| {
                        it.metadata.deletion_timestamp.is_some()
                            && it.metadata.namespace == namespace
                            && it.name_any() == source
                    }));
                }
                concerned
            }
        })
        .on(managed(), || {
            |o: &PersistentVolumeClaim, all: &_| of_leaving(all, o)
        })
        .on(everything(), || {
            |user: &KiteUser, all: &_| {
                // What is to be kept goes with its owner.
                if user.metadata.deletion_timestamp.is_none() {
                    return Vec::new();
                }
                let namespace = Some(names::user_namespace(&user.name_any()));
                select(all, |it: &KiteSnapshot| it.metadata.namespace == namespace)
            }
        })
        // They are read, and concern nobody whose snapshot is taken already.
        .on(everything(), || |_: &VolumeSnapshotClass, _: &_| Vec::new())
        .on(everything(), || |_: &StorageProfile, _: &_| Vec::new())
}

/// The snapshots of the VM `vm` beside `object`.
fn of_vm<K: Object>(
    all: &Store<KiteSnapshot>,
    object: &K,
    vm: Option<&str>,
) -> Vec<ObjectRef<KiteSnapshot>> {
    let namespace = object.namespace();
    select(all, |it: &KiteSnapshot| {
        it.metadata.namespace == namespace && Some(it.spec.vm.as_str()) == vm
    })
}

/// The snapshots of the VM of which `object` is, if that is on its way out.
fn of_leaving<K: Object>(all: &Store<KiteSnapshot>, object: &K) -> Vec<ObjectRef<KiteSnapshot>> {
    if object.meta().deletion_timestamp.is_none() {
        return Vec::new();
    }
    let vm = object.labels().get(labels::VM_NAME);
    of_vm(all, object, vm.map(String::as_str))
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
                // Their usage tells what VMs ask for, and their quota has room for what
                // VMs have been given.
                if !edits.is_one(vm, (vm.expected_charge(), vm.charge())) {
                    return Vec::new();
                }
                let namespace = vm.namespace().unwrap_or_default();
                let user = names::user_of_namespace(&namespace).map(ObjectRef::new);
                user.into_iter().collect()
            }
        })
        .on(everything(), || {
            let edits = Edits::default();
            move |volume: &KiteVolume, _: &_| {
                // Their quota has room for what volumes have been given.
                if edits.is_one(volume, volume.charge()) {
                    user_of(volume)
                } else {
                    Vec::new()
                }
            }
        })
        .on(managed(), || {
            let asking = Asking::default();
            move |instance: &VirtualMachineInstance, _: &_| {
                // The network policies are open to the cluster's DNS for as long as it is asked.
                let namespace = instance.namespace().unwrap_or_default();
                let user = names::user_of_namespace(&namespace);
                let user = user.filter(|_| asking.is_concerned(instance));
                user.map(ObjectRef::new).into_iter().collect()
            }
        })
        .on(managed(), || {
            let claims = Claims::default();
            move |claim: &KiteReservation, users: &_| namesakes(&claims, users, claim)
        })
        .on(everything(), || {
            let changes = Changes::default();
            move |platform: &KitePlatform, users: &_| {
                if changes.is_one(platform, platform.metadata.generation, &platform.status) {
                    select(users, |_| true)
                } else {
                    Vec::new()
                }
            }
        })
        .on(everything(), || {
            let moves = Moves::default();
            move |node: &Node, users: &_| {
                if moves.is_one(node) {
                    select(users, |_| true)
                } else {
                    Vec::new()
                }
            }
        })
        .on(of_api_server(), || {
            let changes = Changes::default();
            move |slice: &EndpointSlice, users: &_| {
                let is_its = slice.namespace().as_deref() == Some(user::API_SERVER_NAMESPACE);
                let addresses = || isolation::endpoints([slice]);
                if is_its && changes.is_one(slice, addresses(), &()) {
                    select(users, |_| true)
                } else {
                    Vec::new()
                }
            }
        })
        .on(everything(), || {
            let settings = Settings::default();
            move |kubevirt: &KubeVirt, users: &_| {
                // By this its pods use up their quotas.
                if settings.are_new(kubevirt) {
                    select(users, |_| true)
                } else {
                    Vec::new()
                }
            }
        })
        .on(everything(), || {
            let changes = Changes::default();
            move |image: &KiteImage, users: &_| {
                // Disks are cloned from where images are.
                let status = image.status.as_ref();
                let home = status.and_then(|status| status.namespace.clone());
                if changes.is_one(image, home, &image.status) {
                    select(users, |_| true)
                } else {
                    Vec::new()
                }
            }
        })
}

/// What the controller of users hears of, too, where it gives others rights in their
/// namespaces.
pub fn grants<L: Listener<KiteUser>>(listener: L) -> L {
    listener.on(managed(), || |o: &RoleBinding, _: &_| user_of(o))
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
        .on(everything(), || |it: &Gateway, all: &_| named_by(all, it))
        .on(everything(), || |it: &Namespace, all: &_| named_by(all, it))
        .on(everything(), || {
            |it: &StorageClass, all: &_| named_by(all, it)
        })
        .on(everything(), || {
            |it: &IngressClass, all: &_| named_by(all, it)
        })
        .on(everything(), || {
            |it: &ClusterIssuer, all: &_| named_by(all, it)
        })
        .on(everything(), || {
            |secret: &Secret, platforms: &_| {
                if secret.name_any() == names::GATEWAY_HOST_KEY_SECRET {
                    return vec![ObjectRef::new(names::PLATFORM)];
                }
                named_by(platforms, secret)
            }
        })
        .on(everything(), || {
            let moves = Moves::default();
            move |node: &Node, platforms: &_| {
                if moves.is_one(node) {
                    select(platforms, |_| true)
                } else {
                    Vec::new()
                }
            }
        })
}

/// The platforms of which a setting names `object`.
fn named_by<K: Object>(
    platforms: &Store<KitePlatform>,
    object: &K,
) -> Vec<ObjectRef<KitePlatform>> {
    select(platforms, |it: &KitePlatform| {
        platform::names_it(&it.spec, object)
    })
}

/// What nodes' addresses were: a node reports all the time, and seldom moves.
#[derive(Default)]
struct Moves(Mutex<HashMap<String, BTreeSet<String>>>);

impl Moves {
    /// Whether the node has come, gone, or other addresses than before.
    fn is_one(&self, node: &Node) -> bool {
        let addresses = isolation::addresses([node]);
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if node.metadata.deletion_timestamp.is_some() {
            // It is told of in this way when it is gone, too.
            seen.remove(&node.name_any());
            return true;
        }
        seen.insert(node.name_any(), addresses.clone()) != Some(addresses)
    }
}

/// Guests that were started to ask the cluster's DNS. An instance reports all the time,
/// and whom it asks never changes.
#[derive(Default)]
struct Asking(Mutex<HashSet<Option<String>>>);

impl Asking {
    /// Whether the instance asks the cluster's DNS and has come, or may be gone.
    fn is_concerned(&self, instance: &VirtualMachineInstance) -> bool {
        if !machine::asks_cluster(instance) {
            return false;
        }
        let uid = instance.metadata.uid.clone();
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if instance.metadata.deletion_timestamp.is_some() {
            // It is told of in this way when it is gone, too.
            seen.remove(&uid);
            return true;
        }
        seen.insert(uid)
    }
}

/// A watch of objects that Kite made.
fn managed() -> watcher::Config {
    watcher::Config::default().labels(&format!(
        "{}={}",
        labels::MANAGED_BY,
        labels::MANAGED_BY_CONTROLLER
    ))
}

/// Type of the Secrets that certificates are in.
const CERTIFICATE: &str = "kubernetes.io/tls";

/// A watch of what CDI's crons made.
fn by_cron() -> watcher::Config {
    watcher::Config::default().labels(DATA_IMPORT_CRON_LABEL)
}

fn everything() -> watcher::Config {
    watcher::Config::default()
}

fn of_api_server() -> watcher::Config {
    watcher::Config::default().labels(&labels::of_api_server())
}

/// The known objects that `wanted` picks.
fn select<K: Object>(store: &Store<K>, wanted: impl Fn(&K) -> bool) -> Vec<ObjectRef<K>> {
    let found = store.state_filter(wanted);
    found
        .iter()
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
    use std::any::{Any, TypeId};

    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use kite_core::crd::{
        KiteImageStatus, KitePlatformSpec, KitePlatformStatus, KiteUserSpec, KiteVirtualMachineSpec,
    };
    use kube::runtime::reflector;
    use serde_json::json;

    use super::*;

    fn vm(name: &str) -> KiteVirtualMachine {
        let (memory, disk) = ("1Gi".parse().unwrap(), "10Gi".parse().unwrap());
        let spec = KiteVirtualMachineSpec::new(1, memory, disk, "debian-12", "web");
        let mut vm = KiteVirtualMachine::new(name, spec);
        vm.metadata.namespace = Some("dev".to_owned());
        vm
    }

    /// The objects of `K` that an event is about.
    type Mapper<K> = Box<dyn Fn(&dyn Any, &Store<K>) -> Vec<ObjectRef<K>>>;

    /// What a controller of `K` makes of what it hears of `W`.
    struct Heard<K: Object, W> {
        store: Store<K>,
        mappers: Vec<Mapper<K>>,
        of: std::marker::PhantomData<W>,
    }

    impl<K: Object, W: Object> Listener<K> for Heard<K, W> {
        fn on<V, M>(mut self, _: watcher::Config, start: fn() -> M) -> Self
        where
            V: Object,
            M: Fn(&V, &Store<K>) -> Vec<ObjectRef<K>> + Send + Sync + 'static,
        {
            if TypeId::of::<V>() == TypeId::of::<W>() {
                let mapper = start();
                let mapper = move |object: &dyn Any, store: &Store<K>| {
                    mapper(object.downcast_ref::<V>().unwrap(), store)
                };
                self.mappers.push(Box::new(mapper));
            }
            self
        }
    }

    impl<K: Object, W: Object> Heard<K, W> {
        fn with(objects: impl IntoIterator<Item = K>) -> Self {
            let (store, mut writer) = reflector::store();
            for object in objects {
                writer.apply_watcher_event(&watcher::Event::Apply(object));
            }
            Self {
                store,
                mappers: Vec::new(),
                of: std::marker::PhantomData,
            }
        }

        /// How many are triggered by this.
        fn due(&self, object: &W) -> usize {
            let mappers = self.mappers.iter();
            mappers.map(|map| map(object, &self.store).len()).sum()
        }
    }

    fn user() -> KiteUser {
        KiteUser::new("ann", KiteUserSpec::new("ann"))
    }

    #[test]
    fn users_hear_of_guests_that_ask_the_clusters_dns_when_they_come_and_go() {
        let users = users(Heard::<_, VirtualMachineInstance>::with([user()]));
        let mut instance = VirtualMachineInstance::default();
        instance.metadata.namespace = Some("kite-user-ann".to_owned());
        instance.metadata.uid = Some("first".to_owned());
        assert_eq!(users.due(&instance), 1, "it has come");
        assert_eq!(users.due(&instance), 0, "it reports");
        let mut other = instance.clone();
        other.metadata.uid = Some("other".to_owned());
        other.spec.dns_policy = Some("None".to_owned());
        assert_eq!(users.due(&other), 0, "it asks others");
        instance.metadata.deletion_timestamp = Some(Time(jiff::Timestamp::UNIX_EPOCH));
        assert_eq!(users.due(&instance), 1, "it may be gone");
        instance.metadata.namespace = Some("dev".to_owned());
        assert_eq!(users.due(&instance), 0, "nobody's");
    }

    #[test]
    fn a_mere_status_of_the_platform_concerns_nobody_but_for_where_the_gateway_is() {
        let vms = virtual_machines(Heard::<_, KitePlatform>::with([vm("first"), vm("second")]));
        let users = users(Heard::<_, KitePlatform>::with([user()]));
        let mut platform = KitePlatform::new("default", KitePlatformSpec::default());
        platform.metadata.generation = Some(1);
        let due = |platform: &KitePlatform| (vms.due(platform), users.due(platform));
        assert_eq!(due(&platform), (2, 1));
        let mut status = KitePlatformStatus::default();
        platform.status = Some(status.clone());
        assert_eq!(due(&platform), (0, 0), "a status");
        status.gateway_port = Some(30022);
        platform.status = Some(status.clone());
        assert_eq!(due(&platform), (2, 0), "what VMs tell their owners");
        status.gateway_addresses = vec!["192.0.2.7".to_owned()];
        platform.status = Some(status.clone());
        assert_eq!(
            due(&platform),
            (2, 0),
            "the host that VMs tell, if no other is set"
        );
        status.url = Some("https://example.org".to_owned());
        platform.status = Some(status);
        assert_eq!(due(&platform), (0, 0), "a status");
        platform.metadata.generation = Some(2);
        assert_eq!(due(&platform), (2, 1), "an edit");
        // As it was last: it may have gone.
        assert_eq!(due(&platform), (2, 1));
    }

    #[test]
    fn where_images_are_concerns_users_and_how_far_they_are_does_not() {
        let users = users(Heard::<_, KiteImage>::with([user()]));
        let image = json!({
            "metadata": {"name": "debian-12", "generation": 1},
            "spec": {"source": {"http": {"url": "https://example.org"}}, "minDisk": "5Gi"},
        });
        let mut image: KiteImage = serde_json::from_value(image).unwrap();
        assert_eq!(users.due(&image), 1);
        let mut status = KiteImageStatus {
            namespace: Some("kite-images".to_owned()),
            ..KiteImageStatus::default()
        };
        image.status = Some(status.clone());
        assert_eq!(users.due(&image), 1, "where it is");
        status.progress = Some("10%".to_owned());
        image.status = Some(status);
        assert_eq!(users.due(&image), 0, "how far it is");
    }

    #[test]
    fn a_new_address_of_the_api_server_concerns_users() {
        let users = users(Heard::<_, EndpointSlice>::with([user()]));
        let slice = |namespace: &str, address: &str| -> EndpointSlice {
            serde_json::from_value(json!({
                "metadata": {"name": "kubernetes", "namespace": namespace},
                "addressType": "IPv4", "endpoints": [{"addresses": [address]}],
            }))
            .unwrap()
        };
        assert_eq!(users.due(&slice("default", "203.0.113.6")), 1);
        assert_eq!(users.due(&slice("default", "203.0.113.7")), 1);
        assert_eq!(users.due(&slice("kite-user-ann", "203.0.113.8")), 0);
    }

    #[test]
    fn a_certificate_concerns_the_vms_beside_it_that_have_a_domain() {
        let mut shop = vm("shop");
        shop.spec.domain_prefix = Some("shop".to_owned());
        let vms = virtual_machines(Heard::<_, Secret>::with([shop, vm("web")]));
        let secret = |namespace: &str, type_: &str| -> Secret {
            serde_json::from_value(json!({
                "metadata": {"name": "wildcard", "namespace": namespace}, "type": type_,
            }))
            .unwrap()
        };
        assert_eq!(vms.due(&secret("dev", "kubernetes.io/tls")), 1);
        assert_eq!(vms.due(&secret("other", "kubernetes.io/tls")), 0);
        assert_eq!(vms.due(&secret("dev", "Opaque")), 0);
    }
}
