//! The API against the in-memory API server: every endpoint, over the router.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod account;
mod bootstrap;
mod console;
mod http;
mod offers;
mod sessions;
mod sign_in;
mod users;
mod vms;
mod world;
