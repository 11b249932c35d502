//! What the API server said of an object, and the watch has not shown yet.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use kite_cluster::Object;
use kube::ResourceExt as _;
use tokio::time::Instant;

use super::table::{ANCIENT, PATIENCE, Query, now, version};

/// What the API server last said of an object.
pub(super) struct Written<K> {
    state: State<K>,
    since: Instant,
    /// When this version was first answered, or this end.
    first: Instant,
    /// When it was noted, by the table's count.
    at: u64,
}

enum State<K> {
    /// It answered with this object, which the watch may take so long to show.
    There {
        object: Arc<K>,
        version: u64,
        patience: Duration,
    },
    /// It said that there is none: not the one with this uid, and none up to
    /// this version.
    Gone { uid: Option<String>, version: u64 },
    /// It was told to change it, and what came of that is not known.
    Unsure {
        /// What the object was before.
        was: Option<(Option<String>, u64)>,
        /// The same, if the watch may not have shown it.
        before: Option<Arc<K>>,
        doubt: Doubt,
    },
}

/// What is not known of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Doubt {
    /// Whether the one with this uid is gone, and nothing else.
    Deletion(String),
    /// Whether it is as it was, or has these labels too.
    Labels(BTreeMap<String, String>),
    /// All of it.
    Anything,
}

/// What is to be believed of an object.
pub(super) enum Verdict<K> {
    /// What the store has.
    Confirmed,
    /// This, which the store does not have. `is_settled`: the API server has said
    /// so again after a while, so that the watch may never show it.
    There { object: Arc<K>, is_settled: bool },
    /// That it is gone, though the store has it.
    Absent,
    /// Nothing: the API server is to be asked.
    Ask,
}

impl<K: Object> Written<K> {
    /// `before` is what was known. What the watch has not shown in its time is
    /// asked for less and less often: it may lie outside of what is watched.
    pub(super) fn there(before: Option<&Self>, object: K, version: u64, at: u64) -> Self {
        let patience = match before.map(|before| (&before.state, before.since.elapsed())) {
            Some((
                State::There {
                    object: known,
                    version: same,
                    patience,
                },
                waited,
            )) if *same == version && known.meta().uid == object.meta().uid => {
                if waited > *patience {
                    ANCIENT.min(*patience * 2)
                } else {
                    *patience
                }
            }
            _ => PATIENCE,
        };
        let object = Arc::new(object);
        let state = State::There {
            object,
            version,
            patience,
        };
        Self::new(state, at).after(before)
    }

    /// The object is gone that was known as `before` and that the store still
    /// has as `stored`. None if nobody believes otherwise.
    pub(super) fn gone(before: Option<&Self>, stored: Option<&K>, at: u64) -> Option<Self> {
        let was = before.and_then(Self::was);
        let shown = stored.and_then(identity);
        let (uid, version) = was.into_iter().chain(shown).max_by_key(|(_, v)| *v)?;
        Some(Self::new(State::Gone { uid, version }, at).after(before))
    }

    pub(super) fn unsure(before: Option<&Self>, doubt: Doubt, at: u64) -> Self {
        // Of two writes either may have been the last.
        let doubt = match before.map(|before| &before.state) {
            Some(State::Unsure { doubt: other, .. }) if *other != doubt => Doubt::Anything,
            _ => doubt,
        };
        let state = State::Unsure {
            was: before.and_then(Self::was),
            before: before.and_then(Self::object),
            doubt,
        };
        Self::new(state, at)
    }

    /// The object with this uid was to be deleted.
    pub(super) fn deleted(before: Option<&Self>, stored: Option<&K>, uid: &str, at: u64) -> Self {
        let deletion = Doubt::Deletion(uid.to_owned());
        // Another write's outcome is as little known as before.
        let is_doubted = before.is_some_and(
            |it| matches!(&it.state, State::Unsure { doubt, .. } if *doubt != deletion),
        );
        let shown = stored.and_then(identity);
        let was = before.and_then(Self::was).into_iter().chain(shown);
        let was = was.filter(|(known, _)| known.as_deref() == Some(uid));
        let state = State::Unsure {
            was: was.max_by_key(|(_, version)| *version),
            before: before.and_then(Self::object),
            doubt: if is_doubted {
                Doubt::Anything
            } else {
                deletion
            },
        };
        Self::new(state, at)
    }

    fn new(state: State<K>, at: u64) -> Self {
        let since = now();
        Self {
            state,
            since,
            first: since,
            at,
        }
    }

    /// An answer that says the same as the one before is no newer than that.
    fn after(mut self, before: Option<&Self>) -> Self {
        let both = before.map(|before| (&before.state, &self.state));
        let is_same = match both {
            Some(
                (State::There { .. }, State::There { .. })
                | (State::Gone { .. }, State::Gone { .. }),
            ) => before.and_then(Self::was) == self.was(),
            _ => false,
        };
        if let (Some(before), true) = (before, is_same) {
            self.first = before.first;
        }
        self
    }

    /// How long the watch has not shown what the API server has answered; the store
    /// has `stored`. None if it has, or if nothing is known that it had to show.
    pub(super) fn unshown(&self, stored: Option<&K>) -> Option<Duration> {
        let is_known = !matches!(self.state, State::Unsure { .. });
        let is_shown = matches!(self.beside(stored), Verdict::Confirmed);
        (is_known && !is_shown).then(|| self.first.elapsed())
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
            State::There {
                object, version, ..
            } => Some((object.meta().uid.clone(), *version)),
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

    /// The uid of the object of which nothing is in doubt but that it went.
    pub(super) fn doubted_deletion(&self) -> Option<&String> {
        match &self.state {
            State::Unsure {
                doubt: Doubt::Deletion(uid),
                ..
            } => Some(uid),
            _ => None,
        }
    }

    /// Whether an object in doubt may be among those that the query finds.
    pub(super) fn may_be_among(&self, stored: Option<&K>, query: &Query) -> bool {
        let State::Unsure { before, doubt, .. } = &self.state else {
            return true;
        };
        let known = || before.as_deref().into_iter().chain(stored);
        match doubt {
            Doubt::Deletion(_) => {
                known().next().is_none() || known().any(|object| query.selects(object))
            }
            Doubt::Labels(written) => query.labels.iter().all(|(label, value)| {
                written.get(label) == Some(value)
                    || known().any(|object| object.labels().get(label) == Some(value))
            }),
            Doubt::Anything => true,
        }
    }

    /// Whether an object that the store does not have among those that the query
    /// finds is not among them by what the API server has answered, either. Most
    /// objects are not, and need not be looked at.
    pub(super) fn is_surely_not_among(&self, query: &Query) -> bool {
        match &self.state {
            State::There {
                object, patience, ..
            } => self.since.elapsed() <= *patience && !query.selects(&**object),
            State::Gone { .. } => self.since.elapsed() <= PATIENCE,
            State::Unsure { .. } => false,
        }
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
            State::There { patience, .. } if self.since.elapsed() > *patience => Verdict::Ask,
            State::There {
                object, patience, ..
            } => Verdict::There {
                object: Arc::clone(object),
                is_settled: *patience > PATIENCE,
            },
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
                doubt: Doubt::Deletion(uid),
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
            State::Unsure { .. } => {
                let deleted = self.doubted_deletion();
                deleted.is_some() && deleted == object.meta().uid.as_ref()
            }
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
