//! A VM whose time is over is switched off, and deleted when its grace period is
//! over, too; until then its owner can keep it.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kite_core::{
    cdi::DataVolume,
    cluster::{Cluster as _, ClusterError},
    conditions::find,
    crd::{KiteUser, KiteVirtualMachine, PowerState, VmPhase},
    kubevirt::VirtualMachine,
};
use kite_reconcile::vm;
use kube::{api::PropagationPolicy, runtime::controller::Action};
use serde_json::json;

use crate::world::{Fault, FaultMode, World, vm_named};

const ANN: &str = "kite-user-ann";
const MINUTE: SignedDuration = SignedDuration::from_mins(1);

/// A VM that runs, expires in two minutes, and is kept for one more.
async fn expiring(world: &World) -> Timestamp {
    let expires_at = world.now() + 2 * MINUTE;
    let mut vm = vm_named("web");
    let limits = json!({"expiresAt": expires_at.to_string(), "expiryGracePeriod": "1m"});
    let mut spec = serde_json::to_value(&vm.spec).unwrap();
    spec.as_object_mut()
        .unwrap()
        .extend(limits.as_object().unwrap().clone());
    vm.spec = serde_json::from_value(spec).unwrap();
    world.create(vm).await;
    world.settle().await;
    assert_eq!(phase(&world.vm("web").await), VmPhase::Running);
    expires_at
}

fn phase(vm: &KiteVirtualMachine) -> VmPhase {
    vm.status.as_ref().unwrap().phase.unwrap()
}

/// Status, reason and message of a condition.
fn says(vm: &KiteVirtualMachine, condition: &str) -> (String, String, String) {
    let conditions = &vm.status.as_ref().unwrap().conditions;
    let found = find(conditions, condition).unwrap().clone();
    (found.status, found.reason, found.message)
}

async fn wait(span: SignedDuration) {
    tokio::time::sleep(Duration::try_from(span).unwrap()).await;
}

async fn wait_until(world: &World, at: Timestamp) {
    wait(at.duration_since((world.context.shared.clock)())).await;
}

/// Whether `action` is to look again after `seconds`, to the hundredth.
fn is_about(action: &Action, seconds: f64) -> bool {
    let text = format!("{action:?}");
    let printed = text.split(['(', ')']).nth(1).unwrap();
    let printed: SignedDuration = printed.parse().unwrap();
    (printed.as_secs_f64() - seconds).abs() < 0.01
}

async fn disk_uid(world: &World) -> Option<String> {
    let disk = world.find::<DataVolume>(ANN, "web-disk").await?;
    disk.metadata.uid
}

async fn run_strategy(world: &World) -> Option<String> {
    let machine = world.find::<VirtualMachine>(ANN, "web").await.unwrap();
    machine.spec.run_strategy
}

#[tokio::test(start_paused = true)]
async fn an_expired_vm_is_switched_off_and_later_deleted() {
    let world = World::with_ann().await;
    let expires_at = expiring(&world).await;
    let vm = world.vm("web").await;
    let (status, reason, message) = says(&vm, "Expired");
    assert_eq!((&*status, &*reason), ("False", "ExpiresSoon"));
    assert!(message.contains(&expires_at.to_string()), "{message}");
    assert!(message.contains("spec.expiresAt"), "{message}");

    // The moment itself is the next at which anything is to be done.
    wait_until(&world, expires_at - SignedDuration::from_secs(5)).await;
    let vm = world.vm("web").await;
    let next = vm::reconcile(&vm, &world.context).await.unwrap();
    assert!(is_about(&next, 5.0), "{next:?}");

    wait_until(&world, expires_at).await;
    world.settle().await;
    let vm = world.vm("web").await;
    assert_eq!(phase(&vm), VmPhase::Stopped);
    assert_eq!(vm.spec.power_state, PowerState::On);
    assert_eq!(run_strategy(&world).await.as_deref(), Some("Halted"));
    let delete_at = vm
        .status
        .as_ref()
        .unwrap()
        .expiry
        .as_ref()
        .unwrap()
        .delete_at
        .0;
    let (status, reason, message) = says(&vm, "Expired");
    assert_eq!((&*status, &*reason), ("True", "Expired"));
    assert!(message.contains(&delete_at.to_string()), "{message}");
    assert_eq!(says(&vm, "Ready").1, "Expired");

    let next = vm::reconcile(&vm, &world.context).await.unwrap();
    let left = delete_at.duration_since((world.context.shared.clock)());
    assert!(is_about(&next, left.as_secs_f64()), "{next:?}");
    assert!(left <= MINUTE + SignedDuration::from_secs(1), "{left}");
    world.writes();
    wait_until(&world, delete_at - SignedDuration::from_secs(1)).await;
    assert!(world.pass().await.is_empty());
    assert_eq!(world.writes(), Vec::<String>::new());

    wait_until(&world, delete_at).await;
    world.settle().await;
    world.assert_no_trace_of("web").await;
}

#[tokio::test(start_paused = true)]
async fn nobody_loses_a_vm_without_having_been_told() {
    let world = World::with_ann().await;
    let expires_at = expiring(&world).await;
    // No controller ran while it expired, nor in the whole grace period.
    wait_until(&world, expires_at + 10 * MINUTE).await;
    world.settle().await;
    let vm = world.vm("web").await;
    assert_eq!(phase(&vm), VmPhase::Stopped);
    let expiry = vm.status.unwrap().expiry.unwrap();
    assert!(expiry.expired_at.0 >= expires_at + 10 * MINUTE);
    assert_eq!(expiry.delete_at.0, expiry.expired_at.0 + MINUTE);

    wait_until(&world, expiry.delete_at.0).await;
    world.settle().await;
    world.assert_no_trace_of("web").await;
}

#[tokio::test(start_paused = true)]
async fn without_any_grace_the_end_is_told_before_it_comes() {
    let world = World::with_ann().await;
    let expires_at = expiring(&world).await;
    let none = json!({"spec": {"expiryGracePeriod": "0s"}});
    world.edit(&world.vm("web").await, none).await;
    world.settle().await;
    wait_until(&world, expires_at + MINUTE).await;
    let vm = world.vm("web").await;
    vm::reconcile(&vm, &world.context).await.unwrap();
    let vm = world.vm("web").await;
    assert_eq!(vm.metadata.deletion_timestamp, None);
    // Told in whole seconds.
    wait_until(&world, vm.status.unwrap().expiry.unwrap().delete_at.0).await;
    world.settle().await;
    world.assert_no_trace_of("web").await;
}

#[tokio::test(start_paused = true)]
async fn whoever_moves_the_end_keeps_the_vm() {
    let world = World::with_ann().await;
    let expires_at = expiring(&world).await;
    let disk = disk_uid(&world).await;
    wait_until(&world, expires_at).await;
    world.settle().await;

    let later = expires_at + 9 * MINUTE;
    let patch = json!({"spec": {"expiresAt": later.to_string()}});
    world.edit(&world.vm("web").await, patch).await;
    world.settle().await;
    let vm = world.vm("web").await;
    assert_eq!(phase(&vm), VmPhase::Running);
    assert_eq!(says(&vm, "Expired").1, "ExpiresSoon");
    assert_eq!(vm.status.unwrap().expiry, None);

    // What was said of the first end does not shorten the grace of the second.
    wait_until(&world, later).await;
    world.settle().await;
    assert_eq!(phase(&world.vm("web").await), VmPhase::Stopped);
    assert_eq!(disk_uid(&world).await, disk);

    let never = json!({"spec": {"expiresAt": null}});
    world.edit(&world.vm("web").await, never).await;
    world.settle().await;
    let vm = world.vm("web").await;
    assert_eq!(phase(&vm), VmPhase::Running);
    assert!(find(&vm.status.unwrap().conditions, "Expired").is_none());
}

#[tokio::test(start_paused = true)]
async fn an_expired_vm_that_was_never_made_stays_unmade_and_goes() {
    let world = World::with_ann().await;
    let mut vm = vm_named("web");
    vm.spec.expires_at = serde_json::from_value(json!(world.now() - MINUTE)).unwrap();
    vm.spec.expiry_grace_period = Some("0s".parse().unwrap());
    world.create(vm).await;
    world.settle().await;
    assert_eq!(disk_uid(&world).await, None);
    assert_eq!(says(&world.vm("web").await, "Ready").1, "Expired");
    wait(SignedDuration::from_secs(1)).await;
    world.settle().await;
    world.assert_no_trace_of("web").await;
}

#[tokio::test(start_paused = true)]
async fn a_vm_that_was_off_already_when_it_expired_is_not_in_order() {
    let world = World::with_ann().await;
    let expires_at = expiring(&world).await;
    let off = json!({"spec": {"powerState": "Off"}});
    world.edit(&world.vm("web").await, off).await;
    world.settle().await;
    assert_eq!(says(&world.vm("web").await, "Ready").0, "True");

    wait_until(&world, expires_at).await;
    world.settle().await;
    let vm = world.vm("web").await;
    let delete_at = vm.status.as_ref().unwrap().expiry.as_ref().unwrap();
    let delete_at = delete_at.delete_at.0.to_string();
    let (status, reason, message) = says(&vm, "Ready");
    assert_eq!((&*status, &*reason), ("False", "Expired"));
    assert!(message.contains(&delete_at), "{message}");
    assert!(message.contains("set spec.expiresAt"), "{message}");

    // Nor is one of an owner who is suspended, which would be no news by itself.
    let ann = world.find::<KiteUser>("", "ann").await.unwrap();
    world.edit(&ann, json!({"spec": {"suspended": true}})).await;
    world.settle().await;
    assert_eq!(says(&world.vm("web").await, "Ready").1, "Expired");

    let later = (expires_at + 9 * MINUTE).to_string();
    let patch = json!({"spec": {"expiresAt": later}});
    world.edit(&world.vm("web").await, patch).await;
    world.settle().await;
    let (status, reason, _) = says(&world.vm("web").await, "Ready");
    assert_eq!((&*status, &*reason), ("True", "Stopped"));
}

/// A person gives the VM more time between any two requests of the controller.
#[tokio::test(start_paused = true)]
async fn more_time_at_any_moment_wins_or_the_vm_is_going_already() {
    let mut world = World::with_ann().await;
    world.only_vms = true;
    let (mut kept, mut gone) = (0, 0);
    for after in 0..60 {
        let expires_at = expiring(&world).await;
        let disk = disk_uid(&world).await;
        wait_until(&world, expires_at).await;
        world.settle().await;
        wait(2 * MINUTE).await;

        let later = world.now() + 10 * MINUTE;
        let patch = json!({"spec": {"expiresAt": later.to_string()}});
        let edited = world.edit_later(after, "web", patch);
        world.settle().await;
        let was_last = world.edit_is_left();
        let edited = edited.lock().unwrap().take();
        let in_time = edited.is_some_and(|vm| vm.metadata.deletion_timestamp.is_none());
        if in_time {
            kept += 1;
            assert_eq!(disk_uid(&world).await, disk, "after {after} requests");
            assert_eq!(phase(&world.vm("web").await), VmPhase::Running);
            world.delete(&world.vm("web").await).await;
            world.settle().await;
        } else {
            gone += 1;
        }
        world.assert_no_trace_of("web").await;
        if was_last {
            break;
        }
    }
    assert!(kept > 5 && gone > 1, "{kept} kept, {gone} gone");
}

#[tokio::test(start_paused = true)]
async fn a_deletion_of_what_was_edited_is_refused() {
    let world = World::with_ann().await;
    expiring(&world).await;
    let seen = world.vm("web").await;
    let patch = json!({"spec": {"expiresAt": (world.now() + MINUTE).to_string()}});
    world.edit(&seen, patch).await;
    let refused = world
        .cluster
        .delete_unchanged(&seen, PropagationPolicy::Background)
        .await;
    assert!(
        matches!(refused, Err(ClusterError::Conflict { .. })),
        "{refused:?}"
    );
    let left = world.vm("web").await;
    assert_eq!(left.metadata.deletion_timestamp, None);
}

async fn expire_with(mode: FaultMode) {
    let mut world = World::with_ann().await;
    world.only_vms = true;
    for after in 0..40 {
        let expires_at = expiring(&world).await;
        world.inject(Fault { after, mode });
        wait_until(&world, expires_at).await;
        world.settle().await;
        assert_eq!(phase(&world.vm("web").await), VmPhase::Stopped);
        wait(MINUTE + SignedDuration::from_secs(2)).await;
        world.settle().await;
        world.assert_no_trace_of("web").await;
        if world.fault_is_left() {
            assert!(after > 8, "expiry takes more than {after} writes");
            return;
        }
    }
    panic!("expiry takes no more than 40 writes");
}

#[tokio::test(start_paused = true)]
async fn crashes_and_conflicts_change_nothing_in_the_end_of_a_vm() {
    for mode in [FaultMode::Lost, FaultMode::AnswerLost, FaultMode::Conflict] {
        Box::pin(expire_with(mode)).await;
    }
}
