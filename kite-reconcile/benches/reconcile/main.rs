//! What Kite's reconcilers cost: requests, processor time, memory, and how long
//! a whole fleet takes from nothing.
//!
//! `cargo bench -p kite-reconcile` prints the table of `docs/performance.md`. A
//! second small fleet tells whether anything grows faster than the fleet:
//!
//! ```text
//! cargo bench -p kite-reconcile -- [--vms 10000] [--users 1000] [requests] [noop] [settle] [memory]
//! ```
//!
//! - *requests*: one VM from creation to Running on a small cluster, by verb and
//!   kind, and what a resync of the settled cluster asks for;
//! - *noop*: processor time of reconciling what is settled;
//! - *settle*: the fleet in one process: the API server, what plays the rest of
//!   the cluster, and all of Kite's controllers, in real time on two threads. Twice:
//!   with `KubeVirt` and CDI in as few words as Kite needs, and with everything that
//!   `kite_fake` can play of a cluster;
//! - *memory*: the same fleet with the API server and the controllers in
//!   processes of their own, so that the controllers' memory is theirs alone;
//!   beside it a process that holds the same objects as plain caches of
//!   kube-rs do.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::cast_precision_loss
)]

mod brief;
mod counted;
mod figures;
mod fleet;
mod noop;
mod options;
mod processes;
mod requests;
mod settle;
mod world;

use figures::Table;
use mimalloc::MiMalloc;
use options::{Options, Role};

/// As in `kite-controller`.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() {
    // `cargo test --benches` runs this, too: figures without optimisation mean nothing.
    if cfg!(debug_assertions) && std::env::var_os("KITE_BENCH_DEBUG").is_none() {
        println!("skipped: run `cargo bench -p kite-reconcile`");
        return;
    }
    let options = Options::from_arguments();
    match &options.role {
        Role::Main => {}
        role => return processes::play(role),
    }
    let mut table = Table::default();
    if options.is_on("requests") {
        requests::measure(&mut table);
    }
    if options.is_on("noop") {
        noop::measure(&mut table);
    }
    if options.is_on("settle") {
        settle::measure(&options, &mut table);
    }
    if options.is_on("memory") {
        processes::measure(&options, &mut table);
    }
    table.print();
}
