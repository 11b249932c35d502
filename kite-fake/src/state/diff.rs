//! What differs between two states.

mod fields;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use super::{ObjectId, Snapshot, View};
use crate::store::Object;

pub use fields::FieldChange;

/// What happened to one object.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Difference {
    /// It is only in the later state, like this.
    Added(Value),
    /// It was only in the earlier state, like this.
    Removed(Value),
    /// It is in both, and these fields differ.
    Changed(Vec<FieldChange>),
}

/// What differs between two states, by object. Its text has a line for each
/// object that came (`+`) or went (`-`), and one for each field that changed
/// (`~`):
///
/// ```text
/// + ConfigMap default/a
/// - Secret default/c
/// ~ Service default/b: spec.ports[0].port: 80 → 81
/// ```
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Diff {
    objects: BTreeMap<ObjectId, Difference>,
}

impl Diff {
    /// Whether nothing differs.
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// How many objects differ.
    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// The objects that differ, in the order of their kinds and names.
    pub fn iter(&self) -> impl Iterator<Item = (&ObjectId, &Difference)> {
        self.objects.iter()
    }

    /// What happened to one object; `None` if nothing did.
    pub fn get(&self, id: &ObjectId) -> Option<&Difference> {
        self.objects.get(id)
    }

    /// The objects that are only in the later state.
    pub fn added(&self) -> impl Iterator<Item = (&ObjectId, &Value)> {
        self.iter().filter_map(|(id, what)| match what {
            Difference::Added(value) => Some((id, value)),
            _ => None,
        })
    }

    /// The objects that were only in the earlier state.
    pub fn removed(&self) -> impl Iterator<Item = (&ObjectId, &Value)> {
        self.iter().filter_map(|(id, what)| match what {
            Difference::Removed(value) => Some((id, value)),
            _ => None,
        })
    }

    /// The objects that are in both and differ.
    pub fn changed(&self) -> impl Iterator<Item = (&ObjectId, &[FieldChange])> {
        self.iter().filter_map(|(id, what)| match what {
            Difference::Changed(fields) => Some((id, fields.as_slice())),
            _ => None,
        })
    }
}

impl fmt::Display for Diff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (id, what) in &self.objects {
            match what {
                Difference::Added(_) => writeln!(f, "+ {id}")?,
                Difference::Removed(_) => writeln!(f, "- {id}")?,
                Difference::Changed(fields) => {
                    for field in fields {
                        writeln!(f, "~ {id}: {field}")?;
                    }
                }
            }
        }
        Ok(())
    }
}

/// What changed from one state to another.
pub(super) fn between(before: &Snapshot, after: &Snapshot, view: &View) -> Diff {
    let mut objects = BTreeMap::new();
    if view.normalised {
        let (before, mut after) = (view.of(before), view.of(after));
        for (id, old) in before {
            let what = match after.remove(&id) {
                None => Some(Difference::Removed(old)),
                Some(new) => changed(&old, &new, view),
            };
            objects.extend(what.map(|what| (id, what)));
        }
        objects.extend(after.into_iter().map(|(id, v)| (id, Difference::Added(v))));
        return Diff { objects };
    }
    // States share what did not change between them: only the rest is read.
    let mut put = |id: ObjectId, what: Option<Difference>| {
        if view.selects(&id) {
            objects.extend(what.map(|what| (id, what)));
        }
    };
    let shown = |object: &Object| view.strip(object.to_value());
    for (resource, old) in before.store.collections() {
        let new = after.store.collection(resource);
        if new.is_some_and(|new| Arc::ptr_eq(old, new)) {
            continue;
        }
        for (key, object) in old.iter() {
            let other = new.and_then(|new| new.get(key));
            if other
                .is_some_and(|other| Arc::ptr_eq(object, other) || object.json() == other.json())
            {
                continue;
            }
            let old = shown(object);
            let id = ObjectId::new(old["kind"].as_str().unwrap_or_default(), resource, key);
            let what = match other {
                None => Some(Difference::Removed(old)),
                Some(other) => changed(&old, &shown(other), view),
            };
            put(id, what);
        }
    }
    for (resource, new) in after.store.collections() {
        let old = before.store.collection(resource);
        if old.is_some_and(|old| Arc::ptr_eq(old, new)) {
            continue;
        }
        for (key, object) in new.iter() {
            if old.is_none_or(|old| !old.contains_key(key)) {
                let new = shown(object);
                let id = ObjectId::new(new["kind"].as_str().unwrap_or_default(), resource, key);
                put(id, Some(Difference::Added(new)));
            }
        }
    }
    Diff { objects }
}

/// What differs between two values.
pub(crate) fn field_changes(old: &Value, new: &Value) -> Vec<FieldChange> {
    fields::between(old, new)
}

fn changed(old: &Value, new: &Value, view: &View) -> Option<Difference> {
    let mut changes = fields::between(old, new);
    if !view.versions {
        changes.retain(|change| change.path != "metadata.resourceVersion");
    }
    (!changes.is_empty()).then_some(Difference::Changed(changes))
}
