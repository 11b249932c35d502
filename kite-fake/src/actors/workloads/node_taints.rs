//! Taints by which the node controller keeps Pods off nodes that are not fit for them.

use kube::api::DynamicObject;
use serde_json::{Value, json};

use crate::actors::actor::ActorError;
use crate::actors::kind::Key;
use crate::actors::objects::{Objects, ignore_missing};

const NOT_READY: &str = "node.kubernetes.io/not-ready";
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

/// What a condition in a state means for new Pods.
const TAINTS: [(&str, &str, &str); 6] = [
    ("Ready", "False", NOT_READY),
    ("Ready", "Unknown", "node.kubernetes.io/unreachable"),
    (
        "MemoryPressure",
        "True",
        "node.kubernetes.io/memory-pressure",
    ),
    ("DiskPressure", "True", "node.kubernetes.io/disk-pressure"),
    (
        "NetworkUnavailable",
        "True",
        "node.kubernetes.io/network-unavailable",
    ),
    ("PIDPressure", "True", "node.kubernetes.io/pid-pressure"),
];

/// Gives a node the taints that its conditions and its cordon call for, and takes those away
/// that they do not. Others' taints stay.
pub(super) async fn settle(
    objects: Objects<'_>,
    key: &Key,
    node: &DynamicObject,
    now: &str,
) -> Result<(), ActorError> {
    let present = node.data["spec"]["taints"].as_array();
    let present = present.map_or(&[][..], Vec::as_slice);
    let wanted = wanted(&node.data, present);
    let mut kept: Vec<Value> = present
        .iter()
        .filter(|taint| !is_ours(taint) || wanted.iter().any(|key| taint["key"] == *key))
        .cloned()
        .collect();
    for key in wanted {
        if !present
            .iter()
            .any(|taint| is_ours(taint) && taint["key"] == key)
        {
            kept.push(json!({"key": key, "effect": "NoSchedule", "timeAdded": now}));
        }
    }
    if kept == present {
        return Ok(());
    }
    let patch = json!({"spec": {"taints": kept}});
    ignore_missing(objects.merge(key, Some(node), patch).await)
}

/// Whether the node controller decides on a taint.
fn is_ours(taint: &Value) -> bool {
    let mut keys = TAINTS.iter().map(|(_, _, key)| *key).chain([UNSCHEDULABLE]);
    taint["effect"] == "NoSchedule" && keys.any(|key| taint["key"] == key)
}

fn wanted(node: &Value, present: &[Value]) -> Vec<&'static str> {
    let conditions = node["status"]["conditions"].as_array();
    let state = |wanted: &str| {
        let mut all = conditions.into_iter().flatten();
        let found = all.find(|condition| condition["type"] == wanted)?;
        found["status"].as_str()
    };
    let mut keys: Vec<&str> = TAINTS
        .iter()
        .filter(|(kind, bad, _)| state(kind) == Some(bad))
        .map(|(_, _, key)| *key)
        .collect();
    // A node that has not said anything yet is as new as it was.
    let is_new = state("Ready").is_none() && present.iter().any(|t| t["key"] == NOT_READY);
    if is_new {
        keys.push(NOT_READY);
    }
    if node["spec"]["unschedulable"] == true {
        keys.push(UNSCHEDULABLE);
    }
    keys
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(ready: Option<&str>, unschedulable: bool) -> Value {
        let conditions: Vec<Value> = ready
            .into_iter()
            .map(|status| json!({"type": "Ready", "status": status}))
            .collect();
        json!({"spec": {"unschedulable": unschedulable}, "status": {"conditions": conditions}})
    }

    #[test]
    fn a_node_is_tainted_by_what_it_says() {
        let new = [json!({"key": NOT_READY, "effect": "NoSchedule"})];
        assert_eq!(wanted(&node(None, false), &new), [NOT_READY]);
        assert!(wanted(&node(None, false), &[]).is_empty());
        assert!(wanted(&node(Some("True"), false), &new).is_empty());
        assert_eq!(
            wanted(&node(Some("False"), true), &[]),
            [NOT_READY, UNSCHEDULABLE]
        );
        assert_eq!(
            wanted(&node(Some("Unknown"), false), &[]),
            ["node.kubernetes.io/unreachable"]
        );
        assert!(!is_ours(&json!({"key": NOT_READY, "effect": "NoExecute"})));
    }
}
