//! Why a reconcile did not come to its end.

use kite_core::cluster::ClusterError;
use kite_render::RenderError;
use kite_runtime::{Failure, plan::PlanError};

use crate::keys::KeyError;

/// Why a reconcile did not come to its end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The cluster refused or did not answer.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// The object cannot be rendered; only an edit helps.
    #[error(transparent)]
    Render(#[from] RenderError),
    /// No key pair could be made.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The plan still wanted changes after many rounds: two writers disagree
    /// about a field, and this is one of them.
    #[error(
        "no end after {rounds} rounds of changes; the last wanted: {step}: another writer takes \
         a field back each time; the object's managedFields say who it is"
    )]
    Endless {
        /// How many rounds were carried out.
        rounds: usize,
        /// The first step of the round that was not.
        step: String,
    },
    /// The cluster dropped a field without a word.
    #[error(
        "{kind} has no {field} in this cluster: its CRD is older than this controller: apply the \
         CRDs of this version"
    )]
    OutdatedCrd {
        /// The kind.
        kind: &'static str,
        /// The path of the field.
        field: &'static str,
    },
    /// The reconciler itself is wrong.
    #[error("the reconciler panicked, which is a bug: {message}")]
    Panicked {
        /// What the panic said.
        message: String,
    },
}

impl Failure for Error {
    fn panicked(message: String) -> Self {
        Self::Panicked { message }
    }

    fn category(&self) -> &'static str {
        match self {
            Self::Cluster(error) => error.category(),
            Self::Render(_) => "render",
            Self::Key(_) => "key",
            Self::Endless { .. } => "endless",
            Self::OutdatedCrd { .. } => "outdated_crd",
            Self::Panicked { .. } => "panic",
        }
    }

    fn cluster(&self) -> Option<&ClusterError> {
        match self {
            Self::Cluster(error) => Some(error),
            Self::Render(_)
            | Self::Key(_)
            | Self::Endless { .. }
            | Self::OutdatedCrd { .. }
            | Self::Panicked { .. } => None,
        }
    }

    fn is_permanent(&self) -> bool {
        match self {
            Self::Cluster(error) => error.is_permanent(),
            Self::Render(_) => true,
            Self::Key(_)
            | Self::Endless { .. }
            | Self::OutdatedCrd { .. }
            | Self::Panicked { .. } => false,
        }
    }
}

impl PlanError for Error {
    fn endless(rounds: usize, step: String) -> Self {
        Self::Endless { rounds, step }
    }

    fn reason_to_tell(&self, is_persistent: bool) -> Option<&'static str> {
        match self {
            Self::Render(_) => Some("Invalid"),
            Self::Endless { .. } => Some("Contested"),
            Self::OutdatedCrd { .. } => Some("OutdatedCrd"),
            Self::Cluster(_) | Self::Key(_) | Self::Panicked { .. } => {
                kite_runtime::plan::reason_of(self.cluster(), is_persistent)
            }
        }
    }
}
