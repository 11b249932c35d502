//! Snapshots of a VM's disk: taken while it runs and while it is off, two at once, deleted on
//! the way, kept when their VM goes, and gone with their owner.

use std::time::Duration;

use k8s_openapi::api::{coordination::v1::Lease, core::v1::Pod, storage::v1::StorageClass};
use kite_core::{
    cdi::DataVolume,
    conditions,
    crd::{
        Consistency, KitePlatform, KiteSnapshot, KiteSnapshotSpec, KiteSnapshotStatus, KiteUser,
        KiteVirtualMachine, PowerState, SnapshotPhase, VmPhase, vm_condition::RESTORED,
    },
    names,
    volume_snapshot::{VolumeSnapshot, VolumeSnapshotClass},
};
use kite_fake::actors::{Rule, Selector, Stage, storage::STILL};
use kite_fake::sim::{Builder, ScenarioError, World};
use kube::{ResourceExt, api::ObjectMeta};
use serde_json::json;

use crate::{
    scenarios::{ANN, Done, nothing_is_left_of, settle_in},
    stage::{DRIVER, vm, with_snapshots},
};

const LONGHORN: &str = "driver.longhorn.io";

fn stage(copies: usize) -> Builder {
    with_snapshots(copies)
        // Who deletes what is on storage has it gone, and it is told as lost.
        .protect_from_rivals("volumesnapshots.snapshot.storage.k8s.io")
        .protect_from_rivals("virtualmachines.kubevirt.io")
        // Another one of the name shows another day.
        .protect_from_rivals("kitesnapshots.hy3ons.github.io")
        // Whether the guest was still at rest is a matter of time, which faults take.
        .ignore_field("KiteSnapshot", "/status/consistency")
        .ignore_field("KiteSnapshot", "/status/consistencyNote")
        .ignore_field("KiteSnapshot", "/status/conditions")
        .ignore_field("KiteSnapshot", "/status/takenAt")
        .ignore_field("VolumeSnapshot", "/metadata/annotations")
        .ignore_field("VolumeSnapshotContent", "/metadata/annotations")
        // When the VM got its disk.
        .ignore_field("VirtualMachine", "/metadata/annotations")
        .ignore_field("DataVolume", "/metadata/annotations")
        .ignore_field("PersistentVolumeClaim", "/metadata/annotations")
        .ignore_field("KiteVirtualMachine", "/status/formerDisks")
        // Which of several that are alike comes first.
        .ignore_field("PersistentVolume", "/spec/claimRef")
        // How often the guest was asked to freeze.
        .ignore_counts()
}

fn snapshot(name: &str) -> KiteSnapshot {
    let spec = KiteSnapshotSpec {
        vm: "web".to_owned(),
        ..KiteSnapshotSpec::default()
    };
    let mut snapshot = KiteSnapshot::new(name, spec);
    snapshot.metadata.namespace = Some(ANN.to_owned());
    snapshot
}

/// By what snapshots are taken of disks of this driver; new disks are of it, too.
async fn storage_of(world: &World, driver: &str) -> Done {
    let named = |name: &str| ObjectMeta {
        name: Some(name.to_owned()),
        ..ObjectMeta::default()
    };
    if driver != DRIVER {
        let class = StorageClass {
            metadata: named("other"),
            provisioner: driver.to_owned(),
            ..StorageClass::default()
        };
        world.create(&class).await?;
        let platform: Option<KitePlatform> = world.get("", names::PLATFORM).await?;
        if let Some(platform) = platform {
            let patch = json!({"spec": {"storageClass": "other"}});
            world.patch(&platform, patch).await?;
        }
    }
    let class = VolumeSnapshotClass {
        api_version: "snapshot.storage.k8s.io/v1".to_owned(),
        kind: "VolumeSnapshotClass".to_owned(),
        metadata: named("snaps"),
        driver: driver.to_owned(),
        parameters: [("type".to_owned(), "snap".to_owned())].into(),
        deletion_policy: Some("Delete".to_owned()),
    };
    world.create(&class).await?;
    world.settle().await
}

async fn status(world: &World, name: &str) -> Result<KiteSnapshotStatus, ScenarioError> {
    let found: Option<KiteSnapshot> = world.get(ANN, name).await?;
    Ok(found.and_then(|it| it.status).unwrap_or_default())
}

async fn settle_as(world: &World, name: &str, expected: SnapshotPhase) -> Done {
    world.settle().await?;
    let found = status(world, name).await?;
    let text = format!("snapshot {name} should be {expected:?}, and is {found:?}");
    world.expect(found.phase == Some(expected), &text).await;
    goes_on(world).await
}

/// No guest is kept still, and nobody may have one kept.
async fn goes_on(world: &World) -> Done {
    for pod in world.list::<Pod>().await? {
        let is_still = pod.annotations().contains_key(STILL);
        let runs = pod.status.as_ref().and_then(|it| it.phase.as_deref()) == Some("Running");
        let text = format!("the guest of {} goes on", pod.name_any());
        world.expect(!(is_still && runs), &text).await;
    }
    for lease in world.list::<Lease>().await? {
        let is_its = lease.name_any() == names::freeze_lease("web");
        world.expect(!is_its, "the Lease is given back").await;
    }
    Ok(())
}

async fn nothing_is_on_storage(world: &World) -> Done {
    let left = world.list::<KiteSnapshot>().await?;
    world.expect(left.is_empty(), "no snapshot is left").await;
    let left = world.list::<VolumeSnapshot>().await?;
    world
        .expect(left.is_empty(), "nothing is left on storage")
        .await;
    goes_on(world).await
}

/// Two are taken of a VM that runs at once, one when it is off, and one goes.
pub fn snapshot_life(copies: usize) -> Builder {
    stage(copies).scenario(async |world| {
        storage_of(&world, DRIVER).await?;
        let web = world.create(&vm("ann", "web")).await?;
        settle_in(&world, &web, VmPhase::Running).await?;
        let a = world.create(&snapshot("a")).await?;
        world.create(&snapshot("b")).await?;
        for name in ["a", "b"] {
            settle_as(&world, name, SnapshotPhase::Ready).await?;
        }
        world
            .patch(&web, json!({"spec": {"powerState": "Off"}}))
            .await?;
        settle_in(&world, &web, VmPhase::Stopped).await?;
        world.create(&snapshot("c")).await?;
        settle_as(&world, "c", SnapshotPhase::Ready).await?;
        let found = status(&world, "c").await?;
        let is_offline = found.consistency == Some(Consistency::Offline);
        world.expect(is_offline, "nothing ran").await;
        world.delete(&a).await?;
        world.settle().await?;
        let left = world.list::<VolumeSnapshot>().await?;
        world.expect(left.len() == 2, "two are left").await;
        Ok(())
    })
}

/// One is deleted while its guest is frozen, and storage does not come to it.
pub fn snapshot_given_up(copies: usize) -> Builder {
    stage(copies).scenario(async |world| {
        storage_of(&world, DRIVER).await?;
        let web = world.create(&vm("ann", "web")).await?;
        settle_in(&world, &web, VmPhase::Running).await?;
        world
            .rules()
            .add(Rule::hold(Stage::SNAPSHOT_CUT, Selector::all()));
        let a = world.create(&snapshot("a")).await?;
        world.run_for(Duration::from_secs(20)).await?;
        world.delete(&a).await?;
        world.run_for(Duration::from_secs(20)).await?;
        world.rules().clear(Stage::SNAPSHOT_CUT);
        world.settle().await?;
        nothing_is_on_storage(&world).await?;
        settle_in(&world, &web, VmPhase::Running).await
    })
}

/// A VM goes whose disk a snapshot needs that is to be kept; and then may go.
pub fn snapshot_kept(copies: usize) -> Builder {
    stage(copies).scenario(async |world| {
        storage_of(&world, LONGHORN).await?;
        let web = world.create(&vm("ann", "web")).await?;
        settle_in(&world, &web, VmPhase::Running).await?;
        let mut kept = snapshot("kept");
        kept.spec.protected = true;
        let kept = world.create(&kept).await?;
        world.create(&snapshot("loose")).await?;
        settle_as(&world, "kept", SnapshotPhase::Ready).await?;
        world.delete(&web).await?;
        world.settle().await?;
        settle_as(&world, "kept", SnapshotPhase::Ready).await?;
        let left = world.list::<KiteSnapshot>().await?;
        world.expect(left.len() == 1, "the other one is gone").await;
        let disk: Option<DataVolume> = world.get(ANN, "web-disk").await?;
        world.expect(disk.is_some(), "the disk is there").await;
        let goes: Option<KiteVirtualMachine> = world.get(ANN, "web").await?;
        world.expect(goes.is_some(), "and so is the VM").await;
        world.delete(&kept).await?;
        world.settle().await?;
        let left = world.list::<VolumeSnapshot>().await?;
        world.expect(left.len() == 1, "it is protected").await;
        world
            .patch(&kept, json!({"spec": {"protected": false}}))
            .await?;
        world.settle().await?;
        nothing_is_on_storage(&world).await?;
        nothing_is_left_of(&world, "web").await
    })
}

/// A user goes while a snapshot is taken, and with them another one that was to be kept.
pub fn snapshots_of_one_who_goes(copies: usize) -> Builder {
    stage(copies).scenario(async |world| {
        storage_of(&world, LONGHORN).await?;
        let web = world.create(&vm("ann", "web")).await?;
        settle_in(&world, &web, VmPhase::Running).await?;
        let mut kept = snapshot("kept");
        kept.spec.protected = true;
        world.create(&kept).await?;
        settle_as(&world, "kept", SnapshotPhase::Ready).await?;
        world.create(&snapshot("late")).await?;
        world.steps(3).await?;
        let ann: Option<KiteUser> = world.get("", "ann").await?;
        if let Some(ann) = ann {
            world.delete(&ann).await?;
        }
        world.settle().await?;
        nothing_is_on_storage(&world).await?;
        nothing_is_left_of(&world, "web").await
    })
}

/// Asks for a restore, in the second so many after all began.
async fn restore(world: &World, web: &KiteVirtualMachine, from: (&str, &str), at: u8) -> Done {
    let at = format!("2026-01-01T00:00:0{at}Z");
    let mut restore = json!({"snapshot": null, "disk": null, "at": at, "keep": "10m"});
    restore[from.0] = json!(from.1);
    world
        .patch(web, json!({"spec": {"restore": restore}}))
        .await?;
    world.settle().await?;
    let found: Option<KiteVirtualMachine> = world.get(ANN, "web").await?;
    let status = found.and_then(|it| it.status).unwrap_or_default();
    let is_restored = conditions::is_true(&status.conditions, RESTORED);
    let text = format!("the VM has what was asked for: {status:?}");
    world.expect(is_restored, &text).await;
    Ok(())
}

/// A VM is restored from a snapshot, that is taken back, and it is restored once more; then
/// the former disks go, the snapshot, and the VM.
pub fn snapshot_restored(copies: usize) -> Builder {
    stage(copies).scenario(async |world| {
        storage_of(&world, LONGHORN).await?;
        let web = world.create(&vm("ann", "web")).await?;
        settle_in(&world, &web, VmPhase::Running).await?;
        let s = world.create(&snapshot("s")).await?;
        settle_as(&world, "s", SnapshotPhase::Ready).await?;
        restore(&world, &web, ("snapshot", "s"), 1).await?;
        settle_in(&world, &web, VmPhase::Running).await?;
        world.run_for(Duration::from_secs(2)).await?;
        restore(&world, &web, ("disk", "web-disk"), 2).await?;
        settle_in(&world, &web, VmPhase::Running).await?;
        world.run_for(Duration::from_secs(2)).await?;
        restore(&world, &web, ("snapshot", "s"), 3).await?;
        settle_in(&world, &web, VmPhase::Running).await?;
        world.run_for(Duration::from_secs(900)).await?;
        world.settle().await?;
        let disk: Option<DataVolume> = world.get(ANN, "web-disk").await?;
        world
            .expect(disk.is_some(), "the disk of the snapshot is there")
            .await;
        world.delete(&s).await?;
        world.settle().await?;
        nothing_is_on_storage(&world).await?;
        world.run_for(Duration::from_secs(900)).await?;
        world.settle().await?;
        let own = world.list::<DataVolume>().await?;
        let own = own
            .iter()
            .filter(|it| it.namespace().as_deref() == Some(ANN));
        world.expect(own.count() == 1, "one disk is left").await;
        settle_in(&world, &web, VmPhase::Running).await?;
        world.delete(&web).await?;
        world.settle().await?;
        nothing_is_left_of(&world, "web").await
    })
}

/// Snapshots are taken by a schedule, and only the last one is kept.
pub fn snapshots_by_schedule(copies: usize) -> Builder {
    stage(copies)
        .ignore_field("KiteVirtualMachine", "/status/snapshots/since")
        .scenario(async |world| {
            storage_of(&world, DRIVER).await?;
            let mut web = vm("ann", "web");
            let hourly = json!({"schedule": "0 * * * *", "keep": 1});
            web.spec.snapshots = serde_json::from_value(hourly).ok();
            let web = world.create(&web).await?;
            settle_in(&world, &web, VmPhase::Running).await?;
            for _ in 0..3 {
                world.run_for(Duration::from_secs(3600)).await?;
                world.settle().await?;
            }
            let left = world.list::<KiteSnapshot>().await?;
            let names: Vec<_> = left.iter().map(ResourceExt::name_any).collect();
            let text = format!("the last one is there: {names:?}");
            world.expect(names.len() == 1, &text).await;
            for name in names {
                settle_as(&world, &name, SnapshotPhase::Ready).await?;
            }
            world.delete(&web).await?;
            world.settle().await?;
            nothing_is_on_storage(&world).await?;
            nothing_is_left_of(&world, "web").await
        })
}

/// A VM is made from a snapshot of another, which is deleted meanwhile and needs its disk.
pub fn snapshot_of_another(copies: usize) -> Builder {
    stage(copies).scenario(async |world| {
        storage_of(&world, LONGHORN).await?;
        let web = world.create(&vm("ann", "web")).await?;
        settle_in(&world, &web, VmPhase::Running).await?;
        let mut copy = vm("ann", "copy");
        copy.spec.from_snapshot = Some("s".to_owned());
        copy.spec.power_state = PowerState::Off;
        let copy = world.create(&copy).await?;
        world.create(&snapshot("s")).await?;
        settle_as(&world, "s", SnapshotPhase::Ready).await?;
        settle_in(&world, &copy, VmPhase::Stopped).await?;
        world.delete(&web).await?;
        world.settle().await?;
        let left: Option<DataVolume> = world.get(ANN, "web-disk").await?;
        world
            .expect(left.is_some(), "no guest has run on the copy")
            .await;
        world
            .patch(&copy, json!({"spec": {"powerState": "On"}}))
            .await?;
        settle_in(&world, &copy, VmPhase::Running).await?;
        nothing_is_on_storage(&world).await?;
        nothing_is_left_of(&world, "web").await?;
        settle_in(&world, &copy, VmPhase::Running).await?;
        world.delete(&copy).await?;
        world.settle().await?;
        nothing_is_left_of(&world, "copy").await
    })
}

/// A VM is deleted while its disk is restored.
pub fn snapshot_restored_in_vain(copies: usize) -> Builder {
    stage(copies).scenario(async |world| {
        storage_of(&world, LONGHORN).await?;
        let web = world.create(&vm("ann", "web")).await?;
        settle_in(&world, &web, VmPhase::Running).await?;
        world.create(&snapshot("s")).await?;
        settle_as(&world, "s", SnapshotPhase::Ready).await?;
        let restore = json!({"snapshot": "s", "at": "2026-01-01T00:00:01Z"});
        world
            .patch(&web, json!({"spec": {"restore": restore}}))
            .await?;
        world.steps(40).await?;
        world.delete(&web).await?;
        world.settle().await?;
        nothing_is_on_storage(&world).await?;
        nothing_is_left_of(&world, "web").await
    })
}
