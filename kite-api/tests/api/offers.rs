//! Offers over HTTP, and how long VMs last.

use std::time::Duration;

use http::Method;
use jiff::Timestamp;
use kite_core::{
    cluster::{Cluster as _, ClusterExt as _, ObjectKey},
    crd::{
        AccessLevel, IdleStatus, KiteImage, KiteVirtualMachine, KiteVirtualMachineOffer,
        KiteVirtualMachineOfferStatus, KiteVirtualMachineStatus, OfferPhase,
    },
};
use kube::api::PropagationPolicy;
use serde_json::{Value, json};

use crate::world::{World, request, send};

const OFFERS: &str = "/api/v1/offers";
const ADMIN: &str = "/api/v1/admin/offers";
const CLAIM: &str = "/api/v1/offers/gold/claim";

fn gold() -> Value {
    json!({"name": "gold", "cpu": 2, "memory": "2Gi", "disk": "10Gi", "image": "debian-12"})
}

#[tokio::test]
async fn an_offer_from_an_administrator_to_a_vm() {
    let world = World::new().await;
    let root = world.user("root", AccessLevel::Admin).await;
    let ann = world.user("ann", AccessLevel::User).await;
    let mut offer = gold();
    offer["lifetime"] = json!("24h");
    let made = world.post(ADMIN, &root, offer).await;
    assert_eq!(made.status, 201, "{made:?}");
    assert_eq!(world.get(OFFERS, &ann).await.names(), ["gold"]);

    // Nobody claims more than was offered.
    let greedy = json!({"name": "web", "cpu": 64, "expiresAt": "2100-01-01T00:00:00Z"});
    let answer = world.post(CLAIM, &ann, greedy).await;
    answer.is_problem(422, "invalid");
    assert_eq!(answer.fields(), ["cpu", "expiresAt"]);

    let claim = json!({"name": "web", "idleTimeout": "2h"});
    let made = world.post(CLAIM, &ann, claim).await;
    assert_eq!(made.status, 201, "{made:?}");
    assert_eq!(made.text("/offer"), "gold");
    assert_eq!(made.body["cpu"], 2);
    let vm = world.vm("ann", "web").await.unwrap();
    assert_eq!(vm.spec.offer.as_deref(), Some("gold"));
    let end = vm.spec.expires_at.unwrap().0;
    let lasts = end.duration_since(vm.metadata.creation_timestamp.unwrap().0);
    assert!((86_390..=86_410).contains(&lasts.as_secs()), "{lasts}");

    let gone = world.delete("/api/v1/admin/offers/gold", &root).await;
    assert_eq!(gone.status, 202);
    assert!(world.get(ADMIN, &root).await.names().is_empty());
    assert!(world.vm("ann", "web").await.is_some());
}

#[tokio::test]
async fn an_offer_is_seen_by_whom_it_is_for_while_it_can_be_claimed() {
    let world = World::new().await;
    let root = world.user("root", AccessLevel::Admin).await;
    let ann = world.user("ann", AccessLevel::User).await;
    let bob = world.user("bob", AccessLevel::User).await;
    let mut offer = gold();
    offer["user"] = json!("bob");
    world.post(ADMIN, &root, offer).await;
    assert!(world.get(OFFERS, &ann).await.names().is_empty());
    let answer = world.post(CLAIM, &ann, json!({"name": "web"})).await;
    answer.is_problem(404, "not-found");
    assert_eq!(world.get(OFFERS, &bob).await.names(), ["gold"]);
    // Users neither make nor remove offers, nor see who has them.
    for answer in [
        world.get(ADMIN, &bob).await,
        world.post(ADMIN, &bob, gold()).await,
        world.delete("/api/v1/admin/offers/gold", &bob).await,
    ] {
        answer.is_problem(403, "forbidden");
    }

    let key = ObjectKey::cluster("gold");
    let mut offer: KiteVirtualMachineOffer = world.cluster.get(&key).await.unwrap();
    offer.metadata.managed_fields = None;
    offer.status = Some(KiteVirtualMachineOfferStatus {
        phase: Some(OfferPhase::Claimed),
        ..KiteVirtualMachineOfferStatus::default()
    });
    let manager = kite_core::managers::CONTROLLER;
    let claimed = world.cluster.apply_status(manager, &offer).await.unwrap();
    world.state.caches().offers.caught_up_with(&claimed).await;
    assert!(world.get(OFFERS, &bob).await.names().is_empty());
    let answer = world.post(CLAIM, &bob, json!({"name": "web"})).await;
    answer.is_problem(409, "taken");
    assert!(
        answer.text("/detail").contains("somebody else"),
        "{answer:?}"
    );
    assert_eq!(world.get(ADMIN, &root).await.names(), ["gold"]);

    // Who has it already is told that, and not of somebody else.
    let claim = json!({
        "namespace": "kite-user-bob", "name": "mine", "uid": "u-1", "user": "bob",
        "fulfilled": true,
    });
    offer.metadata.resource_version = None;
    offer.status = Some(KiteVirtualMachineOfferStatus {
        phase: Some(OfferPhase::Claimed),
        claimed_by: Some(serde_json::from_value(claim).unwrap()),
        ..KiteVirtualMachineOfferStatus::default()
    });
    let manager = kite_core::managers::CONTROLLER;
    let claimed = world.cluster.apply_status(manager, &offer).await.unwrap();
    world.state.caches().offers.caught_up_with(&claimed).await;
    let answer = world.post(CLAIM, &bob, json!({"name": "web"})).await;
    answer.is_problem(409, "taken");
    assert!(
        answer
            .text("/detail")
            .contains("you have claimed it yourself"),
        "{answer:?}"
    );
}

#[tokio::test]
async fn an_offer_that_cannot_be_is_refused() {
    let world = World::new().await;
    let root = world.user("root", AccessLevel::Admin).await;
    let mut offer = gold();
    offer["image"] = json!("plan-9");
    offer["user"] = json!("nobody");
    offer["lifetime"] = json!("long");
    offer["expiresAt"] = json!("2001-01-01T00:00:00Z");
    offer["cpu"] = json!(0);
    let answer = world.post(ADMIN, &root, offer).await;
    answer.is_problem(422, "invalid");
    let fields = ["expiresAt", "lifetime", "image", "user", "cpu"];
    assert_eq!(answer.fields(), fields);
    let mut over = gold();
    over["expiresAt"] = json!("2001-01-01T00:00:00Z");
    let answer = world.post(ADMIN, &root, over).await;
    assert_eq!(answer.is_problem(422, "invalid").fields(), ["expiresAt"]);
    world.post(ADMIN, &root, gold()).await;
    let again = world.post(ADMIN, &root, gold()).await;
    again.is_problem(409, "taken");
}

#[tokio::test]
async fn how_long_a_vm_lasts_is_edited_like_the_rest() {
    let world = World::new().await;
    let ann = world.user("ann", AccessLevel::User).await;
    let mut web = gold();
    web["name"] = json!("web");
    web["expiresAt"] = json!("2100-01-01T00:00:00Z");
    let made = world.post("/api/v1/vms", &ann, web).await;
    assert_eq!(made.text("/expiresAt"), "2100-01-01T00:00:00Z");
    let path = "/api/v1/vms/web";
    let edit = json!({"expiresAt": null, "idleTimeout": "90m"});
    let edited = world.patch(path, &ann, edit).await;
    assert_eq!(edited.status, 200, "{edited:?}");
    let vm = world.vm("ann", "web").await.unwrap();
    assert_eq!(vm.spec.expires_at, None);
    assert_eq!(vm.spec.idle_timeout, Some("90m".parse().unwrap()));
    let answer = world.patch(path, &ann, json!({"idleTimeout": "1m"})).await;
    answer.is_problem(422, "invalid");
}

#[tokio::test]
async fn starting_a_vm_that_was_stopped_because_it_was_idle_is_an_edit() {
    let world = World::new().await;
    let ann = world.user("ann", AccessLevel::User).await;
    let mut web = gold();
    web["name"] = json!("web");
    world.post("/api/v1/vms", &ann, web).await;
    let vm = world.vm("ann", "web").await.unwrap();
    let mut idle = KiteVirtualMachine::new("web", vm.spec.clone());
    idle.metadata.namespace.clone_from(&vm.metadata.namespace);
    idle.status = Some(KiteVirtualMachineStatus {
        idle: Some(IdleStatus {
            since: vm.metadata.creation_timestamp.clone().unwrap(),
            generation: vm.metadata.generation.unwrap(),
        }),
        ..KiteVirtualMachineStatus::default()
    });
    let manager = kite_core::managers::CONTROLLER;
    let idle = world.cluster.apply_status(manager, &idle).await.unwrap();
    world.state.caches().vms.caught_up_with(&idle).await;

    let path = "/api/v1/vms/web/start";
    let started = world.post(path, &ann, Value::Null).await;
    assert_eq!(started.status, 200, "{started:?}");
    let after = world.vm("ann", "web").await.unwrap();
    assert!(after.metadata.generation > vm.metadata.generation);
}

#[tokio::test]
async fn what_stands_in_the_way_of_a_claim_is_not_its_bodys_to_mend() {
    let world = World::new().await;
    let root = world.user("root", AccessLevel::Admin).await;
    let ann = world.user("ann", AccessLevel::User).await;
    let mut large = gold();
    large["cpu"] = json!(200);
    assert_eq!(world.post(ADMIN, &root, large).await.status, 201);
    let refused = world.post(CLAIM, &ann, json!({"name": "web"})).await;
    refused.is_problem(403, "quota-exceeded");
    assert!(refused.fields().is_empty(), "{refused:?}");
    let detail = refused.text("/detail");
    assert!(detail.contains("CPUs (quota"), "{detail}");
    assert!(detail.contains("claim a smaller offer"), "{detail}");

    let image = ObjectKey::cluster("debian-12");
    let image: KiteImage = world.cluster.get(&image).await.unwrap();
    let background = PropagationPolicy::Background;
    world
        .cluster
        .delete_by_uid(&image, background)
        .await
        .unwrap();
    let images = &world.state.caches().images;
    images.caught_up_with_deletion(&image).await;
    let refused = world.post(CLAIM, &ann, json!({"name": "web"})).await;
    refused.is_problem(409, "conflict");
    assert!(refused.fields().is_empty(), "{refused:?}");
    let detail = refused.text("/detail");
    assert!(detail.contains("\"debian-12\""), "{detail}");
    assert!(world.vm("ann", "web").await.is_none());
}

#[tokio::test]
async fn asking_again_is_answered_though_what_was_asked_for_is_over() {
    let world = World::new().await;
    let root = world.user("root", AccessLevel::Admin).await;
    // Both have been made by then, however busy the machine is.
    let soon = Timestamp::now() + Duration::from_secs(10);
    let mut offer = gold();
    offer["expiresAt"] = json!(soon.to_string());
    let vm = json!({"name": "web", "cpu": 1, "memory": "1Gi", "disk": "10Gi",
                    "image": "debian-12", "sshPassword": "correct horse battery",
                    "expiresAt": soon.to_string()});
    let ask = async |path: &str, key: &str, body: &Value| {
        let mut asked = request(Method::POST, path, &root, Some(body.clone()));
        asked
            .headers_mut()
            .insert("idempotency-key", key.parse().unwrap());
        send(&world.router, asked).await
    };
    for (path, body) in [(ADMIN, &offer), ("/api/v1/vms", &vm)] {
        let made = ask(path, "one", body).await;
        assert_eq!(made.status, 201, "{made:?}");
        assert!(!made.headers.contains_key("idempotency-replayed"));
    }
    world
        .until("both are over", async || Timestamp::now() > soon)
        .await;
    for (path, body) in [(ADMIN, &offer), ("/api/v1/vms", &vm)] {
        let again = ask(path, "one", body).await;
        assert_eq!(again.status, 201, "{again:?}");
        assert_eq!(again.headers["idempotency-replayed"], "true");
        // Whoever asks for the first time is told what is wrong.
        let refused = ask(path, "two", body).await;
        refused.is_problem(422, "invalid");
        assert!(refused.fields().contains(&"expiresAt"), "{refused:?}");
        // And so is who asks for something else by the same key.
        let mut other = body.clone();
        other["cpu"] = json!(3);
        let refused = ask(path, "one", &other).await;
        refused.is_problem(422, "invalid");
    }
}
