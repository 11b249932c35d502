//! Against servers of others: each suite, and each method of key exchange that they have. They
//! answer nothing that is not sealed as they expect.
#![allow(clippy::unwrap_used)]

mod client;
mod openssh;
mod proxy;
mod russh;
#[path = "../../examples/proxy/serve.rs"]
mod serve;
mod ssh;

use kite_ssh_relay::kex::Method;
use kite_ssh_relay::packet::Suite;

/// Each suite with one method, and each method with one suite.
fn pairs() -> Vec<(Method, Suite)> {
    let suites = Suite::ALL.map(|suite| (Method::Curve25519, suite));
    let methods = Method::ALL.map(|method| (method, Suite::Aes128Gcm));
    suites.into_iter().chain(methods).collect()
}
