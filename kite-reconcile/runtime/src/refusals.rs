//! What was refused, and is not asked for again for a while: not by the next event, either.

use std::collections::HashMap;

use jiff::Timestamp;
use kite_cluster::ObjectKey;
use parking_lot::Mutex;

/// That something is not done, and until when it is not tried again, whatever happens
/// meanwhile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// What was to be done: of another it says nothing.
    pub of: String,
    /// Why it is not, in words that people read.
    pub why: String,
    /// When it may be tried again.
    pub until: Timestamp,
}

/// What was refused to each object. After a crash it is asked for once more.
#[derive(Debug, Default)]
pub(crate) struct Refusals {
    of: Mutex<HashMap<(&'static str, ObjectKey), Vec<Refusal>>>,
}

impl Refusals {
    /// Something was refused to the object.
    pub(crate) fn note(&self, kind: &'static str, key: ObjectKey, refusal: Refusal) {
        let mut of = self.of.lock();
        let known = of.entry((kind, key)).or_default();
        known.retain(|it| it.of != refusal.of);
        known.push(refusal);
    }

    /// What was refused to the object, until that is over.
    pub(crate) fn known(
        &self,
        kind: &'static str,
        key: &ObjectKey,
        now: Timestamp,
    ) -> Vec<Refusal> {
        let mut of = self.of.lock();
        let key = (kind, key.clone());
        let Some(known) = of.get_mut(&key) else {
            return Vec::new();
        };
        known.retain(|it| it.until > now);
        let known = known.clone();
        if known.is_empty() {
            of.remove(&key);
        }
        known
    }

    /// The object is gone.
    pub(crate) fn forget(&self, kind: &'static str, key: &ObjectKey) {
        self.of.lock().remove(&(kind, key.clone()));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_refusal_is_known_until_it_is_over_or_its_object_gone() {
        let refusals = Refusals::default();
        let (a, b) = (ObjectKey::cluster("a"), ObjectKey::cluster("b"));
        let at = |second| Timestamp::from_second(second).unwrap();
        let refusal = Refusal {
            of: "the move".to_owned(),
            why: "a policy".to_owned(),
            until: at(160),
        };
        refusals.note("K", a.clone(), refusal.clone());
        refusals.note("K", b.clone(), refusal.clone());
        let other = Refusal {
            of: "the way".to_owned(),
            until: at(200),
            ..refusal.clone()
        };
        refusals.note("K", a.clone(), other.clone());
        assert_eq!(refusals.known("K", &a, at(159)), [refusal, other.clone()]);
        assert!(refusals.known("Other", &a, at(159)).is_empty());
        assert_eq!(
            refusals.known("K", &a, at(160)),
            std::slice::from_ref(&other)
        );
        // It is not kept, either, and there is one of each.
        assert_eq!(refusals.known("K", &a, at(0)), std::slice::from_ref(&other));
        let again = Refusal {
            until: at(300),
            ..other
        };
        refusals.note("K", a.clone(), again.clone());
        assert_eq!(refusals.known("K", &a, at(0)), [again]);
        refusals.forget("K", &b);
        assert!(refusals.known("K", &b, at(0)).is_empty());
    }
}
