//! What the actors of `control_plane()` make of Pods, workloads, budgets and Services.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)]

mod budgets;
mod cron_jobs;
mod daemon_sets;
mod deployments;
mod jobs;
mod pods;
mod replicas;
mod restarts;
mod services;
mod snapshots;
mod stateful_sets;
mod volumes;
mod world;
