//! What a user may have at most, whatever they ask for afterwards.

use k8s_openapi::api::core::v1::{Namespace, PersistentVolumeClaim};
use kite_core::{
    cdi::DataVolume,
    conditions::find,
    crd::{KiteUser, KiteVirtualMachine, VmPhase},
    kubevirt::VirtualMachine,
};
use serde_json::{Value, json};

use crate::world::{World, named, vm_named};

const ANN: &str = "kite-user-ann";

/// Ann, who may have 4 CPUs, 8Gi of memory and 30Gi of disk, and her VM `web`
/// with 2 CPUs, 2Gi and 10Gi.
async fn with_quota() -> World {
    let world = World::with_ann().await;
    let ann = world.find::<KiteUser>("", "ann").await.unwrap();
    let quota = json!({"vms": 5, "cpu": 4, "memory": "8Gi", "disk": "30Gi"});
    world.edit(&ann, json!({"spec": {"quota": quota}})).await;
    world.create(vm_named("web")).await;
    world.settle().await;
    world
}

/// Asks for something else of `web`.
async fn ask(world: &World, spec: Value) -> KiteVirtualMachine {
    let vm = world.vm("web").await;
    world.edit(&vm, json!({"spec": spec})).await;
    world.settle().await;
    world.vm("web").await
}

/// Reason and message of a condition.
fn says(vm: &KiteVirtualMachine, condition: &str) -> (String, String) {
    let status = vm.status.as_ref().unwrap();
    let found = find(&status.conditions, condition).unwrap().clone();
    (found.reason, found.message)
}

/// CPUs and memory of the machine of `name`.
async fn machine(world: &World, name: &str) -> (Option<u32>, Option<String>) {
    let machine: VirtualMachine = world.find(ANN, name).await.unwrap();
    let domain = machine.spec.template.spec.domain;
    let memory = domain.memory.and_then(|memory| memory.guest);
    (
        domain.cpu.and_then(|cpu| cpu.sockets),
        memory.map(|memory| memory.0),
    )
}

async fn claimed(world: &World) -> String {
    let claim: PersistentVolumeClaim = world.find(ANN, "web-disk").await.unwrap();
    claim.spec.unwrap().resources.unwrap().requests.unwrap()["storage"]
        .0
        .clone()
}

#[tokio::test(start_paused = true)]
async fn a_vm_that_is_made_more_of_than_the_quota_has_stays_as_it_is() {
    let world = with_quota().await;
    let vm = ask(&world, json!({"cpu": 5, "memory": "9Gi"})).await;
    assert_eq!(
        machine(&world, "web").await,
        (Some(2), Some("2Gi".to_owned()))
    );
    assert_eq!(vm.status.as_ref().unwrap().phase, Some(VmPhase::Running));
    let (reason, message) = says(&vm, "Ready");
    assert_eq!(reason, "QuotaExceeded");
    for part in ["spec.cpu", "5 CPUs", "0 CPUs", "4 CPUs"] {
        assert!(message.contains(part), "{part}: {message}");
    }
    world.pass().await;
    assert_eq!(world.writes(), Vec::<String>::new(), "told once");

    // One of the two fits, and the other is still told.
    let vm = ask(&world, json!({"cpu": 4})).await;
    assert_eq!(
        machine(&world, "web").await,
        (Some(4), Some("2Gi".to_owned()))
    );
    let (_, message) = says(&vm, "VirtualMachineReady");
    assert!(message.contains("spec.memory") && message.contains("9Gi"));

    // What is refused holds up nothing else.
    ask(&world, json!({"powerState": "Off"})).await;
    let stopped: VirtualMachine = world.find(ANN, "web").await.unwrap();
    assert_eq!(stopped.spec.run_strategy.as_deref(), Some("Halted"));

    let ann = world.find::<KiteUser>("", "ann").await.unwrap();
    world
        .edit(&ann, json!({"spec": {"quota": {"memory": "9Gi"}}}))
        .await;
    world.settle().await;
    assert_eq!(
        machine(&world, "web").await,
        (Some(4), Some("9Gi".to_owned()))
    );
    assert_eq!(says(&world.vm("web").await, "Ready").0, "Stopped");
}

#[tokio::test(start_paused = true)]
async fn a_disk_does_not_grow_beyond_the_quota() {
    let world = with_quota().await;
    let vm = ask(&world, json!({"disk": "31Gi"})).await;
    assert_eq!(claimed(&world).await, "10Gi");
    let (reason, message) = says(&vm, "DiskReady");
    assert_eq!(reason, "QuotaExceeded");
    for part in ["spec.disk", "31Gi", "30Gi"] {
        assert!(message.contains(part), "{part}: {message}");
    }
    assert_eq!(vm.status.as_ref().unwrap().phase, Some(VmPhase::Running));

    let ann = world.find::<KiteUser>("", "ann").await.unwrap();
    world
        .edit(&ann, json!({"spec": {"quota": {"disk": "40Gi"}}}))
        .await;
    world.settle().await;
    assert_eq!(claimed(&world).await, "31Gi");
}

#[tokio::test(start_paused = true)]
async fn of_two_that_ask_for_the_last_of_it_none_gets_what_the_other_has() {
    let world = with_quota().await;
    let mut other = vm_named("other");
    other.spec.cpu = 1;
    world.create(other).await;
    world.settle().await;
    for (name, cpu) in [("web", 3), ("other", 2)] {
        let vm = world.vm(name).await;
        world.edit(&vm, json!({"spec": {"cpu": cpu}})).await;
    }
    world.settle().await;
    let sum = machine(&world, "web").await.0.unwrap() + machine(&world, "other").await.0.unwrap();
    assert!(sum <= 4, "{sum} CPUs of 4");
    assert_eq!(says(&world.vm("web").await, "Ready").0, "QuotaExceeded");

    // Whoever gives way lets the other have it.
    ask(&world, json!({"cpu": 2})).await;
    assert_eq!(machine(&world, "other").await.0, Some(2));
    for name in ["web", "other"] {
        assert_eq!(says(&world.vm(name).await, "Ready").0, "Running");
    }
}

#[tokio::test(start_paused = true)]
async fn a_spec_that_grew_before_the_machine_was_made_is_judged_again() {
    let world = with_quota().await;
    let machine: VirtualMachine = world.find(ANN, "web").await.unwrap();
    world.delete(&machine).await;
    let vm = ask(&world, json!({"cpu": 256})).await;
    assert!(world.find::<VirtualMachine>(ANN, "web").await.is_none());
    assert_eq!(says(&vm, "Ready").0, "QuotaExceeded");
    assert!(world.find::<DataVolume>(ANN, "web-disk").await.is_some());

    ask(&world, json!({"cpu": 2})).await;
    assert!(world.find::<VirtualMachine>(ANN, "web").await.is_some());
}

#[tokio::test(start_paused = true)]
async fn what_a_smaller_quota_leaves_no_room_for_runs_on() {
    let world = with_quota().await;
    let ann = world.find::<KiteUser>("", "ann").await.unwrap();
    world
        .edit(&ann, json!({"spec": {"quota": {"cpu": 1}}}))
        .await;
    world.settle().await;
    assert_eq!(machine(&world, "web").await.0, Some(2));
    assert_eq!(says(&world.vm("web").await, "Ready").0, "Running");
    // Drift is put right as before.
    let drifted: VirtualMachine = world.find(ANN, "web").await.unwrap();
    let patch = json!({"spec": {"template": {"spec": {"domain": {"cpu": {"sockets": 9}}}}}});
    world.edit(&drifted, patch).await;
    world.settle().await;
    assert_eq!(machine(&world, "web").await.0, Some(2));
}

#[tokio::test(start_paused = true)]
async fn nothing_is_made_in_a_users_namespace_without_the_user() {
    let world = World::with_ann().await;
    world
        .create(Namespace {
            metadata: named("kite-user-ghost"),
            ..Namespace::default()
        })
        .await;
    let mut vm = vm_named("web");
    vm.metadata.namespace = Some("kite-user-ghost".to_owned());
    world.create(vm).await;
    world.settle().await;
    let vm: KiteVirtualMachine = world.find("kite-user-ghost", "web").await.unwrap();
    let (reason, message) = says(&vm, "Ready");
    assert_eq!(reason, "UserMissing");
    assert!(message.contains("KiteUser ghost"), "{message}");
    assert!(
        world
            .find::<DataVolume>("kite-user-ghost", "web-disk")
            .await
            .is_none()
    );
}
