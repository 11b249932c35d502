//! The objects of one kind, as a watch tells of them.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::hash::Hash;

use kube::runtime::watcher::Event;

/// Holds what is kept of each object, by key.
pub(super) struct Mirror<K, V> {
    objects: HashMap<K, V>,
    /// Keys seen since the watch started anew.
    seen: Option<HashSet<K>>,
    ready: bool,
}

impl<K, V> Default for Mirror<K, V> {
    fn default() -> Self {
        Self {
            objects: HashMap::new(),
            seen: None,
            ready: false,
        }
    }
}

impl<K: Eq + Hash + Clone, V> Mirror<K, V> {
    /// Takes an event; gives the keys whose objects may have changed. `read`
    /// gives an object's key and what is to be kept of it; nothing is kept of
    /// an object that cannot be used.
    pub(super) fn apply<O>(
        &mut self,
        event: Event<O>,
        read: impl Fn(O) -> Option<(K, Option<V>)>,
    ) -> Vec<K> {
        match event {
            Event::Init => {
                self.seen = Some(HashSet::new());
                Vec::new()
            }
            Event::InitDone => {
                self.ready = true;
                let seen = self.seen.take().unwrap_or_default();
                let gone: Vec<K> = self
                    .objects
                    .keys()
                    .filter(|key| !seen.contains(key))
                    .cloned()
                    .collect();
                for key in &gone {
                    self.objects.remove(key);
                }
                gone
            }
            Event::InitApply(object) | Event::Apply(object) => self.insert(read(object)),
            Event::Delete(object) => match read(object) {
                Some((key, _)) => {
                    self.objects.remove(&key);
                    vec![key]
                }
                None => Vec::new(),
            },
        }
    }

    fn insert(&mut self, entry: Option<(K, Option<V>)>) -> Vec<K> {
        let Some((key, value)) = entry else {
            return Vec::new();
        };
        if let Some(seen) = &mut self.seen {
            seen.insert(key.clone());
        }
        match value {
            Some(value) => self.objects.insert(key.clone(), value),
            None => self.objects.remove(&key),
        };
        vec![key]
    }

    pub(super) fn get(&self, key: &K) -> Option<&V> {
        self.objects.get(key)
    }

    /// Whether everything was listed once.
    pub(super) fn is_ready(&self) -> bool {
        self.ready
    }
}

/// Which members belong to which group, so that nobody has to search all.
pub(super) struct Groups<G, M>(HashMap<G, BTreeSet<M>>);

impl<G, M> Default for Groups<G, M> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<G: Eq + Hash + Clone, M: Ord + Clone> Groups<G, M> {
    /// Says whether a member is there.
    pub(super) fn set(&mut self, group: &G, member: &M, there: bool) {
        if there {
            let members = self.0.entry(group.clone()).or_default();
            members.insert(member.clone());
        } else if let Some(members) = self.0.get_mut(group) {
            members.remove(member);
            if members.is_empty() {
                self.0.remove(group);
            }
        }
    }

    /// The members of a group.
    pub(super) fn of(&self, group: &G) -> impl Iterator<Item = &M> + use<'_, G, M> {
        self.0.get(group).into_iter().flatten()
    }

    /// Whether there is no group.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[expect(clippy::unnecessary_wraps, reason = "the shape that is asked for")]
    fn read(n: u32) -> Option<(u32, Option<u32>)> {
        Some((n % 10, (n < 90).then_some(n)))
    }

    #[test]
    fn a_new_list_drops_what_is_gone() {
        let mut mirror = Mirror::default();
        for event in [Event::Init, Event::InitApply(11), Event::InitApply(12)] {
            mirror.apply(event, read);
        }
        assert!(!mirror.is_ready());
        assert!(mirror.apply(Event::InitDone, read).is_empty());
        assert!(mirror.is_ready());
        assert_eq!(mirror.apply(Event::Apply(22), read), [2]);
        assert_eq!(mirror.get(&2), Some(&22));
        for event in [Event::Init, Event::InitApply(31)] {
            mirror.apply(event, read);
        }
        assert_eq!(mirror.get(&2), Some(&22), "still there until all is listed");
        assert_eq!(mirror.apply(Event::InitDone, read), [2]);
        assert_eq!(mirror.get(&2), None);
        assert_eq!(mirror.apply(Event::Delete(31), read), [1]);
        assert!(mirror.objects.is_empty());
        mirror.apply(Event::Apply(45), read);
        assert_eq!(mirror.apply(Event::Apply(95), read), [5]);
        assert_eq!(mirror.get(&5), None, "it cannot be used any more");
    }
}
