//! The orders by which Kite has a VM moved that grows while it runs, where something is in
//! their way.

use kite_fake_kubevirt::stages;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod, ResourceQuota};
use kite_core::{
    conditions::find,
    crd::KiteVirtualMachine,
    kubevirt::{KubeVirt, KubeVirtSpec, VirtualMachine},
};
use kite_fake::actors::{Rule, Selector};
use kube::{
    Api, ResourceExt,
    api::{EvictParams, ListParams},
};
use serde_json::{Value, json};

use crate::{
    moves::{ANN, configure, full, growing, has_grown, later, migrate, node_of, orders, ready},
    world::World,
};

/// A quota that somebody else set in ann's namespace.
async fn bound(world: &World, hard: Value) -> ResourceQuota {
    let quota = json!({
        "metadata": {"name": "tight", "namespace": ANN}, "spec": {"hard": hard},
    });
    let quota = world.create(serde_json::from_value(quota).unwrap()).await;
    world.settle().await;
    quota
}

/// Lets so many minutes pass. What was written.
async fn pass_minutes(world: &World, minutes: u64) -> Vec<String> {
    let mut written = Vec::new();
    for _ in 0..minutes {
        tokio::time::sleep(Duration::from_secs(60)).await;
        written.extend(world.settle().await);
        let orders = orders(world).await;
        assert!(orders.len() < 3, "{orders:?}");
    }
    written
}

/// The orders that were given, or tried to be.
fn given(written: &[String]) -> Vec<&String> {
    let created = written.iter();
    created
        .filter(|line| line.starts_with("create VirtualMachineInstanceMigration "))
        .collect()
}

/// Takes the nodes that db is not on out of service.
async fn cordon_others(world: &World) {
    let from = node_of(world, "db").await;
    let nodes = Api::<Node>::all(world.cluster.client().clone());
    for node in nodes.list(&ListParams::default()).await.unwrap().items {
        let name = node.name_any();
        if name != from {
            nodes.cordon(&name).await.unwrap();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_migration_that_fails_is_tried_a_few_times_and_then_told_of() {
    let (world, uid) = growing().await;
    let why = "the guest is too busy";
    let fails = Rule::fail(stages::MIGRATION_DONE, Selector::all(), "Failed", why);
    world.rules.add(fails);
    configure(&world, KubeVirtSpec::default()).await;
    let (reason, message) = ready(&world.vm("db").await);
    assert_eq!(reason, "ResizeWaits", "{message}");
    assert!(
        message.contains(why) && message.contains("1 of 6"),
        "{message}"
    );
    // The first was given at once.
    let written = pass_minutes(&world, 5 + 10 + 20 + 40 + 80 + 10).await;
    assert_eq!(given(&written).len(), 5, "{:?}", given(&written));
    let (reason, message) = ready(&world.vm("db").await);
    assert_eq!(reason, "ResizeFailed", "{message}");
    assert!(message.contains("spec.restartedAt"), "{message}");
    let left = orders(&world).await;
    assert!(left.len() == 1 && left[0].ends_with("-6"), "{left:?}");
    let written = pass_minutes(&world, 30).await;
    assert_eq!(given(&written), Vec::<&String>::new());
    // By whatever it moves in the end, it has its size, and nothing is remembered.
    world.rules.clear(stages::MIGRATION_DONE);
    migrate(&world, "db").await;
    later(&world).await;
    has_grown(&world, uid).await;
    assert_eq!(orders(&world).await, ["move-db"]);
}

#[tokio::test(start_paused = true)]
async fn an_order_for_which_there_is_no_room_is_called_off_and_given_again() {
    let (world, uid) = growing().await;
    // Only as many as there are.
    let quota = bound(&world, json!({"pods": "2"})).await;
    configure(&world, KubeVirtSpec::default()).await;
    later(&world).await;
    let (reason, message) = ready(&world.vm("db").await);
    assert_eq!(reason, "ResizeWaits", "{message}");
    assert!(message.contains("quota has no room"), "{message}");
    let since = |vm: &KiteVirtualMachine| {
        let conditions = &vm.status.as_ref().unwrap().conditions;
        let found = find(conditions, "Resizing").unwrap();
        (found.last_transition_time.clone(), found.status.clone())
    };
    let before = since(&world.vm("db").await);
    assert_eq!(before.1, "True");
    let written = pass_minutes(&world, 11).await;
    let called_off = written
        .iter()
        .filter(|line| line.starts_with("delete unchanged VirtualMachineInstanceMigration "));
    assert_eq!(called_off.count(), 1, "{written:?}");
    assert_eq!(given(&written).len(), 1, "{written:?}");
    assert_eq!(since(&world.vm("db").await), before);
    assert_eq!(ready(&world.vm("db").await).0, "ResizeWaits");
    world.delete(&quota).await;
    for _ in 0..5 {
        later(&world).await;
    }
    has_grown(&world, uid).await;
    let conditions = world.vm("db").await.status.unwrap().conditions;
    assert_eq!(find(&conditions, "Resizing"), None);
    assert_eq!(orders(&world).await, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_move_that_may_not_be_is_not_asked_for_by_every_event() {
    let (world, uid) = growing().await;
    let none = json!({"count/virtualmachineinstancemigrations.kubevirt.io": "0"});
    let quota = bound(&world, none).await;
    world.writes();
    let mut kubevirt = KubeVirt::new("kubevirt", KubeVirtSpec::default());
    kubevirt.metadata.namespace = Some("kite".to_owned());
    world.create(kubevirt).await;
    // Each looks at all VMs several times.
    let mut written = world.settle().await;
    for _ in 0..5 {
        written.extend(world.settle().await);
    }
    assert_eq!(given(&written).len(), 1, "{written:?}");
    let (reason, message) = ready(&world.vm("db").await);
    assert_eq!(reason, "ResizeWaits");
    assert!(message.contains("exceeded quota"), "{message}");
    tokio::time::sleep(Duration::from_secs(60)).await;
    let written = world.settle().await;
    assert_eq!(given(&written).len(), 1, "{written:?}");
    world.delete(&quota).await;
    later(&world).await;
    has_grown(&world, uid).await;
}

#[tokio::test(start_paused = true)]
async fn an_order_that_has_not_begun_makes_way_for_a_drain() {
    let (world, _) = growing().await;
    let quota = bound(&world, json!({"pods": "2"})).await;
    configure(&world, KubeVirtSpec::default()).await;
    let own = orders(&world).await;
    assert!(
        own.len() == 1 && own[0].starts_with("kite-resize-"),
        "{own:?}"
    );
    let from = node_of(&world, "db").await;
    let pods = Api::<Pod>::namespaced(world.cluster.client().clone(), ANN);
    let of_db = ListParams::default().labels("vm.kubevirt.io/name=db");
    let launcher = pods.list(&of_db).await.unwrap().items.remove(0).name_any();
    let refused = pods.evict(&launcher, &EvictParams::default()).await;
    assert!(refused.is_err(), "it moves first");
    world.settle().await;
    let theirs = orders(&world).await;
    assert!(
        theirs.len() == 1 && theirs[0].starts_with("kubevirt-evacuation-"),
        "{theirs:?}"
    );
    world.delete(&quota).await;
    later(&world).await;
    assert_ne!(node_of(&world, "db").await, from, "its node is emptied");
    assert_eq!(ready(&world.vm("db").await).0, "Running");
}

/// A second quota beside Kite's, which counts pods, has no room for a second launcher.
#[tokio::test(start_paused = true)]
async fn a_vm_that_a_quota_keeps_on_a_node_that_is_to_be_emptied_says_so() {
    let world = full().await;
    configure(&world, KubeVirtSpec::default()).await;
    let pods = Api::<Pod>::namespaced(world.cluster.client().clone(), ANN);
    let running = pods.list(&ListParams::default()).await.unwrap().items.len();
    let quota = bound(&world, json!({"pods": running.to_string()})).await;
    let from = node_of(&world, "db").await;
    let of_db = ListParams::default().labels("vm.kubevirt.io/name=db");
    let launcher = pods.list(&of_db).await.unwrap().items.remove(0).name_any();
    let refused = pods.evict(&launcher, &EvictParams::default()).await;
    assert!(refused.is_err(), "it moves first");
    world.settle().await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    world.settle().await;
    let (reason, message) = ready(&world.vm("db").await);
    assert_eq!(reason, "RunningWithFault", "{message}");
    for word in ["migrationRejectedByResourceQuota", "to be emptied"] {
        assert!(message.contains(word), "{message}");
    }
    world.delete(&quota).await;
    later(&world).await;
    assert_ne!(node_of(&world, "db").await, from, "its node is emptied");
    assert_eq!(ready(&world.vm("db").await).0, "Running");
}

#[tokio::test(start_paused = true)]
async fn a_vm_that_goes_takes_back_its_order_before_its_machine() {
    let (world, _) = growing().await;
    cordon_others(&world).await;
    configure(&world, KubeVirtSpec::default()).await;
    assert_eq!(orders(&world).await.len(), 1);
    let db = world.vm("db").await;
    world.delete(&db).await;
    let written = world.settle().await;
    let place = |line: &str| written.iter().position(|it| it.starts_with(line));
    let order = place("delete VirtualMachineInstanceMigration kite-user-ann/kite-resize-");
    let machine = place("delete VirtualMachine kite-user-ann/db");
    assert!(order.is_some() && order < machine, "{written:?}");
    assert_eq!(orders(&world).await, Vec::<String>::new());
    let left: Option<VirtualMachine> = world.find(ANN, "db").await;
    assert!(left.is_none());
    world.assert_no_trace_of("db").await;
}
