//! The API against the in-memory API server: every endpoint, over the router.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod account;
mod alike;
mod audit;
mod audit_reads;
mod bad_input;
mod bootstrap;
mod budget;
mod certificate;
mod console;
mod contract;
mod demand;
mod events;
mod gate;
mod http;
mod intake;
mod invites;
mod kept_passwords;
mod lists;
mod lookups;
mod lost_passwords;
mod notices;
mod offers;
mod oidc;
mod open_sign_up;
mod openapi;
mod passwords;
mod proof;
mod refresh;
mod repeats;
mod replicas;
mod seal_key;
mod sessions;
mod settings;
mod sign_in;
mod tokens;
mod totp;
mod unread_settings;
mod users;
mod vm_history;
mod vm_recordings;
mod vm_sessions;
mod vms;
mod world;
mod written;
