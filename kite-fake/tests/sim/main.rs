//! Simulations: a small operator that is right, and some that are not.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod flaws;
mod operator;
mod order;
mod processes;
mod rivals;
mod world;
