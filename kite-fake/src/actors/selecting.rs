//! Whom a Pod concerns that is selected by labels.

use std::collections::{BTreeMap, HashMap};

use serde_json::Value;

use super::actor::Change;
use super::kind::Key;
use super::labels::{labels, selects};
use super::mirror::Found;

/// Those that were seen which select Pods, and the Pods that were seen.
#[derive(Debug, Default)]
pub(super) struct Selecting {
    /// By namespace: a Pod is only compared with what is beside it.
    selectors: HashMap<String, BTreeMap<Key, Value>>,
    /// Pods as they were last seen: their labels may have been others.
    seen: HashMap<Key, Found>,
}

impl Selecting {
    /// Something is seen that selects Pods by a `LabelSelector`, or none where that is
    /// null: it concerns itself.
    pub(super) fn saw_selector(&mut self, change: &Change, selector: Value) -> Vec<Key> {
        let key = change.key();
        let beside = self.selectors.entry(key.space().to_owned()).or_default();
        if change.gone || selector.is_null() {
            beside.remove(&key);
        } else {
            beside.insert(key.clone(), selector);
        }
        if beside.is_empty() {
            self.selectors.remove(key.space());
        }
        vec![key]
    }

    /// A Pod is seen: it concerns those that select it, and those that did.
    pub(super) fn saw_pod(&mut self, change: &Change) -> Vec<Key> {
        let (key, now) = (change.key(), &change.object);
        let before = if change.gone {
            self.seen.remove(&key)
        } else {
            self.seen.insert(key.clone(), now.clone())
        };
        let before = before.filter(|before| labels(before) != labels(now));
        let beside = self.selectors.get(key.space()).into_iter().flatten();
        let concerned = beside.filter(|(_, selector)| {
            selects(selector, now) || before.as_ref().is_some_and(|it| selects(selector, it))
        });
        concerned.map(|(who, _)| who.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use kube::api::DynamicObject;
    use serde_json::json;

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
        let pod = |app: &str| {
            let pod = json!({"metadata": {"name": "p", "namespace": "a", "labels": {"app": app}}});
            change(&POD, pod)
        };
        let key = |name: &str| Key::new(&SERVICE, Some("a"), name);
        assert_eq!(selecting.saw_pod(&pod("x")), []);
        for (name, app) in [("s", "x"), ("t", "y")] {
            let service = json!({"metadata": {"name": name, "namespace": "a"}});
            let selector = json!({"matchLabels": {"app": app}});
            selecting.saw_selector(&change(&SERVICE, service), selector);
        }
        assert_eq!(selecting.saw_pod(&pod("y")), [key("s"), key("t")]);
        assert_eq!(selecting.saw_pod(&pod("z")), [key("t")]);
        assert_eq!(selecting.saw_pod(&pod("z")), []);
    }
}
