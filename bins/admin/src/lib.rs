//! What people who run a cluster do with it, as functions over a [`kube::Client`].
//!
//! - [`doctor`] looks whether a cluster is fit for Kite and says what is missing.
//! - [`install`] applies an installation, waits until it is up, and removes it again.
//! - [`backup`] keeps what people and administrators have written, and brings it back.
//! - [`retry`] repeats requests of all of these while what keeps them back passes.
//! - [`smoke`] goes the whole way of a user through an installation.

pub mod backup;
mod causes;
pub mod doctor;
pub mod install;
pub mod retry;
pub mod smoke;
