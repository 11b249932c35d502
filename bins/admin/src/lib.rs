//! What people who run a cluster do with it, as functions over a [`kube::Client`].
//!
//! [`doctor`] looks whether a cluster is fit for Kite and says what is missing.

pub mod doctor;
