//! A user at the end of their quota, beside whose VMs `KubeVirt` needs room: VMs move
//! to other nodes, leave a node that is drained, and grow while they run, with `KubeVirt`
//! configured as it is by default.

use std::time::Duration;

use k8s_openapi::api::{
    core::v1::{Pod, ResourceQuota},
    storage::v1::StorageClass,
};
use kite_core::{
    conditions::find,
    crd::{KiteUser, KiteVirtualMachine, PowerState, VmPhase},
    kubevirt::{KubeVirt, KubeVirtSpec, VirtualMachineInstance, WorkloadUpdateStrategy},
    quantity::Bytes,
};
use kite_fake_kubevirt::kinds::{KUBEVIRT_CR, MIGRATION, STORAGE_PROFILE};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, DynamicObject, EvictParams, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::json;

use crate::world::{World, vm_named};

pub const ANN: &str = "kite-user-ann";

/// Ann's quota, of which her three VMs take all.
const VMS: [(&str, u32, &str); 3] = [("web", 4, "8Gi"), ("db", 2, "4Gi"), ("mail", 2, "4Gi")];

/// A world whose disks can be attached to several nodes, in which ann has used up her
/// quota.
pub async fn full() -> World {
    let world = World::played().await;
    let class = json!({
        "metadata": {"name": "kite-vm-storage"}, "provisioner": "csi.example.org",
        "allowVolumeExpansion": true,
    });
    let class: StorageClass = serde_json::from_value(class).unwrap();
    world.create(class).await;
    world.settle().await;
    let profiles = STORAGE_PROFILE.api(world.cluster.client(), None);
    let sets = json!([{"accessModes": ["ReadWriteMany"], "volumeMode": "Block"}]);
    let patch = Patch::Merge(json!({"spec": {"claimPropertySets": sets}}));
    let params = PatchParams::default();
    profiles
        .patch("kite-vm-storage", &params, &patch)
        .await
        .unwrap();
    world.settle().await;
    let ann = world.find::<KiteUser>("", "ann").await.unwrap();
    let quota = json!({"vms": 3, "cpu": 8, "memory": "16Gi", "disk": "30Gi"});
    world.edit(&ann, json!({"spec": {"quota": quota}})).await;
    for (name, cpu, memory) in VMS {
        let mut vm = vm_named(name);
        vm.spec.cpu = cpu;
        vm.spec.memory = memory.parse().unwrap();
        world.create(vm).await;
    }
    world.settle().await;
    for (name, ..) in VMS {
        assert_eq!(phase(&world.vm(name).await), VmPhase::Running, "{name}");
    }
    world
}

fn phase(vm: &KiteVirtualMachine) -> VmPhase {
    vm.status.as_ref().unwrap().phase.unwrap()
}

/// Reason and message of `Ready`.
pub fn ready(vm: &KiteVirtualMachine) -> (String, String) {
    let status = vm.status.as_ref().unwrap();
    let found = find(&status.conditions, "Ready").unwrap().clone();
    (found.reason, found.message)
}

pub async fn node_of(world: &World, name: &str) -> String {
    let instance: VirtualMachineInstance = world.find(ANN, name).await.unwrap();
    instance.status.unwrap().node_name.unwrap()
}

pub async fn migrate(world: &World, name: &str) {
    let migration = json!({
        "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstanceMigration",
        "metadata": {"name": format!("move-{name}")}, "spec": {"vmiName": name},
    });
    let migration: DynamicObject = serde_json::from_value(migration).unwrap();
    let migrations = MIGRATION.api(world.cluster.client(), Some(ANN));
    migrations
        .create(&PostParams::default(), &migration)
        .await
        .unwrap();
}

/// Lets those try again who do so from time to time.
pub async fn later(world: &World) {
    for _ in 0..12 {
        tokio::time::sleep(Duration::from_secs(10)).await;
        world.settle().await;
    }
}

/// Has `KubeVirt` configured like this.
pub async fn configure(world: &World, spec: KubeVirtSpec) {
    let mut kubevirt = KubeVirt::new("kubevirt", spec);
    kubevirt.metadata.namespace = Some("kite".to_owned());
    world.create(kubevirt).await;
    world.settle().await;
}

fn migrating_updates() -> KubeVirtSpec {
    KubeVirtSpec {
        workload_update_strategy: Some(WorkloadUpdateStrategy {
            workload_update_methods: vec!["LiveMigrate".to_owned()],
        }),
        ..KubeVirtSpec::default()
    }
}

async fn hard(world: &World, what: &str) -> u64 {
    let quota: ResourceQuota = world.find(ANN, "kite-quota").await.unwrap();
    let text = quota.spec.unwrap().hard.unwrap()[what].0.clone();
    if what.ends_with("cpu") {
        let text = text
            .strip_suffix('m')
            .map_or(format!("{text}000"), str::to_owned);
        return text.parse().unwrap();
    }
    text.parse::<Bytes>().unwrap().bytes()
}

#[tokio::test(start_paused = true)]
async fn every_vm_of_a_user_at_the_end_of_their_quota_can_move() {
    let world = full().await;
    configure(&world, KubeVirtSpec::default()).await;
    let mut from = Vec::new();
    for (name, ..) in VMS {
        from.push(node_of(&world, name).await);
        migrate(&world, name).await;
    }
    later(&world).await;
    for ((name, ..), from) in VMS.into_iter().zip(from) {
        assert_ne!(node_of(&world, name).await, from, "{name} has not moved");
        assert_eq!(phase(&world.vm(name).await), VmPhase::Running);
    }
}

/// As `kubectl drain` does: it asks for each pod again until all have gone.
#[tokio::test(start_paused = true)]
async fn a_node_is_drained_of_the_vms_of_a_user_at_the_end_of_their_quota() {
    let world = full().await;
    configure(&world, KubeVirtSpec::default()).await;
    let node = node_of(&world, "web").await;
    let client = world.cluster.client().clone();
    let nodes = Api::<k8s_openapi::api::core::v1::Node>::all(client.clone());
    nodes.cordon(&node).await.unwrap();
    let pods = Api::<Pod>::namespaced(client, ANN);
    let on_node = ListParams::default().fields(&format!("spec.nodeName={node}"));
    for _ in 0..60 {
        let left = pods.list(&on_node).await.unwrap().items;
        if left.is_empty() {
            break;
        }
        for pod in left {
            match pods.evict(&pod.name_any(), &EvictParams::default()).await {
                Ok(_) => {}
                Err(kube::Error::Api(status)) if matches!(status.code, 404 | 429) => {}
                Err(other) => panic!("{other}"),
            }
        }
        tokio::time::sleep(Duration::from_secs(5)).await;
        world.settle().await;
    }
    let left = pods.list(&on_node).await.unwrap().items;
    assert!(
        left.is_empty(),
        "{:?}",
        left.iter().map(Pod::name_any).collect::<Vec<_>>()
    );
    for (name, ..) in VMS {
        assert_ne!(node_of(&world, name).await, node, "{name}");
        assert_eq!(phase(&world.vm(name).await), VmPhase::Running);
    }
}

/// Has db ask for all that is left, in a cluster of which nobody knows how `KubeVirt` is
/// configured. Gives the uid of its instance.
pub async fn growing() -> (World, Option<String>) {
    let world = full().await;
    // Another gives up what it has.
    let mail = world.vm("mail").await;
    world.delete(&mail).await;
    world.settle().await;
    let instance: VirtualMachineInstance = world.find(ANN, "db").await.unwrap();
    let uid = instance.uid();
    // What KubeVirt sets by its live update configuration when it makes one.
    let bounds = json!({"cpu": {"maxSockets": 8}, "memory": {"maxGuest": "32Gi"}});
    let topology = json!({
        "currentCPUTopology": {"sockets": 2, "cores": 1, "threads": 1},
        "memory": {"guestAtBoot": "4Gi", "guestCurrent": "4Gi", "guestRequested": "4Gi"},
    });
    world
        .edit(&instance, json!({"spec": {"domain": bounds}}))
        .await;
    let instances = Api::<VirtualMachineInstance>::namespaced(world.cluster.client().clone(), ANN);
    let patch = Patch::Merge(json!({"status": topology}));
    instances
        .patch_status("db", &PatchParams::default(), &patch)
        .await
        .unwrap();
    world.settle().await;

    let db = world.vm("db").await;
    world
        .edit(&db, json!({"spec": {"cpu": 4, "memory": "8Gi"}}))
        .await;
    world.settle().await;
    // By its defaults KubeVirt moves nothing for that.
    let (reason, message) = ready(&world.vm("db").await);
    assert_eq!(
        reason, "Resizing",
        "nobody knows how KubeVirt is configured: {message}"
    );
    assert_eq!(orders(&world).await, Vec::<String>::new());
    (world, uid)
}

/// The migrations there are, by their names.
pub async fn orders(world: &World) -> Vec<String> {
    let migrations = MIGRATION.api(world.cluster.client(), Some(ANN));
    let all = migrations.list(&ListParams::default()).await.unwrap();
    all.items.iter().map(ResourceExt::name_any).collect()
}

/// db has what it asked for, and was not restarted for that.
pub async fn has_grown(world: &World, uid: Option<String>) {
    let instance: VirtualMachineInstance = world.find(ANN, "db").await.unwrap();
    assert_eq!(instance.uid(), uid, "it was not restarted");
    let (reason, message) = ready(&world.vm("db").await);
    assert_eq!(reason, "Running", "{message}");
    let pods = Api::<Pod>::namespaced(world.cluster.client().clone(), ANN);
    let of_db = ListParams::default().labels("vm.kubevirt.io/name=db");
    let asked = pods
        .list(&of_db)
        .await
        .unwrap()
        .items
        .into_iter()
        .filter(|pod| pod.status.as_ref().unwrap().phase.as_deref() == Some("Running"));
    let asked: Vec<_> = asked
        .map(|pod| {
            let requests = pod
                .spec
                .unwrap()
                .containers
                .remove(0)
                .resources
                .unwrap()
                .requests;
            requests.unwrap()["memory"].0.parse::<Bytes>().unwrap()
        })
        .collect();
    assert!(
        asked.len() == 1 && asked[0] > "8Gi".parse().unwrap(),
        "{asked:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_vm_grows_to_the_end_of_the_quota_while_it_runs() {
    let (world, uid) = growing().await;
    configure(&world, migrating_updates()).await;
    later(&world).await;
    has_grown(&world, uid).await;
    // KubeVirt has moved it, and nobody else had to.
    let orders = orders(&world).await;
    assert!(
        orders.len() == 1 && orders[0].starts_with("kubevirt-workload-update-"),
        "{orders:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_vm_grows_where_kubevirt_is_configured_as_it_is_by_default() {
    let (world, uid) = growing().await;
    let from = node_of(&world, "db").await;
    configure(&world, KubeVirtSpec::default()).await;
    later(&world).await;
    has_grown(&world, uid).await;
    assert_ne!(node_of(&world, "db").await, from, "it has not moved");
    assert_eq!(
        orders(&world).await,
        Vec::<String>::new(),
        "it was cleared away"
    );
}

/// Where no other node takes it, it waits, and tells so; and goes on when one does.
#[tokio::test(start_paused = true)]
async fn a_vm_that_cannot_move_waits_for_its_size() {
    let (world, uid) = growing().await;
    let from = node_of(&world, "db").await;
    let client = world.cluster.client().clone();
    let nodes = Api::<k8s_openapi::api::core::v1::Node>::all(client);
    let others = nodes.list(&ListParams::default()).await.unwrap().items;
    let others: Vec<_> = others.iter().map(ResourceExt::name_any).collect();
    for node in others.iter().filter(|name| **name != from) {
        nodes.cordon(node).await.unwrap();
    }
    configure(&world, KubeVirtSpec::default()).await;
    // Longer than a migration takes whose turn it is.
    for _ in 0..6 {
        later(&world).await;
        assert_eq!(orders(&world).await.len(), 1, "one at a time");
    }
    let (reason, message) = ready(&world.vm("db").await);
    assert_eq!(reason, "ResizeWaits");
    assert!(
        message.contains("VirtualMachineInstanceMigrations"),
        "{message}"
    );
    assert_eq!(node_of(&world, "db").await, from);
    for node in others.iter().filter(|name| **name != from) {
        nodes.uncordon(node).await.unwrap();
    }
    later(&world).await;
    has_grown(&world, uid).await;
}

#[tokio::test(start_paused = true)]
async fn what_was_granted_starts_again_though_the_quota_is_smaller_by_now() {
    let world = full().await;
    let ann = world.find::<KiteUser>("", "ann").await.unwrap();
    let less = json!({"vms": 1, "cpu": 1, "memory": "1Gi", "disk": "1Gi"});
    world.edit(&ann, json!({"spec": {"quota": less}})).await;
    world.settle().await;
    for power in [PowerState::Off, PowerState::On] {
        for (name, ..) in VMS {
            let vm = world.vm(name).await;
            world
                .edit(&vm, json!({"spec": {"powerState": power}}))
                .await;
        }
        world.settle().await;
    }
    later(&world).await;
    for (name, ..) in VMS {
        assert_eq!(ready(&world.vm(name).await).0, "Running", "{name}");
        migrate(&world, name).await;
    }
    let from = node_of(&world, "web").await;
    later(&world).await;
    assert_ne!(node_of(&world, "web").await, from);
}

/// Nobody has more beyond the quota than the largest VM that they were given, however
/// many pods they make.
#[tokio::test(start_paused = true)]
async fn the_room_for_a_move_is_that_of_the_largest_vm_and_goes_with_it() {
    let world = full().await;
    let (cpu, memory) = ("requests.cpu", "requests.memory");
    let full = (hard(&world, cpu).await, hard(&world, memory).await);
    let web = world.vm("web").await;
    world.delete(&web).await;
    world.settle().await;
    let without = (hard(&world, cpu).await, hard(&world, memory).await);
    // 4 CPUs and 8Gi with what a launcher adds, instead of 2 and 4Gi.
    assert_eq!(full.0 - without.0, 200);
    let gib = 1u64 << 30;
    assert!(
        (4 * gib..5 * gib).contains(&(full.1 - without.1)),
        "{full:?} {without:?}"
    );
    for name in ["db", "mail"] {
        let vm = world.vm(name).await;
        world.delete(&vm).await;
    }
    world.settle().await;
    let empty = (hard(&world, cpu).await, hard(&world, memory).await);
    assert_eq!(without.0 - empty.0, 200 + 250);
    assert!(without.1 > empty.1 && empty.1 >= 16 * gib);
}

#[tokio::test(start_paused = true)]
async fn the_quota_follows_how_kubevirt_is_configured() {
    let world = full().await;
    let before = hard(&world, "requests.cpu").await;
    let by_one = json!({"configuration": {"developerConfiguration": {"cpuAllocationRatio": 1}}});
    configure(&world, serde_json::from_value(by_one).unwrap()).await;
    let after = hard(&world, "requests.cpu").await;
    // 8 CPUs of the quota and 4 of the largest VM, one for one instead of one for ten.
    assert_eq!(after - before, (8 + 4) * 900);
    for power in [PowerState::Off, PowerState::On] {
        for (name, ..) in VMS {
            let vm = world.vm(name).await;
            world
                .edit(&vm, json!({"spec": {"powerState": power}}))
                .await;
        }
        world.settle().await;
    }
    for (name, ..) in VMS {
        assert_eq!(ready(&world.vm(name).await).0, "Running", "{name}");
        migrate(&world, name).await;
    }
    let from = node_of(&world, "web").await;
    later(&world).await;
    assert_ne!(node_of(&world, "web").await, from);
    let kubevirts = KUBEVIRT_CR.api(world.cluster.client(), Some("kite"));
    let params = DeleteParams::default();
    let _ = kubevirts.delete("kubevirt", &params).await.unwrap();
    world.settle().await;
    assert_eq!(hard(&world, "requests.cpu").await, before);
}
