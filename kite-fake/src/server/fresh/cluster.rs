//! Classes of priorities, and the groups that the server answers itself.

use serde_json::{Value, json};

use super::START;
use crate::registry::Registry;

pub(super) fn priority_classes() -> Vec<Value> {
    let class = |name: &str, value: i64, description: &str| json!({"metadata": {"name": name}, "value": value, "description": description});
    vec![
        class(
            "system-cluster-critical",
            2_000_000_000,
            "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
        ),
        class(
            "system-node-critical",
            2_000_001_000,
            "Used for system critical pods that must not be moved from their current node.",
        ),
    ]
}

/// Where a group stands among the others, and its newest version in it.
const PRIORITIES: [(&str, i64, i64); 20] = [
    ("", 18_000, 1),
    ("apps", 17_800, 15),
    ("events.k8s.io", 17_750, 15),
    ("authentication.k8s.io", 17_700, 15),
    ("authorization.k8s.io", 17_600, 15),
    ("autoscaling", 17_500, 15),
    ("batch", 17_400, 15),
    ("certificates.k8s.io", 17_300, 15),
    ("networking.k8s.io", 17_200, 15),
    ("policy", 17_100, 15),
    ("rbac.authorization.k8s.io", 17_000, 15),
    ("storage.k8s.io", 16_800, 15),
    ("apiextensions.k8s.io", 16_700, 15),
    ("admissionregistration.k8s.io", 16_700, 15),
    ("scheduling.k8s.io", 16_600, 15),
    ("coordination.k8s.io", 16_500, 15),
    ("node.k8s.io", 16_300, 15),
    ("discovery.k8s.io", 16_200, 15),
    ("resource.k8s.io", 16_200, 20),
    ("flowcontrol.apiserver.k8s.io", 16_100, 21),
];

pub(super) fn api_services() -> Vec<Value> {
    let registry = Registry::built_in();
    let mut versions: Vec<(&str, &str)> = registry
        .iter()
        .map(|resource| (resource.group.as_str(), resource.version.as_str()))
        .collect();
    versions.dedup();
    versions
        .into_iter()
        .filter_map(|(group, version)| {
            let known = PRIORITIES.iter().find(|(name, ..)| *name == group);
            let (_, place, own) = known?;
            // Of the one group with two versions the newer comes first.
            let own = if (group, version) == ("autoscaling", "v2") {
                30
            } else {
                *own
            };
            Some(api_service(group, version, *place, own))
        })
        .collect()
}

fn api_service(group: &str, version: &str, place: i64, own: i64) -> Value {
    json!({
        "metadata": {
            "name": format!("{version}.{group}"),
            "labels": {"kube-aggregator.kubernetes.io/automanaged": "onstart"},
        },
        "spec": {
            "group": group,
            "version": version,
            "groupPriorityMinimum": place,
            "versionPriority": own,
        },
        "status": {"conditions": [{
            "type": "Available",
            "status": "True",
            "lastTransitionTime": START,
            "reason": "Local",
            "message": "Local APIServices are always available",
        }]},
    })
}
