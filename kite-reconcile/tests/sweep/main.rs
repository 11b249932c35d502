//! Every fault at every request of Kite's reconcilers, and what must come of it:
//! the same as without. `docs/reliability.md` says how to run all of it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(clippy::print_stdout, reason = "a sweep prints its table")]

/// A run is made of small allocations, a third of its time with glibc's.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

mod aimed;
mod circumstances;
mod found;
mod invariants;
mod limits;
mod moves;
mod offers;
mod scenarios;
mod snapshots;
mod stage;
mod sweeps;
mod volumes;
