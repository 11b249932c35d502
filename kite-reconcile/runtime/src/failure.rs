//! Why a reconcile did not come to its end, as far as the runtime asks.

use std::time::Duration;

use kite_cluster::ClusterError;

/// An error of a reconcile.
pub trait Failure: std::error::Error + Send + Sync + 'static {
    /// The reconcile panicked, and said this.
    fn panicked(message: String) -> Self;

    /// One word for metrics, of few values.
    fn category(&self) -> &'static str;

    /// What the cluster refused or did not answer, if it is that.
    fn cluster(&self) -> Option<&ClusterError>;

    /// Whether nothing but an edit by a person will help.
    fn is_permanent(&self) -> bool {
        self.cluster().is_some_and(ClusterError::is_permanent)
    }

    /// How long the API server asks to wait.
    fn retry_after(&self) -> Option<Duration> {
        match self.cluster()? {
            ClusterError::Unavailable { retry_after, .. } => *retry_after,
            _ => None,
        }
    }
}

/// The errors of an operator that has none of its own.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The cluster refused or did not answer.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// A plan still wanted changes after many rounds: two writers disagree about a field,
    /// and this is one of them.
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
    /// The reconcile itself is wrong.
    #[error("the reconcile panicked, which is a bug: {message}")]
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
            Self::Endless { .. } => "endless",
            Self::Panicked { .. } => "panic",
        }
    }

    fn cluster(&self) -> Option<&ClusterError> {
        match self {
            Self::Cluster(error) => Some(error),
            Self::Endless { .. } | Self::Panicked { .. } => None,
        }
    }
}
