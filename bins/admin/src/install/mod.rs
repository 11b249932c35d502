//! An installation on a cluster: applied, waited for, and removed.
//!
//! Everything is done object by object, and each step may be repeated: what a step
//! that failed has left behind is what the next try finds.

mod apply;
mod check;
mod dropped;
mod made_again;
mod memory;
mod named;
mod object;
mod own;
mod page;
mod ready;
mod remove;
mod settings;
mod token;
mod widen;

pub use self::{
    apply::{Change, Narrowing, apply},
    dropped::require_no_field_dropped,
    memory::{Memory, is_installed, recall},
    named::named_certificate,
    object::ObjectName,
    page::{Page, page},
    ready::{Workload, wait_until_ready},
    remove::{Data, Removed, prune, remove, require_here},
    settings::{Kept, Setting},
    token::{FirstAdmin, first_admin},
};

pub(crate) use self::remove::may_be_pruned;
use crate::causes::said;

/// The field manager of what is installed.
pub const MANAGER: &str = "kite-install";

/// Annotation of namespaces that were made by an installation: others were there
/// before, and are not its to delete.
const MADE_HERE: &str = "hy3ons.github.io/made-by-install";

/// Why an installation could not be applied or removed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The API server refused an object, or did not answer.
    #[error("{object}: {}", said(answer))]
    Object {
        /// Which one.
        object: Box<ObjectName>,
        /// What it said.
        answer: Box<kube::Error>,
    },
    /// It cannot be as it is asked for, which was found before anything was written.
    #[error("nothing was written: {what}. {remedy}")]
    Refused {
        /// What cannot be.
        what: String,
        /// What to do.
        remedy: String,
    },
    /// It could not be looked whether all is there that is needed.
    #[error("nothing was written: {what} cannot be looked at: {}", said(answer))]
    Unchecked {
        /// What was asked for.
        what: String,
        /// What the API server said.
        answer: Box<kube::Error>,
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
    /// Somebody makes again what is deleted.
    #[error(
        "{object} was deleted, and is there again for the {times}th time: it is made by {by}. End \
         that first, which is no Deployment of this installation, and repeat this"
    )]
    MadeAgain {
        /// Which one.
        object: Box<ObjectName>,
        /// How often.
        times: usize,
        /// Who made it last, as far as the cluster tells.
        by: String,
    },
    /// There is an installation in another namespace, of which a cluster has one.
    #[error(
        "Kite is installed elsewhere: {object}. Name its namespace with --namespace instead of \
         {namespace}, or uninstall it first"
    )]
    Elsewhere {
        /// What there is of it.
        object: Box<ObjectName>,
        /// Where it was looked for.
        namespace: String,
    },
    /// What the last installation was made with cannot be read.
    #[error(
        "{object} {what}: it keeps what the last kite install was given. Delete it, and name \
             all options once more"
    )]
    Memory {
        /// Where it is kept.
        object: Box<ObjectName>,
        /// What is wrong with it.
        what: String,
    },
    /// An object cannot be written as JSON.
    #[error("{0}")]
    Json(#[from] serde_json::Error),
}

impl Error {
    fn of(object: &ObjectName, answer: kube::Error) -> Self {
        Self::Object {
            object: Box::new(object.clone()),
            answer: Box::new(answer),
        }
    }
}
