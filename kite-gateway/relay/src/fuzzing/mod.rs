//! What must hold of whatever peers say, as functions from bytes. Two drivers share them:
//! libFuzzer, guided by coverage (`kite-gateway/relay/fuzz`), and the tests here, which feed
//! them what it has found and bytes from a seed.

mod transport;

pub use crate::relay::fuzzing::check as relay;
pub use transport::check as transport;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]

    use std::path::Path;
    use std::time::{Duration, Instant};

    use rand::rngs::StdRng;
    use rand::{RngExt as _, SeedableRng as _};

    /// Cases of a quick run.
    const CASES: u64 = 4000;

    fn number(name: &str) -> Option<u64> {
        let text = std::env::var(name).ok()?;
        Some(
            text.parse()
                .unwrap_or_else(|_| panic!("{name}={text} is no number")),
        )
    }

    /// First what runs guided by coverage have come to; the published package has none of it.
    /// `KITE_FUZZ_SECONDS` sets for how long, `KITE_FUZZ_SEED` where it begins.
    fn drive(name: &str, target: fn(&[u8])) {
        let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds");
        match std::fs::read_dir(seeds.join(name)) {
            Ok(files) => {
                for file in files {
                    let file = file.unwrap().path();
                    let bytes = std::fs::read(&file).unwrap();
                    let outcome = std::panic::catch_unwind(|| target(&bytes));
                    assert!(outcome.is_ok(), "again with {}", file.display());
                }
            }
            Err(_) => eprintln!("there are no seeds of {name}"),
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
            let outcome = std::panic::catch_unwind(|| target(&bytes));
            assert!(outcome.is_ok(), "again with KITE_FUZZ_SEED={seed}");
        }
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
