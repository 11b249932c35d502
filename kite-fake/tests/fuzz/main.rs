//! Whatever comes in, the server answers: no panic, no hang, nothing half-done.
//!
//! Each target is a function from bytes to a check, so that two drivers share it:
//! libFuzzer, guided by coverage (`kite-fake/fuzz`), and this test, which feeds
//! it bytes from a seed. `KITE_FUZZ_SECONDS` sets how long each target runs
//! (a few seconds' worth of fixed cases otherwise) and `KITE_FUZZ_SEED` where
//! it begins.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod apply;
mod input;
mod patches;
mod schemas;
mod selectors;
mod surface;
mod world;

use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

/// Cases of a quick run.
const CASES: u64 = 64;
/// Longest input, in bytes.
const LONGEST: usize = 4096;

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{name}={text} is no number")),
    )
}

fn drive(target: fn(&[u8])) {
    let seconds = number("KITE_FUZZ_SECONDS").map(Duration::from_secs);
    let first = number("KITE_FUZZ_SEED").unwrap_or(1);
    let start = Instant::now();
    for case in 0.. {
        let over = match seconds {
            Some(limit) => start.elapsed() >= limit,
            None => case >= CASES,
        };
        if over {
            return;
        }
        let seed = first.wrapping_add(case);
        let mut random = StdRng::seed_from_u64(seed);
        let mut bytes = vec![0; random.random_range(1..LONGEST)];
        random.fill(&mut bytes[..]);
        let outcome = std::panic::catch_unwind(|| target(&bytes));
        assert!(outcome.is_ok(), "again with KITE_FUZZ_SEED={seed}");
    }
}

#[test]
fn every_request_is_answered() {
    drive(surface::check);
}

#[test]
fn applies_keep_what_they_promise() {
    drive(apply::check);
}

#[test]
fn patches_end_in_a_document_or_an_error() {
    drive(patches::check);
}

#[test]
fn selectors_and_options_are_read_or_refused() {
    drive(selectors::check);
}

#[test]
fn schemas_are_refused_or_hold() {
    drive(schemas::check);
}
