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

/// The last refusal of each object. After a crash it is asked for once more.
#[derive(Debug, Default)]
pub(crate) struct Refusals {
    of: Mutex<HashMap<(&'static str, ObjectKey), Refusal>>,
}

impl Refusals {
    /// Something was refused to the object.
    pub(crate) fn note(&self, kind: &'static str, key: ObjectKey, refusal: Refusal) {
        self.of.lock().insert((kind, key), refusal);
    }

    /// What was refused to the object, until that is over.
    pub(crate) fn known(
        &self,
        kind: &'static str,
        key: &ObjectKey,
        now: Timestamp,
    ) -> Option<Refusal> {
        let mut of = self.of.lock();
        let key = (kind, key.clone());
        let refusal = of.get(&key)?;
        if refusal.until > now {
            return Some(refusal.clone());
        }
        of.remove(&key);
        None
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
        assert_eq!(refusals.known("K", &a, at(159)), Some(refusal));
        assert_eq!(refusals.known("Other", &a, at(159)), None);
        assert_eq!(refusals.known("K", &a, at(160)), None);
        // It is not kept, either.
        assert_eq!(refusals.known("K", &a, at(0)), None);
        refusals.forget("K", &b);
        assert_eq!(refusals.known("K", &b, at(0)), None);
    }
}
