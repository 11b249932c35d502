//! Unmodified clients of other languages on the in-memory server, over loopback
//! HTTP: `kubectl` (any release since 1.20) and the Python package `kubernetes`.
//! Without them the tests say that they were skipped, unless
//! `KITE_REQUIRE_CLIENTS` is set.
#![allow(clippy::print_stdout)]

mod apply;
mod change;
mod custom;
mod generate;
mod kubectl;
mod python;
mod show;

use std::io::Write as _;

/// Says that a test cannot run here, or fails where it must.
fn skip(what: &str) {
    assert!(
        std::env::var_os("KITE_REQUIRE_CLIENTS").is_none(),
        "KITE_REQUIRE_CLIENTS is set: {what}"
    );
    let _ = writeln!(std::io::stderr(), "SKIPPED: {what}");
}
