//! Where timestamps and identifiers come from: a [`Clock`] and a seeded [`Ids`].
//!
//! The server itself asks neither the system clock nor the system's entropy, so
//! that a run with the same seed and the same requests gives the same objects.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

/// A source of the current time.
pub trait Clock: Send + Sync + fmt::Debug + 'static {
    /// The time now.
    fn now(&self) -> Timestamp;
}

/// Tokio's clock: a wall-clock time at its creation plus what tokio says has
/// passed since, so that a paused runtime moves it (and nothing else does).
#[derive(Debug)]
pub struct TokioClock {
    origin: Timestamp,
    started: tokio::time::Instant,
}

impl TokioClock {
    /// Starts at `origin`.
    pub fn starting_at(origin: Timestamp) -> Self {
        Self {
            origin,
            started: tokio::time::Instant::now(),
        }
    }

    /// Starts at the system's time.
    pub fn from_system() -> Self {
        Self::starting_at(Timestamp::now())
    }
}

impl Clock for TokioClock {
    fn now(&self) -> Timestamp {
        let passed = self.started.elapsed();
        self.origin.checked_add(passed).unwrap_or(self.origin)
    }
}

/// A clock that only moves when it is told to.
#[derive(Debug, Clone)]
pub struct ManualClock(Arc<parking_lot::Mutex<Timestamp>>);

impl ManualClock {
    /// Stands at `at`.
    pub fn new(at: Timestamp) -> Self {
        Self(Arc::new(parking_lot::Mutex::new(at)))
    }

    /// Moves forward; times beyond what a timestamp can hold leave it where it is.
    pub fn advance(&self, by: Duration) {
        let mut at = self.0.lock();
        *at = at.checked_add(by).unwrap_or(*at);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        *self.0.lock()
    }
}

/// A time as `metav1.Time` writes it: RFC 3339, whole seconds, UTC.
pub fn rfc3339(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Characters of generated names (`k8s.io/apimachinery/pkg/util/rand`): no
/// vowels and no digits that look like letters.
const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// Identifiers from a seed.
#[derive(Debug)]
pub struct Ids(StdRng);

impl Ids {
    /// Every seed is a sequence of its own.
    pub fn new(seed: u64) -> Self {
        Self(StdRng::seed_from_u64(seed))
    }

    /// A random (version 4) UUID.
    pub fn uid(&mut self) -> String {
        let mut b: [u8; 16] = self.0.random();
        b[6] = (b[6] & 0x0f) | 0x40;
        b[8] = (b[8] & 0x3f) | 0x80;
        let hex = format!("{:032x}", u128::from_be_bytes(b));
        format!(
            "{}-{}-{}-{}-{}",
            &hex[..8],
            &hex[8..12],
            &hex[12..16],
            &hex[16..20],
            &hex[20..]
        )
    }

    /// Five characters that `generateName` appends.
    pub fn suffix(&mut self) -> String {
        (0..5)
            .map(|_| char::from(ALPHABET[self.0.random_range(0..ALPHABET.len())]))
            .collect()
    }

    /// An opaque token: 32 hexadecimal digits.
    pub fn token(&mut self) -> String {
        format!("{:032x}", self.0.random::<u128>())
    }

    /// A number below `bound` (0 if the bound is 0).
    pub fn below(&mut self, bound: u32) -> u32 {
        if bound == 0 {
            0
        } else {
            self.0.random_range(0..bound)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_identifiers() {
        let (mut a, mut b, mut c) = (Ids::new(7), Ids::new(7), Ids::new(8));
        let first = a.uid();
        assert_eq!(first, b.uid());
        assert_ne!(first, c.uid());
        assert_eq!(first.len(), 36);
        assert_eq!(a.suffix(), b.suffix());
    }
}
