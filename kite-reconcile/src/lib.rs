//! Reconcilers that make a cluster match Kite's custom resources.
mod backoff;
pub mod claims;
mod context;
mod drive;
mod error;
pub mod image;
pub mod keys;
pub mod matches;
mod metrics;
pub mod objects;
pub mod plan;
mod run;
mod standing;
pub mod user;
pub mod vm;

pub use self::{
    context::{Clock, Context, Settings},
    error::Error,
    metrics::Metrics,
    run::{error_policy, run, run_images, run_users, run_virtual_machines},
};
