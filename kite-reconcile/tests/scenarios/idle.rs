//! A VM that nobody uses is switched off, and is on again when its owner wants
//! it.

use std::time::Duration;

use jiff::SignedDuration;
use kite_core::{
    activity,
    cluster::Cluster as _,
    conditions::{find, is_true},
    crd::{KiteVirtualMachine, PowerState, VmPhase},
    kubevirt::VirtualMachine,
};
use kite_reconcile::vm;
use kube::runtime::controller::Action;
use serde_json::json;

use crate::world::{Fault, FaultMode, World, vm_named};

const ANN: &str = "kite-user-ann";
/// Half an idle timeout.
const HALF: SignedDuration = SignedDuration::from_mins(5);

/// A running VM that is switched off after ten minutes without a session.
async fn idling(world: &World) {
    let mut vm = vm_named("web");
    vm.spec.idle_timeout = Some("10m".parse().unwrap());
    world.create(vm).await;
    world.settle().await;
    assert_eq!(phase(&world.vm("web").await), VmPhase::Running);
}

fn phase(vm: &KiteVirtualMachine) -> VmPhase {
    vm.status.as_ref().unwrap().phase.unwrap()
}

async fn wait(span: SignedDuration) {
    tokio::time::sleep(Duration::try_from(span).unwrap()).await;
}

async fn run_strategy(world: &World) -> Option<String> {
    let machine = world.find::<VirtualMachine>(ANN, "web").await.unwrap();
    machine.spec.run_strategy
}

/// Reports that `vm` is being used now, as the gateway does.
async fn use_it(world: &World, vm: &KiteVirtualMachine) {
    let uid = vm.metadata.uid.as_deref().unwrap();
    let lease = activity::report(ANN, "web", uid, world.now());
    let manager = kite_core::managers::GATEWAY;
    world.cluster.apply(manager, &lease).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_vm_that_nobody_uses_is_switched_off() {
    let world = World::with_ann().await;
    idling(&world).await;
    wait(HALF).await;
    world.settle().await;
    let vm = world.vm("web").await;
    assert_eq!(phase(&vm), VmPhase::Running);
    let idle = find(&vm.status.as_ref().unwrap().conditions, "Idle").unwrap();
    assert_eq!((&*idle.status, &*idle.reason), ("False", "NotIdle"));

    wait(HALF).await;
    world.settle().await;
    let vm = world.vm("web").await;
    let status = vm.status.as_ref().unwrap();
    assert_eq!(phase(&vm), VmPhase::Stopped);
    // The owner's wish is left alone.
    assert_eq!(vm.spec.power_state, PowerState::On);
    assert_eq!(run_strategy(&world).await.as_deref(), Some("Halted"));
    assert!(is_true(&status.conditions, "Idle"));
    let ready = find(&status.conditions, "Ready").unwrap();
    assert_eq!((&*ready.status, &*ready.reason), ("False", "Idle"));
    assert!(
        ready.message.contains("starts it again"),
        "{}",
        ready.message
    );

    // It stays off, and nothing is written for that.
    wait(9 * HALF).await;
    assert_eq!(world.settle().await, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_vm_in_use_runs_on() {
    let world = World::with_ann().await;
    idling(&world).await;
    for _ in 0..5 {
        wait(HALF).await;
        use_it(&world, &world.vm("web").await).await;
        wait(HALF / 2).await;
        assert_eq!(world.settle().await, Vec::<String>::new());
    }
    // It is looked at again when it may be idle.
    let vm = world.vm("web").await;
    let action = vm::reconcile(&vm, &world.context).await.unwrap();
    assert_ne!(action, Action::requeue(Duration::from_secs(600)));
    wait(HALF / 2 * 3).await;
    world.settle().await;
    assert_eq!(phase(&world.vm("web").await), VmPhase::Stopped);
}

#[tokio::test(start_paused = true)]
async fn any_edit_starts_an_idle_vm_again() {
    let world = World::with_ann().await;
    idling(&world).await;
    wait(3 * HALF).await;
    world.settle().await;
    assert_eq!(phase(&world.vm("web").await), VmPhase::Stopped);

    // Off and on between two looks of the controller.
    for power in ["Off", "On"] {
        let patch = json!({"spec": {"powerState": power}});
        world.edit(&world.vm("web").await, patch).await;
    }
    world.settle().await;
    let vm = world.vm("web").await;
    assert_eq!(phase(&vm), VmPhase::Running);
    assert_eq!(vm.status.unwrap().idle, None);
    wait(HALF).await;
    world.settle().await;
    assert_eq!(phase(&world.vm("web").await), VmPhase::Running);
    wait(HALF).await;
    world.settle().await;
    assert_eq!(phase(&world.vm("web").await), VmPhase::Stopped);
}

#[tokio::test(start_paused = true)]
async fn a_login_starts_an_idle_vm_again() {
    let world = World::with_ann().await;
    idling(&world).await;
    wait(3 * HALF).await;
    world.settle().await;
    assert_eq!(phase(&world.vm("web").await), VmPhase::Stopped);
    use_it(&world, &world.vm("web").await).await;
    world.settle().await;
    let vm = world.vm("web").await;
    assert_eq!(phase(&vm), VmPhase::Running);
    assert_eq!(vm.status.unwrap().idle, None);
}

#[tokio::test(start_paused = true)]
async fn a_vm_that_is_off_is_not_idle() {
    let world = World::with_ann().await;
    idling(&world).await;
    let patch = json!({"spec": {"powerState": "Off"}});
    world.edit(&world.vm("web").await, patch).await;
    world.settle().await;
    wait(3 * HALF).await;
    world.settle().await;
    let conditions = world.vm("web").await.status.unwrap().conditions;
    assert_eq!(find(&conditions, "Idle").unwrap().status, "False");
    assert!(is_true(&conditions, "Ready"), "{conditions:?}");
}

#[tokio::test(start_paused = true)]
async fn use_that_is_reported_while_the_stop_is_planned_wins() {
    let world = World::with_ann().await;
    idling(&world).await;
    wait(2 * HALF).await;
    // The decision is written down, and nothing has come of it.
    let vm = world.vm("web").await;
    let action = vm::reconcile(&vm, &world.context).await.unwrap();
    assert_eq!(action, Action::requeue(Duration::ZERO));
    let vm = world.vm("web").await;
    assert!(vm.status.as_ref().unwrap().idle.is_some());
    assert_eq!(run_strategy(&world).await.as_deref(), Some("Always"));

    use_it(&world, &vm).await;
    world.writes();
    let written = world.settle().await;
    assert_eq!(written, ["status KiteVirtualMachine kite-user-ann/web"]);
    let vm = world.vm("web").await;
    assert_eq!(phase(&vm), VmPhase::Running);
    assert_eq!(vm.status.unwrap().idle, None);
}

#[tokio::test(start_paused = true)]
async fn what_was_reported_of_an_earlier_vm_counts_for_nothing() {
    let world = World::with_ann().await;
    idling(&world).await;
    let mut earlier = world.vm("web").await;
    earlier.metadata.uid = Some("7a0e".to_owned());
    wait(HALF).await;
    use_it(&world, &earlier).await;
    wait(HALF).await;
    world.settle().await;
    assert_eq!(phase(&world.vm("web").await), VmPhase::Stopped);
}

#[tokio::test(start_paused = true)]
async fn crashes_leave_an_idle_vm_off() {
    for mode in [FaultMode::Lost, FaultMode::AnswerLost] {
        let mut world = World::with_ann().await;
        world.only_vms = true;
        let mut writes = 0;
        for after in 0..10 {
            idling(&world).await;
            world.inject(Fault { after, mode });
            wait(2 * HALF).await;
            world.settle().await;
            assert_eq!(phase(&world.vm("web").await), VmPhase::Stopped);
            assert_eq!(run_strategy(&world).await.as_deref(), Some("Halted"));
            let was_last = world.fault_is_left();
            world.delete(&world.vm("web").await).await;
            world.settle().await;
            if was_last {
                writes = after;
                break;
            }
        }
        assert!(writes >= 3, "{mode:?}: {writes} writes");
    }
}

#[tokio::test(start_paused = true)]
async fn a_vm_that_runs_for_long_is_not_idle_when_it_gets_a_timeout() {
    let world = World::with_ann().await;
    world.create(vm_named("web")).await;
    world.settle().await;
    wait(9 * HALF).await;
    let vm = world.vm("web").await;
    // Nobody has reported its use: it had no timeout, and somebody may be on it.
    world
        .edit(&vm, json!({"spec": {"idleTimeout": "10m"}}))
        .await;
    world.settle().await;
    wait(HALF).await;
    world.settle().await;
    assert_eq!(phase(&world.vm("web").await), VmPhase::Running);
    wait(HALF).await;
    world.settle().await;
    assert_eq!(phase(&world.vm("web").await), VmPhase::Stopped);
}
