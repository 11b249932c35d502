//! Graceful deletion: a Pod gets time to end, and goes when its kubelet says
//! that it has (`rest.BeforeDelete`, and the strategy of Pods).

use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value, json};

use crate::clock::rfc3339;
use crate::registry::Resource;

/// What a deletion means for an object that may end gracefully.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Grace {
    /// It gets this many seconds, from now or from when it was deleted first.
    Seconds(i64),
    /// It is ending already, and no sooner.
    Pending,
}

/// The time that an object gets to end; `None` for kinds that end at once.
pub(super) fn grace(resource: &Resource, object: &Value, asked: Option<i64>) -> Option<Grace> {
    if !resource.group.is_empty() || resource.kind != "Pod" {
        return None;
    }
    // A negative time is the shortest.
    let asked = asked.map(|seconds| if seconds < 0 { 1 } else { seconds });
    let metadata = &object["metadata"];
    if !metadata["deletionTimestamp"].is_null() {
        let given = metadata["deletionGracePeriodSeconds"].as_i64()?;
        return Some(match asked {
            Some(seconds) if seconds < given => Grace::Seconds(seconds),
            _ => Grace::Pending,
        });
    }
    let spec = &object["spec"];
    let unscheduled = spec["nodeName"].as_str().unwrap_or_default().is_empty();
    let ended = matches!(
        object["status"]["phase"].as_str(),
        Some("Failed" | "Succeeded")
    );
    if unscheduled || ended {
        return Some(Grace::Seconds(0));
    }
    let own = spec["terminationGracePeriodSeconds"].as_i64().unwrap_or(0);
    let seconds = asked.unwrap_or(own);
    Some(Grace::Seconds(if seconds < 0 { 1 } else { seconds }))
}

/// Writes when an object that is deleted now, or was before, has to have ended.
pub(super) fn set_deadline(metadata: &mut Map<String, Value>, seconds: i64, now: Timestamp) {
    let text = |name: &str| metadata.get(name).and_then(Value::as_str);
    let before = metadata
        .get("deletionGracePeriodSeconds")
        .and_then(Value::as_i64)
        .unwrap_or(0);
    let since = text("deletionTimestamp")
        .and_then(|at| at.parse::<Timestamp>().ok())
        .and_then(|at| at.checked_sub(SignedDuration::from_secs(before)).ok())
        .unwrap_or(now);
    let until = since
        .checked_add(SignedDuration::from_secs(seconds))
        .unwrap_or(since);
    metadata.insert("deletionTimestamp".into(), rfc3339(until).into());
    metadata.insert("deletionGracePeriodSeconds".into(), json!(seconds));
}
