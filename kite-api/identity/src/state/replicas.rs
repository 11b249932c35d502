//! [`Replicas`]: what is known of replicas of earlier versions.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// How long it is believed what was last seen.
const BELIEVED: Duration = Duration::from_secs(20);
/// What was seen so long ago says nothing of the time since. Looks that fail for longer tell
/// as little; one that fails in between neither proves nor disproves anything.
pub(crate) const GAP: Duration = Duration::from_secs(5 * 60);

/// What is known of the replicas.
#[derive(Debug, Default)]
pub(crate) struct Replicas {
    pub(crate) known: Mutex<Known>,
    /// Held by whoever looks: all others wait for what they find.
    pub(crate) looking: tokio::sync::Mutex<()>,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Known {
    /// When it was looked last.
    pub(crate) looked: Option<Instant>,
    /// When a look told something last.
    told: Option<Instant>,
    /// Since when each look that told something has found that all know passwords as this
    /// one does.
    pub(crate) alike_since: Option<Instant>,
    /// Whether one of an earlier version was seen since they last were alike for long, or
    /// nobody could ever say.
    pub(crate) has_older: bool,
    /// Whether a look has ever told something.
    pub(crate) has_seen: bool,
    /// Whether the last one could not.
    pub(crate) has_failed: bool,
}

impl Known {
    /// Takes in what a look at `now` found: whether there is one of an earlier version.
    pub(crate) fn note(&mut self, found: Option<bool>, now: Instant) {
        let is_gap = self.told.is_none_or(|told| now - told > GAP);
        self.looked = Some(now);
        if found.is_some() {
            self.told = Some(now);
        }
        match found {
            Some(false) => {
                if is_gap || self.alike_since.is_none() {
                    self.alike_since = Some(now);
                }
            }
            Some(true) => {
                self.alike_since = None;
                self.has_older = true;
            }
            None => {
                if is_gap {
                    self.alike_since = None;
                }
                self.has_older |= !self.has_seen;
            }
        }
        self.has_seen |= found.is_some();
        self.has_failed = found.is_none();
    }

    /// Whether they have been for `age`. While nobody can say nothing is done that rests on
    /// it.
    pub(crate) fn are_alike(&self, age: Duration, now: Instant) -> bool {
        !self.has_failed && self.alike_since.is_some_and(|since| now - since >= age)
    }

    pub(crate) fn is_believed(&self) -> bool {
        self.looked.is_some_and(|at| at.elapsed() < BELIEVED)
    }
}
