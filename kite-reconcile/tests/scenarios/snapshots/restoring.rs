//! `spec.restore`: a VM's disk made anew from a snapshot, and put back.

use std::time::Duration;

use k8s_openapi::api::{networking::v1::Ingress, storage::v1::StorageClass};
use kite_core::{
    cdi::DataVolume,
    conditions,
    crd::{KiteSnapshot, KiteVirtualMachine, SnapshotPhase, VmPhase},
    kubevirt::{VirtualMachine, VirtualMachineInstance},
    names,
    volume_snapshot::VolumeSnapshot,
};
use kite_fake::actors::{Rule, Selector};
use kite_fake_kubevirt::stages::DISK_STEP;
use kite_render::restore::{self, DiskNotes};
use kube::ResourceExt;
use serde_json::json;

use super::{
    ANN, CEPH, LONGHORN, delete_disk, lose_status, object, on_storage, pass_time, phase,
    snapshot_of, status, switch_off, switch_on, told, world, world_on,
};
use crate::lost::replace;
use crate::world::{World, named, vm_named};

const DAY: Duration = Duration::from_secs(24 * 3600);

/// Asks for a restore from the snapshot, so many seconds from now.
async fn ask(world: &World, from: serde_json::Value, seconds: i64) {
    let at = world.now() + Duration::from_secs(seconds.unsigned_abs());
    let mut restore = json!({"snapshot": null, "disk": null, "at": at.to_string()});
    let fields = from.as_object().unwrap().clone();
    restore.as_object_mut().unwrap().extend(fields);
    let vm = world.vm("web").await;
    world.edit(&vm, json!({"spec": {"restore": restore}})).await;
}

/// Reason and message of the condition `Restored`.
async fn restored(world: &World) -> (String, String) {
    let status = world.vm("web").await.status.unwrap();
    let told = conditions::find(&status.conditions, "Restored");
    let told = told.unwrap_or_else(|| panic!("nothing is told: {status:#?}"));
    (told.reason.clone(), told.message.clone())
}

/// The disk that the running guest has.
async fn runs_on(world: &World) -> String {
    let instance = world.find::<VirtualMachineInstance>(ANN, "web").await;
    let instance = instance.expect("it runs");
    let mut volumes = instance.spec.volumes.iter();
    let root = volumes.find_map(|it| it.data_volume.as_ref()).unwrap();
    root.name.clone()
}

async fn disks(world: &World) -> Vec<String> {
    let all: Vec<DataVolume> = world.all().await;
    let own = all
        .iter()
        .filter(|it| it.namespace().as_deref() == Some(ANN));
    let mut names: Vec<_> = own.map(ResourceExt::name_any).collect();
    names.sort();
    names
}

async fn settle(world: &World) {
    world.settle().await;
    pass_time(world, 5).await;
}

/// A VM that was restored from the snapshot `s`, and runs.
async fn restored_world(driver: &str) -> World {
    let world = world_on(driver).await;
    world.create(snapshot_of("web", "s")).await;
    world.settle().await;
    assert_eq!(phase(&world, "s").await, Some(SnapshotPhase::Ready));
    ask(&world, json!({"snapshot": "s"}), 0).await;
    settle(&world).await;
    world
}

#[tokio::test(start_paused = true)]
async fn a_vm_is_restored_and_the_former_disk_is_kept_for_a_day() {
    for driver in [CEPH, LONGHORN, "disks.example.org"] {
        let world = restored_world(driver).await;
        assert_eq!(restored(&world).await.0, "Restored", "{driver}");
        assert_eq!(runs_on(&world).await, "web-disk-2");
        let vm = world.vm("web").await;
        let found = vm.status.clone().unwrap();
        assert_eq!(found.phase, Some(VmPhase::Running));
        assert_eq!(found.disk.as_ref().unwrap().name, "web-disk-2");
        assert!(
            conditions::is_true(&found.conditions, "Ready"),
            "{found:#?}"
        );
        assert_eq!(found.granted.unwrap().disk, Some("10Gi".parse().unwrap()));
        let [former] = &found.former_disks[..] else {
            panic!("{:#?}", found.former_disks)
        };
        assert_eq!(former.name, "web-disk");
        let needed = driver != CEPH;
        assert_eq!(former.needed_by_snapshots, needed, "{driver}");
        assert_eq!(former.kept_until.is_none(), needed);
        world.writes();
        settle(&world).await;
        let written = world.writes();
        assert!(written.is_empty(), "it is at rest: {written:#?}");

        tokio::time::sleep(DAY).await;
        settle(&world).await;
        let left = if needed {
            vec!["web-disk", "web-disk-2"]
        } else {
            vec!["web-disk-2"]
        };
        assert_eq!(disks(&world).await, left, "{driver}");
        assert_eq!(runs_on(&world).await, "web-disk-2");
        // The snapshot can be restored once more as long as it is there, and goes.
        assert_eq!(phase(&world, "s").await, Some(SnapshotPhase::Ready));
        world.delete(&object(&world, "s").await).await;
        settle(&world).await;
        assert!(world.all::<VolumeSnapshot>().await.is_empty());
        tokio::time::sleep(DAY).await;
        settle(&world).await;
        assert_eq!(disks(&world).await, ["web-disk-2"]);
        world.delete(&world.vm("web").await).await;
        settle(&world).await;
        world.assert_no_trace_of("web").await;
        assert!(disks(&world).await.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn a_restore_is_taken_back() {
    let world = restored_world(CEPH).await;
    ask(&world, json!({"disk": "web-disk"}), 1).await;
    settle(&world).await;
    assert_eq!(restored(&world).await.0, "Restored");
    assert_eq!(runs_on(&world).await, "web-disk");
    let found = world.vm("web").await.status.unwrap();
    assert_eq!(found.former_disks[0].name, "web-disk-2");
    // And once more from the snapshot: a disk of a number that none has had.
    ask(&world, json!({"snapshot": "s"}), 2).await;
    settle(&world).await;
    assert_eq!(runs_on(&world).await, "web-disk-4");
    tokio::time::sleep(DAY).await;
    settle(&world).await;
    assert_eq!(disks(&world).await, ["web-disk-4"]);
}

#[tokio::test(start_paused = true)]
async fn a_vm_that_is_off_stays_off() {
    let world = world_on(CEPH).await;
    world.create(snapshot_of("web", "s")).await;
    world.settle().await;
    switch_off(&world).await;
    ask(&world, json!({"snapshot": "s"}), 0).await;
    settle(&world).await;
    assert_eq!(restored(&world).await.0, "Restored");
    let machine = world.find::<VirtualMachine>(ANN, "web").await.unwrap();
    assert_eq!(restore::disk_of(&machine), Some("web-disk-2"));
    assert_eq!(machine.spec.run_strategy.as_deref(), Some("Halted"));
    // No guest has run on it: the former disk and the snapshot stay for as long as that.
    tokio::time::sleep(2 * DAY).await;
    settle(&world).await;
    assert_eq!(disks(&world).await, ["web-disk", "web-disk-2"]);
    world.delete(&object(&world, "s").await).await;
    settle(&world).await;
    assert_eq!(told(&status(&world, "s").await).0, "Copied");
    assert!(on_storage(&world, "s").await.is_some());
    switch_on(&world).await;
    assert_eq!(runs_on(&world).await, "web-disk-2");
    assert!(world.all::<KiteSnapshot>().await.is_empty());
    tokio::time::sleep(2 * DAY).await;
    settle(&world).await;
    assert_eq!(disks(&world).await, ["web-disk-2"]);
}

#[tokio::test(start_paused = true)]
async fn the_vm_runs_on_while_the_disk_is_copied() {
    let world = world_on(CEPH).await;
    world.create(snapshot_of("web", "s")).await;
    world.settle().await;
    let before = world.find::<VirtualMachineInstance>(ANN, "web").await;
    world
        .rules
        .add(Rule::hold(DISK_STEP, Selector::named("web-disk-2")));
    ask(&world, json!({"snapshot": "s"}), 0).await;
    settle(&world).await;
    let (reason, message) = restored(&world).await;
    assert_eq!(reason, "Copying", "{message}");
    let still = world.find::<VirtualMachineInstance>(ANN, "web").await;
    assert_eq!(still.unwrap().uid(), before.as_ref().unwrap().uid());
    let found = world.vm("web").await.status.unwrap();
    assert!(conditions::is_true(&found.conditions, "Ready"));
    // Who gives it up before has nothing left of it.
    let vm = world.vm("web").await;
    world.edit(&vm, json!({"spec": {"restore": null}})).await;
    settle(&world).await;
    world.rules.clear(DISK_STEP);
    settle(&world).await;
    assert_eq!(disks(&world).await, ["web-disk"]);
    assert_eq!(runs_on(&world).await, "web-disk");
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_restored_is_told_and_nothing_is_changed() {
    let world = world_on(CEPH).await;
    let mut other = vm_named("other");
    other.spec.ssh_id = "other".to_owned();
    world.create(other).await;
    world.create(snapshot_of("web", "s")).await;
    world.settle().await;
    world.create(snapshot_of("other", "o")).await;
    settle(&world).await;
    for (from, reason, words) in [
        (
            json!({"snapshot": "none"}),
            "SnapshotUnusable",
            "there is no KiteSnapshot none",
        ),
        (
            json!({"snapshot": "o"}),
            "SnapshotUnusable",
            "is of another VM, other",
        ),
        (
            json!({"disk": "web-disk-7"}),
            "NoFormerDisk",
            "there is none",
        ),
        (
            json!({"disk": "other-disk"}),
            "NoFormerDisk",
            "there is none",
        ),
    ] {
        tokio::time::sleep(Duration::from_secs(1)).await;
        ask(&world, from, 0).await;
        settle(&world).await;
        let (found, message) = restored(&world).await;
        assert_eq!(found, reason, "{message}");
        assert!(message.contains(words), "{message}");
        assert_eq!(disks(&world).await, ["other-disk", "web-disk"]);
        let found = world.vm("web").await.status.unwrap();
        assert!(conditions::is_true(&found.conditions, "Ready"));
    }
    // One of the future waits.
    ask(&world, json!({"snapshot": "s"}), 3600).await;
    settle(&world).await;
    assert_eq!(restored(&world).await.0, "Scheduled");
    assert_eq!(runs_on(&world).await, "web-disk");
    tokio::time::sleep(Duration::from_secs(3600)).await;
    settle(&world).await;
    assert_eq!(restored(&world).await.0, "Restored");
    assert_eq!(runs_on(&world).await, "web-disk-2");
}

#[tokio::test(start_paused = true)]
async fn what_is_in_the_way_of_the_copy_holds_up_nothing_else() {
    let world = world_on(CEPH).await;
    world.create(snapshot_of("web", "s")).await;
    world.settle().await;
    // Somebody has a disk of the next name, which says nothing of the VM.
    let mut taken = world.find::<DataVolume>(ANN, "web-disk").await.unwrap();
    taken.metadata = named("web-disk-2");
    taken.metadata.namespace = Some(ANN.to_owned());
    taken.status = None;
    world.create(taken).await;
    world.refuse("apply DataVolume kite-user-ann/web-disk-3");
    ask(&world, json!({"snapshot": "s"}), 0).await;
    world.settle().await;
    let (reason, message) = restored(&world).await;
    assert_eq!(reason, "CopyRefused", "{message}");
    let found = world.vm("web").await.status.unwrap();
    assert!(conditions::is_true(&found.conditions, "Ready"));
    // What comes after it in the plan goes on.
    let exposed = json!({"spec": {"domainPrefix": "shop"}});
    world.edit(&world.vm("web").await, exposed).await;
    settle(&world).await;
    let ingress = world.find::<Ingress>(ANN, "web").await;
    assert!(ingress.is_some());
    world.refuse("");
    pass_time(&world, 70).await;
    assert_eq!(restored(&world).await.0, "Restored");
    assert_eq!(runs_on(&world).await, "web-disk-3");
}

#[tokio::test(start_paused = true)]
async fn requests_are_judged_by_the_api_server() {
    let world = world().await;
    let vm = world.vm("web").await;
    let at = "2026-12-01T10:00:00Z";
    let earlier = "2026-12-01T09:00:00Z";
    for (restore, words) in [
        (json!({"at": at}), "either a snapshot or a former disk"),
        (
            json!({"snapshot": "s", "disk": "web-disk", "at": at}),
            "either a snapshot or a former disk",
        ),
        (
            json!({"snapshot": "s", "at": at, "keep": "1m"}),
            "from 10m to",
        ),
        (
            json!({"snapshot": "s", "at": "9999-01-01T00:00:00Z"}),
            "before the year 9000",
        ),
        (json!({"snapshot": "s"}), "restore.at"),
    ] {
        let patch = json!({"spec": {"restore": restore}});
        let refused = world.try_edit(&vm, patch).await.unwrap_err().to_string();
        assert!(refused.contains(words), "{refused}");
    }
    let patch = |restore| json!({"spec": {"restore": restore}});
    world
        .edit(&vm, patch(json!({"snapshot": "s", "at": at})))
        .await;
    for other in [
        json!({"snapshot": "t", "at": at}),
        json!({"snapshot": "s", "at": earlier}),
        json!({"snapshot": null, "disk": "web-disk", "at": at}),
    ] {
        let refused = world
            .try_edit(&vm, patch(other))
            .await
            .unwrap_err()
            .to_string();
        assert!(refused.contains("must be later than before"), "{refused}");
    }
    // For how long the former disk is kept can be changed.
    world.edit(&vm, patch(json!({"keep": "1h"}))).await;
}

#[tokio::test(start_paused = true)]
async fn a_lost_disk_is_restored_from_a_snapshot() {
    let world = world_on(CEPH).await;
    world.create(snapshot_of("web", "s")).await;
    world.settle().await;
    switch_off(&world).await;
    delete_disk(&world, "web-disk").await;
    switch_on(&world).await;
    let found = world.vm("web").await.status.unwrap();
    let ready = conditions::find(&found.conditions, "Ready").unwrap();
    assert_eq!(ready.reason, "DiskLost");
    ask(&world, json!({"snapshot": "s"}), 1).await;
    settle(&world).await;
    let (reason, message) = restored(&world).await;
    assert_eq!(
        reason,
        "Restored",
        "{message}\n{:#?}",
        world.vm("web").await
    );
    assert_eq!(runs_on(&world).await, "web-disk-2");
    let found = world.vm("web").await.status.unwrap();
    assert!(
        conditions::is_true(&found.conditions, "Ready"),
        "{found:#?}"
    );
}

#[tokio::test(start_paused = true)]
async fn former_disks_are_kept_from_the_day_on_that_a_lost_one_is_replaced() {
    let world = restored_world(CEPH).await;
    ask(&world, json!({"disk": "web-disk"}), 1).await;
    settle(&world).await;
    assert_eq!(runs_on(&world).await, "web-disk");
    switch_off(&world).await;
    let hour = DAY / 24;
    tokio::time::sleep(23 * hour).await;
    let disk = world.find::<DataVolume>(ANN, "web-disk").await.unwrap();
    delete_disk(&world, "web-disk").await;
    settle(&world).await;
    let found = world.vm("web").await.status.unwrap();
    let told = conditions::find(&found.conditions, "DiskReady").unwrap();
    assert_eq!(told.reason, "DiskLost");
    let words = "have a former disk again (spec.restore.disk: web-disk-2)";
    assert!(told.message.contains(words), "{}", told.message);
    assert_eq!(found.former_disks[0].name, "web-disk-2");
    replace(&world, &disk.uid().unwrap()).await;
    switch_on(&world).await;
    assert_eq!(runs_on(&world).await, "web-disk");
    // The last of the data.
    tokio::time::sleep(2 * hour).await;
    settle(&world).await;
    assert_eq!(disks(&world).await, ["web-disk", "web-disk-2"]);
    tokio::time::sleep(DAY).await;
    settle(&world).await;
    assert_eq!(disks(&world).await, ["web-disk"]);
}

#[tokio::test(start_paused = true)]
async fn what_is_decided_outlives_the_status_and_marks_that_somebody_takes_off() {
    let world = restored_world(CEPH).await;
    lose_status::<KiteVirtualMachine>(&world, "web").await;
    settle(&world).await;
    assert_eq!(runs_on(&world).await, "web-disk-2");
    assert_eq!(restored(&world).await.0, "Restored");
    // Of the disk, and of the machine.
    let bare = json!({"metadata": {"annotations": {"hy3ons.github.io/disk-mark": null}}});
    let disk = world.find::<DataVolume>(ANN, "web-disk-2").await.unwrap();
    world.edit(&disk, bare.clone()).await;
    settle(&world).await;
    let disk = world.find::<DataVolume>(ANN, "web-disk-2").await.unwrap();
    assert!(DiskNotes::of(&disk.metadata).mark.is_some());
    let machine = world.find::<VirtualMachine>(ANN, "web").await.unwrap();
    world.edit(&machine, bare).await;
    settle(&world).await;
    assert_eq!(runs_on(&world).await, "web-disk-2");
    assert_eq!(disks(&world).await, ["web-disk", "web-disk-2"]);
    assert_eq!(restored(&world).await.0, "Restored");
}

#[tokio::test(start_paused = true)]
async fn snapshots_are_of_the_disk_that_counts_and_grow_with_it() {
    let world = restored_world(CEPH).await;
    let class = world.find::<StorageClass>("", names::STORAGE_CLASS).await;
    let grows = json!({"allowVolumeExpansion": true});
    world.edit(&class.unwrap(), grows).await;
    let larger = json!({"spec": {"disk": "12Gi"}});
    world.edit(&world.vm("web").await, larger).await;
    settle(&world).await;
    world.create(snapshot_of("web", "t")).await;
    settle(&world).await;
    let found = status(&world, "t").await;
    assert_eq!(found.phase, Some(SnapshotPhase::Ready), "{found:#?}");
    assert_eq!(found.source.unwrap().claim, "web-disk-2");
    assert_eq!(found.size, Some("12Gi".parse().unwrap()));
    // An older, smaller one is restored to a disk as large as the present one.
    ask(&world, json!({"snapshot": "s"}), 1).await;
    settle(&world).await;
    assert_eq!(runs_on(&world).await, "web-disk-3");
    let found = world.vm("web").await.status.unwrap();
    let made = world.find::<DataVolume>(ANN, "web-disk-3").await;
    assert_eq!(
        found.disk.as_ref().unwrap().size,
        Some("12Gi".parse().unwrap()),
        "{found:#?} {made:#?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_vm_that_is_restored_goes_with_all_of_its_disks() {
    let world = world_on(LONGHORN).await;
    world.create(snapshot_of("web", "s")).await;
    world.settle().await;
    world
        .rules
        .add(Rule::hold(DISK_STEP, Selector::named("web-disk-2")));
    ask(&world, json!({"snapshot": "s"}), 0).await;
    settle(&world).await;
    assert_eq!(disks(&world).await.len(), 2);
    world.delete(&world.vm("web").await).await;
    settle(&world).await;
    world.rules.clear(DISK_STEP);
    settle(&world).await;
    world.assert_no_trace_of("web").await;
    assert!(disks(&world).await.is_empty());
    assert!(world.all::<KiteSnapshot>().await.is_empty());
}
