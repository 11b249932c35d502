#![allow(clippy::unwrap_used)]

use kite_core::{
    crd::{KiteVirtualMachine, KiteVirtualMachineSpec},
    kubevirt::VirtualMachine,
};
use serde_json::json;

use super::*;

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
        .map(
            |(type_, status)| json!({"type": type_, "status": status, "lastTransitionTime": SINCE}),
        )
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

/// What is seen so many seconds after the instance has begun to wait.
fn seen(after: i64, instance: VirtualMachineInstance) -> Observed {
    let since: Timestamp = SINCE.parse().unwrap();
    Observed {
        now: Timestamp::from_second(since.as_second() + after).unwrap(),
        kubevirt: Some(kubevirt(&[])),
        moves: Some(Moves::default()),
        machine: Some(VirtualMachine::default()),
        instance: Some(instance),
        ..Observed::default()
    }
}

fn movable() -> VirtualMachineInstance {
    waiting(&[("LiveMigratable", "True")])
}

fn planned(seen: &Observed) -> Option<Step> {
    step(&Vm::of(&vm()).unwrap(), seen)
}

/// The order for `instance`, in this phase since the beginning.
fn ordered(instance: &VirtualMachineInstance, phase: &str) -> VirtualMachineInstanceMigration {
    let object = vm();
    let mut order = migration::for_resize(&Vm::of(&object).unwrap(), instance).unwrap();
    let status = json!({
        "phase": phase,
        "phaseTransitionTimestamps": [{"phase": phase, "phaseTransitionTimestamp": SINCE}],
    });
    order.status = serde_json::from_value(status).unwrap();
    order
}

fn with(own: VirtualMachineInstanceMigration) -> Moves {
    Moves {
        own: Some(own),
        ..Moves::default()
    }
}

#[test]
fn what_nobody_else_moves_is_moved_once() {
    let mut seen = seen(1, movable());
    let Some(Step::Move(order)) = planned(&seen) else {
        panic!("nobody moves it");
    };
    assert_eq!(order.spec.vmi_name, "web");
    for phase in ["", "Pending", "Running"] {
        seen.moves = Some(with(ordered(&movable(), phase)));
        assert_eq!(planned(&seen), None, "{phase}");
        assert_eq!(next(&seen), None, "{phase}");
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
        move_refused: Some("no".to_owned()),
        ..seen(1, movable())
    };
    let fixed = seen(1, waiting(&[("LiveMigratable", "False")]));
    let unsaid = seen(1, waiting(&[]));
    let drained = seen(
        1,
        waiting(&[("LiveMigratable", "True"), ("EvictionRequested", "True")]),
    );
    let mut content = seen(1, movable());
    let status = content.instance.as_mut().unwrap().status.as_mut().unwrap();
    status.conditions.remove(0);
    let mut moves = seen(1, movable());
    let status = moves.instance.as_mut().unwrap().status.as_mut().unwrap();
    let state = json!({"migrationUid": "m"});
    status.other.insert("migrationState".to_owned(), state);
    let ordered = Observed {
        moves: Some(Moves {
            is_ordered: true,
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
    let mut seen = seen(1, movable());
    for (under_way, is_moved) in [(MOST - 1, true), (MOST, false), (MOST + 1, false)] {
        seen.moves = Some(Moves {
            under_way,
            ..Moves::default()
        });
        assert_eq!(planned(&seen).is_some(), is_moved, "{under_way}");
        let again = seen.now.checked_add(TURN).unwrap();
        assert_eq!(next(&seen), (!is_moved).then_some(again));
    }
}

#[test]
fn an_order_goes_when_its_work_is_done_and_is_given_again_after_a_pause() {
    let mut done = seen(1, movable());
    let status = done.instance.as_mut().unwrap().status.as_mut().unwrap();
    status.conditions.remove(0);
    for phase in ["Succeeded", "Failed"] {
        let order = ordered(&movable(), phase);
        done.moves = Some(with(order.clone()));
        let gone = Step::Delete(order.clone().into(), PropagationPolicy::Background);
        assert_eq!(planned(&done), Some(gone.clone()), "{phase}");
        assert_eq!(next(&done), None);
        // While the instance waits still: not at once.
        let mut early = seen(299, movable());
        early.moves = Some(with(order.clone()));
        assert_eq!(planned(&early), None, "{phase}");
        let again = early.now + Duration::from_secs(1);
        assert_eq!(next(&early), Some(again));
        let mut late = seen(300, movable());
        late.moves = Some(with(order));
        assert_eq!(planned(&late), Some(gone), "{phase}");
    }
    // What is under way is not broken off.
    done.moves = Some(with(ordered(&movable(), "Running")));
    assert_eq!(planned(&done), None);
}

#[test]
fn what_goes_already_and_what_is_somebody_elses_is_left_alone() {
    let mut seen = seen(400, movable());
    let order = ordered(&movable(), "Failed");
    let mut leaving = order.clone();
    let now = k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(seen.now);
    leaving.metadata.deletion_timestamp = Some(now);
    let mut theirs = order;
    (theirs.metadata.owner_references, theirs.metadata.labels) = (None, None);
    for own in [leaving, theirs] {
        seen.moves = Some(with(own));
        assert_eq!(planned(&seen), None);
    }
}
