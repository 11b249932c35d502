//! What the actors of `control_plane()` make of Pods, Jobs, budgets and Services.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)]

mod budgets;
mod cron_jobs;
mod jobs;
mod pods;
mod services;
mod world;
