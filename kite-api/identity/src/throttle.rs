//! Slowing down whoever guesses.
//!
//! Failures are counted per account *and* address, per address, and per account.
//! Beyond some free failures each one doubles the wait before the next attempt
//! is looked at. The wait for an account as such stays short. An address from which
//! the account has signed in before is exempt from it, and from the wait for the
//! address. There a browser that the account knows is counted apart from all others:
//! an attacker, elsewhere or next to the owner, can slow strangers down, and the owner in
//! a browser that is new, but holds up the owner's own only by passing for it, from the
//! very address. Who has a session of the account waits for the failures in that session
//! alone.
//!
//! Behind some addresses there may be anybody, such as behind a node's. Nobody waits for
//! what others did there, and no account is at home there. What is left are the wait for
//! the account, and a bound of attempts at a time, of which some are refused by chance
//! before it is reached, as OpenSSH's `MaxStartups` does: who tries again gets through.

mod limits;

use std::{
    collections::{HashMap, HashSet},
    hash::Hash,
    net::IpAddr,
    time::Duration,
};

use kite_core::cidr::place;
use kite_rest::{Problem, ProblemKind};
use parking_lot::Mutex;
use tokio::{
    sync::{Semaphore, SemaphorePermit},
    time::Instant,
};

pub(crate) use self::limits::{Limit, Limits};
use crate::shares::is_unlucky;

/// How long a counter is remembered after its last failure.
const MEMORY: Duration = Duration::from_secs(3600);
/// One failure is forgiven in this time, so that an office behind one address
/// does not add up its mistypings over the day.
const FORGIVEN_EVERY: Duration = Duration::from_secs(300);
/// Most counters that are kept; beyond, the ones least recently used go.
const MOST_COUNTERS: usize = 20_000;
/// Attempts at a time from all addresses that many share. No more than may run or wait
/// for a hash on one processor: there is room beside them.
const SHARED_AT_ONCE: usize = 32;
/// With fewer places left some are refused by chance: the more, the fewer are left.
const SHARED_LOW: usize = SHARED_AT_ONCE / 2;
/// When whoever is refused so is to come again.
const SHARED_AGAIN: Duration = Duration::from_secs(1);

/// Where an attempt comes from, and what is known of whoever makes it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Source<'a> {
    /// The address, if it is known.
    pub(crate) address: Option<IpAddr>,
    /// Whether anybody may be behind that address.
    pub(crate) is_shared: bool,
    /// Whether the account is known to have come in from there by such a browser, though
    /// perhaps not since this process began.
    pub(crate) is_known: bool,
    /// The session of the account in which it is made.
    pub(crate) session: Option<&'a str>,
}

impl Source<'_> {
    /// The address if it is somebody's own: not one behind which there may be anybody.
    pub(crate) fn own_address(self) -> Option<IpAddr> {
        self.address.filter(|_| !self.is_shared)
    }
}

impl From<Option<IpAddr>> for Source<'_> {
    fn from(address: Option<IpAddr>) -> Self {
        Self {
            address,
            ..Self::default()
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Key {
    /// By whether the account knows who comes from there, too: what strangers do next to
    /// its owner is not the owner's.
    Pair(String, IpAddr, bool),
    Address(IpAddr),
    Account(String),
    /// By the account, too: who is recognised elsewhere has no session with a name.
    Session(String, String),
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
    /// Places for attempts from addresses that many share.
    shared: Semaphore,
}

/// An attempt that is being looked at. It counts as a failure from the start,
/// so that a thousand attempts at once are no way around the limit.
#[must_use = "an attempt that succeeded must say so"]
pub(crate) struct Attempt<'a> {
    throttle: &'a Throttle,
    account: String,
    /// Where the account is at home if it succeeds.
    home: Option<IpAddr>,
    /// What it counts for.
    counted: Vec<Key>,
    _place: Option<SemaphorePermit<'a>>,
}

impl Throttle {
    /// A throttle that has seen nothing.
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            limits,
            state: Mutex::default(),
            shared: Semaphore::new(SHARED_AT_ONCE),
        }
    }

    /// Begins an attempt, or says how long to wait.
    pub(crate) fn attempt<'s>(
        &self,
        account: &str,
        source: impl Into<Source<'s>>,
    ) -> Result<Attempt<'_>, Duration> {
        let source = source.into();
        let now = Instant::now();
        let home = source.own_address().map(place);
        let mut state = self.state.lock();
        let is_familiar = home.is_some_and(|home| state.is_familiar(account, home));
        let keys = keys(account, source);
        let wait = keys
            .iter()
            .filter(|key| key.holds(source, is_familiar))
            .filter_map(|key| {
                let counter = state.counters.get(key)?;
                self.limit(key).wait(*counter, now)
            })
            .max();
        if let Some(wait) = wait {
            return Err(wait);
        }
        let place = self.place(source)?;
        for key in &keys {
            let counter = state.counters.entry(key.clone()).or_insert(Counter {
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
            home,
            counted: keys,
            _place: place,
        })
    }

    /// A place for an attempt from an address that many share; others need none. Some
    /// get none though one is left: otherwise whoever asks most often had them all.
    fn place(&self, source: Source<'_>) -> Result<Option<SemaphorePermit<'_>>, Duration> {
        if !source.is_shared || source.session.is_some() {
            return Ok(None);
        }
        if is_unlucky(self.shared.available_permits(), SHARED_LOW) {
            return Err(SHARED_AGAIN);
        }
        let place = self.shared.try_acquire();
        place.map(Some).map_err(|_| SHARED_AGAIN)
    }

    /// Takes back one failure, where what was counted as such has ended well.
    pub(crate) fn forgive<'s>(&self, account: &str, source: impl Into<Source<'s>>) {
        let mut state = self.state.lock();
        for key in keys(account, source.into()) {
            state.uncount(&key);
        }
    }

    fn limit(&self, key: &Key) -> Limit {
        match key {
            Key::Pair(..) | Key::Session(..) => self.limits.pair,
            Key::Address(_) => self.limits.address,
            Key::Account(_) => self.limits.account,
        }
    }
}

impl State {
    fn is_familiar(&self, account: &str, home: IpAddr) -> bool {
        self.familiar.contains(&(account.to_owned(), home))
    }

    /// Takes back what an attempt counted.
    fn uncount(&mut self, key: &Key) {
        if let Some(counter) = self.counters.get_mut(key) {
            counter.failures = counter.failures.saturating_sub(1);
        }
    }
}

impl Attempt<'_> {
    /// The secret fitted: forget the failures of this account by whoever it is at this
    /// address, and in this session, and remember the address as the owner's.
    pub(crate) fn succeeded(self) {
        let mut state = self.throttle.state.lock();
        for key in &self.counted {
            match key {
                Key::Pair(..) | Key::Session(..) => {
                    state.counters.remove(key);
                }
                Key::Address(_) | Key::Account(_) => state.uncount(key),
            }
        }
        if let Some(home) = self.home {
            if state.familiar.len() >= MOST_COUNTERS {
                state.familiar.clear();
            }
            state.familiar.insert((self.account, home));
        }
    }

    /// Nobody looked at the secret after all.
    pub(crate) fn undecided(self) {
        let mut state = self.throttle.state.lock();
        for key in &self.counted {
            state.uncount(key);
        }
    }
}

impl Key {
    /// Whether who comes from `source` waits for what was counted here. What was not done
    /// by somebody of the account, in a session of it, does not hold up who is: anybody
    /// may know the name, and be next to its owner.
    fn holds(&self, source: Source<'_>, is_familiar: bool) -> bool {
        let has_session = source.session.is_some();
        match self {
            Self::Session(..) => true,
            Self::Pair(..) => !has_session,
            Self::Account(_) => !has_session && !is_familiar,
            Self::Address(_) => !has_session && !is_familiar && !source.is_known,
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

/// What an attempt counts for.
fn keys(account: &str, source: Source<'_>) -> Vec<Key> {
    let mut keys = vec![Key::Account(account.to_owned())];
    if let Some(session) = source.session {
        keys.push(Key::Session(account.to_owned(), session.to_owned()));
    }
    if let Some(address) = source.own_address() {
        let address = place(address);
        keys.push(Key::Pair(account.to_owned(), address, source.is_known));
        keys.push(Key::Address(address));
    }
    keys
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

/// The problem of a client that must wait.
pub(crate) fn too_many(wait: Duration) -> Problem {
    let seconds = wait.as_secs() + 1;
    Problem::new(
        ProblemKind::TooManyRequests,
        format!("too many attempts: try again in {seconds} s"),
    )
    .retry_after(wait)
}

#[cfg(test)]
mod tests;
