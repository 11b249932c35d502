//! [`Lookups`]: how much the API server is asked because of tokens that people send.
//!
//! A token leads to the name of an object. Whoever sends one whose object is known here
//! had it from Kite, so renewals and sessions that moved on a moment ago have permits of
//! their own. For names that nobody knows, as in tokens that somebody made up, there are
//! few permits, and each address may try a few: these cannot keep anybody from renewing.
//!
//! A session that began on another replica a moment ago looks the same. So one network has
//! a part of these permits, and so have all addresses together behind which there may be
//! anybody; and where few are left, some are refused by chance.

use std::{
    collections::{HashMap, VecDeque},
    time::Duration,
};

use kite_core::cluster::{Cluster, ClusterExt as _, Object, ObjectKey};
use kite_rest::{Problem, ProblemKind, cache::Cache};
use parking_lot::Mutex;
use tokio::{
    sync::{Semaphore, SemaphorePermit},
    time::Instant,
};

use crate::{
    shares::{Share, Shares, is_unlucky},
    throttle::{Limit, Limits, Source, Throttle},
};

/// Objects that are known here and may be asked for at once.
const KNOWN: usize = 32;
/// Those that are not known.
const UNKNOWN: usize = 16;
/// Those of them for one network. A page asks for several things at once.
const UNKNOWN_EACH: usize = UNKNOWN / 2;
/// Those of them for all addresses that many share: there nobody waits for what others
/// tried, so one client could have all for ever.
const UNKNOWN_SHARED: usize = UNKNOWN - UNKNOWN / 4;
/// With fewer of all left, some are refused by chance. However many such addresses have,
/// that is not so for others.
const UNKNOWN_LOW: usize = UNKNOWN - UNKNOWN_SHARED;
/// The same with fewer left for such addresses.
const SHARED_LOW: usize = UNKNOWN_SHARED / 2;
/// Names that are remembered as being nothing's.
const MOST_ABSENT: usize = 4096;
/// How long they are.
const ABSENT_FOR: Duration = Duration::from_secs(60);

/// When whoever is refused for want of a permit is to come again.
const AGAIN: Duration = Duration::from_secs(1);

/// Tokens of nothing that an address may try before it has to wait. One that is found
/// does not count, nor does one that was not found a moment ago.
const TRIES: Limit = Limit {
    free: 64,
    longest: Duration::from_secs(30),
};

/// Leave to ask the API server about tokens.
pub(crate) struct Lookups {
    known: Semaphore,
    unknown: Shares,
    /// Which of these may be taken from addresses that many share.
    shared: Semaphore,
    tries: Throttle,
    absent: Mutex<Absent>,
}

impl Default for Lookups {
    fn default() -> Self {
        Self {
            known: Semaphore::new(KNOWN),
            unknown: Shares::new(UNKNOWN, UNKNOWN_EACH),
            shared: Semaphore::new(UNKNOWN_SHARED),
            tries: Throttle::new(Limits {
                pair: TRIES,
                address: TRIES,
                // It is nobody's.
                account: Limit {
                    free: u32::MAX,
                    longest: Duration::ZERO,
                },
            }),
            absent: Mutex::default(),
        }
    }
}

impl Lookups {
    /// Leave to ask about somebody who is known by what was sent.
    pub(crate) fn known(&self) -> Result<SemaphorePermit<'_>, Problem> {
        permit(&self.known)
    }

    /// Leave to ask about what nobody knows, for who comes from `source`.
    fn unknown(&self, source: Source<'_>) -> Result<Unknown<'_>, Problem> {
        let left_of_shared = self.shared.available_permits();
        if is_unlucky(self.unknown.available_permits(), UNKNOWN_LOW)
            || (source.is_shared && is_unlucky(left_of_shared, SHARED_LOW))
        {
            return Err(crowded(AGAIN));
        }
        let shared = source.is_shared.then(|| permit(&self.shared)).transpose()?;
        let share = self.unknown.take(source.own_address());
        Ok((share.ok_or_else(|| crowded(AGAIN))?, shared))
    }
}

impl Lookups {
    /// The object of a token that came from `source`, as the API server has it. Objects of
    /// `never_again` kinds have names that are given once.
    pub(crate) async fn ask<K: Object>(
        &self,
        cluster: &impl Cluster,
        cache: &Cache<K>,
        key: &ObjectKey,
        never_again: bool,
        source: Source<'_>,
    ) -> Result<Option<K>, Problem> {
        if cache.get(key).is_some() {
            let _permit = self.known()?;
            return Ok(cluster.get_opt(key).await?);
        }
        if never_again && self.absent.lock().has(&key.name) {
            return Ok(None);
        }
        let attempt = self.tries.attempt("", source).map_err(crowded)?;
        let found = async {
            let _permit = self.unknown(source)?;
            Ok::<_, Problem>(cluster.get_opt(key).await?)
        };
        let found = found.await;
        match &found {
            Ok(None) if never_again => self.absent.lock().note(&key.name),
            Ok(None) => {}
            Ok(Some(_)) | Err(_) => attempt.undecided(),
        }
        found
    }
}

/// Leave to ask about what nobody knows, and where it was asked from an address that many
/// share, a permit of those.
type Unknown<'a> = (Share<'a>, Option<SemaphorePermit<'a>>);

fn permit(of: &Semaphore) -> Result<SemaphorePermit<'_>, Problem> {
    of.try_acquire().map_err(|_| crowded(AGAIN))
}

fn crowded(wait: Duration) -> Problem {
    Problem::new(
        ProblemKind::Unavailable,
        "too many sessions are being looked up: try again shortly",
    )
    .retry_after(wait)
}

/// Names that nothing had when somebody last looked.
#[derive(Default)]
struct Absent {
    seen: HashMap<String, Instant>,
    /// In the order in which they were noted.
    order: VecDeque<String>,
}

impl Absent {
    fn has(&self, name: &str) -> bool {
        let seen = self.seen.get(name);
        seen.is_some_and(|seen| seen.elapsed() < ABSENT_FOR)
    }

    fn note(&mut self, name: &str) {
        if self.seen.insert(name.to_owned(), Instant::now()).is_some() {
            return;
        }
        self.order.push_back(name.to_owned());
        if self.order.len() > MOST_ABSENT
            && let Some(oldest) = self.order.pop_front()
        {
            self.seen.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_is_absent_is_forgotten_by_time_and_by_number() {
        let mut absent = Absent::default();
        absent.note("a");
        assert!(absent.has("a") && !absent.has("b"));
        tokio::time::advance(ABSENT_FOR).await;
        assert!(!absent.has("a"));
        absent.note("a");
        assert!(absent.has("a"));
        for n in 0..2 * MOST_ABSENT {
            absent.note(&n.to_string());
        }
        assert!(!absent.has("a"));
        assert_eq!(absent.seen.len(), MOST_ABSENT);
        assert_eq!(absent.order.len(), MOST_ABSENT);
    }
}
