//! kite-fake: an in-memory Kubernetes API server for tests and demos.

pub mod actors;
pub mod auth;
mod builder;
pub mod builtin;
pub mod clock;
mod cluster;
pub mod discovery;
pub mod fields;
pub mod guest;
pub mod metadata;
pub mod names;
pub mod openapi;
pub mod patch;
pub mod protobuf;
pub mod rest;
pub mod schema;
pub mod serve;
pub mod server;
pub mod service;
pub mod status;
pub mod store;
pub mod table;
#[cfg(test)]
mod testing;

pub use builder::{BuildError, Builder};
pub use cluster::FakeCluster;
