//! Whatever somebody does to an object of a VM is undone.

use k8s_openapi::api::{
    core::v1::{Secret, Service},
    networking::v1::Ingress,
};
use kite_core::{cdi::DataVolume, cluster::Object, kubevirt::VirtualMachine};
use serde_json::{Value, json};

use crate::world::{World, vm_named};

const ANN: &str = "kite-user-ann";

async fn world() -> World {
    let mut world = World::with_ann().await;
    let mut vm = vm_named("web");
    vm.spec.domain_prefix = Some("shop".to_owned());
    world.create(vm).await;
    world.settle().await;
    world.only_vms = true;
    world
}

/// What there is to an object beside what each write changes.
fn content<K: Object>(object: &K) -> Value {
    let mut json = serde_json::to_value(object).unwrap();
    for field in [
        "managedFields",
        "resourceVersion",
        "generation",
        "uid",
        "creationTimestamp",
    ] {
        json["metadata"].as_object_mut().unwrap().remove(field);
    }
    json.as_object_mut().unwrap().remove("status");
    json
}

/// Does `change` to the object and expects that it is as it was, by one write.
async fn undone<K: Object>(world: &World, name: &str, change: Value) {
    let before = world.find::<K>(ANN, name).await.unwrap();
    world.edit(&before, change.clone()).await;
    let written = world.settle().await;
    let after = world.find::<K>(ANN, name).await.unwrap();
    assert_eq!(content(&after), content(&before), "{name} {change}");
    let kind = K::kind(&());
    let of_it = written
        .iter()
        .filter(|line| line.contains(&format!(" {kind} ")));
    assert_eq!(of_it.count(), 1, "{name} {change}: {written:#?}");
}

async fn labels_are_put_back<K: Object>(world: &World, name: &str) {
    let gone = json!({"metadata": {"labels": {
        "hy3ons.github.io/managed-by": null, "hy3ons.github.io/kite-vm-name": null,
    }}});
    undone::<K>(world, name, gone).await;
}

async fn is_made_again<K: Object>(world: &World, name: &str) {
    let before = world.find::<K>(ANN, name).await.unwrap();
    world.delete(&before).await;
    world.settle().await;
    let after = world.find::<K>(ANN, name).await.unwrap();
    assert_eq!(content(&after), content(&before), "{name}");
}

#[tokio::test(start_paused = true)]
async fn labels_that_were_taken_off_are_put_back() {
    let world = world().await;
    labels_are_put_back::<Secret>(&world, "web-ssh-key").await;
    labels_are_put_back::<Secret>(&world, "web-cloud-init-userdata").await;
    labels_are_put_back::<DataVolume>(&world, "web-disk").await;
    labels_are_put_back::<VirtualMachine>(&world, "web").await;
    labels_are_put_back::<Service>(&world, "vps-access-web").await;
    labels_are_put_back::<Service>(&world, "vps-web-web").await;
    labels_are_put_back::<Ingress>(&world, "web").await;
}

#[tokio::test(start_paused = true)]
async fn owners_that_were_taken_off_are_put_back() {
    let world = world().await;
    let gone = json!({"metadata": {"ownerReferences": null}});
    undone::<Secret>(&world, "web-ssh-key", gone.clone()).await;
    undone::<Secret>(&world, "web-cloud-init-userdata", gone.clone()).await;
    undone::<DataVolume>(&world, "web-disk", gone.clone()).await;
    undone::<VirtualMachine>(&world, "web", gone.clone()).await;
    undone::<Service>(&world, "vps-access-web", gone.clone()).await;
    undone::<Ingress>(&world, "web", gone).await;
}

#[tokio::test(start_paused = true)]
async fn contents_that_were_changed_are_changed_back() {
    let world = world().await;
    let data = json!({"data": {"userdata": "bm8="}});
    undone::<Secret>(&world, "web-cloud-init-userdata", data).await;
    let selector = json!({"spec": {"selector": {"vm.kubevirt.io/name": "other"}}});
    undone::<Service>(&world, "vps-access-web", selector.clone()).await;
    undone::<Service>(&world, "vps-web-web", selector).await;
    let more = json!({"spec": {"selector": {"and": "more"}}});
    undone::<Service>(&world, "vps-access-web", more).await;
    undone::<Ingress>(&world, "web", json!({"spec": {"tls": null}})).await;
    let disk = json!({"spec": {"template": {"spec": {"volumes": []}}}});
    undone::<VirtualMachine>(&world, "web", disk).await;
    undone::<VirtualMachine>(&world, "web", json!({"spec": {"runStrategy": "Halted"}})).await;
}

#[tokio::test(start_paused = true)]
async fn what_was_deleted_is_made_again() {
    let world = world().await;
    is_made_again::<Secret>(&world, "web-cloud-init-userdata").await;
    is_made_again::<Service>(&world, "vps-access-web").await;
    is_made_again::<Service>(&world, "vps-web-web").await;
    is_made_again::<Ingress>(&world, "web").await;
    let disk = world.find::<DataVolume>(ANN, "web-disk").await.unwrap();
    is_made_again::<VirtualMachine>(&world, "web").await;
    let after = world.find::<DataVolume>(ANN, "web-disk").await.unwrap();
    assert_eq!(
        after.metadata.uid, disk.metadata.uid,
        "the disk outlives its machine"
    );
}
