//! What is asked of VMs directly, and what is refused.

use kite_fake_kubevirt::kinds::{DATA_VOLUME, INSTANCE, VIRTUAL_MACHINE};
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::world::{World, text};

const NS: Option<&str> = Some("default");

fn machine(strategy: &str) -> Value {
    json!({
        "metadata": {"name": "v"},
        "spec": {"runStrategy": strategy, "template": {"spec": {
            "domain": {"memory": {"guest": "1Gi"}, "devices": {}}, "volumes": [],
        }}},
    })
}

async fn ask(world: &World, path: &str) -> Result<(), (u16, String)> {
    world.ask(path, Value::Null).await?;
    world.settle().await;
    Ok(())
}

async fn printable(world: &World) -> String {
    let vm = world.get(&VIRTUAL_MACHINE, NS, "v").await.unwrap();
    text(&vm, "/status/printableStatus").to_owned()
}

#[tokio::test(start_paused = true)]
async fn a_restart_gives_another_instance() {
    let world = World::new().await;
    world.create(&VIRTUAL_MACHINE, NS, machine("Always")).await;
    world.settle().await;
    let before = world.get(&INSTANCE, NS, "v").await.unwrap();
    ask(&world, "virtualmachines/v/restart").await.unwrap();
    let after = world.get(&INSTANCE, NS, "v").await.unwrap();
    assert_ne!(before.metadata.uid, after.metadata.uid);
    assert_eq!(printable(&world).await, "Running");
    let vm = world.get(&VIRTUAL_MACHINE, NS, "v").await.unwrap();
    assert!(vm.data["status"]["stateChangeRequests"].is_null());
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_manual_vm_starts_and_stops_by_request() {
    let world = World::new().await;
    world.create(&VIRTUAL_MACHINE, NS, machine("Manual")).await;
    world.settle().await;
    assert_eq!(printable(&world).await, "Stopped");
    ask(&world, "virtualmachines/v/start").await.unwrap();
    assert_eq!(printable(&world).await, "Running");
    let again = ask(&world, "virtualmachines/v/start").await.unwrap_err();
    assert_eq!(again.0, 409);
    ask(&world, "virtualmachines/v/stop").await.unwrap();
    assert_eq!(printable(&world).await, "Stopped");
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn an_instance_can_be_paused() {
    let world = World::new().await;
    world.create(&VIRTUAL_MACHINE, NS, machine("Always")).await;
    world.settle().await;
    ask(&world, "virtualmachineinstances/v/pause")
        .await
        .unwrap();
    assert_eq!(printable(&world).await, "Paused");
    ask(&world, "virtualmachineinstances/v/unpause")
        .await
        .unwrap();
    assert_eq!(printable(&world).await, "Running");
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn what_makes_no_sense_is_refused() {
    let world = World::new().await;
    world.create(&VIRTUAL_MACHINE, NS, machine("Halted")).await;
    world.settle().await;
    let (code, message) = ask(&world, "virtualmachines/v/restart").await.unwrap_err();
    assert_eq!(code, 409);
    assert!(
        message.contains("Halted does not support manual restart requests"),
        "{message}"
    );
    assert_eq!(
        ask(&world, "virtualmachines/none/start")
            .await
            .unwrap_err()
            .0,
        404
    );
    let (code, message) = ask(&world, "virtualmachines/v/memorydump")
        .await
        .unwrap_err();
    assert_eq!(code, 501);
    assert!(message.contains("virtualmachines/memorydump"), "{message}");
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn what_kubevirt_and_cdi_refuse_is_refused() {
    let world = World::new().await;
    let disk = json!({"metadata": {"name": "d"}, "spec": {
        "source": {"blank": {}},
        "storage": {"resources": {"requests": {"storage": "1Gi"}}},
    }});
    world.create(&DATA_VOLUME, NS, disk).await;
    let grow = json!({"spec": {"storage": {"resources": {"requests": {"storage": "2Gi"}}}}});
    let api = DATA_VOLUME.api(&world.cluster.client(), NS);
    let refused = api
        .patch("d", &PatchParams::default(), &Patch::Merge(grow))
        .await;
    let message = refused.unwrap_err().to_string();
    assert!(
        message.contains("Cannot update DataVolume Spec"),
        "{message}"
    );

    let mut vm = machine("Always");
    vm["apiVersion"] = json!("kubevirt.io/v1");
    vm["kind"] = json!("VirtualMachine");
    vm["spec"]["template"]["spec"]["domain"]["memory"] = Value::Null;
    let vm: DynamicObject = serde_json::from_value(vm).unwrap();
    let api = VIRTUAL_MACHINE.api(&world.cluster.client(), NS);
    let refused = api.create(&PostParams::default(), &vm).await;
    let message = refused.unwrap_err().to_string();
    assert!(
        message.contains("virtualmachine-validator.kubevirt.io"),
        "{message}"
    );
    assert!(message.contains("no memory requested"), "{message}");
    world.end().await;
}
