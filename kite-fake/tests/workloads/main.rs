//! Workloads with their Pods, as the controllers of a cluster make them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod daemon_sets;
mod deployments;
mod replicas;
mod restarts;
mod stateful_sets;
mod world;
