//! The stage of every scenario: Kite's controllers with their real triggers, and
//! a cluster with `KubeVirt` and CDI around them.

use std::sync::{Arc, OnceLock};

use k8s_openapi::api::{
    coordination::v1::Lease,
    core::v1::{Namespace, Node, PersistentVolumeClaim, ResourceQuota, Secret, Service},
    discovery::v1::EndpointSlice,
    networking::v1::{Ingress, IngressClass, NetworkPolicy},
    storage::v1::StorageClass,
};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kite_core::{
    cdi::{DataImportCron, DataSource, DataVolume, StorageProfile},
    cert_manager::ClusterIssuer,
    cluster::{KubeCluster, Object},
    crd::{
        Exposure, ImageSource, KiteImage, KiteImageSpec, KitePlatform, KitePlatformSpec,
        KiteReservation, KiteSnapshot, KiteUser, KiteUserSpec, KiteVirtualMachine,
        KiteVirtualMachineOffer, KiteVirtualMachineSpec, KiteVolume,
    },
    gateway_api::{Gateway, HttpRoute},
    kubevirt::{KubeVirt, VirtualMachine, VirtualMachineInstance, VirtualMachineInstanceMigration},
    names,
    volume_snapshot::{VolumeSnapshot, VolumeSnapshotClass},
};
use kite_fake::actors::definitions::Definition;
use kite_fake::actors::{
    Actor, ClaimBinder, GarbageCollector, Gateways, LoadBalancers, NamespaceDefaults,
    NamespaceLifecycle, Nodes, Pods, VolumeSnapshots, kind, snapshot_definitions,
};
use kite_fake::clock::Clock;
use kite_fake::fault::Plan;
use kite_fake::sim::{Builder, Controller, ControllerContext, Simulation};
use kite_fake::state::Snapshot;
use kite_fake_kubevirt::cdi::{
    CdiAdmission, DataImportCrons, DataSources, DataVolumes, StorageProfiles,
};
use kite_fake_kubevirt::kubevirt::{
    Instances, KubeVirtAdmission, MigrationAgent, MigrationTriggers, Migrations, NoGuests,
    NodeAgent, SUBRESOURCES, VirtualMachines, VmSubresources,
};
use kite_reconcile::{
    Context, Kinds as _,
    cache::{CachedCluster, Caches},
    image,
    keys::{KeyError, KeySource},
    kinds::{KiteKinds, selection},
    offer, platform, snapshot,
    triggers::{self, Listener},
    user, vm, volume,
};
use kite_render::keys::VmKeys;
use kube::{
    api::ObjectMeta,
    runtime::{
        reflector::{ObjectRef, Store},
        watcher,
    },
};
use serde_json::{Value, json};

/// Keys that differ each time that some are made, and only then: a key that was
/// replaced shows, and two runs of the same plan are the same.
struct KeysByTime(Arc<dyn Clock>);

impl KeySource for KeysByTime {
    fn generate(&self, name: &str) -> Result<VmKeys, KeyError> {
        let made = format!("{name} {}", self.0.now());
        let private = |which: &str| {
            format!(
                "-----BEGIN OPENSSH PRIVATE KEY-----\n{which} {made}\n\
                 -----END OPENSSH PRIVATE KEY-----\n"
            )
        };
        Ok(VmKeys {
            client_private: private("client"),
            client_public: format!("ssh-ed25519 client {made}\n"),
            host_private: private("host"),
            host_public: format!("ssh-ed25519 host {made}\n"),
        })
    }
}

/// A simulated controller, while it is told what to listen to.
struct Heard<K: Object>(Controller<K>);

impl<K: Object> Listener<K> for Heard<K> {
    /// Whatever the trigger selects, the watch fills a cache too.
    fn on<W, M>(self, _config: watcher::Config, start: fn() -> M) -> Self
    where
        W: Object,
        M: Fn(&W, &Store<K>) -> Vec<ObjectRef<K>> + Send + Sync + 'static,
    {
        let config = selection::<W>();
        // With a list from the watch cache, which may show the past, a restart
        // is harder than it is for kube's default.
        Self(self.0.watches_anew(config.any_semantic(), start))
    }
}

/// Whether reconcilers read by requests instead of from caches.
fn reads_uncached() -> bool {
    std::env::var("KITE_SWEEP_READS").is_ok_and(|value| value == "live")
}

fn context<K: Object>(
    controller: ControllerContext<K>,
) -> Arc<Context<CachedCluster<KubeCluster>>> {
    let mut caches = Caches::builder();
    macro_rules! feed {
        ($($kind:ty),* $(,)?) => { $( {
            let mut writer = caches.writer_for(&KiteKinds::options::<$kind>());
            controller.tap::<$kind>(move |event| writer.apply(event, |_| {}));
        } )* };
    }
    if !reads_uncached() {
        feed!(
            DataImportCron,
            DataSource,
            DataVolume,
            EndpointSlice,
            Gateway,
            HttpRoute,
            ClusterIssuer,
            Ingress,
            IngressClass,
            KiteImage,
            KitePlatform,
            KiteReservation,
            KiteSnapshot,
            KiteUser,
            KiteVirtualMachine,
            KiteVirtualMachineOffer,
            KiteVolume,
            KubeVirt,
            Lease,
            Namespace,
            NetworkPolicy,
            Node,
            PersistentVolumeClaim,
            ResourceQuota,
            Secret,
            Service,
            StorageClass,
            StorageProfile,
            VirtualMachine,
            VirtualMachineInstance,
            VirtualMachineInstanceMigration,
            VolumeSnapshot,
            VolumeSnapshotClass,
        );
    }
    let clock = Arc::clone(&controller.clock);
    let context = Context::new(KubeCluster::new(controller.client))
        .with_keys(KeysByTime(controller.clock))
        .with_clock(move || clock.now());
    Arc::new(context.cached(caches.build()))
}

macro_rules! controller {
    ($name:literal, $kind:ty, $reconcile:path, $triggers:path, $copies:expr) => {{
        let controller = Controller::with_context($name, |of: ControllerContext<$kind>| {
            let context = context(of);
            move |object: Arc<$kind>| {
                let context = Arc::clone(&context);
                async move { $reconcile(&object, &context).await }
            }
        });
        let watching = selection::<$kind>().any_semantic();
        let heard = Heard(controller.watching(watching));
        $triggers(heard).0.replicas($copies)
    }};
}

/// `KubeVirt`'s own object.
const MACHINE: &str = "VirtualMachine";

/// All of Kite's controllers, so many copies of each, on a cluster that knows
/// Kite's kinds.
fn builder(copies: usize) -> Builder {
    Simulation::builder()
        .crds(kite_core::crd::all())
        .crds(kite_core::kubevirt::crds())
        .crds(kite_core::cdi::crds())
        .crds(kite_core::gateway_api::crds())
        .crds(kite_fake_kubevirt::operator_definitions())
        .crds(kite_core::cert_manager::crds())
        .crds(kinds_of_others())
        .actors(actors)
        .prepare(|cluster| {
            cluster.admit_by(Arc::new(CdiAdmission));
            cluster.admit_by(Arc::new(KubeVirtAdmission));
            let subresources = VmSubresources::new(cluster.client(), Arc::clone(cluster.clock()));
            cluster.extend(SUBRESOURCES, Arc::new(subresources));
        })
        .controller(controller!(
            "users",
            KiteUser,
            user::reconcile,
            triggers::users,
            copies
        ))
        .controller(controller!(
            "images",
            KiteImage,
            image::reconcile,
            triggers::images,
            copies
        ))
        .controller(controller!(
            "vms",
            KiteVirtualMachine,
            vm::reconcile,
            triggers::virtual_machines,
            copies
        ))
        // A name is kept where a VM had come to hold it, and until somebody deletes it.
        // That no controller does is asked at every step.
        .ignore_objects_with("KiteReservation", "/spec/kept")
        // The public half of a key that is made by the time.
        .ignore_field("KiteVirtualMachine", "/status/guestKey")
        .ignore_field("Secret", "/data/id_ed25519")
        .ignore_field("Secret", "/data/id_ed25519.pub")
        .ignore_field("Secret", "/data/ssh_host_ed25519_key")
        .ignore_field("Secret", "/data/ssh_host_ed25519_key.pub")
        // Has the keys in it; that they are those of the key Secret is asked at
        // every step.
        .ignore_field("Secret", "/data/userdata")
        // A time in nanoseconds.
        .ignore_field("VolumeSnapshotContent", "/status/creationTime")
        // By when the instance was looked at, and by its uid.
        .ignore_field(
            "VirtualMachineInstance",
            "/status/phaseTransitionTimestamps",
        )
        .ignore_field("VirtualMachineInstance", "/status/interfaces/0/mac")
        .ignore_field("KiteVirtualMachine", "/status/restart/instanceUid")
        // Of a machine that a rival had made anew: how often it was written, what of
        // its former life it remembers, and what it was started from.
        .ignore_field_if_replaced(MACHINE, MACHINE, "/status/desiredGeneration")
        .ignore_field_if_replaced(MACHINE, MACHINE, "/status/observedGeneration")
        .ignore_field_if_replaced(MACHINE, MACHINE, "/status/conditions")
        .ignore_field_if_replaced(MACHINE, MACHINE, "/spec/template/spec/domain/firmware")
        .ignore_field_if_replaced(MACHINE, "ControllerRevision", "")
        .ignore_field_if_replaced(
            MACHINE,
            "VirtualMachineInstance",
            "/metadata/annotations/kubevirt.io~1vm-generation",
        )
        .ignore_field_if_replaced(
            MACHINE,
            "VirtualMachineInstance",
            "/status/virtualMachineRevisionName",
        )
        // Whoever deletes a disk's claim has its data deleted, and it cannot be had
        // back: it stays marked until its VM stops.
        .protect_from_rivals("persistentvolumeclaims")
        .protect_from_rivals("datavolumes.cdi.kubevirt.io")
        // An offer that is deleted and made again is another offer.
        .protect_from_rivals("kitevirtualmachineoffers.hy3ons.github.io")
        // One binary runs all of them.
        .one_process()
        .forbid_noop_writes()
}

/// Whoever else works in the cluster and matters to Kite.
fn actors() -> Vec<Arc<dyn Actor>> {
    vec![
        Arc::new(NamespaceLifecycle::default()),
        Arc::new(NamespaceDefaults),
        Arc::new(GarbageCollector::default()),
        Arc::new(ClaimBinder),
        Arc::new(VolumeSnapshots::default()),
        Arc::new(Nodes),
        Arc::new(Pods::default()),
        Arc::new(DataSources::default()),
        Arc::new(DataVolumes::default()),
        Arc::new(DataImportCrons::default()),
        Arc::new(StorageProfiles),
        Arc::new(VirtualMachines::default()),
        Arc::new(Instances::default()),
        Arc::new(NodeAgent::new(Arc::new(NoGuests))),
        Arc::new(LoadBalancers::default()),
        Arc::new(Gateways::default()),
    ]
}

/// As [`inhabited`], where VMs can be moved to another node, with profiles that say which
/// disks several nodes can have. `KubeVirt`'s webhook is not there, which refuses a second
/// migration of an instance where it has seen the first.
pub fn with_migrations(copies: usize) -> Builder {
    let profiles = kite_fake_kubevirt::cdi_definitions().into_iter();
    let profiles = profiles.filter(|crd| crd.spec.names.kind == "StorageProfile");
    inhabited(copies).crds(profiles).actors(|| {
        let mut all = actors();
        all.extend([
            Arc::new(Migrations::default()) as Arc<dyn Actor>,
            Arc::new(MigrationAgent),
            Arc::new(MigrationTriggers),
        ]);
        all
    })
}

/// As [`inhabited`], with the controller of snapshots.
pub fn with_snapshots(copies: usize) -> Builder {
    let profiles = kite_fake_kubevirt::cdi_definitions().into_iter();
    let profiles = profiles.filter(|crd| crd.spec.names.kind == "StorageProfile");
    inhabited(copies).crds(profiles).controller(controller!(
        "snapshots",
        KiteSnapshot,
        snapshot::reconcile,
        triggers::snapshots,
        copies
    ))
}

/// As [`inhabited`], with the controller of volumes.
pub fn with_volumes(copies: usize) -> Builder {
    inhabited(copies).controller(controller!(
        "volumes",
        KiteVolume,
        volume::reconcile,
        triggers::volumes,
        copies
    ))
}

/// As [`inhabited`], with the controller of offers.
pub fn with_offers(copies: usize) -> Builder {
    inhabited(copies).controller(controller!(
        "offers",
        KiteVirtualMachineOffer,
        offer::reconcile,
        triggers::offers,
        copies
    ))
}

/// As [`inhabited`], with the controller of the platform.
pub fn inhabited_with_platform(copies: usize) -> Builder {
    inhabited(copies).controller(controller!(
        "platform",
        KitePlatform,
        platform::reconcile,
        triggers::platforms,
        copies
    ))
}

/// A cluster on which Kite was just installed.
pub fn installed(copies: usize) -> Builder {
    builder(copies).cluster(|cluster| {
        foundations()
            .into_iter()
            .fold(cluster, kite_fake::Builder::object)
    })
}

/// As [`installed`], with the controller of the platform.
pub fn with_platform(copies: usize) -> Builder {
    installed(copies).controller(controller!(
        "platform",
        KitePlatform,
        platform::reconcile,
        triggers::platforms,
        copies
    ))
}

/// A cluster with the image `debian-12`, imported, and the users `ann` and
/// `bob`, all settled.
pub fn inhabited(copies: usize) -> Builder {
    static SETTLED: OnceLock<Snapshot> = OnceLock::new();
    let settled = SETTLED.get_or_init(|| {
        let simulation = installed(1)
            .scenario(async |world| {
                world.create(&image("debian-12")).await?;
                world.create(&user("ann")).await?;
                world.create(&user("bob")).await?;
                world.settle().await
            })
            .build();
        let run = simulation.run(Plan::none(), 0);
        assert!(
            run.violations.is_empty(),
            "{:#?}\n{}",
            run.violations,
            run.trace
        );
        run.states.last().expect("it is settled").clone()
    });
    builder(copies).cluster(|cluster| cluster.snapshot(settled.clone()))
}

/// The driver of all storage.
pub const DRIVER: &str = "disks.example.org";

/// The class of Gateways that is looked after here.
pub const GATEWAY_CLASS: &str = "played";

/// Kinds that Kite has nothing to do with, and others need.
fn kinds_of_others() -> Vec<CustomResourceDefinition> {
    const GATEWAY_CLASSES: Definition = Definition(&kind::GATEWAY_CLASS, &[], &[]);
    let mut kinds = snapshot_definitions();
    kinds.push(GATEWAY_CLASSES.crd());
    kinds
}

fn foundations() -> Vec<Value> {
    let named = |name: &str| ObjectMeta {
        name: Some(name.to_owned()),
        ..ObjectMeta::default()
    };
    let namespace = |name: &str| {
        serde_json::to_value(Namespace {
            metadata: named(name),
            ..Namespace::default()
        })
    };
    let class = StorageClass {
        metadata: named(names::STORAGE_CLASS),
        provisioner: DRIVER.to_owned(),
        allow_volume_expansion: Some(true),
        ..StorageClass::default()
    };
    let settings = KitePlatformSpec {
        base_domain: Some("vm.example.org".to_owned()),
        exposure: Exposure {
            // The one that the load balancers here look after.
            ingress_class_name: Some("nginx".to_owned()),
            ..Exposure::default()
        },
        ..KitePlatformSpec::default()
    };
    [
        namespace(names::PLATFORM_NAMESPACE),
        namespace(names::IMAGE_NAMESPACE),
        serde_json::to_value(class),
        Ok(json!({
            "apiVersion": "gateway.networking.k8s.io/v1",
            "kind": "GatewayClass",
            "metadata": {"name": GATEWAY_CLASS},
            "spec": {"controllerName": "example.org/played"},
        })),
        serde_json::to_value(KitePlatform::new(names::PLATFORM, settings)),
    ]
    .into_iter()
    .map(Result::unwrap)
    .collect()
}

pub fn user(name: &str) -> KiteUser {
    let mut spec = KiteUserSpec::new(name);
    spec.email = Some(format!("{name}@example.org"));
    KiteUser::new(name, spec)
}

pub fn image(name: &str) -> KiteImage {
    KiteImage::new(
        name,
        KiteImageSpec::new(
            ImageSource::http(format!("https://images.example.org/{name}.qcow2")),
            "5Gi".parse().unwrap(),
        ),
    )
}

/// A VM of `user`, whose login name and domain are called as it is.
pub fn vm(user: &str, name: &str) -> KiteVirtualMachine {
    let mut spec = KiteVirtualMachineSpec::new(
        2,
        "2Gi".parse().unwrap(),
        "10Gi".parse().unwrap(),
        "debian-12",
        name,
    );
    spec.domain_prefix = Some(name.to_owned());
    let mut vm = KiteVirtualMachine::new(name, spec);
    vm.metadata.namespace = Some(names::user_namespace(user));
    vm
}
