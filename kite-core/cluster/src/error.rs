//! What went wrong with a request, by meaning.

use std::time::Duration;

use kube::core::Status;

/// Why a request to the cluster failed. Each variant keeps what was being done
/// and what the API server said, so callers match on meaning, not on text.
///
/// ```
/// use k8s_openapi::api::core::v1::Secret;
/// use kite_cluster::{Cluster, ClusterError};
///
/// /// Creates the Secret; whether this process was the first.
/// async fn first<C: Cluster>(cluster: &C, secret: &Secret) -> Result<bool, ClusterError> {
///     match cluster.create(secret).await {
///         Ok(_) => Ok(true),
///         Err(ClusterError::AlreadyExists { .. }) => Ok(false),
///         Err(error) => Err(error),
///     }
/// }
/// ```
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// The object (or its kind, or its namespace) is not there.
    #[error("{operation}: not found: {}", status.message)]
    NotFound {
        /// What was being done.
        operation: String,
        /// The API server's answer.
        status: Box<Status>,
    },
    /// An object of this name exists already.
    #[error("{operation}: {}", status.message)]
    AlreadyExists {
        /// What was being done.
        operation: String,
        /// The API server's answer.
        status: Box<Status>,
    },
    /// The object changed since it was read, is another one than was meant, or
    /// another field manager owns a field.
    #[error("{operation}: conflict: {}", status.message)]
    Conflict {
        /// What was being done.
        operation: String,
        /// The API server's answer.
        status: Box<Status>,
    },
    /// The API server refuses the object itself; sending it again is useless.
    #[error("{operation}: invalid: {}", status.message)]
    Invalid {
        /// What was being done.
        operation: String,
        /// The API server's answer.
        status: Box<Status>,
    },
    /// The account may not do this, or a quota or policy forbids it.
    #[error("{operation}: forbidden: {}", status.message)]
    Forbidden {
        /// What was being done.
        operation: String,
        /// The API server's answer.
        status: Box<Status>,
    },
    /// The API server could not be reached or could not answer now. Whether the
    /// request took effect is not known; it may be sent again.
    #[error("{operation}: the API server is unavailable: {message}")]
    Unavailable {
        /// What was being done.
        operation: String,
        /// What was heard of it.
        message: String,
        /// How long the API server asks to wait.
        retry_after: Option<Duration>,
    },
    /// This process is not the leader. The request was not sent, or was given up while it
    /// was under way.
    #[error("{operation}: {reason}")]
    NotLeader {
        /// What was being done.
        operation: String,
        /// Why.
        reason: NotLeader,
    },
    /// An object is there and cannot be read as its kind: its CRD admits what this
    /// version does not know.
    #[error("{operation}: {message}")]
    Unreadable {
        /// What was being done.
        operation: String,
        /// Which object or field, and why.
        message: String,
    },
    /// Anything else: an answer that makes no sense, a request that could not be
    /// built.
    #[error("{operation}: {message}")]
    Other {
        /// What was being done.
        operation: String,
        /// What went wrong.
        message: String,
    },
}

/// What became of a write of a process that is not the leader. A layer around a
/// `kube::Client` fails with this.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotLeader {
    /// It was not sent, since this process does not lead.
    #[error("not sent: this process does not lead (any more), the leader will see to it")]
    NotSent,
    /// It was under way when this process ceased to lead; whether it took effect
    /// is not known.
    #[error("broken off: this process ceased to lead, the leader will see to it")]
    LeadershipLost,
}

/// The words of an API server for an apply to what does not fit its schema: where it is
/// known who owns which field, and where it is not.
const MISFIT: [&str; 2] = [
    "failed to create typed live object",
    "failed to create manager for existing fields",
];

/// The words of an API server for what is wrong with a body that it has to understand whole.
const STRICT: &str = "strict decoding error: ";
const UNKNOWN_FIELD: &str = "unknown field \"";

impl ClusterError {
    /// Gives kube's error its meaning.
    pub fn from_kube(operation: impl Into<String>, error: kube::Error) -> Self {
        let operation = operation.into();
        match error {
            kube::Error::Api(status) => Self::from_status(operation, status),
            kube::Error::Service(error) if error.is::<NotLeader>() => Self::NotLeader {
                operation,
                reason: error.downcast_ref().copied().unwrap_or(NotLeader::NotSent),
            },
            error @ (kube::Error::HyperError(_)
            | kube::Error::Service(_)
            | kube::Error::ReadEvents(_)
            | kube::Error::HttpError(_)) => Self::Unavailable {
                operation,
                message: chain(&error),
                retry_after: None,
            },
            kube::Error::SerdeError(error) if error.is_data() => Self::Unreadable {
                operation,
                message: format!("it cannot be read: {error}; mend the field that is named"),
            },
            error => Self::Other {
                operation,
                message: chain(&error),
            },
        }
    }

    fn from_status(operation: String, mut status: Box<Status>) -> Self {
        without_object(&mut status);
        match (status.code, status.reason.as_str()) {
            (404, _) => Self::NotFound { operation, status },
            (409, "AlreadyExists") => Self::AlreadyExists { operation, status },
            (409, _) => Self::Conflict { operation, status },
            (422, _) if is_of_another(&status) => Self::Conflict { operation, status },
            (401 | 403, _) => Self::Forbidden { operation, status },
            (400 | 405 | 406 | 413 | 415 | 422, _) => Self::Invalid { operation, status },
            (408 | 410 | 429 | 500..=599, _) => Self::Unavailable {
                operation,
                retry_after: status
                    .details
                    .as_ref()
                    .map(|details| details.retry_after_seconds)
                    .filter(|seconds| *seconds > 0)
                    .map(|seconds| Duration::from_secs(u64::from(seconds))),
                message: format!("{} ({})", status.message, status.code),
            },
            (code, _) => Self::Other {
                operation,
                message: format!("{} ({code})", status.message),
            },
        }
    }

    /// One word for metrics and logs, of few values.
    pub fn category(&self) -> &'static str {
        match self {
            Self::NotFound { .. } => "not_found",
            Self::AlreadyExists { .. } => "already_exists",
            Self::Conflict { .. } => "conflict",
            Self::Invalid { .. } => "invalid",
            Self::Forbidden { .. } => "forbidden",
            Self::Unavailable { .. } => "unavailable",
            Self::NotLeader { .. } => "not_leader",
            Self::Unreadable { .. } => "unreadable",
            Self::Other { .. } => "other",
        }
    }

    /// Whether a server-side apply failed because what is stored does not fit the schema
    /// of its kind, as after an older CRD was put in the place of a later one. No apply to
    /// this object will do until that is mended; other patches are taken.
    pub fn is_schema_mismatch(&self) -> bool {
        // The API server gives neither a reason nor a code of its own for it.
        matches!(self, Self::Unavailable { message, .. }
            if MISFIT.iter().any(|words| message.contains(words)))
    }

    /// The first field of a write that the API server does not know, with its place, such as
    /// `spec.size`: see
    /// [`KubeCluster::refusing_unknown_fields`](super::KubeCluster::refusing_unknown_fields).
    pub fn unknown_field(&self) -> Option<&str> {
        let Self::Invalid { status, .. } = self else {
            return None;
        };
        // The API server gives neither a reason nor a cause of its own for it.
        let (_, problems) = status.message.split_once(STRICT)?;
        problems.split_once(UNKNOWN_FIELD)?.1.split('"').next()
    }

    /// Whether nothing but an edit by a person will help.
    pub fn is_permanent(&self) -> bool {
        matches!(self, Self::Invalid { .. })
    }
}

/// Takes out of the refusal of an unknown field the object that the API server repeats with it:
/// whatever secrets are in that, errors get into logs.
fn without_object(status: &mut Status) {
    let Some(at) = status.message.find(STRICT) else {
        return;
    };
    status.message.drain(..at);
    if let Some(details) = &mut status.details {
        details.causes.clear();
    }
}

/// Whether a patch was refused because it names another uid than the object of
/// this name has. An API server calls that invalid where the object is there, and
/// a conflict where it is not; it means the same.
fn is_of_another(status: &Status) -> bool {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    let mut fields = causes.map(|cause| cause.field.as_str());
    fields.any(|field| field == "metadata.uid")
}

/// An error with its causes on one line: what failed is often only in the last.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(code: u16, reason: &str) -> ClusterError {
        let status = Status {
            code,
            reason: reason.into(),
            ..Status::failure("no", reason)
        };
        ClusterError::from_kube("get pod a/b", kube::Error::Api(status.boxed()))
    }

    /// As an API server says it of a creation, and of a merge patch.
    #[test]
    fn a_field_that_is_not_known_is_named_and_the_object_is_not() {
        let of_creation = r#"KiteUser in version "v1" cannot be handled as a KiteUser: strict decoding error: unknown field "spec.email", unknown field "spec.x""#;
        let of_patch = r#" "" is invalid: patch: Invalid value: "{\"spec\":{\"passwordHash\":\"$argon2\"}}": strict decoding error: unknown field "spec.email""#;
        for (code, message) in [(400, of_creation), (422, of_patch)] {
            let mut status = Status::failure(message, "Invalid");
            status.code = code;
            let error = ClusterError::from_kube("patch a", kube::Error::Api(status.boxed()));
            assert_eq!(error.unknown_field(), Some("spec.email"));
            assert!(
                !format!("{error} {error:?}").contains("argon2"),
                "{error:?}"
            );
        }
        assert_eq!(error(422, "Invalid").unknown_field(), None);
    }

    #[test]
    fn answers_get_their_meaning_from_code_and_reason() {
        for (code, reason, category) in [
            (404, "NotFound", "not_found"),
            (409, "AlreadyExists", "already_exists"),
            (409, "Conflict", "conflict"),
            (422, "Invalid", "invalid"),
            (403, "Forbidden", "forbidden"),
            (401, "Unauthorized", "forbidden"),
            (429, "TooManyRequests", "unavailable"),
            (500, "InternalError", "unavailable"),
            (504, "Timeout", "unavailable"),
            (302, "", "other"),
        ] {
            assert_eq!(error(code, reason).category(), category, "{code} {reason}");
        }
    }

    #[test]
    fn an_apply_to_what_does_not_fit_its_schema_is_told_from_other_failures() {
        let failed = |code: u16, message: &str| {
            let status = Status {
                code,
                ..Status::failure(message, "")
            };
            let error = ClusterError::from_kube("apply", kube::Error::Api(status.boxed()));
            error.is_schema_mismatch()
        };
        let of = "(a/b; example.org/v1, Kind=K): .status.nodeName: expected string, got 5";
        assert!(failed(
            500,
            &format!("failed to create typed live object {of}")
        ));
        let untracked = format!(
            "failed to create manager for existing fields: failed to convert new object {of}"
        );
        assert!(failed(500, &untracked));
        let patch = format!("failed to create typed patch object {of}");
        assert!(!failed(500, &patch) && !failed(503, "try again"));
    }

    #[test]
    fn another_uid_is_a_conflict_and_no_fault_of_the_object() {
        let refused = |fields: &[&str]| {
            let causes = fields.iter().map(|field| {
                serde_json::json!({"reason": "FieldValueInvalid", "message": "field is immutable", "field": field})
            });
            let status = serde_json::json!({
                "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                "message": "ConfigMap \"u\" is invalid", "reason": "Invalid", "code": 422,
                "details": {"name": "u", "kind": "ConfigMap", "causes": causes.collect::<Vec<_>>()},
            });
            let status: Status = serde_json::from_value(status).unwrap();
            ClusterError::from_kube("apply", kube::Error::Api(status.boxed())).category()
        };
        // The API server lists the cause twice.
        assert_eq!(refused(&["metadata.uid", "metadata.uid"]), "conflict");
        // What else is wrong is said of the other object.
        assert_eq!(refused(&["metadata.uid", "spec.cpu"]), "conflict");
        assert_eq!(refused(&["spec.cpu"]), "invalid");
        assert_eq!(refused(&[]), "invalid");
    }

    #[test]
    fn the_text_says_what_was_being_done() {
        assert!(
            error(404, "NotFound")
                .to_string()
                .starts_with("get pod a/b: ")
        );
    }
}
