//! What becomes of volumes when their owner's account is deleted.

use k8s_openapi::api::core::v1::{Namespace, PersistentVolumeClaim};
use kite_core::{
    cluster::{Cluster as _, FieldManager, ObjectKey},
    crd::{KiteReservation, KiteUser, KiteVirtualMachine, KiteVolume, OnAccountDeletion},
};
use kube::ResourceExt;
use serde_json::json;

use super::{ANN, attached, delete, volume, volume_named, world};
use crate::world::World;

#[tokio::test(start_paused = true)]
async fn an_account_takes_its_volumes_along() {
    let world = attached().await;
    let ann = world.find::<KiteUser>("", "ann").await.unwrap();
    world.delete(&ann).await;
    world.settle().await;
    assert!(world.find::<KiteUser>("", "ann").await.is_none());
    assert!(world.all::<KiteVolume>().await.is_empty());
    assert!(world.all::<KiteReservation>().await.iter().all(|it| {
        let name = it.metadata.name.as_deref().unwrap_or_default();
        !name.starts_with("volume.")
    }));
}

fn kept_named(name: &str) -> KiteVolume {
    let mut volume = volume_named(name, "10Gi");
    volume.spec.on_account_deletion = OnAccountDeletion::Keep;
    volume
}

/// What is said of the account.
async fn of_account(world: &World) -> (String, String) {
    let ann = world.find::<KiteUser>("", "ann").await.unwrap();
    let conditions = ann.status.unwrap().conditions;
    let ready = conditions.into_iter().find(|it| it.type_ == "Ready");
    let ready = ready.unwrap();
    (ready.reason, ready.message)
}

#[tokio::test(start_paused = true)]
async fn one_that_is_to_be_kept_outlives_the_account_and_holds_its_names() {
    let world = attached().await;
    world.create(kept_named("kept")).await;
    world.settle().await;
    let claim = world
        .find::<PersistentVolumeClaim>(ANN, "kept-volume")
        .await;
    let ann = world.find::<KiteUser>("", "ann").await.unwrap();
    world.delete(&ann).await;
    world.settle().await;
    let left: Vec<_> = world.all::<KiteVolume>().await;
    let names: Vec<_> = left.iter().map(ResourceExt::name_any).collect();
    assert_eq!(names, ["kept"]);
    let now = world
        .find::<PersistentVolumeClaim>(ANN, "kept-volume")
        .await;
    assert_eq!(now.unwrap().metadata.uid, claim.unwrap().metadata.uid);
    assert!(world.all::<KiteVirtualMachine>().await.is_empty());
    let (reason, message) = of_account(&world).await;
    assert_eq!(reason, "VolumesKept");
    assert!(
        message.starts_with("the volumes kept in kite-user-ann outlive"),
        "{message}"
    );
    let namespace = world.find::<Namespace>("", ANN).await.unwrap();
    assert_eq!(namespace.metadata.deletion_timestamp, None);

    assert_eq!(world.settle().await, Vec::<String>::new(), "it is at rest");
    assert!(!message.contains("waited for"), "{message}");
    delete::<KiteVolume>(&world, "kept").await;
    world.settle().await;
    assert!(world.find::<KiteUser>("", "ann").await.is_none());
    assert!(world.find::<Namespace>("", ANN).await.is_none());
}

#[tokio::test(start_paused = true)]
async fn an_account_goes_once_none_of_its_volumes_is_to_be_kept() {
    let world = world().await;
    world.create(kept_named("kept")).await;
    world.settle().await;
    let ann = world.find::<KiteUser>("", "ann").await.unwrap();
    world.delete(&ann).await;
    world.settle().await;
    assert_eq!(of_account(&world).await.0, "VolumesKept");
    let kept = volume(&world, "kept").await;
    let delete = json!({"spec": {"onAccountDeletion": "Delete"}});
    world.edit(&kept, delete).await;
    world.settle().await;
    assert!(world.find::<KiteUser>("", "ann").await.is_none());
    assert!(world.all::<KiteVolume>().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn one_that_does_not_go_is_named_beside_those_that_are_kept() {
    let world = world().await;
    world.create(kept_named("kept")).await;
    world.settle().await;
    let data = volume(&world, "data").await;
    let held = json!({"metadata": {"finalizers": ["example.org/held"]}});
    world.edit(&data, held).await;
    world.settle().await;
    let ann = world.find::<KiteUser>("", "ann").await.unwrap();
    world.delete(&ann).await;
    world.settle().await;
    let (reason, message) = of_account(&world).await;
    assert_eq!(reason, "VolumesKept");
    assert!(
        message.ends_with("; the volumes data go, and are waited for"),
        "{message}"
    );
}

/// Of a later version, say.
#[test]
fn one_whose_fate_cannot_be_read_is_kept() {
    let stored =
        json!({"metadata": {"name": "data"}, "spec": {"size": "1Gi", "onAccountDeletion": "Sell"}});
    let volume: KiteVolume = serde_json::from_value(stored).unwrap();
    assert!(volume.unreadable().is_some());
    assert!(volume.outlives_account());
}

#[tokio::test(start_paused = true)]
async fn who_keeps_one_at_the_last_moment_keeps_it() {
    let world = world().await;
    let ann = world.find::<KiteUser>("", "ann").await.unwrap();
    let cluster = world.cluster.clone();
    world.meanwhile("delete unchanged KiteVolume", async move {
        let keep = json!({"spec": {"onAccountDeletion": "Keep"}});
        let key = ObjectKey::namespaced(ANN, "data");
        let by = FieldManager::new("somebody");
        let edited = cluster.merge_patch::<KiteVolume>(by, &key, &keep).await;
        edited.unwrap();
    });
    world.delete(&ann).await;
    world.settle().await;
    assert!(!world.meanwhile_is_left());
    assert_eq!(of_account(&world).await.0, "VolumesKept");
    let data = volume(&world, "data").await;
    assert_eq!(data.metadata.deletion_timestamp, None);
}
