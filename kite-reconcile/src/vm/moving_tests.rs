#![allow(clippy::unwrap_used)]

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kite_core::crd::{KiteVirtualMachine, KiteVirtualMachineSpec};
use serde_json::json;

use super::*;
use crate::vm::Made;

const SINCE: &str = "2026-05-04T08:00:00Z";

fn vm() -> KiteVirtualMachine {
    let size = |text: &str| text.parse().unwrap();
    let spec = KiteVirtualMachineSpec::new(4, size("8Gi"), size("5Gi"), "debian-12", "web");
    let mut vm = KiteVirtualMachine::new("web", spec);
    vm.metadata.namespace = Some("kite-user-ann".to_owned());
    vm.metadata.uid = Some("u".to_owned());
    vm
}

/// An instance that runs and waits for more, by these conditions beside.
fn waiting(conditions: &[(&str, &str)]) -> VirtualMachineInstance {
    let waits = [("HotVCPUChange", "True")];
    let conditions = waits.iter().chain(conditions);
    let conditions: Vec<_> = conditions
        .map(|(type_, status)| json!({"type": type_, "status": status}))
        .collect();
    let object = json!({
        "metadata": {"uid": "i"}, "spec": {"domain": {"cpu": {"sockets": 4}}},
        "status": {"phase": "Running", "conditions": conditions},
    });
    serde_json::from_value(object).unwrap()
}

fn kubevirt(methods: &[&str]) -> KubeVirt {
    let spec = json!({"workloadUpdateStrategy": {"workloadUpdateMethods": methods}});
    serde_json::from_value(json!({"metadata": {}, "spec": spec})).unwrap()
}

fn at(after: i64) -> Timestamp {
    let since: Timestamp = SINCE.parse().unwrap();
    Timestamp::from_second(since.as_second() + after).unwrap()
}

/// What is seen so many seconds after the instance has begun to wait.
fn seen(after: i64, instance: VirtualMachineInstance) -> Observed {
    Observed {
        now: at(after),
        kubevirt: Some(kubevirt(&[])),
        moves: Some(Moves::default()),
        made: Made {
            machine: Some(VirtualMachine::default()),
            ..Made::default()
        },
        instance: Some(instance),
        ..Observed::default()
    }
}

fn movable() -> VirtualMachineInstance {
    waiting(&[("LiveMigratable", "True")])
}

/// One that has what it waited for.
fn content() -> VirtualMachineInstance {
    let mut instance = movable();
    let status = instance.status.as_mut().unwrap();
    status.conditions.remove(0);
    instance
}

fn planned(seen: &Observed) -> Option<Step> {
    step(&Vm::of(&vm()).unwrap(), seen)
}

/// The order of this number for `instance`, given at the beginning, and in this phase since.
fn ordered(
    instance: &VirtualMachineInstance,
    number: u32,
    phase: &str,
) -> VirtualMachineInstanceMigration {
    let object = vm();
    let vm = Vm::of(&object).unwrap();
    let mut order = migration::for_resize(&vm, instance, number).unwrap();
    order.metadata.creation_timestamp = Some(Time(at(0)));
    let status = json!({
        "phase": phase,
        "phaseTransitionTimestamps": [{"phase": phase, "phaseTransitionTimestamp": SINCE}],
    });
    order.status = serde_json::from_value(status).unwrap();
    order
}

fn with(own: VirtualMachineInstanceMigration) -> Moves {
    Moves {
        own: vec![own],
        ..Moves::default()
    }
}

/// The name of what is ordered, if something is.
fn given(step: Option<Step>) -> Option<String> {
    match step? {
        Step::Change(Change::Move(order)) => order.metadata.name,
        other => panic!("{}", other.describe()),
    }
}

fn name(number: u32) -> Option<String> {
    migration::name_for_resize(&movable(), number)
}

fn refusal(until: Timestamp) -> Refusal {
    Refusal {
        of: names::change_of_resize(&name(1).unwrap()).to_owned(),
        why: "no".to_owned(),
        until,
    }
}

#[test]
fn what_nobody_else_moves_is_moved_once() {
    let mut seen = seen(1, movable());
    let Some(Step::Change(Change::Move(order))) = planned(&seen) else {
        panic!("nobody moves it");
    };
    assert_eq!(order.spec.vmi_name, "web");
    assert_eq!(order.metadata.name, name(1));
    for phase in ["", "Pending", "Running"] {
        seen.moves = Some(with(ordered(&movable(), 1, phase)));
        assert_eq!(planned(&seen), None, "{phase}");
        // One that does not begin is looked at again.
        let stuck = (phase != "Running").then(|| at(300));
        assert_eq!(next(&seen), stuck, "{phase}");
    }
}

#[test]
fn it_is_moved_only_where_that_is_left_to_kite_and_can_be() {
    assert!(planned(&seen(1, movable())).is_some());
    let by_kubevirt = Observed {
        kubevirt: Some(kubevirt(&["LiveMigrate"])),
        ..seen(1, movable())
    };
    let unknown = Observed {
        kubevirt: None,
        ..seen(1, movable())
    };
    let unseen = Observed {
        moves: None,
        ..seen(1, movable())
    };
    let refused = Observed {
        refused: vec![refusal(at(60))],
        ..seen(1, movable())
    };
    let fixed = seen(1, waiting(&[("LiveMigratable", "False")]));
    let unsaid = seen(1, waiting(&[]));
    let drained = seen(
        1,
        waiting(&[("LiveMigratable", "True"), ("EvictionRequested", "True")]),
    );
    let content = seen(1, content());
    let mut moves = seen(1, movable());
    let status = moves.instance.as_mut().unwrap().status.as_mut().unwrap();
    let state = json!({"migrationUid": "m"});
    status.other.insert("migrationState".to_owned(), state);
    let ordered = Observed {
        moves: Some(Moves {
            foreign: vec![ordered(&movable(), 1, "Running")],
            ..Moves::default()
        }),
        ..seen(1, movable())
    };
    let all = vec![
        by_kubevirt,
        unknown,
        unseen,
        refused,
        fixed,
        unsaid,
        drained,
        content,
        moves,
        ordered,
    ];
    for (n, seen) in all.iter().enumerate() {
        assert_eq!(planned(seen), None, "{n}");
    }
}

#[test]
fn few_are_moved_at_a_time_and_others_look_again() {
    let mut seen = seen(100, movable());
    let others = |how_many: usize, phase: &str| Moves {
        others: vec![ordered(&movable(), 1, phase); how_many],
        ..Moves::default()
    };
    let again = at(120);
    for (phase, under_way, is_moved) in [
        ("Running", 4, true),
        ("Scheduling", 5, false),
        ("Running", 6, false),
        // Those that do not begin hold up nobody in other namespaces.
        ("Pending", 50, true),
        ("", 50, true),
    ] {
        seen.moves = Some(others(under_way, phase));
        assert_eq!(planned(&seen).is_some(), is_moved, "{phase} {under_way}");
        assert_eq!(next(&seen), (!is_moved).then_some(again));
    }
    // They are about to begin.
    seen.now = at(59);
    seen.moves = Some(others(5, "Pending"));
    assert_eq!(planned(&seen), None);
    seen.now = at(60);
    assert!(planned(&seen).is_some());
    // In one namespace there is one at a time, however long it takes to begin.
    seen.moves = Some(Moves {
        is_beside: true,
        ..others(1, "Pending")
    });
    assert_eq!(planned(&seen), None);
    assert_eq!(next(&seen), Some(at(80)));
}

/// No watch leads from somebody else's order back to the VM.
#[test]
fn it_is_looked_again_after_what_somebody_else_ordered() {
    let mut seen = seen(1, movable());
    seen.moves = Some(Moves {
        foreign: vec![ordered(&movable(), 1, "Running")],
        ..Moves::default()
    });
    assert_eq!(planned(&seen), None);
    assert_eq!(next(&seen), Some(at(21)));
}

#[test]
fn an_order_goes_when_its_work_is_done_unless_it_is_under_way() {
    for phase in ["Succeeded", "Failed"] {
        let order = ordered(&movable(), 1, phase);
        let mut done = seen(1, content());
        done.moves = Some(with(order.clone()));
        let gone = Step::Change(Change::Delete(order.into(), PropagationPolicy::Background));
        assert_eq!(planned(&done), Some(gone), "{phase}");
        assert_eq!(next(&done), None);
    }
    let mut done = seen(1, content());
    done.moves = Some(with(ordered(&movable(), 1, "Running")));
    assert_eq!(planned(&done), None);
}

#[test]
fn what_failed_is_tried_again_after_a_pause_that_doubles_and_a_few_times() {
    for (number, pause) in [(1, 300), (2, 600), (3, 1200), (4, 2400), (5, 4800)] {
        let moves = Some(with(ordered(&movable(), number, "Failed")));
        let mut early = seen(pause - 1, movable());
        early.moves.clone_from(&moves);
        assert_eq!(planned(&early), None, "{number}");
        assert_eq!(next(&early), Some(at(pause)), "{number}");
        let mut late = seen(pause, movable());
        late.moves = moves;
        assert_eq!(given(planned(&late)), name(number + 1), "{number}");
    }
    let mut last = seen(1_000_000, movable());
    last.moves = Some(with(ordered(&movable(), orders::TRIES, "Failed")));
    assert_eq!(planned(&last), None);
    assert_eq!(next(&last), None);
    // What was tried before is remembered by the last one alone.
    let (first, second) = (
        ordered(&movable(), 1, "Failed"),
        ordered(&movable(), 2, "Failed"),
    );
    last.moves = Some(Moves {
        own: vec![first.clone(), second],
        ..Moves::default()
    });
    let gone = Step::Change(Change::Delete(first.into(), PropagationPolicy::Background));
    assert_eq!(planned(&last), Some(gone));
    // Another size is another matter, and its memory goes with it.
    let mut larger = movable();
    larger.spec.domain.cpu.as_mut().unwrap().sockets = Some(8);
    let old = ordered(&movable(), orders::TRIES, "Failed");
    let mut other = seen(1, larger.clone());
    other.moves = Some(with(old.clone()));
    let gone = Step::Change(Change::Delete(old.into(), PropagationPolicy::Background));
    assert_eq!(planned(&other), Some(gone));
    other.moves = Some(Moves::default());
    let first = migration::name_for_resize(&larger, 1);
    assert_eq!(given(planned(&other)), first);
}

#[test]
fn what_was_moved_in_vain_is_not_moved_again() {
    for after in [1, 300, 1_000_000] {
        let mut seen = seen(after, movable());
        seen.moves = Some(with(ordered(&movable(), 1, "Succeeded")));
        assert_eq!(planned(&seen), None);
        assert_eq!(next(&seen), (after == 1).then(|| at(120)));
    }
}

#[test]
fn what_does_not_begin_is_called_off_and_given_again_later() {
    let mut order = ordered(&movable(), 1, "Pending");
    let condition = json!({"type": "migrationRejectedByResourceQuota", "status": "True"});
    let status = order.status.as_mut().unwrap();
    status.conditions = vec![serde_json::from_value(condition).unwrap()];
    let mut early = seen(299, movable());
    early.moves = Some(with(order.clone()));
    assert_eq!(planned(&early), None);
    let mut late = seen(300, movable());
    late.moves = Some(with(order.clone()));
    let Some(Step::Change(Change::CallOff(called_off, why))) = planned(&late) else {
        panic!("it stays");
    };
    assert_eq!(called_off.metadata.name, order.metadata.name);
    assert!(why.contains("quota has no room"), "{why}");
    // Others come first.
    let mut after = seen(301, movable());
    after.recall(refusal(at(600)));
    assert_eq!(planned(&after), None);
    assert_eq!(next(&after), Some(at(600)));
    // That is not of another size.
    let mut larger = movable();
    larger.spec.domain.cpu.as_mut().unwrap().sockets = Some(8);
    let mut other = seen(301, larger);
    other.recall(refusal(at(600)));
    assert!(planned(&other).is_some());
    late.moves = Some(with(ordered(&movable(), 1, "Scheduling")));
    assert_eq!(planned(&late), None);
}

/// `KubeVirt` empties no node of an instance for which there is any migration.
#[test]
fn an_order_that_has_not_begun_makes_way_for_a_drain() {
    let asked = ("EvictionRequested", "True");
    for (phase, makes_way) in [("", true), ("Pending", true), ("Scheduling", false)] {
        let order = ordered(&movable(), 1, phase);
        let mut drained = seen(1, waiting(&[("LiveMigratable", "True"), asked]));
        drained.moves = Some(with(order.clone()));
        let gone = makes_way.then(|| Step::Change(Change::DeleteUnchanged(order.into())));
        assert_eq!(planned(&drained), gone, "{phase}");
        // As earlier versions of KubeVirt tell it.
        let mut marked = seen(1, movable());
        let status = marked.instance.as_mut().unwrap().status.as_mut().unwrap();
        let node = json!("node-1");
        status.other.insert("evacuationNodeName".to_owned(), node);
        marked.moves = drained.moves.clone();
        assert_eq!(planned(&marked), gone, "{phase}");
    }
}

#[test]
fn an_instance_that_does_not_begin_to_leave_its_node_is_told_why() {
    let asked = |since: Option<&str>| {
        let mut instance = content();
        let status = instance.status.as_mut().unwrap();
        let condition = json!({
            "type": "EvictionRequested", "status": "True", "lastTransitionTime": since,
        });
        status
            .conditions
            .push(serde_json::from_value(condition).unwrap());
        instance
    };
    let waiting = |after, since, order: Option<VirtualMachineInstanceMigration>| Observed {
        moves: Some(Moves {
            foreign: order.into_iter().collect(),
            ..Moves::default()
        }),
        ..seen(after, asked(since))
    };
    let said = |seen: &Observed| kept_from_leaving(seen);
    let early = waiting(3599, Some(SINCE), None);
    assert_eq!((said(&early), next(&early)), (None, Some(at(3619))));
    let late = said(&waiting(3600, Some(SINCE), None)).unwrap();
    assert!(late.contains("not begun with it in 60 minutes"), "{late}");
    assert_eq!(said(&waiting(6000, None, None)), None);
    // Of an order that waits it is known for how long, and why.
    let mut order = ordered(&movable(), 1, "Pending");
    assert_eq!(said(&waiting(299, None, Some(order.clone()))), None);
    let late = said(&waiting(300, None, Some(order.clone()))).unwrap();
    assert!(late.contains("5 minutes"), "{late}");
    let rejected = json!({"type": "migrationRejectedByResourceQuota", "status": "True"});
    let status = order.status.as_mut().unwrap();
    status
        .conditions
        .push(serde_json::from_value(rejected).unwrap());
    let rejected = said(&waiting(1, None, Some(order))).unwrap();
    assert!(rejected.contains("quota has no room"), "{rejected}");
    let begun = ordered(&movable(), 1, "Running");
    let mut own = waiting(6000, Some(SINCE), None);
    own.moves = Some(with(begun.clone()));
    assert_eq!(said(&own), None, "its own order moves it, too");
    // However long ago it was asked for.
    for since in [None, Some(SINCE)] {
        assert_eq!(said(&waiting(6000, since, Some(begun.clone()))), None);
    }
    let mut moves = waiting(6000, Some(SINCE), Some(begun));
    let status = moves.instance.as_mut().unwrap().status.as_mut().unwrap();
    let state = json!({"migrationUid": "m"});
    status.other.insert("migrationState".to_owned(), state);
    assert_eq!((said(&moves), next(&moves)), (None, None));
    assert_eq!(said(&seen(6000, content())), None);
}

#[test]
fn what_goes_already_and_what_is_somebody_elses_is_left_alone() {
    let mut seen = seen(400, content());
    let order = ordered(&movable(), 1, "Failed");
    let mut leaving = order.clone();
    leaving.metadata.deletion_timestamp = Some(Time(seen.now));
    let mut theirs = order;
    (theirs.metadata.owner_references, theirs.metadata.labels) = (None, None);
    for own in [leaving, theirs] {
        seen.moves = Some(with(own));
        assert_eq!(planned(&seen), None);
    }
}
