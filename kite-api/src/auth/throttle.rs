//! Slowing down whoever guesses.
//!
//! Failures are counted per account *and* address, per address, and per account.
//! Beyond some free failures each one doubles the wait before the next attempt
//! is looked at. The wait for an account as such stays short, and an address
//! from which the account has signed in before is exempt from it: an attacker
//! elsewhere can slow strangers down but never lock the owner out.

use std::{
    collections::{HashMap, HashSet},
    hash::Hash,
    net::IpAddr,
    time::Duration,
};

use parking_lot::Mutex;
use tokio::time::Instant;

/// How long a counter is remembered after its last failure.
const MEMORY: Duration = Duration::from_secs(3600);
/// One failure is forgiven in this time, so that an office behind one address
/// does not add up its mistypings over the day.
const FORGIVEN_EVERY: Duration = Duration::from_secs(300);
/// Most counters that are kept; beyond, the ones least recently used go.
const MOST_COUNTERS: usize = 20_000;

/// When waiting begins and where it ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limit {
    /// Failures without any wait.
    pub(crate) free: u32,
    /// Longest wait.
    pub(crate) longest: Duration,
}

/// The limits of one throttle.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// For one account from one address.
    pub(crate) pair: Limit,
    /// For one address, whatever the account.
    pub(crate) address: Limit,
    /// For one account, whatever the address.
    pub(crate) account: Limit,
}

impl Limits {
    /// For passwords.
    pub(crate) const SIGN_IN: Self = Self {
        pair: Limit {
            free: 5,
            longest: Duration::from_secs(15 * 60),
        },
        address: Limit {
            free: 30,
            longest: Duration::from_secs(15 * 60),
        },
        account: Limit {
            free: 20,
            longest: Duration::from_secs(10),
        },
    };
    /// For codes of a second factor. Only who knows the password gets to guess one,
    /// and a code has six digits: so the account as such waits for long, too.
    pub(crate) const SECOND_FACTOR: Self = Self {
        pair: Limit {
            free: 5,
            longest: Duration::from_secs(15 * 60),
        },
        address: Limit {
            free: 30,
            longest: Duration::from_secs(15 * 60),
        },
        account: Limit {
            free: 10,
            longest: Duration::from_secs(15 * 60),
        },
    };
    /// For sign-ins at providers: each one that is begun counts until it ends well.
    /// The provider guards its passwords; what is spared are requests to it. Its
    /// name stands for the account, which belongs to everybody.
    pub(crate) const PROVIDER: Self = Self {
        pair: Limit {
            free: 120,
            longest: Duration::from_secs(60),
        },
        address: Limit {
            free: 120,
            longest: Duration::from_secs(60),
        },
        account: Limit {
            free: u32::MAX,
            longest: Duration::ZERO,
        },
    };
    /// For new accounts: every one counts, not only failures.
    pub(crate) const SIGN_UP: Self = Self {
        pair: Limit {
            free: 10,
            longest: Duration::from_secs(60),
        },
        address: Limit {
            free: 10,
            longest: Duration::from_secs(15 * 60),
        },
        account: Limit {
            free: 10,
            longest: Duration::from_secs(10),
        },
    };
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Key {
    Pair(String, IpAddr),
    Address(IpAddr),
    Account(String),
}

#[derive(Clone, Copy, Debug)]
struct Counter {
    failures: u32,
    last: Instant,
}

impl Counter {
    /// What is left of the failures at `now`.
    fn failures_at(self, now: Instant) -> u32 {
        let forgiven = now.duration_since(self.last).as_secs() / FORGIVEN_EVERY.as_secs();
        self.failures
            .saturating_sub(u32::try_from(forgiven).unwrap_or(u32::MAX))
    }
}

#[derive(Default)]
struct State {
    counters: HashMap<Key, Counter>,
    familiar: HashSet<(String, IpAddr)>,
}

/// Counts failures and says who must wait. In memory: each replica counts for
/// itself.
pub(crate) struct Throttle {
    limits: Limits,
    state: Mutex<State>,
}

/// An attempt that is being looked at. It counts as a failure from the start,
/// so that a thousand attempts at once are no way around the limit.
#[must_use = "an attempt that succeeded must say so"]
pub(crate) struct Attempt<'a> {
    throttle: &'a Throttle,
    account: String,
    address: Option<IpAddr>,
}

impl Throttle {
    /// A throttle that has seen nothing.
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            limits,
            state: Mutex::default(),
        }
    }

    /// Begins an attempt, or says how long to wait.
    pub(crate) fn attempt(
        &self,
        account: &str,
        address: Option<IpAddr>,
    ) -> Result<Attempt<'_>, Duration> {
        let now = Instant::now();
        let address = address.map(network);
        let mut state = self.state.lock();
        let keys = keys(account, address);
        let wait = keys
            .iter()
            .filter(|key| !(matches!(key, Key::Account(_)) && state.is_familiar(account, address)))
            .filter_map(|key| {
                let counter = state.counters.get(key)?;
                self.limit(key).wait(*counter, now)
            })
            .max();
        if let Some(wait) = wait {
            return Err(wait);
        }
        for key in keys {
            let counter = state.counters.entry(key).or_insert(Counter {
                failures: 0,
                last: now,
            });
            *counter = Counter {
                failures: counter.failures_at(now).saturating_add(1),
                last: now,
            };
        }
        bound(&mut state.counters, now);
        Ok(Attempt {
            throttle: self,
            account: account.to_owned(),
            address,
        })
    }

    /// Takes back one failure, where what was counted as such has ended well.
    pub(crate) fn forgive(&self, account: &str, address: Option<IpAddr>) {
        let mut state = self.state.lock();
        for key in keys(account, address.map(network)) {
            state.uncount(&key);
        }
    }

    fn limit(&self, key: &Key) -> Limit {
        match key {
            Key::Pair(..) => self.limits.pair,
            Key::Address(_) => self.limits.address,
            Key::Account(_) => self.limits.account,
        }
    }
}

impl State {
    fn is_familiar(&self, account: &str, address: Option<IpAddr>) -> bool {
        address.is_some_and(|address| self.familiar.contains(&(account.to_owned(), address)))
    }

    /// Takes back what an attempt counted.
    fn uncount(&mut self, key: &Key) {
        if let Some(counter) = self.counters.get_mut(key) {
            counter.failures = counter.failures.saturating_sub(1);
        }
    }
}

impl Attempt<'_> {
    /// The secret fitted: forget the failures of this account at this address,
    /// and remember the address as the owner's.
    pub(crate) fn succeeded(self) {
        let mut state = self.throttle.state.lock();
        for key in keys(&self.account, self.address) {
            match key {
                Key::Pair(..) => {
                    state.counters.remove(&key);
                }
                Key::Address(_) | Key::Account(_) => state.uncount(&key),
            }
        }
        if let Some(address) = self.address {
            if state.familiar.len() >= MOST_COUNTERS {
                state.familiar.clear();
            }
            state.familiar.insert((self.account, address));
        }
    }

    /// Nobody looked at the secret after all.
    pub(crate) fn undecided(self) {
        let mut state = self.throttle.state.lock();
        for key in keys(&self.account, self.address) {
            state.uncount(&key);
        }
    }
}

impl Limit {
    /// How long from `now` until the next attempt is looked at.
    fn wait(self, counter: Counter, now: Instant) -> Option<Duration> {
        let beyond = counter.failures.checked_sub(self.free)?;
        let wait = Duration::from_secs(1 << beyond.min(20)).min(self.longest);
        let passed = now.duration_since(counter.last);
        wait.checked_sub(passed).filter(|left| !left.is_zero())
    }
}

fn keys(account: &str, address: Option<IpAddr>) -> Vec<Key> {
    let mut keys = vec![Key::Account(account.to_owned())];
    if let Some(address) = address {
        keys.push(Key::Pair(account.to_owned(), address));
        keys.push(Key::Address(address));
    }
    keys
}

/// One host has a whole /64 of IPv6 addresses to choose from.
pub(super) fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => {
            let [a, b, c, d, ..] = v6.segments();
            IpAddr::from([a, b, c, d, 0, 0, 0, 0])
        }
        v4 @ IpAddr::V4(_) => v4,
    }
}

fn bound(counters: &mut HashMap<Key, Counter>, now: Instant) {
    if counters.len() <= MOST_COUNTERS {
        return;
    }
    counters.retain(|_, counter| now.duration_since(counter.last) <= MEMORY);
    if counters.len() > MOST_COUNTERS {
        let mut ages: Vec<Instant> = counters.values().map(|counter| counter.last).collect();
        ages.sort_unstable();
        let oldest_kept = ages[ages.len() / 4];
        counters.retain(|_, counter| counter.last > oldest_kept);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const HOME: Option<IpAddr> = Some(IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1)));

    fn elsewhere(n: u8) -> IpAddr {
        IpAddr::from([198, 51, 100, n])
    }

    fn fail(throttle: &Throttle, account: &str, address: Option<IpAddr>) -> Result<(), Duration> {
        throttle.attempt(account, address).map(drop)
    }

    #[tokio::test(start_paused = true)]
    async fn waits_grow_and_end() {
        let throttle = Throttle::new(Limits::SIGN_IN);
        for _ in 0..5 {
            fail(&throttle, "ann", HOME).unwrap();
        }
        let mut last = Duration::ZERO;
        for _ in 0..8 {
            let wait = fail(&throttle, "ann", HOME).unwrap_err();
            assert!(wait > last, "{wait:?} after {last:?}");
            last = wait;
            tokio::time::advance(wait).await;
            fail(&throttle, "ann", HOME).unwrap();
        }
        assert!(fail(&throttle, "bob", HOME).is_ok(), "others do not wait");
    }

    #[tokio::test(start_paused = true)]
    async fn attempts_at_once_are_no_way_around() {
        let throttle = Throttle::new(Limits::SIGN_IN);
        let attempts: Vec<_> = (0..50).map(|_| throttle.attempt("ann", HOME)).collect();
        assert_eq!(attempts.iter().filter(|attempt| attempt.is_ok()).count(), 5);
    }

    #[tokio::test(start_paused = true)]
    async fn success_forgives() {
        let throttle = Throttle::new(Limits::SIGN_IN);
        for _ in 0..4 {
            fail(&throttle, "ann", HOME).unwrap();
        }
        throttle.attempt("ann", HOME).unwrap().succeeded();
        for _ in 0..5 {
            fail(&throttle, "ann", HOME).unwrap();
        }
        fail(&throttle, "ann", HOME).unwrap_err();
    }

    #[tokio::test(start_paused = true)]
    async fn time_forgives() {
        let throttle = Throttle::new(Limits::SIGN_IN);
        for _ in 0..100 {
            fail(&throttle, "ann", HOME).unwrap();
            tokio::time::advance(FORGIVEN_EVERY).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn guesses_from_everywhere_do_not_lock_the_owner_out() {
        let throttle = Throttle::new(Limits::SIGN_IN);
        throttle.attempt("ann", HOME).unwrap().succeeded();
        for n in 0..200 {
            let _ = fail(&throttle, "ann", Some(elsewhere(n)));
        }
        let stranger = fail(&throttle, "ann", Some(elsewhere(201))).unwrap_err();
        assert!(stranger <= Duration::from_secs(10));
        assert!(
            throttle.attempt("ann", HOME).is_ok(),
            "from the owner's address it works at once"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn one_address_cannot_try_one_password_on_everybody() {
        let throttle = Throttle::new(Limits::SIGN_IN);
        let looked_at = (0..1000)
            .filter(|n| fail(&throttle, &format!("user{n}"), HOME).is_ok())
            .count();
        assert_eq!(looked_at, 30);
    }

    #[test]
    fn an_ipv6_host_is_its_network() {
        let a: IpAddr = "2001:db8:1:2:3:4:5:6".parse().unwrap();
        let b: IpAddr = "2001:db8:1:2:ffff::1".parse().unwrap();
        assert_eq!(network(a), network(b));
        let mapped: IpAddr = "::ffff:192.0.2.1".parse().unwrap();
        assert_eq!(Some(network(mapped)), HOME);
    }

    #[tokio::test(start_paused = true)]
    async fn memory_is_bounded() {
        let throttle = Throttle::new(Limits::SIGN_IN);
        for n in 0..MOST_COUNTERS + 100 {
            let _ = fail(&throttle, &format!("user{n}"), None);
        }
        assert!(throttle.state.lock().counters.len() <= MOST_COUNTERS);
    }
}
