//! Crashes, lost answers, conflicts, stale views, two controllers: none of it
//! changes what comes out.

use std::collections::BTreeMap;

use k8s_openapi::api::{
    core::v1::{Secret, Service},
    networking::v1::Ingress,
};
use kite_core::{
    cdi::DataVolume,
    conditions::is_true,
    crd::{KiteReservation, KiteVirtualMachine, VmPhase},
    kubevirt::VirtualMachine,
};
use kite_reconcile::Failure as _;
use kite_reconcile::vm;
use serde_json::Value;

use crate::world::{Fault, FaultMode, World, vm_named};

const ANN: &str = "kite-user-ann";
/// More writes than a VM takes in its life.
const MOST_WRITES: usize = 60;

fn web() -> KiteVirtualMachine {
    let mut vm = vm_named("web");
    vm.spec.domain_prefix = Some("web".to_owned());
    vm
}

/// The specs and labels of all that belongs to VMs: what must be the same
/// whatever went wrong on the way. Keys are random, uids differ.
async fn essence(world: &World) -> BTreeMap<String, Value> {
    let mut essence = BTreeMap::new();
    macro_rules! take {
        ($($kind:ty),*) => { $(
            for object in world.all::<$kind>().await {
                let json = serde_json::to_value(&object).unwrap();
                if json["metadata"]["labels"]["hy3ons.github.io/kite-vm-name"].is_null() {
                    continue;
                }
                let mut spec = json["spec"].clone();
                if let Some(spec) = spec.as_object_mut() {
                    spec.retain(|key, _| !key.starts_with("clusterIP") && key != "holder");
                }
                let name = format!("{} {}", stringify!($kind), json["metadata"]["name"]);
                essence.insert(name, serde_json::json!({"labels": json["metadata"]["labels"], "spec": spec}));
            }
        )* };
    }
    take!(
        Secret,
        DataVolume,
        VirtualMachine,
        Service,
        Ingress,
        KiteReservation
    );
    essence
}

async fn live_and_go(
    world: &World,
    fault: Option<Fault>,
    expected: Option<&BTreeMap<String, Value>>,
) -> BTreeMap<String, Value> {
    world.create(web()).await;
    if let Some(fault) = fault {
        world.inject(fault);
    }
    world.settle().await;
    let status = world.vm("web").await.status.unwrap();
    assert_eq!(status.phase, Some(VmPhase::Running), "{fault:?}");
    assert!(
        is_true(&status.conditions, "Ready"),
        "{fault:?}: {status:#?}"
    );
    let essence = essence(world).await;
    if let Some(expected) = expected {
        assert_eq!(&essence, expected, "{fault:?}");
    }
    world.delete(&world.vm("web").await).await;
    world.settle().await;
    world.assert_no_trace_of("web").await;
    essence
}

async fn sweep(mode: FaultMode) {
    let mut world = World::with_ann().await;
    world.only_vms = true;
    let expected = live_and_go(&world, None, None).await;
    for after in 0..MOST_WRITES {
        live_and_go(&world, Some(Fault { after, mode }), Some(&expected)).await;
        if world.fault_is_left() {
            assert!(after > 15, "a VM's life takes more than {after} writes");
            return;
        }
    }
    panic!("a VM's life takes no more than {MOST_WRITES} writes");
}

#[tokio::test(start_paused = true)]
async fn a_crash_before_any_write_changes_nothing_in_the_outcome() {
    Box::pin(sweep(FaultMode::Lost)).await;
}

#[tokio::test(start_paused = true)]
async fn a_crash_after_any_write_changes_nothing_in_the_outcome() {
    Box::pin(sweep(FaultMode::AnswerLost)).await;
}

#[tokio::test(start_paused = true)]
async fn a_conflict_at_any_write_changes_nothing_in_the_outcome() {
    Box::pin(sweep(FaultMode::Conflict)).await;
}

#[tokio::test(start_paused = true)]
async fn for_a_vm_that_is_gone_nothing_is_made() {
    let world = World::with_ann().await;
    world.create(web()).await;
    world.settle().await;
    let stale = world.vm("web").await;
    world.delete(&stale).await;
    world.settle().await;

    vm::reconcile(&stale, &world.context).await.unwrap();
    world.assert_no_trace_of("web").await;
    assert_eq!(world.writes(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_view_of_an_earlier_life_does_not_disturb_the_present_one() {
    let world = World::with_ann().await;
    world.create(web()).await;
    world.settle().await;
    let mut stale = world.vm("web").await;
    world.delete(&stale).await;
    world.settle().await;
    world.create(web()).await;
    world.settle().await;
    let before = (essence(&world).await, world.vm("web").await);

    vm::reconcile(&stale, &world.context).await.unwrap();
    // As it looked while it was going.
    stale.metadata.deletion_timestamp = stale.metadata.creation_timestamp.clone();
    vm::reconcile(&stale, &world.context).await.unwrap();
    let after = (essence(&world).await, world.vm("web").await);
    assert!(
        after == before,
        "the present life is disturbed: {:#?}",
        after.1.status
    );
}

#[tokio::test(start_paused = true)]
async fn two_controllers_at_once_make_one_vm() {
    let world = World::with_ann().await;
    world.create(web()).await;
    for _ in 0..20 {
        let Some(seen) = world.find::<KiteVirtualMachine>(ANN, "web").await else {
            break;
        };
        // Both from the same view; one of them may be told that it was late.
        let (first, second) = tokio::join!(
            vm::reconcile(&seen, &world.context),
            vm::reconcile(&seen, &world.context),
        );
        for error in [first.err(), second.err()].into_iter().flatten() {
            assert!(
                ["conflict", "not_found"].contains(&error.category()),
                "{error}"
            );
        }
        world.stage.play().await;
    }
    world.settle().await;
    let status = world.vm("web").await.status.unwrap();
    assert_eq!(status.phase, Some(VmPhase::Running));
    let created = world.all::<Secret>().await;
    let keys = created
        .iter()
        .filter(|s| s.metadata.name.as_deref() == Some("web-ssh-key"));
    assert_eq!(keys.count(), 1);
}
