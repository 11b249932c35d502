//! The actors on the in-memory API server.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod cdi;
mod cluster;
mod consoles;
mod events;
mod freezing;
mod guests;
mod hotplug;
mod machines;
mod migration;
mod others;
mod printable;
mod requests;
mod smart_clones;
mod snapshots;
mod trace;
mod world;
