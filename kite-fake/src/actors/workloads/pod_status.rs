//! The status of a Pod on its way from pending to ready, as a kubelet writes it.

use kube::api::DynamicObject;
use serde_json::{Value, json};

use crate::actors::objects::uid;
use crate::actors::rules::Failure;

/// One condition; its time moves only with its status.
pub(super) fn condition(
    old: &Value,
    type_: &str,
    word: &str,
    why: Option<(&str, &str)>,
    now: &str,
) -> Value {
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
    if let Some((reason, message)) = why {
        new["reason"] = json!(reason);
        if !message.is_empty() {
            new["message"] = json!(message);
        }
    }
    new
}

/// These conditions, and behind them those of other types that are there already.
pub(super) fn conditions(old: &Value, ours: Vec<Value>) -> Value {
    let mut all = ours;
    let before = old["conditions"].as_array().into_iter().flatten();
    for condition in before {
        if !all.iter().any(|it| it["type"] == condition["type"]) {
            all.push(condition.clone());
        }
    }
    json!(all)
}

/// A status with these fields set.
pub(super) fn with(old: &Value, fields: &[(&str, Value)]) -> Value {
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

/// The containers of one of the lists of a Pod's spec.
pub(super) fn containers_of<'a>(
    pod: &'a DynamicObject,
    list: &str,
) -> impl Iterator<Item = &'a Value> {
    pod.data["spec"][list].as_array().into_iter().flatten()
}

/// Whether an init container stays beside the others.
pub(super) fn is_sidecar(container: &Value) -> bool {
    container["restartPolicy"] == "Always"
}

/// That these containers are not as far as a condition wants them.
pub(super) fn lagging<'a>(word: &str, containers: impl Iterator<Item = &'a Value>) -> String {
    let names: Vec<&str> = containers.filter_map(|it| it["name"].as_str()).collect();
    format!("containers with {word} status: [{}]", names.join(" "))
}

/// No node has room for it.
pub(super) fn unschedulable(old: &Value, why: &Failure, now: &str) -> Value {
    let why = Some((why.reason.as_str(), why.message.as_str()));
    let ours = vec![condition(old, "PodScheduled", "False", why, now)];
    with(
        old,
        &[
            ("phase", json!("Pending")),
            ("conditions", conditions(old, ours)),
        ],
    )
}

/// It has a node; its containers wait, for `waiting` if that is told. Until then those
/// that go before them wait, too.
pub(super) fn starting(pod: &DynamicObject, waiting: Option<&Failure>, now: &str) -> Value {
    let old = &pod.data["status"];
    let has_init = containers_of(pod, "initContainers").next().is_some();
    let initializing = has_init && waiting.is_none();
    let incomplete = lagging("incomplete", containers_of(pod, "initContainers"));
    let initialized = if initializing {
        let why = Some(("ContainersNotInitialized", incomplete.as_str()));
        condition(old, "Initialized", "False", why, now)
    } else {
        condition(old, "Initialized", "True", None, now)
    };
    let sidecars = containers_of(pod, "initContainers").filter(|it| is_sidecar(it));
    let not_ready = sidecars.filter(|_| initializing);
    let unready = lagging("unready", not_ready.chain(containers_of(pod, "containers")));
    let unready = Some(("ContainersNotReady", unready.as_str()));
    let ours = vec![
        initialized,
        condition(old, "Ready", "False", unready, now),
        condition(old, "ContainersReady", "False", unready, now),
        condition(old, "PodScheduled", "True", None, now),
    ];
    let state = match waiting {
        Some(why) => json!({"waiting": {"reason": why.reason, "message": why.message}}),
        None if initializing => json!({"waiting": {"reason": "PodInitializing"}}),
        None => json!({"waiting": {"reason": "ContainerCreating"}}),
    };
    let mut fields = vec![
        ("phase", json!("Pending")),
        ("conditions", conditions(old, ours)),
        ("hostIP", json!("127.0.0.1")),
        ("hostIPs", json!([{"ip": "127.0.0.1"}])),
        ("startTime", started(old, now)),
        (
            "containerStatuses",
            containers_of(pod, "containers")
                .map(|it| container(pod, it, &state, false))
                .collect(),
        ),
    ];
    if has_init {
        let statuses = if initializing {
            containers_of(pod, "initContainers")
                .map(|it| container(pod, it, &state, false))
                .collect()
        } else {
            initialized_containers(pod, now)
        };
        fields.push(("initContainerStatuses", statuses));
    }
    with(old, &fields)
}

/// Its containers are ready, at the address `ip`.
pub(super) fn ready(pod: &DynamicObject, ip: &str, now: &str) -> Value {
    let old = &pod.data["status"];
    let state = json!({"running": {"startedAt": now}});
    let mut fields = vec![
        ("phase", json!("Running")),
        ("conditions", ready_conditions(pod, now)),
        ("hostIP", json!("127.0.0.1")),
        ("hostIPs", json!([{"ip": "127.0.0.1"}])),
        ("podIP", json!(ip)),
        ("podIPs", json!([{"ip": ip}])),
        ("startTime", started(old, now)),
        (
            "containerStatuses",
            containers_of(pod, "containers")
                .map(|it| container(pod, it, &state, true))
                .collect(),
        ),
    ];
    if containers_of(pod, "initContainers").next().is_some() {
        fields.push(("initContainerStatuses", initialized_containers(pod, now)));
    }
    with(old, &fields)
}

/// Whether a Pod whose containers are ready is ready: also by what others say of it in the
/// conditions that its readiness gates name.
pub(super) fn ready_condition(pod: &DynamicObject, now: &str) -> Value {
    let old = &pod.data["status"];
    let gates = pod.data["spec"]["readinessGates"].as_array();
    let lacking = gates.into_iter().flatten().filter_map(|gate| {
        let name = gate["conditionType"].as_str().unwrap_or_default();
        let mut all = old["conditions"].as_array().into_iter().flatten();
        let Some(found) = all.find(|it| it["type"] == name) else {
            return Some(format!(
                "corresponding condition of pod readiness gate {name:?} does not exist."
            ));
        };
        let word = found["status"].as_str().unwrap_or_default();
        (word != "True").then(|| {
            format!("the status of pod readiness gate {name:?} is not \"True\", but {word}")
        })
    });
    let lacking: Vec<String> = lacking.collect();
    if lacking.is_empty() {
        return condition(old, "Ready", "True", None, now);
    }
    let message = lacking.join(", ");
    let why = Some(("ReadinessGatesNotReady", message.as_str()));
    condition(old, "Ready", "False", why, now)
}

/// The status of a Pod whose containers are ready, where its readiness gates say another
/// thing of it than it says itself.
pub(super) fn regated(pod: &DynamicObject, now: &str) -> Option<Value> {
    let old = &pod.data["status"];
    let gates = pod.data["spec"]["readinessGates"].as_array()?;
    let mut all = old["conditions"].as_array()?.clone();
    let are_ready = all
        .iter()
        .any(|it| it["type"] == "ContainersReady" && it["status"] == "True");
    if gates.is_empty() || !are_ready {
        return None;
    }
    let told = all.iter_mut().find(|it| it["type"] == "Ready")?;
    let new = ready_condition(pod, now);
    let is_same = ["status", "reason", "message"]
        .iter()
        .all(|field| told[*field] == new[*field]);
    if is_same {
        return None;
    }
    *told = new;
    Some(with(old, &[("conditions", json!(all))]))
}

/// The conditions of a Pod whose containers are ready.
pub(super) fn ready_conditions(pod: &DynamicObject, now: &str) -> Value {
    let old = &pod.data["status"];
    let is_true = |type_| condition(old, type_, "True", None, now);
    let ours = vec![
        is_true("Initialized"),
        ready_condition(pod, now),
        is_true("ContainersReady"),
        is_true("PodScheduled"),
    ];
    conditions(old, ours)
}

/// Since when the node has the Pod.
fn started(old: &Value, now: &str) -> Value {
    match &old["startTime"] {
        Value::Null => json!(now),
        since => since.clone(),
    }
}

/// The statuses of init containers that are done, and of those that run on beside the others.
fn initialized_containers(pod: &DynamicObject, now: &str) -> Value {
    let statuses = containers_of(pod, "initContainers").map(|it| {
        if is_sidecar(it) {
            return container(pod, it, &json!({"running": {"startedAt": now}}), true);
        }
        let state = json!({"terminated": {
            "containerID": container_id(pod, it),
            "exitCode": 0,
            "finishedAt": now,
            "reason": "Completed",
            "startedAt": now,
        }});
        let mut status = container(pod, it, &state, true);
        status["started"] = json!(false);
        status
    });
    statuses.collect()
}

/// What names a container on its node.
pub(super) fn container_id(pod: &DynamicObject, container: &Value) -> String {
    let name = container["name"].as_str().unwrap_or_default();
    format!("kite-fake://{}/{name}", uid(pod))
}

fn container(pod: &DynamicObject, container: &Value, state: &Value, ready: bool) -> Value {
    let mut status = json!({
        "name": container["name"],
        "image": container["image"],
        "imageID": if ready { container["image"].clone() } else { json!("") },
        "lastState": {},
        "ready": ready,
        "restartCount": 0,
        "started": ready,
        "state": state,
    });
    if ready {
        status["containerID"] = json!(container_id(pod, container));
    }
    status
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    fn pod(init: &Value) -> DynamicObject {
        let object = json!({
            "metadata": {"name": "p"},
            "spec": {"initContainers": init, "containers": [{"name": "c", "image": "i"}]},
        });
        serde_json::from_value(object).unwrap()
    }

    #[test]
    fn a_ready_pod_keeps_the_time_it_was_scheduled_and_what_others_say() {
        let mut pod = pod(&Value::Null);
        pod.data["status"]["conditions"] = json!([{"type": "example.com/x", "status": "True"}]);
        pod.data["status"] = starting(&pod, None, "T1");
        let status = ready(&pod, "10.0.0.1", "T2");
        assert_eq!(status["conditions"][3]["lastTransitionTime"], "T1");
        assert_eq!(status["conditions"][1]["lastTransitionTime"], "T2");
        assert_eq!(status["conditions"][4]["type"], "example.com/x");
        assert_eq!(
            (&status["podIP"], &status["startTime"]),
            (&json!("10.0.0.1"), &json!("T1"))
        );
    }

    #[test]
    fn init_containers_go_before_the_others() {
        let init = json!([{"name": "i"}, {"name": "s", "restartPolicy": "Always"}]);
        let mut pod = pod(&init);
        pod.data["status"] = starting(&pod, None, "T1");
        let begun = &pod.data["status"];
        assert_eq!(begun["conditions"][0]["status"], "False");
        assert_eq!(
            begun["conditions"][0]["message"],
            "containers with incomplete status: [i s]"
        );
        assert_eq!(
            begun["conditions"][1]["message"],
            "containers with unready status: [s c]"
        );
        let waiting = &begun["containerStatuses"][0]["state"]["waiting"];
        assert_eq!(waiting["reason"], "PodInitializing");
        let status = ready(&pod, "10.0.0.1", "T2");
        let init = &status["initContainerStatuses"];
        assert_eq!(init[0]["state"]["terminated"]["reason"], "Completed");
        assert_eq!(init[1]["state"]["running"]["startedAt"], "T2");
    }
}
