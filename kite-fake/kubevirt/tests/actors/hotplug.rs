//! Disks that are plugged into running VMs.

use kite_fake::actors::kind::POD;
use kite_fake::actors::{Rule, Selector};
use kite_fake_kubevirt::kinds::{DATA_VOLUME, INSTANCE, VIRTUAL_MACHINE};
use kite_fake_kubevirt::stages;
use serde_json::{Value, json};

use crate::world::{World, text};

const NS: Option<&str> = Some("default");

async fn running() -> World {
    let world = World::new().await;
    let vm = json!({"metadata": {"name": "v"}, "spec": {"runStrategy": "Always", "template": {
        "spec": {"domain": {"memory": {"guest": "1Gi"}, "devices": {}}, "volumes": []},
    }}});
    world.create(&VIRTUAL_MACHINE, NS, vm).await;
    let disk = json!({"metadata": {"name": "data"}, "spec": {
        "source": {"blank": {}},
        "storage": {"resources": {"requests": {"storage": "1Gi"}}},
    }});
    world.create(&DATA_VOLUME, NS, disk).await;
    world.settle().await;
    world
}

fn add() -> Value {
    json!({
        "name": "extra",
        "disk": {"disk": {"bus": "scsi"}},
        "volumeSource": {"dataVolume": {"name": "data"}},
    })
}

/// What the instance tells of its volume.
async fn told(world: &World) -> Value {
    let instance = world.get(&INSTANCE, NS, "v").await.unwrap();
    let all = instance.data["status"]["volumeStatus"].as_array().cloned();
    let mut all = all.unwrap_or_default().into_iter();
    all.find(|v| v["name"] == "extra").unwrap_or_default()
}

async fn is_restart_required(world: &World) -> bool {
    let vm = world.get(&VIRTUAL_MACHINE, NS, "v").await.unwrap();
    let conditions = vm.data["status"]["conditions"].as_array().unwrap();
    conditions.iter().any(|c| c["type"] == "RestartRequired")
}

#[tokio::test(start_paused = true)]
async fn a_disk_comes_and_goes_while_the_vm_runs() {
    let world = running().await;
    let before = world.get(&INSTANCE, NS, "v").await.unwrap();
    world
        .rules
        .add(Rule::hold(stages::VOLUME_ATTACHED, Selector::all()));
    world
        .ask("virtualmachines/v/addvolume", add())
        .await
        .unwrap();
    world.settle().await;
    let mounted = told(&world).await;
    assert_eq!(mounted["phase"], "MountedToPod");
    assert_eq!(mounted["reason"], "VolumeMountedToPod");
    world.rules.clear(stages::VOLUME_ATTACHED);
    world.settle().await;
    let ready = told(&world).await;
    assert_eq!(ready["phase"], "Ready");
    assert_eq!(
        ready["message"],
        "Successfully attach hotplugged volume extra to VM"
    );
    assert_eq!(ready["target"], "sda");
    assert_eq!(ready["persistentVolumeClaimInfo"]["claimName"], "data");
    let pod = ready["hotplugVolume"]["attachPodName"].as_str().unwrap();
    assert!(pod.starts_with("hp-volume-"), "{pod}");
    assert!(world.get(&POD, NS, pod).await.is_some());
    assert!(!is_restart_required(&world).await);

    let off = json!({"name": "extra"});
    world
        .ask("virtualmachines/v/removevolume", off)
        .await
        .unwrap();
    world.settle().await;
    assert_eq!(told(&world).await, Value::Null);
    assert!(world.get(&POD, NS, pod).await.is_none());
    let after = world.get(&INSTANCE, NS, "v").await.unwrap();
    assert_eq!(after.metadata.uid, before.metadata.uid);
    assert!(!is_restart_required(&world).await);
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_disk_that_is_not_filled_is_waited_for() {
    let world = running().await;
    world
        .rules
        .add(Rule::hold(stages::DISK_STEP, Selector::named("late")));
    let mut add = add();
    add["volumeSource"]["dataVolume"]["name"] = json!("late");
    world.ask("virtualmachines/v/addvolume", add).await.unwrap();
    world.settle().await;
    let missing = told(&world).await;
    assert_eq!(missing["reason"], "FailedPvcNotFound");
    assert_eq!(missing["message"], "PVC late not found");
    let disk = json!({"metadata": {"name": "late"}, "spec": {
        "source": {"blank": {}},
        "storage": {"resources": {"requests": {"storage": "1Gi"}}},
    }});
    world.create(&DATA_VOLUME, NS, disk).await;
    world.settle().await;
    assert_eq!(
        told(&world).await["message"],
        "PVC is in phase ClaimPending"
    );
    world.rules.clear(stages::DISK_STEP);
    world.settle().await;
    assert_eq!(told(&world).await["phase"], "Ready");
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_disk_of_the_instance_alone_goes_with_it() {
    let world = running().await;
    world
        .ask("virtualmachineinstances/v/addvolume", add())
        .await
        .unwrap();
    world.settle().await;
    assert_eq!(told(&world).await["phase"], "Ready");
    world
        .ask("virtualmachines/v/restart", Value::Null)
        .await
        .unwrap();
    world.settle().await;
    assert_eq!(told(&world).await, Value::Null);
    let instance = world.get(&INSTANCE, NS, "v").await.unwrap();
    assert_eq!(text(&instance, "/status/phase"), "Running");
    assert_eq!(world.list(&POD, NS).await.len(), 1);
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn what_makes_no_sense_is_refused() {
    let world = running().await;
    let path = "virtualmachines/v/addvolume";
    let why = world.ask(path, Value::Null).await.unwrap_err();
    assert_eq!(why.0, 400);
    let why = world.ask(path, json!({"name": "x"})).await.unwrap_err();
    assert_eq!(
        why,
        (
            400,
            "AddVolumeOptions requires disk to not be nil".to_owned()
        )
    );
    world.ask(path, add()).await.unwrap();
    let (code, why) = world.ask(path, add()).await.unwrap_err();
    assert_eq!(code, 409);
    assert!(
        why.contains("Unable to add volume [extra] because volume with that name already exists"),
        "{why}"
    );
    let path = "virtualmachines/v/removevolume";
    let (code, why) = world.ask(path, json!({"name": "no"})).await.unwrap_err();
    assert_eq!(code, 409);
    assert!(why.contains("does not exist"), "{why}");
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_disk_that_is_no_hot_plug_needs_a_restart() {
    let world = running().await;
    let more = json!({"spec": {"template": {"spec": {
        "volumes": [{"name": "extra", "dataVolume": {"name": "data"}}],
    }}}});
    world.merge(&VIRTUAL_MACHINE, NS, "v", more).await;
    world.settle().await;
    assert!(is_restart_required(&world).await);
    world.end().await;
}
