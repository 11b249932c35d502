//! Which node a Pod may go to.

use crate::actors::mirror::Found;
use std::collections::BTreeMap;

use kube::api::DynamicObject;
use serde_json::Value;

use super::nodes::NODE_NAME;
use crate::actors::actor::ActorError;
use crate::actors::kind::{NODE, POD};
use crate::actors::labels::{has_all, labels, meets, selects};
use crate::actors::objects::{Objects, text, uid};

/// The first node by name that takes `pod`, or why none does, in the
/// scheduler's words. Where no node is registered, Pods go to [`NODE_NAME`].
pub(super) async fn choose(
    objects: Objects<'_>,
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
    let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
    for node in &nodes {
        match refusal(pod, node, &others) {
            None => return Ok(Ok(node.metadata.name.clone().unwrap_or_default())),
            Some(reason) => *reasons.entry(reason).or_default() += 1,
        }
    }
    let told: Vec<String> = reasons
        .iter()
        .map(|(reason, count)| format!("{count} {reason}"))
        .collect();
    Ok(Err(format!(
        "0/{} nodes are available: {}.",
        nodes.len(),
        told.join(", ")
    )))
}

/// Why `node` does not take `pod`.
fn refusal(pod: &DynamicObject, node: &DynamicObject, others: &[Found]) -> Option<String> {
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
        return Some("node(s) were unschedulable".to_owned());
    }
    let taints = node.data["spec"]["taints"].as_array();
    let hit = taints
        .into_iter()
        .flatten()
        .filter(|t| t["effect"] != "PreferNoSchedule")
        // A cordoned node has this taint too; the scheduler tells only one.
        .find(|taint| !tolerated(taint));
    if let Some(taint) = hit {
        let word = |field: &str| taint[field].as_str().unwrap_or_default().to_owned();
        let (key, value) = (word("key"), word("value"));
        return Some(format!("node(s) had untolerated taint {{{key}: {value}}}"));
    }
    if !selected(spec, node) {
        return Some("node(s) didn't match Pod's node affinity/selector".to_owned());
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
                    && !["Succeeded", "Failed"].contains(&text(other, "/status/phase"))
                    && selects(&term["labelSelector"], other)
            })
    });
    repelled.then(|| "node(s) didn't match pod anti-affinity rules".to_owned())
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

    #[test]
    fn a_cordoned_or_tainted_node_takes_only_those_that_tolerate_it() {
        let plain = object(json!({"metadata": {"name": "p"}, "spec": {}}));
        let cordoned = node("a", &json!({"unschedulable": true}));
        assert_eq!(
            refusal(&plain, &cordoned, &[]).unwrap(),
            "node(s) were unschedulable"
        );
        let taint = json!({"taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]});
        let tainted = node("a", &taint);
        assert_eq!(
            refusal(&plain, &tainted, &[]).unwrap(),
            "node(s) had untolerated taint {k: v}"
        );
        let tolerant = object(json!({"metadata": {"name": "p"}, "spec": {
            "tolerations": [{"key": "k", "operator": "Equal", "value": "v"}],
        }}));
        assert_eq!(refusal(&tolerant, &tainted, &[]), None);
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
        assert!(refusal(&pod, &node("a", &json!({})), &others).is_some());
        assert_eq!(refusal(&pod, &node("b", &json!({})), &others), None);
    }
}
