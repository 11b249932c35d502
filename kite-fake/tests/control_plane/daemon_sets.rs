//! `DaemonSet`s.

use std::collections::BTreeSet;
use std::time::Duration;

use kite_fake::actors::kind::{CONTROLLER_REVISION, DAEMON_SET, NODE};
use kite_fake::actors::{Rule, Selector, Stage};
use serde_json::{Value, json};

use crate::world::{World, template, told};

fn agent() -> Value {
    json!({
        "metadata": {"name": "agent"},
        "spec": {
            "selector": {"matchLabels": {"app": "agent"}},
            "template": template("agent", "a"),
        },
    })
}

async fn nodes(world: &World) -> Vec<String> {
    let pods = world.pods("app=agent").await;
    let nodes = pods.iter().map(|it| it.data["spec"]["nodeName"].as_str());
    let mut nodes: Vec<String> = nodes.map(|it| it.unwrap().to_owned()).collect();
    nodes.sort();
    nodes
}

async fn patch_node(world: &World, name: &str, patch: Value) {
    world.merge(&NODE, name, patch).await;
    world.settle().await;
}

#[tokio::test(start_paused = true)]
async fn each_node_has_a_pod_of_the_newest_template() {
    let world = World::new().await;
    world.create(&DAEMON_SET, agent()).await;
    world.settle().await;
    assert_eq!(nodes(&world).await, ["demo-node", "demo-node-2"]);
    let status = world.get(&DAEMON_SET, "agent").await.data["status"].clone();
    let expected = json!({
        "observedGeneration": 1, "currentNumberScheduled": 2, "desiredNumberScheduled": 2,
        "numberMisscheduled": 0, "numberReady": 2, "numberAvailable": 2,
        "updatedNumberScheduled": 2,
    });
    assert_eq!(status, expected);
    let newer =
        json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "b"}]}}}});
    world.merge(&DAEMON_SET, "agent", newer).await;
    world.settle().await;
    let pods = world.pods("app=agent").await;
    assert!(
        pods.iter()
            .all(|it| it.data["spec"]["containers"][0]["image"] == "b")
    );
    assert_eq!(nodes(&world).await.len(), 2);
    assert_eq!(
        world.list_by(&CONTROLLER_REVISION, "app=agent").await.len(),
        2
    );
    world.delete(&DAEMON_SET, "agent").await;
    world.settle().await;
    assert_eq!(nodes(&world).await.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn nodes_come_and_go() {
    let world = World::new().await;
    let mut picky = agent();
    picky["spec"]["template"]["spec"]["nodeSelector"] = json!({"disk": "ssd"});
    world.create(&DAEMON_SET, picky).await;
    world.settle().await;
    assert!(nodes(&world).await.is_empty());
    let labels = |value: Value| json!({"metadata": {"labels": {"disk": value}}});
    patch_node(&world, "demo-node-2", labels(json!("ssd"))).await;
    assert_eq!(nodes(&world).await, ["demo-node-2"]);
    // A cordoned node keeps its Pod, and would get one.
    patch_node(
        &world,
        "demo-node-2",
        json!({"spec": {"unschedulable": true}}),
    )
    .await;
    patch_node(&world, "demo-node", labels(json!("ssd"))).await;
    assert_eq!(nodes(&world).await, ["demo-node", "demo-node-2"]);
    patch_node(&world, "demo-node-2", labels(Value::Null)).await;
    assert_eq!(nodes(&world).await, ["demo-node"]);
    let taint = json!([{"key": "gpu", "effect": "NoExecute"}]);
    patch_node(&world, "demo-node", json!({"spec": {"taints": taint}})).await;
    assert!(nodes(&world).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_surging_update_never_leaves_a_node_without_a_pod() {
    let world = World::new().await;
    let mut surging = agent();
    surging["spec"]["updateStrategy"] =
        json!({"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}});
    world.create(&DAEMON_SET, surging).await;
    world.settle().await;
    let slow = Rule::delay(Stage::POD_READY, Selector::all(), Duration::from_secs(10));
    world.rules.add(slow);
    let newer =
        json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "b"}]}}}});
    world.merge(&DAEMON_SET, "agent", newer).await;
    let (mut most, mut images) = (0, BTreeSet::new());
    for _ in 0..60 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let pods = world.pods("app=agent").await;
        most = most.max(pods.len());
        let ready = pods
            .iter()
            .filter(|pod| told(pod, "Ready").is_some_and(|it| it.0 == "True"));
        let ready: BTreeSet<&str> = ready
            .filter_map(|it| it.data["spec"]["nodeName"].as_str())
            .collect();
        assert_eq!(ready.len(), 2, "{pods:#?}");
        images = pods
            .iter()
            .map(|it| it.data["spec"]["containers"][0]["image"].to_string())
            .collect();
    }
    assert_eq!(most, 3, "one node at a time");
    assert_eq!(images, BTreeSet::from(["\"b\"".to_owned()]));
}
