//! Bans for those who guess passwords, with growing times.
//!
//! Counted are an address, whose connections are then dropped, and a login
//! name, whose passwords are then all wrong: somebody who guesses from many
//! addresses. A name's keys still log in, so that nobody can be locked out by a
//! stranger's guesses.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// Entries that are remembered; above it the oldest are forgotten.
const MAX_ENTRIES: usize = 32 * 1024;

/// When and for how long somebody is banned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BanPolicy {
    /// Failures that lead to a ban; 0 never bans.
    pub failures: u32,
    /// Failures further apart than this do not add up.
    pub within: Duration,
    /// The first ban; each further one is twice as long.
    pub first: Duration,
    /// The longest ban. Who kept quiet for as long starts anew.
    pub longest: Duration,
}

#[derive(Clone, Copy)]
struct Entry {
    failures: u32,
    last: Instant,
    bans: u32,
    until: Option<Instant>,
}

/// Counts failures by key.
pub(crate) struct Bans<K> {
    policy: BanPolicy,
    entries: Mutex<HashMap<K, Entry>>,
}

impl<K: Eq + Hash + Clone> Bans<K> {
    pub(crate) fn new(policy: BanPolicy) -> Self {
        Self {
            policy,
            entries: Mutex::default(),
        }
    }

    /// Whether `key` is banned at the time `now`.
    pub(crate) fn is_banned(&self, key: &K, now: Instant) -> bool {
        let entries = self.entries.lock();
        let until = entries.get(key).and_then(|entry| entry.until);
        until.is_some_and(|until| now < until)
    }

    /// Takes a failure back that was counted before it was known to be one; `ban` is
    /// what it led to.
    pub(crate) fn forgive(&self, key: &K, ban: Option<Duration>) {
        let mut entries = self.entries.lock();
        let Some(entry) = entries.get_mut(key) else {
            return;
        };
        if ban.is_some() {
            entry.until = None;
            entry.bans = entry.bans.saturating_sub(1);
            entry.failures = self.policy.failures;
        }
        entry.failures = entry.failures.saturating_sub(1);
    }

    /// Counts a failure at the time `now`; gives the ban that it led to.
    pub(crate) fn failed(&self, key: &K, now: Instant) -> Option<Duration> {
        let BanPolicy {
            failures,
            within,
            first,
            longest,
        } = self.policy;
        if failures == 0 {
            return None;
        }
        let mut entries = self.entries.lock();
        if entries.len() >= MAX_ENTRIES && !entries.contains_key(key) {
            make_room(&mut entries, now, longest);
        }
        let entry = entries.entry(key.clone()).or_insert(Entry {
            failures: 0,
            last: now,
            bans: 0,
            until: None,
        });
        let quiet = now.duration_since(entry.last.max(entry.until.unwrap_or(entry.last)));
        if quiet > within {
            entry.failures = 0;
        }
        if quiet > longest {
            entry.bans = 0;
        }
        entry.last = now;
        entry.failures += 1;
        if entry.failures < failures {
            return None;
        }
        entry.failures = 0;
        let ban = first.saturating_mul(1 << entry.bans.min(20)).min(longest);
        entry.bans += 1;
        entry.until = Some(now + ban);
        Some(ban)
    }
}

/// Forgets who has been quiet, or else the older half.
fn make_room<K: Eq + Hash + Clone>(
    entries: &mut HashMap<K, Entry>,
    now: Instant,
    longest: Duration,
) {
    entries.retain(|_, entry| now.duration_since(entry.last) <= longest);
    if entries.len() < MAX_ENTRIES {
        return;
    }
    let mut times: Vec<Instant> = entries.values().map(|entry| entry.last).collect();
    times.sort_unstable();
    if let Some(&middle) = times.get(times.len() / 2) {
        entries.retain(|_, entry| entry.last > middle);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: BanPolicy = BanPolicy {
        failures: 3,
        within: Duration::from_secs(60),
        first: Duration::from_secs(10),
        longest: Duration::from_secs(35),
    };

    fn fail(bans: &Bans<&'static str>, times: u32, now: Instant) -> Option<Duration> {
        (0..times).filter_map(|_| bans.failed(&"a", now)).last()
    }

    #[test]
    fn bans_grow_and_end() {
        let bans = Bans::new(POLICY);
        let mut now = Instant::now();
        for seconds in [10, 20, 35, 35] {
            assert_eq!(fail(&bans, 2, now), None);
            assert!(!bans.is_banned(&"a", now));
            assert_eq!(fail(&bans, 1, now), Some(Duration::from_secs(seconds)));
            assert!(bans.is_banned(&"a", now));
            assert!(!bans.is_banned(&"b", now));
            now += Duration::from_secs(seconds);
            assert!(!bans.is_banned(&"a", now));
        }
        now += POLICY.longest * 2;
        assert_eq!(fail(&bans, 3, now), Some(POLICY.first), "quiet for long");
    }

    #[test]
    fn slow_failures_do_not_add_up() {
        let bans = Bans::new(POLICY);
        let start = Instant::now();
        for minute in 0..10 {
            let now = start + Duration::from_secs(61 * minute);
            assert_eq!(bans.failed(&"a", now), None);
        }
    }

    #[test]
    fn memory_is_bounded() {
        let bans = Bans::new(POLICY);
        let start = Instant::now();
        for i in 0..3 * MAX_ENTRIES {
            let now = start + Duration::from_micros(i as u64);
            bans.failed(&i, now);
        }
        assert!(bans.entries.lock().len() <= MAX_ENTRIES);
    }

    #[test]
    fn zero_failures_never_ban() {
        let bans = Bans::new(BanPolicy {
            failures: 0,
            ..POLICY
        });
        assert_eq!(fail(&bans, 100, Instant::now()), None);
    }
}
