//! What is installed, asked of the fake: its server-side apply, its RBAC, its
//! admission policies.
#![allow(clippy::unwrap_used, clippy::panic)]

mod alerts;
mod applied;
mod clones;
mod doors;
mod pods;
mod policies;
mod rendered;
mod rights;
mod stage;
mod tenant;
