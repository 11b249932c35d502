//! Which objects refer to which others, so that a change of one brings those
//! back that depend on it.

use std::collections::{BTreeSet, HashMap};

use super::kind::Key;

/// References between objects, as watches have shown them.
#[derive(Debug, Default)]
pub struct References {
    from: HashMap<Key, BTreeSet<Key>>,
    to: HashMap<Key, BTreeSet<Key>>,
}

impl References {
    /// `source` refers to exactly `targets`.
    pub fn set(&mut self, source: &Key, targets: Vec<Key>) {
        for old in self.from.remove(source).unwrap_or_default() {
            if let Some(sources) = self.to.get_mut(&old) {
                sources.remove(source);
                if sources.is_empty() {
                    self.to.remove(&old);
                }
            }
        }
        for target in targets {
            let sources = self.to.entry(target.clone()).or_default();
            sources.insert(source.clone());
            self.from.entry(source.clone()).or_default().insert(target);
        }
    }

    /// Those that refer to `target`, directly or through others.
    pub fn to(&self, target: &Key) -> Vec<Key> {
        let mut found = BTreeSet::new();
        let mut open = vec![target.clone()];
        while let Some(next) = open.pop() {
            for source in self.to.get(&next).into_iter().flatten() {
                if found.insert(source.clone()) {
                    open.push(source.clone());
                }
            }
        }
        found.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::actors::kind::{CLAIM, POD, VOLUME_SNAPSHOT};

    #[test]
    fn references_are_followed_through_others() {
        let mut references = References::default();
        let key = |kind, name| Key::new(kind, Some("a"), name);
        let (volume, source, claim) =
            (key(&VOLUME_SNAPSHOT, "v"), key(&POD, "s"), key(&CLAIM, "c"));
        references.set(&volume, vec![source.clone()]);
        references.set(&source, vec![claim.clone()]);
        assert_eq!(references.to(&claim), [source.clone(), volume.clone()]);
        references.set(&source, Vec::new());
        assert!(references.to(&claim).is_empty());
        assert_eq!(references.to(&source), std::slice::from_ref(&volume));
        references.set(&volume, Vec::new());
        assert!(references.from.is_empty() && references.to.is_empty());
    }
}
