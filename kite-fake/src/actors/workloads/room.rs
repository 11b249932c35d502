//! How much of what nodes have is taken by the Pods on them.

use std::collections::BTreeMap;

use kube::api::DynamicObject;

use super::pod_state::is_over;
use crate::actors::kind::Key;
use crate::actors::objects::text;
use crate::builtin::quantity;
use crate::server::usage::pod_totals;

/// Nanounits of one whole.
const ONE: i128 = 1_000_000_000;

/// Amounts of resources in nanounits.
type Amounts = BTreeMap<String, i128>;

/// Something of which a node has too little for a Pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Lack {
    /// The scheduler's words for it.
    pub(super) words: String,
    /// Even without any other Pod it would be too little.
    pub(super) is_hopeless: bool,
}

/// Which Pods take how much of which node.
#[derive(Debug, Default)]
pub(super) struct Room {
    held: BTreeMap<Key, (String, Amounts)>,
    nodes: BTreeMap<String, Amounts>,
    /// The Pods that were there at the start are counted.
    pub(super) is_counted: bool,
}

/// What a Pod takes of its node.
fn needs(pod: &DynamicObject) -> Amounts {
    let totals = pod_totals(&pod.data["spec"], "requests").into_iter();
    let mut needs: Amounts = totals.map(|(name, (nano, _))| (name, nano)).collect();
    needs.insert("pods".to_owned(), ONE);
    needs
}

impl Room {
    /// A Pod is seen. True where room was given back.
    pub(super) fn see(&mut self, key: &Key, pod: &DynamicObject) -> bool {
        let node = text(pod, "/spec/nodeName");
        if node.is_empty() || is_over(pod) {
            return self.release(key);
        }
        self.hold(key, pod, node)
    }

    /// A Pod takes its part of a node. True where that is less of something than before.
    pub(super) fn hold(&mut self, key: &Key, pod: &DynamicObject, node: &str) -> bool {
        let needs = needs(pod);
        let mut is_less = false;
        if let Some((at, before)) = self.held.get(key) {
            if at == node && *before == needs {
                return false;
            }
            let now = |name| needs.get(name).copied().unwrap_or_default();
            is_less = at != node || before.iter().any(|(name, nano)| now(name) < *nano);
        }
        self.release(key);
        let taken = self.nodes.entry(node.to_owned()).or_default();
        for (name, nano) in &needs {
            *taken.entry(name.clone()).or_default() += nano;
        }
        self.held.insert(key.clone(), (node.to_owned(), needs));
        is_less
    }

    /// A Pod is gone, or has ended. True where it had taken something.
    pub(super) fn release(&mut self, key: &Key) -> bool {
        let Some((node, needs)) = self.held.remove(key) else {
            return false;
        };
        if let Some(taken) = self.nodes.get_mut(&node) {
            for (name, nano) in &needs {
                *taken.entry(name.clone()).or_default() -= nano;
            }
        }
        true
    }

    /// What `node` has too little of for `pod`. One that does not say what it has takes
    /// everything.
    pub(super) fn lacks(&self, pod: &DynamicObject, node: &DynamicObject) -> Vec<Lack> {
        let Some(has) = node.data["status"]["allocatable"].as_object() else {
            return Vec::new();
        };
        let name = node.metadata.name.as_deref().unwrap_or_default();
        let taken = self.nodes.get(name);
        let of = |resource: &str| {
            let text = has.get(resource).and_then(|amount| amount.as_str());
            text.and_then(quantity::nano).unwrap_or_default()
        };
        let mut lacks = Vec::new();
        for (resource, wanted) in needs(pod) {
            let has = of(&resource);
            let is_taken = taken.and_then(|taken| taken.get(&resource));
            let free = has - is_taken.copied().unwrap_or_default();
            if wanted > 0 && wanted > free {
                let words = if resource == "pods" {
                    "Too many pods".to_owned()
                } else {
                    format!("Insufficient {resource}")
                };
                let is_hopeless = wanted > has && resource != "pods";
                lacks.push(Lack { words, is_hopeless });
            }
        }
        lacks
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;
    use crate::actors::kind::POD;

    fn pod(name: &str, cpu: &str) -> DynamicObject {
        let pod = json!({"metadata": {"name": name, "namespace": "a"}, "spec": {
            "nodeName": "n", "containers": [{"resources": {"requests": {"cpu": cpu}}}]}});
        serde_json::from_value(pod).unwrap()
    }

    fn words(room: &Room, cpu: &str) -> Vec<(String, bool)> {
        let node = json!({"metadata": {"name": "n"},
            "status": {"allocatable": {"cpu": "2", "pods": "2"}}});
        let lacks = room.lacks(&pod("new", cpu), &serde_json::from_value(node).unwrap());
        let pairs = lacks.into_iter().map(|lack| (lack.words, lack.is_hopeless));
        pairs.collect()
    }

    #[test]
    fn a_pod_takes_what_it_requests_until_it_ends() {
        let key = |name: &str| Key::new(&POD, Some("a"), name);
        let mut room = Room::default();
        assert_eq!(words(&room, "3"), [("Insufficient cpu".to_owned(), true)]);
        room.see(&key("a"), &pod("a", "1500m"));
        room.see(&key("a"), &pod("a", "1500m"));
        assert_eq!(words(&room, "500m"), []);
        assert_eq!(words(&room, "1"), [("Insufficient cpu".to_owned(), false)]);
        room.see(&key("b"), &pod("b", "100m"));
        assert_eq!(words(&room, "0"), [("Too many pods".to_owned(), false)]);
        let mut over = pod("a", "1500m");
        over.data["status"]["phase"] = json!("Succeeded");
        assert!(room.see(&key("a"), &over));
        assert_eq!(words(&room, "1"), []);
    }
}
