//! [`BuildError`]: what goes wrong while a cluster is built.

/// What went wrong while a cluster was built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// A document is no YAML, or an object lacks what its path needs.
    #[error("{what} cannot be read: {why}")]
    Unreadable {
        /// Which input.
        what: String,
        /// Why.
        why: String,
    },
    /// The server refused a start object.
    #[error("the server refused {what}: {why}")]
    Refused {
        /// Kind and name.
        what: String,
        /// The message of its `Status`.
        why: String,
    },
    /// Actors need a running tokio runtime.
    #[error("actors can only be started inside a tokio runtime: build the cluster in async code")]
    NoRuntime,
}
