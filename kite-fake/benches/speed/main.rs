//! How fast and how small the server is, beside what one would use instead.
//!
//! `cargo bench -p kite-fake` prints the table of `docs/fake.md`. Every figure is
//! the best of several rounds, so that a busy machine says little about it; the
//! peers are measured in the same run:
//!
//! - *plain map*: what a home-made fake does, a `BTreeMap` of `serde_json` values
//!   that are encoded for every answer and compared on every write, without
//!   validation, ownership, history or selectors' grammar;
//! - *tower-test*: kube-rs's way of mocking, answering prepared bytes in order.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout
)]

mod clients;
mod figures;
mod objects;
mod plain;
mod server;
mod watches;

use std::alloc::System;

use figures::Table;
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

fn main() {
    // `cargo test --benches` runs this, too: figures without optimisation mean nothing.
    if cfg!(debug_assertions) {
        println!("skipped: run `cargo bench -p kite-fake`");
        return;
    }
    if std::env::args().any(|a| a == server::FIRST_START) {
        server::first_start();
        return;
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap();
    let mut table = Table::default();
    // Words after `--` choose parts: `cargo bench -p kite-fake -- start lists`.
    let chosen: Vec<String> = std::env::args()
        .skip(1)
        .filter(|a| !a.starts_with('-'))
        .collect();
    let is_on = |part: &str| chosen.is_empty() || chosen.iter().any(|c| c == part);
    runtime.block_on(async {
        if is_on("start") {
            server::start(&mut table);
        }
        if is_on("requests") {
            server::requests(&mut table);
        }
        if is_on("lists") {
            server::lists(&mut table);
        }
        if is_on("memory") {
            server::memory(&mut table);
        }
        if is_on("watches") {
            watches::fan_out(&mut table).await;
        }
        if is_on("clients") {
            clients::through_kube(&mut table).await;
        }
    });
    table.print();
}
