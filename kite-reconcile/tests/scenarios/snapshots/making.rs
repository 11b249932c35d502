//! `spec.fromSnapshot`: a new VM from a snapshot of another.

use std::time::Duration;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Secret};
use kite_core::{
    cdi::DataVolume,
    conditions,
    crd::{KiteImage, KiteSnapshot, KiteVirtualMachine, OsFamily, SnapshotPhase, VmPhase},
    kubevirt::{VirtualMachine, VirtualMachineInstance},
    labels, names,
};
use kite_fake::actors::storage::CONTENTS;
use kite_render::restore::{self, DiskNotes};
use kube::ResourceExt as _;
use serde_json::json;

use super::{
    ANN, CEPH, LONGHORN, delete_disk, object, on_storage, pass_time, phase, snapshot_of, status,
    told, world, world_on,
};
use crate::world::{World, image, vm_named};

/// A VM that is to be made from the snapshot.
fn made_from(snapshot: &str, name: &str) -> KiteVirtualMachine {
    let mut vm = vm_named(name);
    vm.spec.from_snapshot = Some(snapshot.to_owned());
    vm
}

/// Reason and message of a condition of the VM.
async fn said(world: &World, vm: &str, type_: &str) -> (String, String) {
    let status = world.vm(vm).await.status.unwrap();
    let told = conditions::find(&status.conditions, type_);
    let told = told.unwrap_or_else(|| panic!("nothing is told: {status:#?}"));
    (told.reason.clone(), told.message.clone())
}

async fn is_ready(world: &World, vm: &str) -> bool {
    let status = world.vm(vm).await.status.unwrap();
    conditions::is_true(&status.conditions, "Ready")
}

async fn volume(world: &World, claim: &str) -> PersistentVolume {
    let claim = world.find::<PersistentVolumeClaim>(ANN, claim).await;
    let name = claim.unwrap().spec.unwrap().volume_name.unwrap();
    world.find("", &name).await.unwrap()
}

/// The guest writes to its disk.
async fn write(world: &World, disk: &str, text: &str) {
    let written = json!({"metadata": {"annotations": {CONTENTS: text}}});
    world.edit(&volume(world, disk).await, written).await;
}

async fn read(world: &World, disk: &str) -> Option<String> {
    let volume = volume(world, disk).await;
    volume.annotations().get(CONTENTS).cloned()
}

/// What the guest is told at its first boot.
async fn user_data(world: &World, vm: &str) -> String {
    let secret = world
        .find::<Secret>(ANN, &names::cloud_init_secret(vm))
        .await;
    let data = secret.unwrap().data.unwrap();
    String::from_utf8(data["userdata"].0.clone()).unwrap()
}

/// A world with the snapshot `s` of the VM `web`.
async fn snapshot_world(driver: &str) -> World {
    let world = world_on(driver).await;
    write(&world, "web-disk", "hers").await;
    world.create(snapshot_of("web", "s")).await;
    world.settle().await;
    assert_eq!(phase(&world, "s").await, Some(SnapshotPhase::Ready));
    world
}

async fn settle(world: &World) {
    world.settle().await;
    pass_time(world, 5).await;
}

#[tokio::test(start_paused = true)]
async fn a_new_vm_has_the_data_and_an_identity_of_its_own() {
    for driver in [CEPH, LONGHORN, "disks.example.org"] {
        let world = snapshot_world(driver).await;
        write(&world, "web-disk", "later").await;
        world.create(made_from("s", "copy")).await;
        settle(&world).await;
        let found = world.vm("copy").await.status.unwrap();
        assert_eq!(found.phase, Some(VmPhase::Running), "{driver} {found:#?}");
        assert!(is_ready(&world, "copy").await, "{driver} {found:#?}");
        let disk = world.find::<DataVolume>(ANN, "copy-disk").await.unwrap();
        assert_eq!(restore::copy_of(&disk), Some("s"));
        assert_eq!(read(&world, "copy-disk").await.as_deref(), Some("hers"));
        let (reason, message) = said(&world, "copy", "ImageReady").await;
        assert_eq!(reason, "FromSnapshot");
        assert_eq!(message, "the disk is made from snapshot s");
        // Its guest takes itself for another.
        let instance = |name: &'static str| world.find::<VirtualMachineInstance>(ANN, name);
        let uuid = |it: Option<VirtualMachineInstance>| it?.spec.domain.firmware?.uuid;
        let own = world.vm("copy").await.uid();
        assert_eq!(uuid(instance("copy").await), own);
        assert_ne!(uuid(instance("web").await), own);
        assert!(user_data(&world, "copy").await.contains("/etc/machine-id"));
        assert!(!user_data(&world, "web").await.contains("/etc/machine-id"));
        // A guest has run on it, which is noted beside the data.
        let claim = world.find::<PersistentVolumeClaim>(ANN, "copy-disk").await;
        let notes = DiskNotes::of(&disk.metadata);
        assert_eq!(notes.has_run_on, claim.unwrap().uid());
        assert_eq!((notes.mark, notes.made_for), (None, None));
        world.writes();
        settle(&world).await;
        let written = world.writes();
        assert!(written.is_empty(), "it is at rest: {written:#?}");

        // It has nothing to do with where it came from any more.
        world.delete(&world.vm("web").await).await;
        settle(&world).await;
        world.assert_no_trace_of("web").await;
        assert!(world.all::<KiteSnapshot>().await.is_empty());
        assert!(is_ready(&world, "copy").await);
        assert_eq!(read(&world, "copy-disk").await.as_deref(), Some("hers"));
        world.delete(&world.vm("copy").await).await;
        settle(&world).await;
        world.assert_no_trace_of("copy").await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_it_cannot_be_made_from_is_told() {
    let world = snapshot_world(CEPH).await;
    world.create(image("ubuntu-24.04")).await;
    let mut other_image = made_from("s", "other-image");
    other_image.spec.image = "ubuntu-24.04".to_owned();
    let mut small = made_from("s", "small");
    small.spec.disk = "9Gi".parse().unwrap();
    for (vm, reason, words) in [
        (
            other_image,
            "OtherImage",
            "create another VM with spec.image debian-12",
        ),
        (
            small,
            "SmallerThanSnapshot",
            "set spec.disk to at least 10Gi",
        ),
        (
            made_from("t", "early"),
            "SnapshotNotReady",
            "there is no KiteSnapshot t in namespace kite-user-ann",
        ),
    ] {
        let name = vm.name_any();
        world.create(vm).await;
        settle(&world).await;
        let (found, message) = said(&world, &name, "ImageReady").await;
        assert_eq!(found, reason, "{message}");
        assert!(message.contains(words), "{message}");
        assert_eq!(said(&world, &name, "Ready").await.0, reason);
        let disk = world.find::<DataVolume>(ANN, &names::disk(&name)).await;
        assert!(disk.is_none());
    }
    // What can be mended goes on by itself.
    let larger = json!({"spec": {"disk": "12Gi"}});
    world.edit(&world.vm("small").await, larger).await;
    world.create(snapshot_of("web", "t")).await;
    settle(&world).await;
    assert!(is_ready(&world, "small").await);
    assert!(is_ready(&world, "early").await);
    let found = world.vm("small").await.status.unwrap();
    assert_eq!(found.disk.unwrap().size, Some("12Gi".parse().unwrap()));
}

#[tokio::test(start_paused = true)]
async fn it_is_made_when_vm_and_image_are_gone_and_has_the_name_again() {
    let world = snapshot_world(CEPH).await;
    let kept = json!({"spec": {"protected": true}});
    world.edit(&object(&world, "s").await, kept).await;
    world.delete(&world.vm("web").await).await;
    settle(&world).await;
    world.assert_no_trace_of("web").await;
    let image = world.find::<KiteImage>("", "debian-12").await.unwrap();
    world.delete(&image).await;
    settle(&world).await;
    world.create(made_from("s", "web")).await;
    settle(&world).await;
    let found = world.vm("web").await.status.unwrap();
    assert!(is_ready(&world, "web").await, "{found:#?}");
    assert_eq!(read(&world, "web-disk").await.as_deref(), Some("hers"));
    // The former VM's snapshot does not go with this one.
    world.delete(&world.vm("web").await).await;
    settle(&world).await;
    world.assert_no_trace_of("web").await;
    assert_eq!(phase(&world, "s").await, Some(SnapshotPhase::Ready));
}

#[tokio::test(start_paused = true)]
async fn a_windows_guest_is_copied_under_its_name_too() {
    let world = world_on(CEPH).await;
    let mut windows = image("windows");
    windows.spec.os_family = OsFamily::Windows;
    world.create(windows).await;
    world.settle().await;
    let of_windows = |mut vm: KiteVirtualMachine| {
        vm.spec.image = "windows".to_owned();
        vm.spec.disk = "40Gi".parse().unwrap();
        vm
    };
    world.create(of_windows(vm_named("win"))).await;
    settle(&world).await;
    let mut kept = snapshot_of("win", "w");
    kept.spec.protected = true;
    world.create(kept).await;
    settle(&world).await;
    world.create(of_windows(made_from("w", "other"))).await;
    settle(&world).await;
    assert!(is_ready(&world, "other").await);
    let machine = world.find::<VirtualMachine>(ANN, "other").await.unwrap();
    let domain = machine.spec.template.spec.domain;
    let firmware = domain.firmware.unwrap();
    assert!(firmware.bootloader.is_some() && firmware.uuid.is_some());
    assert!(domain.features.unwrap().hyperv.is_some());
    world.delete(&world.vm("win").await).await;
    settle(&world).await;
    world.create(of_windows(made_from("w", "win"))).await;
    settle(&world).await;
    assert!(is_ready(&world, "win").await);
    // By which Cloudbase-Init takes itself for a new one.
    let machine = world.find::<VirtualMachine>(ANN, "win").await.unwrap();
    let firmware = machine.spec.template.spec.domain.firmware.unwrap();
    assert_eq!(firmware.uuid, world.vm("win").await.uid());
}

#[tokio::test(start_paused = true)]
async fn the_snapshot_stays_until_a_guest_has_run_on_the_copy() {
    for driver in [CEPH, LONGHORN] {
        let world = snapshot_world(driver).await;
        let mut copy = made_from("s", "copy");
        copy.spec.power_state = kite_core::crd::PowerState::Off;
        world.create(copy).await;
        settle(&world).await;
        assert_eq!(said(&world, "copy", "DiskReady").await.0, "Filled");
        world.delete(&object(&world, "s").await).await;
        settle(&world).await;
        let (reason, message) = told(&status(&world, "s").await);
        assert_eq!(reason, "Copied");
        assert!(message.contains("VM copy"), "{message}");
        assert!(on_storage(&world, "s").await.is_some());
        // Also where the copy goes, which can be made anew for so long.
        let disk = world.find::<DataVolume>(ANN, "copy-disk").await.unwrap();
        delete_disk(&world, "copy-disk").await;
        settle(&world).await;
        assert_eq!(told(&status(&world, "s").await).0, "Copied");
        let asked = json!({"metadata": {"annotations": {labels::REPLACE_DISK: disk.uid()}}});
        world.edit(&world.vm("copy").await, asked).await;
        settle(&world).await;
        // Its VM waits for that only where storage needs its disk.
        world.delete(&world.vm("web").await).await;
        settle(&world).await;
        if driver == CEPH {
            world.assert_no_trace_of("web").await;
        } else {
            let (reason, message) = said(&world, "web", "Ready").await;
            assert_eq!(reason, "SnapshotsKept");
            assert!(message.contains("others are copied from, s:"), "{message}");
        }
        let on = json!({"spec": {"powerState": "On"}});
        world.edit(&world.vm("copy").await, on).await;
        settle(&world).await;
        world.assert_no_trace_of("web").await;
        assert!(world.all::<KiteSnapshot>().await.is_empty(), "{driver}");
        assert_eq!(read(&world, "copy-disk").await.as_deref(), Some("hers"));
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_made_from_one_has_snapshots_and_restores_of_its_own() {
    let world = snapshot_world(CEPH).await;
    world.create(made_from("s", "copy")).await;
    settle(&world).await;
    write(&world, "copy-disk", "its").await;
    world.create(snapshot_of("copy", "t")).await;
    settle(&world).await;
    let restore = |snapshot: &str, seconds: u64| {
        let at = world.now() + Duration::from_secs(seconds);
        json!({"spec": {"restore": {"snapshot": snapshot, "at": at.to_string()}}})
    };
    let asked = restore("s", 1);
    world.edit(&world.vm("copy").await, asked).await;
    settle(&world).await;
    let (reason, message) = said(&world, "copy", "Restored").await;
    assert_eq!(reason, "SnapshotUnusable");
    assert!(message.contains("is of another VM, web"), "{message}");
    let asked = restore("t", 2);
    world.edit(&world.vm("copy").await, asked).await;
    settle(&world).await;
    assert_eq!(said(&world, "copy", "Restored").await.0, "Restored");
    assert_eq!(read(&world, "copy-disk-2").await.as_deref(), Some("its"));
    let found = world.vm("copy").await.status.unwrap();
    assert_eq!(found.former_disks[0].name, "copy-disk");
    tokio::time::sleep(Duration::from_secs(25 * 3600)).await;
    settle(&world).await;
    let left = world.find::<DataVolume>(ANN, "copy-disk").await;
    assert!(left.is_none(), "a day is over");
    assert!(is_ready(&world, "copy").await);
}

#[tokio::test(start_paused = true)]
async fn one_that_is_lost_is_replaced_from_its_snapshot() {
    let world = snapshot_world(CEPH).await;
    world.create(made_from("s", "second")).await;
    settle(&world).await;
    let off = json!({"spec": {"powerState": "Off"}});
    world.edit(&world.vm("second").await, off).await;
    settle(&world).await;
    let disk = world.find::<DataVolume>(ANN, "second-disk").await.unwrap();
    delete_disk(&world, "second-disk").await;
    settle(&world).await;
    let (reason, message) = said(&world, "second", "DiskReady").await;
    assert_eq!(reason, "DiskLost");
    assert!(message.contains("made from snapshot s"), "{message}");
    let asked = json!({"metadata": {"annotations": {labels::REPLACE_DISK: disk.uid()}}});
    world.edit(&world.vm("second").await, asked).await;
    let on = json!({"spec": {"powerState": "On"}});
    world.edit(&world.vm("second").await, on).await;
    settle(&world).await;
    assert!(is_ready(&world, "second").await);
    assert_eq!(read(&world, "second-disk").await.as_deref(), Some("hers"));
}

#[tokio::test(start_paused = true)]
async fn another_snapshot_of_the_name_is_not_taken_for_it() {
    let world = snapshot_world(CEPH).await;
    world.create(made_from("s", "copy")).await;
    settle(&world).await;
    world.delete(&object(&world, "s").await).await;
    settle(&world).await;
    write(&world, "web-disk", "other").await;
    world.create(snapshot_of("web", "s")).await;
    let off = json!({"spec": {"powerState": "Off"}});
    world.edit(&world.vm("copy").await, off).await;
    settle(&world).await;
    let disk = world.find::<DataVolume>(ANN, "copy-disk").await.unwrap();
    delete_disk(&world, "copy-disk").await;
    settle(&world).await;
    let asked = json!({"metadata": {"annotations": {labels::REPLACE_DISK: disk.uid()}}});
    world.edit(&world.vm("copy").await, asked).await;
    settle(&world).await;
    let (reason, message) = said(&world, "copy", "ImageReady").await;
    assert_eq!(reason, "OtherSnapshot", "{message}");
    assert!(world.find::<DataVolume>(ANN, "copy-disk").await.is_none());
}

#[tokio::test(start_paused = true)]
async fn requests_are_judged_by_the_api_server() {
    let world = world().await;
    let mut offered = made_from("s", "offered");
    offered.spec.offer = Some("small".to_owned());
    let refused = world.try_create(offered).await.unwrap_err().to_string();
    let words = "fromSnapshot cannot be set for a VM from an offer";
    assert!(refused.contains(words), "{refused}");
    let refused = world.try_create(made_from("No_Name", "odd")).await;
    let refused = refused.unwrap_err().to_string();
    assert!(refused.contains("spec.fromSnapshot"), "{refused}");
    world.create(made_from("s", "copy")).await;
    for other in [json!("t"), json!(null)] {
        let patch = json!({"spec": {"fromSnapshot": other}});
        let copy = world.vm("copy").await;
        let refused = world.try_edit(&copy, patch).await.unwrap_err();
        let refused = refused.to_string();
        let words = "fromSnapshot cannot be changed";
        assert!(refused.contains(words), "{refused}");
    }
    let patch = json!({"spec": {"fromSnapshot": "s"}});
    let web = world.vm("web").await;
    let refused = world.try_edit(&web, patch).await.unwrap_err().to_string();
    assert!(
        refused.contains("fromSnapshot cannot be changed"),
        "{refused}"
    );
}
