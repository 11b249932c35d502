//! What must hold of whatever comes in, as functions from bytes. Two drivers share
//! them: libFuzzer, guided by coverage (`kite-gateway/fuzz`), and the tests here,
//! which feed them bytes from a seed.

mod login;
mod proxy;
mod recorded;

pub use login::check as login;
pub use proxy::check as proxy;
pub use recorded::check as recorded;

/// Takes bytes as decisions; zeros once there are no more.
pub(crate) struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    pub(crate) fn new(data: &'a [u8]) -> Self {
        Self(data)
    }

    pub(crate) fn byte(&mut self) -> u8 {
        let (first, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        *first
    }

    /// Up to `most` bytes.
    pub(crate) fn bytes(&mut self, most: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(most.min(self.0.len()));
        self.0 = rest;
        taken
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// One of these.
    pub(crate) fn one_of<T: Copy>(&mut self, all: &[T]) -> Option<T> {
        all.get(usize::from(self.byte()) % all.len().max(1))
            .copied()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]

    use std::time::{Duration, Instant};

    use rand::rngs::StdRng;
    use rand::{RngExt as _, SeedableRng as _};

    /// Cases of a quick run.
    const CASES: u64 = 2000;

    fn number(name: &str) -> Option<u64> {
        let text = std::env::var(name).ok()?;
        Some(
            text.parse()
                .unwrap_or_else(|_| panic!("{name}={text} is no number")),
        )
    }

    /// `KITE_FUZZ_SECONDS` sets for how long, `KITE_FUZZ_SEED` where it begins.
    fn drive(target: fn(&[u8])) {
        let limit = number("KITE_FUZZ_SECONDS").map(Duration::from_secs);
        let first = number("KITE_FUZZ_SEED").unwrap_or(1);
        let start = Instant::now();
        for case in 0.. {
            let over = limit.map_or(case >= CASES, |limit| start.elapsed() >= limit);
            if over {
                return;
            }
            let seed = first.wrapping_add(case);
            let mut random = StdRng::seed_from_u64(seed);
            let mut bytes = vec![0; random.random_range(1..512)];
            random.fill(&mut bytes[..]);
            let outcome = std::panic::catch_unwind(|| target(&bytes));
            assert!(outcome.is_ok(), "again with KITE_FUZZ_SEED={seed}");
        }
    }

    #[test]
    fn proxies_are_understood_or_refused() {
        drive(super::proxy);
    }

    #[test]
    fn login_names_are_harmless_or_refused() {
        drive(super::login);
    }

    #[test]
    fn whatever_is_printed_is_recorded() {
        drive(super::recorded);
    }
}
