//! The schema functions against answers of a real API server, and against arbitrary input.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod definitions;
mod held;
mod properties;
mod recorded;
mod refusals;
