//! A VM that runs and was given more of CPUs or memory, which takes `KubeVirt` a
//! migration to another launcher.

use std::time::Duration;

use jiff::Timestamp;
use kite_core::kubevirt::{KubeVirt, StatusCondition, VirtualMachineInstance};

use super::blockers::{failed_move, since, words_of};

/// `KubeVirt`'s conditions of an instance that waits for more of something.
const RESIZING: [&str; 2] = ["HotVCPUChange", "HotMemoryChange"];

/// After how long a resize that was not seen to end is told of: longer than a
/// migration takes whose turn it is.
const SLOW: Duration = Duration::from_secs(600);

/// What `KubeVirt`'s object must say for instances to move by themselves.
const SETTING: &str = "spec.workloadUpdateStrategy.workloadUpdateMethods: [LiveMigrate] in the \
                       KubeVirt object";

/// How far a resize is: reason and words; none where nothing is being resized.
pub(super) fn told(
    instance: Option<&VirtualMachineInstance>,
    kubevirt: Option<&KubeVirt>,
    now: Timestamp,
) -> Option<(&'static str, String)> {
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
    if kubevirt.is_some_and(|kubevirt| !kubevirt.migrates_updates()) {
        return Some((
            "ResizeWaits",
            format!(
                "the VM runs and has its new size after a restart (set spec.restartedAt): while \
                 it runs, KubeVirt does not move it to another launcher for that unless an \
                 administrator sets {SETTING}"
            ),
        ));
    }
    if due(waits).is_some_and(|due| due <= now) {
        return Some((
            "ResizeWaits",
            format!(
                "the VM runs and is not given its new size, as it was not moved to another \
                 launcher for that in {} minutes{}: an administrator must look at its \
                 VirtualMachineInstanceMigrations, and whether {SETTING} is set; after a \
                 restart (set spec.restartedAt) it has that size, too",
                SLOW.as_secs() / 60,
                failed_move(instance, since(waits))
                    .map(|why| format!(" ({why})"))
                    .unwrap_or_default()
            ),
        ));
    }
    Some((
        "Resizing",
        "the VM runs and is being given its new size, for which it moves to another launcher"
            .to_owned(),
    ))
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

    use serde_json::json;

    use super::*;

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

    #[test]
    fn a_resize_that_nobody_carries_out_says_so_and_one_that_is_slow_after_a_while() {
        let waits = instance("True", "");
        let (soon, late) = (at("2026-05-04T08:00:01Z"), at("2026-05-04T08:10:00Z"));
        let reason = |kubevirt: Option<&KubeVirt>, now| {
            let (reason, words) = told(Some(&waits), kubevirt, now).unwrap();
            assert_eq!(
                reason == "ResizeWaits",
                words.contains("[LiveMigrate]"),
                "{words}"
            );
            reason
        };
        let (off, on) = (kubevirt(&[]), kubevirt(&["LiveMigrate"]));
        assert_eq!(reason(Some(&off), soon), "ResizeWaits");
        assert_eq!(reason(Some(&on), soon), "Resizing");
        assert_eq!(reason(Some(&on), late), "ResizeWaits");
        // Nobody knows how it is configured.
        assert_eq!(reason(None, soon), "Resizing");
        assert_eq!(reason(None, late), "ResizeWaits");
        assert_eq!(next(Some(&waits), soon), Some(late));
        assert_eq!(next(Some(&waits), late), None);
    }

    #[test]
    fn one_that_could_not_move_tells_why() {
        let mut waits = instance("True", "");
        let state = json!({"failed": true, "failureReason": "no room for the target"});
        let status = waits.status.as_mut().unwrap();
        status.other.insert("migrationState".to_owned(), state);
        let (reason, words) = told(Some(&waits), None, at("2026-05-04T09:00:00Z")).unwrap();
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
            let (reason, words) = told(Some(&waits), None, now).unwrap();
            assert_eq!(reason, "ResizeWaits");
            assert_eq!(words.contains("no room"), is_told, "{ended}: {words}");
        }
    }

    #[test]
    fn one_that_failed_tells_why() {
        let now = at("2026-05-04T08:00:01Z");
        let failed = instance("False", "the guest has no room for it");
        let (reason, words) = told(Some(&failed), None, now).unwrap();
        assert_eq!(reason, "ResizeFailed");
        assert!(words.contains("no room for it"), "{words}");
        assert_eq!(told(Some(&instance("False", "")), None, now), None);
        assert_eq!(told(None, None, now), None);
    }
}
