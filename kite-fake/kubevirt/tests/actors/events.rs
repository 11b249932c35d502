//! What actors tell in Events, if they are asked to; and instance types.

use std::sync::Arc;

use kite_fake::FakeCluster;
use kite_fake::actors::kind::{CONTROLLER_REVISION, EVENT};
use kite_fake::actors::{Rule, Rules, Selector, Stage};
use kite_fake_kubevirt::kinds::{CLUSTER_INSTANCETYPE, DATA_VOLUME, INSTANCE, VIRTUAL_MACHINE};
use kite_fake_kubevirt::{cdi_definitions, everything, kubevirt_definitions};
use serde_json::{Value, json};

use crate::world::{World, text};

const NS: Option<&str> = Some("default");

fn machine() -> Value {
    json!({"metadata": {"name": "v"}, "spec": {"runStrategy": "Always", "template": {"spec": {
        "domain": {"memory": {"guest": "1Gi"}, "devices": {}},
        "volumes": [{"name": "root", "dataVolume": {"name": "d"}}],
    }}}})
}

fn disk() -> Value {
    json!({"metadata": {"name": "d"}, "spec": {
        "source": {"blank": {}},
        "storage": {"resources": {"requests": {"storage": "1Gi"}}},
    }})
}

/// Reasons of the events about objects of a kind, in order of their names.
async fn reasons(world: &World, kind: &str) -> Vec<String> {
    let events = world.list(&EVENT, NS).await;
    let about = events
        .iter()
        .filter(|event| event.data["involvedObject"]["kind"] == kind);
    let mut reasons: Vec<String> = about.map(|e| text(e, "/reason").to_owned()).collect();
    reasons.sort();
    reasons
}

#[tokio::test(start_paused = true)]
async fn actors_tell_events_if_they_are_asked_to() {
    let world = World::with(Rules::instant().with_events(), everything()).await;
    world.create(&DATA_VOLUME, NS, disk()).await;
    world.settle().await;
    world.rules.add(Rule::fail(
        Stage::POD_SCHEDULED,
        Selector::all(),
        "Unschedulable",
        "0/2 nodes are available: 2 Insufficient memory.",
    ));
    world.create(&VIRTUAL_MACHINE, NS, machine()).await;
    world.settle().await;
    assert_eq!(reasons(&world, "Pod").await, ["FailedScheduling"]);
    world.rules.clear(Stage::POD_SCHEDULED);
    world.settle().await;
    assert_eq!(
        reasons(&world, "Pod").await,
        ["FailedScheduling", "Scheduled", "Started"]
    );
    let of_disk = reasons(&world, "DataVolume").await;
    assert_eq!(
        of_disk,
        ["ImportInProgress", "ImportScheduled", "ImportSucceeded"]
    );
    assert_eq!(
        reasons(&world, "VirtualMachine").await,
        ["SuccessfulCreate"]
    );
    assert_eq!(
        reasons(&world, "VirtualMachineInstance").await,
        ["Started", "SuccessfulCreate"]
    );
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn without_being_asked_they_tell_none() {
    let world = World::new().await;
    world.create(&DATA_VOLUME, NS, disk()).await;
    world.create(&VIRTUAL_MACHINE, NS, machine()).await;
    world.settle().await;
    assert!(world.list(&EVENT, NS).await.is_empty());
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn an_instance_type_says_how_large_a_vm_is() {
    let cluster = FakeCluster::builder()
        .crds(kubevirt_definitions())
        .crds(cdi_definitions())
        .build()
        .unwrap();
    let rules = Arc::new(Rules::instant());
    let actors = kite_fake_kubevirt::play(&cluster, &rules, false, cluster.stopped());
    let world = World {
        cluster,
        rules,
        actors,
    };
    let vm = json!({"metadata": {"name": "v"}, "spec": {
        "runStrategy": "Always",
        "instancetype": {"name": "u1.medium"},
        "template": {"spec": {"domain": {"devices": {}}, "volumes": []}},
    }});
    world.create(&VIRTUAL_MACHINE, NS, vm).await;
    world.settle().await;
    let vm = world.get(&VIRTUAL_MACHINE, NS, "v").await.unwrap();
    let conditions = vm.data["status"]["conditions"].as_array().unwrap();
    let failure = conditions.iter().find(|c| c["type"] == "Failure").unwrap();
    let why = failure["message"].as_str().unwrap();
    assert!(why.ends_with("\"u1.medium\" not found"), "{why}");
    assert!(world.get(&INSTANCE, NS, "v").await.is_none());

    let medium = json!({"metadata": {"name": "u1.medium"}, "spec": {
        "cpu": {"guest": 2}, "memory": {"guest": "4Gi"},
    }});
    world.create(&CLUSTER_INSTANCETYPE, None, medium).await;
    tokio::time::sleep(std::time::Duration::from_secs(10)).await;
    world.settle().await;
    let vm = world.get(&VIRTUAL_MACHINE, NS, "v").await.unwrap();
    assert_eq!(text(&vm, "/status/printableStatus"), "Running");
    let conditions = vm.data["status"]["conditions"].as_array().unwrap();
    assert!(!conditions.iter().any(|c| c["type"] == "RestartRequired"));
    let revision = text(&vm, "/status/instancetypeRef/controllerRevisionRef/name");
    assert!(
        world
            .get(&CONTROLLER_REVISION, NS, revision)
            .await
            .is_some()
    );
    let instance = world.get(&INSTANCE, NS, "v").await.unwrap();
    assert_eq!(instance.data["spec"]["domain"]["cpu"]["sockets"], 2);
    assert_eq!(instance.data["spec"]["domain"]["memory"]["guest"], "4Gi");
    world.end().await;
}
