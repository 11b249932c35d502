//! What the gateway costs beside a direct connection and beside `ssh -J`, with
//! OpenSSH's own client and servers.
//!
//! One sshd plays the VM, a second one the jump host, and the gateway runs in a
//! process of its own, as does a copier of bytes, which is what any process in between
//! costs. All targets are measured in turns within one run, so that
//! what else the machine does hits them alike; what counts are ratios:
//!
//! ```text
//! cargo bench -p kite-gateway -- [--repetitions 5] [--mib 1024] [--quick]
//!     [--other FILE] [throughput] [handshakes] [idle] [latency]
//! ```
//!
//! - *throughput*: up, down and both at once, in two ciphers, and the processor
//!   time that the hop takes for it;
//! - *handshakes*: `ssh T true`, one at a time and eight at once;
//! - *idle*: the hop's memory for sixty connections that do nothing;
//! - *latency*: one byte there and back, alone and beside bulk on the same
//!   connection.
//!
//! `--other FILE` is this program built from another version: the gateway of that
//! version takes its turns, too. That is how a change is measured.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::cast_precision_loss
)]

mod bed;
mod copier;
mod figures;
mod gateway;
mod handshakes;
mod idle;
mod latency;
mod machine;
mod options;
mod processes;
mod throughput;

use bed::Bed;
use mimalloc::MiMalloc;
use options::Options;

/// As in `kite-gateway`, the process.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() {
    // `cargo test --benches` runs this, too: figures without optimisation mean nothing.
    if cfg!(debug_assertions) && std::env::var_os("KITE_BENCH_DEBUG").is_none() {
        println!("skipped: run `cargo bench -p kite-gateway`");
        return;
    }
    let options = Options::from_arguments();
    if let Some(dir) = &options.gateway {
        return gateway::play(dir);
    }
    if let Some(dir) = &options.copier {
        return copier::play(dir);
    }
    let Some(bed) = Bed::new(&options) else {
        return;
    };
    println!("{}", machine::describe());
    if options.is_on("throughput") {
        throughput::measure(&options, &bed);
    }
    if options.is_on("handshakes") {
        handshakes::measure(&options, &bed);
    }
    if options.is_on("idle") {
        idle::measure(&options, &bed);
    }
    if options.is_on("latency") {
        latency::measure(&options, &bed);
    }
    println!("\n{}", machine::describe());
}
