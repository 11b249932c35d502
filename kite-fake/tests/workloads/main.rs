//! Workloads with their Pods, as the controllers of a cluster make them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod deployments;
mod replicas;
mod world;
