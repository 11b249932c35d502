//! How `KubeVirt` is configured, by which its launchers ask for resources.

use kite_core::{
    cluster::{Cluster, ClusterError},
    kubevirt::KubeVirt,
};
use kube::{ResourceExt as _, api::ListParams};

/// The configuration of the cluster's `KubeVirt`; none where there is none, where it
/// cannot be read, or where Kite may not read it: it has its defaults then. Of
/// several, which no operator would look at, it is the oldest.
pub(crate) async fn kubevirt<C: Cluster>(cluster: &C) -> Result<Option<KubeVirt>, ClusterError> {
    match cluster.list::<KubeVirt>(None, &ListParams::default()).await {
        Ok(found) => Ok(found
            .items
            .into_iter()
            .min_by_key(|it| (it.creation_timestamp(), it.uid()))),
        Err(ClusterError::NotFound { .. } | ClusterError::Forbidden { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}
