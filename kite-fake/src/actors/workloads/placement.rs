//! Which node a Pod may go to.

use std::collections::BTreeMap;

use kube::api::DynamicObject;
use parking_lot::Mutex;
use serde_json::Value;

use super::nodes::NODE_NAME;
use super::pod_state::is_over;
use super::room::Room;
use crate::actors::actor::ActorError;
use crate::actors::kind::{NODE, POD};
use crate::actors::labels::{has_all, labels, meets, selects};
use crate::actors::mirror::Found;
use crate::actors::objects::{Objects, text, uid};

/// Why a node does not take a Pod.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Refusal {
    words: String,
    /// Ending other Pods would not change it.
    is_lasting: bool,
}

impl Refusal {
    fn lasting(words: impl Into<String>) -> Vec<Self> {
        let words = words.into();
        vec![Self {
            words,
            is_lasting: true,
        }]
    }
}

/// The first node by name that takes `pod`, or why none does, in the
/// scheduler's words. Where no node is registered, Pods go to [`NODE_NAME`].
pub(super) async fn choose(
    objects: Objects<'_>,
    room: &Mutex<Room>,
    pod: &DynamicObject,
) -> Result<Result<String, String>, ActorError> {
    let mut nodes = objects.list(&NODE, None, "").await?;
    if nodes.is_empty() {
        return Ok(Ok(NODE_NAME.to_owned()));
    }
    nodes.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
    let terms = pod.data["spec"]["affinity"]["podAntiAffinity"]
        ["requiredDuringSchedulingIgnoredDuringExecution"]
        .as_array();
    let others = if terms.is_some_and(|terms| !terms.is_empty()) {
        let namespace = pod.metadata.namespace.as_deref();
        objects.list(&POD, namespace, "").await?
    } else {
        Vec::new()
    };
    let room = room.lock();
    let mut refused = Vec::new();
    for node in &nodes {
        let refusals = refusals(pod, node, &others, &room);
        if refusals.is_empty() {
            return Ok(Ok(node.metadata.name.clone().unwrap_or_default()));
        }
        refused.push(refusals);
    }
    Ok(Err(refusal_text(pod, &refused)))
}

/// That no node takes `pod`, and what others might have been ended for it, as the
/// scheduler tells it.
fn refusal_text(pod: &DynamicObject, refused: &[Vec<Refusal>]) -> String {
    let reasons = refused.iter().flatten().map(|it| it.words.as_str());
    let count = refused.len();
    let lasting = |refusals: &Vec<Refusal>| refusals.iter().any(|it| it.is_lasting);
    format!(
        "0/{count} nodes are available: {}. {}",
        counted(reasons),
        preemption(pod, refused.iter().map(lasting))
    )
}

/// What comes of an attempt to end other Pods for `pod`; `lasting` says of each node
/// whether that could not help.
pub(super) fn preemption(pod: &DynamicObject, lasting: impl Iterator<Item = bool>) -> String {
    const FIRST: &str = "no new claims to deallocate, preemption:";
    if pod.data["spec"]["preemptionPolicy"] == "Never" {
        return format!("{FIRST} not eligible due to preemptionPolicy=Never.");
    }
    let words: Vec<&str> = lasting
        .map(|is_lasting| {
            if is_lasting {
                "Preemption is not helpful for scheduling"
            } else {
                "No preemption victims found for incoming pod"
            }
        })
        .collect();
    let count = words.len();
    format!(
        "{FIRST} 0/{count} nodes are available: {}.",
        counted(words.into_iter())
    )
}

/// How often each text comes, in order.
fn counted<'a>(words: impl Iterator<Item = &'a str>) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for word in words {
        *counts.entry(word).or_default() += 1;
    }
    let mut told: Vec<String> = counts
        .into_iter()
        .map(|(word, count)| format!("{count} {word}"))
        .collect();
    told.sort();
    told.join(", ")
}

/// Why `node` does not take `pod`: the first thing that the scheduler looks at, and all
/// that there is too little of.
fn refusals(
    pod: &DynamicObject,
    node: &DynamicObject,
    others: &[Found],
    room: &Room,
) -> Vec<Refusal> {
    let spec = &pod.data["spec"];
    let name = node.metadata.name.as_deref().unwrap_or_default();
    let tolerations = spec["tolerations"].as_array();
    let tolerated = |taint: &Value| {
        let all = tolerations.map_or(&[][..], Vec::as_slice);
        all.iter().any(|t| tolerates(t, taint))
    };
    let cordoned = serde_json::json!({
        "key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule",
    });
    if node.data["spec"]["unschedulable"] == true && !tolerated(&cordoned) {
        return Refusal::lasting("node(s) were unschedulable");
    }
    let taints = node.data["spec"]["taints"].as_array();
    let is_hit = taints
        .into_iter()
        .flatten()
        .filter(|t| t["effect"] != "PreferNoSchedule")
        .any(|taint| !tolerated(taint));
    if is_hit {
        return Refusal::lasting("node(s) had untolerated taint(s)");
    }
    if !selected(spec, node) {
        return Refusal::lasting("node(s) didn't match Pod's node affinity/selector");
    }
    let lacks = room.lacks(pod, node);
    if !lacks.is_empty() {
        let lacks = lacks.into_iter().map(|lack| Refusal {
            words: lack.words,
            is_lasting: lack.is_hopeless,
        });
        return lacks.collect();
    }
    let terms =
        spec["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
            .as_array();
    let repelled = terms.into_iter().flatten().any(|term| {
        let by_host = term["topologyKey"] == "kubernetes.io/hostname";
        by_host
            && others.iter().any(|other| {
                text(other, "/spec/nodeName") == name
                    && uid(other) != uid(pod)
                    && !is_over(other)
                    && selects(&term["labelSelector"], other)
            })
    });
    if !repelled {
        return Vec::new();
    }
    vec![Refusal {
        words: "node(s) didn't match pod anti-affinity rules".to_owned(),
        is_lasting: false,
    }]
}

/// Whether a toleration covers a taint.
pub(super) fn tolerates(toleration: &Value, taint: &Value) -> bool {
    let same = |field: &str| toleration[field].as_str().unwrap_or_default();
    let effect = same("effect").is_empty() || toleration["effect"] == taint["effect"];
    let key =
        same("key").is_empty() && same("operator") == "Exists" || toleration["key"] == taint["key"];
    let value = same("operator") == "Exists"
        || same("value") == taint["value"].as_str().unwrap_or_default();
    effect && key && value
}

/// Whether a node has the labels that a Pod's spec asks for.
pub(super) fn selected(spec: &Value, node: &DynamicObject) -> bool {
    let have = labels(node);
    let plain = has_all(have, &spec["nodeSelector"]);
    let terms = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        ["nodeSelectorTerms"]
        .as_array();
    plain
        && terms.is_none_or(|terms| {
            terms.iter().any(|term| {
                let expressions = term["matchExpressions"].as_array();
                let fields = term["matchFields"].as_array();
                // The only field is the name.
                let name = node.metadata.name.clone().unwrap_or_default();
                let name = BTreeMap::from([("metadata.name".to_owned(), name)]);
                let is_empty = expressions.is_none() && fields.is_none();
                !is_empty
                    && expressions.into_iter().flatten().all(|e| meets(have, e))
                    && fields.into_iter().flatten().all(|e| meets(&name, e))
            })
        })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use serde_json::json;

    use super::*;

    fn object(value: Value) -> DynamicObject {
        serde_json::from_value(value).unwrap()
    }

    fn node(name: &str, spec: &Value) -> DynamicObject {
        object(json!({
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}}, "spec": spec,
        }))
    }

    fn refused(pod: &DynamicObject, node: &DynamicObject, others: &[Found]) -> Option<String> {
        let refusals = refusals(pod, node, others, &Room::default());
        (!refusals.is_empty()).then(|| refusal_text(pod, &[refusals]))
    }

    #[test]
    fn a_cordoned_or_tainted_node_takes_only_those_that_tolerate_it() {
        let plain = object(json!({"metadata": {"name": "p"}, "spec": {}}));
        let cordoned = node("a", &json!({"unschedulable": true}));
        assert_eq!(
            refused(&plain, &cordoned, &[]).unwrap(),
            "0/1 nodes are available: 1 node(s) were unschedulable. no new claims to \
             deallocate, preemption: 0/1 nodes are available: 1 Preemption is not helpful for \
             scheduling."
        );
        let taint = json!({"taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]});
        let tainted = node("a", &taint);
        let said = refused(&plain, &tainted, &[]).unwrap();
        assert!(
            said.contains(": 1 node(s) had untolerated taint(s). "),
            "{said}"
        );
        let tolerant = object(json!({"metadata": {"name": "p"}, "spec": {
            "tolerations": [{"key": "k", "operator": "Equal", "value": "v"}],
        }}));
        assert_eq!(refused(&tolerant, &tainted, &[]), None);
    }

    #[test]
    fn what_nodes_lack_is_told_of_each() {
        let pod = object(json!({"metadata": {"name": "p"}, "spec": {"preemptionPolicy": "Never"}}));
        let lack = |words: &str, is_lasting| Refusal {
            words: words.to_owned(),
            is_lasting,
        };
        let refused = [
            vec![
                lack("Insufficient cpu", false),
                lack("Insufficient memory", false),
            ],
            vec![lack("Insufficient cpu", true)],
        ];
        assert_eq!(
            refusal_text(&pod, &refused),
            "0/2 nodes are available: 1 Insufficient memory, 2 Insufficient cpu. no new claims \
             to deallocate, preemption: not eligible due to preemptionPolicy=Never."
        );
        let pod = object(json!({"metadata": {"name": "p"}, "spec": {}}));
        let said = refusal_text(&pod, &refused);
        let end = "preemption: 0/2 nodes are available: 1 No preemption victims found for \
                   incoming pod, 1 Preemption is not helpful for scheduling.";
        assert!(said.ends_with(end), "{said}");
    }

    #[test]
    fn anti_affinity_keeps_pods_apart() {
        let pod = object(json!({"metadata": {"name": "p", "uid": "1"}, "spec": {
            "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"x": "y"}}},
            ]}},
        }}));
        let other = object(json!({
            "metadata": {"name": "o", "uid": "2", "labels": {"x": "y"}}, "spec": {"nodeName": "a"},
        }));
        let others = [other.into()];
        assert!(refused(&pod, &node("a", &json!({})), &others).is_some());
        assert_eq!(refused(&pod, &node("b", &json!({})), &others), None);
    }
}
