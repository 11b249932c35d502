//! How they are taken, and what is told of them.

use std::time::Duration;

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kite_core::{
    cdi::DataVolume,
    crd::{Consistency, KiteSnapshot, PowerState, Quiesce, SnapshotPhase},
    kubevirt::{VirtualMachineInstanceMigration, VirtualMachineInstanceMigrationSpec},
    labels,
    volume_snapshot::{VolumeSnapshot, VolumeSnapshotClass},
};
use kite_fake::actors::{Rule, Selector, Stage};
use kite_fake_kubevirt::stages;
use serde_json::json;

use super::{
    ANN, assert_goes_on, is_frozen, object, on_storage, pass_time, phase, snapshot_of, status,
    switch_off, that, told, world,
};
use crate::world::vm_named;

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
    assert!(written.len() <= 7, "{written:#?}");
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
        assert!(written.len() <= 14, "{written:#?}");
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
