//! How long they stay, what they hold, and what bounds them.

use std::time::Duration;

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kite_core::{
    cdi::DataVolume,
    cluster::{Cluster as _, ObjectKey},
    crd::{
        Claim, Consistency, KiteReservation, KiteSnapshot, KiteUser, KiteVirtualMachine, Quiesce,
        SnapshotPhase,
    },
    volume_snapshot::VolumeSnapshot,
};
use kite_fake::actors::{Rule, Selector, Stage};
use kube::api::PropagationPolicy;
use serde_json::{Value, json};

use super::{
    ANN, CEPH, LONGHORN, assert_goes_on, delete_disk, lose_status, object, on_storage, pass_time,
    phase, snapshot_of, status, switch_off, that, told, world, world_on,
};

#[tokio::test(start_paused = true)]
async fn they_go_with_their_vm() {
    let world = world().await;
    world.create(snapshot_of("web", "s")).await;
    world.settle().await;
    world.delete(&world.vm("web").await).await;
    world.settle().await;
    assert!(world.all::<KiteSnapshot>().await.is_empty());
    assert!(world.all::<VolumeSnapshot>().await.is_empty());
    world.assert_no_trace_of("web").await;
}

#[tokio::test(start_paused = true)]
async fn one_that_is_to_be_kept_holds_the_disk_that_it_needs() {
    let world = world_on(LONGHORN).await;
    world.create(snapshot_of("web", "loose")).await;
    let mut kept = snapshot_of("web", "kept");
    kept.spec.protected = true;
    world.create(kept).await;
    world.settle().await;
    pass_time(&world, 5).await;
    let listed = json!({"spec": {"volumes": [{"volume": "data"}]}});
    world.edit(&world.vm("web").await, listed).await;
    world.settle().await;
    let is_volume = |it: &KiteReservation| it.spec.claim == Claim::Volume;
    assert!(world.all().await.iter().any(is_volume));
    let vm = world.vm("web").await;
    world.delete(&vm).await;
    world.settle().await;
    // What is left of it has no volume: another VM can have it.
    assert!(!world.all().await.iter().any(is_volume));
    let left: Vec<KiteSnapshot> = world.all().await;
    assert_eq!(left.len(), 1, "{left:#?}");
    assert_eq!(phase(&world, "kept").await, Some(SnapshotPhase::Ready));
    let vm = world.vm("web").await;
    let found = vm.status.unwrap();
    let ready = kite_core::conditions::find(&found.conditions, "Ready").unwrap();
    assert_eq!(ready.reason, "SnapshotsKept");
    assert!(
        ready.message.contains("to be kept, kept: it goes"),
        "{}",
        ready.message
    );
    // It is charged with its disk, and nothing else any more.
    let granted = found.granted.unwrap();
    assert_eq!((granted.cpu, granted.memory), (None, None));
    assert_eq!(granted.disk, Some("10Gi".parse().unwrap()));
    assert!(world.find::<DataVolume>(ANN, "web-disk").await.is_some());
    // A deletion of the snapshot itself waits for a word, too.
    let snapshot = object(&world, "kept").await;
    world.delete(&snapshot).await;
    world.settle().await;
    let found = status(&world, "kept").await;
    assert_eq!(told(&found).0, "Protected");
    assert!(on_storage(&world, "kept").await.is_some());
    world
        .edit(&snapshot, json!({"spec": {"protected": false}}))
        .await;
    world.settle().await;
    assert!(world.all::<VolumeSnapshot>().await.is_empty());
    world.assert_no_trace_of("web").await;
}

#[tokio::test(start_paused = true)]
async fn one_that_outlives_the_disk_stays_without_the_vm() {
    let world = world_on(CEPH).await;
    let mut kept = snapshot_of("web", "kept");
    let day = Duration::from_secs(24 * 3600);
    let until = world.now().checked_add(day).unwrap();
    kept.spec.keep_until = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(until));
    world.create(kept).await;
    world.settle().await;
    world.delete(&world.vm("web").await).await;
    world.settle().await;
    world.assert_no_trace_of("web").await;
    let found = status(&world, "kept").await;
    assert_eq!(found.phase, Some(SnapshotPhase::Ready));
    assert!(found.source.unwrap().outlives_disk);
    // And goes when its time is over.
    tokio::time::sleep(day).await;
    world.settle().await;
    assert!(world.all::<KiteSnapshot>().await.is_empty());
    assert!(world.all::<VolumeSnapshot>().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_account_takes_all_along() {
    let world = world_on(LONGHORN).await;
    let mut kept = snapshot_of("web", "kept");
    kept.spec.protected = true;
    world.create(kept).await;
    world.settle().await;
    let ann = world.find::<KiteUser>("", "ann").await.unwrap();
    world.delete(&ann).await;
    world.settle().await;
    assert!(world.all::<KiteVirtualMachine>().await.is_empty());
    assert!(world.all::<KiteSnapshot>().await.is_empty());
    assert!(world.all::<VolumeSnapshot>().await.is_empty());
    assert!(world.all::<KiteUser>().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn data_that_is_gone_is_lost_whatever_storage_says() {
    let world = world_on(LONGHORN).await;
    world.create(snapshot_of("web", "s")).await;
    world.settle().await;
    switch_off(&world).await;
    delete_disk(&world, "web-disk").await;
    world.settle().await;
    let on_storage = on_storage(&world, "s").await.unwrap();
    assert_eq!(on_storage.status.unwrap().ready_to_use, Some(true));
    let found = status(&world, "s").await;
    assert_eq!(found.phase, Some(SnapshotPhase::Lost), "{found:#?}");
    assert!(told(&found).1.contains("web-disk, is gone"), "{found:#?}");
}

#[tokio::test(start_paused = true)]
async fn one_whose_data_somebody_deletes_is_lost_and_not_taken_anew() {
    let world = world_on(CEPH).await;
    world.create(snapshot_of("web", "s")).await;
    world.settle().await;
    let taken = on_storage(&world, "s").await.unwrap();
    world.delete(&taken).await;
    world.settle().await;
    let found = status(&world, "s").await;
    assert_eq!(found.phase, Some(SnapshotPhase::Lost));
    assert!(on_storage(&world, "s").await.is_none());
}

#[tokio::test(start_paused = true)]
async fn what_is_told_outlives_the_status() {
    for quiesce in [Quiesce::IfPossible, Quiesce::Required] {
        let world = world_on(LONGHORN).await;
        world.create(that(quiesce)).await;
        world.settle().await;
        let before = status(&world, "s").await;
        lose_status::<KiteSnapshot>(&world, "s").await;
        assert_eq!(object(&world, "s").await.status, None);
        world.settle().await;
        let mut after = status(&world, "s").await;
        after.conditions = before.conditions.clone();
        assert_eq!(after, before);
    }
}

#[tokio::test(start_paused = true)]
async fn quotas_bound_how_many_there_are_and_how_large() {
    let world = world().await;
    switch_off(&world).await;
    let quota = |more: Value| {
        let mut quota = json!({"vms": 5, "cpu": 8, "memory": "16Gi", "disk": "200Gi"});
        let fields = more.as_object().unwrap().clone();
        quota.as_object_mut().unwrap().extend(fields);
        json!({"spec": {"quota": quota}})
    };
    let ann = world.find::<KiteUser>("", "ann").await.unwrap();
    world
        .edit(&ann, quota(json!({"snapshots": 3, "snapshotDisk": "20Gi"})))
        .await;
    world.settle().await;
    for name in ["a", "b", "c"] {
        world.create(snapshot_of("web", name)).await;
    }
    let refused = world.try_create(snapshot_of("web", "d")).await.unwrap_err();
    let why = refused.to_string();
    assert!(
        why.contains("count/kitesnapshots.hy3ons.github.io"),
        "{why}"
    );
    world.settle().await;
    let mut phases = Vec::new();
    for name in ["a", "b", "c"] {
        let found = status(&world, name).await;
        if let Some(failure) = found.failure {
            assert_eq!(failure.reason, "QuotaExceeded");
            assert!(failure.message.contains("the quota is 20Gi"), "{failure:?}");
        }
        phases.push(found.phase.unwrap());
    }
    assert_eq!(
        phases,
        [
            SnapshotPhase::Ready,
            SnapshotPhase::Ready,
            SnapshotPhase::Failed
        ]
    );
    // What has failed takes no room but for its number.
    world.delete(&object(&world, "a").await).await;
    world.delete(&object(&world, "c").await).await;
    world.settle().await;
    world.create(snapshot_of("web", "d")).await;
    world.settle().await;
    assert_eq!(phase(&world, "d").await, Some(SnapshotPhase::Ready));
}

#[tokio::test(start_paused = true)]
async fn somebody_else_s_of_its_name_is_left_alone() {
    let world = world().await;
    let mut others = VolumeSnapshot::new(
        "s",
        kite_core::volume_snapshot::VolumeSnapshotSpec {
            volume_snapshot_class_name: Some("snaps".to_owned()),
            source: kite_core::volume_snapshot::VolumeSnapshotSource {
                persistent_volume_claim_name: Some("web-disk".to_owned()),
            },
        },
    );
    others.metadata.namespace = Some(ANN.to_owned());
    let others = world.create(others).await;
    world.create(snapshot_of("web", "s")).await;
    world.settle().await;
    let found = status(&world, "s").await;
    assert_eq!(found.failure.unwrap().reason, "NameTaken");
    world.delete(&object(&world, "s").await).await;
    world.settle().await;
    assert!(world.all::<KiteSnapshot>().await.is_empty());
    let left = on_storage(&world, "s").await.unwrap();
    assert_eq!(left.metadata.uid, others.metadata.uid);
}

#[tokio::test(start_paused = true)]
async fn a_deletion_in_the_foreground_takes_nothing_that_is_protected() {
    let world = world().await;
    let mut kept = snapshot_of("web", "kept");
    kept.spec.protected = true;
    let kept = world.create(kept).await;
    world.settle().await;
    let uid = kept.metadata.uid.as_deref().unwrap();
    let foreground = PropagationPolicy::Foreground;
    world
        .cluster
        .delete::<KiteSnapshot>(&ObjectKey::of(&kept), uid, foreground)
        .await
        .unwrap();
    world.settle().await;
    assert_eq!(told(&status(&world, "kept").await).0, "Protected");
    assert!(on_storage(&world, "kept").await.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_claim_without_its_disk_is_held_as_well() {
    let world = world_on(LONGHORN).await;
    let mut kept = snapshot_of("web", "kept");
    kept.spec.protected = true;
    world.create(kept).await;
    world.settle().await;
    switch_off(&world).await;
    let disk = world.find::<DataVolume>(ANN, "web-disk").await.unwrap();
    let uid = disk.metadata.uid.as_deref().unwrap();
    world
        .cluster
        .delete::<DataVolume>(&ObjectKey::of(&disk), uid, PropagationPolicy::Orphan)
        .await
        .unwrap();
    world.settle().await;
    world.delete(&world.vm("web").await).await;
    world.settle().await;
    let claim = world.find::<PersistentVolumeClaim>(ANN, "web-disk").await;
    assert!(claim.unwrap().metadata.deletion_timestamp.is_none());
    assert_eq!(phase(&world, "kept").await, Some(SnapshotPhase::Ready));
    let kept = object(&world, "kept").await;
    let loose = json!({"spec": {"protected": false}});
    world.edit(&kept, loose).await;
    world.settle().await;
    world.assert_no_trace_of("web").await;
}

#[tokio::test(start_paused = true)]
async fn one_of_a_former_s_name_leaves_the_former_s_data_alone() {
    let world = world().await;
    let former = world.create(snapshot_of("web", "s")).await;
    world.settle().await;
    let data = on_storage(&world, "s").await.unwrap();
    // By force, as people do where a namespace does not go.
    let bare = json!({"metadata": {"finalizers": null}});
    world.edit(&former, bare).await;
    world.delete(&former).await;
    let mut again = that(Quiesce::Required);
    again.metadata.name = Some("s".to_owned());
    world.create(again).await;
    world.settle().await;
    let found = status(&world, "s").await;
    assert_eq!(found.failure.unwrap().reason, "NameTaken");
    let left = on_storage(&world, "s").await.unwrap();
    assert_eq!(left.metadata.uid, data.metadata.uid);
}

#[tokio::test(start_paused = true)]
async fn one_that_is_protected_and_deleted_while_it_is_taken_is_taken() {
    let world = world().await;
    let held = Rule::hold(Stage::SNAPSHOT_CUT, Selector::all());
    world.rules.add(held);
    let mut kept = snapshot_of("web", "s");
    kept.spec.protected = true;
    world.create(kept).await;
    world.settle().await;
    world.delete(&object(&world, "s").await).await;
    world.settle().await;
    world.rules.clear(Stage::SNAPSHOT_CUT);
    world.settle().await;
    let found = status(&world, "s").await;
    assert_eq!(found.consistency, Some(Consistency::Quiesced));
    assert_eq!(told(&found).0, "Protected");
    assert_goes_on(&world).await;
}

#[tokio::test(start_paused = true)]
async fn another_cut_of_its_name_is_not_taken_for_it() {
    let world = world_on(CEPH).await;
    world.create(snapshot_of("web", "s")).await;
    world.settle().await;
    let mut taken = on_storage(&world, "s").await.unwrap();
    world.delete(&taken).await;
    world.settle().await;
    (taken.metadata.uid, taken.metadata.resource_version) = (None, None);
    (taken.metadata.finalizers, taken.metadata.managed_fields) = (None, None);
    (taken.metadata.creation_timestamp, taken.status) = (None, None);
    world.create(taken).await;
    world.settle().await;
    let found = status(&world, "s").await;
    assert_eq!(found.phase, Some(SnapshotPhase::Lost), "{found:#?}");
}
