//! The table of Pods.

use jiff::Timestamp;
use serde_json::Value;

use super::cells::{NONE, list, number, or, text};
use super::{AGE, Column, NAME, age};

pub(super) const POD: &[Column] = &[
    NAME,
    Column::text(
        "Ready",
        "The aggregate readiness state of this pod for accepting traffic.",
    ),
    Column::text(
        "Status",
        "The aggregate status of the containers in this pod.",
    ),
    Column::text(
        "Restarts",
        "The number of times the containers in this pod have been restarted and when the last container in this pod has restarted.",
    ),
    AGE,
    Column::text("IP", "status.podIP").wide(),
    Column::text("Node", "spec.nodeName").wide(),
    Column::text("Nominated Node", "status.nominatedNodeName").wide(),
    Column::text("Readiness Gates", "spec.readinessGates").wide(),
];

pub(super) fn pod(pod: &Value, now: Timestamp) -> Vec<Value> {
    let summary = Summary::of(pod);
    let restarts = match (summary.restarts, summary.last_restart) {
        (0, _) | (_, None) => summary.restarts.to_string(),
        (restarts, Some(at)) => {
            let since = age::human_duration(now.as_second() - at.as_second());
            format!("{restarts} ({since} ago)")
        }
    };
    let addresses = list(pod, "/status/podIPs");
    let address = addresses
        .first()
        .map_or_else(|| text(pod, "/status/podIP"), |a| text(a, "/ip"));
    vec![
        pod["metadata"]["name"].clone(),
        format!("{}/{}", summary.ready, summary.containers).into(),
        summary.word.into(),
        restarts.into(),
        age::of(pod, now),
        or(address, NONE).into(),
        or(text(pod, "/spec/nodeName"), NONE).into(),
        or(text(pod, "/status/nominatedNodeName"), NONE).into(),
        gates(pod).into(),
    ]
}

fn gates(pod: &Value) -> String {
    let gates = list(pod, "/spec/readinessGates");
    if gates.is_empty() {
        return NONE.to_owned();
    }
    let open = gates
        .iter()
        .filter(|gate| {
            let condition = list(pod, "/status/conditions")
                .iter()
                .find(|c| c["type"] == gate["conditionType"]);
            condition.is_some_and(|c| c["status"] == "True")
        })
        .count();
    format!("{open}/{}", gates.len())
}

/// What the containers together say of their Pod.
#[derive(Default)]
struct Summary {
    /// The word that says best how it is: a container's reason before the phase.
    word: String,
    ready: usize,
    containers: usize,
    restarts: i64,
    last_restart: Option<Timestamp>,
}

impl Summary {
    fn of(pod: &Value) -> Self {
        let conditions = list(pod, "/status/conditions");
        let gated = conditions
            .iter()
            .any(|c| c["type"] == "PodScheduled" && c["reason"] == "SchedulingGated");
        let word = or(text(pod, "/status/reason"), text(pod, "/status/phase"));
        let sidecars = list(pod, "/spec/initContainers")
            .iter()
            .filter(|c| is_sidecar(c));
        let mut summary = Self {
            word: if gated { "SchedulingGated" } else { word }.to_owned(),
            containers: list(pod, "/spec/containers").len() + sidecars.count(),
            ..Self::default()
        };
        let initializing = summary.initialize(pod);
        if !initializing || holds(pod, "Initialized") {
            summary.run(pod);
        }
        if !pod["metadata"]["deletionTimestamp"].is_null() {
            let over = matches!(text(pod, "/status/phase"), "Succeeded" | "Failed");
            if text(pod, "/status/reason") == "NodeLost" {
                "Unknown".clone_into(&mut summary.word);
            } else if !over {
                "Terminating".clone_into(&mut summary.word);
            }
        }
        summary
    }

    /// Looks at the init containers up to the one that the Pod waits for, if any.
    fn initialize(&mut self, pod: &Value) -> bool {
        let containers = list(pod, "/spec/initContainers");
        let statuses = list(pod, "/status/initContainerStatuses");
        for (i, status) in statuses.iter().enumerate() {
            self.restarted(status);
            let terminated = &status["state"]["terminated"];
            let waiting = text(status, "/state/waiting/reason");
            if terminated.is_object() && number(terminated, "/exitCode") == 0 {
                continue;
            }
            if of_sidecar(pod, status) && status["started"] == true {
                self.ready += usize::from(status["ready"] == true);
                continue;
            }
            self.word = if terminated.is_object() {
                format!("Init:{}", ending(terminated))
            } else if !matches!(waiting, "" | "PodInitializing") {
                format!("Init:{waiting}")
            } else {
                format!("Init:{i}/{}", containers.len())
            };
            return true;
        }
        false
    }

    /// Looks at the containers proper, the first one last: its word stands.
    fn run(&mut self, pod: &Value) {
        // Of the init containers only those count from now on that go on running.
        (self.restarts, self.last_restart) = (0, None);
        for status in list(pod, "/status/initContainerStatuses") {
            if of_sidecar(pod, status) {
                self.restarted(status);
            }
        }
        let mut running = false;
        for status in list(pod, "/status/containerStatuses").iter().rev() {
            self.restarted(status);
            let terminated = &status["state"]["terminated"];
            let waiting = text(status, "/state/waiting/reason");
            if !waiting.is_empty() {
                waiting.clone_into(&mut self.word);
            } else if terminated.is_object() {
                self.word = ending(terminated);
            } else if status["ready"] == true && status["state"]["running"].is_object() {
                running = true;
                self.ready += 1;
            }
        }
        if self.word == "Completed" && running {
            let word = if holds(pod, "Ready") {
                "Running"
            } else {
                "NotReady"
            };
            word.clone_into(&mut self.word);
        }
    }

    fn restarted(&mut self, status: &Value) {
        self.restarts += number(status, "/restartCount");
        let ended = text(status, "/lastState/terminated/finishedAt")
            .parse()
            .ok();
        self.last_restart = self.last_restart.max(ended);
    }
}

fn is_sidecar(container: &Value) -> bool {
    container["restartPolicy"] == "Always"
}

/// Whether a status is that of a sidecar.
fn of_sidecar(pod: &Value, status: &Value) -> bool {
    list(pod, "/spec/initContainers")
        .iter()
        .any(|c| c["name"] == status["name"] && is_sidecar(c))
}

fn holds(pod: &Value, condition: &str) -> bool {
    list(pod, "/status/conditions")
        .iter()
        .any(|c| c["type"] == condition && c["status"] == "True")
}

/// How a container ended, in a word.
fn ending(terminated: &Value) -> String {
    match (text(terminated, "/reason"), number(terminated, "/signal")) {
        ("", 0) => format!("ExitCode:{}", number(terminated, "/exitCode")),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn shown(status: Value, deleted: bool) -> (String, String, String) {
        let mut pod = json!({
            "metadata": {"name": "p", "creationTimestamp": "2024-01-01T00:00:00Z"},
            "spec": {
                "containers": [{"name": "a"}, {"name": "b"}],
                "initContainers": [{"name": "i"}, {"name": "s", "restartPolicy": "Always"}],
            },
        });
        pod["status"] = status;
        if deleted {
            pod["metadata"]["deletionTimestamp"] = "2024-01-01T00:01:00Z".into();
        }
        let now = Timestamp::from_second(1_704_067_500).unwrap_or_default();
        let cells = super::pod(&pod, now);
        let cell = |i: usize| cells[i].as_str().unwrap_or_default().to_owned();
        (cell(1), cell(2), cell(3))
    }

    fn row(ready: &str, word: &str, restarts: &str) -> (String, String, String) {
        (ready.to_owned(), word.to_owned(), restarts.to_owned())
    }

    #[test]
    fn a_pod_says_what_it_waits_for() {
        let waiting = json!({"phase": "Pending", "initContainerStatuses": [
            {"name": "i", "state": {"terminated": {"exitCode": 0}}, "restartCount": 2},
            {"name": "s", "state": {"waiting": {"reason": "PodInitializing"}}},
        ]});
        assert_eq!(shown(waiting, false), row("0/3", "Init:1/2", "2"));
        let failed = json!({"phase": "Pending", "initContainerStatuses": [
            {"name": "i", "state": {"terminated": {"exitCode": 3}}},
        ]});
        assert_eq!(shown(failed, false), row("0/3", "Init:ExitCode:3", "0"));
        let gated = json!({"phase": "Pending", "conditions": [
            {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"},
        ]});
        assert_eq!(shown(gated, false), row("0/3", "SchedulingGated", "0"));
    }

    #[test]
    fn a_pod_says_how_its_containers_are() {
        let sidecar = json!({"name": "s", "started": true, "ready": true, "restartCount": 1});
        let crashing = json!({"phase": "Running", "initContainerStatuses": [sidecar], "containerStatuses": [
            {"name": "a", "state": {"waiting": {"reason": "CrashLoopBackOff"}}, "restartCount": 4,
             "lastState": {"terminated": {"finishedAt": "2024-01-01T00:03:00Z"}}},
            {"name": "b", "ready": true, "state": {"running": {}}},
        ]});
        assert_eq!(
            shown(crashing, false),
            row("2/3", "CrashLoopBackOff", "5 (2m ago)")
        );
        let half = json!({"phase": "Running", "containerStatuses": [
            {"name": "a", "state": {"terminated": {"reason": "Completed"}}},
            {"name": "b", "ready": true, "state": {"running": {}}},
        ]});
        assert_eq!(shown(half.clone(), false), row("1/3", "NotReady", "0"));
        assert_eq!(shown(half, true), row("1/3", "Terminating", "0"));
        let over = json!({"phase": "Succeeded"});
        assert_eq!(shown(over, true), row("0/3", "Succeeded", "0"));
    }
}
