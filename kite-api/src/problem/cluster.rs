//! What the API server's refusals mean to the person who asked.

use std::time::Duration;

use kite_core::cluster::ClusterError;
use kube::core::{Status, response::StatusCause};

use super::{FieldError, Problem, ProblemKind, remedy};

/// How the API server names the policy that keeps settings to administrators of the
/// cluster.
const OF_CLUSTER: &str = "ValidatingAdmissionPolicy 'kite-platform'";

impl From<ClusterError> for Problem {
    fn from(error: ClusterError) -> Self {
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
            ClusterError::Invalid { status, .. } => invalid(status),
            ClusterError::Forbidden { status, .. } => forbidden(&error, status),
            ClusterError::Unavailable { retry_after, .. } => {
                tracing::warn!(%error, "the cluster did not answer");
                Self::new(
                    ProblemKind::Unavailable,
                    "the cluster does not answer at the moment: try again shortly",
                )
                .retry_after(retry_after.unwrap_or(Duration::from_secs(2)))
            }
            ClusterError::HeldBack { .. }
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

fn invalid(status: &Status) -> Problem {
    let causes = status
        .details
        .as_ref()
        .map(|details| details.causes.as_slice())
        .unwrap_or_default();
    let mut errors: Vec<FieldError> = Vec::new();
    for error in causes.iter().filter_map(field_error) {
        // A rule that refuses a value often does so once per expression; and of a value
        // that the schema refuses, the rules say what follows from that.
        let is_told = |it: &FieldError| it.field == error.field && !error.field.is_empty();
        if !errors.contains(&error) && !errors.iter().any(is_told) {
            errors.push(error);
        }
    }
    if errors.is_empty() {
        return Problem::new(ProblemKind::Invalid, status.message.clone());
    }
    Problem::invalid(errors)
}

/// What the API server says with 403 is either about the user's quota, about a
/// namespace on its way out, or about Kite's own rights, which is no fault of
/// the user's.
fn forbidden(error: &ClusterError, status: &Status) -> Problem {
    if let Some((_, what)) = status.message.split_once("exceeded quota: ") {
        return Problem::new(
            ProblemKind::QuotaExceeded,
            format!(
                "your quota does not allow it ({what}): delete a VM, ask for less, or ask an \
                 administrator for more"
            ),
        );
    }
    if status.message.contains("is being terminated") {
        return Problem::new(
            ProblemKind::Conflict,
            "the account is being deleted: nothing can be created for it",
        );
    }
    // The settings were changed since this replica looked at them.
    if let Some((_, why)) = status.message.split_once(OF_CLUSTER) {
        let why = why.split_once("denied request: ").map_or(why, |(_, it)| it);
        return Problem::new(ProblemKind::Forbidden, why);
    }
    tracing::error!(%error, "Kite's own account may not do this");
    Problem::new(
        ProblemKind::Internal,
        "the cluster refuses this to Kite itself: the operator must mend Kite's rights (RBAC)",
    )
}

/// A cause about the whole object (such as a failed CEL rule at its root) keeps
/// an empty field name.
fn field_error(cause: &StatusCause) -> Option<FieldError> {
    // "some validation rules were not checked because the object was invalid"
    // says nothing about what to mend.
    if cause.message.contains("were not checked because") {
        return None;
    }
    let field = field_of_cause(&cause.field);
    let text = plain(&cause.message);
    // Rules about the name stand at the root, since metadata has none.
    if let (true, Some(rest)) = (field.is_empty(), text.strip_prefix("metadata.name ")) {
        return Some(FieldError {
            field: "name".to_owned(),
            value: None,
            message: rest.to_owned(),
        });
    }
    let message = match remedy::of(&field) {
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
fn field_of_cause(path: &str) -> String {
    let path = path
        .strip_prefix("spec.")
        .or_else(|| path.strip_prefix("metadata."))
        .unwrap_or(path);
    match path {
        "spec" | "metadata" | "<nil>" | "<root>" => String::new(),
        "sshPasswordHash" => "sshPassword".to_owned(),
        "passwordHash" | "credential" => "password".to_owned(),
        path => path.to_owned(),
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
        ClusterError::from_kube("create", kube::Error::Api(status.boxed())).into()
    }

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
    fn fields_of_providers_have_remedies_of_their_own() {
        let refused = |field: &str| {
            let message = format!("Invalid value: \"\": spec.{field} in body should be longer");
            let path = format!("spec.{field}");
            let problem = refused(422, "Invalid", "it is invalid", &[(&path, &message)]);
            let [error] = problem.errors() else {
                panic!("{problem:?}");
            };
            assert_eq!(error.field, field);
            error.message.clone()
        };
        for (field, start) in [
            ("signInProviders[0].name", "write 1 to 32 lowercase"),
            ("signInProviders[2].scopes[1]", "write at most 16 scopes"),
            (
                "signInProviders[0].accessLevels[1].group",
                "write the group as",
            ),
        ] {
            let message = refused(field);
            assert!(message.starts_with(start), "{field}: {message}");
        }
        // What nothing better is known of.
        assert!(refused("signInProviders").contains("in body"));
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
    fn hashes_are_reported_as_the_field_that_the_person_wrote() {
        assert_eq!(field_of_cause("spec.sshPasswordHash"), "sshPassword");
        assert_eq!(field_of_cause("metadata.name"), "name");
        assert_eq!(field_of_cause("spec.sshPublicKeys[1]"), "sshPublicKeys[1]");
        assert_eq!(field_of_cause("spec"), "");
    }
}
