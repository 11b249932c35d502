//! What somebody may do, apart from the store, for who asks later.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::identity::Identity;
use super::rbac::{Attributes, GROUP, covers, rules_for, subject_of};
use crate::store::{GroupResource, Store};

/// The rules of all roles that are bound to somebody, as they were at one time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rights {
    /// Whoever may do everything is asked for no rule.
    is_master: bool,
    everywhere: Vec<Value>,
    /// Those of namespaces in which there are more.
    within: BTreeMap<String, Vec<Value>>,
}

impl Rights {
    /// Those that somebody has now.
    pub fn of(store: &Store, identity: &Identity) -> Self {
        let bindings = GroupResource::new(GROUP, "rolebindings");
        let namespaces: BTreeSet<&str> = store
            .range(&bindings, None, None)
            .filter(|(key, binding)| {
                let subjects = &binding.value()["subjects"];
                subject_of(subjects, identity, &key.namespace).is_some()
            })
            .map(|(key, _)| key.namespace.as_str())
            .collect();
        Self {
            is_master: identity.is_master(),
            everywhere: rules_for(store, identity, ""),
            within: namespaces
                .into_iter()
                .map(|it| (it.to_owned(), rules_for(store, identity, it)))
                .collect(),
        }
    }

    /// Whether they are enough for something.
    pub fn allow(&self, wanted: &Attributes) -> bool {
        let rules = self.within.get(&wanted.namespace);
        let mut rules = rules.unwrap_or(&self.everywhere).iter();
        self.is_master || rules.any(|rule| covers(rule, wanted))
    }
}
