//! Whole Kite, from outside: its binaries as separate processes or as the demo, driven by
//! the clients that people use.
//!
//! All in one program, for most of these tests wait most of the time: where there are two
//! processors, two of them run at once.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr
)]

mod backup;
mod browser;
mod demo;
mod e2e;
mod flow;
mod ha;
mod images;
mod install;
mod processes;
mod queries;
mod rights;
mod smoke;
#[path = "../support/mod.rs"]
mod support;
mod upgrade;
mod workload;
