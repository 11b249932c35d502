//! Connections as objects of the cluster, here the in-memory one: seen from anywhere,
//! and ended from anywhere.

mod deleted;
mod ending;
mod process;
mod ssh;
mod told;
