//! Keys with the times at which they are due.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

/// Why a key is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    /// Something changed.
    Change,
    /// It asked to be called again.
    Requeue,
    /// It failed.
    Retry,
    /// It is called now and then, whatever happens.
    Routine,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) at: Instant,
    pub(super) why: Why,
}

/// Keys with the times at which they are due, each at most once.
#[derive(Debug)]
pub(super) struct Due<K>(BTreeMap<K, Entry>);

impl<K> Default for Due<K> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<K: Ord + Clone> Due<K> {
    /// Puts a key in; an earlier entry of the same key wins.
    pub(super) fn push(&mut self, key: K, at: Instant, why: Why) {
        match self.0.get_mut(&key) {
            Some(entry) if entry.at <= at => {}
            Some(entry) => *entry = Entry { at, why },
            None => drop(self.0.insert(key, Entry { at, why })),
        }
    }

    pub(super) fn remove(&mut self, key: &K) {
        self.0.remove(key);
    }

    /// What is due, in the order of keys.
    pub(super) fn now(&self, now: Instant) -> impl Iterator<Item = &K> {
        let due = self.0.iter().filter(move |(_, entry)| entry.at <= now);
        due.map(|(key, _)| key)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&K, Entry)> {
        self.0.iter().map(|(key, entry)| (key, *entry))
    }

    /// Everything is due at once.
    pub(super) fn hurry(&mut self, now: Instant) {
        for entry in self.0.values_mut() {
            entry.at = entry.at.min(now);
        }
    }
}

/// Pause after so many failures in a row, from `first` to `longest`, doubling.
pub(super) fn backoff(failures: u32, first: Duration, longest: Duration) -> Duration {
    let doublings = failures.saturating_sub(1).min(20);
    first.saturating_mul(1 << doublings).min(longest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_earliest_time_of_a_key_counts() {
        let mut due = Due::default();
        let now = Instant::now();
        let second = Duration::from_secs(1);
        due.push("a", now + second, Why::Requeue);
        due.push("b", now, Why::Change);
        due.push("b", now + second, Why::Retry);
        assert_eq!(due.now(now).collect::<Vec<_>>(), [&"b"]);
        due.push("a", now, Why::Change);
        assert_eq!(due.now(now).collect::<Vec<_>>(), [&"a", &"b"]);
        assert!(due.iter().all(|(_, entry)| entry.why == Why::Change));
    }

    #[test]
    fn pauses_double_up_to_a_bound() {
        let pause = |n| backoff(n, Duration::from_secs(1), Duration::from_secs(10)).as_secs();
        assert_eq!([pause(1), pause(2), pause(3), pause(9)], [1, 2, 4, 10]);
    }
}
