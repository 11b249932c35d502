//! Whether an instance of a VM should exist: its run strategy, and requests to
//! start and stop that were made through subresources.

use std::time::Duration;

use kite_fake::actors::objects::{is_deleting, text, uid};
use kube::api::DynamicObject;
use serde_json::{Value, json};

use super::instances::is_over;

/// `spec.runStrategy`, or what the older `spec.running` means.
pub(super) fn strategy(vm: &DynamicObject) -> &str {
    match (text(vm, "/spec/runStrategy"), &vm.data["spec"]["running"]) {
        ("", Value::Bool(true)) => "Always",
        ("", _) => "Halted",
        (strategy, _) => strategy,
    }
}

/// What is to be done about the instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// Nothing.
    Leave,
    /// One is made.
    Start,
    /// The present one is deleted.
    Stop,
}

/// Decides. A start that waits for the end of a crash loop's pause is told by
/// the caller.
pub(super) fn decide(vm: &DynamicObject, instance: Option<&DynamicObject>) -> Decision {
    let Some(instance) = instance else {
        let asked = requests(&vm.data["status"]).first().map(|r| &r["action"]);
        return match strategy(vm) {
            "Always" => Decision::Start,
            // A guest that has shut down by itself stays down.
            "RerunOnFailure" | "Once" if text(vm, "/status/printableStatus").is_empty() => {
                Decision::Start
            }
            "RerunOnFailure" if has_failed(vm) => Decision::Start,
            _ if asked.is_some_and(|action| action == "Start") => Decision::Start,
            "RerunOnFailure" | "Once" if text(vm, "/status/runStrategy") == "Halted" => {
                Decision::Start
            }
            _ => Decision::Leave,
        };
    };
    if is_deleting(instance) {
        return Decision::Leave;
    }
    let stop = requests(&vm.data["status"])
        .first()
        .is_some_and(|r| r["action"] == "Stop" && r["uid"] == uid(instance));
    let over = is_over(text(instance, "/status/phase"));
    let ends = match strategy(vm) {
        "Halted" => true,
        "Always" => over,
        "RerunOnFailure" => text(instance, "/status/phase") == "Failed",
        _ => false,
    };
    if stop || ends {
        Decision::Stop
    } else {
        Decision::Leave
    }
}

fn requests(status: &Value) -> &[Value] {
    let requests = status["stateChangeRequests"].as_array();
    requests.map_or(&[], Vec::as_slice)
}

/// The requests that are still open beside `instance`.
pub(super) fn open_requests(status: &Value, instance: Option<&DynamicObject>) -> Vec<Value> {
    let mut open = requests(status).to_vec();
    while let Some(first) = open.first() {
        let done = match first["action"].as_str() {
            Some("Stop") => instance.is_none_or(|i| first["uid"] != uid(i)),
            Some("Start") => instance.is_some_and(|i| !is_deleting(i)),
            _ => true,
        };
        if !done {
            break;
        }
        open.remove(0);
    }
    open
}

/// Longest pause between two attempts to start a VM that crashes.
const LONGEST_PAUSE: u32 = 300;

fn has_failed(vm: &DynamicObject) -> bool {
    vm.data["status"]["startFailure"].is_object()
}

/// The record of a start that failed, after the instance `failed` did.
pub(super) fn start_failure(
    old: &Value,
    failed: &DynamicObject,
    now: jiff::Timestamp,
) -> Option<Value> {
    if old["lastFailedVMIUID"] == uid(failed) {
        return None;
    }
    let count = old["consecutiveFailCount"].as_u64().unwrap_or_default() + 1;
    let pause = crash_pause(count);
    let retry = now.checked_add(pause).unwrap_or(now);
    Some(json!({
        "consecutiveFailCount": count,
        "lastFailedVMIUID": uid(failed),
        "retryAfterTimestamp": kite_fake::clock::rfc3339(retry),
    }))
}

/// The pause after so many failures in a row.
fn crash_pause(count: u64) -> Duration {
    let exponent = u32::try_from(count).unwrap_or(u32::MAX).min(8);
    let seconds = 5_u32.saturating_mul(1 << exponent).min(LONGEST_PAUSE);
    Duration::from_secs(seconds.into())
}

/// How long a VM that crashed has to wait before it may start again.
pub(super) fn pause_left(vm: &DynamicObject, now: jiff::Timestamp) -> Option<Duration> {
    let at = text(vm, "/status/startFailure/retryAfterTimestamp");
    let at: jiff::Timestamp = at.parse().ok()?;
    let left = at.duration_since(now);
    Duration::try_from(left).ok().filter(|left| !left.is_zero())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    fn vm(spec: &Value, status: &Value) -> DynamicObject {
        let object = json!({
            "metadata": {"name": "a", "uid": "vm"}, "spec": spec, "status": status,
        });
        serde_json::from_value(object).unwrap()
    }

    fn instance(phase: &str) -> DynamicObject {
        let object = json!({"metadata": {"name": "a", "uid": "i"}, "status": {"phase": phase}});
        serde_json::from_value(object).unwrap()
    }

    #[test]
    fn the_strategy_decides() {
        let with = |strategy: &str| vm(&json!({"runStrategy": strategy}), &json!({}));
        assert_eq!(decide(&with("Always"), None), Decision::Start);
        assert_eq!(decide(&with("Halted"), None), Decision::Leave);
        assert_eq!(decide(&with("Manual"), None), Decision::Leave);
        assert_eq!(decide(&with("Once"), None), Decision::Start);
        let running = instance("Running");
        assert_eq!(decide(&with("Halted"), Some(&running)), Decision::Stop);
        assert_eq!(decide(&with("Always"), Some(&running)), Decision::Leave);
        let ended = instance("Succeeded");
        assert_eq!(decide(&with("Always"), Some(&ended)), Decision::Stop);
        assert_eq!(decide(&with("Once"), Some(&ended)), Decision::Leave);
        assert_eq!(
            decide(&with("RerunOnFailure"), Some(&ended)),
            Decision::Leave
        );
        let old = vm(&json!({"running": true}), &json!({}));
        assert_eq!(decide(&old, None), Decision::Start);
    }

    #[test]
    fn a_restart_is_a_stop_and_a_start() {
        let requests = json!({"stateChangeRequests": [
            {"action": "Stop", "uid": "i"}, {"action": "Start"},
        ]});
        let vm = vm(&json!({"runStrategy": "Manual"}), &requests);
        let running = instance("Running");
        assert_eq!(decide(&vm, Some(&running)), Decision::Stop);
        assert_eq!(open_requests(&vm.data["status"], Some(&running)).len(), 2);
        let open = open_requests(&vm.data["status"], None);
        assert_eq!(open, [json!({"action": "Start"})]);
        assert!(open_requests(&json!({"stateChangeRequests": open}), Some(&running)).is_empty());
    }

    #[test]
    fn a_crash_is_counted_once_and_pauses_grow() {
        let now: jiff::Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let failed = instance("Failed");
        let first = start_failure(&Value::Null, &failed, now).unwrap();
        assert_eq!(first["consecutiveFailCount"], 1);
        assert_eq!(start_failure(&first, &failed, now), None);
        let vm = vm(&json!({}), &json!({"startFailure": first}));
        assert_eq!(pause_left(&vm, now), Some(Duration::from_secs(10)));
        assert_eq!(crash_pause(60), Duration::from_secs(300));
    }
}
