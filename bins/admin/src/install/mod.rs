//! An installation on a cluster: applied, waited for, and removed.
//!
//! Everything is done object by object, and each step may be repeated: what a step
//! that failed has left behind is what the next try finds.

mod apply;
mod object;
mod ready;
mod remove;
mod token;

pub use self::{
    apply::{Change, apply},
    object::ObjectName,
    ready::{Workload, wait_until_ready},
    remove::{Data, Removed, prune, remove},
    token::{FirstAdmin, first_admin},
};

/// The field manager of what is installed.
pub const MANAGER: &str = "kite-install";

/// Why an installation could not be applied or removed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The API server refused an object, or did not answer.
    #[error("{object}: {source}")]
    Object {
        /// Which one.
        object: Box<ObjectName>,
        /// What it said.
        source: Box<kube::Error>,
    },
    /// Something is not as it should be by now.
    #[error("{what} after {seconds} s: {remedy}")]
    Late {
        /// What is not.
        what: String,
        /// How long it was waited for.
        seconds: u64,
        /// What to do.
        remedy: String,
    },
    /// An object cannot be written as JSON.
    #[error("{0}")]
    Json(#[from] serde_json::Error),
}

impl Error {
    fn of(object: &ObjectName, source: kube::Error) -> Self {
        Self::Object {
            object: Box::new(object.clone()),
            source: Box::new(source),
        }
    }
}
