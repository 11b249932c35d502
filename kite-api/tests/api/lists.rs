//! Pages, edits on a condition, and creations that are asked for twice.

use http::{Method, header};
use kite_core::{
    cluster::{Cluster as _, ObjectKey},
    crd::{AccessLevel, KiteVirtualMachine, KiteVirtualMachineStatus, VmPhase},
    names,
};
use serde_json::{Value, json};

use crate::world::{Answer, World, request, send};

pub(crate) fn new_vm(name: &str) -> Value {
    json!({"name": name, "cpu": 1, "memory": "1Gi", "disk": "4Gi", "image": "debian-12",
           "sshId": format!("{name}-id")})
}

/// Asks with one more header.
async fn ask(
    world: &World,
    method: Method,
    path: &str,
    token: &str,
    header: (&'static str, &str),
    body: Value,
) -> Answer {
    let mut asked = request(method, path, token, Some(body));
    asked
        .headers_mut()
        .insert(header.0, header.1.parse().unwrap());
    send(&world.router, asked).await
}

#[tokio::test]
async fn pages_show_everything_once_though_others_come_and_go() {
    let world = World::new().await;
    let ann = world.user("ann", AccessLevel::User).await;
    for name in ["a", "b", "c", "d", "e"] {
        assert_eq!(
            world.post("/api/v1/vms", &ann, new_vm(name)).await.status,
            201
        );
    }
    let first = world.get("/api/v1/vms?limit=2", &ann).await;
    assert_eq!(first.names(), ["a", "b"]);
    assert_eq!(first.body["total"], 5);
    // What is before the place where one is may go without moving it.
    world.delete("/api/v1/vms/a", &ann).await;
    world
        .until("a is gone", async || {
            world.get("/api/v1/vms", &ann).await.body["total"] == 4
        })
        .await;
    let next = first.text("/next");
    let second = world
        .get(&format!("/api/v1/vms?limit=2&after={next}"), &ann)
        .await;
    assert_eq!(second.names(), ["c", "d"]);
    let next = second.text("/next");
    let third = world
        .get(&format!("/api/v1/vms?limit=2&after={next}"), &ann)
        .await;
    assert_eq!(third.names(), ["e"]);
    assert!(third.body.get("next").is_none(), "{third:?}");
}

#[tokio::test]
async fn lists_are_searched_and_filtered() {
    let world = World::new().await;
    let ann = world.user("ann", AccessLevel::User).await;
    for name in ["web", "db", "web-2"] {
        assert_eq!(
            world.post("/api/v1/vms", &ann, new_vm(name)).await.status,
            201
        );
    }
    assert_eq!(
        world.get("/api/v1/vms?search=WEB", &ann).await.names(),
        ["web", "web-2"]
    );
    assert_eq!(
        world.get("/api/v1/vms?search=db-id", &ann).await.names(),
        ["db"]
    );
    let key = ObjectKey::namespaced(names::user_namespace("ann"), "db");
    let mut vm: KiteVirtualMachine = world.cluster.get(&key).await.unwrap();
    vm.metadata.managed_fields = None;
    vm.metadata.resource_version = None;
    vm.status = Some(KiteVirtualMachineStatus {
        phase: Some(VmPhase::Running),
        ..KiteVirtualMachineStatus::default()
    });
    let seen = world
        .cluster
        .apply_status(kite_core::managers::CONTROLLER, &vm)
        .await
        .unwrap();
    world.state.caches().vms.caught_up_with(&seen).await;
    assert_eq!(
        world.get("/api/v1/vms?phase=Running", &ann).await.names(),
        ["db"]
    );
    let pending = world.get("/api/v1/vms?phase=Pending&limit=1", &ann).await;
    assert_eq!(pending.names(), ["web"]);
    assert_eq!(pending.body["total"], 2);
}

#[tokio::test]
async fn a_page_that_cannot_be_is_refused_by_name() {
    let world = World::new().await;
    let ann = world.user("ann", AccessLevel::User).await;
    let long = "x".repeat(101);
    let path = format!("/api/v1/vms?limit=0&after=%21&search={long}");
    let refused = world.get(&path, &ann).await;
    refused.is_problem(422, "invalid");
    assert_eq!(refused.fields(), ["limit", "after", "search"]);
    for limit in ["1001", "-1", "ten"] {
        let refused = world
            .get(&format!("/api/v1/images?limit={limit}"), &ann)
            .await;
        assert_eq!(refused.is_problem(422, "invalid").fields(), ["limit"]);
    }
}

#[tokio::test]
async fn an_edit_counts_only_if_nobody_edited_meanwhile() {
    let world = World::new().await;
    let ann = world.user("ann", AccessLevel::User).await;
    let made = world.post("/api/v1/vms", &ann, new_vm("web")).await;
    let tag = made.headers[header::ETAG].to_str().unwrap().to_owned();
    assert_eq!(
        world.get("/api/v1/vms/web", &ann).await.headers[header::ETAG]
            .to_str()
            .unwrap(),
        tag
    );
    // A status is no edit.
    let key = ObjectKey::namespaced(names::user_namespace("ann"), "web");
    let mut status: KiteVirtualMachine = world.cluster.get(&key).await.unwrap();
    status.metadata.managed_fields = None;
    status.metadata.resource_version = None;
    status.status = Some(KiteVirtualMachineStatus {
        phase: Some(VmPhase::Starting),
        ..KiteVirtualMachineStatus::default()
    });
    world
        .cluster
        .apply_status(kite_core::managers::CONTROLLER, &status)
        .await
        .unwrap();

    let path = "/api/v1/vms/web";
    let edit = |tag: &str, cpu: u32| {
        let tag = tag.to_owned();
        let (world, ann) = (&world, &ann);
        async move {
            let header = ("if-match", &*tag);
            ask(world, Method::PATCH, path, ann, header, json!({"cpu": cpu})).await
        }
    };
    let edited = edit(&tag, 2).await;
    assert_eq!(edited.status, 200, "{edited:?}");
    let newer = edited.headers[header::ETAG].to_str().unwrap().to_owned();
    assert_ne!(newer, tag);
    edit(&tag, 3).await.is_problem(412, "changed-meanwhile");
    assert_eq!(world.vm("ann", "web").await.unwrap().spec.cpu, 2);
    assert_eq!(edit(&format!("{tag}, {newer}"), 4).await.status, 200);
    assert_eq!(edit("*", 1).await.status, 200);
    assert_eq!(world.vm("ann", "web").await.unwrap().spec.cpu, 1);

    for tag in ["", "3", "\"a\", b"] {
        edit(tag, 2).await.is_problem(400, "malformed");
    }

    // What is no edit of fields is none of what somebody has not seen, either.
    let old = ("if-match", &*tag);
    let before = world.vm("ann", "web").await.unwrap().spec;
    for (method, path) in [
        (Method::POST, "/api/v1/vms/web/start"),
        (Method::POST, "/api/v1/vms/web/stop"),
        (Method::POST, "/api/v1/vms/web/restart"),
        (Method::PATCH, "/api/v1/vms/web"),
        (Method::DELETE, "/api/v1/vms/web"),
    ] {
        let refused = ask(&world, method, path, &ann, old, json!({})).await;
        refused.is_problem(412, "changed-meanwhile");
    }
    // And what has no tag cannot be the one that is meant.
    let tokens = "/api/v1/me/tokens";
    let body = json!({"name": "ci", "scopes": ["account:read"]});
    let refused = ask(&world, Method::POST, tokens, &ann, old, body.clone()).await;
    refused.is_problem(412, "changed-meanwhile");
    let any = ("if-match", "*");
    let made = ask(&world, Method::POST, tokens, &ann, any, body).await;
    assert_eq!(made.status, 201, "{made:?}");
    assert_eq!(world.vm("ann", "web").await.unwrap().spec, before);
    let now = world.get(path, &ann).await.text("/etag").to_owned();
    let gone = ask(
        &world,
        Method::DELETE,
        path,
        &ann,
        ("if-match", &*now),
        json!({}),
    )
    .await;
    assert_eq!(gone.status, 202, "{gone:?}");

    let me = world.get("/api/v1/me", &ann).await;
    let tag = me.headers[header::ETAG].to_str().unwrap().to_owned();
    let email = |email: &str| json!({ "email": email });
    let own = "/api/v1/me";
    let header = ("if-match", &*tag);
    let first = ask(&world, Method::PATCH, own, &ann, header, email("a@b.test")).await;
    assert_eq!(first.status, 200, "{first:?}");
    let second = ask(&world, Method::PATCH, own, &ann, header, email("c@b.test")).await;
    second.is_problem(412, "changed-meanwhile");
}

#[tokio::test]
async fn a_creation_that_is_asked_for_twice_happens_once_on_any_replica() {
    let world = World::new().await;
    let ann = world.user("ann", AccessLevel::User).await;
    let bob = world.user("bob", AccessLevel::User).await;
    let path = "/api/v1/vms";
    let key = ("idempotency-key", "3f1c");
    let mut body = new_vm("web");
    body.as_object_mut().unwrap().remove("sshId");
    body["sshPassword"] = json!("correct horse battery");
    let made = ask(&world, Method::POST, path, &ann, key, body.clone()).await;
    assert_eq!(made.status, 201, "{made:?}");
    assert!(!made.headers.contains_key("idempotency-replayed"));

    let other = world.replica().await;
    for router in [&world.router, &other] {
        let mut again = request(Method::POST, path, &ann, Some(body.clone()));
        again.headers_mut().insert(key.0, key.1.parse().unwrap());
        let again = send(router, again).await;
        assert_eq!(again.status, 201, "{again:?}");
        assert_eq!(again.headers["idempotency-replayed"], "true");
        assert_eq!(again.text("/sshId"), made.text("/sshId"));
        assert_eq!(again.headers[header::LOCATION], "/api/v1/vms/web");
    }
    // Looking for an earlier try by what is no name must not hide the refusal.
    let nameless = ("idempotency-key", "a_name_that_is_none");
    ask(
        &world,
        Method::POST,
        path,
        &ann,
        nameless,
        new_vm("No name"),
    )
    .await
    .is_problem(422, "invalid");

    // The digest of the body would tell a weak password to whoever sees it.
    let mut guessed = body.clone();
    guessed["sshPassword"] = json!("another horse battery");
    let again = ask(&world, Method::POST, path, &ann, key, guessed).await;
    assert_eq!(again.headers["idempotency-replayed"], "true");

    let mut more = body.clone();
    more["cpu"] = json!(2);
    ask(&world, Method::POST, path, &ann, key, more)
        .await
        .is_problem(422, "idempotency-key-reused");
    ask(&world, Method::POST, path, &ann, key, new_vm("db"))
        .await
        .is_problem(422, "idempotency-key-reused");
    world
        .post(path, &ann, body.clone())
        .await
        .is_problem(409, "taken");
    // The key is the caller's own.
    let theirs = ask(&world, Method::POST, path, &bob, key, body).await;
    assert_eq!(theirs.status, 201, "{theirs:?}");
    assert!(!theirs.headers.contains_key("idempotency-replayed"));
}

#[tokio::test]
async fn accounts_and_offers_are_made_once_too() {
    let world = World::new().await;
    let root = world.user("root", AccessLevel::Admin).await;
    let key = ("idempotency-key", "k");
    let user = json!({"username": "ann", "password": "correct horse battery"});
    let offer = json!({"name": "small", "cpu": 1, "memory": "1Gi", "disk": "4Gi",
                       "image": "debian-12"});
    for (path, body) in [
        ("/api/v1/admin/users", user),
        ("/api/v1/admin/offers", offer),
    ] {
        let first = ask(&world, Method::POST, path, &root, key, body.clone()).await;
        assert_eq!(first.status, 201, "{first:?}");
        let again = ask(&world, Method::POST, path, &root, key, body).await;
        assert_eq!(again.headers["idempotency-replayed"], "true", "{again:?}");
        assert_eq!(again.body, first.body);
    }
}

#[tokio::test]
async fn a_vm_that_runs_is_restarted_and_one_that_is_off_is_not() {
    let world = World::new().await;
    let ann = world.user("ann", AccessLevel::User).await;
    world.post("/api/v1/vms", &ann, new_vm("web")).await;
    let restarted = world.post("/api/v1/vms/web/restart", &ann, json!({})).await;
    assert_eq!(restarted.status, 200, "{restarted:?}");
    assert!(
        world
            .vm("ann", "web")
            .await
            .unwrap()
            .spec
            .restarted_at
            .is_some()
    );
    world.post("/api/v1/vms/web/stop", &ann, json!({})).await;
    let refused = world.post("/api/v1/vms/web/restart", &ann, json!({})).await;
    refused.is_problem(409, "conflict");
}
