//! A work queue: keys that are due now or later, each at most once.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use tokio::time::Instant;

use super::kind::Key;

/// First pause after a failure; it doubles with each further one.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
/// Longest pause after failures.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Keys with the times at which they are due.
#[derive(Debug, Default)]
pub(super) struct Queue {
    order: BTreeMap<(Instant, u64), Key>,
    slots: HashMap<Key, (Instant, u64)>,
    sequence: u64,
    failures: HashMap<Key, u32>,
    held: BTreeSet<Key>,
    /// Those in the queue that are there as a matter of routine.
    routine: BTreeSet<Key>,
    /// The rules changed since a key was last taken.
    woken: bool,
}

impl Queue {
    /// Puts `key` in at `at`; an earlier entry of the same key wins.
    pub(super) fn push(&mut self, key: Key, at: Instant) {
        self.held.remove(&key);
        self.routine.remove(&key);
        match self.slots.remove(&key) {
            Some(slot) if slot.0 <= at => {
                self.slots.insert(key, slot);
                return;
            }
            Some(slot) => drop(self.order.remove(&slot)),
            None => {}
        }
        let slot = (at, self.sequence);
        self.sequence += 1;
        self.slots.insert(key.clone(), slot);
        self.order.insert(slot, key);
    }

    /// The first key that is due, in the order of due times and then arrival.
    pub(super) fn pop(&mut self, now: Instant) -> Option<Key> {
        let (&slot, _) = self.order.first_key_value()?;
        if slot.0 > now {
            return None;
        }
        let key = self.order.remove(&slot)?;
        self.slots.remove(&key);
        self.routine.remove(&key);
        self.woken = false;
        Some(key)
    }

    /// Whether the rules changed since a key was last taken: what was decided
    /// about it by the old ones has to be decided anew.
    pub(super) fn is_woken(&self) -> bool {
        self.woken
    }

    /// Puts `key` in at `at` as a matter of routine, unless it comes anyway.
    pub(super) fn later(&mut self, key: Key, at: Instant) {
        if !self.slots.contains_key(&key) {
            self.push(key.clone(), at);
            self.routine.insert(key);
        }
    }

    /// When the next key is due.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.order.first_key_value().map(|((at, _), _)| *at)
    }

    /// `key` was reconciled: its failures are forgotten.
    pub(super) fn succeeded(&mut self, key: &Key) {
        self.failures.remove(key);
    }

    /// `key` waits for other rules.
    pub(super) fn hold(&mut self, key: Key) {
        if !self.slots.contains_key(&key) {
            self.held.insert(key);
        }
    }

    /// `key` failed: it comes again after a pause that grows.
    pub(super) fn failed(&mut self, key: Key, now: Instant) {
        let count = self.failures.entry(key.clone()).or_default();
        let pause = FIRST_PAUSE
            .saturating_mul(1_u32 << (*count).min(16))
            .min(LONGEST_PAUSE);
        *count = count.saturating_add(1);
        self.push(key, now + pause);
    }

    /// The rules changed: what was held or waits is due now.
    pub(super) fn wake_all(&mut self, now: Instant) {
        self.woken = true;
        let waiting: Vec<Key> = self.order.values().cloned().collect();
        for key in std::mem::take(&mut self.held).into_iter().chain(waiting) {
            self.push(key, now);
        }
    }

    /// Keys that are due or wait for their time; those that are held or a matter
    /// of routine do not count.
    pub(super) fn len(&self) -> usize {
        self.order.len() - self.routine.len()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;
    use crate::actors::kind::POD;

    fn key(name: &str) -> Key {
        Key::new(&POD, Some("a"), name)
    }

    #[tokio::test(start_paused = true)]
    async fn each_key_comes_once_at_its_earliest_time() {
        let mut queue = Queue::default();
        let now = Instant::now();
        queue.push(key("late"), now + Duration::from_secs(2));
        queue.push(key("b"), now);
        queue.push(key("a"), now);
        queue.push(key("b"), now + Duration::from_secs(9));
        assert_eq!(queue.pop(now), Some(key("b")));
        assert_eq!(queue.pop(now), Some(key("a")));
        assert_eq!(queue.pop(now), None);
        assert_eq!(queue.next_due(), Some(now + Duration::from_secs(2)));
        queue.push(key("late"), now);
        assert_eq!(queue.pop(now), Some(key("late")));
        assert_eq!(queue.len(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn pauses_grow_until_a_success() {
        let mut queue = Queue::default();
        let now = Instant::now();
        let mut pause = || {
            queue.failed(key("x"), now);
            let at = queue.next_due().unwrap();
            assert_eq!(queue.pop(at), Some(key("x")));
            at - now
        };
        assert_eq!(pause(), FIRST_PAUSE);
        assert_eq!(pause(), FIRST_PAUSE * 2);
        for _ in 0..40 {
            pause();
        }
        assert_eq!(pause(), LONGEST_PAUSE);
        queue.succeeded(&key("x"));
        queue.failed(key("x"), now);
        assert_eq!(queue.next_due(), Some(now + FIRST_PAUSE));
    }

    #[tokio::test(start_paused = true)]
    async fn routine_does_not_count_until_something_happens() {
        let mut queue = Queue::default();
        let now = Instant::now();
        queue.later(key("x"), now + Duration::from_secs(60));
        assert_eq!(queue.len(), 0);
        assert_eq!(queue.next_due(), Some(now + Duration::from_secs(60)));
        queue.push(key("x"), now);
        assert_eq!(queue.len(), 1);
        queue.later(key("x"), now + Duration::from_secs(60));
        assert_eq!(queue.pop(now), Some(key("x")));
        assert_eq!(queue.next_due(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn held_keys_wake_with_the_rules() {
        let mut queue = Queue::default();
        let now = Instant::now();
        queue.hold(key("x"));
        assert_eq!(queue.pop(now), None);
        queue.wake_all(now);
        assert_eq!(queue.pop(now), Some(key("x")));
    }
}
