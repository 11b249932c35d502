//! Which Services select which Pods.

use std::collections::{BTreeMap, HashMap};

use kube::api::DynamicObject;

use crate::actors::actor::Change;
use crate::actors::kind::Key;
use crate::actors::labels::labels;
use crate::actors::mirror::Found;

/// What a Service selects: nothing where it is empty.
type Selector = BTreeMap<String, String>;

/// The Services that were seen, and whose Pods those are that were seen.
#[derive(Debug, Default)]
pub(super) struct Selecting {
    /// By namespace: a Pod is only compared with what is beside it.
    selectors: HashMap<String, BTreeMap<Key, Selector>>,
    /// Pods as they were last seen: their labels may have been others.
    seen: HashMap<Key, Found>,
}

impl Selecting {
    /// A Service is seen: it concerns itself.
    pub(super) fn saw_service(&mut self, change: &Change) -> Vec<Key> {
        let key = change.key();
        let beside = self.selectors.entry(key.space().to_owned()).or_default();
        let selector = selector(&change.object);
        if change.gone || selector.is_empty() {
            beside.remove(&key);
        } else {
            beside.insert(key.clone(), selector);
        }
        if beside.is_empty() {
            self.selectors.remove(key.space());
        }
        vec![key]
    }

    /// A Pod is seen: it concerns the Services that select it, and those that did.
    pub(super) fn saw_pod(&mut self, change: &Change) -> Vec<Key> {
        let key = change.key();
        let before = if change.gone {
            self.seen.remove(&key)
        } else {
            self.seen.insert(key.clone(), change.object.clone())
        };
        let now = labels(&change.object);
        let before = before.as_ref().map(|pod| labels(pod));
        let before = before.filter(|before| *before != now);
        let beside = self.selectors.get(key.space()).into_iter().flatten();
        let concerned = beside.filter(|(_, with)| {
            has_all(now, with) || before.is_some_and(|before| has_all(before, with))
        });
        concerned.map(|(service, _)| service.clone()).collect()
    }
}

fn has_all(labels: &BTreeMap<String, String>, selector: &Selector) -> bool {
    selector
        .iter()
        .all(|(name, it)| labels.get(name) == Some(it))
}

/// The labels that a Service selects by.
pub(super) fn selector(service: &DynamicObject) -> Selector {
    let pairs = service.data["spec"]["selector"].as_object();
    let pairs = pairs.into_iter().flatten();
    pairs
        .map(|(name, value)| (name.clone(), value.as_str().unwrap_or_default().to_owned()))
        .collect()
}

/// The same as a query.
pub(super) fn selector_text(service: &DynamicObject) -> String {
    let pairs = selector(service).into_iter();
    let pairs: Vec<String> = pairs
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    pairs.join(",")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::{Value, json};

    use super::*;
    use crate::actors::kind::{Kind, POD, SERVICE};

    fn change(kind: &Kind, object: Value) -> Change {
        let object: DynamicObject = serde_json::from_value(object).unwrap();
        Change {
            kind: kind.clone(),
            object: object.into(),
            gone: false,
        }
    }

    #[test]
    fn a_pod_concerns_those_that_select_it_and_those_that_did() {
        let mut selecting = Selecting::default();
        let service = |name: &str, app: &str| {
            json!({"metadata":
            {"name": name, "namespace": "a"}, "spec": {"selector": {"app": app}}})
        };
        let pod = |app: &str| {
            let pod = json!({"metadata": {"name": "p", "namespace": "a", "labels": {"app": app}}});
            change(&POD, pod)
        };
        let key = |name: &str| Key::new(&SERVICE, Some("a"), name);
        assert_eq!(selecting.saw_pod(&pod("x")), []);
        for (name, app) in [("s", "x"), ("t", "y")] {
            selecting.saw_service(&change(&SERVICE, service(name, app)));
        }
        assert_eq!(selecting.saw_pod(&pod("y")), [key("s"), key("t")]);
        assert_eq!(selecting.saw_pod(&pod("z")), [key("t")]);
        assert_eq!(selecting.saw_pod(&pod("z")), []);
    }
}
