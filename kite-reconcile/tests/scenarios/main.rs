//! Reconcilers against the in-memory API server: what the world looks like when
//! everything has come to rest.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(
    clippy::large_futures,
    reason = "a test awaits its whole world, and nothing else is on its stack"
)]

mod blocked;
mod defects;
mod deletion;
mod drift;
mod expiry;
mod exposure;
mod faults;
mod first_lists;
mod growth;
mod idle;
mod images;
mod kept;
mod leader;
mod life;
mod limits;
mod live;
mod login;
mod lost;
mod moves;
mod names;
mod nameservers;
mod offers;
mod operator;
mod orders;
mod platform;
mod quotas;
mod races;
mod requests;
mod restarts;
mod schedules;
mod secrets;
mod sizes;
mod snapshots;
mod stage;
mod stale;
mod unmanaged;
mod unreadable;
mod users;
mod volumes;
mod world;
