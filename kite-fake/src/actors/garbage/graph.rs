//! Who owns whom, as watches have shown it.

use std::collections::{BTreeSet, HashMap};

use crate::actors::kind::Key;

/// An object in the graph.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Node {
    key: Key,
    owners: Vec<String>,
}

/// Objects by uid, with the uids of their owners.
#[derive(Debug, Default)]
pub(super) struct Graph {
    nodes: HashMap<String, Node>,
    dependents: HashMap<String, BTreeSet<Key>>,
    waiting: HashMap<String, Key>,
}

impl Graph {
    /// An object is there, with these owners; `waits` where it is being deleted
    /// and waits for its dependents.
    pub(super) fn set(&mut self, uid: &str, key: &Key, owners: Vec<String>, waits: bool) {
        self.remove(uid);
        if waits {
            self.waiting.insert(uid.to_owned(), key.clone());
        }
        if owners.is_empty() {
            return;
        }
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
        assert!(graph.dependents("o2").is_empty());
        assert!(graph.nodes.is_empty() && graph.dependents.is_empty() && graph.waiting.is_empty());
    }
}
