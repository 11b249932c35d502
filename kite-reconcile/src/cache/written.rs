//! What the API server said of an object, and the watch has not shown yet.

use std::sync::Arc;

use kite_core::cluster::Object;
use tokio::time::Instant;

use super::table::{ANCIENT, PATIENCE, now, version};

/// What the API server last said of an object.
pub(super) struct Written<K> {
    state: State<K>,
    since: Instant,
    /// When it was noted, by the table's count.
    at: u64,
}

enum State<K> {
    /// It answered with this object.
    There { object: Arc<K>, version: u64 },
    /// It said that there is none: not the one with this uid, and none up to
    /// this version.
    Gone { uid: Option<String>, version: u64 },
    /// It was told to change it, and what came of that is not known.
    Unsure {
        /// What the object was before.
        was: Option<(Option<String>, u64)>,
        /// The same, if the watch may not have shown it.
        before: Option<Arc<K>>,
        /// Nothing else is in doubt than whether the object with this uid is gone.
        deleted: Option<String>,
    },
}

/// What is to be believed of an object.
pub(super) enum Verdict<K> {
    /// What the store has.
    Confirmed,
    /// This, which the store does not have yet.
    There(Arc<K>),
    /// That it is gone, though the store has it.
    Absent,
    /// Nothing: the API server is to be asked.
    Ask,
}

impl<K: Object> Written<K> {
    pub(super) fn there(object: K, version: u64, at: u64) -> Self {
        let object = Arc::new(object);
        Self::new(State::There { object, version }, at)
    }

    /// The object is gone that was known as `before` and that the store still
    /// has as `stored`. None if nobody believes otherwise.
    pub(super) fn gone(before: Option<&Self>, stored: Option<&K>, at: u64) -> Option<Self> {
        let was = before.and_then(Self::was);
        let shown = stored.and_then(identity);
        let (uid, version) = was.into_iter().chain(shown).max_by_key(|(_, v)| *v)?;
        Some(Self::new(State::Gone { uid, version }, at))
    }

    pub(super) fn unsure(before: Option<&Self>, at: u64) -> Self {
        let state = State::Unsure {
            was: before.and_then(Self::was),
            before: before.and_then(Self::object),
            deleted: None,
        };
        Self::new(state, at)
    }

    /// The object with this uid was to be deleted.
    pub(super) fn deleted(before: Option<&Self>, stored: Option<&K>, uid: &str, at: u64) -> Self {
        // Another write's outcome is as little known as before.
        let is_doubted = before.is_some_and(|it| {
            matches!(&it.state, State::Unsure { deleted, .. } if deleted.as_deref() != Some(uid))
        });
        let shown = stored.and_then(identity);
        let was = before.and_then(Self::was).into_iter().chain(shown);
        let was = was.filter(|(known, _)| known.as_deref() == Some(uid));
        let state = State::Unsure {
            was: was.max_by_key(|(_, version)| *version),
            before: before.and_then(Self::object),
            deleted: (!is_doubted).then(|| uid.to_owned()),
        };
        Self::new(state, at)
    }

    fn new(state: State<K>, at: u64) -> Self {
        Self {
            state,
            since: now(),
            at,
        }
    }

    /// What was answered, if the watch may not have shown it.
    fn object(&self) -> Option<Arc<K>> {
        match &self.state {
            State::There { object, .. } => Some(Arc::clone(object)),
            State::Unsure { before, .. } => before.clone(),
            State::Gone { .. } => None,
        }
    }

    /// The uid and the version that were known.
    fn was(&self) -> Option<(Option<String>, u64)> {
        match &self.state {
            State::There { object, version } => Some((object.meta().uid.clone(), *version)),
            State::Gone { uid, version } => Some((uid.clone(), *version)),
            State::Unsure { was, .. } => was.clone(),
        }
    }

    /// Whether it was noted after `mark`: an answer to what was asked before
    /// then may be older.
    pub(super) fn is_after(&self, mark: u64) -> bool {
        self.at > mark
    }

    /// Whether an answer of this version, to what was asked at `mark`, tells
    /// nothing new.
    pub(super) fn stands_against(&self, answered: Option<u64>, mark: u64) -> bool {
        match &self.state {
            State::There { version, .. } => answered.is_some_and(|answered| *version > answered),
            State::Gone { .. } | State::Unsure { .. } => self.is_after(mark),
        }
    }

    /// Whether nothing is in doubt but that an object went.
    pub(super) fn is_doubted_deletion(&self) -> bool {
        matches!(&self.state, State::Unsure { deleted, .. } if deleted.is_some())
    }

    /// Whether an object in doubt may be among those that `selects` picks.
    pub(super) fn may_be_among(&self, stored: Option<&K>, selects: impl Fn(&K) -> bool) -> bool {
        let State::Unsure { before, .. } = &self.state else {
            return true;
        };
        if !self.is_doubted_deletion() {
            // Who knows with what labels it was written.
            return true;
        }
        let known = [before.as_deref(), stored];
        known.iter().all(Option::is_none) || known.into_iter().flatten().any(selects)
    }

    /// What is to be believed of an object of which the store has `stored`.
    pub(super) fn beside(&self, stored: Option<&K>) -> Verdict<K> {
        let is_old = self.since.elapsed() > PATIENCE;
        match &self.state {
            // Whatever came of it, the watch has shown it long ago.
            State::Unsure { .. } if self.is_ancient() => Verdict::Confirmed,
            State::Unsure { .. } => Verdict::Ask,
            State::There { .. } if stored.is_some_and(|stored| self.is_shown(stored)) => {
                Verdict::Confirmed
            }
            State::There { .. } if is_old => Verdict::Ask,
            State::There { object, .. } => Verdict::There(Arc::clone(object)),
            State::Gone { .. } => match stored {
                Some(stored) if self.is_shown(stored) => Verdict::Confirmed,
                Some(_) if is_old => Verdict::Ask,
                None if is_old => Verdict::Confirmed,
                // The store has still to show that it went, or even that it came.
                Some(_) | None => Verdict::Absent,
            },
        }
    }

    /// Whether a watch that shows `object` has caught up with this.
    pub(super) fn is_shown(&self, object: &K) -> bool {
        let Some(shown) = version(object) else {
            // Incomparable: what was written is not believed for long anyway.
            return true;
        };
        match &self.state {
            State::There { version, .. } => shown >= *version,
            State::Gone { uid, version } => shown > *version && object.meta().uid != *uid,
            State::Unsure {
                was: Some((_, version)),
                deleted: Some(uid),
                ..
            } => {
                let meta = object.meta();
                let is_it = meta.uid.as_ref() == Some(uid);
                // It goes, or has gone and another has its name.
                shown > *version && (!is_it || meta.deletion_timestamp.is_some())
            }
            State::Unsure { .. } => false,
        }
    }

    /// Whether a watch that shows that `object` went has caught up with this.
    pub(super) fn is_shown_gone(&self, object: &K) -> bool {
        match &self.state {
            State::There { object: known, .. } => {
                known.meta().uid == object.meta().uid || self.is_shown(object)
            }
            State::Gone { uid, .. } => *uid == object.meta().uid,
            State::Unsure { deleted, .. } => deleted.is_some() && *deleted == object.meta().uid,
        }
    }

    /// Whether nobody has asked for it in so long that nobody will.
    pub(super) fn is_ancient(&self) -> bool {
        self.since.elapsed() > ANCIENT
    }
}

/// The uid and the version of an object, if that is a number.
fn identity<K: Object>(object: &K) -> Option<(Option<String>, u64)> {
    Some((object.meta().uid.clone(), version(object)?))
}
