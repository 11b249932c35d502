//! Forgets sessions that have ended: the newest of each VM are kept, for a while.
//!
//! Replicas forget side by side. Each picks from what is too old by chance, so that
//! two get through twice as much; of what both pick, one finds nothing to delete.

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
    time::Duration,
};

use futures::{StreamExt as _, stream};
use jiff::{Timestamp, ToSpan as _};
use kite_core::{
    cluster::{Cluster as _, ClusterError, KubeCluster},
    crd::KiteConnection,
};
use kube::api::PropagationPolicy;
use rand::seq::SliceRandom as _;
use tokio::time::Instant;

use crate::state::Inner;

/// Time between two looks, unless there was more than one look takes on.
const EVERY: Duration = Duration::from_secs(60);
/// Sessions of one VM that are kept when they have ended.
const MOST_OF_VM: usize = 50;
/// Sessions of all VMs that are kept when they have ended.
const MOST_IN_ALL: usize = 20_000;
/// For how long they are kept.
const KEPT_HOURS: i64 = 30 * 24;
/// Most that are forgotten within a [`BEAT`]: as many as ten gateways report in it at
/// most.
const AT_ONCE: usize = 200;
/// The pace of forgetting.
const BEAT: Duration = Duration::from_secs(1);
/// Most that one look takes on.
const MOST_OF_LOOK: usize = 10 * AT_ONCE;
/// Deletions under way at a time.
const PARALLEL: usize = 8;
/// How long one may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// Forgets until the state is dropped; at once, too, as a process may never get as old as
/// the time between two looks.
pub(crate) async fn forget(inner: Weak<Inner>) {
    while let Some(inner) = inner.upgrade() {
        let (cluster, mut old) = (inner.cluster.clone(), look(&inner));
        // However long what follows takes, the state may go meanwhile.
        drop(inner);
        let is_more = old.len() > MOST_OF_LOOK;
        old.shuffle(&mut rand::rng());
        old.truncate(MOST_OF_LOOK);
        let is_going_on = delete_all(&cluster, &old).await;
        if !(is_more && is_going_on) {
            tokio::time::sleep(EVERY).await;
        }
    }
}

/// The sessions that are not kept any more; none while they cannot be seen as they are.
fn look(inner: &Inner) -> Vec<Arc<KiteConnection>> {
    let connections = &inner.caches.connections;
    if !connections.is_live() {
        return Vec::new();
    }
    too_old(connections.list(|it| !it.is_live()), Timestamp::now())
}

fn too_old(all: Vec<Arc<KiteConnection>>, now: Timestamp) -> Vec<Arc<KiteConnection>> {
    let oldest = now - KEPT_HOURS.hours();
    let mut ended: Vec<_> = all
        .into_iter()
        .filter_map(|it| Some((it.spec.ended.as_ref()?.at.0, it)))
        .collect();
    // The newest first.
    ended.sort_by(|(at, it), (other_at, other)| {
        let by_name = || it.metadata.name.cmp(&other.metadata.name);
        other_at.cmp(at).then_with(by_name)
    });
    let mut of_vm: HashMap<String, usize> = HashMap::new();
    let mut kept = 0;
    let mut old = Vec::new();
    for (at, connection) in ended {
        let uid = &connection.spec.vm.uid;
        let count = of_vm.get(uid).copied().unwrap_or(0);
        if at < oldest || count >= MOST_OF_VM || kept >= MOST_IN_ALL {
            old.push(connection);
        } else {
            of_vm.insert(uid.clone(), count + 1);
            kept += 1;
        }
    }
    old
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
                Ok(is_done) => is_going_on |= is_done,
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

/// Deletes one as it was seen; whether it was there. One that is taken back as not
/// over stays.
async fn delete(cluster: &KubeCluster, connection: &KiteConnection) -> Result<bool, String> {
    let deleting = cluster.delete_unchanged(connection, PropagationPolicy::Background);
    match tokio::time::timeout(PATIENCE, deleting).await {
        Ok(Ok(())) => Ok(true),
        Ok(Err(ClusterError::NotFound { .. } | ClusterError::Conflict { .. })) => Ok(false),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err("the API server did not answer in time".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;

    use super::*;

    fn connection(vm: &str, number: i64, ended: Option<Timestamp>) -> Arc<KiteConnection> {
        let ended = ended.map(|at| json!({"at": at.to_string(), "why": "over"}));
        let spec = json!({
            "vm": {"name": vm, "uid": vm}, "owner": "ann", "login": vm, "kind": "Ssh",
            "instance": "a", "number": number, "openedAt": "2020-01-01T00:00:00Z", "ended": ended,
        });
        let spec = serde_json::from_value(spec).unwrap();
        Arc::new(kite_core::connections::object("kite-user-ann", spec))
    }

    #[test]
    fn the_newest_of_each_vm_are_kept_for_a_month_and_what_lasts_always() {
        let now: Timestamp = "2026-06-01T00:00:00Z".parse().unwrap();
        let mut all = vec![connection("web", 0, None), connection("db", 0, None)];
        let many = i64::try_from(MOST_OF_VM).unwrap() + 3;
        all.extend((1..=many).map(|n| connection("web", n, Some(now - n.minutes()))));
        all.push(connection("db", 1, Some(now - (KEPT_HOURS - 1).hours())));
        all.push(connection("db", 2, Some(now - (KEPT_HOURS + 1).hours())));
        let mut old: Vec<_> = too_old(all, now)
            .into_iter()
            .map(|it| (it.spec.vm.name.clone(), it.spec.number))
            .collect();
        old.sort_unstable();
        let web = |n| ("web".to_owned(), n);
        assert_eq!(
            old,
            [
                ("db".to_owned(), 2),
                web(many - 2),
                web(many - 1),
                web(many)
            ]
        );
    }
}
