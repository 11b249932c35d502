//! Unmodified clients of other languages on the in-memory server, over TLS on
//! loopback: `kubectl` (any release since 1.20) and the Python package `kubernetes`.
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

use kite_fake::FakeCluster;
use kite_fake::serve::Served;

/// Serves as `kite apiserver` does: over TLS, where that is built in.
async fn serve(cluster: &FakeCluster) -> Served {
    let address = ([127, 0, 0, 1], 0).into();
    #[cfg(feature = "tls")]
    let served = cluster.serve_tls(address).await;
    #[cfg(not(feature = "tls"))]
    let served = cluster.serve(address).await;
    served.unwrap()
}

/// Says that a test cannot run here, or fails where it must.
fn skip(what: &str) {
    assert!(
        std::env::var_os("KITE_REQUIRE_CLIENTS").is_none(),
        "KITE_REQUIRE_CLIENTS is set: {what}"
    );
    let _ = writeln!(std::io::stderr(), "SKIPPED: {what}");
}
