//! When states of the past are forgotten.
//!
//! A real server has etcd forget, every five minutes, what was before the state of five
//! minutes ago. A list of such a state, and the rest of one that began then, has to
//! begin anew. Watches do not: they read from the server's own memory, which is
//! bounded by the number of events.

use std::time::Duration;

use jiff::Timestamp;

/// Time between two compactions.
const INTERVAL: Duration = Duration::from_secs(5 * 60);

/// What has been forgotten, and when more will be.
#[derive(Debug, Default)]
pub(super) struct Compaction {
    /// When it is time again; nothing has happened yet if there is none.
    due: Option<Timestamp>,
    /// The revision at the last time, which is the oldest to stay at the next.
    next: u64,
    /// States before this revision are forgotten.
    oldest: u64,
}

impl Compaction {
    /// Forgets what it is time to; `revision` is that of now.
    pub(super) fn catch_up(&mut self, now: Timestamp, revision: u64) {
        if self.due.is_some_and(|due| now < due) {
            return;
        }
        if let Some(due) = self.due {
            self.oldest = self.next;
            // It was time more than once, and there was nothing new.
            if due.checked_add(INTERVAL).is_ok_and(|second| now >= second) {
                self.oldest = revision;
            }
        }
        self.next = revision;
        self.due = now.checked_add(INTERVAL).ok();
    }

    /// Whether the state of a revision is forgotten.
    pub(super) fn has_forgotten(&self, revision: u64) -> bool {
        revision < self.oldest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_remembered_for_five_minutes_and_forgotten_after_ten() {
        let mut compaction = Compaction::default();
        let mut at = |seconds: i64, revision| {
            let now = Timestamp::from_second(1_000 + seconds).unwrap_or_default();
            compaction.catch_up(now, revision);
            compaction.oldest
        };
        assert_eq!(at(0, 10), 0);
        assert_eq!(at(299, 20), 0);
        assert_eq!(at(300, 30), 10);
        assert_eq!(at(599, 40), 10);
        assert_eq!(at(610, 50), 30);
        // Long after that: what was then is what is now.
        assert_eq!(at(5_000, 60), 60);
        assert!(compaction.has_forgotten(59) && !compaction.has_forgotten(60));
    }
}
