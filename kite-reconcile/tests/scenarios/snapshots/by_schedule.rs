//! `spec.snapshots`: taken by a schedule, and gone again when there are enough.

use std::time::Duration;

use jiff::Timestamp;
use kite_core::{
    cdi::DataVolume,
    cluster::{Cluster as _, FieldManager, ObjectKey},
    conditions,
    crd::{Consistency, KiteSnapshot, KiteUser, KiteVirtualMachine, SnapshotPhase},
    labels,
};
use kite_fake::actors::{Rule, Selector, Stage};
use kube::ResourceExt;
use serde_json::{Value, json};

use super::{
    ANN, CEPH, delete_disk, lose_status, object, pass_time, snapshot_of, status, switch_off,
    switch_on, world, world_on,
};
use crate::{lost::replace, world::World};

const HOUR: Duration = Duration::from_secs(3600);

/// Gives the VM a schedule.
async fn follow(world: &World, schedule: Value) -> KiteVirtualMachine {
    let vm = world.vm("web").await;
    let edited = world.edit(&vm, json!({"spec": {"snapshots": schedule}}));
    let edited = edited.await;
    world.settle().await;
    edited
}

/// Reason and message of what is told of it.
async fn said(world: &World) -> (String, String) {
    let found = world.vm("web").await.status.unwrap();
    assert!(
        conditions::is_true(&found.conditions, "Ready"),
        "{found:#?}"
    );
    let told = conditions::find(&found.conditions, "SnapshotsScheduled");
    let told = told.unwrap_or_else(|| panic!("nothing is told: {found:#?}"));
    (told.reason.clone(), told.message.clone())
}

/// An hour passes, in which one is due, and as long as that takes.
async fn an_hour(world: &World) {
    tokio::time::sleep(HOUR).await;
    world.settle().await;
    pass_time(world, 5).await;
}

/// Names of the snapshots that a schedule has made, the first one first.
async fn made(world: &World) -> Vec<String> {
    let all: Vec<KiteSnapshot> = world.all().await;
    let by = all
        .iter()
        .filter(|it| it.labels().contains_key(labels::SCHEDULE_OF));
    let mut names: Vec<_> = by.map(ResourceExt::name_any).collect();
    names.sort();
    names
}

/// The name of the one that was due so many hours ago.
fn named(world: &World, hours: u64) -> String {
    let hour = i64::try_from(HOUR.as_secs()).unwrap();
    let now = world.now().as_second();
    let due = now - now % hour - i64::try_from(hours).unwrap() * hour;
    let due = Timestamp::from_second(due).unwrap();
    kite_disks::schedule::name("web", due)
}

/// A world in which the VM has a snapshot taken each hour, a little more than ten minutes past
/// the hour.
async fn hourly(driver: &str, keep: u32) -> World {
    let world = world_on(driver).await;
    let over = world.now().as_second() % 3600;
    let until = (3600 + 700 - over) % 3600;
    tokio::time::sleep(Duration::from_secs(until.unsigned_abs())).await;
    follow(&world, json!({"schedule": "0 * * * *", "keep": keep})).await;
    world
}

#[tokio::test(start_paused = true)]
async fn snapshots_are_taken_and_as_many_are_kept_as_is_said() {
    let world = hourly(CEPH, 2).await;
    assert_eq!(said(&world).await.0, "ScheduleFollowed");
    // What came before is not made up for.
    assert!(made(&world).await.is_empty());
    an_hour(&world).await;
    let first = named(&world, 0);
    assert_eq!(made(&world).await, std::slice::from_ref(&first));
    let taken = object(&world, &first).await;
    let found = taken.status.unwrap();
    assert_eq!(found.phase, Some(SnapshotPhase::Ready), "{found:#?}");
    assert_eq!(found.consistency, Some(Consistency::Quiesced));
    let told = world.vm("web").await.status.unwrap().snapshots.unwrap();
    assert_eq!(
        kite_disks::schedule::name("web", told.last.unwrap().0),
        first
    );
    let wait = told.next.unwrap().0.duration_since(world.now());
    assert!((0..=3600).contains(&wait.as_secs()), "{wait:?}");
    world.writes();
    world.settle().await;
    let written = world.writes();
    assert!(written.is_empty(), "it is at rest: {written:#?}");
    // One that is to be kept stays beside those.
    let kept = json!({"spec": {"protected": true}});
    world.edit(&object(&world, &first).await, kept).await;
    for _ in 0..4 {
        an_hour(&world).await;
    }
    let left = [first, named(&world, 1), named(&world, 0)];
    assert_eq!(made(&world).await, left);
    // Hands off those that people have taken.
    world.create(snapshot_of("web", "mine")).await;
    pass_time(&world, 5).await;
    for _ in 0..3 {
        an_hour(&world).await;
    }
    assert_eq!(
        status(&world, "mine").await.phase,
        Some(SnapshotPhase::Ready)
    );
    // Without a schedule all of them stay.
    follow(&world, json!(null)).await;
    let left = made(&world).await;
    an_hour(&world).await;
    assert_eq!(made(&world).await, left);
    let found = world.vm("web").await.status.unwrap();
    assert!(conditions::find(&found.conditions, "SnapshotsScheduled").is_none());
    assert!(found.snapshots.is_none());
    world.delete(&world.vm("web").await).await;
    pass_time(&world, 5).await;
    assert_eq!(made(&world).await.len(), 1, "but for the one that is kept");
}

#[tokio::test(start_paused = true)]
async fn after_failures_no_more_are_taken_and_the_last_good_one_stays() {
    let world = hourly(CEPH, 1).await;
    an_hour(&world).await;
    let good = named(&world, 0);
    let refuse = Rule::fail(
        Stage::SNAPSHOT_CUT,
        Selector::all(),
        "Full",
        "no space left",
    );
    world.rules.add(refuse);
    for _ in 0..5 {
        an_hour(&world).await;
        tokio::time::sleep(Duration::from_secs(700)).await;
        pass_time(&world, 5).await;
    }
    let (reason, message) = said(&world).await;
    assert_eq!(reason, "ScheduleSuspended", "{message}");
    assert!(
        message.contains("the last 3 snapshots have failed"),
        "{message}"
    );
    let names = made(&world).await;
    assert_eq!(names.len(), 4, "{names:?}");
    assert!(names.contains(&good));
    assert_eq!(
        status(&world, &good).await.phase,
        Some(SnapshotPhase::Ready)
    );
    world.rules.clear(Stage::SNAPSHOT_CUT);
    for failed in names.iter().filter(|it| **it != good) {
        assert!(message.contains(failed.as_str()), "{message}");
        world.delete(&object(&world, failed).await).await;
    }
    pass_time(&world, 5).await;
    assert_eq!(said(&world).await.0, "ScheduleFollowed");
    an_hour(&world).await;
    assert_eq!(made(&world).await, [named(&world, 0)]);
}

#[tokio::test(start_paused = true)]
async fn a_vm_that_is_off_is_taken_once() {
    let world = hourly(CEPH, 2).await;
    an_hour(&world).await;
    let running = named(&world, 0);
    switch_off(&world).await;
    an_hour(&world).await;
    let off = named(&world, 0);
    for _ in 0..3 {
        an_hour(&world).await;
    }
    // Else the older ones, which differ, would be gone.
    assert_eq!(made(&world).await, [running, off.clone()]);
    assert_eq!(said_of_one_that_is_off(&world).await, "ScheduleFollowed");
    switch_on(&world).await;
    switch_off(&world).await;
    an_hour(&world).await;
    assert_eq!(made(&world).await, [off, named(&world, 0)]);
}

async fn said_of_one_that_is_off(world: &World) -> String {
    let found = world.vm("web").await.status.unwrap();
    let told = conditions::find(&found.conditions, "SnapshotsScheduled");
    told.unwrap().reason.clone()
}

#[tokio::test(start_paused = true)]
async fn one_that_is_deleted_is_not_taken_anew() {
    let world = hourly(CEPH, 3).await;
    an_hour(&world).await;
    world.delete(&object(&world, &named(&world, 0)).await).await;
    pass_time(&world, 60).await;
    assert!(made(&world).await.is_empty());
    // Nor twice where nobody knows any more that it was begun.
    an_hour(&world).await;
    lose_status::<KiteVirtualMachine>(&world, "web").await;
    pass_time(&world, 60).await;
    assert_eq!(made(&world).await, [named(&world, 0)]);
    an_hour(&world).await;
    assert_eq!(made(&world).await, [named(&world, 1), named(&world, 0)]);
    // Somebody has one of that name already.
    let next = world.now() + HOUR;
    let next = next.as_second() - next.as_second() % 3600;
    let name = kite_disks::schedule::name("web", Timestamp::from_second(next).unwrap());
    world.create(snapshot_of("web", &name)).await;
    an_hour(&world).await;
    assert_eq!(made(&world).await.len(), 2);
    an_hour(&world).await;
    assert_eq!(made(&world).await.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn what_is_needed_and_what_is_another_s_stays() {
    let world = hourly(CEPH, 1).await;
    an_hour(&world).await;
    let wanted = named(&world, 0);
    // A restore that waits for its time.
    let at = (world.now() + HOUR * 5).to_string();
    let restore = json!({"spec": {"restore": {"snapshot": wanted, "at": at}}});
    world.edit(&world.vm("web").await, restore).await;
    // Somebody keeps a copy of what the schedule has made, with all that stands on it.
    let mut copy = object(&world, &wanted).await;
    copy.metadata = kube::api::ObjectMeta {
        name: Some("mine".to_owned()),
        namespace: Some(ANN.to_owned()),
        labels: copy.metadata.labels,
        annotations: copy.metadata.annotations,
        ..Default::default()
    };
    copy.status = None;
    world.create(copy).await;
    pass_time(&world, 5).await;
    for _ in 0..3 {
        an_hour(&world).await;
    }
    assert_eq!(made(&world).await, ["mine", &wanted, &named(&world, 0)]);
    for _ in 0..3 {
        an_hour(&world).await;
    }
    let found = world.vm("web").await.status.unwrap();
    assert!(
        conditions::is_true(&found.conditions, "Restored"),
        "{found:#?}"
    );
    assert_eq!(made(&world).await, ["mine", &named(&world, 0)]);
}

#[tokio::test(start_paused = true)]
async fn the_last_of_a_lost_disk_stays_beside_those_of_its_successor() {
    let world = hourly(CEPH, 1).await;
    an_hour(&world).await;
    let last = named(&world, 0);
    switch_off(&world).await;
    let disk = world.find::<DataVolume>(ANN, "web-disk").await.unwrap();
    delete_disk(&world, "web-disk").await;
    world.settle().await;
    replace(&world, &disk.uid().unwrap()).await;
    switch_on(&world).await;
    for _ in 0..3 {
        an_hour(&world).await;
    }
    // An empty disk shows nothing of what was lost.
    assert_eq!(made(&world).await, [last.clone(), named(&world, 0)]);
    // Once that is there again, it goes with time as all do.
    let at = world.now().to_string();
    let restore = json!({"spec": {"restore": {"snapshot": last, "at": at, "keep": "10m"}}});
    world.edit(&world.vm("web").await, restore).await;
    pass_time(&world, 10).await;
    for _ in 0..2 {
        an_hour(&world).await;
    }
    assert_eq!(made(&world).await, [named(&world, 0)]);
}

#[tokio::test(start_paused = true)]
async fn what_comes_to_no_end_or_does_not_go_is_told() {
    let world = hourly(CEPH, 1).await;
    an_hour(&world).await;
    world.refuse("delete unchanged KiteSnapshot");
    an_hour(&world).await;
    let (reason, message) = said(&world).await;
    assert_eq!(reason, "SnapshotRefused", "{message}");
    assert!(message.contains(&named(&world, 1)), "{message}");
    world.refuse("");
    pass_time(&world, 70).await;
    assert_eq!(made(&world).await, [named(&world, 0)]);
    assert_eq!(said(&world).await.0, "ScheduleFollowed");
    // Storage never says that it is ready.
    world
        .rules
        .add(Rule::hold(Stage::SNAPSHOT_READY, Selector::all()));
    an_hour(&world).await;
    let stuck = named(&world, 0);
    for _ in 0..8 {
        an_hour(&world).await;
    }
    assert!(made(&world).await.contains(&stuck));
    assert!(made(&world).await.len() > 2, "others are tried");
    for _ in 0..16 {
        an_hour(&world).await;
    }
    let (reason, message) = said(&world).await;
    assert_eq!(reason, "ScheduleSuspended", "{message}");
    assert!(message.contains("comes to no end"), "{message}");
}

#[tokio::test(start_paused = true)]
async fn what_is_no_schedule_is_told_with_the_remedy() {
    let world = world().await;
    for (schedule, words) in [
        (json!({"schedule": "every night"}), "cannot be read"),
        (json!({"schedule": "0 0 30 2 *"}), "never comes"),
        (
            json!({"schedule": "*/15 * * * *"}),
            "snapshots may be taken every 60 minutes at most",
        ),
        (
            json!({"schedule": "0 3 * * *", "timeZone": "Mars/Olympus"}),
            "time zone \"Mars/Olympus\" is not known",
        ),
    ] {
        follow(&world, json!(null)).await;
        follow(&world, schedule).await;
        let (reason, message) = said(&world).await;
        assert_eq!(reason, "ScheduleInvalid", "{message}");
        assert!(message.contains(words), "{message}");
    }
    let night = json!({"schedule": "0 3 * * *", "timeZone": "Asia/Seoul"});
    follow(&world, night).await;
    let (reason, message) = said(&world).await;
    assert_eq!(reason, "ScheduleFollowed", "{message}");
    let told = world.vm("web").await.status.unwrap().snapshots.unwrap();
    let next = told.next.unwrap().0.to_string();
    assert!(next.contains("T18:0"), "at three in Seoul: {next}");
    let vm = world.vm("web").await;
    for (schedule, field) in [
        (json!({"schedule": "0 3 * * *", "keep": 0}), "keep"),
        (json!({"schedule": "0 3 * * *", "keep": 61}), "keep"),
        (
            json!({"schedule": "0 3 * * *", "maxFailures": 0}),
            "maxFailures",
        ),
        (json!({"schedule": "hourly"}), "schedule"),
        (json!({"schedule": null}), "schedule"),
    ] {
        let patch = json!({"spec": {"snapshots": schedule}});
        let refused = world.try_edit(&vm, patch).await.unwrap_err().to_string();
        assert!(refused.contains(field), "{refused}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_the_quota_has_no_room_for_is_told() {
    let world = hourly(CEPH, 7).await;
    let ann = world.find::<KiteUser>("", "ann").await.unwrap();
    let quota = |snapshots: u32| {
        let mut quota = json!({"vms": 5, "cpu": 8, "memory": "16Gi", "disk": "200Gi"});
        quota["snapshots"] = json!(snapshots);
        json!({"spec": {"quota": quota}})
    };
    world.edit(&ann, quota(1)).await;
    world.settle().await;
    an_hour(&world).await;
    assert_eq!(made(&world).await.len(), 1);
    an_hour(&world).await;
    let (reason, message) = said(&world).await;
    assert_eq!(reason, "SnapshotRefused", "{message}");
    assert!(message.contains("quota"), "{message}");
    assert_eq!(made(&world).await.len(), 1);
    world.edit(&ann, quota(3)).await;
    world.settle().await;
    pass_time(&world, 90).await;
    assert_eq!(said(&world).await.0, "ScheduleFollowed");
    assert_eq!(made(&world).await.len(), 2);
}

/// What somebody writes into a status is theirs, and an apply leaves it: of what is left
/// nothing can be made by itself.
#[tokio::test(start_paused = true)]
async fn what_others_have_written_into_the_status_goes_with_the_schedule() {
    let world = hourly(CEPH, 2).await;
    let (manager, key) = (
        FieldManager::new("person"),
        ObjectKey::namespaced(ANN, "web"),
    );
    let long_ago = json!({"status": {"snapshots": {"since": "2026-01-01T00:00:00Z"}}});
    let written = world
        .cluster
        .merge_patch_status::<KiteVirtualMachine>(manager, &key, &long_ago);
    written.await.unwrap();
    follow(&world, Value::Null).await;
    let found = world.vm("web").await.status.unwrap();
    assert_eq!(found.snapshots, None);
    assert!(conditions::find(&found.conditions, "SnapshotsScheduled").is_none());
}

#[tokio::test(start_paused = true)]
async fn none_is_taken_before_a_guest_has_run() {
    let world = world_on(CEPH).await;
    let mut vm = crate::world::vm_named("late");
    vm.spec.power_state = kite_core::crd::PowerState::Off;
    vm.spec.snapshots = serde_json::from_value(json!({"schedule": "0 * * * *"})).unwrap();
    world.create(vm).await;
    world.settle().await;
    for _ in 0..2 {
        an_hour(&world).await;
    }
    assert!(made(&world).await.is_empty());
    let found = world.vm("late").await.status.unwrap();
    let told = conditions::find(&found.conditions, "SnapshotsScheduled").unwrap();
    assert_eq!(told.reason, "ScheduleWaits", "{}", told.message);
    let on = json!({"spec": {"powerState": "On"}});
    world.edit(&world.vm("late").await, on).await;
    pass_time(&world, 20).await;
    // The last one that was missed, and no more.
    assert_eq!(made(&world).await.len(), 1);
    assert_eq!(
        world.all::<KiteSnapshot>().await[0].namespace().as_deref(),
        Some(ANN)
    );
}
