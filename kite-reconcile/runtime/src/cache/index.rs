//! Finding objects by something else than their name.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use kite_cluster::{Object, ObjectKey};
use parking_lot::RwLock;

use super::table::Query;
use crate::kinds::Indexers;

const NAMESPACE: &str = "namespace";

type Keys = HashMap<(&'static str, String), BTreeSet<Arc<ObjectKey>>>;

/// The index of a table.
pub(super) struct Index<K> {
    indexers: Indexers<K>,
    keys: RwLock<Keys>,
}

impl<K: Object> Index<K> {
    pub(super) fn new(indexers: Indexers<K>) -> Self {
        Self {
            indexers,
            keys: RwLock::default(),
        }
    }

    /// The object is as `new` now and was as `old`.
    pub(super) fn change(&self, old: Option<&K>, new: Option<&K>) {
        let of = |object: Option<&K>| object.map(|object| self.entries(object));
        let (before, after) = (of(old), of(new));
        if before == after {
            return;
        }
        let mut keys = self.keys.write();
        for (object, entry) in old.into_iter().flat_map(|o| {
            let entries = before.iter().flatten();
            entries.map(move |entry| (o, entry))
        }) {
            if let Some(found) = keys.get_mut(entry) {
                found.remove(&ObjectKey::of(object));
                if found.is_empty() {
                    keys.remove(entry);
                }
            }
        }
        if let Some(object) = new {
            let key = Arc::new(ObjectKey::of(object));
            for entry in after.into_iter().flatten() {
                let found = keys.entry(entry).or_default();
                found.insert(Arc::clone(&key));
            }
        }
    }

    /// The objects with this value.
    pub(super) fn with(&self, name: &'static str, value: &str) -> Vec<Arc<ObjectKey>> {
        let keys = self.keys.read();
        let found = keys.get(&(name, value.to_owned()));
        found.into_iter().flatten().cloned().collect()
    }

    /// All that a query can find, and little else; none if that is not known.
    pub(super) fn narrow(&self, query: &Query) -> Option<Vec<Arc<ObjectKey>>> {
        let by_label = query.labels.iter().find_map(|(label, value)| {
            let label = self
                .indexers
                .labels
                .iter()
                .find(|indexed| *indexed == label)?;
            Some((*label, value.as_str()))
        });
        let by_namespace = query
            .namespace
            .as_deref()
            .filter(|_| self.indexers.namespace);
        let (name, value) = by_label.or(by_namespace.map(|value| (NAMESPACE, value)))?;
        Some(self.with(name, value))
    }

    fn entries(&self, object: &K) -> Vec<(&'static str, String)> {
        let meta = object.meta();
        let mut entries = (self.indexers.functions)(object);
        let namespace = meta.namespace.as_ref().filter(|_| self.indexers.namespace);
        entries.extend(namespace.map(|namespace| (NAMESPACE, namespace.clone())));
        let labels = meta.labels.as_ref();
        entries.extend(self.indexers.labels.iter().filter_map(|label| {
            let value = labels?.get(*label)?;
            Some((*label, value.clone()))
        }));
        entries
    }
}
