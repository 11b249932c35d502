#![allow(clippy::unwrap_used)]

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kite_core::kubevirt::{KubeVirt, VirtualMachineInstanceMigration};
use kite_render::migration;
use serde_json::{Value, json};

use super::*;
use crate::{plan::Refusal, vm::orders::Moves};

fn instance(status: &str, message: &str) -> VirtualMachineInstance {
    let condition = json!({
        "type": "HotMemoryChange", "status": status, "message": message,
    });
    let object = json!({
        "metadata": {"uid": "i"}, "spec": {"domain": {}}, "status": {"conditions": [condition]},
    });
    serde_json::from_value(object).unwrap()
}

fn kubevirt(methods: &[&str]) -> KubeVirt {
    let spec = json!({"workloadUpdateStrategy": {"workloadUpdateMethods": methods}});
    serde_json::from_value(json!({"metadata": {}, "spec": spec})).unwrap()
}

fn at(time: &str) -> Timestamp {
    time.parse().unwrap()
}

/// What is seen of an instance that waits since eight, in a cluster whose migrations can be
/// looked at.
fn seen_of(
    instance: &VirtualMachineInstance,
    kubevirt: Option<&KubeVirt>,
    now: Timestamp,
) -> Observed {
    Observed {
        now,
        instance: Some(instance.clone()),
        kubevirt: kubevirt.cloned(),
        moves: Some(Moves::default()),
        resizing_since: Some(at("2026-05-04T08:00:00Z")),
        ..Observed::default()
    }
}

fn told_of(
    instance: &VirtualMachineInstance,
    kubevirt: Option<&KubeVirt>,
    now: Timestamp,
) -> Option<(&'static str, String)> {
    told(&seen_of(instance, kubevirt, now))
}

/// The order of this number for `instance`, given at five past eight, with this status.
fn ordered(
    instance: &VirtualMachineInstance,
    number: u32,
    status: Value,
) -> VirtualMachineInstanceMigration {
    let mut order = VirtualMachineInstanceMigration::default();
    order.metadata.name = migration::name_for_resize(instance, number);
    order.metadata.creation_timestamp = Some(Time(at("2026-05-04T08:05:00Z")));
    order.status = serde_json::from_value(status).unwrap();
    order
}

/// What is told at this time where Kite has given that order.
fn told_by(number: u32, status: Value, now: &str) -> (&'static str, String) {
    let waits = instance("True", "");
    let order = ordered(&waits, number, status);
    let seen = Observed {
        moves: Some(Moves {
            own: vec![order],
            ..Moves::default()
        }),
        ..seen_of(&waits, Some(&kubevirt(&[])), at(now))
    };
    told(&seen).unwrap()
}

#[test]
fn a_resize_that_nobody_carries_out_says_so_and_one_that_is_slow_after_a_while() {
    let waits = instance("True", "");
    let (soon, late) = (at("2026-05-04T08:00:01Z"), at("2026-05-04T08:10:00Z"));
    let reason = |kubevirt: Option<&KubeVirt>, now| {
        let (reason, words) = told_of(&waits, kubevirt, now).unwrap();
        let is_left = kubevirt.is_some_and(|it| !it.migrates_updates());
        assert_eq!(
            reason == "ResizeWaits" && !is_left,
            words.contains("[LiveMigrate]"),
            "{words}"
        );
        reason
    };
    let (off, on) = (kubevirt(&[]), kubevirt(&["LiveMigrate"]));
    // Kite sees to it.
    assert_eq!(reason(Some(&off), soon), "Resizing");
    assert_eq!(reason(Some(&off), late), "ResizeWaits");
    assert_eq!(reason(Some(&on), soon), "Resizing");
    assert_eq!(reason(Some(&on), late), "ResizeWaits");
    // Nobody knows how it is configured.
    assert_eq!(reason(None, soon), "Resizing");
    assert_eq!(reason(None, late), "ResizeWaits");
    for kubevirt in [None, Some(&off), Some(&on)] {
        assert_eq!(next(&seen_of(&waits, kubevirt, soon)), Some(late));
        assert_eq!(next(&seen_of(&waits, kubevirt, late)), None);
    }
}

#[test]
fn what_kite_may_not_look_at_waits_for_an_administrator() {
    let seen = Observed {
        now: at("2026-05-04T08:00:01Z"),
        instance: Some(instance("True", "")),
        kubevirt: Some(kubevirt(&[])),
        ..Observed::default()
    };
    let (reason, words) = told(&seen).unwrap();
    assert_eq!(reason, "ResizeWaits");
    assert!(words.contains("[LiveMigrate]"), "{words}");
}

#[test]
fn what_cannot_be_moved_or_may_not_waits_for_a_restart() {
    let soon = at("2026-05-04T08:00:01Z");
    let mut fixed = instance("True", "");
    let condition = json!({
        "type": "LiveMigratable", "status": "False", "message": "the disk is not shared",
    });
    let conditions = &mut fixed.status.as_mut().unwrap().conditions;
    conditions.push(serde_json::from_value(condition).unwrap());
    for methods in [&[][..], &["LiveMigrate"]] {
        let (reason, words) = told_of(&fixed, Some(&kubevirt(methods)), soon).unwrap();
        assert_eq!(reason, "ResizeWaits");
        assert!(words.contains("the disk is not shared"), "{words}");
        assert!(words.contains("spec.restartedAt"), "{words}");
    }
    let name = migration::name_for_resize(&instance("True", ""), 1).unwrap();
    let change = kite_core::names::change_of_resize(&name);
    let refused = Observed {
        now: soon,
        instance: Some(instance("True", "")),
        kubevirt: Some(kubevirt(&[])),
        moves: Some(Moves::default()),
        refused: vec![Refusal {
            of: change.to_owned(),
            why: "a webhook says no".to_owned(),
            until: at("2026-05-04T08:01:00Z"),
        }],
        ..Observed::default()
    };
    let (reason, words) = told(&refused).unwrap();
    assert_eq!(reason, "ResizeWaits");
    assert!(words.contains("a webhook says no"), "{words}");
}

#[test]
fn one_that_could_not_move_tells_why() {
    let mut waits = instance("True", "");
    let state = json!({"failed": true, "failureReason": "no room for the target"});
    let status = waits.status.as_mut().unwrap();
    status.other.insert("migrationState".to_owned(), state);
    let (reason, words) = told_of(&waits, None, at("2026-05-04T09:00:00Z")).unwrap();
    assert_eq!(reason, "ResizeWaits");
    assert!(words.contains("(no room for the target)"), "{words}");
}

#[test]
fn a_move_that_failed_before_is_not_this_one() {
    let now = at("2026-05-04T09:00:00Z");
    for (ended, is_told) in [
        ("2026-05-04T07:59:59Z", false),
        ("2026-05-04T08:00:00Z", true),
        ("2026-05-04T08:05:00Z", true),
    ] {
        let mut waits = instance("True", "");
        let state = json!({
            "failed": true, "failureReason": "no room for the target",
            "startTimestamp": "2026-05-04T07:50:00Z", "endTimestamp": ended,
        });
        let status = waits.status.as_mut().unwrap();
        status.other.insert("migrationState".to_owned(), state);
        let (reason, words) = told_of(&waits, None, now).unwrap();
        assert_eq!(reason, "ResizeWaits");
        assert_eq!(words.contains("no room"), is_told, "{ended}: {words}");
    }
}

#[test]
fn one_that_failed_tells_why() {
    let now = at("2026-05-04T08:00:01Z");
    let failed = instance("False", "the guest has no room for it");
    let (reason, words) = told_of(&failed, None, now).unwrap();
    assert_eq!(reason, "ResizeFailed");
    assert!(words.contains("no room for it"), "{words}");
    assert_eq!(told_of(&instance("False", ""), None, now), None);
    assert_eq!(told(&Observed::default()), None);
}

/// `KubeVirt` does not say since when an instance waits: the VM's own status does, and the
/// order says when it was given.
#[test]
fn it_is_known_since_when_an_instance_waits() {
    let waits = instance("True", "");
    let off = kubevirt(&[]);
    let first = Observed {
        resizing_since: None,
        ..seen_of(&waits, Some(&off), at("2026-05-04T09:00:00Z"))
    };
    // It was never told of before.
    assert_eq!(told(&first).unwrap().0, "Resizing");
    assert_eq!(next(&first), None);
    let condition = condition(&first).unwrap();
    assert_eq!(
        (condition.type_, condition.reason.as_str()),
        (RESIZING, "Resizing")
    );
    assert_eq!(
        told_of(&waits, Some(&off), first.now).unwrap().0,
        "ResizeWaits"
    );
    let running = || json!({"phase": "Running"});
    assert_eq!(told_by(1, running(), "2026-05-04T08:14:59Z").0, "Resizing");
    let (reason, words) = told_by(1, running(), "2026-05-04T08:15:00Z");
    assert_eq!(reason, "ResizeWaits");
    assert!(words.contains("10 minutes"), "{words}");
}

#[test]
fn a_condition_says_so_for_as_long_as_it_waits() {
    let now = at("2026-05-04T08:10:00Z");
    let waits = seen_of(&instance("True", ""), None, now);
    let told = condition(&waits).unwrap();
    assert_eq!(
        (told.status.as_str(), told.reason.as_str()),
        ("True", "ResizeWaits")
    );
    let failed = seen_of(&instance("False", "no room"), None, now);
    assert_eq!(condition(&failed), None);
    assert_eq!(condition(&Observed::default()), None);
}

#[test]
fn what_holds_an_order_up_is_told_at_once() {
    let rejected = json!({"phase": "Pending", "conditions": [
        {"type": "migrationRejectedByResourceQuota", "status": "True"},
    ]});
    let (reason, words) = told_by(1, rejected, "2026-05-04T08:05:01Z");
    assert_eq!(reason, "ResizeWaits");
    assert!(words.contains("quota has no room"), "{words}");
    let pending = json!({"phase": "Pending"});
    assert_eq!(told_by(1, pending, "2026-05-04T08:05:01Z").0, "Resizing");
}

#[test]
fn an_order_that_failed_is_told_of_and_so_is_the_last_one() {
    let failed = || {
        json!({"phase": "Failed", "phaseTransitionTimestamps": [
            {"phase": "Failed", "phaseTransitionTimestamp": "2026-05-04T08:06:00Z"},
        ]})
    };
    let now = "2026-05-04T08:06:01Z";
    for (number, status, tries) in [
        (1, failed(), "1 of 6"),
        (2, json!({"phase": "Running"}), "1 of 6"),
        (5, failed(), "5 of 6"),
    ] {
        let (reason, words) = told_by(number, status, now);
        assert_eq!(reason, "ResizeWaits", "{number}");
        assert!(words.contains(tries), "{number}: {words}");
    }
    let (reason, words) = told_by(6, failed(), now);
    assert_eq!(reason, "ResizeFailed");
    assert!(
        words.contains("6 tries") && words.contains("spec.restartedAt"),
        "{words}"
    );
}

#[test]
fn an_instance_that_was_moved_in_vain_needs_a_restart() {
    let succeeded = || {
        json!({"phase": "Succeeded", "phaseTransitionTimestamps": [
            {"phase": "Succeeded", "phaseTransitionTimestamp": "2026-05-04T08:06:00Z"},
        ]})
    };
    // It may have its size already.
    assert_eq!(
        told_by(1, succeeded(), "2026-05-04T08:07:59Z").0,
        "Resizing"
    );
    let (reason, words) = told_by(1, succeeded(), "2026-05-04T08:08:00Z");
    assert_eq!(reason, "ResizeFailed");
    assert!(words.contains("spec.restartedAt"), "{words}");
}
