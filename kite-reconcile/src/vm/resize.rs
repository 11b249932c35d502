//! A VM that runs and was given more of CPUs or memory, which takes `KubeVirt` a
//! migration to another launcher.

use std::time::Duration;

use jiff::Timestamp;
use kite_core::kubevirt::{StatusCondition, VirtualMachineInstance};

use super::{
    blockers::{failed_move, fixed, since, words_of},
    moving,
    observe::Observed,
};

/// `KubeVirt`'s conditions of an instance that waits for more of something.
const RESIZING: [&str; 2] = ["HotVCPUChange", "HotMemoryChange"];

/// After how long a resize that was not seen to end is told of: longer than a
/// migration takes whose turn it is.
const SLOW: Duration = Duration::from_secs(600);

/// What `KubeVirt`'s object must say for instances to move by themselves.
const SETTING: &str = "spec.workloadUpdateStrategy.workloadUpdateMethods: [LiveMigrate] in the \
                       KubeVirt object";

/// How far a resize is: reason and words; none where nothing is being resized.
pub(super) fn told(seen: &Observed) -> Option<(&'static str, String)> {
    let instance = seen.instance.as_ref();
    if let Some(why) = failure(instance) {
        return Some((
            "ResizeFailed",
            format!(
                "the VM runs and could not be given its new size ({why}): it has it after a \
                 restart (set spec.restartedAt)"
            ),
        ));
    }
    let waits = waiting(instance).next()?;
    let is_left = moving::is_left_to_kite(instance, seen.kubevirt.as_ref());
    if let Some(why) = unmoved(seen, is_left) {
        return Some((
            "ResizeWaits",
            format!(
                "the VM runs and has its new size after a restart (set spec.restartedAt): while \
                 it runs, {why}"
            ),
        ));
    }
    if due(waits).is_some_and(|due| due <= seen.now) {
        return Some(("ResizeWaits", slow(instance, since(waits), is_left)));
    }
    let message = match seen
        .moves
        .as_ref()
        .filter(|moves| is_left && moves.are_many())
    {
        Some(moves) => format!(
            "the VM runs and is given its new size when it is its turn: for that it moves to \
             another launcher, and {} other VMs are to move first",
            moves.under_way
        ),
        None => "the VM runs and is being given its new size, for which it moves to another \
                 launcher"
            .to_owned(),
    };
    Some(("Resizing", message))
}

/// Why nobody moves the VM while it runs.
fn unmoved(seen: &Observed, is_left: bool) -> Option<String> {
    if let Some(why) = fixed(seen.instance.as_ref()) {
        return Some(format!("it cannot be moved to another launcher ({why})"));
    }
    if let Some(why) = &seen.move_refused {
        return Some(format!(
            "it may not be moved to another launcher, which is tried again ({why})"
        ));
    }
    (is_left && seen.moves.is_none()).then(|| {
        format!(
            "KubeVirt does not move it to another launcher for that unless an administrator \
             sets {SETTING}, or gives Kite's controller the rights of this version, by which it \
             does"
        )
    })
}

/// That nothing came of a resize for long.
fn slow(
    instance: Option<&VirtualMachineInstance>,
    asked: Option<Timestamp>,
    is_left: bool,
) -> String {
    let minutes = SLOW.as_secs() / 60;
    let why = failed_move(instance, asked).map(|why| format!(" ({why})"));
    let why = why.unwrap_or_default();
    let beside = if is_left {
        "at the room on other nodes".to_owned()
    } else {
        format!("whether {SETTING} is set")
    };
    format!(
        "the VM runs and is not given its new size, as it was not moved to another launcher for \
         that in {minutes} minutes{why}: an administrator must look at its \
         VirtualMachineInstanceMigrations, and {beside}; after a restart (set spec.restartedAt) \
         it has that size, too"
    )
}

/// Whether the instance waits for more of something, so that it matters how
/// `KubeVirt` is configured.
pub(super) fn is_under_way(instance: Option<&VirtualMachineInstance>) -> bool {
    waiting(instance).next().is_some()
}

/// When a resize that is under way is told of as a slow one.
pub(super) fn next(instance: Option<&VirtualMachineInstance>, now: Timestamp) -> Option<Timestamp> {
    let due = waiting(instance).filter_map(due);
    due.filter(|due| *due > now).min()
}

fn waiting(instance: Option<&VirtualMachineInstance>) -> impl Iterator<Item = &StatusCondition> {
    changes(instance).filter(|it| it.status == "True")
}

/// Why the instance cannot have more.
fn failure(instance: Option<&VirtualMachineInstance>) -> Option<String> {
    changes(instance)
        .filter(|it| it.status == "False")
        .find_map(words_of)
}

fn changes(instance: Option<&VirtualMachineInstance>) -> impl Iterator<Item = &StatusCondition> {
    let status = instance.and_then(|instance| instance.status.as_ref());
    let conditions = status.into_iter().flat_map(|status| &status.conditions);
    conditions.filter(|it| RESIZING.contains(&it.type_.as_str()))
}

fn due(condition: &StatusCondition) -> Option<Timestamp> {
    since(condition)?.checked_add(SLOW).ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use kite_core::kubevirt::KubeVirt;
    use serde_json::json;

    use super::*;
    use crate::vm::moving::Moves;

    fn instance(status: &str, message: &str) -> VirtualMachineInstance {
        let condition = json!({
            "type": "HotMemoryChange", "status": status, "message": message,
            "lastTransitionTime": "2026-05-04T08:00:00Z",
        });
        let object = json!({
            "metadata": {}, "spec": {"domain": {}}, "status": {"conditions": [condition]},
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

    /// What is told of an instance in a cluster whose migrations can be looked at.
    fn told_of(
        instance: &VirtualMachineInstance,
        kubevirt: Option<&KubeVirt>,
        now: Timestamp,
    ) -> Option<(&'static str, String)> {
        told(&Observed {
            now,
            instance: Some(instance.clone()),
            kubevirt: kubevirt.cloned(),
            moves: Some(Moves::default()),
            ..Observed::default()
        })
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
        assert_eq!(next(Some(&waits), soon), Some(late));
        assert_eq!(next(Some(&waits), late), None);
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
        let refused = Observed {
            now: soon,
            instance: Some(instance("True", "")),
            kubevirt: Some(kubevirt(&[])),
            moves: Some(Moves::default()),
            move_refused: Some("a webhook says no".to_owned()),
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
}
