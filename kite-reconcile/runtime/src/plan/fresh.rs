//! The reconciled object as it is now: what a controller is handed may be old.

use kite_cluster::{Cluster, ClusterError, ClusterExt as _, Object, ObjectKey};
use kube::ResourceExt as _;

use crate::{
    Shared,
    cache::{self, Newest, uncached},
};

/// The newest that is known of the object that a controller was handed: another
/// store, or a reconcile a moment ago, may know more.
pub(super) async fn newest<K: Object, C: Cluster>(
    object: &K,
    shared: &Shared<C>,
) -> Result<K, ClusterError> {
    let Some(caches) = &shared.caches else {
        return Ok(object.clone());
    };
    Ok(match cache::newest(caches, object) {
        Newest::Given => object.clone(),
        Newest::Newer(newer) => *newer,
        Newest::Ask => {
            let known = shared.cluster.get_opt::<K>(&ObjectKey::of(object)).await?;
            known
                .filter(|known| known.uid() == object.uid())
                .unwrap_or_else(|| object.clone())
        }
    })
}

/// What the API server itself says of an object that a cache gave.
pub(super) enum Liveness<K> {
    Same,
    Changed(Box<K>),
    /// Gone, or another of the same name.
    Gone,
}

/// Reads the object before the first change that is made for it. What a
/// controller is handed may be old: for an object that is gone nothing is made
/// any more, since nobody would be left to remove it.
pub(super) async fn look_again<K: Object, C: Cluster>(
    object: &K,
    cluster: &C,
) -> Result<Liveness<K>, ClusterError> {
    let key = ObjectKey::of(object);
    Ok(match uncached(cluster.get_opt::<K>(&key)).await? {
        Some(live) if live.uid() != object.uid() => Liveness::Gone,
        Some(live) if live.resource_version() != object.resource_version() => {
            Liveness::Changed(Box::new(live))
        }
        Some(_) => Liveness::Same,
        None => Liveness::Gone,
    })
}
