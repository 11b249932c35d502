//! What the account may not touch any more since its namespace ends.
//!
//! A right that is bound in a namespace goes with the namespace, and the binding may go
//! before the VMs whose finalizers hold the namespace up. What they have of the kind goes
//! with the namespace all the same.

use k8s_openapi::api::core::v1::Namespace;
use kite_core::{
    cluster::{Cluster, ClusterError, ClusterExt as _, ObjectKey},
    crd::KiteUser,
    names,
};

use kite_runtime::cache::uncached;

/// Whether a request was refused for want of a right in a namespace that is no user's:
/// nobody binds the role there that gives the right, unless an administrator of the cluster
/// does. The API server itself is asked whether there is such a user.
pub(crate) async fn is_out_of_reach<C: Cluster>(
    cluster: &C,
    namespace: Option<&str>,
    error: &ClusterError,
) -> bool {
    let (ClusterError::Forbidden { .. }, Some(namespace)) = (error, namespace) else {
        return false;
    };
    match names::user_of_namespace(namespace) {
        Some(user) => {
            let user = uncached(cluster.get_opt::<KiteUser>(&ObjectKey::cluster(user))).await;
            matches!(user, Ok(None))
        }
        None => true,
    }
}

/// Whether a request was refused for want of a right in a namespace that ends, or has
/// ended: what it was about goes with it. The API server itself is asked for that.
pub(crate) async fn goes_with_namespace<C: Cluster>(
    cluster: &C,
    namespace: Option<&str>,
    error: &ClusterError,
) -> bool {
    let (ClusterError::Forbidden { .. }, Some(namespace)) = (error, namespace) else {
        return false;
    };
    let key = ObjectKey::cluster(namespace);
    match uncached(cluster.get_opt::<Namespace>(&key)).await {
        Ok(found) => found.is_none_or(|it| it.metadata.deletion_timestamp.is_some()),
        // Whoever may not look knows nothing of it.
        Err(_) => false,
    }
}
