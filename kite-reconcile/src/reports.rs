//! What `KubeVirt`, CDI and storage report, in their own words.

use kite_core::{cdi::DataVolume, kubevirt::StatusCondition};

/// Characters of others' words that are told at most.
const LONGEST: usize = 600;

/// Reasons of a `DataVolume` that is on its way.
const ON_ITS_WAY: &[&str] = &[
    "Bound",
    "Completed",
    "ContainerCreating",
    "PendingPopulation",
    "PodInitializing",
    "Pod is running",
    "TransferRunning",
    "WaitForFirstConsumer",
];

/// Reasons that may stand for anything: what is on its way is known by the words.
const ANYTHING: &[&str] = &["", "Claim Pending", "NotFound", "Pending"];

/// How those words end of what is on its way.
const WORDS_ON_THE_WAY: &[&str] = &[
    "No PVC found",
    "Pending",
    "is being populated",
    "is not ready to use",
];

/// What is in the name of a condition that is bad when it holds.
const BAD: &[&str] = &[
    "Abort",
    "Blocked",
    "Conflict",
    "Corrupt",
    "Degraded",
    "Denied",
    "Err",
    "Exceed",
    "Fail",
    "Forbidden",
    "Invalid",
    "Lost",
    "Missing",
    "Pressure",
    "Required",
    "Stuck",
    "Timeout",
    "Unable",
    "Unavailable",
    "Unhealthy",
    "Unreachable",
    "Unsupported",
];

/// What keeps CDI from filling the disk.
pub(crate) fn of_disk(disk: &DataVolume) -> Option<String> {
    let conditions = &disk.status.as_ref()?.conditions;
    let is_blocked = |it: &&StatusCondition| it.status == "True" || !is_under_way(it);
    let mut blocked = conditions.iter().filter(is_blocked);
    blocked.find(|it| is_amiss(it)).map(told)
}

/// What is amiss by the `conditions` of something, beside those of `known` types, each of
/// which is looked at where it matters.
pub(crate) fn beside(conditions: &[StatusCondition], known: &[&str]) -> Option<String> {
    let mut others = conditions.iter();
    let found = others.find(|it| !known.contains(&it.type_.as_str()) && is_amiss(it))?;
    Some(told(found))
}

/// Whether CDI says no more than that it has not come to it yet.
fn is_under_way(condition: &StatusCondition) -> bool {
    let reason = condition.reason.as_deref().unwrap_or_default();
    let is_step = ["InProgress", "Scheduled", "Succeeded"]
        .iter()
        .any(|end| reason.ends_with(end));
    let words = words_of(condition).unwrap_or_default();
    let is_usual = || WORDS_ON_THE_WAY.iter().any(|end| words.ends_with(end));
    is_step || ON_ITS_WAY.contains(&reason) || ANYTHING.contains(&reason) && is_usual()
}

/// Whether a condition that nobody knows tells of something bad: one that does not
/// hold, and says why, or one that sounds like a failure and holds.
pub(crate) fn is_amiss(condition: &StatusCondition) -> bool {
    if condition.status != "True" {
        return words_of(condition).is_some();
    }
    let reason = condition.reason.as_deref().unwrap_or_default();
    let is_bad = |name: &str| BAD.iter().any(|bad| name.contains(bad));
    is_bad(&condition.type_) || is_bad(reason)
}

/// Reason and words of a condition; its type, if it gives none.
pub(crate) fn told(condition: &StatusCondition) -> String {
    let reason = condition.reason.as_deref().filter(|it| !it.is_empty());
    let reason = reason.unwrap_or(&condition.type_);
    match words_of(condition) {
        Some(words) => format!("{reason}: {words}"),
        None => reason.to_owned(),
    }
}

/// A condition's words, none where it has none: without a stop at the end, as a
/// sentence goes on after them, and cut off where they are too many.
pub(crate) fn words_of(condition: &StatusCondition) -> Option<String> {
    let message = condition.message.as_deref().unwrap_or_default();
    bounded(message)
}

/// Others' words as they are told.
pub(crate) fn bounded(words: &str) -> Option<String> {
    let words = words.trim().trim_end_matches('.');
    let mut kept: String = words.chars().take(LONGEST).collect();
    if kept.len() < words.len() {
        kept.push('…');
    }
    (!kept.is_empty()).then_some(kept)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::{Value, json};

    use super::*;

    fn condition(type_: &str, status: &str, reason: &str, message: &str) -> Value {
        json!({"type": type_, "status": status, "reason": reason, "message": message})
    }

    fn disk(conditions: &[Value]) -> DataVolume {
        let object = json!({"metadata": {}, "spec": {}, "status": {"conditions": conditions}});
        serde_json::from_value(object).unwrap()
    }

    #[test]
    fn a_disk_that_is_on_its_way_says_nothing() {
        let cloning = disk(&[
            condition("Bound", "False", "Pending", "PVC web-disk Pending"),
            condition("Ready", "False", "TransferRunning", ""),
            condition("Running", "True", "Pod is running", "it runs"),
            condition("Running", "False", "ContainerCreating", "it comes"),
            condition("Ready", "False", "CSICloneInProgress", "it is cloned"),
            condition("Bound", "Unknown", "NotFound", "No PVC found"),
            condition(
                "Running",
                "False",
                "Pending",
                "The source PVC kite-images/debian is being populated",
            ),
            condition("Bound", "False", "Claim Pending", "PVC web-disk Pending"),
            condition("Bound", "False", "", "PVC web-disk Pending"),
        ]);
        assert_eq!(of_disk(&cloning), None);
    }

    #[test]
    fn what_cdi_cannot_do_is_told_whatever_it_calls_it() {
        for reason in [
            "CloneValidationFailed",
            "ErrClaimNotValid",
            "ErrExceededQuota",
            "CloneWithoutSource",
            "Unschedulable",
            "SomethingOfTomorrow",
            "Pending",
            "NotFound",
        ] {
            for type_ in ["Bound", "Ready", "Running", "OfTomorrow"] {
                let said = disk(&[
                    condition("Bound", "False", "Pending", "PVC web-disk Pending"),
                    condition(type_, "False", reason, "no accessMode specified."),
                ]);
                let expected = format!("{reason}: no accessMode specified");
                assert_eq!(of_disk(&said).unwrap(), expected);
            }
        }
    }

    #[test]
    fn what_is_bad_when_it_holds_is_told_of_a_disk_too() {
        for (type_, reason, is_bad) in [
            ("QuotaExceeded", "", true),
            ("Running", "CloneFailed", true),
            ("OfTomorrow", "StorageUnavailable", true),
            ("Running", "Pod is running", false),
            ("Bound", "", false),
            ("OfTomorrow", "AllIsWell", false),
        ] {
            let said = disk(&[condition(type_, "True", reason, "it holds")]);
            assert_eq!(of_disk(&said).is_some(), is_bad, "{type_} {reason}");
        }
    }

    #[test]
    fn words_are_bounded_to_the_character() {
        let long = "ü".repeat(LONGEST + 1);
        let kept = bounded(&long).unwrap();
        assert_eq!(kept.chars().count(), LONGEST + 1);
        assert!(kept.ends_with('…'));
        assert_eq!(
            bounded(&"ü".repeat(LONGEST)).unwrap().chars().count(),
            LONGEST
        );
        assert_eq!(bounded(" . "), None);
    }
}
