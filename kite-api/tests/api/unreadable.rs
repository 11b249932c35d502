//! Objects that cannot be read: they are listed, say so, and can be got rid of.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kite_core::{
    cluster::{Cluster as _, FieldManager, ObjectKey},
    crd::{AccessLevel, KiteImage, KiteUser, KiteVirtualMachine, KiteVirtualMachineOffer},
    names,
};
use kube::{
    Api,
    api::{ApiResource, DynamicObject, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use crate::{
    intake::{VMS, WEB, tell, vm},
    world::World,
};

/// Objects of `K` of which the API server admits anything, as a later version's CRD may.
pub async fn lax<K>(world: &World, namespace: Option<&str>) -> Api<DynamicObject>
where
    K: kube::CustomResourceExt + kube::Resource<DynamicType = ()>,
{
    let mut crd = K::crd();
    for version in &mut crd.spec.versions {
        let lax = json!({"openAPIV3Schema": {
            "type": "object", "x-kubernetes-preserve-unknown-fields": true,
        }});
        version.schema = Some(serde_json::from_value(lax).unwrap());
        version.selectable_fields = None;
    }
    let key = ObjectKey::cluster(crd.metadata.name.clone().unwrap());
    let patch = json!({"spec": {"versions": crd.spec.versions}});
    let manager = FieldManager::new("later");
    let edit = world
        .cluster
        .merge_patch::<CustomResourceDefinition>(manager, &key, &patch);
    edit.await.unwrap();
    let resource = ApiResource::erase::<K>(&());
    match namespace {
        Some(namespace) => Api::namespaced_with(world.fake.client(), namespace, &resource),
        None => Api::all_with(world.fake.client(), &resource),
    }
}

#[tokio::test]
async fn a_vm_that_cannot_be_read_is_listed_stopped_mended_and_deleted() {
    let world = World::new().await;
    let ann = world.user("ann", AccessLevel::User).await;
    assert_eq!(world.post(VMS, &ann, vm("web")).await.status, 201);
    let namespace = names::user_namespace("ann");
    let vms = lax::<KiteVirtualMachine>(&world, Some(&namespace)).await;
    let resource = ApiResource::erase::<KiteVirtualMachine>(&());
    let spec = json!({"cpu": "a few", "memory": "1Gi", "disk": "4Gi", "image": "debian-12",
                      "sshId": "odd-login"});
    let odd = DynamicObject::new("odd", &resource).data(json!({ "spec": spec }));
    vms.create(&PostParams::default(), &odd).await.unwrap();
    // One of which nothing can be read takes none of the others along, and is there, too.
    let hopeless = DynamicObject::new("hopeless", &resource).data(json!({ "spec": "what" }));
    vms.create(&PostParams::default(), &hopeless).await.unwrap();
    world
        .until("it is listed", async || {
            world.get(VMS, &ann).await.names() == ["hopeless", "odd", "web"]
        })
        .await;
    let hopeless = "/api/v1/vms/hopeless";
    let shown = world.get(hopeless, &ann).await;
    assert_eq!(shown.status, 200, "{shown:?}");
    assert!(!shown.text("/unreadable").is_empty(), "{shown:?}");
    let gone = world.delete(hopeless, &ann).await;
    assert_eq!(gone.status, 202, "{gone:?}");
    assert!(vms.get_opt("hopeless").await.unwrap().is_none());
    world
        .until("it is gone", async || {
            world.get(VMS, &ann).await.names() == ["odd", "web"]
        })
        .await;
    let path = "/api/v1/vms/odd";
    let shown = world.get(path, &ann).await;
    assert_eq!(shown.status, 200, "{shown:?}");
    for part in ["spec.cpu", "a few"] {
        assert!(shown.text("/unreadable").contains(part), "{shown:?}");
    }
    assert_eq!(shown.text("/sshId"), "odd-login");
    assert_eq!(world.get(WEB, &ann).await.body.get("unreadable"), None);
    let taken = world.post(VMS, &ann, vm("odd")).await;
    assert_eq!(taken.is_problem(409, "taken").fields(), ["name"]);

    let started = world
        .post(&format!("{path}/start"), &ann, Value::Null)
        .await;
    let detail = started.is_problem(409, "conflict").text("/detail");
    assert!(detail.contains("spec.cpu"), "{detail}");
    let stopped = world.post(&format!("{path}/stop"), &ann, Value::Null).await;
    assert_eq!(stopped.status, 200, "{stopped:?}");
    let stored = vms.get("odd").await.unwrap();
    assert_eq!(stored.data["spec"]["powerState"], "Off");
    assert_eq!(
        stored.data["spec"]["cpu"], "a few",
        "nothing else is touched"
    );

    let mended = world.patch(path, &ann, json!({"cpu": 2})).await;
    assert_eq!(mended.status, 200, "{mended:?}");
    assert_eq!(mended.body.get("unreadable"), None);
    vms.patch(
        "odd",
        &PatchParams::default(),
        &Patch::Merge(json!({"spec": {"cpu": []}})),
    )
    .await
    .unwrap();
    let gone = world.delete(path, &ann).await;
    assert_eq!(gone.status, 202, "{gone:?}");
    assert!(vms.get_opt("odd").await.unwrap().is_none());
}

#[tokio::test]
async fn an_account_that_cannot_be_read_lets_nobody_in_and_is_listed() {
    let world = World::new().await;
    let root = world.user("root", AccessLevel::Admin).await;
    let ann = world.user("ann", AccessLevel::User).await;
    let users = lax::<KiteUser>(&world, None).await;
    let edit = Patch::Merge(json!({"spec": {"quota": {"cpu": "plenty"}}}));
    users
        .patch("ann", &PatchParams::default(), &edit)
        .await
        .unwrap();
    let path = "/api/v1/admin/users/ann";
    world
        .until("it is told", async || {
            world
                .get(path, &root)
                .await
                .body
                .get("unreadable")
                .is_some()
        })
        .await;
    assert!(
        world
            .get("/api/v1/admin/users", &root)
            .await
            .names()
            .contains(&"ann")
    );
    world
        .get("/api/v1/me", &ann)
        .await
        .is_problem(401, "unauthenticated");
    let suspended = world.patch(path, &root, json!({"suspended": true})).await;
    assert_eq!(suspended.status, 200, "{suspended:?}");
    assert_eq!(
        users.get("ann").await.unwrap().data["spec"]["suspended"],
        true
    );
    let gone = world.delete(path, &root).await;
    assert_eq!(gone.status, 202, "{gone:?}");
}

/// What the list at `path` says cannot be read of its only item.
async fn unreadable(world: &World, path: &str, token: &str) -> Option<String> {
    let list = world.get(path, token).await;
    let why = list.body["items"][0]["unreadable"].as_str();
    why.map(str::to_owned)
}

#[tokio::test]
async fn an_image_that_cannot_be_read_is_listed_and_says_so() {
    let world = World::new().await;
    let ann = world.user("ann", AccessLevel::User).await;
    let path = "/api/v1/images";
    assert_eq!(unreadable(&world, path, &ann).await, None);
    let images = lax::<KiteImage>(&world, None).await;
    let edit = Patch::Merge(json!({"spec": {"minDisk": ["much"]}}));
    let params = PatchParams::default();
    images.patch("debian-12", &params, &edit).await.unwrap();
    world
        .until("it is told", async || {
            let told = unreadable(&world, path, &ann).await;
            told.is_some_and(|why| why.contains("spec.minDisk"))
        })
        .await;
    assert_eq!(world.get(path, &ann).await.names(), ["debian-12"]);
}

#[tokio::test]
async fn an_offer_that_cannot_be_read_is_listed_and_deleted() {
    let world = World::new().await;
    let root = world.user("root", AccessLevel::Admin).await;
    let path = "/api/v1/admin/offers";
    let made = world.post(path, &root, vm("gold")).await;
    assert_eq!(made.status, 201, "{made:?}");
    let offers = lax::<KiteVirtualMachineOffer>(&world, None).await;
    let edit = Patch::Merge(json!({"spec": {"cpu": "a few"}}));
    let params = PatchParams::default();
    offers.patch("gold", &params, &edit).await.unwrap();
    world
        .until("it is told", async || {
            let told = unreadable(&world, path, &root).await;
            told.is_some_and(|why| why.contains("spec.cpu"))
        })
        .await;
    assert_eq!(world.get(path, &root).await.names(), ["gold"]);
    let gone = world.delete(&format!("{path}/gold"), &root).await;
    assert_eq!(gone.status, 202, "{gone:?}");
    assert!(offers.get_opt("gold").await.unwrap().is_none());
}

#[tokio::test]
async fn what_has_no_spec_any_more_is_listed_and_deleted() {
    let world = World::new().await;
    let root = world.user("root", AccessLevel::Admin).await;
    let ann = world.user("ann", AccessLevel::User).await;
    assert_eq!(world.post(VMS, &ann, vm("web")).await.status, 201);
    let offers = "/api/v1/admin/offers";
    assert_eq!(world.post(offers, &root, vm("gold")).await.status, 201);
    let namespace = names::user_namespace("ann");
    let vms = lax::<KiteVirtualMachine>(&world, Some(&namespace)).await;
    let images = lax::<KiteImage>(&world, None).await;
    let golds = lax::<KiteVirtualMachineOffer>(&world, None).await;
    let users = lax::<KiteUser>(&world, None).await;
    let params = PatchParams::default();
    let edit = Patch::Merge(json!({"spec": "what"}));
    for (api, name) in [(&vms, "web"), (&images, "debian-12"), (&golds, "gold")] {
        api.patch(name, &params, &edit).await.unwrap();
    }
    for (path, token) in [(VMS, &ann), ("/api/v1/images", &ann), (offers, &root)] {
        world
            .until("it is told", async || {
                let told = unreadable(&world, path, token).await;
                told.is_some_and(|why| why.contains("spec: ") && why.contains("what"))
            })
            .await;
    }
    let gone = world.delete(WEB, &ann).await;
    assert_eq!(gone.status, 202, "{gone:?}");
    assert!(vms.get_opt("web").await.unwrap().is_none());
    let gone = world.delete(&format!("{offers}/gold"), &root).await;
    assert_eq!(gone.status, 202, "{gone:?}");

    users.patch("ann", &params, &edit).await.unwrap();
    let path = "/api/v1/admin/users/ann";
    world
        .until("the account is told of", async || {
            let told = world.get(path, &root).await;
            told.body.get("unreadable").is_some()
        })
        .await;
    world
        .get("/api/v1/me", &ann)
        .await
        .is_problem(401, "unauthenticated");
    let gone = world.delete(path, &root).await;
    assert_eq!(gone.status, 202, "{gone:?}");
}

#[tokio::test]
async fn a_vm_whose_status_cannot_be_read_is_listed_stopped_and_deleted() {
    let world = World::new().await;
    let ann = world.user("ann", AccessLevel::User).await;
    assert_eq!(world.post(VMS, &ann, vm("web")).await.status, 201);
    let namespace = names::user_namespace("ann");
    let vms = lax::<KiteVirtualMachine>(&world, Some(&namespace)).await;
    // Nothing depends on it: the controller writes it anew.
    tell(
        &world,
        "web",
        json!({"phase": "Hibernating", "nodeName": "node-1"}),
    )
    .await;
    let shown = world.get(WEB, &ann).await;
    assert_eq!(shown.text("/status/nodeName"), "node-1", "{shown:?}");
    assert_eq!(shown.body.get("unreadable"), None);

    tell(&world, "web", json!({"disk": "web-disk"})).await;
    assert_eq!(world.get(VMS, &ann).await.names(), ["web"]);
    let shown = world.get(WEB, &ann).await;
    assert!(
        shown.text("/unreadable").contains("status.disk"),
        "{shown:?}"
    );
    let started = world.post(&format!("{WEB}/start"), &ann, Value::Null).await;
    let detail = started.is_problem(409, "conflict").text("/detail");
    assert!(detail.contains("status.disk"), "{detail}");
    let stopped = world.post(&format!("{WEB}/stop"), &ann, Value::Null).await;
    assert_eq!(stopped.status, 200, "{stopped:?}");
    let stored = vms.get("web").await.unwrap();
    assert_eq!(stored.data["spec"]["powerState"], "Off");
    assert_eq!(stored.data["status"]["disk"], "web-disk");
    let gone = world.delete(WEB, &ann).await;
    assert_eq!(gone.status, 202, "{gone:?}");
    assert!(vms.get_opt("web").await.unwrap().is_none());
}
