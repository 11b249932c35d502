#![allow(clippy::unwrap_used)]

use kite_core::crd::{KiteVirtualMachine, KiteVirtualMachineSpec};
use serde_json::{Value, json};

use super::*;

fn vm(name: &str, uid: &str) -> KiteVirtualMachine {
    let size = |text: &str| text.parse().unwrap();
    let spec = KiteVirtualMachineSpec::new(4, size("8Gi"), size("5Gi"), "debian-12", name);
    let mut vm = KiteVirtualMachine::new(name, spec);
    vm.metadata.namespace = Some("kite-user-ann".to_owned());
    vm.metadata.uid = Some(uid.to_owned());
    vm
}

fn instance(uid: &str, sockets: u32) -> VirtualMachineInstance {
    let domain = json!({"cpu": {"sockets": sockets}});
    let object = json!({"metadata": {"uid": uid}, "spec": {"domain": domain}});
    serde_json::from_value(object).unwrap()
}

/// An order for the VM of this name and uid, in this phase.
fn order(
    (name, uid): (&str, &str),
    instance: &VirtualMachineInstance,
    phase: &str,
) -> VirtualMachineInstanceMigration {
    let object = vm(name, uid);
    let vm = Vm::of(&object).unwrap();
    let mut order = migration::for_resize(&vm, instance, 1).unwrap();
    order.status = serde_json::from_value(json!({"phase": phase})).unwrap();
    order
}

#[test]
fn orders_are_sorted_by_whose_they_are() {
    let own = instance("i", 4);
    let web = ("web", "u");
    let mut by_hand = order(web, &own, "Running");
    by_hand.metadata = serde_json::from_value::<kube::api::ObjectMeta>(json!({
        "name": "by-hand", "namespace": "kite-user-ann",
    }))
    .unwrap();
    // For a former VM of its name, and for another that has none of its names.
    let former = order(("web", "former"), &instance("h", 4), "Running");
    let beside = order(("db", "d"), &instance("j", 4), "Pending");
    let mut elsewhere = order(("web", "e"), &instance("k", 4), "Running");
    elsewhere.metadata.namespace = Some("kite-user-bob".to_owned());
    let smaller = order(web, &instance("i", 2), "Failed");
    let present = order(web, &own, "Failed");
    let object = vm("web", "u");
    let of = |found: &[&VirtualMachineInstanceMigration]| {
        let found = found.iter().map(|it| (*it).clone()).collect();
        Moves::of(&Vm::of(&object).unwrap(), Some(&own), found)
    };
    let moves = of(&[&smaller, &present]);
    assert_eq!(moves.own.len(), 2);
    assert!(moves.is_memory(&present, &own) && !moves.is_memory(&smaller, &own));
    assert!(!moves.is_unfinished() && moves.foreign.is_empty() && !moves.is_beside);
    let theirs = of(&[&by_hand]);
    assert!(!theirs.foreign.is_empty() && theirs.own.is_empty() && theirs.others.is_empty());
    let theirs = of(&[&former]);
    assert!(!theirs.foreign.is_empty() && theirs.is_beside && theirs.own.is_empty());
    let theirs = of(&[&beside]);
    assert!(theirs.foreign.is_empty() && theirs.is_beside && theirs.others.len() == 1);
    let theirs = of(&[&elsewhere]);
    assert!(theirs.foreign.is_empty() && !theirs.is_beside && theirs.others.len() == 1);
    // Somebody has made one of its very name: there can be no other.
    let mut taken = present.clone();
    (taken.metadata.owner_references, taken.metadata.labels) = (None, None);
    assert_eq!(of(&[&taken]).own.len(), 1);
}

#[test]
fn a_step_changes_the_one_order_that_it_was_for() {
    let own = instance("i", 4);
    let (first, second) = (
        order(("web", "u"), &instance("i", 2), "Failed"),
        order(("web", "u"), &own, ""),
    );
    let mut moves = Moves::default();
    moves.absorb(first.clone(), false);
    moves.absorb(second.clone(), false);
    let mut running = second.clone();
    running.status = order(("web", "u"), &own, "Running").status;
    moves.absorb(running.clone(), false);
    assert_eq!(moves.own, [first.clone(), running]);
    moves.absorb(first, true);
    assert_eq!(moves.own.len(), 1);
}

#[test]
fn what_an_order_waits_for_is_told() {
    let said_by = |phase: &str, conditions: Value| {
        let mut order = order(("web", "u"), &instance("i", 4), "");
        let status = json!({"phase": phase, "conditions": conditions});
        order.status = serde_json::from_value(status).unwrap();
        said(&order)
    };
    let rejected = json!([
        {"type": "Other", "status": "False", "message": "no"},
        {"type": "migrationRejectedByResourceQuota", "status": "True"},
    ]);
    let words = said_by("Pending", rejected.clone()).unwrap();
    assert!(words.contains("quota has no room"), "{words}");
    assert_eq!(said_by("Running", rejected.clone()), None);
    assert_eq!(said_by("Failed", rejected), None);
    let other = json!([{"type": "Held", "status": "True", "message": "a backup runs."}]);
    assert_eq!(
        said_by("Pending", other).as_deref(),
        Some("Held: a backup runs")
    );
    assert_eq!(said_by("", json!([])), None);
}

#[test]
fn an_order_that_tells_no_time_is_over_for_long() {
    let own = instance("i", 4);
    let failed = Moves {
        own: vec![order(("web", "u"), &own, "Failed")],
        ..Moves::default()
    };
    let progress = failed.progress(&own);
    assert_eq!(progress, Progress::Failed(1, Timestamp::MIN));
    assert_eq!(stuck_at(&order(("web", "u"), &own, "Pending")), None);
}
