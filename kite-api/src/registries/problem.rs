//! Why a registry does not say what it has, in words for who asked.

use std::time::Duration;

use kite_rest::{Problem, ProblemKind, web::FetchError};

use super::Repository;

/// Why there is no list.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RegistryError {
    /// There is no such repository, or it is not for everybody.
    #[error("there is no such repository, or not for everybody")]
    Missing,
    /// It asks for a password.
    #[error("it lets only those in who have a password")]
    Denied,
    /// It wants to be asked later, after these seconds.
    #[error("it wants to be asked less often")]
    Limited(Option<u32>),
    /// It names another place.
    #[error("it sends to {0:?}")]
    Elsewhere(String),
    /// Its answer is none of a registry's.
    #[error("{0}")]
    Odd(String),
    /// There is no answer.
    #[error("{0}")]
    Unreachable(#[from] FetchError),
}

impl RegistryError {
    /// What is told.
    pub(crate) fn into_problem(self, of: &Repository) -> Problem {
        let (host, path) = (&of.host, &of.path);
        tracing::warn!(host, path, error = %self, "a registry does not tell its tags");
        match self {
            Self::Missing => Problem::new(
                ProblemKind::NotFound,
                format!(
                    "the registry {host} has no repository {path}, or shows it to nobody without a \
                     password: look at its name, or write the address with its tag"
                ),
            ),
            Self::Denied => Problem::new(
                ProblemKind::Conflict,
                format!(
                    "the registry {host} lists {path} only for those who sign in to it: write the \
                     address with its tag"
                ),
            ),
            Self::Limited(seconds) => Problem::new(
                ProblemKind::Unavailable,
                format!("the registry {host} wants to be asked less often: try again later"),
            )
            .retry_after(Duration::from_secs(seconds.unwrap_or(60).into())),
            Self::Elsewhere(_) => Problem::new(
                ProblemKind::Conflict,
                format!(
                    "the registry {host} sends elsewhere, where nobody is asked: write the name of \
                     the registry that has {path}, or the address with its tag"
                ),
            ),
            Self::Odd(_) => Problem::new(
                ProblemKind::Unavailable,
                format!(
                    "{host} does not answer as a registry does: look at the address, or write it \
                     with its tag"
                ),
            ),
            Self::Unreachable(_) => Problem::new(
                ProblemKind::Unavailable,
                format!(
                    "the registry {host} does not answer, or cannot be reached from here: try again \
                     later, or write the address with its tag"
                ),
            )
            .retry_after(Duration::from_secs(5)),
        }
    }
}
