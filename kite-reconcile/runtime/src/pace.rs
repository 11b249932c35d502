//! How often a status is written that only says how far something is.

use std::{collections::HashMap, time::Duration};

use jiff::Timestamp;
use kite_cluster::ObjectKey;
use parking_lot::Mutex;

/// How soon a status has to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Urgency {
    /// At once.
    Now,
    /// An object goes through some phases in one breath: they can become one
    /// write.
    Soon,
    /// It only says how far something is.
    Later,
}

impl Urgency {
    /// How long after the last write the next one may come, if progress is written
    /// once in `progress_every`.
    pub(crate) fn pause(self, progress_every: Duration) -> Duration {
        match self {
            Self::Now => Duration::ZERO,
            Self::Soon => BREATH.min(progress_every),
            Self::Later => progress_every,
        }
    }
}

/// What counts as one breath.
const BREATH: Duration = Duration::from_secs(3);

/// After what time nothing waits any more for what was written.
const LONGEST: Duration = Duration::from_secs(600);

/// Objects beyond which those are looked for that can be forgotten.
const MANY: usize = 1024;

/// When the status of each object on its way was last written.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    last: Mutex<Last>,
}

#[derive(Debug, Default)]
struct Last {
    of: HashMap<(&'static str, ObjectKey), Timestamp>,
    /// How many there were that could not be forgotten, when that was last
    /// looked at.
    kept: usize,
}

impl Pace {
    /// How long a status has to wait that was written `every` or less ago. Of
    /// what was never written, nothing waits: after a crash there is one write
    /// more.
    pub(crate) fn wait(
        &self,
        kind: &'static str,
        key: ObjectKey,
        now: Timestamp,
        every: Duration,
    ) -> Option<Duration> {
        let last = *self.last.lock().of.get(&(kind, key))?;
        let passed = now.duration_since(last).unsigned_abs();
        every.checked_sub(passed).filter(|left| !left.is_zero())
    }

    /// The object is gone.
    pub(crate) fn forget(&self, kind: &'static str, key: ObjectKey) {
        self.last.lock().of.remove(&(kind, key));
    }

    /// The status was written.
    pub(crate) fn written(&self, kind: &'static str, key: ObjectKey, now: Timestamp) {
        let mut last = self.last.lock();
        last.of.insert((kind, key), now);
        // Only when there are twice as many as had to stay: looking through all
        // of them at every write would cost the square of a fleet.
        if last.of.len() > MANY.max(last.kept.saturating_mul(2)) {
            last.of
                .retain(|_, at| now.duration_since(*at).unsigned_abs() < LONGEST);
            last.kept = last.of.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_for_what_is_left_and_no_longer() {
        let pace = Pace::default();
        let key = || ObjectKey::cluster("a");
        let at = |second| Timestamp::from_second(second).unwrap_or_default();
        let every = Duration::from_secs(15);
        let wait = |second| pace.wait("K", key(), at(second), every);
        assert_eq!(wait(100), None);
        pace.written("K", key(), at(100));
        assert_eq!(wait(101), Some(Duration::from_secs(14)));
        assert_eq!(wait(115), None);
        assert_eq!(pace.wait("Other", key(), at(101), every), None);
    }

    #[test]
    fn forgets_what_nothing_waits_for() {
        let pace = Pace::default();
        let at = |second| Timestamp::from_second(second).unwrap_or_default();
        let write = |name: usize, second| {
            pace.written("K", ObjectKey::cluster(name.to_string()), at(second));
        };
        for name in 0..3 * MANY {
            write(name, 100);
        }
        let remembered = || pace.last.lock().of.len();
        assert_eq!(remembered(), 3 * MANY, "all may have to wait");
        for name in 3 * MANY..5 * MANY {
            write(name, 1000);
        }
        assert!(remembered() <= 2 * MANY, "{}", remembered());
    }
}
