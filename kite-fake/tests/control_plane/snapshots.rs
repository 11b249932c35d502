//! Snapshots of claims by drivers that differ, and where the data are then.

use std::time::Duration;

use kite_fake::FakeCluster;
use kite_fake::actors::kind::{
    CLAIM, POD, STORAGE_CLASS, VOLUME, VOLUME_SNAPSHOT, VOLUME_SNAPSHOT_CLASS,
    VOLUME_SNAPSHOT_CONTENT,
};
use kite_fake::actors::storage::{BROKEN, CONTENTS, COPYING_FROM, STILL, TAKEN};
use kite_fake::actors::{Rule, Rules, Selector, Stage, snapshot_definitions};
use kube::api::DynamicObject;
use serde_json::{Value, json};

use crate::world::{World, annotation};

const CEPH: &str = "rook-ceph.rbd.csi.ceph.com";
const LONGHORN: &str = "driver.longhorn.io";
const CINDER: &str = "cinder.csi.openstack.org";

/// A cluster with a class of this driver for claims and one for snapshots, and a claim `disk`
/// with something on it.
async fn world(driver: &str) -> World {
    let builder = FakeCluster::builder().crds(snapshot_definitions());
    let world = World::on(builder.build().unwrap(), Rules::instant().into()).await;
    let class = json!({"metadata": {"name": "fast"}, "provisioner": driver,
        "allowVolumeExpansion": true});
    world.create(&STORAGE_CLASS, class).await;
    world
        .create(&VOLUME_SNAPSHOT_CLASS, snaps("snap", driver))
        .await;
    world
        .create(&CLAIM, claim("disk", "1Gi", &Value::Null))
        .await;
    world.settle().await;
    write(&world, "disk", "one").await;
    world
}

fn snaps(name: &str, driver: &str) -> Value {
    json!({"metadata": {"name": name}, "driver": driver, "deletionPolicy": "Delete",
        "parameters": {"type": "snap"}})
}

fn claim(name: &str, size: &str, source: &Value) -> Value {
    let mut spec = json!({
        "storageClassName": "fast",
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": size}},
    });
    if !source.is_null() {
        spec["dataSource"] = source.clone();
    }
    json!({"metadata": {"name": name}, "spec": spec})
}

fn of_snapshot(name: &str) -> Value {
    json!({"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": name})
}

fn snapshot(name: &str, of: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {
        "volumeSnapshotClassName": "snap",
        "source": {"persistentVolumeClaimName": of},
    }})
}

/// The spec of a Pod that uses a claim.
fn using(claim: &str) -> Value {
    let source = json!({"claimName": claim});
    json!({"volumes": [{"name": "v", "persistentVolumeClaim": source}]})
}

async fn volume(world: &World, claim: &str) -> DynamicObject {
    let claim = world.get(&CLAIM, claim).await;
    let name = claim.data["spec"]["volumeName"].as_str();
    world.get(&VOLUME, name.expect("it is bound")).await
}

async fn write(world: &World, claim: &str, text: &str) {
    let volume = volume(world, claim).await.metadata.name.unwrap();
    let patch = json!({"metadata": {"annotations": {CONTENTS: text}}});
    world.merge(&VOLUME, &volume, patch).await;
}

async fn read(world: &World, claim: &str) -> Option<String> {
    let volume = volume(world, claim).await;
    annotation(&volume, CONTENTS).map(str::to_owned)
}

async fn is_bound(world: &World, claim: &str) -> bool {
    world.status(&CLAIM, claim).await["phase"] == "Bound"
}

async fn content(world: &World, snapshot: &str) -> DynamicObject {
    let status = world.status(&VOLUME_SNAPSHOT, snapshot).await;
    let name = status["boundVolumeSnapshotContentName"].as_str().unwrap();
    world.get(&VOLUME_SNAPSHOT_CONTENT, name).await
}

async fn why(world: &World, snapshot: &str) -> String {
    let status = world.status(&VOLUME_SNAPSHOT, snapshot).await;
    assert_eq!(status["readyToUse"], false);
    status["error"]["message"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_has_what_was_there_when_it_was_cut() {
    let world = world(CEPH).await;
    for stage in [Stage::SNAPSHOT_CUT, Stage::SNAPSHOT_READY] {
        world.rules.add(Rule::hold(stage, Selector::all()));
    }
    world.create(&VOLUME_SNAPSHOT, snapshot("s", "disk")).await;
    world.settle().await;
    assert!(world.status(&VOLUME_SNAPSHOT, "s").await["creationTime"].is_null());
    // The claim stays for it, and it stays until its content is gone.
    let held = world.get(&CLAIM, "disk").await.metadata.finalizers.unwrap();
    assert!(
        held.iter()
            .any(|it| it.ends_with("pvc-as-source-protection"))
    );

    write(&world, "disk", "two").await;
    world.rules.clear(Stage::SNAPSHOT_CUT);
    world.settle().await;
    let cut = world.status(&VOLUME_SNAPSHOT, "s").await;
    assert!(cut["creationTime"].is_string() && cut["readyToUse"] == false);
    assert_eq!(cut["restoreSize"], "1Gi");
    write(&world, "disk", "three").await;
    world.rules.clear(Stage::SNAPSHOT_READY);
    world.settle().await;
    assert_eq!(
        world.status(&VOLUME_SNAPSHOT, "s").await["readyToUse"],
        true
    );
    let held = world.get(&CLAIM, "disk").await.metadata.finalizers.unwrap();
    assert!(
        !held
            .iter()
            .any(|it| it.ends_with("pvc-as-source-protection"))
    );

    world
        .create(&CLAIM, claim("copy", "2Gi", &of_snapshot("s")))
        .await;
    world.is_quiet().await;
    assert_eq!(read(&world, "copy").await.as_deref(), Some("two"));
    assert_eq!(read(&world, "disk").await.as_deref(), Some("three"));
    let again = json!({"kind": "PersistentVolumeClaim", "name": "disk"});
    world.create(&CLAIM, claim("clone", "1Gi", &again)).await;
    world.settle().await;
    assert_eq!(read(&world, "clone").await.as_deref(), Some("three"));

    let content = content(&world, "s").await.metadata.name.unwrap();
    world.delete(&VOLUME_SNAPSHOT, "s").await;
    world.is_quiet().await;
    assert!(world.find(&VOLUME_SNAPSHOT, "s").await.is_none());
    assert!(
        world
            .find(&VOLUME_SNAPSHOT_CONTENT, &content)
            .await
            .is_none()
    );
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn how_a_volume_was_used_when_it_was_cut_is_told() {
    let world = world(CEPH).await;
    let taken = async |name: &str| {
        world.create(&VOLUME_SNAPSHOT, snapshot(name, "disk")).await;
        world.settle().await;
        annotation(&content(&world, name).await, TAKEN)
            .unwrap()
            .to_owned()
    };
    assert_eq!(taken("a").await, "unused");
    world.pod("p", using("disk")).await;
    world.settle().await;
    assert_eq!(taken("b").await, "in-use");
    let still = json!({"metadata": {"annotations": {STILL: "2026-01-01T00:00:00Z"}}});
    world.merge(&POD, "p", still).await;
    assert_eq!(taken("c").await, "still");
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_outlives_its_volume_as_its_driver_has_it() {
    for (driver, outlives) in [(CEPH, true), (LONGHORN, false)] {
        let world = world(driver).await;
        world.create(&VOLUME_SNAPSHOT, snapshot("s", "disk")).await;
        world.settle().await;
        world.delete(&CLAIM, "disk").await;
        world.settle().await;
        assert!(world.list(&VOLUME).await.is_empty());
        // This is said of both.
        assert_eq!(
            world.status(&VOLUME_SNAPSHOT, "s").await["readyToUse"],
            true
        );
        world
            .create(&CLAIM, claim("copy", "1Gi", &of_snapshot("s")))
            .await;
        world.settle().await;
        assert_eq!(is_bound(&world, "copy").await, outlives, "{driver}");
        if outlives {
            assert_eq!(read(&world, "copy").await.as_deref(), Some("one"));
        }
        world.end().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_volume_may_be_kept_for_its_snapshots() {
    let world = world(CINDER).await;
    world.create(&VOLUME_SNAPSHOT, snapshot("s", "disk")).await;
    world.settle().await;
    let name = volume(&world, "disk").await.metadata.name.unwrap();
    world.delete(&CLAIM, "disk").await;
    world.is_quiet().await;
    assert_eq!(world.status(&VOLUME, &name).await["phase"], "Released");
    world.delete(&VOLUME_SNAPSHOT, "s").await;
    tokio::time::sleep(Duration::from_secs(6)).await;
    world.settle().await;
    assert!(world.find(&VOLUME, &name).await.is_none());
    world.end().await;
}

/// A claim `copy` of a snapshot of `disk`, whose data are still on their way, with a Pod.
async fn copying() -> World {
    let world = world(LONGHORN).await;
    world.create(&VOLUME_SNAPSHOT, snapshot("s", "disk")).await;
    world
        .rules
        .add(Rule::hold(Stage::COPY_DONE, Selector::all()));
    world
        .create(&CLAIM, claim("copy", "1Gi", &of_snapshot("s")))
        .await;
    world.settle().await;
    assert!(is_bound(&world, "copy").await);
    assert_eq!(read(&world, "copy").await, None);
    world.pod("p", using("copy")).await;
    world.settle().await;
    assert_eq!(world.status(&POD, "p").await["phase"], "Pending");
    world
}

#[tokio::test(start_paused = true)]
async fn a_pod_waits_for_the_data_of_a_volume_that_was_bound_before() {
    let world = copying().await;
    // What is on its way cannot be cut.
    world.create(&VOLUME_SNAPSHOT, snapshot("t", "copy")).await;
    world.settle().await;
    assert!(why(&world, "t").await.contains("not ready"));
    world.rules.clear(Stage::COPY_DONE);
    tokio::time::sleep(Duration::from_secs(10)).await;
    world.is_quiet().await;
    assert_eq!(read(&world, "copy").await.as_deref(), Some("one"));
    assert_eq!(
        annotation(&volume(&world, "copy").await, COPYING_FROM),
        None
    );
    assert_eq!(world.status(&POD, "p").await["phase"], "Running");
    assert_eq!(
        world.status(&VOLUME_SNAPSHOT, "t").await["readyToUse"],
        true
    );
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_copy_whose_source_goes_too_early_is_broken_for_ever() {
    for source in ["disk", "s"] {
        let world = copying().await;
        match source {
            "disk" => world.delete(&CLAIM, "disk").await,
            _ => world.delete(&VOLUME_SNAPSHOT, "s").await,
        }
        world.settle().await;
        world.rules.clear(Stage::COPY_DONE);
        world.is_quiet().await;
        let broken = volume(&world, "copy").await;
        assert!(annotation(&broken, BROKEN).is_some(), "{source}");
        assert_eq!(read(&world, "copy").await, None);
        assert_eq!(world.status(&POD, "p").await["phase"], "Pending");
        world.end().await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_class_is_the_one_that_is_named_or_the_default() {
    let world = world(CEPH).await;
    let mut unnamed = snapshot("s", "disk");
    unnamed["spec"]["volumeSnapshotClassName"].take();
    world.create(&VOLUME_SNAPSHOT, unnamed).await;
    world.settle().await;
    assert!(
        why(&world, "s")
            .await
            .ends_with("cannot find default snapshot class")
    );
    let default = json!({"metadata": {"annotations":
        {"snapshot.storage.kubernetes.io/is-default-class": "true"}}});
    let mut other = snaps("other", CEPH);
    other["metadata"]["annotations"] = default["metadata"]["annotations"].clone();
    world.create(&VOLUME_SNAPSHOT_CLASS, other).await;
    world.merge(&VOLUME_SNAPSHOT_CLASS, "snap", default).await;
    tokio::time::sleep(Duration::from_secs(6)).await;
    assert!(
        why(&world, "s")
            .await
            .ends_with("2 default snapshot classes were found")
    );
    world.delete(&VOLUME_SNAPSHOT_CLASS, "other").await;
    tokio::time::sleep(Duration::from_secs(6)).await;
    world.settle().await;
    let taken = world.get(&VOLUME_SNAPSHOT, "s").await;
    assert_eq!(taken.data["spec"]["volumeSnapshotClassName"], "snap");
    assert_eq!(taken.data["status"]["readyToUse"], true);
    assert!(taken.data["status"]["error"].is_null());

    let mut missing = snapshot("t", "disk");
    missing["spec"]["volumeSnapshotClassName"] = json!("none");
    world.create(&VOLUME_SNAPSHOT, missing).await;
    world.settle().await;
    assert!(why(&world, "t").await.contains("\"none\" not found"));
    world.delete(&VOLUME_SNAPSHOT, "t").await;
    world.settle().await;
    // The claim is not held by what was given up.
    let held = world.get(&CLAIM, "disk").await.metadata.finalizers.unwrap();
    assert!(
        !held
            .iter()
            .any(|it| it.ends_with("pvc-as-source-protection"))
    );
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn longhorn_wants_a_class_that_says_snap_and_takes_250() {
    let world = world(LONGHORN).await;
    let unsaid = json!({"metadata": {"name": "bak"}, "driver": LONGHORN,
        "deletionPolicy": "Delete"});
    world.create(&VOLUME_SNAPSHOT_CLASS, unsaid).await;
    let mut backup = snapshot("b", "disk");
    backup["spec"]["volumeSnapshotClassName"] = json!("bak");
    world.create(&VOLUME_SNAPSHOT, backup).await;
    world.settle().await;
    assert!(
        why(&world, "b")
            .await
            .contains("backup target default is not available")
    );
    // It is tried again, and an error that is over is not told any more.
    let type_ = json!({"parameters": {"type": "snap"}});
    world.merge(&VOLUME_SNAPSHOT_CLASS, "bak", type_).await;
    tokio::time::sleep(Duration::from_secs(6)).await;
    world.settle().await;
    let status = world.status(&VOLUME_SNAPSHOT, "b").await;
    assert!(
        status["readyToUse"] == true && status["error"].is_null(),
        "{status}"
    );

    for n in 1..250 {
        let name = format!("s{n}");
        world
            .create(&VOLUME_SNAPSHOT, snapshot(&name, "disk"))
            .await;
    }
    world.settle().await;
    world
        .create(&VOLUME_SNAPSHOT, snapshot("more", "disk"))
        .await;
    world.settle().await;
    assert!(why(&world, "more").await.contains("250"));
    world.delete(&VOLUME_SNAPSHOT, "s7").await;
    tokio::time::sleep(Duration::from_secs(6)).await;
    world.settle().await;
    assert_eq!(
        world.status(&VOLUME_SNAPSHOT, "more").await["readyToUse"],
        true
    );
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn sizes_may_come_late_and_deletions_fail() {
    let world = world(CEPH).await;
    world
        .rules
        .add(Rule::hold(Stage::SNAPSHOT_SIZED, Selector::all()));
    world.create(&VOLUME_SNAPSHOT, snapshot("s", "disk")).await;
    world.settle().await;
    let status = world.status(&VOLUME_SNAPSHOT, "s").await;
    assert!(status["readyToUse"] == true && status["restoreSize"].is_null());
    world.rules.clear(Stage::SNAPSHOT_SIZED);
    world.settle().await;
    assert_eq!(
        world.status(&VOLUME_SNAPSHOT, "s").await["restoreSize"],
        "1Gi"
    );
    world
        .create(&CLAIM, claim("small", "1Mi", &of_snapshot("s")))
        .await;
    world.settle().await;
    assert!(!is_bound(&world, "small").await);

    let busy = Rule::fail(
        Stage::SNAPSHOT_DELETED,
        Selector::named("s"),
        "Busy",
        "it is busy",
    );
    world.rules.add(busy);
    world.delete(&VOLUME_SNAPSHOT, "s").await;
    world.settle().await;
    // First what is being filled from it.
    assert!(
        world.list(&VOLUME_SNAPSHOT_CONTENT).await[0]
            .metadata
            .deletion_timestamp
            .is_none()
    );
    world.delete(&CLAIM, "small").await;
    world.settle().await;
    assert!(
        world.list(&VOLUME_SNAPSHOT_CONTENT).await[0]
            .metadata
            .deletion_timestamp
            .is_some()
    );
    assert!(world.find(&VOLUME_SNAPSHOT, "s").await.is_some());
    world.rules.clear(Stage::SNAPSHOT_DELETED);
    world.settle().await;
    assert!(world.find(&VOLUME_SNAPSHOT, "s").await.is_none());
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn who_takes_over_takes_no_snapshot_twice() {
    let world = world(LONGHORN).await;
    world
        .rules
        .add(Rule::hold(Stage::SNAPSHOT_READY, Selector::all()));
    world.create(&VOLUME_SNAPSHOT, snapshot("s", "disk")).await;
    world.settle().await;
    let before = content(&world, "s").await;
    let world = world.alone().await;
    write(&world, "disk", "two").await;
    world.rules.clear(Stage::SNAPSHOT_READY);
    let world = World::on(world.cluster, world.rules).await;
    let after = content(&world, "s").await;
    assert_eq!(after.metadata.uid, before.metadata.uid);
    assert_eq!(annotation(&after, CONTENTS), Some("one"));
    assert_eq!(after.data["status"]["readyToUse"], true);
    world.is_quiet().await;
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn two_snapshots_of_a_claim_that_goes_do_not_wait_for_one_another() {
    let world = world(CEPH).await;
    world
        .rules
        .add(Rule::hold(Stage::SNAPSHOT_READY, Selector::all()));
    world.create(&VOLUME_SNAPSHOT, snapshot("a", "disk")).await;
    world.settle().await;
    world.delete(&CLAIM, "disk").await;
    world.create(&VOLUME_SNAPSHOT, snapshot("b", "disk")).await;
    world.settle().await;
    world.rules.clear(Stage::SNAPSHOT_READY);
    world.settle().await;
    assert!(world.find(&CLAIM, "disk").await.is_none());
    for name in ["a", "b"] {
        assert_eq!(
            world.status(&VOLUME_SNAPSHOT, name).await["readyToUse"],
            true
        );
    }
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_content_stays_as_long_as_its_snapshot() {
    let world = world(CEPH).await;
    world.create(&VOLUME_SNAPSHOT, snapshot("s", "disk")).await;
    world.settle().await;
    let content = content(&world, "s").await.metadata.name.unwrap();
    world.delete(&VOLUME_SNAPSHOT_CONTENT, &content).await;
    world.is_quiet().await;
    assert_eq!(
        world.status(&VOLUME_SNAPSHOT, "s").await["readyToUse"],
        true
    );
    world.delete(&VOLUME_SNAPSHOT, "s").await;
    world.settle().await;
    assert!(
        world
            .find(&VOLUME_SNAPSHOT_CONTENT, &content)
            .await
            .is_none()
    );
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_copy_has_what_was_there_when_it_was_begun() {
    let world = world(LONGHORN).await;
    let hold = Rule::hold(Stage::COPY_DONE, Selector::all());
    world.rules.add(hold);
    let of = |name| json!({"kind": "PersistentVolumeClaim", "name": name});
    world
        .create(&CLAIM, claim("first", "1Gi", &of("disk")))
        .await;
    world.settle().await;
    world
        .create(&CLAIM, claim("second", "1Gi", &of("first")))
        .await;
    // Larger is none.
    world
        .create(&CLAIM, claim("larger", "2Gi", &of("disk")))
        .await;
    world.settle().await;
    assert!(!is_bound(&world, "larger").await);
    write(&world, "disk", "two").await;
    world.rules.clear(Stage::COPY_DONE);
    world.settle().await;
    for name in ["first", "second"] {
        assert_eq!(read(&world, name).await.as_deref(), Some("one"), "{name}");
    }
    world.end().await;
}
