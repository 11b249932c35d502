//! Which changes of what all depend on are worth telling all.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use kite_core::cluster::{Object, ObjectKey};
use kube::ResourceExt as _;

/// Tells changes of what is looked at of few, much reported objects from mere
/// changes of their status. What is no such change may be the object's end, which
/// looks like what was heard of it last, and so counts.
pub(super) struct Changes<F, S> {
    /// By the object's name: its uid, the facts, and the status.
    seen: Mutex<Known<F, S>>,
}

type Known<F, S> = HashMap<ObjectKey, (Option<String>, F, S)>;

impl<F, S> Default for Changes<F, S> {
    fn default() -> Self {
        Self {
            seen: Mutex::default(),
        }
    }
}

impl<F: PartialEq, S: Clone + PartialEq> Changes<F, S> {
    /// Whether `object`, of which `facts` are looked at, has changed in more than
    /// its `status`.
    pub(super) fn is_one<K: Object>(&self, object: &K, facts: F, status: &S) -> bool {
        let key = ObjectKey::of(object);
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if object.meta().deletion_timestamp.is_some() {
            seen.remove(&key);
            return true;
        }
        let now = (object.uid(), facts, status.clone());
        let before = seen.insert(key.clone(), now);
        let (Some(before), Some(now)) = (before, seen.get(&key)) else {
            return true;
        };
        let is_mere_status = before.0 == now.0 && before.1 == now.1 && before.2 != now.2;
        !is_mere_status
    }
}
