//! Forgets sessions that have ended: which are kept, and in whose place others stand, is
//! said by `kept`.
//!
//! Replicas forget side by side. Each picks from what is too old by chance, so that
//! two get through twice as much; of what both pick, one finds nothing to delete.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use futures::{StreamExt as _, stream};
use jiff::Timestamp;
use kite_core::{
    cluster::{Cluster as _, ClusterError, KubeCluster},
    crd::KiteConnection,
};
use kube::api::PropagationPolicy;
use rand::seq::SliceRandom as _;
use tokio::time::Instant;

use super::{
    kept::{Merge, Plan, plan},
    merge::merge,
};
use crate::state::Inner;

/// Time between two looks, unless there was more than one look takes on.
const EVERY: Duration = Duration::from_secs(60);
/// Most that are forgotten within a [`BEAT`]: as many as ten gateways report in it at
/// most.
const AT_ONCE: usize = 200;
/// The pace of forgetting.
const BEAT: Duration = Duration::from_secs(1);
/// Most that one look takes on.
const MOST_OF_LOOK: usize = 10 * AT_ONCE;
/// Deletions under way at a time.
pub(super) const PARALLEL: usize = 8;
/// How long one may take.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// Forgets until the state is dropped; at once, too, as a process may never get as old as
/// the time between two looks.
pub(crate) async fn forget(inner: Weak<Inner>) {
    while let Some(inner) = inner.upgrade() {
        let (cluster, plan) = (inner.cluster.clone(), look(&inner));
        // However long what follows takes, the state may go meanwhile.
        drop(inner);
        let Plan { mut old, merges } = plan;
        let is_more = old.len() > MOST_OF_LOOK;
        old.shuffle(&mut rand::rng());
        old.truncate(MOST_OF_LOOK);
        let is_going_on = delete_all(&cluster, &old).await;
        let is_merging_on = merge_all(&cluster, merges).await;
        if !((is_more && is_going_on) || is_merging_on) {
            tokio::time::sleep(EVERY).await;
        }
    }
}

/// What is not to be kept any more; nothing while it cannot be seen as it is.
fn look(inner: &Inner) -> Plan {
    let connections = &inner.caches.connections;
    if !connections.is_live() {
        return Plan::default();
    }
    plan(connections.list(|_| true), Timestamp::now())
}

/// Has sessions stand for others, as many of these as one look takes on. `true` if there
/// are more, and it has got on. It is given up where the API server is away.
async fn merge_all(cluster: &KubeCluster, mut merges: Vec<Merge>) -> bool {
    let wanted: usize = merges.iter().map(|it| it.gone.len()).sum();
    // Replicas that begin elsewhere seldom meet at one.
    merges.shuffle(&mut rand::rng());
    let (mut left, mut gone) = (MOST_OF_LOOK, 0);
    for mut one in merges {
        if left == 0 {
            break;
        }
        one.gone.truncate(left);
        left = left.saturating_sub(one.counted.len() + one.gone.len());
        match merge(cluster, one).await {
            Ok(count) => gone += count,
            Err(error) => {
                tracing::warn!(error, "old sessions in VMs are not counted together yet");
                break;
            }
        }
    }
    wanted > MOST_OF_LOOK && gone > 0
}

/// Deletes these at its pace. `false` if it was given up: the API server is away, or
/// somebody else is faster.
async fn delete_all(cluster: &KubeCluster, old: &[Arc<KiteConnection>]) -> bool {
    for some in old.chunks(AT_ONCE) {
        let next = Instant::now() + BEAT;
        let deleting = some
            .iter()
            .cloned()
            .map(|it| async move { delete(cluster, &it).await });
        let mut deleting = stream::iter(deleting).buffer_unordered(PARALLEL);
        let (mut is_going_on, mut failed) = (false, None);
        while let Some(deleted) = deleting.next().await {
            match deleted {
                Ok(deleted) => is_going_on |= deleted == Deleted::Now,
                Err(error) => failed = Some(error),
            }
        }
        if let Some(error) = failed {
            tracing::warn!(
                error,
                "old sessions in VMs stay until they are looked at again"
            );
        }
        if !is_going_on {
            return false;
        }
        tokio::time::sleep_until(next).await;
    }
    true
}

/// What came of a deletion.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Deleted {
    /// It was there, and is not any more.
    Now,
    /// It was not there any more.
    Before,
    /// It is another than it was seen, such as one that was taken back as not over.
    Stays,
}

/// Deletes one as it was seen.
pub(super) async fn delete(
    cluster: &KubeCluster,
    connection: &KiteConnection,
) -> Result<Deleted, String> {
    let deleting = cluster.delete_unchanged(connection, PropagationPolicy::Background);
    match tokio::time::timeout(PATIENCE, deleting).await {
        Ok(Ok(())) => Ok(Deleted::Now),
        Ok(Err(ClusterError::NotFound { .. })) => Ok(Deleted::Before),
        Ok(Err(ClusterError::Conflict { .. })) => Ok(Deleted::Stays),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err("the API server did not answer in time".to_owned()),
    }
}
