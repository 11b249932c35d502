//! On which nodes a `DaemonSet` has a Pod.

use std::collections::BTreeMap;

use kube::api::DynamicObject;
use serde_json::{Value, json};

use crate::actors::mirror::Found;
use crate::actors::objects::text;
use crate::actors::workloads::owned::Owner;
use crate::actors::workloads::placement::{selected, tolerates};
use crate::actors::workloads::revisions::HASH;
use crate::actors::workloads::template::{self, Naming};

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
/// What each of its Pods tolerates beside what its template says.
const TOLERATED: &[(&str, &str)] = &[
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
];
const NO_NETWORK: (&str, &str) = ("node.kubernetes.io/network-unavailable", "NoSchedule");

/// How a node stands to a `DaemonSet`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stand {
    /// It is to have a Pod.
    pub(super) wants: bool,
    /// A Pod that it has may stay.
    pub(super) keeps: bool,
}

fn tolerations(spec: &Value) -> Vec<Value> {
    let said = spec["tolerations"].as_array();
    let mut all = said.cloned().unwrap_or_default();
    let network = Some(NO_NETWORK).filter(|_| spec["hostNetwork"] == true);
    for (key, effect) in TOLERATED.iter().copied().chain(network) {
        let added = json!({"key": key, "operator": "Exists", "effect": effect});
        if !all.contains(&added) {
            all.push(added);
        }
    }
    all
}

/// How `node` stands to one whose Pods have this specification.
pub(super) fn stand(spec: &Value, node: &DynamicObject) -> Stand {
    let name = node.metadata.name.as_deref().unwrap_or_default();
    let is_named = spec["nodeName"]
        .as_str()
        .is_none_or(|it| it.is_empty() || it == name);
    if !is_named || !selected(spec, node) {
        return Stand {
            wants: false,
            keeps: false,
        };
    }
    let tolerations = tolerations(spec);
    let taints = node.data["spec"]["taints"].as_array();
    let hurts = |effect: &str| {
        let mut of = taints
            .into_iter()
            .flatten()
            .filter(|it| it["effect"] == effect);
        of.any(|taint| !tolerations.iter().any(|it| tolerates(it, taint)))
    };
    let keeps = !hurts("NoExecute");
    Stand {
        wants: keeps && !hurts("NoSchedule"),
        keeps,
    }
}

/// The node that a Pod is on, or made for.
pub(super) fn target(pod: &DynamicObject) -> Option<&str> {
    let bound = text(pod, "/spec/nodeName");
    if !bound.is_empty() {
        return Some(bound);
    }
    let terms = &pod.data["spec"]["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"];
    let fields = terms.as_array()?.iter();
    let mut fields = fields.flat_map(|term| term["matchFields"].as_array().into_iter().flatten());
    let field = fields.find(|it| it["key"] == "metadata.name")?;
    field["values"][0].as_str()
}

/// Pods by the node that they are on or made for, the oldest first.
pub(super) fn by_node(pods: Vec<Found>) -> BTreeMap<String, Vec<Found>> {
    let mut nodes: BTreeMap<String, Vec<Found>> = BTreeMap::new();
    for pod in pods {
        if let Some(node) = target(&pod) {
            nodes.entry(node.to_owned()).or_default().push(pod);
        }
    }
    for pods in nodes.values_mut() {
        pods.sort_by_key(|pod| {
            let created = pod.metadata.creation_timestamp.as_ref().map(|it| it.0);
            // One that is bound is worth more than one that is not.
            (
                text(pod, "/spec/nodeName").is_empty(),
                created,
                pod.metadata.name.clone(),
            )
        });
    }
    nodes
}

/// A Pod for `node`.
pub(super) fn pod(owner: Owner<'_>, node: &str, hash: &str) -> Value {
    let object = owner.object;
    let mut pod = template::pod(owner, &object.data["spec"]["template"], Naming::OfOwner);
    let labels = &mut pod["metadata"]["labels"];
    labels[HASH] = json!(hash);
    let annotations = object.metadata.annotations.as_ref();
    let generation = annotations.and_then(|it| it.get("deprecated.daemonset.template.generation"));
    if let Some(generation) = generation {
        labels["pod-template-generation"] = json!(generation);
    }
    let spec = &mut pod["spec"];
    spec["tolerations"] = json!(tolerations(spec));
    // The scheduler binds it, to this node and no other.
    let field = json!({"key": "metadata.name", "operator": "In", "values": [node]});
    let required = &mut spec["affinity"]["nodeAffinity"][REQUIRED];
    match required["nodeSelectorTerms"].as_array_mut() {
        Some(terms) => {
            for term in terms {
                term["matchFields"] = json!([field]);
            }
        }
        None => *required = json!({"nodeSelectorTerms": [{"matchFields": [field]}]}),
    }
    pod
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    #[test]
    fn a_node_is_left_out_by_labels_and_by_taints() {
        let node = |taints: Value| -> DynamicObject {
            serde_json::from_value(json!({
                "metadata": {"name": "n", "labels": {"disk": "ssd"}}, "spec": {"taints": taints},
            }))
            .unwrap()
        };
        let taint = |key: &str, effect: &str| node(json!([{"key": key, "effect": effect}]));
        let said = |wants, keeps| Stand { wants, keeps };
        let spec = json!({"nodeSelector": {"disk": "ssd"}});
        assert_eq!(stand(&spec, &node(Value::Null)), said(true, true));
        assert_eq!(stand(&spec, &taint("x", "NoSchedule")), said(false, true));
        assert_eq!(stand(&spec, &taint("x", "NoExecute")), said(false, false));
        let cordoned = taint("node.kubernetes.io/unschedulable", "NoSchedule");
        assert_eq!(stand(&spec, &cordoned), said(true, true));
        let other = json!({"nodeSelector": {"disk": "hdd"}});
        assert_eq!(stand(&other, &node(Value::Null)), said(false, false));
    }
}
