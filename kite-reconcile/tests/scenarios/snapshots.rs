//! Snapshots of VMs' disks: how they are taken, how long they stay, and what they hold.

use std::time::Duration;

use k8s_openapi::api::{
    coordination::v1::Lease, core::v1::PersistentVolumeClaim, storage::v1::StorageClass,
};
use kite_core::{
    cdi::{DataVolume, StorageProfile},
    cluster::{Cluster as _, FieldManager, ObjectKey},
    crd::{
        Consistency, KiteSnapshot, KiteSnapshotSpec, KiteSnapshotStatus, KiteUser,
        KiteVirtualMachine, PowerState, Quiesce, SnapshotPhase,
    },
    kubevirt::{
        VirtualMachineInstance, VirtualMachineInstanceMigration,
        VirtualMachineInstanceMigrationSpec,
    },
    labels, names,
    volume_snapshot::{VolumeSnapshot, VolumeSnapshotClass},
};
use kite_fake::actors::{Rule, Selector, Stage, snapshot_definitions};
use kite_fake_kubevirt::stages;
use kube::api::PropagationPolicy;
use serde_json::{Value, json};

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

#[tokio::test(start_paused = true)]
async fn of_a_vm_that_is_off() {
    let world = world().await;
    switch_off(&world).await;
    world.create(snapshot_of("web", "s")).await;
    let written = world.settle().await;
    let status = status(&world, "s").await;
    assert_eq!(status.phase, Some(SnapshotPhase::Ready), "{status:#?}");
    assert_eq!(status.consistency, Some(Consistency::Offline));
    assert_eq!(status.size, Some("10Gi".parse().unwrap()));
    assert!(status.taken_at.is_some() && status.granted);
    let claim = world
        .find::<PersistentVolumeClaim>(ANN, "web-disk")
        .await
        .unwrap();
    let source = status.source.unwrap();
    assert_eq!(Some(source.claim_uid), claim.metadata.uid);
    assert!(!source.outlives_disk);
    assert!(
        !written
            .iter()
            .any(|it| it.contains("Lease") || it.starts_with("freeze"))
    );
    // A settled one costs nothing.
    assert!(world.settle().await.is_empty());

    let snapshot = object(&world, "s").await;
    world.delete(&snapshot).await;
    world.settle().await;
    assert!(world.all::<KiteSnapshot>().await.is_empty());
    assert!(world.all::<VolumeSnapshot>().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn of_a_vm_that_runs_its_guest_is_at_rest_and_goes_on() {
    for quiesce in [Quiesce::IfPossible, Quiesce::Required] {
        let world = world().await;
        world.create(that(quiesce)).await;
        let written = world.settle().await;
        let status = status(&world, "s").await;
        assert_eq!(status.phase, Some(SnapshotPhase::Ready), "{status:#?}");
        assert_eq!(status.consistency, Some(Consistency::Quiesced));
        assert_eq!(status.freeze, None);
        assert_goes_on(&world).await;
        // First the note, then the guest, then storage; and it is told before it goes on.
        let place = |what: &str| {
            let mut all = written.iter();
            all.position(|it| it.starts_with(what))
                .unwrap_or_else(|| panic!("{what}: {written:#?}"))
        };
        let order = [
            "apply Lease",
            "freeze ",
            "apply VolumeSnapshot",
            "unfreeze ",
            "delete Lease",
        ];
        let places = order.map(place);
        assert!(places.is_sorted(), "{written:#?}");
    }
}

#[tokio::test(start_paused = true)]
async fn who_leaves_the_guest_alone_freezes_nothing() {
    let world = world().await;
    world.create(that(Quiesce::No)).await;
    let written = world.settle().await;
    let status = status(&world, "s").await;
    assert_eq!(status.consistency, Some(Consistency::CrashConsistent));
    assert_eq!(
        status.consistency_note.as_deref(),
        Some("spec.quiesce is No")
    );
    assert!(!written.iter().any(|it| it.starts_with("freeze")));
}

#[tokio::test(start_paused = true)]
async fn a_guest_that_cannot_be_frozen() {
    let world = world().await;
    let refuse = Rule::fail(
        stages::GUEST_FROZEN,
        Selector::all(),
        "Hung",
        "fsfreeze hangs",
    );
    world.rules.add(refuse);
    world.create(that(Quiesce::IfPossible)).await;
    world.settle().await;
    assert_eq!(phase(&world, "s").await, Some(SnapshotPhase::Freezing));
    pass_time(&world, 70).await;
    let found = status(&world, "s").await;
    assert_eq!(found.phase, Some(SnapshotPhase::Ready), "{found:#?}");
    assert_eq!(found.consistency, Some(Consistency::CrashConsistent));
    let note = found.consistency_note.unwrap();
    assert!(note.contains("fsfreeze hangs"), "{note}");
    assert_goes_on(&world).await;

    let mut required = that(Quiesce::Required);
    required.metadata.name = Some("required".to_owned());
    world.create(required).await;
    world.settle().await;
    pass_time(&world, 70).await;
    let found = status(&world, "required").await;
    assert_eq!(found.phase, Some(SnapshotPhase::Failed), "{found:#?}");
    assert_eq!(found.failure.unwrap().reason, "NotAtRest");
    assert!(on_storage(&world, "required").await.is_none());
    assert_goes_on(&world).await;
}

#[tokio::test(start_paused = true)]
async fn storage_that_cuts_after_the_guest_went_on() {
    for (quiesce, phase) in [
        (Quiesce::IfPossible, SnapshotPhase::Ready),
        (Quiesce::Required, SnapshotPhase::Failed),
    ] {
        let world = world().await;
        let late = Duration::from_secs(90);
        world
            .rules
            .add(Rule::delay(Stage::SNAPSHOT_CUT, Selector::all(), late));
        world.create(that(quiesce)).await;
        for _ in 0..10 {
            let _ = world.pass().await;
        }
        pass_time(&world, 100).await;
        let found = status(&world, "s").await;
        assert_eq!(found.phase, Some(phase), "{found:#?}");
        let is_told = found.consistency == Some(Consistency::CrashConsistent);
        assert_eq!(is_told, phase == SnapshotPhase::Ready);
        let is_there = on_storage(&world, "s").await.is_some();
        assert_eq!(is_there, phase == SnapshotPhase::Ready);
        assert_goes_on(&world).await;
    }
}

#[tokio::test(start_paused = true)]
async fn storage_that_cannot_is_told_of_in_its_words() {
    let world = world().await;
    switch_off(&world).await;
    let refuse = Rule::fail(
        Stage::SNAPSHOT_CUT,
        Selector::all(),
        "Full",
        "the pool is full",
    );
    world.rules.add(refuse);
    world.create(snapshot_of("web", "s")).await;
    world.settle().await;
    let found = status(&world, "s").await;
    assert_eq!(found.phase, Some(SnapshotPhase::Cutting));
    assert!(told(&found).1.contains("the pool is full"), "{found:#?}");
    pass_time(&world, 620).await;
    let found = status(&world, "s").await;
    assert_eq!(found.phase, Some(SnapshotPhase::Failed));
    let failure = found.failure.unwrap();
    assert_eq!(failure.reason, "StorageFailed");
    assert!(failure.message.contains("the pool is full"), "{failure:?}");
    assert!(on_storage(&world, "s").await.is_none());
}

#[tokio::test(start_paused = true)]
async fn without_a_class_there_is_none() {
    let world = world().await;
    let class = world
        .find::<VolumeSnapshotClass>("", "snaps")
        .await
        .unwrap();
    world.delete(&class).await;
    world.create(snapshot_of("web", "s")).await;
    world.settle().await;
    let failure = status(&world, "s").await.failure.unwrap();
    assert_eq!(failure.reason, "SnapshotsUnavailable");
    let driver = "no VolumeSnapshotClass has the driver disks.example.org";
    assert!(failure.message.contains(driver), "{failure:?}");
}

#[tokio::test(start_paused = true)]
async fn of_a_disk_on_which_nothing_has_run_there_is_none() {
    let world = world().await;
    let mut vm = vm_named("new");
    vm.spec.power_state = PowerState::Off;
    world.create(vm).await;
    world.settle().await;
    world.create(snapshot_of("new", "s")).await;
    world.settle().await;
    assert_eq!(
        status(&world, "s").await.failure.unwrap().reason,
        "NeverRan"
    );
    // Once it has run, it may be off.
    for power in ["On", "Off"] {
        let patch = json!({"spec": {"powerState": power}});
        world.edit(&world.vm("new").await, patch).await;
        world.settle().await;
    }
    world.create(snapshot_of("new", "t")).await;
    world.settle().await;
    assert_eq!(phase(&world, "t").await, Some(SnapshotPhase::Ready));
}

#[tokio::test(start_paused = true)]
async fn of_what_is_not_there_there_is_none() {
    let world = world().await;
    let reason = async |snapshot: KiteSnapshot| {
        let name = snapshot.metadata.name.clone().unwrap();
        world.create(snapshot).await;
        world.settle().await;
        let failure = status(&world, &name).await.failure.unwrap();
        (failure.reason, failure.message)
    };
    let (why, words) = reason(snapshot_of("nobody", "a")).await;
    assert!(why == "NoVm" && words.contains("nobody"), "{words}");
    let mut other = snapshot_of("web", "b");
    other.spec.vm_uid = Some("former".to_owned());
    let (why, words) = reason(other).await;
    assert!(why == "NoVm" && words.contains("another one"), "{words}");
    let mut meant = snapshot_of("web", "c");
    meant.spec.vm_uid = world.vm("web").await.metadata.uid;
    world.create(meant).await;
    world.settle().await;
    assert_eq!(phase(&world, "c").await, Some(SnapshotPhase::Ready));
}

#[tokio::test(start_paused = true)]
async fn two_of_a_vm_at_once_are_taken_one_after_the_other() {
    let world = world().await;
    world.create(snapshot_of("web", "a")).await;
    world.create(snapshot_of("web", "b")).await;
    world.settle().await;
    pass_time(&world, 5).await;
    for name in ["a", "b"] {
        let found = status(&world, name).await;
        assert_eq!(found.consistency, Some(Consistency::Quiesced), "{found:#?}");
    }
    assert_goes_on(&world).await;
}

#[tokio::test(start_paused = true)]
async fn one_that_is_deleted_while_it_is_taken_lets_the_guest_go_on() {
    let world = world().await;
    let held = Rule::hold(Stage::SNAPSHOT_CUT, Selector::all());
    world.rules.add(held);
    world.create(snapshot_of("web", "s")).await;
    world.settle().await;
    assert_eq!(phase(&world, "s").await, Some(SnapshotPhase::Cutting));
    assert!(is_frozen(&world).await);
    world.delete(&object(&world, "s").await).await;
    world.settle().await;
    assert_goes_on(&world).await;
    world.rules.clear(Stage::SNAPSHOT_CUT);
    world.settle().await;
    assert!(world.all::<KiteSnapshot>().await.is_empty());
    assert!(world.all::<VolumeSnapshot>().await.is_empty());
}

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
    let vm = world.vm("web").await;
    world.delete(&vm).await;
    world.settle().await;
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
    let disk = world.find::<DataVolume>(ANN, "web-disk").await.unwrap();
    world.delete(&disk).await;
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
        let snapshot = world.create(that(quiesce)).await;
        world.settle().await;
        let before = status(&world, "s").await;
        let mut bare = object(&world, "s").await;
        bare.status = None;
        let lost = json!({"status": null});
        let key = ObjectKey::of(&snapshot);
        let manager = FieldManager::new("person");
        world
            .cluster
            .merge_patch_status::<KiteSnapshot>(manager, &key, &lost)
            .await
            .unwrap();
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
async fn a_request_that_is_refused_ends_it_and_the_guest_goes_on() {
    let world = world().await;
    world.refuse("apply VolumeSnapshot");
    world.create(snapshot_of("web", "s")).await;
    world.settle().await;
    pass_time(&world, 5).await;
    world.refuse("");
    let found = status(&world, "s").await;
    assert_eq!(found.phase, Some(SnapshotPhase::Failed), "{found:#?}");
    let failure = found.failure.unwrap();
    assert!(failure.reason == "Refused" && failure.message.contains("it cannot be"));
    assert_goes_on(&world).await;
}

#[tokio::test(start_paused = true)]
async fn a_guest_that_does_not_go_on_is_asked_until_it_does() {
    let world = world().await;
    let refuse = Rule::fail(
        stages::GUEST_THAWED,
        Selector::all(),
        "Hung",
        "the agent hangs",
    );
    world.rules.add(refuse);
    world.create(snapshot_of("web", "s")).await;
    world.settle().await;
    pass_time(&world, 200).await;
    assert!(is_frozen(&world).await, "nobody else lets it go");
    let found = status(&world, "s").await;
    assert_eq!(found.consistency, Some(Consistency::Quiesced));
    assert!(found.freeze.is_some());
    world.delete(&object(&world, "s").await).await;
    pass_time(&world, 10).await;
    let found = status(&world, "s").await;
    assert!(told(&found).1.contains("the agent hangs"), "{found:#?}");
    world.rules.clear(stages::GUEST_THAWED);
    pass_time(&world, 10).await;
    assert_goes_on(&world).await;
    assert!(world.all::<KiteSnapshot>().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_guest_that_moves_while_it_is_frozen_goes_on_when_its_time_is_over() {
    let world = world().await;
    world
        .rules
        .add(Rule::hold(Stage::SNAPSHOT_CUT, Selector::all()));
    world.create(snapshot_of("web", "s")).await;
    world.settle().await;
    assert!(is_frozen(&world).await);
    let spec = VirtualMachineInstanceMigrationSpec {
        vmi_name: "web".to_owned(),
    };
    let mut order = VirtualMachineInstanceMigration::new("drain", spec);
    order.metadata.namespace = Some(ANN.to_owned());
    world.create(order).await;
    world.settle().await;
    assert!(is_frozen(&world).await, "it has taken that along");
    pass_time(&world, 70).await;
    assert!(!is_frozen(&world).await);
    world.rules.clear(Stage::SNAPSHOT_CUT);
    world.settle().await;
    let found = status(&world, "s").await;
    assert_eq!(found.consistency, Some(Consistency::CrashConsistent));
    assert_goes_on(&world).await;
}

#[tokio::test(start_paused = true)]
async fn windows_is_at_rest_for_ten_seconds_at_most() {
    for (cut_after, consistency) in [
        (3, Consistency::Quiesced),
        (20, Consistency::CrashConsistent),
    ] {
        let world = world().await;
        let disk = world.find::<DataVolume>(ANN, "web-disk").await.unwrap();
        let windows = json!({"metadata": {"annotations": {labels::OS_FAMILY: "Windows"}}});
        world.edit(&disk, windows).await;
        let late = Duration::from_secs(cut_after);
        world
            .rules
            .add(Rule::delay(Stage::SNAPSHOT_CUT, Selector::all(), late));
        world.create(snapshot_of("web", "s")).await;
        for _ in 0..10 {
            let _ = world.pass().await;
        }
        pass_time(&world, 25).await;
        let found = status(&world, "s").await;
        assert_eq!(found.consistency, Some(consistency), "{found:#?}");
    }
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
