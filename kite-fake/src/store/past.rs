//! A collection as it was: what is there now, with what changed since undone.

use std::collections::BTreeMap;
use std::iter::Peekable;

use super::{Forgotten, GroupResource, Key, Object, Store};

impl Store {
    /// The objects as they were at `revision`, of one namespace or of all,
    /// starting after a key if one is given. Takes as long as what is read of it
    /// and what has changed since.
    ///
    /// # Errors
    /// [`Forgotten`] if the history does not go back to `revision`.
    pub fn past<'a>(
        &'a self,
        resource: &GroupResource,
        namespace: Option<&'a str>,
        after: Option<&Key>,
        revision: u64,
    ) -> Result<impl Iterator<Item = (&'a Key, &'a Object)> + use<'a>, Forgotten> {
        let mut undone: BTreeMap<&Key, Option<&Object>> = BTreeMap::new();
        for event in self.events_since(resource, revision)? {
            let key = &event.key;
            if namespace.is_none_or(|n| n == key.namespace) && after.is_none_or(|a| key > a) {
                // What was before the first change is what was there then.
                undone.entry(key).or_insert(event.previous.as_ref());
            }
        }
        Ok(Undone {
            now: self.range(resource, namespace, after).peekable(),
            then: undone.into_iter().peekable(),
        })
    }

    /// The objects as they were at `revision`.
    ///
    /// # Errors
    /// [`Forgotten`] if the history does not go back to `revision`.
    pub fn at(
        &self,
        resource: &GroupResource,
        namespace: Option<&str>,
        revision: u64,
    ) -> Result<BTreeMap<Key, Object>, Forgotten> {
        let past = self.past(resource, namespace, None, revision)?;
        Ok(past.map(|(k, o)| (k.clone(), o.clone())).collect())
    }
}

/// What is there now beside what was there then, where that differs.
struct Undone<N: Iterator, T: Iterator> {
    now: Peekable<N>,
    then: Peekable<T>,
}

impl<'a, N, T> Iterator for Undone<N, T>
where
    N: Iterator<Item = (&'a Key, &'a Object)>,
    T: Iterator<Item = (&'a Key, Option<&'a Object>)>,
{
    type Item = (&'a Key, &'a Object);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let Some((changed, _)) = self.then.peek() else {
                return self.now.next();
            };
            let present = self.now.peek().map(|(key, _)| key);
            if present.is_some_and(|present| present < changed) {
                return self.now.next();
            }
            if present == Some(changed) {
                self.now.next();
            }
            if let Some((key, Some(object))) = self.then.next() {
                return Some((key, object));
            }
        }
    }
}
