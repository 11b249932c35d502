//! Disks that are cloned by their storage, by a temporary claim.

use std::time::Duration;

use kite_fake::actors::kind::{
    CLAIM, NAMESPACE, POD, RESOURCE_QUOTA, STORAGE_CLASS, VOLUME, VOLUME_SNAPSHOT,
    VOLUME_SNAPSHOT_CLASS,
};
use kite_fake::actors::storage::{CONTENTS, annotation};
use kite_fake::actors::{Rule, Selector, Stage};
use kite_fake_kubevirt::kinds::DATA_VOLUME;
use kube::api::DynamicObject;
use serde_json::{Value, json};

use crate::world::{World, text};

const NS: Option<&str> = Some("default");

/// A disk `disk` with something on it, and a snapshot `s` of it.
async fn world(driver: &str) -> World {
    let world = World::new().await;
    let class = json!({
        "metadata": {"name": "fast", "annotations":
            {"storageclass.kubernetes.io/is-default-class": "true"}},
        "provisioner": driver,
        "allowVolumeExpansion": true,
    });
    world.create(&STORAGE_CLASS, None, class).await;
    let class = json!({"metadata": {"name": "snap"}, "driver": driver,
        "deletionPolicy": "Delete", "parameters": {"type": "snap"}});
    world.create(&VOLUME_SNAPSHOT_CLASS, None, class).await;
    world
        .create(&DATA_VOLUME, NS, disk("disk", &json!({"blank": {}}), "1Gi"))
        .await;
    world.settle().await;
    let name = volume(&world, "disk").await.metadata.name.unwrap();
    let patch = json!({"metadata": {"annotations": {CONTENTS: "one"}}});
    world.merge(&VOLUME, None, &name, patch).await;
    let snapshot = json!({"metadata": {"name": "s"}, "spec": {
        "volumeSnapshotClassName": "snap",
        "source": {"persistentVolumeClaimName": "disk"},
    }});
    world.create(&VOLUME_SNAPSHOT, NS, snapshot).await;
    world.settle().await;
    world
}

fn disk(name: &str, source: &Value, size: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {
        "source": source,
        "storage": {"resources": {"requests": {"storage": size}}},
    }})
}

fn of_snapshot() -> Value {
    json!({"snapshot": {"namespace": "default", "name": "s"}})
}

async fn volume(world: &World, claim: &str) -> DynamicObject {
    let claim = world.get(&CLAIM, NS, claim).await.unwrap();
    let name = text(&claim, "/spec/volumeName");
    world.get(&VOLUME, None, name).await.expect("it is bound")
}

async fn phase(world: &World, name: &str) -> String {
    let disk = world.get(&DATA_VOLUME, NS, name).await.unwrap();
    text(&disk, "/status/phase").to_owned()
}

async fn claims(world: &World) -> Vec<String> {
    let all = world.list(&CLAIM, NS).await.into_iter();
    all.map(|claim| claim.metadata.name.unwrap()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_disk_gets_the_volume_of_a_temporary_claim() {
    let world = world("csi.example.org").await;
    world
        .rules
        .add(Rule::hold(Stage::CLAIM_BOUND, Selector::all()));
    world
        .create(&DATA_VOLUME, NS, disk("copy", &of_snapshot(), "2Gi"))
        .await;
    world.settle().await;
    assert_eq!(
        phase(&world, "copy").await,
        "CloneFromSnapshotSourceInProgress"
    );
    let target = world.get(&CLAIM, NS, "copy").await.unwrap();
    let temporary = format!("tmp-pvc-{}", target.metadata.uid.as_ref().unwrap());
    let temporary = world.get(&CLAIM, NS, &temporary).await.unwrap();
    assert_eq!(text(&temporary, "/spec/dataSourceRef/name"), "s");

    world.rules.clear(Stage::CLAIM_BOUND);
    world.settle().await;
    assert_eq!(phase(&world, "copy").await, "Succeeded");
    assert_eq!(claims(&world).await, ["copy", "disk"]);
    let copy = world.get(&CLAIM, NS, "copy").await.unwrap();
    let size = text(&copy, "/status/capacity/storage");
    assert_eq!(size, text(&copy, "/spec/resources/requests/storage"));
    let volume = volume(&world, "copy").await;
    assert_eq!(annotation(&volume, CONTENTS), Some("one"));
    assert_eq!(
        Some(text(&volume, "/spec/claimRef/uid")),
        copy.metadata.uid.as_deref()
    );

    // The volume goes with the claim that has it now.
    world.delete(&DATA_VOLUME, NS, "copy").await;
    world.settle().await;
    assert_eq!(world.list(&VOLUME, None).await.len(), 1);
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_quota_is_charged_for_it_too() {
    let world = world("csi.example.org").await;
    let quota = json!({"metadata": {"name": "q"}, "spec": {"hard":
        {"persistentvolumeclaims": "2"}}});
    world.create(&RESOURCE_QUOTA, NS, quota).await;
    world.settle().await;
    world
        .create(&DATA_VOLUME, NS, disk("copy", &of_snapshot(), "1Gi"))
        .await;
    world.settle().await;
    assert_eq!(
        phase(&world, "copy").await,
        "CloneFromSnapshotSourceInProgress"
    );
    let copy = world.get(&DATA_VOLUME, NS, "copy").await.unwrap();
    let running = &copy.data["status"]["conditions"][2];
    assert_eq!(running["reason"], "Error");
    assert!(
        running["message"]
            .as_str()
            .unwrap()
            .contains("exceeded quota")
    );
    let more = json!({"spec": {"hard": {"persistentvolumeclaims": "3"}}});
    world.merge(&RESOURCE_QUOTA, NS, "q", more).await;
    tokio::time::sleep(Duration::from_secs(6)).await;
    world.settle().await;
    assert_eq!(phase(&world, "copy").await, "Succeeded");
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn it_is_made_beside_the_snapshot_and_goes_with_what_it_is_for() {
    let world = world("csi.example.org").await;
    let other = json!({"metadata": {"name": "other"}});
    world.create(&NAMESPACE, None, other).await;
    world.settle().await;
    world
        .rules
        .add(Rule::hold(Stage::CLAIM_BOUND, Selector::all()));
    let there = Some("other");
    world
        .create(&DATA_VOLUME, there, disk("copy", &of_snapshot(), "1Gi"))
        .await;
    world.settle().await;
    assert_eq!(claims(&world).await.len(), 2);
    world.delete(&DATA_VOLUME, there, "copy").await;
    world.settle().await;
    assert_eq!(claims(&world).await, ["disk"]);
    assert!(world.list(&CLAIM, there).await.is_empty());

    world
        .create(&DATA_VOLUME, there, disk("copy", &of_snapshot(), "1Gi"))
        .await;
    world.rules.clear(Stage::CLAIM_BOUND);
    world.settle().await;
    assert_eq!(claims(&world).await, ["disk"]);
    let copy = world.get(&CLAIM, there, "copy").await.unwrap();
    let volume = world
        .get(&VOLUME, None, text(&copy, "/spec/volumeName"))
        .await;
    assert_eq!(annotation(&volume.unwrap(), CONTENTS), Some("one"));
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_claim_is_cloned_when_no_pod_uses_it() {
    let world = world("driver.longhorn.io").await;
    let pod = json!({"metadata": {"name": "p"}, "spec": {
        "containers": [{"name": "c", "image": "i"}],
        "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "disk"}}],
    }});
    world.create(&POD, NS, pod).await;
    world.settle().await;
    let source = json!({"pvc": {"namespace": "default", "name": "disk"}});
    world
        .create(&DATA_VOLUME, NS, disk("clone", &source, "1Gi"))
        .await;
    world.settle().await;
    assert_eq!(phase(&world, "clone").await, "CloneScheduled");
    let waiting = world.get(&DATA_VOLUME, NS, "clone").await.unwrap();
    let why = text(&waiting, "/status/conditions/2/message");
    assert_eq!(why, "pod default/p using PersistentVolumeClaim disk");

    world
        .rules
        .add(Rule::hold(Stage::COPY_DONE, Selector::all()));
    world.delete(&POD, NS, "p").await;
    tokio::time::sleep(Duration::from_secs(6)).await;
    world.settle().await;
    // That is said before the data are there.
    assert_eq!(phase(&world, "clone").await, "Succeeded");
    assert_eq!(annotation(&volume(&world, "clone").await, CONTENTS), None);
    world.rules.clear(Stage::COPY_DONE);
    world.settle().await;
    assert_eq!(
        annotation(&volume(&world, "clone").await, CONTENTS),
        Some("one")
    );
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_without_a_size_is_waited_for() {
    let world = world("csi.example.org").await;
    world
        .rules
        .add(Rule::hold(Stage::SNAPSHOT_SIZED, Selector::named("t")));
    let snapshot = json!({"metadata": {"name": "t"}, "spec": {
        "volumeSnapshotClassName": "snap",
        "source": {"persistentVolumeClaimName": "disk"},
    }});
    world.create(&VOLUME_SNAPSHOT, NS, snapshot).await;
    let source = json!({"snapshot": {"namespace": "default", "name": "t"}});
    world
        .create(&DATA_VOLUME, NS, disk("copy", &source, "1Gi"))
        .await;
    world.settle().await;
    let waiting = world.get(&DATA_VOLUME, NS, "copy").await.unwrap();
    let why = text(&waiting, "/status/conditions/2/message");
    assert_eq!(why, "snapshot has no restore size");
    world.rules.clear(Stage::SNAPSHOT_SIZED);
    world.settle().await;
    assert_eq!(phase(&world, "copy").await, "Succeeded");
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn storage_that_waits_for_a_pod_is_filled_for_the_one_that_comes() {
    let world = world("csi.example.org").await;
    let class = json!({"metadata": {"name": "late"}, "provisioner": "csi.example.org",
        "volumeBindingMode": "WaitForFirstConsumer", "allowVolumeExpansion": true});
    world.create(&STORAGE_CLASS, None, class).await;
    let mut late = disk("late", &of_snapshot(), "1Gi");
    late["spec"]["storage"]["storageClassName"] = json!("late");
    let mut at_once = late.clone();
    at_once["metadata"] = json!({"name": "once", "annotations":
        {"cdi.kubevirt.io/storage.bind.immediate.requested": "true"}});
    world.create(&DATA_VOLUME, NS, late).await;
    world.create(&DATA_VOLUME, NS, at_once).await;
    world.settle().await;
    assert_eq!(phase(&world, "late").await, "PendingPopulation");
    assert_eq!(phase(&world, "once").await, "Succeeded");
    let pod = json!({"metadata": {"name": "p"}, "spec": {
        "containers": [{"name": "c", "image": "i"}],
        "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "late"}}],
    }});
    world.create(&POD, NS, pod).await;
    world.settle().await;
    assert_eq!(phase(&world, "late").await, "Succeeded");
    assert_eq!(claims(&world).await, ["disk", "late", "once"]);
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn what_storage_cannot_clone_is_copied() {
    let world = world("csi.example.org").await;
    let class = json!({"metadata": {"name": "other"}, "provisioner": "other.example.org"});
    world.create(&STORAGE_CLASS, None, class).await;
    let mut copy = disk("copy", &of_snapshot(), "2Gi");
    copy["spec"]["storage"]["storageClassName"] = json!("other");
    world.create(&DATA_VOLUME, NS, copy).await;
    world.settle().await;
    assert_eq!(phase(&world, "copy").await, "Succeeded");
    let volume = volume(&world, "copy").await;
    assert_eq!(annotation(&volume, CONTENTS), Some("one"));
    assert_eq!(text(&volume, "/spec/csi/driver"), "other.example.org");
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn nothing_is_left_of_a_claim_that_is_deleted_while_it_is_filled() {
    let world = world("csi.example.org").await;
    world
        .rules
        .add(Rule::hold(Stage::CLAIM_BOUND, Selector::all()));
    world
        .create(&DATA_VOLUME, NS, disk("copy", &of_snapshot(), "1Gi"))
        .await;
    world.settle().await;
    let held = json!({"metadata": {"finalizers": ["cdi.kubevirt.io/clonePopulator", "a.b/c"]}});
    world.merge(&CLAIM, NS, "copy", held).await;
    world.delete(&CLAIM, NS, "copy").await;
    world.settle().await;
    assert_eq!(claims(&world).await, ["copy", "disk"]);
    let released = json!({"metadata": {"finalizers": []}});
    world.merge(&CLAIM, NS, "copy", released).await;
    world.rules.clear(Stage::CLAIM_BOUND);
    world.settle().await;
    // Its disk is made once more.
    assert_eq!(phase(&world, "copy").await, "Succeeded");
    assert_eq!(claims(&world).await, ["copy", "disk"]);
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_of_a_disk_that_has_grown_is_as_large() {
    let world = world("csi.example.org").await;
    let size = json!({"spec": {"resources": {"requests": {"storage": "5Gi"}}}});
    world.merge(&CLAIM, NS, "disk", size).await;
    world.settle().await;
    let snapshot = json!({"metadata": {"name": "t"}, "spec": {
        "volumeSnapshotClassName": "snap",
        "source": {"persistentVolumeClaimName": "disk"},
    }});
    world.create(&VOLUME_SNAPSHOT, NS, snapshot).await;
    world.settle().await;
    let taken = world.get(&VOLUME_SNAPSHOT, NS, "t").await.unwrap();
    assert_eq!(text(&taken, "/status/restoreSize"), "5Gi");
    world.end().await;
}
