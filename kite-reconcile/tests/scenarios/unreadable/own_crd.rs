//! The same where the API server has the CRDs of this version again, as after
//! `kite install --allow-downgrade`: what is stored does not fit them.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kite_core::{
    cdi::DataVolume,
    cluster::{Cluster as _, FieldManager, KubeCluster, ObjectKey},
    crd::{self, KiteImage, KitePlatform, KiteUser, KiteVirtualMachine, KiteVirtualMachineOffer},
};
use kube::{
    CustomResourceExt,
    api::{ApiResource, DeleteParams, DynamicObject, PostParams},
};
use serde_json::json;

use super::{ANN, as_a_whole::tell, change, raw, raw_vms, run_strategy, says, suspend};
use crate::world::{World, vm_named};

/// Puts the CRD of this version back in its place.
async fn put_back<K: CustomResourceExt>(cluster: &KubeCluster) {
    let mut all = crd::all().into_iter();
    let own = all.find(|it| it.metadata.name.as_deref() == Some(K::crd_name()));
    let patch = json!({"spec": {"versions": own.unwrap().spec.versions}});
    let (key, earlier) = (
        ObjectKey::cluster(K::crd_name()),
        FieldManager::new("earlier"),
    );
    let edit = cluster.merge_patch::<CustomResourceDefinition>(earlier, &key, &patch);
    edit.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_status_that_does_not_fit_is_written_anew() {
    let world = World::with_ann().await;
    world.create(vm_named("web")).await;
    world.settle().await;
    let before = world.vm("web").await.status.unwrap();
    assert!(before.node_name.is_some());
    let types = |status: &crd::KiteVirtualMachineStatus| -> Vec<String> {
        let all = status.conditions.iter();
        all.map(|it| it.type_.clone()).collect()
    };
    for odd in [
        json!({"nodeName": 5}),
        json!({"conditions": {"Ready": true}}),
        json!({"access": "web", "phase": {"is": "Hibernating"}}),
    ] {
        let vms = raw_vms(&world.cluster).await;
        tell(&vms, "web", odd.clone()).await;
        put_back::<KiteVirtualMachine>(&world.cluster).await;
        world.settle().await;
        let after = world.vm("web").await.status.unwrap();
        assert_eq!(after.unreadable, None, "{odd}");
        assert_eq!(types(&after), types(&before), "{odd}");
        assert_eq!(
            (after.node_name, after.access, after.phase, after.disk),
            (
                before.node_name.clone(),
                before.access.clone(),
                before.phase,
                before.disk.clone()
            ),
            "{odd}"
        );
    }

    // What is told no more goes, though nobody knows any more whose it was.
    suspend(&world, true).await;
    let vms = raw_vms(&world.cluster).await;
    let stored = vms.get("web").await.unwrap().data["status"].clone();
    assert_eq!(stored.get("nodeName"), None, "{stored}");
    assert_eq!(run_strategy(&world, "web").await, "Halted");
}

#[tokio::test(start_paused = true)]
async fn what_is_kept_of_a_status_does_not_stop_what_is_told() {
    for (field, odd) in [
        ("disk", json!({"disk": "web-disk"})),
        (
            "disk",
            json!({"disk": "web-disk", "nodeName": 5, "conditions": {}}),
        ),
        ("granted", json!({"granted": {"cpu": "a few"}})),
    ] {
        let world = World::with_ann().await;
        world.create(vm_named("web")).await;
        world.settle().await;
        let vms = raw_vms(&world.cluster).await;
        let sound = vms.get("web").await.unwrap().data["status"].clone();
        tell(&vms, "web", odd.clone()).await;
        put_back::<KiteVirtualMachine>(&world.cluster).await;
        world.settle().await;
        let kept = &odd[field];
        assert_eq!(says(&world.vm("web").await).0, "Unreadable", "{odd}");
        let stored = vms.get("web").await.unwrap().data["status"].clone();
        assert_eq!(&stored[field]["cpu"], &kept["cpu"], "{stored}");
        assert_eq!(stored[field].is_string(), kept.is_string(), "{stored}");
        // What stood in its place nobody could read, and of this VM nothing new is told.
        let is_kept = odd.get("nodeName").is_none();
        assert_eq!(
            stored.get("nodeName"),
            sound.get("nodeName").filter(|_| is_kept),
            "{odd}"
        );

        suspend(&world, true).await;
        assert_eq!(run_strategy(&world, "web").await, "Halted", "{odd}");
        suspend(&world, false).await;
        tell(&vms, "web", json!({ field: sound[field] })).await;
        world.settle().await;
        assert_ne!(says(&world.vm("web").await).0, "Unreadable", "{odd}");

        vms.delete("web", &DeleteParams::default()).await.unwrap();
        world.settle().await;
        assert!(vms.get_opt("web").await.unwrap().is_none(), "{odd}");
        assert_eq!(world.find::<DataVolume>(ANN, "web-disk").await, None);
    }
}

#[tokio::test(start_paused = true)]
async fn a_spec_that_does_not_fit_does_not_stop_what_is_told() {
    let world = World::with_ann().await;
    world.create(vm_named("web")).await;
    world.settle().await;
    let vms = raw_vms(&world.cluster).await;
    change(&vms, "web", json!({"cpu": "a few"})).await;
    put_back::<KiteVirtualMachine>(&world.cluster).await;
    world.settle().await;
    let (reason, message) = says(&world.vm("web").await);
    assert_eq!(reason, "Unreadable", "{message}");
    suspend(&world, true).await;
    assert_eq!(run_strategy(&world, "web").await, "Halted");
    assert!(says(&world.vm("web").await).1.contains("suspended"));

    change(&vms, "web", json!({"cpu": 1})).await;
    suspend(&world, false).await;
    assert_ne!(says(&world.vm("web").await).0, "Unreadable");
    vms.delete("web", &DeleteParams::default()).await.unwrap();
    world.settle().await;
    assert!(vms.get_opt("web").await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn users_images_offers_and_the_platform_tell_all_that_they_told() {
    let world = World::with_ann().await;
    let offers = raw::<KiteVirtualMachineOffer>(&world.cluster).await;
    let resource = ApiResource::erase::<KiteVirtualMachineOffer>(&());
    let plain = vm_named("web").spec;
    let spec = json!({
        "cpu": plain.cpu, "memory": plain.memory, "disk": plain.disk, "image": plain.image,
    });
    let gold = DynamicObject::new("gold", &resource).data(json!({ "spec": spec }));
    offers.create(&PostParams::default(), &gold).await.unwrap();
    world.settle().await;
    let users = raw::<KiteUser>(&world.cluster).await;
    let images = raw::<KiteImage>(&world.cluster).await;
    let platforms = raw::<KitePlatform>(&world.cluster).await;
    let odd = json!({"conditions": {"Ready": true}, "phase": 5});
    let all = [
        (&users, "ann"),
        (&images, "debian-12"),
        (&platforms, "default"),
        (&offers, "gold"),
    ];
    for (api, name) in all {
        tell(api, name, odd.clone()).await;
    }
    put_back::<KiteUser>(&world.cluster).await;
    put_back::<KiteImage>(&world.cluster).await;
    put_back::<KitePlatform>(&world.cluster).await;
    put_back::<KiteVirtualMachineOffer>(&world.cluster).await;
    world.settle().await;
    for (api, name) in all {
        let status = api.get(name).await.unwrap().data["status"].clone();
        let conditions = status["conditions"].as_array();
        assert!(conditions.is_some_and(|it| !it.is_empty()), "{name}");
        assert_ne!(status["phase"], 5, "{name}");
    }
}
