//! Volumes over HTTP, and VMs that have them.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kite_core::{
    cluster::Cluster as _,
    crd::{AccessLevel, KiteUser, KiteUserSpec, KiteUserStatus, UserPhase},
    managers::CONTROLLER,
};
use kube::{Api, api::PostParams};
use serde_json::{Value, json};

use crate::{
    data::{VOLUMES, condition, let_go, volume},
    lists::new_vm,
    vms::VMS,
    world::{PASSWORD, World},
};

const DATA: &str = "/api/v1/volumes/data";
const WEB: &str = "/api/v1/vms/web";

#[tokio::test]
async fn a_volume_from_creation_to_deletion() {
    let world = World::new().await;
    let ann = world.user("ann", AccessLevel::User).await;
    let body = json!({"name": "data", "size": "2Gi", "description": "photos"});
    let made = world.post(VOLUMES, &ann, body.clone()).await;
    assert_eq!(made.status, 201, "{made:?}");
    assert_eq!(made.headers["location"], DATA);
    assert_eq!(made.text("/status/phase"), "Pending");
    assert_eq!(world.get(VOLUMES, &ann).await.names(), ["data"]);
    let again = world.post(VOLUMES, &ann, body).await;
    again.is_problem(409, "taken");
    let grown = world.patch(DATA, &ann, json!({"size": "3Gi"})).await;
    assert_eq!(grown.text("/size"), "3Gi");
    assert_eq!(grown.text("/onAccountDeletion"), "Delete");
    let keep = json!({"onAccountDeletion": "Keep"});
    let kept = world.patch(DATA, &ann, keep).await;
    assert_eq!(kept.text("/onAccountDeletion"), "Keep");
    let sell = json!({"onAccountDeletion": "Sell"});
    let sold = world.patch(DATA, &ann, sell).await;
    sold.is_problem(422, "invalid");
    assert!(sold.body.to_string().contains("Delete or Keep"), "{sold:?}");
    let gone = world.delete(DATA, &ann).await;
    assert_eq!(gone.status, 202, "{gone:?}");
    world.get(DATA, &ann).await.is_problem(404, "not-found");
}

/// An API server drops a field that its definitions lack, and says that all was done.
#[tokio::test]
async fn what_an_older_definition_would_drop_is_not_said_to_be_done() {
    let world = World::new().await;
    let ann = world.user("ann", AccessLevel::User).await;
    let plain = json!({"name": "data", "size": "2Gi"});
    let made = world.post(VOLUMES, &ann, plain.clone()).await;
    assert_eq!(made.status, 201, "{made:?}");
    let definitions: Api<CustomResourceDefinition> = Api::all(world.fake.client());
    let name = "kitevolumes.hy3ons.github.io";
    let mut older = definitions.get(name).await.unwrap();
    let schema = older.spec.versions[0].schema.as_mut().unwrap();
    let schema = schema.open_api_v3_schema.as_mut().unwrap();
    let spec = schema.properties.as_mut().unwrap().get_mut("spec").unwrap();
    let fields = spec.properties.as_mut().unwrap();
    fields.remove("onAccountDeletion").unwrap();
    let params = PostParams::default();
    definitions.replace(name, &params, &older).await.unwrap();

    let kept = json!({"name": "kept", "size": "2Gi", "onAccountDeletion": "Keep"});
    let keep = json!({"onAccountDeletion": "Keep"});
    for answer in [
        world.post(VOLUMES, &ann, kept).await,
        world.patch(DATA, &ann, keep).await,
    ] {
        answer.is_problem(500, "internal");
        let told = answer.text("/detail");
        assert!(
            told.contains("spec.onAccountDeletion") && told.contains("kite crds"),
            "{told}"
        );
    }
    assert_eq!(world.get(VOLUMES, &ann).await.names(), ["data"]);
    // What it does not lack is as before.
    let other = json!({"name": "other", "size": "1Gi", "onAccountDeletion": "Delete"});
    assert_eq!(world.post(VOLUMES, &ann, other).await.status, 201);
    let grown = world.patch(DATA, &ann, json!({"size": "3Gi"})).await;
    assert_eq!(grown.text("/size"), "3Gi", "{grown:?}");
}

/// Its VM was taken away without its finalizer, so that nobody says that it let go.
#[tokio::test]
async fn a_vm_that_is_not_there_keeps_no_volume() {
    let world = World::new().await;
    let ann = world.user("ann", AccessLevel::User).await;
    let disk = json!({"name": "data-volume", "claimUid": "c-1", "size": "2Gi"});
    let attached = json!({"vm": "web", "uid": "v-1"});
    let status = json!({"phase": "Attached", "disk": disk, "attachedTo": attached});
    volume(&world, "ann", "data", status).await;
    let gone = world.delete(DATA, &ann).await;
    assert_eq!(gone.status, 202, "{gone:?}");
}

#[tokio::test]
async fn a_volume_never_shrinks_and_says_what_is_wrong() {
    let world = World::new().await;
    let ann = world.user("ann", AccessLevel::User).await;
    let disk = json!({"name": "data-volume", "claimUid": "c-1", "size": "2Gi"});
    volume(
        &world,
        "ann",
        "data",
        json!({"phase": "Available", "disk": disk}),
    )
    .await;
    let shown = world.get(DATA, &ann).await;
    assert_eq!(shown.text("/status/size"), "2Gi");
    let shrunk = world.patch(DATA, &ann, json!({"size": "1Gi"})).await;
    shrunk.is_problem(422, "invalid");
    assert_eq!(shrunk.fields(), ["size"], "{shrunk:?}");
    let wrong = json!({"name": "A.b", "size": "2", "description": "x".repeat(1025)});
    let answer = world.post(VOLUMES, &ann, wrong).await;
    answer.is_problem(422, "invalid");
    let mut fields = answer.fields();
    fields.sort_unstable();
    assert_eq!(fields, ["description", "name", "size"], "{answer:?}");
}

#[tokio::test]
async fn what_the_quota_has_no_room_for_is_told() {
    let world = World::new().await;
    let ann = world.user("ann", AccessLevel::User).await;
    let root = world.user("root", AccessLevel::Admin).await;
    let quota = json!({"vms": 2, "cpu": 4, "memory": "4Gi", "disk": "20Gi", "volumes": 2,
                       "volumeDisk": "6Gi"});
    let set = json!({ "quota": quota });
    let set = world.patch("/api/v1/admin/users/ann", &root, set).await;
    assert_eq!(set.status, 200, "{set:?}");
    let make =
        |name: &str, size: &str| world.post(VOLUMES, &ann, json!({"name": name, "size": size}));
    let answer = make("data", "7Gi").await;
    answer.is_problem(403, "quota-exceeded");
    assert_eq!(answer.fields(), ["size"]);
    assert!(
        answer.body.to_string().contains("at most 6Gi of 6Gi"),
        "{answer:?}"
    );
    assert_eq!(make("data", "4Gi").await.status, 201);
    assert_eq!(make("more", "2Gi").await.status, 201);
    let answer = make("third", "1Gi").await;
    answer.is_problem(403, "quota-exceeded");
    assert!(answer.text("/detail").contains("so many volumes (2)"));
    let answer = world.patch(DATA, &ann, json!({"size": "5Gi"})).await;
    answer.is_problem(403, "quota-exceeded");
    // What does not grow is no matter of the quota.
    let edit = json!({"description": "photos", "size": "4Gi"});
    assert_eq!(world.patch(DATA, &ann, edit).await.status, 200);
}

#[tokio::test]
async fn an_account_without_a_namespace_is_told_so_in_words_for_all_that_it_has() {
    let world = World::new().await;
    let body = json!({"username": "ann", "password": PASSWORD});
    let ann = world.post("/api/v1/auth/sign-up", "", body).await;
    let ann = ann.text("/token");
    let make = || world.post(VOLUMES, ann, json!({"name": "data", "size": "1Gi"}));
    let early = make().await;
    early.is_problem(503, "not-ready");
    let told = "the account's space is being prepared: try again in a few seconds";
    assert_eq!(early.text("/detail"), told);

    let mut failed = KiteUser::new("ann", KiteUserSpec::new("ann"));
    let ready = condition("Ready", false, "NamespaceTaken");
    failed.status = Some(KiteUserStatus {
        phase: Some(UserPhase::Failed),
        conditions: serde_json::from_value(json!([ready])).unwrap(),
        ..KiteUserStatus::default()
    });
    let failed = world.cluster.apply_status(CONTROLLER, &failed).await;
    let users = &world.state.caches().users;
    users.caught_up_with(&failed.unwrap()).await;
    let refused = make().await;
    refused.is_problem(409, "conflict");
    let told = "the account's namespace cannot be used: it is so";
    assert_eq!(refused.text("/detail"), told);
}

#[tokio::test]
async fn a_vm_has_volumes_that_are_there_and_nobody_else_s() {
    let world = World::new().await;
    let ann = world.user("ann", AccessLevel::User).await;
    for name in ["data", "logs"] {
        volume(&world, "ann", name, json!({"phase": "Available"})).await;
    }
    let attached = json!([{"volume": "data", "path": "/srv/data"}]);
    let mut web = new_vm("web");
    web["volumes"] = attached.clone();
    let made = world.post(VMS, &ann, web).await;
    assert_eq!(made.status, 201, "{made:?}");
    assert_eq!(made.body["volumes"], attached);
    let mut db = new_vm("db");
    db["volumes"] = json!([{"volume": "data"}, {"volume": "none"}, {"volume": "logs"}]);
    let answer = world.post(VMS, &ann, db).await;
    answer.is_problem(422, "invalid");
    assert_eq!(answer.fields(), ["volumes[0].volume", "volumes[1].volume"]);
    assert!(
        answer.body.to_string().contains("the VM \\\"web\\\""),
        "{answer:?}"
    );

    let edit = |volumes: Value| world.patch(WEB, &ann, json!({ "volumes": volumes }));
    for (wrong, field) in [
        (
            json!([{"volume": "logs", "path": "/etc"}]),
            "volumes[0].path",
        ),
        (
            json!([{"volume": "logs", "path": "srv"}]),
            "volumes[0].path",
        ),
        (
            json!([{"volume": "logs", "paht": "/srv"}]),
            "volumes[0].paht",
        ),
        (json!([{"path": "/srv"}]), "volumes[0].volume"),
        (
            json!([{"volume": "logs"}, {"volume": "logs"}]),
            "volumes[1]",
        ),
        (json!("logs"), "volumes"),
    ] {
        let answer = edit(wrong).await;
        answer.is_problem(422, "invalid");
        assert_eq!(answer.fields(), [field], "{answer:?}");
    }
    let both = edit(json!([{"volume": "data", "path": "/srv/data"}, {"volume": "logs"}])).await;
    assert_eq!(both.status, 200, "{both:?}");

    // What a VM is to have is not deleted behind its back.
    let refused = world.delete(DATA, &ann).await;
    refused.is_problem(409, "conflict");
    assert!(refused.text("/detail").contains("\"web\""), "{refused:?}");
    let none = edit(Value::Null).await;
    assert_eq!(none.body["volumes"], json!([]), "{none:?}");
    assert_eq!(world.delete(DATA, &ann).await.status, 202);
}

#[tokio::test]
async fn a_volume_that_a_guest_still_has_stays() {
    let world = World::new().await;
    let ann = world.user("ann", AccessLevel::User).await;
    let made = world.post(VMS, &ann, new_vm("web")).await;
    assert_eq!(made.status, 201, "{made:?}");
    let status = json!({"phase": "Attached", "attachedTo": {"vm": "web", "uid": "u-1"}});
    volume(&world, "ann", "data", status).await;
    let refused = world.delete(DATA, &ann).await;
    refused.is_problem(409, "conflict");
    assert!(
        refused.text("/detail").contains("still has it"),
        "{refused:?}"
    );
    assert_eq!(
        world.get(DATA, &ann).await.text("/status/attachedTo/vm"),
        "web"
    );
    let found = world.get(&format!("{VOLUMES}?search=web"), &ann).await;
    assert_eq!(found.names(), ["data"]);
}

#[tokio::test]
async fn others_volumes_are_for_those_who_look_after_them() {
    let world = World::new().await;
    world.user("ann", AccessLevel::User).await;
    volume(&world, "ann", "data", json!({"phase": "Available"})).await;
    let bob = world.user("bob", AccessLevel::User).await;
    let sam = world.user("sam", AccessLevel::Manager).await;
    let of_ann = format!("{DATA}?owner=ann");
    world.get(&of_ann, &bob).await.is_problem(403, "forbidden");
    world
        .delete(&of_ann, &bob)
        .await
        .is_problem(403, "forbidden");
    assert_eq!(world.get(&of_ann, &sam).await.text("/owner"), "ann");
    let all = world
        .get(&format!("{VOLUMES}?all=true&phase=Available"), &sam)
        .await;
    assert_eq!(all.names(), ["data"]);
    // Not another's, though it is called so.
    let mut vm = new_vm("web");
    vm["volumes"] = json!([{"volume": "data"}]);
    let answer = world.post(VMS, &bob, vm).await;
    assert_eq!(answer.fields(), ["volumes[0].volume"], "{answer:?}");
    assert_eq!(world.delete(&of_ann, &sam).await.status, 202);
}

#[tokio::test]
async fn a_vm_gets_no_volume_that_goes_and_one_that_goes_keeps_none() {
    let world = World::new().await;
    let ann = world.user("ann", AccessLevel::User).await;
    let available = || json!({"phase": "Available"});
    for name in ["data", "old"] {
        volume(&world, "ann", name, available()).await;
    }
    volume(&world, "ann", "lost", json!({"phase": "Lost"})).await;
    let mut web = new_vm("web");
    web["volumes"] = json!([{"volume": "data"}]);
    assert_eq!(world.post(VMS, &ann, web).await.status, 201);
    let web = world.vm("ann", "web").await.unwrap();
    let web = let_go(&world, &web).await;
    world.state.caches().vms.caught_up_with(&web).await;
    let old = volume(&world, "ann", "going", available()).await;
    let old = let_go(&world, &old).await;
    world.state.caches().volumes.caught_up_with(&old).await;

    let mut db = new_vm("db");
    db["volumes"] = json!([{"volume": "data"}, {"volume": "going"}, {"volume": "lost"}]);
    let answer = world.post(VMS, &ann, db.clone()).await;
    answer.is_problem(422, "invalid");
    assert_eq!(answer.fields(), ["volumes[1].volume", "volumes[2].volume"]);
    // The VM that goes has given its volume back, and cannot be edited any more.
    db["volumes"] = json!([{"volume": "data"}]);
    let made = world.post(VMS, &ann, db).await;
    assert_eq!(made.status, 201, "{made:?}");
}
