//! The status of a Pod whose containers end, or end and start again.

use std::time::Duration;

use kube::api::DynamicObject;
use serde_json::{Value, json};

use super::pod_status::{
    condition, conditions, container_id, containers_of, lagging, ready_conditions, with,
};
use crate::actors::rules::Failure;

/// Pauses before a container starts again: the first, which doubles each time, and the most.
const FIRST_PAUSE: Duration = Duration::from_secs(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(300);

/// How containers end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Exit {
    code: i64,
    reason: &'static str,
    message: String,
}

impl Exit {
    /// They have done what they were there for, or ended when they were asked to.
    pub(super) fn completed() -> Self {
        Self {
            code: 0,
            reason: "Completed",
            message: String::new(),
        }
    }

    /// They were killed.
    pub(super) fn killed() -> Self {
        Self {
            code: 137,
            reason: "Error",
            message: String::new(),
        }
    }

    /// They failed. A reason that is a number is their exit code.
    pub(super) fn failed(why: &Failure) -> Self {
        let code = why.reason.parse().ok().filter(|code| *code != 0);
        Self {
            code: code.unwrap_or(1),
            reason: "Error",
            message: why.message.clone(),
        }
    }

    fn state(&self, pod: &DynamicObject, status: &Value, now: &str) -> Value {
        let since = match &status["state"]["running"]["startedAt"] {
            Value::Null => json!(now),
            since => since.clone(),
        };
        let mut terminated = json!({
            "containerID": container_id(pod, status),
            "exitCode": self.code,
            "finishedAt": now,
            "reason": self.reason,
            "startedAt": since,
        });
        if !self.message.is_empty() {
            terminated["message"] = json!(self.message);
        }
        json!({"terminated": terminated})
    }
}

fn statuses<'a>(old: &'a Value, list: &str) -> impl Iterator<Item = &'a Value> {
    old[list].as_array().into_iter().flatten()
}

/// Whether containers of a Pod run, or wait to be started again.
pub(super) fn has_running(pod: &DynamicObject) -> bool {
    let mut all = statuses(&pod.data["status"], "containerStatuses");
    all.any(|it| !it["state"]["running"].is_null() || is_backing_off(it))
}

/// All containers have ended with `exit`, and the Pod with them.
pub(super) fn ended(pod: &DynamicObject, exit: &Exit, now: &str) -> Value {
    let old = &pod.data["status"];
    let has_failed = exit.code != 0;
    let (phase, reason) = if has_failed {
        ("Failed", "PodFailed")
    } else {
        ("Succeeded", "PodCompleted")
    };
    let initialized = (!has_failed).then_some((reason, ""));
    let ours = vec![
        condition(old, "Initialized", "True", initialized, now),
        condition(old, "Ready", "False", Some((reason, "")), now),
        condition(old, "ContainersReady", "False", Some((reason, "")), now),
        condition(old, "PodScheduled", "True", None, now),
    ];
    let stopped = |status: &Value| {
        let mut status = status.clone();
        if status["state"]["terminated"].is_null() {
            status["state"] = exit.state(pod, &status, now);
            status["ready"] = json!(false);
            status["started"] = json!(false);
        }
        status
    };
    let mut fields = vec![
        ("phase", json!(phase)),
        ("conditions", conditions(old, ours)),
    ];
    for list in ["initContainerStatuses", "containerStatuses"] {
        if !old[list].is_null() {
            fields.push((list, statuses(old, list).map(stopped).collect()));
        }
    }
    with(old, &fields)
}

/// The Pod is deleted and has never run.
pub(super) fn failed(pod: &DynamicObject) -> Value {
    with(&pod.data["status"], &[("phase", json!("Failed"))])
}

/// The Pod was on its node for longer than its `activeDeadlineSeconds`.
pub(super) fn past_deadline(pod: &DynamicObject, now: &str) -> Value {
    let mut status = ended(pod, &Exit::killed(), now);
    status["reason"] = json!("DeadlineExceeded");
    status["message"] = json!("Pod was active on the node longer than the specified deadline");
    status
}

fn is_backing_off(status: &Value) -> bool {
    status["state"]["waiting"]["reason"] == "CrashLoopBackOff"
}

/// How often containers of a Pod were started again.
pub(super) fn restarts(pod: &DynamicObject) -> u64 {
    let counts = statuses(&pod.data["status"], "containerStatuses");
    counts
        .filter_map(|it| it["restartCount"].as_u64())
        .max()
        .unwrap_or_default()
}

/// The pause before containers that were started again `restarts` times start once more.
pub(super) fn pause(restarts: u64) -> Duration {
    let doubled = 1_u32 << restarts.min(10);
    FIRST_PAUSE.saturating_mul(doubled).min(LONGEST_PAUSE)
}

/// Whether containers of the Pod failed and wait to start again.
pub(super) fn is_crashed(pod: &DynamicObject) -> bool {
    statuses(&pod.data["status"], "containerStatuses").any(is_backing_off)
}

/// Its containers failed with `exit` and will be started again.
pub(super) fn crashed(pod: &DynamicObject, exit: &Exit, now: &str) -> Value {
    let old = &pod.data["status"];
    let unready = lagging("unready", containers_of(pod, "containers"));
    let unready = Some(("ContainersNotReady", unready.as_str()));
    let ours = vec![
        condition(old, "Initialized", "True", None, now),
        condition(old, "Ready", "False", unready, now),
        condition(old, "ContainersReady", "False", unready, now),
        condition(old, "PodScheduled", "True", None, now),
    ];
    let meta = &pod.metadata;
    let word = |text: &Option<String>| text.clone().unwrap_or_default();
    let of = format!(
        "{}_{}({})",
        word(&meta.name),
        word(&meta.namespace),
        word(&meta.uid)
    );
    let seconds = pause(restarts(pod));
    let waiting = statuses(old, "containerStatuses").map(|status| {
        let name = status["name"].as_str().unwrap_or_default();
        let message = format!("back-off {seconds:?} restarting failed container={name} pod={of}");
        let mut status = status.clone();
        status["lastState"] = exit.state(pod, &status, now);
        status["state"] = json!({"waiting": {"reason": "CrashLoopBackOff", "message": message}});
        status["ready"] = json!(false);
        status["started"] = json!(false);
        status
    });
    let fields = [
        ("conditions", conditions(old, ours)),
        ("containerStatuses", waiting.collect()),
    ];
    with(old, &fields)
}

/// Its containers run again.
pub(super) fn restarted(pod: &DynamicObject, now: &str) -> Value {
    let old = &pod.data["status"];
    let running = statuses(old, "containerStatuses").map(|status| {
        let mut status = status.clone();
        let count = status["restartCount"].as_u64().unwrap_or_default();
        status["restartCount"] = json!(count + 1);
        status["state"] = json!({"running": {"startedAt": now}});
        status["ready"] = json!(true);
        status["started"] = json!(true);
        status
    });
    let fields = [
        ("conditions", ready_conditions(pod, now)),
        ("containerStatuses", running.collect()),
    ];
    with(old, &fields)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::actors::workloads::pod_status::ready;

    fn running() -> DynamicObject {
        let object = json!({
            "metadata": {"name": "p", "namespace": "a", "uid": "u"},
            "spec": {"containers": [{"name": "c", "image": "i"}]},
        });
        let mut pod: DynamicObject = serde_json::from_value(object).unwrap();
        pod.data["status"] = ready(&pod, "10.0.0.1", "T1");
        pod
    }

    #[test]
    fn a_pod_that_ends_tells_how() {
        let pod = running();
        let done = ended(&pod, &Exit::completed(), "T2");
        assert_eq!(done["phase"], "Succeeded");
        assert_eq!(done["conditions"][1]["reason"], "PodCompleted");
        let state = &done["containerStatuses"][0]["state"]["terminated"];
        assert_eq!(
            (
                &state["exitCode"],
                &state["startedAt"],
                &state["finishedAt"]
            ),
            (&json!(0), &json!("T1"), &json!("T2"))
        );
        let why = Failure {
            reason: "42".to_owned(),
            message: "no luck".to_owned(),
        };
        let failed = ended(&pod, &Exit::failed(&why), "T2");
        assert_eq!(
            (&failed["phase"], &failed["conditions"][1]["reason"]),
            (&json!("Failed"), &json!("PodFailed"))
        );
        let state = &failed["containerStatuses"][0]["state"]["terminated"];
        assert_eq!(
            (&state["exitCode"], &state["message"]),
            (&json!(42), &json!("no luck"))
        );
        assert_eq!(past_deadline(&pod, "T2")["reason"], "DeadlineExceeded");
    }

    #[test]
    fn containers_start_again_after_growing_pauses() {
        let mut pod = running();
        pod.data["status"] = crashed(&pod, &Exit::killed(), "T2");
        assert!(is_crashed(&pod) && has_running(&pod));
        let waiting = &pod.data["status"]["containerStatuses"][0]["state"]["waiting"];
        assert_eq!(
            waiting["message"],
            "back-off 10s restarting failed container=c pod=p_a(u)"
        );
        pod.data["status"] = restarted(&pod, "T3");
        assert_eq!((restarts(&pod), is_crashed(&pod)), (1, false));
        assert_eq!(pause(1).as_secs(), 20);
        assert_eq!(pause(9).as_secs(), 300);
    }
}
