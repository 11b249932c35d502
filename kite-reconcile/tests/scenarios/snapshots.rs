//! Snapshots of VMs' disks: how they are taken, how long they stay, and what they hold.

mod by_schedule;
mod keeping;
mod making;
mod restoring;
mod taking;

use std::time::Duration;

use k8s_openapi::api::{coordination::v1::Lease, storage::v1::StorageClass};
use kite_core::{
    cdi::{DataVolume, StorageProfile},
    cluster::{Cluster as _, FieldManager, Object, ObjectKey},
    crd::{KiteSnapshot, KiteSnapshotSpec, KiteSnapshotStatus, Quiesce, SnapshotPhase},
    kubevirt::VirtualMachineInstance,
    names,
    volume_snapshot::{VolumeSnapshot, VolumeSnapshotClass},
};
use kite_fake::actors::snapshot_definitions;
use serde_json::json;

use crate::world::{World, named, vm_named};

const ANN: &str = "kite-user-ann";
const CEPH: &str = "rook-ceph.rbd.csi.ceph.com";
const LONGHORN: &str = "driver.longhorn.io";

/// A world in which ann has the VM `web`, which runs, on storage of this driver.
async fn world_on(driver: &str) -> World {
    let world = World::played_with(snapshot_definitions()).await;
    world
        .create(StorageClass {
            metadata: named(names::STORAGE_CLASS),
            provisioner: driver.to_owned(),
            ..StorageClass::default()
        })
        .await;
    world.settle().await;
    // So that VMs can be moved.
    let sets = json!([{"accessModes": ["ReadWriteMany"], "volumeMode": "Block"}]);
    let profile = world.find::<StorageProfile>("", names::STORAGE_CLASS).await;
    let patch = json!({"spec": {"claimPropertySets": sets}});
    world.edit(&profile.unwrap(), patch).await;
    world.create(vm_named("web")).await;
    world.settle().await;
    world
        .create(VolumeSnapshotClass {
            api_version: "snapshot.storage.k8s.io/v1".to_owned(),
            kind: "VolumeSnapshotClass".to_owned(),
            metadata: named("snaps"),
            driver: driver.to_owned(),
            parameters: [("type".to_owned(), "snap".to_owned())].into(),
            deletion_policy: Some("Delete".to_owned()),
        })
        .await;
    world.settle().await;
    world
}

async fn world() -> World {
    world_on("disks.example.org").await
}

fn snapshot_of(vm: &str, name: &str) -> KiteSnapshot {
    let spec = KiteSnapshotSpec {
        vm: vm.to_owned(),
        ..KiteSnapshotSpec::default()
    };
    let mut snapshot = KiteSnapshot::new(name, spec);
    snapshot.metadata.namespace = Some(ANN.to_owned());
    snapshot
}

fn that(quiesce: Quiesce) -> KiteSnapshot {
    let mut snapshot = snapshot_of("web", "s");
    snapshot.spec.quiesce = quiesce;
    snapshot
}

async fn switch_off(world: &World) {
    let off = json!({"spec": {"powerState": "Off"}});
    world.edit(&world.vm("web").await, off).await;
    world.settle().await;
}

async fn switch_on(world: &World) {
    let on = json!({"spec": {"powerState": "On"}});
    world.edit(&world.vm("web").await, on).await;
    pass_time(world, 5).await;
}

/// Somebody deletes the disk of this name by hand.
async fn delete_disk(world: &World, name: &str) {
    let disk = world.find::<DataVolume>(ANN, name).await.unwrap();
    world.delete(&disk).await;
}

/// Somebody loses all that the status of the object of this name says.
async fn lose_status<K: Object>(world: &World, name: &str) {
    let manager = FieldManager::new("person");
    let key = ObjectKey::namespaced(ANN, name);
    let lost = json!({"status": null});
    let patched = world.cluster.merge_patch_status::<K>(manager, &key, &lost);
    patched.await.unwrap();
}

async fn object(world: &World, name: &str) -> KiteSnapshot {
    world.find(ANN, name).await.expect("the snapshot is there")
}

async fn status(world: &World, name: &str) -> KiteSnapshotStatus {
    object(world, name).await.status.expect("it was looked at")
}

async fn phase(world: &World, name: &str) -> Option<SnapshotPhase> {
    status(world, name).await.phase
}

async fn on_storage(world: &World, name: &str) -> Option<VolumeSnapshot> {
    world.find(ANN, name).await
}

/// Reason and message of the summary.
fn told(status: &KiteSnapshotStatus) -> (String, String) {
    let ready = kite_core::conditions::find(&status.conditions, "Ready").unwrap();
    (ready.reason.clone(), ready.message.clone())
}

/// Whether the guest is frozen, as its status says.
async fn is_frozen(world: &World) -> bool {
    let instance = world.find::<VirtualMachineInstance>(ANN, "web").await;
    let status = instance.unwrap().status.unwrap();
    status.other.get("fsFreezeStatus") == Some(&json!("frozen"))
}

/// Lets so much time pass, in which all look again every second.
async fn pass_time(world: &World, seconds: u32) {
    for _ in 0..seconds {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let _ = world.pass().await;
    }
    world.settle().await;
}

/// Nothing is left that holds the guest.
async fn assert_goes_on(world: &World) {
    assert!(!is_frozen(world).await);
    let leases = world.all::<Lease>().await;
    let held = leases
        .iter()
        .filter(|it| it.metadata.name == Some(names::freeze_lease("web")));
    assert_eq!(held.count(), 0);
}
