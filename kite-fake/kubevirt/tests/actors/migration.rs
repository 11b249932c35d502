//! Instances that move to another node while they run.

use kite_fake::actors::kind::{CLAIM, NODE, POD};
use kite_fake::actors::{Rule, Selector};
use kite_fake_kubevirt::kinds::{INSTANCE, KUBEVIRT_CR, MIGRATION, VIRTUAL_MACHINE};
use kite_fake_kubevirt::stages;
use kube::api::{DynamicObject, EvictParams, PostParams};
use serde_json::{Value, json};

use crate::world::{World, text};

const NS: Option<&str> = Some("default");

/// A VM that can migrate, and may grow.
fn machine() -> Value {
    json!({
        "metadata": {"name": "v"},
        "spec": {"runStrategy": "Always", "template": {"spec": {
            "domain": {
                "cpu": {"sockets": 1, "maxSockets": 4},
                "memory": {"guest": "1Gi", "maxGuest": "4Gi"},
                "devices": {"interfaces": [{"name": "default", "masquerade": {}}]},
            },
            "evictionStrategy": "LiveMigrate",
            "networks": [{"name": "default", "pod": {}}],
            "volumes": [],
        }}},
    })
}

fn migration() -> Value {
    json!({"metadata": {"name": "m"}, "spec": {"vmiName": "v"}})
}

async fn running() -> World {
    let world = World::new().await;
    world.create(&VIRTUAL_MACHINE, NS, machine()).await;
    world.settle().await;
    world
}

async fn phase(world: &World) -> String {
    let migration = world.get(&MIGRATION, NS, "m").await.unwrap();
    text(&migration, "/status/phase").to_owned()
}

/// What comes of a migration's creation.
async fn refusal(world: &World, name: &str) -> String {
    let object: DynamicObject = serde_json::from_value(json!({
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachineInstanceMigration",
        "metadata": {"name": name},
        "spec": {"vmiName": "v"},
    }))
    .unwrap();
    let api = MIGRATION.api(&world.cluster.client(), NS);
    match api.create(&PostParams::default(), &object).await {
        Err(kube::Error::Api(status)) => {
            assert_eq!(status.code, 400);
            status.message.clone()
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn an_instance_moves_to_the_other_node_and_lives_on() {
    let world = running().await;
    let before = world.get(&INSTANCE, NS, "v").await.unwrap();
    assert_eq!(text(&before, "/status/nodeName"), "demo-node");
    world.create(&MIGRATION, NS, migration()).await;
    world.settle().await;
    let done = world.get(&MIGRATION, NS, "m").await.unwrap();
    let phases: Vec<&str> = done.data["status"]["phaseTransitionTimestamps"]
        .as_array()
        .unwrap()
        .iter()
        .map(|time| time["phase"].as_str().unwrap())
        .collect();
    assert_eq!(
        phases,
        [
            "Pending",
            "Scheduling",
            "Scheduled",
            "PreparingTarget",
            "TargetReady",
            "Running",
            "Succeeded",
        ]
    );
    let state = &done.data["status"]["migrationState"];
    assert_eq!(state["sourceNode"], "demo-node");
    assert_eq!(state["targetNode"], "demo-node-2");
    assert_eq!(state["completed"], true);
    let after = world.get(&INSTANCE, NS, "v").await.unwrap();
    assert_eq!(after.metadata.uid, before.metadata.uid);
    assert_eq!(text(&after, "/status/nodeName"), "demo-node-2");
    assert_eq!(text(&after, "/status/phase"), "Running");
    let pods = world.list(&POD, NS).await;
    let on = |node: &str| {
        let mut pods = pods.iter();
        let pod = pods
            .find(|pod| text(pod, "/spec/nodeName") == node)
            .unwrap();
        (text(pod, "/status/phase"), text(pod, "/status/podIP"))
    };
    assert_eq!(on("demo-node").0, "Succeeded");
    let (phase, address) = on("demo-node-2");
    assert_eq!(phase, "Running");
    assert_eq!(text(&after, "/status/interfaces/0/ipAddress"), address);

    // And back, and off.
    world.delete(&MIGRATION, NS, "m").await;
    world.create(&MIGRATION, NS, migration()).await;
    world.settle().await;
    let back = world.get(&INSTANCE, NS, "v").await.unwrap();
    assert_eq!(text(&back, "/status/nodeName"), "demo-node");
    let off = json!({"spec": {"runStrategy": "Halted"}});
    world.merge(&VIRTUAL_MACHINE, NS, "v", off).await;
    world.settle().await;
    assert!(world.get(&INSTANCE, NS, "v").await.is_none());
    assert!(world.list(&POD, NS).await.is_empty());
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_migration_that_fails_leaves_the_instance_where_it_was() {
    let world = running().await;
    world.rules.add(Rule::fail(
        stages::MIGRATION_DONE,
        Selector::named("v"),
        "Stuck",
        "Live migration is not completed after 150 seconds and has been aborted",
    ));
    world.create(&MIGRATION, NS, migration()).await;
    world.settle().await;
    let failed = world.get(&MIGRATION, NS, "m").await.unwrap();
    assert_eq!(text(&failed, "/status/phase"), "Failed");
    let why = text(&failed, "/status/migrationState/failureReason");
    assert!(why.contains("not completed after 150 seconds"), "{why}");
    let instance = world.get(&INSTANCE, NS, "v").await.unwrap();
    assert_eq!(text(&instance, "/status/nodeName"), "demo-node");
    assert_eq!(text(&instance, "/status/phase"), "Running");
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_migration_can_be_given_up() {
    let world = running().await;
    let hold = Rule::hold(stages::MIGRATION_DONE, Selector::all());
    world.rules.add(hold);
    world.create(&MIGRATION, NS, migration()).await;
    world.settle().await;
    assert_eq!(phase(&world).await, "Running");
    world.delete(&MIGRATION, NS, "m").await;
    world.settle().await;
    assert!(world.get(&MIGRATION, NS, "m").await.is_none());
    let instance = world.get(&INSTANCE, NS, "v").await.unwrap();
    let state = &instance.data["status"]["migrationState"];
    assert_eq!(state["abortStatus"], "Succeeded");
    assert_eq!(state["failed"], true);
    assert_eq!(text(&instance, "/status/nodeName"), "demo-node");
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn what_cannot_migrate_is_refused_with_its_reason() {
    let world = World::new().await;
    assert!(refusal(&world, "m").await.contains("does not exist"));
    let claim = json!({"metadata": {"name": "d"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}},
    }});
    world.create(&CLAIM, NS, claim).await;
    let mut vm = machine();
    vm["spec"]["template"]["spec"]["volumes"] =
        json!([{"name": "root", "persistentVolumeClaim": {"claimName": "d"}}]);
    world.create(&VIRTUAL_MACHINE, NS, vm).await;
    world.settle().await;
    let why = refusal(&world, "m").await;
    assert!(
        why.contains("Cannot migrate VMI, Reason: DisksNotLiveMigratable"),
        "{why}"
    );
    let (code, why) = world
        .ask("virtualmachines/v/migrate", Value::Null)
        .await
        .unwrap_err();
    assert_eq!(code, 500);
    assert!(why.contains("DisksNotLiveMigratable"), "{why}");
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_second_order_is_refused_before_the_instance_has_heard_of_the_first() {
    let world = running().await;
    let cordon = json!({"spec": {"unschedulable": true}});
    world.merge(&NODE, None, "demo-node-2", cordon).await;
    world.create(&MIGRATION, NS, migration()).await;
    world.settle().await;
    assert_eq!(phase(&world).await, "Scheduling");
    let instance = world.get(&INSTANCE, NS, "v").await.unwrap();
    assert!(instance.data["status"]["migrationState"].is_null());
    let why = refusal(&world, "other").await;
    assert!(why.contains("in-flight migration detected"), "{why}");
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn one_migration_at_a_time() {
    let world = running().await;
    world
        .rules
        .add(Rule::hold(stages::MIGRATION_DONE, Selector::all()));
    world
        .ask("virtualmachines/v/migrate", Value::Null)
        .await
        .unwrap();
    world.settle().await;
    let why = refusal(&world, "other").await;
    assert!(why.contains("in-flight migration detected"), "{why}");
    world.rules.clear(stages::MIGRATION_DONE);
    world.settle().await;
    let instance = world.get(&INSTANCE, NS, "v").await.unwrap();
    assert_eq!(text(&instance, "/status/nodeName"), "demo-node-2");
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_drained_node_is_left() {
    let world = running().await;
    let taint = json!({"spec": {"taints": [{"key": "kubevirt.io/drain", "effect": "NoSchedule"}]}});
    world.merge(&NODE, None, "demo-node", taint).await;
    world.settle().await;
    let instance = world.get(&INSTANCE, NS, "v").await.unwrap();
    assert_eq!(text(&instance, "/status/nodeName"), "demo-node-2");
    let all = world.list(&MIGRATION, NS).await;
    assert_eq!(all.len(), 1);
    let annotations = all[0].metadata.annotations.as_ref().unwrap();
    assert_eq!(annotations["kubevirt.io/evacuationMigration"], "demo-node");
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn more_processors_and_memory_come_with_a_migration() {
    let world = running().await;
    let more = json!({"spec": {"template": {"spec": {"domain": {
        "cpu": {"sockets": 3}, "memory": {"guest": "2Gi"},
    }}}}});
    world.merge(&VIRTUAL_MACHINE, NS, "v", more).await;
    world.settle().await;
    // By its defaults KubeVirt moves nothing for that.
    let instance = world.get(&INSTANCE, NS, "v").await.unwrap();
    let status = &instance.data["status"];
    assert_eq!(status["currentCPUTopology"]["sockets"], 1);
    assert_eq!(status["nodeName"], "demo-node");
    let conditions = status["conditions"].as_array().unwrap();
    assert!(conditions.iter().any(|c| c["type"] == "HotVCPUChange"));
    let configured = json!({
        "metadata": {"name": "kubevirt"},
        "spec": {"workloadUpdateStrategy": {"workloadUpdateMethods": ["LiveMigrate"]}},
    });
    world.create(&KUBEVIRT_CR, NS, configured).await;
    world.settle().await;
    let instance = world.get(&INSTANCE, NS, "v").await.unwrap();
    let status = &instance.data["status"];
    assert_eq!(status["currentCPUTopology"]["sockets"], 3);
    assert_eq!(status["memory"]["guestCurrent"], "2Gi");
    assert_eq!(status["memory"]["guestAtBoot"], "1Gi");
    assert_eq!(status["nodeName"], "demo-node-2");
    let vm = world.get(&VIRTUAL_MACHINE, NS, "v").await.unwrap();
    let restart = vm.data["status"]["conditions"].as_array().unwrap();
    assert!(!restart.iter().any(|c| c["type"] == "RestartRequired"));
    // Less is another matter.
    let less = json!({"spec": {"template": {"spec": {"domain": {"cpu": {"sockets": 2}}}}}});
    world.merge(&VIRTUAL_MACHINE, NS, "v", less).await;
    world.settle().await;
    let vm = world.get(&VIRTUAL_MACHINE, NS, "v").await.unwrap();
    let conditions = vm.data["status"]["conditions"].as_array().unwrap();
    let restart = conditions
        .iter()
        .find(|c| c["type"] == "RestartRequired")
        .unwrap();
    assert_eq!(
        restart["message"],
        "Reduction of CPU socket count requires a restart"
    );
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_target_that_no_node_takes_waits() {
    let world = running().await;
    let cordon = json!({"spec": {"unschedulable": true}});
    world.merge(&NODE, None, "demo-node-2", cordon).await;
    world.create(&MIGRATION, NS, migration()).await;
    world.settle().await;
    assert_eq!(phase(&world).await, "Scheduling");
    let open = json!({"spec": {"unschedulable": null}});
    world.merge(&NODE, None, "demo-node-2", open).await;
    world.settle().await;
    assert_eq!(phase(&world).await, "Succeeded");
    world.end().await;
}

/// Asks for the end of the Pod `name`, as `kubectl drain` does. Code and words of a
/// refusal.
async fn evict(world: &World, name: &str) -> Result<(), (u16, String)> {
    let client = world.cluster.client();
    let pods = kube::Api::<k8s_openapi::api::core::v1::Pod>::default_namespaced(client);
    match pods.evict(name, &EvictParams::default()).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) => Err((status.code, status.message.clone())),
        Err(other) => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn an_evicted_launcher_moves_and_is_evicted_when_it_has_ended() {
    let world = running().await;
    let pods = world.list(&POD, NS).await;
    let name = pods[0].metadata.name.clone().unwrap();
    let hold = Rule::hold(stages::MIGRATION_DONE, Selector::all());
    world.rules.add(hold);
    let first = evict(&world, &name).await.unwrap_err();
    assert_eq!(first.0, 429);
    let triggered = "Eviction triggered evacuation of VMI \"default/v\"";
    assert!(first.1.ends_with(triggered), "{}", first.1);
    let again = evict(&world, &name).await.unwrap_err();
    assert!(again.1.contains("Evacuation in progress"), "{}", again.1);
    world.settle().await;
    let asked = |instance: &DynamicObject| {
        let all = instance.data["status"]["conditions"].as_array().unwrap();
        let found = all.iter().find(|it| it["type"] == "EvictionRequested");
        found.map(|it| it["lastTransitionTime"].is_string())
    };
    let instance = world.get(&INSTANCE, NS, "v").await.unwrap();
    assert_eq!(asked(&instance), Some(true));
    world.rules.clear(stages::MIGRATION_DONE);
    world.settle().await;
    let instance = world.get(&INSTANCE, NS, "v").await.unwrap();
    assert_eq!(text(&instance, "/status/nodeName"), "demo-node-2");
    assert!(instance.data["status"]["evacuationNodeName"].is_null());
    assert_eq!(asked(&instance), None);
    evict(&world, &name).await.unwrap();
    world.end().await;
}
