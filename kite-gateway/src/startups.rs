//! How many connections may be open that have not logged in, with the meaning of
//! OpenSSH's `MaxStartups` and `PerSourceMaxStartups`.
//!
//! A connection that says nothing costs its sender nothing. So connections before
//! their login are bounded apart from those after it: however many strangers are
//! waiting, who is logged in stays, and there is a chance to get in.
//!
//! One that ends without a login still counts for its address for a moment, so that the
//! bound of an address is one of handshakes in a second, too.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::admission::Refusal;
use crate::standing::Standing;

/// How long a connection that ended without a login counts for its address.
const COUNTED: Duration = Duration::from_secs(1);

/// Bounds of connections that have not logged in. Written as `start:rate:full`.
///
/// ```
/// use kite_gateway::MaxStartups;
///
/// let bounds: MaxStartups = "100:30:512".parse()?;
/// assert_eq!(bounds.dropped_percent(99), 0);
/// assert_eq!(bounds.dropped_percent(100), 30);
/// assert_eq!(bounds.dropped_percent(512), 100);
/// # Ok::<(), kite_gateway::ParseMaxStartupsError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MaxStartups {
    /// With fewer than this many, none is dropped.
    pub start: u32,
    /// With `start` of them, this percentage of new ones is dropped; from there it
    /// grows evenly.
    pub rate: u32,
    /// With this many, all new ones are dropped.
    pub full: u32,
}

/// Why a text is no [`MaxStartups`].
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "\"{0}\" is not start:rate:full: write it as 100:30:512, with a rate of 1 to 100 percent \
     and full at least start, or as one number from which all are dropped"
)]
pub struct ParseMaxStartupsError(String);

impl MaxStartups {
    /// How many of a hundred new connections are dropped while `open` wait for their
    /// login.
    pub fn dropped_percent(self, open: u32) -> u32 {
        if open < self.start {
            return 0;
        }
        if open >= self.full || self.rate >= 100 {
            return 100;
        }
        let (beyond, span) = (open - self.start, self.full - self.start);
        let more = u64::from(100 - self.rate) * u64::from(beyond) / u64::from(span);
        // It is less than a hundred.
        self.rate + u32::try_from(more).unwrap_or(100)
    }
}

impl FromStr for MaxStartups {
    type Err = ParseMaxStartupsError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || ParseMaxStartupsError(text.to_owned());
        let numbers: Result<Vec<u32>, _> = text.split(':').map(str::parse).collect();
        let parsed = match numbers.map_err(|_| wrong())?.as_slice() {
            [all] => Self {
                start: *all,
                rate: 100,
                full: *all,
            },
            [start, rate, full] => Self {
                start: *start,
                rate: *rate,
                full: *full,
            },
            _ => return Err(wrong()),
        };
        let is_right =
            parsed.full >= parsed.start && parsed.full > 0 && (1..=100).contains(&parsed.rate);
        is_right.then_some(parsed).ok_or_else(wrong)
    }
}

impl fmt::Display for MaxStartups {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.start, self.rate, self.full)
    }
}

/// A network with a bound of its own: its first address, and the length of its prefix.
type Network = (IpAddr, u8);

/// The networks in which `address` is counted, and how many times the bound of one
/// address each may have. Who has an IPv6 /48 has 65,536 times a /64.
fn networks(address: IpAddr) -> Vec<(Network, u32)> {
    match address.to_canonical() {
        v4 @ IpAddr::V4(_) => vec![((v4, 32), 1)],
        IpAddr::V6(v6) => [(64, 1), (56, 2), (48, 4)]
            .map(|(prefix, times)| {
                let first = u128::from(v6) & (u128::MAX << (128 - prefix));
                let network = (Ipv6Addr::from(first).into(), prefix);
                (network, times)
            })
            .to_vec(),
    }
}

#[derive(Default)]
struct Counts {
    total: u32,
    by_network: HashMap<Network, u32>,
    /// Those that have ended, by when they count no more.
    ended: VecDeque<(Instant, Vec<Network>)>,
}

impl Counts {
    fn release(&mut self, networks: &[Network]) {
        for network in networks {
            if let Some(count) = self.by_network.get_mut(network) {
                *count -= 1;
                if *count == 0 {
                    self.by_network.remove(network);
                }
            }
        }
    }

    /// Releases those that count no more.
    fn forget(&mut self, now: Instant) {
        while self.ended.front().is_some_and(|(until, _)| *until <= now) {
            if let Some((_, networks)) = self.ended.pop_front() {
                self.release(&networks);
            }
        }
    }
}

/// Counts connections that have not logged in.
pub(crate) struct Startups {
    max: MaxStartups,
    /// For one address (IPv6: one /64).
    per_address: u32,
    /// Further ones for addresses that are trusted.
    reserved: u32,
    counts: Arc<Mutex<Counts>>,
}

/// A connection that has not logged in, until this is dropped.
pub(crate) struct Startup {
    counts: Arc<Mutex<Counts>>,
    networks: Vec<Network>,
}

impl Startups {
    pub(crate) fn new(max: MaxStartups, per_address: u32, reserved: u32) -> Self {
        Self {
            max,
            per_address,
            reserved,
            counts: Arc::default(),
        }
    }

    /// Takes a new connection from `address`, or says why not. `roll` is a random
    /// number below a hundred.
    ///
    /// Addresses that many clients share have no bound of their own. Who is known is
    /// not dropped by chance. Who is trusted has neither, and places of their own.
    pub(crate) fn begin(
        &self,
        address: IpAddr,
        standing: Standing,
        roll: u32,
    ) -> Result<Startup, Refusal> {
        let bounded = match standing {
            Standing::Trusted | Standing::Many => Vec::new(),
            Standing::Known | Standing::Stranger => networks(address),
        };
        let mut counts = self.counts.lock();
        counts.forget(Instant::now());
        let is_dropped = match standing {
            Standing::Trusted => counts.total >= self.max.full.saturating_add(self.reserved),
            Standing::Known => counts.total >= self.max.full,
            Standing::Many | Standing::Stranger => roll < self.max.dropped_percent(counts.total),
        };
        if is_dropped {
            return Err(Refusal::Startups);
        }
        let has_room = |(network, times): &(Network, u32)| {
            let open = counts.by_network.get(network).copied().unwrap_or(0);
            open < self.per_address.saturating_mul(*times)
        };
        if !bounded.iter().all(has_room) {
            return Err(Refusal::AddressStartups);
        }
        let networks: Vec<Network> = bounded.into_iter().map(|(network, _)| network).collect();
        for network in &networks {
            *counts.by_network.entry(*network).or_default() += 1;
        }
        counts.total += 1;
        Ok(Startup {
            counts: Arc::clone(&self.counts),
            networks,
        })
    }
}

impl Startup {
    /// Somebody has logged in: the connection counts no more.
    pub(crate) fn end(mut self) {
        let networks = std::mem::take(&mut self.networks);
        self.counts.lock().release(&networks);
    }
}

impl Drop for Startup {
    fn drop(&mut self) {
        let mut counts = self.counts.lock();
        counts.total -= 1;
        let networks = std::mem::take(&mut self.networks);
        if !networks.is_empty() {
            counts.ended.push_back((Instant::now() + COUNTED, networks));
        }
    }
}

#[cfg(test)]
#[path = "startups_tests.rs"]
mod tests;
