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

/// A clock that only moves when it is told to, beside tokio's timers: for tests
/// of timestamps alone, such as the age of an object or the end of a token.
///
/// ```
/// use std::time::Duration;
/// use kite_fake::{FakeCluster, clock::ManualClock};
///
/// let clock = ManualClock::new("2031-05-01T12:00:00Z".parse()?);
/// let cluster = FakeCluster::builder().clock(clock.clone()).build()?;
/// clock.advance(Duration::from_secs(3600));
/// assert_eq!(cluster.now().to_string(), "2031-05-01T13:00:00Z");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
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

    /// Stands at `at` from now on, be it later or earlier.
    pub fn set(&self, at: Timestamp) {
        *self.0.lock() = at;
    }
}

impl<C: Clock + ?Sized> Clock for Arc<C> {
    fn now(&self) -> Timestamp {
        (**self).now()
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
pub(crate) const NAME_LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// Identifiers from a seed. Its whole state is the seed and how many were drawn,
/// so that a snapshot can hold it and a file can name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ids {
    seed: u64,
    drawn: u64,
}

impl Ids {
    /// Every seed is a sequence of its own.
    pub fn new(seed: u64) -> Self {
        Self::at(seed, 0)
    }

    /// The sequence of a seed after so many identifiers.
    pub fn at(seed: u64, drawn: u64) -> Self {
        Self { seed, drawn }
    }

    /// The seed.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// How many identifiers were drawn.
    pub fn drawn(&self) -> u64 {
        self.drawn
    }

    /// A generator for one identifier.
    fn draw(&mut self) -> StdRng {
        let mut seed = [0; 32];
        seed[..8].copy_from_slice(&self.seed.to_le_bytes());
        seed[8..16].copy_from_slice(&self.drawn.to_le_bytes());
        self.drawn += 1;
        StdRng::from_seed(seed)
    }

    /// A sequence of its own, for one request that is worked on more than once: each time
    /// it takes the same identifiers, whatever others draw meanwhile.
    pub(crate) fn branch(&mut self) -> Self {
        let seed = self.draw().random();
        Self::new(seed)
    }

    /// A random (version 4) UUID.
    pub fn uid(&mut self) -> String {
        let mut b: [u8; 16] = self.draw().random();
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
        let mut random = self.draw();
        (0..5)
            .map(|_| char::from(NAME_LETTERS[random.random_range(0..NAME_LETTERS.len())]))
            .collect()
    }

    /// An opaque token: 32 hexadecimal digits.
    pub fn token(&mut self) -> String {
        format!("{:032x}", self.draw().random::<u128>())
    }

    /// A number below `bound` (0 if the bound is 0).
    pub fn below(&mut self, bound: u32) -> u32 {
        if bound == 0 {
            0
        } else {
            self.draw().random_range(0..bound)
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
