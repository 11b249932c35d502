//! The whole command against OpenSSH's own server, with real logins.
//!
//! Each test has a network and a mount namespace of its own, so that it can have port 22
//! and `/etc/ssh` for itself. Where namespaces cannot be made, what needs no such thing
//! runs on high ports in a temporary directory. Tests that cannot run say so, as for
//! whoever is not root or has no sshd, and fail where `KITE_REQUIRE_CLIENTS` is set.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr
)]

mod bed;
mod crashes;
mod defaults;
mod failures;
mod host;
mod moves;
mod outcome;
mod process;
mod systemd;
