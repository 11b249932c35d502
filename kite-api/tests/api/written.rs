//! A client brings along what it has written, to whichever replica.

use std::time::Duration;

use axum::{
    Router,
    body::Body,
    http::{Method, Request},
};
use kite_api::ApiState;
use kite_core::crd::AccessLevel;
use serde_json::json;

use crate::{
    gate::Gate,
    refresh::Jar,
    vms::{VMS, web as a_vm},
    world::{Answer, PASSWORD, World, metrics_of, request, send},
};

/// A replica whose copies of VMs hear of nothing until they are let.
async fn replica_behind(world: &World) -> (Router, Gate) {
    let behind = |request: &Request<kube::client::Body>| {
        let uri = request.uri();
        uri.path().ends_with("kitevirtualmachines")
            && uri.query().is_some_and(|query| query.contains("watch"))
    };
    Gate::replica(world, |it| it, behind).await
}

fn list(token: &str, written: &str) -> Request<Body> {
    let mut list = request(Method::GET, VMS, token, None);
    let written = written.parse().unwrap();
    list.headers_mut().insert("kite-written", written);
    list
}

fn written(answer: &Answer) -> String {
    let told = &answer.headers["kite-written"];
    told.to_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_list_waits_for_what_its_client_has_written_elsewhere() {
    let world = World::new().await;
    let ann = world.user("ann", AccessLevel::User).await;
    let (behind, gate) = replica_behind(&world).await;
    let made = world.post(VMS, &ann, a_vm()).await;
    assert_eq!(made.status, 201);

    // Who does not say what it has written gets what is there.
    let old = send(&behind, request(Method::GET, VMS, &ann, None)).await;
    assert_eq!(old.body["total"], 0);
    assert!(!old.headers.contains_key("kite-written"));

    let mut waiting = Box::pin(send(&behind, list(&ann, &written(&made))));
    // The clock stands still but when there is nothing else to wait for, so that no wait is
    // over only because the machine is busy.
    tokio::time::pause();
    let early = tokio::time::timeout(Duration::from_millis(50), &mut waiting).await;
    assert!(early.is_err(), "{early:?}");
    gate.let_on(1);
    assert_eq!(waiting.await.names(), ["web"]);
}

#[tokio::test]
async fn it_waits_for_what_went_too() {
    let world = World::new().await;
    let ann = world.user("ann", AccessLevel::User).await;
    assert_eq!(world.post(VMS, &ann, a_vm()).await.status, 201);
    let (behind, gate) = replica_behind(&world).await;
    let gone = world.delete(&format!("{VMS}/web"), &ann).await;
    assert_eq!(gone.status, 202);
    let mut waiting = Box::pin(send(&behind, list(&ann, &written(&gone))));
    // The clock stands still but when there is nothing else to wait for, so that no wait is
    // over only because the machine is busy.
    tokio::time::pause();
    let early = tokio::time::timeout(Duration::from_millis(50), &mut waiting).await;
    assert!(early.is_err(), "{early:?}");
    gate.let_on(1);
    assert_eq!(waiting.await.body["total"], 0);
}

#[tokio::test]
async fn a_replica_that_hears_nothing_answers_all_the_same_and_is_counted() {
    let world = World::new().await;
    let ann = world.user("ann", AccessLevel::User).await;
    let made = world.post(VMS, &ann, a_vm()).await;
    // Its requests are answered by the replica that wrote: nobody has to wait there.
    let at_once = send(&world.router, list(&ann, &written(&made))).await;
    assert_eq!(at_once.names(), ["web"]);
    // Nobody will ever write this.
    let never = send(&world.router, list(&ann, "vms.18446744073709551615")).await;
    assert_eq!(never.names(), ["web"]);
    let metrics = world.metrics();
    let counted = "kite_api_stale_answers_total{kind=\"vms\"} 1";
    assert!(metrics.contains(counted), "{metrics}");
    let not = "kite_api_stale_answers_total{kind=\"users\"} 0";
    assert!(metrics.contains(not), "{metrics}");
}

#[tokio::test]
async fn what_was_not_answered_is_refused() {
    let world = World::new().await;
    let ann = world.user("ann", AccessLevel::User).await;
    for bad in ["", "vms", "vms.-1", "vms.1, users.2"] {
        send(&world.router, list(&ann, bad))
            .await
            .is_problem(400, "malformed");
    }
}

#[tokio::test]
async fn a_browser_brings_it_along_by_cookie() {
    let world = World::new().await;
    world.user("ann", AccessLevel::User).await;
    let (behind, gate) = replica_behind(&world).await;
    let who = json!({"username": "ann", "password": PASSWORD, "cookie": true});
    let signed_in = world.post("/api/v1/auth/sign-in", "", who).await;
    let mut jar = Jar::default();
    jar.take(&signed_in);
    // The session is itself something that was written.
    assert!(jar.0["kite_written"].starts_with("sessions."), "{jar:?}");

    let made = send(&world.router, jar.request(Method::POST, VMS, Some(a_vm()))).await;
    assert_eq!(made.status, 201, "{made:?}");
    jar.take(&made);
    let mut waiting = Box::pin(send(&behind, jar.request(Method::GET, VMS, None)));
    // The clock stands still but when there is nothing else to wait for, so that no wait is
    // over only because the machine is busy.
    tokio::time::pause();
    let early = tokio::time::timeout(Duration::from_millis(50), &mut waiting).await;
    assert!(early.is_err(), "{early:?}");
    gate.let_on(1);
    assert_eq!(waiting.await.names(), ["web"]);

    // A browser sends what it has: one that is broken is nobody's mistake.
    jar.0.insert("kite_written".to_owned(), "what".to_owned());
    let list = send(&behind, jar.request(Method::GET, VMS, None)).await;
    assert_eq!(list.status, 200);
}

#[tokio::test]
async fn a_replica_that_begins_later_knows_that_something_is_gone() {
    let world = World::new().await;
    let ann = world.user("ann", AccessLevel::User).await;
    assert_eq!(world.post(VMS, &ann, a_vm()).await.status, 201);
    let gone = world.delete(&format!("{VMS}/web"), &ann).await;
    // No object that it will ever see has a version as late.
    let client = world.fake.client();
    let late = ApiState::builder(client).build().await.unwrap();
    late.synced().await;
    let router = kite_api::router(late.clone());
    let list = send(&router, list(&ann, &written(&gone))).await;
    assert_eq!(list.body["total"], 0);
    let metrics = metrics_of(&late);
    let none = "kite_api_stale_answers_total{kind=\"vms\"} 0";
    assert!(metrics.contains(none), "it waited in vain: {metrics}");
}

#[tokio::test]
async fn a_repeated_creation_is_one_that_its_client_reads() {
    let world = World::new().await;
    let ann = world.user("ann", AccessLevel::User).await;
    let (behind, gate) = replica_behind(&world).await;
    let ask = || {
        let mut request = request(Method::POST, VMS, &ann, Some(a_vm()));
        let key = "once".parse().unwrap();
        request.headers_mut().insert("idempotency-key", key);
        request
    };
    // The answer of this one was lost.
    assert_eq!(send(&world.router, ask()).await.status, 201);
    gate.let_on(1);
    let again = send(&behind, ask()).await;
    assert_eq!(again.headers["idempotency-replayed"], "true");
    let list = send(&behind, request(Method::GET, VMS, &ann, None)).await;
    assert_eq!(list.names(), ["web"]);
    assert!(written(&again).starts_with("vms."), "{again:?}");
}
