//! The status of a Pod on its way from pending to ready.

use kube::api::DynamicObject;
use serde_json::{Value, json};

use crate::actors::objects::uid;
use crate::actors::rules::Failure;

fn condition(old: &Value, type_: &str, word: &str, failure: Option<&Failure>, now: &str) -> Value {
    let before = old["conditions"].as_array().map_or(&[][..], Vec::as_slice);
    let same = before
        .iter()
        .find(|c| c["type"] == type_ && c["status"] == word);
    let since = same.map_or_else(|| json!(now), |c| c["lastTransitionTime"].clone());
    let mut new = json!({
        "type": type_,
        "status": word,
        "lastProbeTime": Value::Null,
        "lastTransitionTime": since,
    });
    if let Some(failure) = failure {
        new["reason"] = json!(failure.reason);
        new["message"] = json!(failure.message);
    }
    new
}

fn with(old: &Value, fields: &[(&str, Value)]) -> Value {
    let mut status = if old.is_object() {
        old.clone()
    } else {
        json!({})
    };
    for (field, value) in fields {
        status[*field] = value.clone();
    }
    status
}

/// No node has room for it.
pub(super) fn unschedulable(old: &Value, why: &Failure, now: &str) -> Value {
    let conditions = json!([condition(old, "PodScheduled", "False", Some(why), now)]);
    with(
        old,
        &[("phase", json!("Pending")), ("conditions", conditions)],
    )
}

/// It has a node; its containers wait, for `waiting` if that is told.
pub(super) fn starting(pod: &DynamicObject, waiting: Option<&Failure>, now: &str) -> Value {
    let old = &pod.data["status"];
    let unready = Failure {
        reason: "ContainersNotReady".to_owned(),
        message: "containers are not ready".to_owned(),
    };
    let conditions = json!([
        condition(old, "Initialized", "True", None, now),
        condition(old, "Ready", "False", Some(&unready), now),
        condition(old, "ContainersReady", "False", Some(&unready), now),
        condition(old, "PodScheduled", "True", None, now),
    ]);
    let state = match waiting {
        Some(why) => json!({"waiting": {"reason": why.reason, "message": why.message}}),
        None => json!({"waiting": {"reason": "ContainerCreating"}}),
    };
    let fields = [
        ("phase", json!("Pending")),
        ("conditions", conditions),
        ("hostIP", json!("127.0.0.1")),
        ("hostIPs", json!([{"ip": "127.0.0.1"}])),
        ("containerStatuses", containers(pod, &state, false)),
        ("qosClass", json!(qos(pod))),
    ];
    with(old, &fields)
}

/// Its containers are ready, at the address `ip`.
pub(super) fn ready(pod: &DynamicObject, ip: &str, now: &str) -> Value {
    let old = &pod.data["status"];
    let types = ["Initialized", "Ready", "ContainersReady", "PodScheduled"];
    let conditions: Vec<Value> = types
        .iter()
        .map(|type_| condition(old, type_, "True", None, now))
        .collect();
    let state = json!({"running": {"startedAt": now}});
    let fields = [
        ("phase", json!("Running")),
        ("conditions", json!(conditions)),
        ("hostIP", json!("127.0.0.1")),
        ("hostIPs", json!([{"ip": "127.0.0.1"}])),
        ("podIP", json!(ip)),
        ("podIPs", json!([{"ip": ip}])),
        ("startTime", json!(now)),
        ("containerStatuses", containers(pod, &state, true)),
        ("qosClass", json!(qos(pod))),
    ];
    with(old, &fields)
}

fn containers(pod: &DynamicObject, state: &Value, ready: bool) -> Value {
    let all = pod.data["spec"]["containers"].as_array();
    let statuses = all.into_iter().flatten().map(|container| {
        let name = container["name"].as_str().unwrap_or_default();
        let mut status = json!({
            "name": name,
            "image": container["image"],
            "imageID": if ready { container["image"].clone() } else { json!("") },
            "lastState": {},
            "ready": ready,
            "restartCount": 0,
            "started": ready,
            "state": state,
        });
        if ready {
            status["containerID"] = json!(format!("kite-fake://{}/{name}", uid(pod)));
        }
        status
    });
    statuses.collect()
}

/// The quality of service class: `Guaranteed` needs equal requests and limits
/// of cpu and memory everywhere.
fn qos(pod: &DynamicObject) -> &'static str {
    let all = pod.data["spec"]["containers"].as_array();
    let resources = || all.into_iter().flatten().map(|c| &c["resources"]);
    let says_any = |r: &Value| {
        ["requests", "limits"].iter().any(|side| {
            ["cpu", "memory"]
                .iter()
                .any(|what| r[*side][*what].is_string())
        })
    };
    let guaranteed = |r: &Value| {
        ["cpu", "memory"].iter().all(|what| {
            let limit = &r["limits"][*what];
            limit.is_string() && (r["requests"][*what].is_null() || r["requests"][*what] == *limit)
        })
    };
    if !resources().any(says_any) {
        "BestEffort"
    } else if resources().all(guaranteed) {
        "Guaranteed"
    } else {
        "Burstable"
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    fn pod(resources: &Value) -> DynamicObject {
        let object = json!({
            "metadata": {"name": "p"},
            "spec": {"containers": [{"name": "c", "image": "i", "resources": resources}]},
        });
        serde_json::from_value(object).unwrap()
    }

    #[test]
    fn the_quality_of_service_follows_requests_and_limits() {
        assert_eq!(qos(&pod(&json!({}))), "BestEffort");
        assert_eq!(qos(&pod(&json!({"requests": {"cpu": "1"}}))), "Burstable");
        let both = json!({"limits": {"cpu": "1", "memory": "1Gi"}});
        assert_eq!(qos(&pod(&both)), "Guaranteed");
    }

    #[test]
    fn a_ready_pod_keeps_the_time_it_was_scheduled() {
        let mut pod = pod(&json!({}));
        pod.data["status"] = starting(&pod, None, "T1");
        let status = ready(&pod, "10.0.0.1", "T2");
        assert_eq!(status["conditions"][3]["lastTransitionTime"], "T1");
        assert_eq!(status["conditions"][1]["lastTransitionTime"], "T2");
        assert_eq!(status["podIP"], "10.0.0.1");
    }
}
