//! Connections as objects of the cluster, here the in-memory one: seen from anywhere,
//! and ended from anywhere.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../common/mod.rs"]
mod common;
mod deleted;
mod ending;
mod process;
mod ssh;
mod told;
