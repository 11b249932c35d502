//! What must hold of whatever peers say, as functions from bytes. Two drivers share them:
//! libFuzzer, guided by coverage (`kite-gateway/relay/fuzz`), and [`drive`] in the tests here.
//! The gateway tries what it parses by the same means.

#![expect(
    clippy::panic,
    reason = "a driver learns by a panic that something does not hold"
)]

mod transport;

use std::panic::catch_unwind;
use std::path::Path;
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

pub use crate::decisions::Decisions;
pub use crate::relay::fuzzing::check as relay;
pub use transport::check as transport;

/// Cases of a quick run.
const CASES: u64 = 4000;

/// Tries `target` with the files in `seeds`, which are what runs guided by coverage have come
/// to, and with bytes by chance. `KITE_FUZZ_SECONDS` sets for how long, `KITE_FUZZ_SEED` where
/// it begins. Published packages have no such files.
///
/// # Panics
/// Where `target` does, with how to have it do so again.
pub fn drive(seeds: Option<&Path>, target: fn(&[u8])) {
    if let Some(seeds) = seeds {
        drive_seeds(seeds, target);
    }
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
        let mut bytes = vec![0; random.random_range(1..600)];
        random.fill(&mut bytes[..]);
        let outcome = catch_unwind(|| target(&bytes));
        assert!(outcome.is_ok(), "again with KITE_FUZZ_SEED={seed}");
    }
}

fn drive_seeds(seeds: &Path, target: fn(&[u8])) {
    let Ok(files) = std::fs::read_dir(seeds) else {
        eprintln!("there are no seeds in {}", seeds.display());
        return;
    };
    for file in files {
        let path = file.map(|it| it.path());
        let path = path.unwrap_or_else(|error| panic!("{}: {error}", seeds.display()));
        let again = || format!("again with {}", path.display());
        let bytes = std::fs::read(&path);
        let bytes = bytes.unwrap_or_else(|error| panic!("{}: {error}", again()));
        assert!(catch_unwind(|| target(&bytes)).is_ok(), "{}", again());
    }
}

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    let number = text.parse();
    Some(number.unwrap_or_else(|_| panic!("{name}={text} is no number")))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    fn drive(name: &str, target: fn(&[u8])) {
        let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds");
        super::drive(Some(&seeds.join(name)), target);
    }

    #[test]
    fn peers_that_make_things_up_get_nowhere() {
        drive("transport", super::transport);
    }

    #[test]
    fn whatever_two_sides_say_it_is_kept_apart() {
        drive("relay", super::relay);
    }
}
