//! Why a reconcile did not come to its end.

use kite_core::cluster::ClusterError;
use kite_render::RenderError;
use kite_runtime::Failure;

use crate::keys::KeyError;

/// Why a reconcile did not come to its end.
#[derive(Debug, thiserror::Error)]
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

impl Error {
    /// The reason of the condition that tells a person of this error; none if they
    /// need not know. `is_persistent`: it has come again and again.
    pub(crate) fn reason_to_tell(&self, is_persistent: bool) -> Option<&'static str> {
        match self {
            _ if self.refusal().is_some() => Some("Refused"),
            Self::Render(_) => Some("Invalid"),
            Self::Endless { .. } => Some("Contested"),
            Self::OutdatedCrd { .. } => Some("OutdatedCrd"),
            Self::Cluster(ClusterError::Unreadable { .. }) => Some("Unreadable"),
            // The kind, or the namespace.
            Self::Cluster(ClusterError::NotFound { .. }) if is_persistent => Some("Missing"),
            // Somebody was faster, and is again; it is the next leader's turn.
            Self::Cluster(ClusterError::Conflict { .. } | ClusterError::HeldBack { .. }) => None,
            Self::Cluster(_) | Self::Key(_) | Self::Panicked { .. } => {
                is_persistent.then_some("Failing")
            }
        }
    }

    /// Whether the API server said no to an object, so that a person should
    /// read why: it is invalid, or a quota or policy forbids it. That the account lacks
    /// a right is nothing of the object's, and passes where the right is being given.
    pub(crate) fn refusal(&self) -> Option<&ClusterError> {
        match self {
            Self::Cluster(error) if lacks_right(error) => None,
            Self::Cluster(
                error @ (ClusterError::Invalid { .. } | ClusterError::Forbidden { .. }),
            ) => Some(error),
            Self::Cluster(_)
            | Self::Render(_)
            | Self::Key(_)
            | Self::Endless { .. }
            | Self::OutdatedCrd { .. }
            | Self::Panicked { .. } => None,
        }
    }
}

/// Whether the account may not do this at all, as Kubernetes' authorizers say it.
fn lacks_right(error: &ClusterError) -> bool {
    let ClusterError::Forbidden { status, .. } = error else {
        return false;
    };
    let said = [" cannot ", " resource ", " in API group "];
    said.iter().all(|words| status.message.contains(words))
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    #[test]
    fn what_the_account_may_not_do_is_told_only_if_it_stays_so() {
        let told = |message: &str, is_persistent| {
            let error = Error::Cluster(ClusterError::Forbidden {
                operation: "get Secret a/b".to_owned(),
                status: Box::new(Status {
                    code: 403,
                    ..Status::failure(message, "Forbidden")
                }),
            });
            error.reason_to_tell(is_persistent)
        };
        let right = r#"secrets "b" is forbidden: User "kite" cannot get resource "secrets" in API group "" in the namespace "a""#;
        assert_eq!(told(right, false), None);
        assert_eq!(told(right, true), Some("Failing"));
        let quota = r#"secrets "b" is forbidden: exceeded quota: kite"#;
        assert_eq!(told(quota, false), Some("Refused"));
    }
}
