//! What Kite's other processes may do in a user's namespace, and in no other: bound
//! there, namespace by namespace, they need no right on the whole cluster.

use k8s_openapi::api::rbac::v1::{RoleBinding, RoleRef, Subject};

use crate::User;
use kite_core::versions::wrap;

/// The API group of roles and bindings.
pub(crate) const RBAC: &str = "rbac.authorization.k8s.io";

/// A `ClusterRole` that a `ServiceAccount` gets in each user's namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Name of the `ClusterRole`; of its binding, too.
    pub role: String,
    /// Namespace of the `ServiceAccount`.
    pub namespace: String,
    /// Its name.
    pub account: String,
}

/// Gives it in the user's namespace.
pub fn binding(user: &User<'_>, grant: &Grant) -> RoleBinding {
    RoleBinding {
        metadata: user.metadata(grant.role.clone(), Some(user.namespace())),
        role_ref: RoleRef {
            api_group: wrap(RBAC.to_owned()),
            kind: "ClusterRole".to_owned(),
            name: grant.role.clone(),
        },
        subjects: Some(vec![account(&grant.namespace, &grant.account)]),
    }
}

/// A `ServiceAccount` as the subject of a binding.
pub(crate) fn account(namespace: &str, name: &str) -> Subject {
    Subject {
        api_group: None,
        kind: "ServiceAccount".to_owned(),
        name: name.to_owned(),
        namespace: Some(namespace.to_owned()),
    }
}
