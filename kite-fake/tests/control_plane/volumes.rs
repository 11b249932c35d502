//! Volumes that stay when their claim goes, and claims that get one that was there.

use std::time::Duration;

use kite_fake::actors::kind::{CLAIM, STORAGE_CLASS, VOLUME};
use kite_fake::actors::storage::CONTENTS;
use kube::api::DynamicObject;
use serde_json::{Value, json};

use crate::world::{World, annotation};

async fn world(provisioner: &str) -> World {
    let world = World::new().await;
    let class = json!({"metadata": {"name": "fast"}, "provisioner": provisioner,
        "reclaimPolicy": "Retain"});
    world.create(&STORAGE_CLASS, class).await;
    world
}

fn claim(name: &str, volume: Option<&str>) -> Value {
    json!({"metadata": {"name": name}, "spec": {
        "storageClassName": "fast",
        "volumeName": volume,
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
    }})
}

fn volume(name: &str, size: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {
        "storageClassName": "fast",
        "accessModes": ["ReadWriteOnce", "ReadOnlyMany"],
        "capacity": {"storage": size},
        "persistentVolumeReclaimPolicy": "Retain",
        "csi": {"driver": "csi.example.org", "volumeHandle": format!("at-{name}")},
    }})
}

async fn phase(world: &World, name: &str) -> String {
    let status = world.status(&VOLUME, name).await;
    status["phase"].as_str().unwrap_or_default().to_owned()
}

async fn bound_to(world: &World, name: &str) -> Option<String> {
    let claim: DynamicObject = world.get(&CLAIM, name).await;
    let volume = claim.data["spec"]["volumeName"].as_str();
    let is_bound = claim.data["status"]["phase"] == "Bound";
    volume.filter(|_| is_bound).map(str::to_owned)
}

#[tokio::test(start_paused = true)]
async fn a_volume_that_is_retained_is_given_to_another_claim() {
    let world = world("csi.example.org").await;
    world.create(&CLAIM, claim("old", None)).await;
    world.settle().await;
    let name = bound_to(&world, "old").await.unwrap();
    let mark = json!({"metadata": {"annotations": {CONTENTS: "one"}}});
    world.merge(&VOLUME, &name, mark).await;
    world.delete(&CLAIM, "old").await;
    world.is_quiet().await;
    assert_eq!(phase(&world, &name).await, "Released");

    // As long as it is another's, nobody gets it.
    world.create(&CLAIM, claim("new", Some(&name))).await;
    tokio::time::sleep(Duration::from_secs(6)).await;
    world.settle().await;
    assert_eq!(bound_to(&world, "new").await, None);
    let cleared = json!({"spec": {"claimRef": null}});
    world.merge(&VOLUME, &name, cleared).await;
    world.settle().await;
    assert_eq!(phase(&world, &name).await, "Available");
    tokio::time::sleep(Duration::from_secs(6)).await;
    world.is_quiet().await;
    assert_eq!(bound_to(&world, "new").await.as_deref(), Some(&*name));
    assert_eq!(phase(&world, &name).await, "Bound");
    let kept = world.get(&VOLUME, &name).await;
    assert_eq!(annotation(&kept, CONTENTS), Some("one"));

    // What is to be deleted with its claim is.
    let policy = json!({"spec": {"persistentVolumeReclaimPolicy": "Delete"}});
    world.merge(&VOLUME, &name, policy).await;
    world.delete(&CLAIM, "new").await;
    world.settle().await;
    assert!(world.find(&VOLUME, &name).await.is_none());
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn one_that_is_kept_for_a_claim_waits_for_it() {
    let world = world("csi.example.org").await;
    let mut kept = volume("kept", "2Gi");
    kept["spec"]["claimRef"] = json!({"namespace": "default", "name": "mine"});
    world.create(&VOLUME, kept).await;
    world.create(&CLAIM, claim("other", None)).await;
    world.settle().await;
    assert_eq!(phase(&world, "kept").await, "Available");
    let others = bound_to(&world, "other").await.unwrap();
    assert_ne!(others, "kept");
    world.create(&CLAIM, claim("mine", None)).await;
    world.is_quiet().await;
    assert_eq!(bound_to(&world, "mine").await.as_deref(), Some("kept"));
    let status = world.status(&CLAIM, "mine").await;
    assert_eq!(status["capacity"]["storage"], "2Gi");
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn where_none_is_made_a_claim_gets_the_smallest_that_is_large_enough() {
    let world = world("kubernetes.io/no-provisioner").await;
    world.create(&CLAIM, claim("c", None)).await;
    world.create(&VOLUME, volume("small", "1Mi")).await;
    tokio::time::sleep(Duration::from_secs(6)).await;
    world.is_quiet().await;
    assert_eq!(bound_to(&world, "c").await, None);
    world.create(&VOLUME, volume("large", "9Gi")).await;
    world.create(&VOLUME, volume("fit", "2Gi")).await;
    tokio::time::sleep(Duration::from_secs(6)).await;
    world.settle().await;
    assert_eq!(bound_to(&world, "c").await.as_deref(), Some("fit"));
    world.end().await;
}
