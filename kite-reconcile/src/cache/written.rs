//! What the API server said of an object, and the watch has not shown yet.

use std::sync::Arc;

use kite_core::cluster::Object;
use tokio::time::Instant;

use super::table::{ANCIENT, PATIENCE, now, version};

/// What the API server last said of an object.
pub(super) struct Written<K> {
    state: State<K>,
    since: Instant,
}

enum State<K> {
    /// It answered with this object.
    There { object: Arc<K>, version: u64 },
    /// It said that there is none: not the one with this uid, and none up to
    /// this version.
    Gone { uid: Option<String>, version: u64 },
    /// It was told to change it, and what came of that is not known. Before, the
    /// object was this one.
    Unsure { was: Option<(Option<String>, u64)> },
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
    pub(super) fn there(object: K, version: u64) -> Self {
        let object = Arc::new(object);
        Self {
            state: State::There { object, version },
            since: now(),
        }
    }

    /// The object is gone that was known as `before` and that the store still
    /// has as `stored`. None if nobody believes otherwise.
    pub(super) fn gone(before: Option<&Self>, stored: Option<&K>) -> Option<Self> {
        let was = before.and_then(Self::was);
        let shown = stored.and_then(|stored| Some((stored.meta().uid.clone(), version(stored)?)));
        let (uid, version) = was.into_iter().chain(shown).max_by_key(|(_, v)| *v)?;
        Some(Self {
            state: State::Gone { uid, version },
            since: now(),
        })
    }

    pub(super) fn unsure(before: Option<&Self>) -> Self {
        let was = before.and_then(Self::was);
        Self {
            state: State::Unsure { was },
            since: now(),
        }
    }

    /// The uid and the version that were known.
    fn was(&self) -> Option<(Option<String>, u64)> {
        match &self.state {
            State::There { object, version } => Some((object.meta().uid.clone(), *version)),
            State::Gone { uid, version } => Some((uid.clone(), *version)),
            State::Unsure { was } => was.clone(),
        }
    }

    /// What is to be believed of an object of which the store has `stored`.
    pub(super) fn beside(&self, stored: Option<&K>) -> Verdict<K> {
        let is_old = self.since.elapsed() > PATIENCE;
        match &self.state {
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
            State::Unsure { .. } => false,
        }
    }

    /// Whether this is of a later version than `other`.
    pub(super) fn is_newer(&self, other: &Self) -> bool {
        let of = |state: &State<K>| match state {
            State::There { version, .. } => Some(*version),
            // Whatever is answered after that tells more.
            State::Gone { .. } | State::Unsure { .. } => None,
        };
        matches!((of(&self.state), of(&other.state)), (Some(a), Some(b)) if a > b)
    }

    /// Whether nobody has asked for it in so long that nobody will.
    pub(super) fn is_ancient(&self) -> bool {
        self.since.elapsed() > ANCIENT
    }
}
