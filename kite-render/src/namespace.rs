//! The namespace of a user.

use k8s_openapi::api::core::v1::Namespace;

use crate::User;

/// The namespace in which a user's VMs live.
///
/// `KubeVirt`'s launcher pods need more than the baseline Pod Security Standard
/// allows, so the namespace is enforced as `privileged`, which `KubeVirt` would
/// otherwise set itself. This opens nothing for the user: nobody but
/// controllers may create pods here. What tenants *would* need less of is still
/// reported by the audit level.
pub fn namespace(user: &User<'_>) -> Namespace {
    let mut metadata = user.metadata(user.namespace(), None);
    metadata.labels.get_or_insert_default().extend(
        [
            ("pod-security.kubernetes.io/enforce", "privileged"),
            ("pod-security.kubernetes.io/audit", "baseline"),
        ]
        .map(|(key, value)| (key.to_owned(), value.to_owned())),
    );
    Namespace {
        metadata,
        ..Namespace::default()
    }
}
