//! The API against the in-memory API server: every endpoint, over the router.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod account;
mod bootstrap;
mod contract;
mod events;
mod http;
mod lists;
mod offers;
mod openapi;
mod sessions;
mod settings;
mod sign_in;
mod users;
mod vms;
mod world;
