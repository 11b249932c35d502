//! Endpoints, their slices, and what every namespace has.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kite_fake::actors::kind::{
    CONFIG_MAP, ENDPOINT_SLICE, ENDPOINTS, POD, SECRET, SERVICE, SERVICE_ACCOUNT,
};
use kite_fake::actors::{Rule, Selector, Stage};
use kube::api::DynamicObject;
use serde_json::{Value, json};

use crate::world::World;

impl World {
    async fn web(&self, name: &str) {
        let body = json!({"metadata": {"name": name, "labels": {"app": "web"}}, "spec":
            {"containers": [{"name": "c", "image": "i", "ports": [{"name": "http", "containerPort": 8080}]}]}});
        self.create(&POD, body).await;
        self.settle().await;
    }

    async fn service(&self, name: &str, selector: Value) {
        let body = json!({"metadata": {"name": name, "labels": {"x": "y"}}, "spec":
            {"selector": selector, "ports": [{"port": 80, "targetPort": "http"}]}});
        self.create(&SERVICE, body).await;
        self.settle().await;
    }

    /// The slices of a Service.
    async fn slices(&self, service: &str) -> Vec<DynamicObject> {
        let mut slices = self.list(&ENDPOINT_SLICE).await;
        slices.retain(|it| {
            let labels = it.metadata.labels.clone().unwrap_or_default();
            labels
                .get("kubernetes.io/service-name")
                .is_some_and(|it| it == service)
        });
        slices
    }
}

fn names(endpoints: &DynamicObject, list: &str) -> Vec<String> {
    let all = endpoints.data["subsets"][0][list].as_array();
    let names = all.into_iter().flatten().map(|it| &it["targetRef"]["name"]);
    names
        .filter_map(|it| it.as_str().map(str::to_owned))
        .collect()
}

#[tokio::test(start_paused = true)]
async fn endpoints_follow_the_pods_of_a_service() {
    let world = World::new().await;
    world.web("a").await;
    world.service("s", json!({"app": "web"})).await;
    world
        .rules
        .add(Rule::hold(Stage::POD_READY, Selector::all()));
    world.web("b").await;
    world.is_quiet().await;
    let endpoints = world.get(&ENDPOINTS, "s").await;
    assert_eq!(names(&endpoints, "addresses"), ["a"]);
    // It has no address yet.
    assert!(names(&endpoints, "notReadyAddresses").is_empty());
    let ports = &endpoints.data["subsets"][0]["ports"];
    assert_eq!(*ports, json!([{"port": 8080, "protocol": "TCP"}]));
    let labels = endpoints.metadata.labels.unwrap();
    assert_eq!(labels["x"], "y");
    assert_eq!(
        labels["endpoints.kubernetes.io/managed-by"],
        "endpoint-controller"
    );
    world.rules.clear(Stage::POD_READY);
    world.settle().await;
    let endpoints = world.get(&ENDPOINTS, "s").await;
    assert_eq!(names(&endpoints, "addresses"), ["a", "b"]);
    // One that is not selected any more is out, and so is what somebody writes.
    world
        .merge(&POD, "a", json!({"metadata": {"labels": {"app": "db"}}}))
        .await;
    world.settle().await;
    world.merge(&ENDPOINTS, "s", json!({"subsets": null})).await;
    world.is_quiet().await;
    assert_eq!(names(&world.get(&ENDPOINTS, "s").await, "addresses"), ["b"]);
    let slice = &world.slices("s").await[0];
    assert_eq!(slice.data["endpoints"].as_array().unwrap().len(), 1);
    let world = world.take_over().await;
    world.is_quiet().await;
    world.delete(&SERVICE, "s").await;
    world.settle().await;
    assert!(world.find(&ENDPOINTS, "s").await.is_none());
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn endpoints_that_somebody_writes_have_slices() {
    let world = World::new().await;
    world.service("s", Value::Null).await;
    let subsets = json!([{"addresses": [{"ip": "10.9.0.1"}], "notReadyAddresses": [{"ip": "10.9.0.2"}],
        "ports": [{"name": "http", "port": 80}]}]);
    let body = json!({"metadata": {"name": "s", "labels": {"a": "b"}}, "subsets": subsets});
    world.create(&ENDPOINTS, body).await;
    // These belong to nobody.
    let body = json!({"metadata": {"name": "other"}, "subsets": subsets});
    world.create(&ENDPOINTS, body).await;
    world.is_quiet().await;
    let slices = world.slices("s").await;
    assert_eq!(slices.len(), 1);
    let slice = &slices[0];
    assert_eq!(slice.data["endpoints"][1]["conditions"]["ready"], false);
    assert_eq!(slice.data["ports"][0]["name"], "http");
    let labels = slice.metadata.labels.clone().unwrap();
    assert_eq!(
        labels["endpointslice.kubernetes.io/managed-by"],
        "endpointslicemirroring-controller.k8s.io"
    );
    assert!(world.slices("other").await.is_empty());
    let subsets =
        json!([{"addresses": [{"ip": "10.9.0.3"}], "ports": [{"name": "http", "port": 80}]}]);
    world
        .merge(&ENDPOINTS, "s", json!({"subsets": subsets}))
        .await;
    world.is_quiet().await;
    let slice = &world.slices("s").await[0];
    assert_eq!(slice.data["endpoints"][0]["addresses"], json!(["10.9.0.3"]));
    let world = world.take_over().await;
    world.is_quiet().await;
    world.delete(&ENDPOINTS, "s").await;
    world.settle().await;
    assert!(world.slices("s").await.is_empty());
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn the_authority_is_put_right() {
    let world = World::new().await;
    let edit = json!({"data": {"ca.crt": "mine", "more": "x"},
        "metadata": {"annotations": {"kubernetes.io/description": null}}});
    world.merge(&CONFIG_MAP, "kube-root-ca.crt", edit).await;
    world.is_quiet().await;
    let map = world.get(&CONFIG_MAP, "kube-root-ca.crt").await;
    assert_eq!(map.data["data"], json!({"ca.crt": ""}));
    assert!(
        map.metadata
            .annotations
            .unwrap()
            .contains_key("kubernetes.io/description")
    );
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_secret_gets_the_token_of_its_account() {
    let world = World::new().await;
    let account = json!({"metadata": {"name": "robot"}});
    world.create(&SERVICE_ACCOUNT, account).await;
    let secret = |name: &str, account: &str| {
        json!({"metadata": {"name": name, "annotations":
        {"kubernetes.io/service-account.name": account}},
        "type": "kubernetes.io/service-account-token"})
    };
    world.create(&SECRET, secret("t", "robot")).await;
    world.create(&SECRET, secret("lost", "nobody")).await;
    world.is_quiet().await;
    assert!(world.find(&SECRET, "lost").await.is_none());
    let found = world.get(&SECRET, "t").await;
    let text = |name: &str| {
        let text = STANDARD
            .decode(found.data["data"][name].as_str().unwrap())
            .unwrap();
        String::from_utf8(text).unwrap()
    };
    assert_eq!(
        (text("namespace"), text("ca.crt")),
        ("default".to_owned(), String::new())
    );
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview",
        "spec": {"token": text("token")}});
    let request = http::Request::post("/apis/authentication.k8s.io/v1/tokenreviews")
        .header("content-type", "application/json")
        .body(review.to_string().into_bytes())
        .unwrap();
    let told: Value = world.cluster.client().request(request).await.unwrap();
    assert_eq!(
        told["status"]["user"]["username"],
        "system:serviceaccount:default:robot"
    );
    world.delete(&SERVICE_ACCOUNT, "robot").await;
    world.is_quiet().await;
    assert!(world.find(&SECRET, "t").await.is_none());
    world.end().await;
}
