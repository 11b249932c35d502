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

/// How long is waited for an agent. KubeVirt asks it while the request is open, and one that
/// hangs is not to hold up others.
const PATIENCE: Duration = Duration::from_secs(10);

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
    match ask(guest.0, "freeze", &body, cluster).await {
        Ok(()) => Ok(Outcome::Froze.into()),
        Err(error @ ClusterError::NotLeader { .. }) => Err(error.into()),
        Err(refusal) => Ok(Refused::Freeze.done(&refusal.to_string(), meta, clock)),
    }
}

/// Has the guest of an instance, by name and uid, go on: if that fails, again in a few seconds,
/// for after one failure nobody else lets it go.
pub(crate) async fn thaw<C: Cluster>(
    guest: (&ObjectKey, &str),
    meta: &ObjectMeta,
    cluster: &C,
    clock: &Clock,
) -> Result<Done<Outcome>, Error> {
    if !is_there(guest, cluster).await? {
        return Ok(Outcome::Thawed.into());
    }
    match ask(guest.0, "unfreeze", &json!({}), cluster).await {
        Ok(()) => Ok(Outcome::Thawed.into()),
        Err(error @ ClusterError::NotLeader { .. }) => Err(error.into()),
        Err(refusal) => Ok(Refused::Thaw.done(&refusal.to_string(), meta, clock)),
    }
}

async fn ask<C: Cluster>(
    instance: &ObjectKey,
    what: &str,
    body: &serde_json::Value,
    cluster: &C,
) -> Result<(), ClusterError> {
    let asked =
        cluster.put_subresource::<VirtualMachineInstance>(SUBRESOURCES, instance, what, body);
    let late = |_| ClusterError::Unavailable {
        operation: format!("{what} VirtualMachineInstance {instance}"),
        message: "the guest's agent has not answered in time".to_owned(),
        retry_after: None,
    };
    tokio::time::timeout(PATIENCE, asked).await.map_err(late)?
}

/// Whether it is this one, and it runs: `KubeVirt` takes its name and no uid.
async fn is_there<C: Cluster>(
    (instance, uid): (&ObjectKey, &str),
    cluster: &C,
) -> Result<bool, ClusterError> {
    let found = uncached(cluster.get_opt::<VirtualMachineInstance>(instance)).await?;
    Ok(found.is_some_and(|it| {
        let status = it.status.as_ref();
        let has_ended = matches!(
            status.and_then(|it| it.phase.as_deref()),
            Some("Succeeded" | "Failed")
        );
        it.uid().as_deref() == Some(uid) && !has_ended
    }))
}
