//! Who owns whom, as watches have shown it.

use std::collections::{BTreeSet, HashMap};

use crate::actors::kind::Key;

/// An object in the graph.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Node {
    key: Key,
    owners: Vec<String>,
}

/// Who an object says owns it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Named<'a> {
    pub(super) uid: &'a str,
    pub(super) api_version: &'a str,
    pub(super) kind: &'a str,
    pub(super) name: &'a str,
}

/// Objects by uid, with the uids of their owners.
#[derive(Debug, Default)]
pub(super) struct Graph {
    nodes: HashMap<String, Node>,
    dependents: HashMap<String, BTreeSet<Key>>,
    waiting: HashMap<String, Key>,
}

/// Whether `key` is the object that a dependent in `namespace` names.
fn is_named(key: &Key, named: Named<'_>, namespace: Option<&str>) -> bool {
    let within = key.namespace.is_none() || key.namespace.as_deref() == namespace;
    let kind = &key.kind;
    let (group, version) = named
        .api_version
        .rsplit_once('/')
        .unwrap_or(("", named.api_version));
    within
        && key.name == named.name
        && kind.kind == named.kind
        && kind.group == group
        && kind.version == version
}

impl Graph {
    /// An object is there, with these owners; `waits` where it is being deleted
    /// and waits for its dependents.
    pub(super) fn set(&mut self, uid: &str, key: &Key, owners: Vec<String>, waits: bool) {
        if waits {
            self.waiting.insert(uid.to_owned(), key.clone());
        } else {
            self.waiting.remove(uid);
        }
        if self
            .nodes
            .get(uid)
            .is_some_and(|node| node.owners == owners && node.key == *key)
        {
            return;
        }
        self.remove_node(uid);
        for owner in &owners {
            let of_owner = self.dependents.entry(owner.clone()).or_default();
            of_owner.insert(key.clone());
        }
        let key = key.clone();
        self.nodes.insert(uid.to_owned(), Node { key, owners });
    }

    /// An object is gone.
    pub(super) fn remove(&mut self, uid: &str) {
        self.waiting.remove(uid);
        self.remove_node(uid);
    }

    /// Whether all these owners of an object in `namespace` have been seen, and
    /// are not on their way out: the end of each will be heard of.
    pub(super) fn has_all<'a>(
        &self,
        mut owners: impl Iterator<Item = Named<'a>>,
        namespace: Option<&str>,
    ) -> bool {
        owners.all(|owner| {
            let node = self.nodes.get(owner.uid);
            node.is_some_and(|node| is_named(&node.key, owner, namespace))
                && !self.waiting.contains_key(owner.uid)
        })
    }

    fn remove_node(&mut self, uid: &str) {
        let Some(node) = self.nodes.remove(uid) else {
            return;
        };
        for owner in &node.owners {
            if let Some(of_owner) = self.dependents.get_mut(owner) {
                of_owner.remove(&node.key);
                if of_owner.is_empty() {
                    self.dependents.remove(owner);
                }
            }
        }
    }

    /// The dependents of the object with this uid.
    pub(super) fn dependents(&self, uid: &str) -> Vec<Key> {
        let keys = self.dependents.get(uid).into_iter().flatten();
        keys.cloned().collect()
    }

    /// Those owners of the object with this uid that wait for their dependents.
    pub(super) fn waiting_owners(&self, uid: &str) -> Vec<Key> {
        let owners = self.nodes.get(uid).into_iter().flat_map(|n| &n.owners);
        owners
            .filter_map(|o| self.waiting.get(o))
            .cloned()
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::actors::kind::CONFIG_MAP;

    #[test]
    fn an_owner_counts_when_it_is_the_one_that_is_named() {
        let mut graph = Graph::default();
        let owner = Key::new(&CONFIG_MAP, Some("a"), "owner");
        let named = |uid, name| Named {
            uid,
            api_version: "v1",
            kind: "ConfigMap",
            name,
        };
        let has = |graph: &Graph, named, namespace| {
            graph.has_all(std::iter::once(named), Some(namespace))
        };
        assert!(!has(&graph, named("o", "owner"), "a"));
        graph.set("o", &owner, Vec::new(), false);
        assert!(has(&graph, named("o", "owner"), "a"));
        assert!(!has(&graph, named("o", "owner"), "elsewhere"));
        assert!(!has(&graph, named("o", "other"), "a"));
        assert!(!has(&graph, named("p", "owner"), "a"));
        graph.set("o", &owner, Vec::new(), true);
        assert!(!has(&graph, named("o", "owner"), "a"));
    }

    #[test]
    fn dependents_follow_what_was_seen_last() {
        let mut graph = Graph::default();
        let key = Key::new(&CONFIG_MAP, Some("a"), "child");
        let owner = Key::new(&CONFIG_MAP, Some("a"), "owner");
        graph.set("o1", &owner, Vec::new(), true);
        graph.set("c", &key, vec!["o1".to_owned(), "o2".to_owned()], false);
        assert_eq!(graph.waiting_owners("c"), [owner]);
        assert_eq!(graph.dependents("o1"), std::slice::from_ref(&key));
        graph.set("c", &key, vec!["o2".to_owned()], false);
        assert!(graph.dependents("o1").is_empty());
        assert!(graph.waiting_owners("c").is_empty());
        graph.remove("c");
        graph.remove("o1");
        graph.remove("o2");
        assert!(graph.dependents("o2").is_empty());
        assert!(graph.nodes.is_empty() && graph.dependents.is_empty() && graph.waiting.is_empty());
    }
}
