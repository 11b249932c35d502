//! `spec.restartedAt`, against what plays `KubeVirt`'s controllers and API.

use std::time::Duration;

use kite_core::{
    cluster::{Cluster as _, ObjectKey},
    crd::{KiteVirtualMachine, VmPhase},
    kubevirt::{VirtualMachine, VirtualMachineInstance},
};
use kite_reconcile::{Context, vm};
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use serde_json::json;

use crate::world::{Fault, FaultMode, World, vm_named};

const ANN: &str = "kite-user-ann";

async fn running() -> World {
    let world = World::played().await;
    world.create(vm_named("web")).await;
    world.settle().await;
    world
}

async fn instance(world: &World) -> Option<String> {
    let instance = world.find::<VirtualMachineInstance>(ANN, "web").await;
    instance.and_then(|instance| instance.metadata.uid)
}

async fn ask(world: &World, at: &str) {
    let vm = world.vm("web").await;
    world.edit(&vm, json!({"spec": {"restartedAt": at}})).await;
}

fn restarts(written: &[String]) -> usize {
    let restart = |line: &&String| line.starts_with("restart VirtualMachine");
    written.iter().filter(restart).count()
}

/// Settles, and once more when whoever asked before has had time enough.
async fn settle_at_last(world: &World) -> Vec<String> {
    let mut written = world.settle().await;
    tokio::time::sleep(Duration::from_secs(31)).await;
    written.extend(world.settle().await);
    written
}

async fn is_running(world: &World) -> bool {
    world.vm("web").await.status.unwrap().phase == Some(VmPhase::Running)
}

/// `poweroff` in the guest: `KubeVirt` starts what is to be on, and Kite has no part in it.
#[tokio::test(start_paused = true)]
async fn a_guest_that_is_switched_off_from_within_starts_again() {
    let world = running().await;
    let before = instance(&world).await;
    let client = world.cluster.client().clone();
    let instances = Api::<VirtualMachineInstance>::namespaced(client, ANN);
    let ended = Patch::Merge(json!({"status": {"phase": "Succeeded"}}));
    instances
        .patch_status("web", &PatchParams::default(), &ended)
        .await
        .unwrap();
    let written = settle_at_last(&world).await;
    assert!(is_running(&world).await);
    let after = instance(&world).await;
    assert!(after.is_some() && after != before, "it is another instance");
    let others = |line: &&String| !line.starts_with("status ");
    assert_eq!(written.iter().find(others), None, "{written:?}");
}

#[tokio::test(start_paused = true)]
async fn each_value_restarts_a_running_vm_once() {
    let world = running().await;
    let mut before = instance(&world).await;
    // The second lies in the past, the third in the future: no clock is asked.
    for at in [
        "2026-05-04T08:00:00Z",
        "1999-01-01T00:00:00Z",
        "2999-01-01T00:00:00+02:00",
    ] {
        ask(&world, at).await;
        let written = world.settle().await;
        assert_eq!(restarts(&written), 1, "{written:#?}");
        let after = instance(&world).await;
        assert!(after.is_some() && after != before);
        before = after;
        let restart = world.vm("web").await.status.unwrap().restart.unwrap();
        assert_eq!(restart.restarted_at, at);
    }
    world.pass().await;
    assert_eq!(world.writes(), Vec::<String>::new());
    assert!(is_running(&world).await);
    let machine = world.find::<VirtualMachine>(ANN, "web").await.unwrap();
    let annotations = machine.metadata.annotations.unwrap_or_default();
    assert!(!annotations.keys().any(|key| key.contains("restart")));
}

#[tokio::test(start_paused = true)]
async fn a_crash_or_a_lost_answer_is_no_second_restart_and_loses_none() {
    // The note in the status comes first, then the restart.
    for (mode, after) in [
        (FaultMode::AnswerLost, 0),
        (FaultMode::Lost, 1),
        (FaultMode::AnswerLost, 1),
        (FaultMode::Conflict, 1),
    ] {
        let mut world = running().await;
        world.only_vms = true;
        let before = world
            .find::<VirtualMachineInstance>(ANN, "web")
            .await
            .unwrap();
        ask(&world, "2026-05-04T08:00:00Z").await;
        world.inject(Fault { after, mode });
        settle_at_last(&world).await;
        world.fault_is_left();
        let instance = world
            .find::<VirtualMachineInstance>(ANN, "web")
            .await
            .unwrap();
        assert_ne!(
            before.metadata.uid, instance.metadata.uid,
            "{mode:?} {after}"
        );
        // What was asked is done: another request for the same would be a second.
        settle_at_last(&world).await;
        let later = world
            .find::<VirtualMachineInstance>(ANN, "web")
            .await
            .unwrap();
        assert_eq!(
            later.metadata.uid, instance.metadata.uid,
            "{mode:?} {after}"
        );
        assert!(is_running(&world).await);
    }
}

#[tokio::test(start_paused = true)]
async fn a_vm_that_is_off_has_nothing_to_restart() {
    let world = running().await;
    let vm = world.vm("web").await;
    world
        .edit(
            &vm,
            json!({"spec": {"powerState": "Off", "restartedAt": "2026-05-04T08:00:00Z"}}),
        )
        .await;
    let written = world.settle().await;
    assert_eq!(restarts(&written), 0, "{written:#?}");
    assert_eq!(instance(&world).await, None);

    // It was seen to: switching on is a start and no restart.
    world.edit(&vm, json!({"spec": {"powerState": "On"}})).await;
    let written = world.settle().await;
    assert_eq!(restarts(&written), 0, "{written:#?}");
    assert!(is_running(&world).await);
}

#[tokio::test(start_paused = true)]
async fn a_vm_that_restarted_by_itself_meanwhile_is_not_restarted_again() {
    let world = running().await;
    ask(&world, "2026-05-04T08:00:00Z").await;
    // Only the note is written; then the guest crashes before anybody is asked.
    world.inject(Fault {
        after: 1,
        mode: FaultMode::Lost,
    });
    world.pass().await;
    world.writes();
    let first = world
        .find::<VirtualMachineInstance>(ANN, "web")
        .await
        .unwrap();
    world.delete(&first).await;
    let written = settle_at_last(&world).await;
    assert_eq!(restarts(&written), 0, "{written:#?}");
    assert_ne!(instance(&world).await, first.metadata.uid);
}

#[tokio::test(start_paused = true)]
async fn of_two_controllers_one_asks() {
    let world = running().await;
    let before = instance(&world).await;
    ask(&world, "2026-05-04T08:00:00Z").await;
    let (cluster, first) = (world.cluster.clone(), before.clone());
    let clock = world.context.shared.clock.clone();
    let other = Context::new(cluster.clone()).with_clock(move || clock());
    // It has looked at everything and is slow to ask; the other does not wait.
    world.meanwhile("restart VirtualMachine", async move {
        let key = ObjectKey::namespaced(ANN, "web");
        for _ in 0..3 {
            let vm = cluster.get::<KiteVirtualMachine>(&key).await.unwrap();
            vm::reconcile(&vm, &other).await.unwrap();
            tokio::time::sleep(Duration::from_secs(5)).await;
        }
        let there = cluster.get::<VirtualMachineInstance>(&key).await.unwrap();
        assert_eq!(there.metadata.uid, first, "the other restarts it, too");
    });
    settle_at_last(&world).await;
    assert!(!world.meanwhile_is_left());
    assert_ne!(instance(&world).await, before);
    assert!(is_running(&world).await);
}

#[tokio::test(start_paused = true)]
async fn a_new_vm_is_not_restarted_for_what_was_asked_before_it_ran() {
    let world = World::played().await;
    let mut vm = vm_named("web");
    vm.spec.restarted_at = Some("2026-05-04T08:00:00Z".to_owned());
    world.create(vm).await;
    let written = world.settle().await;
    assert_eq!(restarts(&written), 0, "{written:#?}");
    assert!(is_running(&world).await);
}

#[tokio::test(start_paused = true)]
async fn what_is_no_time_is_refused() {
    let world = running().await;
    let mut vm = vm_named("other");
    vm.spec.restarted_at = Some("now".to_owned());
    let error = world.try_create(vm).await.unwrap_err().to_string();
    assert!(error.contains("restartedAt"), "{error}");
}
