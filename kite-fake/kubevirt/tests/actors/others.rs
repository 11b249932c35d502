//! Leases, certificates, Gateways.

use std::sync::Arc;
use std::time::Duration;

use kite_fake::actors::kind::{
    CERTIFICATE, GATEWAY, GATEWAY_CLASS, HTTP_ROUTE, LEASE, SECRET, SERVICE,
};
use kite_fake::actors::{Actor, LeaseHolder, Rule, Rules, Selector, Stage};
use serde_json::{Value, json};

use crate::world::{World, text};

const NS: Option<&str> = Some("default");

async fn holder(world: &World) -> (String, Value) {
    let lease = world.get(&LEASE, NS, "leader").await.unwrap();
    let transitions = lease.data["spec"]["leaseTransitions"].clone();
    (text(&lease, "/spec/holderIdentity").to_owned(), transitions)
}

#[tokio::test(start_paused = true)]
async fn two_candidates_take_turns_when_one_stops_renewing() {
    let one: Arc<dyn Actor> = Arc::new(LeaseHolder::new("default", "leader", "one"));
    let world = World::with(Rules::instant(), vec![one]).await;
    assert_eq!(holder(&world).await, ("one".to_owned(), json!(0)));
    let renewed = async || {
        let lease = world.get(&LEASE, NS, "leader").await.unwrap();
        text(&lease, "/spec/renewTime").to_owned()
    };
    let before = renewed().await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_ne!(renewed().await, before, "it is renewed");
    // Renewing is routine: the cluster is settled all the same.
    world.settle().await;

    // Another one takes it when it has expired, and not before.
    world
        .rules
        .add(Rule::hold(Stage::LEASE_RENEWED, Selector::named("leader")));
    tokio::time::sleep(Duration::from_secs(5)).await;
    let stale = renewed().await;
    let two: Vec<Arc<dyn Actor>> = vec![Arc::new(LeaseHolder::new("default", "leader", "two"))];
    let free = Arc::new(Rules::instant());
    let other = kite_fake::actors::Actors::on(&world.cluster, &free, two);
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(holder(&world).await.0, "one");
    tokio::time::sleep(Duration::from_secs(15)).await;
    assert_eq!(holder(&world).await, ("two".to_owned(), json!(1)));
    assert_ne!(renewed().await, stale);
    world.cluster.shut_down();
    other.ended().await;
}

#[tokio::test(start_paused = true)]
async fn a_certificate_gets_its_secret() {
    let world = World::new().await;
    world.rules.add(Rule::fail(
        Stage::CERTIFICATE_ISSUED,
        Selector::named("web"),
        "IncorrectIssuer",
        "no such issuer",
    ));
    let certificate = json!({"metadata": {"name": "web"}, "spec": {
        "secretName": "web-tls",
        "dnsNames": ["web.example.org"],
        "issuerRef": {"name": "le", "kind": "ClusterIssuer"},
    }});
    world.create(&CERTIFICATE, NS, certificate).await;
    world.settle().await;
    let told = world.get(&CERTIFICATE, NS, "web").await.unwrap();
    assert_eq!(
        text(&told, "/status/conditions/0/reason"),
        "IncorrectIssuer"
    );
    assert!(world.get(&SECRET, NS, "web-tls").await.is_none());
    world.rules.clear(Stage::CERTIFICATE_ISSUED);
    world.settle().await;
    let told = world.get(&CERTIFICATE, NS, "web").await.unwrap();
    assert_eq!(text(&told, "/status/conditions/0/status"), "True");
    let secret = world.get(&SECRET, NS, "web-tls").await.unwrap();
    assert_eq!(text(&secret, "/type"), "kubernetes.io/tls");
    // One that is lost is issued again.
    world.delete(&SECRET, NS, "web-tls").await;
    world.settle().await;
    assert!(world.get(&SECRET, NS, "web-tls").await.is_some());
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_gateway_and_its_route_are_put_into_effect() {
    let world = World::new().await;
    let class = json!({"metadata": {"name": "c"}, "spec": {"controllerName": "example.org/gw"}});
    let gateway = json!({"metadata": {"name": "g"}, "spec": {
        "gatewayClassName": "c",
        "listeners": [{"name": "http", "port": 80, "protocol": "HTTP"}],
    }});
    let route = json!({"metadata": {"name": "r"}, "spec": {
        "parentRefs": [{"name": "g"}],
        "rules": [{"backendRefs": [{"name": "s", "port": 80}]}],
    }});
    world.create(&HTTP_ROUTE, NS, route).await;
    world.create(&GATEWAY, NS, gateway).await;
    world.settle().await;
    let told = world.get(&GATEWAY, NS, "g").await.unwrap();
    assert!(told.data["status"].is_null(), "it is nobody's");
    world.create(&GATEWAY_CLASS, None, class).await;
    world.settle().await;
    let told = world.get(&GATEWAY, NS, "g").await.unwrap();
    assert_eq!(text(&told, "/status/conditions/1/type"), "Programmed");
    assert_eq!(text(&told, "/status/conditions/1/status"), "True");
    assert_eq!(text(&told, "/status/addresses/0/value"), "127.0.0.1");
    assert_eq!(told.data["status"]["listeners"][0]["attachedRoutes"], 1);
    let parent = async || {
        let told = world.get(&HTTP_ROUTE, NS, "r").await.unwrap();
        told.data["status"]["parents"][0].clone()
    };
    let said = parent().await;
    assert_eq!(said["controllerName"], "example.org/gw");
    assert_eq!(said["conditions"][0]["status"], "True");
    assert_eq!(said["conditions"][1]["reason"], "BackendNotFound");
    let service = json!({"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}});
    world.create(&SERVICE, NS, service).await;
    world.settle().await;
    assert_eq!(parent().await["conditions"][1]["status"], "True");
    world.end().await;
}
