//! `kite backup` and `kite restore` on the demo.

#![allow(clippy::unwrap_used, clippy::panic)]

mod bed;
mod everything;
mod offers;
#[path = "../support/mod.rs"]
mod support;
