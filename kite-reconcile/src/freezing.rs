//! Guests whose file systems are brought to rest, and go on.

use std::time::Duration;

use kite_core::{
    cluster::{Cluster, ClusterError, ClusterExt as _, ObjectKey},
    kubevirt::{SUBRESOURCES, VirtualMachineInstance},
};
use kite_runtime::plan::Done;
use kube::{ResourceExt as _, api::ObjectMeta};
use serde_json::json;

use crate::{Error, cache::uncached, context::Clock, plan::Outcome, refused::Refused};

/// Has the guest of an instance, by name and uid, freeze for the snapshot of `meta`.
/// `KubeVirt` says of what it refuses as of what it fails at that it is an internal error.
pub(crate) async fn freeze<C: Cluster>(
    guest: (&ObjectKey, &str),
    limit: Duration,
    meta: &ObjectMeta,
    cluster: &C,
    clock: &Clock,
) -> Result<Done<Outcome>, Error> {
    if !is_there(guest, cluster).await? {
        return Ok(Outcome::Froze.into());
    }
    let body = json!({"unfreezeTimeout": format!("{}s", limit.as_secs())});
    let asked =
        cluster.put_subresource::<VirtualMachineInstance>(SUBRESOURCES, guest.0, "freeze", &body);
    match asked.await {
        Ok(()) => Ok(Outcome::Froze.into()),
        Err(error @ ClusterError::NotLeader { .. }) => Err(error.into()),
        Err(refusal) => Ok(Refused::Freeze.done(&refusal.to_string(), meta, clock)),
    }
}

/// Has the guest of an instance, by name and uid, go on.
pub(crate) async fn thaw<C: Cluster>(
    guest: (&ObjectKey, &str),
    cluster: &C,
) -> Result<(), ClusterError> {
    if !is_there(guest, cluster).await? {
        return Ok(());
    }
    let body = json!({});
    let asked =
        cluster.put_subresource::<VirtualMachineInstance>(SUBRESOURCES, guest.0, "unfreeze", &body);
    match asked.await {
        // It has stopped meanwhile, or is gone.
        Ok(()) | Err(ClusterError::NotFound { .. } | ClusterError::Conflict { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Whether it is this one that runs: `KubeVirt` takes its name and no uid.
async fn is_there<C: Cluster>(
    (instance, uid): (&ObjectKey, &str),
    cluster: &C,
) -> Result<bool, ClusterError> {
    let found = uncached(cluster.get_opt::<VirtualMachineInstance>(instance)).await?;
    Ok(found.is_some_and(|it| it.uid().as_deref() == Some(uid)))
}
