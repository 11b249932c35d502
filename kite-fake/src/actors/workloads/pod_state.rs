//! How a Pod stands, as its controller sees it.

use std::cmp::Ordering;
use std::time::Duration;

use jiff::Timestamp;
use kube::api::DynamicObject;
use serde_json::Value;

use crate::actors::objects::{is_deleting, text};

/// Whether all containers of the Pod have ended for good.
pub(in crate::actors) fn is_over(pod: &DynamicObject) -> bool {
    ["Succeeded", "Failed"].contains(&text(pod, "/status/phase"))
}

/// Whether the Pod counts: it has not ended and is not ending.
pub(super) fn is_active(pod: &DynamicObject) -> bool {
    !is_over(pod) && !is_deleting(pod)
}

fn condition<'a>(pod: &'a DynamicObject, type_: &str) -> Option<&'a Value> {
    let conditions = pod.data["status"]["conditions"].as_array()?;
    conditions.iter().find(|it| it["type"] == type_)
}

/// Whether the Pod says that it is ready.
pub(in crate::actors) fn is_ready(pod: &DynamicObject) -> bool {
    condition(pod, "Ready").is_some_and(|ready| ready["status"] == "True")
}

/// A time that an object's status tells.
pub(super) fn time(value: &Value) -> Option<Timestamp> {
    value.as_str()?.parse().ok()
}

fn ready_since(pod: &DynamicObject) -> Option<Timestamp> {
    let ready = condition(pod, "Ready").filter(|ready| ready["status"] == "True")?;
    time(&ready["lastTransitionTime"])
}

/// In how long a ready Pod is available, which it is when it has been ready for
/// `minimum` seconds: nothing if it is; `None` for one that is not ready.
pub(super) fn available_in(pod: &DynamicObject, minimum: i64, now: Timestamp) -> Option<Duration> {
    if !is_ready(pod) {
        return None;
    }
    if minimum <= 0 {
        return Some(Duration::ZERO);
    }
    let has_been = ready_since(pod).map_or(0, |since| now.as_second() - since.as_second());
    let rest = u64::try_from(minimum - has_been).unwrap_or_default();
    Some(Duration::from_secs(rest))
}

/// How much a Pod is worth to the one that has to delete some: whoever comes first
/// goes first. `beside` is how many of the same workload are on its node.
pub(super) fn by_worth(a: (&DynamicObject, usize), b: (&DynamicObject, usize)) -> Ordering {
    let ((a, beside_a), (b, beside_b)) = (a, b);
    let is_placed = |pod: &DynamicObject| !text(pod, "/spec/nodeName").is_empty();
    let phase = |pod: &DynamicObject| match text(pod, "/status/phase") {
        "Running" => 2,
        "Unknown" => 1,
        _ => 0,
    };
    let cost = |pod: &DynamicObject| {
        let annotations = pod.metadata.annotations.as_ref();
        let cost = annotations.and_then(|it| it.get("controller.kubernetes.io/pod-deletion-cost"));
        cost.and_then(|it| it.parse::<i32>().ok())
            .unwrap_or_default()
    };
    let restarts = |pod: &DynamicObject| {
        let containers = pod.data["status"]["containerStatuses"].as_array();
        let counts = containers.into_iter().flatten();
        counts.filter_map(|it| it["restartCount"].as_i64()).max()
    };
    let created = |pod: &DynamicObject| pod.metadata.creation_timestamp.as_ref().map(|it| it.0);
    is_placed(a)
        .cmp(&is_placed(b))
        .then_with(|| phase(a).cmp(&phase(b)))
        .then_with(|| is_ready(a).cmp(&is_ready(b)))
        .then_with(|| cost(a).cmp(&cost(b)))
        // Of those that crowd a node, the others do not miss one.
        .then_with(|| beside_b.cmp(&beside_a))
        // Who is there for a shorter time goes.
        .then_with(|| ready_since(b).cmp(&ready_since(a)))
        .then_with(|| restarts(b).cmp(&restarts(a)))
        .then_with(|| created(b).cmp(&created(a)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use serde_json::json;

    use super::*;

    fn pod(ready: Option<&str>) -> DynamicObject {
        let conditions = ready
            .map(|since| json!([{"type": "Ready", "status": "True", "lastTransitionTime": since}]));
        let pod = json!({
            "metadata": {"name": "p"},
            "spec": {"nodeName": "n"},
            "status": {"phase": "Running", "conditions": conditions},
        });
        serde_json::from_value(pod).unwrap()
    }

    #[test]
    fn a_ready_pod_is_available_after_a_while() {
        let now = "2026-01-01T00:00:30Z".parse().unwrap();
        let ready = pod(Some("2026-01-01T00:00:20Z"));
        assert_eq!(available_in(&ready, 0, now), Some(Duration::ZERO));
        assert_eq!(available_in(&ready, 10, now), Some(Duration::ZERO));
        assert_eq!(available_in(&ready, 25, now), Some(Duration::from_secs(15)));
        assert_eq!(available_in(&pod(None), 0, now), None);
    }

    #[test]
    fn who_is_worth_least_goes_first() {
        let (old, young) = (
            pod(Some("2026-01-01T00:00:20Z")),
            pod(Some("2026-01-01T00:00:25Z")),
        );
        let unready = pod(None);
        let mut unplaced = pod(None);
        unplaced.data["spec"] = json!({});
        let mut costly = pod(Some("2026-01-01T00:00:25Z"));
        let cost = "controller.kubernetes.io/pod-deletion-cost";
        costly.metadata.annotations = Some([(cost.to_owned(), "5".to_owned())].into());
        let mut all = [
            (&costly, 1),
            (&old, 1),
            (&young, 1),
            (&old, 2),
            (&unready, 1),
            (&unplaced, 1),
        ];
        all.sort_by(|a, b| by_worth(*a, *b));
        let expected = [
            (&unplaced, 1),
            (&unready, 1),
            (&old, 2),
            (&young, 1),
            (&old, 1),
            (&costly, 1),
        ];
        assert_eq!(all, expected);
    }
}
