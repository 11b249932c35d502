//! What the API server's refusals mean to the person who asked.

use std::time::Duration;

use kite_core::cluster::ClusterError;
use kube::core::{Status, response::StatusCause};

use super::{FieldError, Problem, ProblemKind};
use crate::vocabulary::Vocabulary;

/// How an API server says that a policy of the cluster's, or a webhook, refuses an object,
/// and what stands before the words that it has for who asked.
const BY_POLICY: [(&str, &str); 2] = [
    ("ValidatingAdmissionPolicy ", "denied request: "),
    ("admission webhook ", "denied the request: "),
];

impl From<ClusterError> for Problem {
    fn from(error: ClusterError) -> Self {
        Self::of(error, Vocabulary::default())
    }
}

impl Problem {
    /// What an API server's refusal means, in an application's words for its fields.
    #[allow(
        clippy::needless_pass_by_value,
        reason = "as `From`, which is used for most"
    )]
    pub fn of(error: ClusterError, vocabulary: Vocabulary) -> Self {
        if let Some(field) = error.unknown_field() {
            tracing::error!(%error, "a CRD is of an earlier version: apply what kite crds prints");
            return Self::new(
                ProblemKind::Internal,
                format!(
                    "the cluster does not know {field} yet: its definitions of Kite's kinds are of an \
                     earlier version, and an administrator of the cluster has to apply what kite \
                     crds prints"
                ),
            );
        }
        match &error {
            ClusterError::NotFound { .. } => Self::new(
                ProblemKind::NotFound,
                "the object is not there any more: load the list again",
            ),
            ClusterError::AlreadyExists { .. } => Self::new(
                ProblemKind::Taken,
                "an object of this name exists already: choose another name",
            ),
            ClusterError::Conflict { .. } => Self::new(
                ProblemKind::Conflict,
                "somebody changed this at the same time: load it again and repeat what you did",
            )
            .retry_after(Duration::from_secs(1)),
            ClusterError::Invalid { status, .. } => invalid(&error, status, vocabulary),
            ClusterError::Forbidden { status, .. } => forbidden(&error, status, vocabulary),
            ClusterError::Unavailable { retry_after, .. } => {
                tracing::warn!(%error, "the cluster did not answer");
                Self::new(
                    ProblemKind::Unavailable,
                    "the cluster does not answer at the moment: try again shortly",
                )
                .retry_after(retry_after.unwrap_or(Duration::from_secs(2)))
            }
            ClusterError::NotLeader { .. }
            | ClusterError::Unreadable { .. }
            | ClusterError::Other { .. } => {
                tracing::error!(%error, "the cluster gave an answer that makes no sense");
                Self::new(
                    ProblemKind::Internal,
                    "the cluster's answer made no sense: the operator finds the cause in the log \
                     under this request's id",
                )
            }
        }
    }
}

/// What the API server says with 422 is about fields, or in the words of a policy that
/// gives no other reason.
fn invalid(error: &ClusterError, status: &Status, vocabulary: Vocabulary) -> Problem {
    let causes = status
        .details
        .as_ref()
        .map(|details| details.causes.as_slice())
        .unwrap_or_default();
    let mut errors: Vec<FieldError> = Vec::new();
    for error in causes.iter().filter_map(|it| field_error(it, vocabulary)) {
        // A rule that refuses a value often does so once per expression; and of a value
        // that the schema refuses, the rules say what follows from that.
        let is_told = |it: &FieldError| it.field == error.field && !error.field.is_empty();
        if !errors.contains(&error) && !errors.iter().any(is_told) {
            errors.push(error);
        }
    }
    if errors.iter().all(|error| error.field.is_empty())
        && let Some(why) = said_by_policy(&status.message)
    {
        tracing::warn!(%error, "a policy of the cluster refuses a write");
        return Problem::new(ProblemKind::Invalid, why);
    }
    if errors.is_empty() {
        return Problem::new(ProblemKind::Invalid, status.message.clone());
    }
    Problem::invalid(errors)
}

/// What the API server says with 403 is either about the user's quota, about a
/// namespace on its way out, or about Kite's own rights, which is no fault of
/// the user's.
fn forbidden(error: &ClusterError, status: &Status, vocabulary: Vocabulary) -> Problem {
    if let Some((_, what)) = status.message.split_once("exceeded quota: ") {
        return Problem::new(ProblemKind::QuotaExceeded, (vocabulary.quota)(what));
    }
    if status.message.contains("is being terminated") {
        return Problem::new(
            ProblemKind::Conflict,
            "the account is being deleted: nothing can be created for it",
        );
    }
    if let Some(why) = said_by_policy(&status.message) {
        tracing::warn!(%error, "a policy of the cluster refuses a write");
        return Problem::new(ProblemKind::Forbidden, why);
    }
    tracing::error!(%error, "Kite's own account may not do this");
    Problem::new(
        ProblemKind::Internal,
        "the cluster refuses this to the server itself: its operator must mend the rights of its \
         account (RBAC)",
    )
}

/// What a policy of the cluster's has for who asked: that is about the object, and no fault
/// of the server's.
fn said_by_policy(message: &str) -> Option<&str> {
    BY_POLICY.into_iter().find_map(|(who, before)| {
        let (_, said) = message.split_once(who)?;
        Some(said.split_once(before)?.1).filter(|why| !why.is_empty())
    })
}

/// A cause about the whole object (such as a failed CEL rule at its root) keeps
/// an empty field name.
fn field_error(cause: &StatusCause, vocabulary: Vocabulary) -> Option<FieldError> {
    // "some validation rules were not checked because the object was invalid"
    // says nothing about what to mend.
    if cause.message.contains("were not checked because") {
        return None;
    }
    let field = field_of_cause(&cause.field, vocabulary);
    let text = plain(&cause.message);
    // Rules about the name stand at the root, since metadata has none.
    if let (true, Some(rest)) = (field.is_empty(), text.strip_prefix("metadata.name ")) {
        return Some(FieldError {
            field: "name".to_owned(),
            value: None,
            message: rest.to_owned(),
        });
    }
    let message = match (vocabulary.remedy)(&field) {
        Some(remedy) if is_schema_speak(cause) => remedy,
        _ => without_field(&field, text),
    };
    let message = message.to_owned();
    Some(FieldError {
        field,
        value: None,
        message,
    })
}

/// What a rule says without the field that it begins with, as `kubectl` needs it: an
/// answer of the API has the field before the message.
fn without_field<'a>(field: &str, text: &'a str) -> &'a str {
    let last = field.rsplit('.').next().unwrap_or(field);
    let names = [field, last, last.split('[').next().unwrap_or(last)];
    let after = |name: &&str| {
        let rest = text.strip_prefix(name).filter(|_| !name.is_empty())?;
        rest.strip_prefix(": ").or_else(|| rest.strip_prefix(' '))
    };
    names.iter().find_map(after).unwrap_or(text)
}

/// The name in the HTTP API of a field of a custom resource.
fn field_of_cause(path: &str, vocabulary: Vocabulary) -> String {
    let path = path
        .strip_prefix("spec.")
        .or_else(|| path.strip_prefix("metadata."))
        .unwrap_or(path);
    match path {
        "spec" | "metadata" | "<nil>" | "<root>" => String::new(),
        path => (vocabulary.renamed)(path).unwrap_or(path).to_owned(),
    }
}

/// Whether the message is the schema's own (a pattern, a bound, a type) rather
/// than one that was written for people in a rule.
fn is_schema_speak(cause: &StatusCause) -> bool {
    let message = &cause.message;
    message.contains("in body")
        || message.contains("RFC 1123")
        || matches!(
            cause.reason.as_str(),
            "FieldValueTypeInvalid"
                | "FieldValueTooLong"
                | "FieldValueTooMany"
                | "FieldValueNotSupported"
        )
}

/// The message without the API server's prefix, which repeats the value.
fn plain(message: &str) -> &str {
    let Some(rest) = message.strip_prefix("Invalid value: ") else {
        return message;
    };
    let mut values = serde_json::Deserializer::from_str(rest).into_iter::<serde_json::Value>();
    match values.next() {
        Some(Ok(_)) => rest[values.byte_offset()..]
            .strip_prefix(": ")
            .unwrap_or(rest),
        _ => rest,
    }
}

#[cfg(test)]
mod tests {
    use kube::core::response::StatusDetails;

    use super::*;

    fn refused(code: u16, reason: &str, message: &str, causes: &[(&str, &str)]) -> Problem {
        let details = StatusDetails {
            name: String::new(),
            group: String::new(),
            kind: String::new(),
            uid: String::new(),
            causes: causes
                .iter()
                .map(|(field, message)| StatusCause {
                    reason: "FieldValueInvalid".into(),
                    message: (*message).into(),
                    field: (*field).into(),
                })
                .collect(),
            retry_after_seconds: 0,
        };
        let status = Status::failure(message, reason)
            .with_code(code)
            .with_details(details);
        let error = ClusterError::from_kube("create", kube::Error::Api(status.boxed()));
        Problem::of(error, WORDS)
    }

    const WORDS: Vocabulary = Vocabulary {
        remedy: |field| match field {
            "cpu" => Some("write a whole number from 1 to 256"),
            _ if field.starts_with("keys[") => Some("write keys"),
            _ => None,
        },
        renamed: |field| (field == "passwordHash").then_some("password"),
        quota: |what| format!("too much: {what}"),
    };

    #[test]
    fn what_the_schema_refuses_becomes_a_field_with_its_remedy() {
        let problem = refused(
            422,
            "Invalid",
            "KiteVirtualMachine is invalid",
            &[
                (
                    "spec.cpu",
                    "Invalid value: 0: spec.cpu in body should be greater than or equal to 1",
                ),
                (
                    "spec.disk",
                    "Invalid value: \"1Gi\": disk can only grow: a smaller disk would lose data",
                ),
                (
                    "<nil>",
                    "Invalid value: null: some validation rules were not checked because the \
                     object was invalid; correct the existing errors to complete validation",
                ),
            ],
        );
        assert_eq!(problem.kind(), ProblemKind::Invalid);
        let fields: Vec<_> = problem
            .errors()
            .iter()
            .map(|error| (error.field.as_str(), error.message.as_str()))
            .collect();
        assert_eq!(
            fields,
            [
                ("cpu", "write a whole number from 1 to 256"),
                ("disk", "can only grow: a smaller disk would lose data"),
            ]
        );
    }

    #[test]
    fn no_message_says_its_field_again() {
        for (field, said, message) in [
            ("sshId", "sshId must be lower-case", "must be lower-case"),
            (
                "blockedNetworks[1]",
                "blockedNetworks: 10.0 is no range",
                "10.0 is no range",
            ),
            (
                "gateway.loadBalancerClass",
                "loadBalancerClass works with",
                "works with",
            ),
            ("cpu", "cpus are many", "cpus are many"),
            ("spec", "cpu, memory and disk", "cpu, memory and disk"),
        ] {
            let problem = refused(422, "Invalid", "it is invalid", &[(field, said)]);
            assert_eq!(problem.errors()[0].message, message);
            assert!(!problem.detail().contains(&format!("{field}: {field} ")));
        }
    }

    #[test]
    fn quota_of_the_namespace_is_the_users_and_rbac_is_not() {
        let quota = refused(
            403,
            "Forbidden",
            "kitevirtualmachines \"a\" is forbidden: exceeded quota: kite, requested: count=1, \
             used: count=5, limited: count=5",
            &[],
        );
        assert_eq!(quota.kind(), ProblemKind::QuotaExceeded);
        assert!(quota.detail().contains("limited: count=5"));
        let rbac = refused(
            403,
            "Forbidden",
            "User \"x\" cannot create resource \"kitevirtualmachines\"",
            &[],
        );
        assert_eq!(rbac.kind(), ProblemKind::Internal);
        assert!(!rbac.detail().contains("User \"x\""));
        let policy = refused(
            403,
            "Forbidden",
            "kiteplatforms.hy3ons.github.io \"default\" is forbidden: ValidatingAdmissionPolicy \
             'kite-platform' with binding 'kite-platform' denied request: spec.web.annotations: \
             write it with kubectl",
            &[],
        );
        assert_eq!(policy.kind(), ProblemKind::Forbidden);
        assert_eq!(
            policy.detail(),
            "spec.web.annotations: write it with kubectl"
        );
    }

    #[test]
    fn what_a_policy_of_the_cluster_refuses_is_told_in_its_words() {
        for (message, told) in [
            (
                "virtualmachines \"a\" is forbidden: ValidatingAdmissionPolicy 'no-large' with \
                 binding 'all' denied request: at most 4 cores before noon",
                "at most 4 cores before noon",
            ),
            (
                "admission webhook \"check.example.com\" denied the request: label it with a team",
                "label it with a team",
            ),
        ] {
            let problem = refused(403, "Forbidden", message, &[]);
            assert_eq!(problem.kind(), ProblemKind::Forbidden);
            assert_eq!(problem.detail(), told);
        }
        // A policy that gives no reason has that of what is not valid.
        let said = "ValidatingAdmissionPolicy 'no-large' with binding 'all' denied request: at \
                    most 4 cores before noon";
        let message = format!("virtualmachines \"a\" is forbidden: {said}");
        let problem = refused(422, "Invalid", &message, &[("", said)]);
        assert_eq!(problem.kind(), ProblemKind::Invalid);
        assert_eq!(problem.detail(), "at most 4 cores before noon");
        let silent = "admission webhook \"check.example.com\" denied the request: ";
        let problem = refused(403, "Forbidden", silent, &[]);
        assert_eq!(problem.kind(), ProblemKind::Internal);
    }

    #[test]
    fn fields_are_reported_as_the_person_wrote_them() {
        for (path, field) in [
            ("spec.passwordHash", "password"),
            ("metadata.name", "name"),
            ("spec.sshPublicKeys[1]", "sshPublicKeys[1]"),
            ("spec", ""),
        ] {
            assert_eq!(field_of_cause(path, WORDS), field);
        }
    }
}
