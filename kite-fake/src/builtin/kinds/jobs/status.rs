//! What the status of a Job may say, and become.

use std::collections::HashSet;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{Errors, indexes, is_indexed};
use crate::builtin::check;
use crate::field_error::CauseReason;
use crate::members::{flag, has, list, number, text};
use crate::schema::{FieldError, Validation};

/// Two states of a Job's status; what has not changed since is not judged.
struct Change<'a> {
    spec: &'a Value,
    new: &'a Value,
    old: &'a Value,
}

impl Change<'_> {
    fn holds(&self, condition: &str) -> bool {
        holds(self.new, condition)
    }

    fn turns(&self, condition: &str) -> bool {
        self.holds(condition) != holds(self.old, condition)
    }

    fn sets(&self, member: &str) -> bool {
        self.new.get(member) != self.old.get(member)
    }

    fn is_over(&self) -> bool {
        is_over(self.new)
    }

    fn ends(&self) -> bool {
        self.is_over() != is_over(self.old)
    }
}

fn holds(status: &Value, condition: &str) -> bool {
    let mut all = list(status, "conditions").iter();
    all.any(|it| it["type"] == condition && it["status"] == "True")
}

fn is_over(status: &Value) -> bool {
    holds(status, "Complete") || holds(status, "Failed")
}

/// Checks what a status says: its numbers, conditions and indexes go together, and what
/// has ended stays so.
pub(in crate::builtin) fn validate_status(new: &Value, old: &Value, found: &mut Validation) {
    let change = Change {
        spec: &new["spec"],
        new: &new["status"],
        old: &old["status"],
    };
    let errors = &mut found.errors;
    for member in ["active", "succeeded", "failed", "ready", "terminating"] {
        check::not_negative(change.new, member, "status", errors);
    }
    uncounted(&change.new["uncountedTerminatedPods"], errors);
    together(&change, errors);
    times(&change, errors);
    reasons(&change, errors);
    numbers(&change, errors);
    indexes(&change, errors);
    after_success(&change, errors);
    keeps(&change, errors);
}

fn about_conditions(wrong: &str) -> FieldError {
    let message = format!("Invalid value: {wrong}");
    FieldError::with(CauseReason::Invalid, "status.conditions", message)
}

fn invalid(change: &Change<'_>, member: &str, wrong: &str) -> FieldError {
    FieldError::invalid(format!("status.{member}"), &change.new[member], wrong)
}

fn uncounted(pods: &Value, errors: &mut Errors) {
    let mut seen = HashSet::new();
    for member in ["succeeded", "failed"] {
        for (place, uid) in list(pods, member).iter().enumerate() {
            let field = format!("status.uncountedTerminatedPods.{member}[{place}]");
            if uid == "" {
                errors.push(FieldError::invalid(field, uid, "must not be empty"));
            } else if !seen.insert(uid.as_str()) {
                errors.push(FieldError::duplicate(field, uid));
            }
        }
    }
}

/// Conditions that do not go together.
fn together(change: &Change<'_>, errors: &mut Errors) {
    for (other, wrong) in [
        (
            "Failed",
            "cannot set Complete=True and Failed=true conditions",
        ),
        (
            "FailureTarget",
            "cannot set Complete=True and FailureTarget=true conditions",
        ),
    ] {
        let judged = change.turns("Complete") || change.turns(other);
        if judged && change.holds("Complete") && change.holds(other) {
            errors.push(about_conditions(wrong));
        }
    }
}

fn times(change: &Change<'_>, errors: &mut Errors) {
    let complete = change.holds("Complete");
    let completed = has(change.new, "completionTime");
    if change.turns("Complete") || change.sets("completionTime") {
        if completed && !complete {
            let wrong = "cannot set completionTime when there is no Complete=True condition";
            errors.push(invalid(change, "completionTime", wrong));
        }
        if complete && !completed {
            let wrong = "completionTime is required for Complete jobs";
            errors.push(FieldError::required("status.completionTime", wrong));
        }
    }
    if change.sets("startTime") || change.sets("completionTime") {
        let at = |member: &str| text(change.new, member).parse::<Timestamp>().ok();
        if let (Some(start), Some(end)) = (at("startTime"), at("completionTime"))
            && end < start
        {
            let wrong = "completionTime cannot be set before startTime";
            errors.push(invalid(change, "completionTime", wrong));
        }
    }
}

/// An end has a reason, that was told before or with it.
fn reasons(change: &Change<'_>, errors: &mut Errors) {
    for (end, reason, wrong) in [
        (
            "Failed",
            "FailureTarget",
            "cannot set Failed=True condition without the FailureTarget=true condition",
        ),
        (
            "Complete",
            "SuccessCriteriaMet",
            "cannot set Complete=True condition without the SuccessCriteriaMet=true condition",
        ),
    ] {
        let judged = change.turns(end) || change.turns(reason);
        if judged && change.holds(end) && !change.holds(reason) {
            errors.push(about_conditions(wrong));
        }
    }
}

/// A Job that is over has no Pods that run.
fn numbers(change: &Change<'_>, errors: &mut Errors) {
    let count = |member: &str| number(change.new, member).unwrap_or(0);
    let judged = |member: &str| change.is_over() && (change.ends() || change.sets(member));
    if judged("active") && count("active") > 0 {
        let wrong = "active>0 is invalid for finished job";
        errors.push(invalid(change, "active", wrong));
    }
    if judged("startTime") && !has(change.new, "startTime") {
        let wrong = "startTime is required for finished job";
        errors.push(FieldError::required("status.startTime", wrong));
    }
    let pods = &change.new["uncountedTerminatedPods"];
    let waits = ["succeeded", "failed"].map(|member| list(pods, member).len());
    if judged("uncountedTerminatedPods") && waits != [0, 0] {
        let wrong = "uncountedTerminatedPods needs to be empty for finished job";
        errors.push(invalid(change, "uncountedTerminatedPods", wrong));
    }
    if judged("terminating") && count("terminating") > 0 {
        let wrong = "terminating>0 is invalid for finished job";
        errors.push(invalid(change, "terminating", wrong));
    }
    let changed = change.sets("ready") || change.sets("active");
    if changed && count("ready") > count("active") {
        let wrong = "cannot set more ready pods than active";
        errors.push(invalid(change, "ready", wrong));
    }
}

fn indexes(change: &Change<'_>, errors: &mut Errors) {
    let [done, failed] = ["completedIndexes", "failedIndexes"];
    let limited = has(change.spec, "backoffLimitPerIndex");
    let completions = number(change.spec, "completions");
    for (member, judged) in [(done, true), (failed, limited)] {
        let Some(completions) = completions.filter(|_| judged && change.sets(member)) else {
            continue;
        };
        if let Err(wrong) = indexes::total(text(change.new, member), completions) {
            let wrong = format!("error parsing {member}: {wrong}");
            errors.push(invalid(change, member, &wrong));
        }
    }
    if change.sets(done) && !text(change.new, done).is_empty() && !is_indexed(change.spec) {
        let wrong = "cannot set non-empty completedIndexes when non-indexed completion mode";
        errors.push(invalid(change, done, wrong));
    }
    if change.sets(failed) && has(change.new, failed) && !limited {
        let wrong = "cannot set non-null failedIndexes when backoffLimitPerIndex is null";
        errors.push(invalid(change, failed, wrong));
    }
    if change.sets(done) || change.sets(failed) {
        let texts = [done, failed].map(|member| text(change.new, member));
        let shared = completions.and_then(|most| indexes::shared(texts[0], texts[1], most));
        if let Some(index) = shared {
            let wrong = format!("failedIndexes and completedIndexes overlap at index: {index}");
            errors.push(invalid(change, failed, &wrong));
        }
    }
}

fn after_success(change: &Change<'_>, errors: &mut Errors) {
    let met = change.holds("SuccessCriteriaMet");
    for (other, wrong) in [
        (
            "Failed",
            "cannot set SuccessCriteriaMet=True and Failed=true conditions",
        ),
        (
            "FailureTarget",
            "cannot set SuccessCriteriaMet=True and FailureTarget=true conditions",
        ),
    ] {
        if met && change.holds(other) {
            errors.push(about_conditions(wrong));
        }
    }
    if has(change.spec, "successPolicy") && !met && change.holds("Complete") {
        errors.push(about_conditions(
            "cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True",
        ));
    }
}

/// What a status has said once, it goes on to say.
fn keeps(change: &Change<'_>, errors: &mut Errors) {
    for condition in ["Failed", "Complete", "FailureTarget"] {
        if holds(change.old, condition) && !change.holds(condition) {
            let wrong = format!("cannot disable the terminal {condition}=True condition");
            errors.push(about_conditions(&wrong));
        }
    }
    let same = number(change.spec, "completions") == number(change.spec, "parallelism");
    let elastic = is_indexed(change.spec) && same;
    for (member, may_fall) in [("failed", false), ("succeeded", elastic)] {
        let count = |status: &Value| number(status, member).unwrap_or(0);
        if count(change.new) < count(change.old) && !may_fall {
            let wrong = format!("cannot decrease the {member} counter");
            let (field, given) = (format!("status.{member}"), json!(count(change.new)));
            errors.push(FieldError::invalid(field, &given, wrong));
        }
    }
    let both = has(change.new, "completionTime") && has(change.old, "completionTime");
    if both && change.sets("completionTime") {
        let wrong = "completionTime cannot be mutated";
        errors.push(invalid(change, "completionTime", wrong));
    }
    if has(change.old, "startTime") && change.sets("startTime") && !flag(change.spec, "suspend") {
        let wrong = "startTime cannot be removed for unsuspended job";
        errors.push(FieldError::required("status.startTime", wrong));
    }
    if holds(change.old, "SuccessCriteriaMet") && !change.holds("SuccessCriteriaMet") {
        let wrong = "cannot disable the SuccessCriteriaMet=True condition";
        errors.push(about_conditions(wrong));
    }
    if holds(change.old, "Complete") && change.turns("SuccessCriteriaMet") {
        let wrong =
            "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions";
        if change.holds("SuccessCriteriaMet") {
            errors.push(about_conditions(wrong));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrongs(spec: &Value, old: &Value, new: &Value) -> Vec<String> {
        let of = |status: &Value| json!({"spec": spec, "status": status});
        let mut found = Validation::default();
        validate_status(&of(new), &of(old), &mut found);
        found.errors.iter().map(ToString::to_string).collect()
    }

    fn conditions(types: &[&str]) -> Value {
        let all = types.iter().map(|it| json!({"type": it, "status": "True"}));
        Value::Array(all.collect())
    }

    #[test]
    fn a_job_ends_with_its_reason_and_its_times() {
        let start = "2026-11-21T17:05:30Z";
        let end = "2026-11-21T17:06:30Z";
        let fine = json!({"startTime": start, "completionTime": end, "succeeded": 1,
            "conditions": conditions(&["SuccessCriteriaMet", "Complete"])});
        assert_eq!(
            wrongs(&json!({}), &json!({"startTime": start}), &fine),
            Vec::<String>::new()
        );
        assert_eq!(
            wrongs(
                &json!({}),
                &json!({}),
                &json!({"active": 1, "conditions": conditions(&["Complete"])})
            ),
            [
                "status.completionTime: Required value: completionTime is required for Complete jobs",
                "status.conditions: Invalid value: cannot set Complete=True condition without the SuccessCriteriaMet=true condition",
                "status.active: Invalid value: 1: active>0 is invalid for finished job",
                "status.startTime: Required value: startTime is required for finished job",
            ]
        );
        assert_eq!(
            wrongs(
                &json!({}),
                &json!({}),
                &json!({"startTime": start, "conditions": conditions(&["Failed"])})
            ),
            [
                "status.conditions: Invalid value: cannot set Failed=True condition without the FailureTarget=true condition"
            ]
        );
        // What it has said stays.
        assert_eq!(
            wrongs(
                &json!({}),
                &fine,
                &json!({"startTime": start, "succeeded": 0})
            ),
            [
                "status.conditions: Invalid value: cannot disable the terminal Complete=True condition",
                "status.succeeded: Invalid value: 0: cannot decrease the succeeded counter",
                "status.conditions: Invalid value: cannot disable the SuccessCriteriaMet=True condition",
            ]
        );
    }

    #[test]
    fn numbers_and_indexes_go_together() {
        let indexed = json!({"completionMode": "Indexed", "completions": 3, "parallelism": 2,
            "backoffLimitPerIndex": 1});
        assert_eq!(
            wrongs(
                &indexed,
                &json!({}),
                &json!({"active": 1, "ready": 2, "completedIndexes": "0-1",
                "failedIndexes": "1,3"})
            ),
            [
                "status.ready: Invalid value: 2: cannot set more ready pods than active",
                "status.failedIndexes: Invalid value: \"1,3\": error parsing failedIndexes: too large index: \"3\"",
                "status.failedIndexes: Invalid value: \"1,3\": failedIndexes and completedIndexes overlap at index: 1",
            ]
        );
        assert_eq!(
            wrongs(
                &json!({}),
                &json!({}),
                &json!({"completedIndexes": "0", "failedIndexes": ""})
            ),
            [
                "status.completedIndexes: Invalid value: \"0\": cannot set non-empty completedIndexes when non-indexed completion mode",
                "status.failedIndexes: Invalid value: \"\": cannot set non-null failedIndexes when backoffLimitPerIndex is null",
            ]
        );
        assert_eq!(
            wrongs(
                &json!({}),
                &json!({}),
                &json!({"uncountedTerminatedPods":
                {"succeeded": ["a", ""], "failed": ["a"]}})
            ),
            [
                "status.uncountedTerminatedPods.succeeded[1]: Invalid value: \"\": must not be empty",
                "status.uncountedTerminatedPods.failed[0]: Duplicate value: \"a\"",
            ]
        );
    }
}
