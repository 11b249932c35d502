//! kite-fake: an in-memory Kubernetes API server for tests and demos.

pub mod clock;
mod cluster;
pub mod rest;
pub mod schema;
pub mod serve;
pub mod server;
pub mod service;
pub mod status;
pub mod store;

pub use cluster::{BuildError, Builder, FakeCluster};
