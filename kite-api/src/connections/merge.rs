//! Has one session stand for others, of which it then says how many there were, since when
//! and until when, from where, and what they carried.
//!
//! First each of them names who counts it, then they are counted by one write that names
//! them, and then they are deleted. Why so none is counted twice, wherever a replica is
//! broken off and however many of them are at it, is said in `claims`.

use std::{sync::Arc, time::Duration};

use futures::{StreamExt as _, stream};
use kite_core::{
    cluster::KubeCluster,
    crd::{EarlierConnections, KiteConnection, MOST_COUNTED, MOST_EARLIER_PEERS},
};
use kite_rest::patch_unchanged;
use kube::ResourceExt as _;
use serde_json::{Value, json};
use tokio::time::Instant;
use uuid::Uuid;

use super::{
    claims::{ABOUT_TO_COUNT, COUNTED_BY, named_by},
    forget::{Deleted, PARALLEL, PATIENCE, delete},
    kept::Merge,
};

/// The time for each, at the pace of forgetting.
const EACH: Duration = Duration::from_millis(5);

/// What there is to do where the API server drops what is written, and says that it was.
const OUTDATED: &str = "the API server drops spec.earlier of KiteConnections, which are not \
                        deleted then: its CRDs are older than this version, apply those of this \
                        one (kite crds | kubectl apply --server-side -f -)";

/// Carries it out, as far as nobody else is at it. Gives how many are not there any more.
pub(super) async fn merge(cluster: &KubeCluster, merge: Merge) -> Result<usize, String> {
    let Merge {
        into,
        counted,
        mut still,
        gone,
    } = merge;
    let mut into = into.as_ref().clone();
    let mut next = Instant::now() + pause(&counted);
    let mut count = clear(cluster, &counted, &mut still).await?;
    let mut gone = gone.as_slice();
    if !gone.is_empty() && still.len() < MOST_COUNTED {
        match announce(cluster, &into).await? {
            Some(written) => into = written,
            None => gone = &[],
        }
    }
    while !gone.is_empty() {
        // Those that are still there it goes on naming.
        let room = MOST_COUNTED.saturating_sub(still.len());
        if room == 0 {
            break;
        }
        tokio::time::sleep_until(next).await;
        let (some, rest) = gone.split_at(gone.len().min(room));
        gone = rest;
        next = Instant::now() + pause(some);
        let some = claim_all(cluster, &into, some).await?;
        if some.is_empty() {
            continue;
        }
        let Some(written) = note(cluster, &into, &some, &still).await? else {
            break;
        };
        into = written;
        count += clear(cluster, &some, &mut still).await?;
    }
    tokio::time::sleep_until(next).await;
    Ok(count)
}

/// How long so many take at least.
fn pause(some: &[Arc<KiteConnection>]) -> Duration {
    EACH * u32::try_from(some.len()).unwrap_or(u32::MAX)
}

/// Makes another version of the one that is about to count others, for which nobody has it
/// counted who has not seen that. `None` if it is another by now.
async fn announce(
    cluster: &KubeCluster,
    into: &KiteConnection,
) -> Result<Option<KiteConnection>, String> {
    let mark = Uuid::new_v4().to_string();
    let patch = json!({ "metadata": { "annotations": { ABOUT_TO_COUNT: mark } } });
    edit(cluster, into, patch).await
}

/// Has `some` name `into` as the one that counts them. Gives those that do, as they are now;
/// the others have changed meanwhile, or are another's.
async fn claim_all(
    cluster: &KubeCluster,
    into: &KiteConnection,
    some: &[Arc<KiteConnection>],
) -> Result<Vec<Arc<KiteConnection>>, String> {
    let by = into.name_any();
    let by = by.as_str();
    let claiming = some
        .iter()
        .cloned()
        .map(|it| async move { claim(cluster, by, it).await });
    let mut claiming = stream::iter(claiming).buffered(PARALLEL);
    let mut claimed = Vec::new();
    while let Some(one) = claiming.next().await {
        claimed.extend(one?);
    }
    Ok(claimed)
}

async fn claim(
    cluster: &KubeCluster,
    by: &str,
    connection: Arc<KiteConnection>,
) -> Result<Option<Arc<KiteConnection>>, String> {
    if named_by(&connection) == Some(by) {
        return Ok(Some(connection));
    }
    let patch = json!({ "metadata": { "annotations": { COUNTED_BY: by } } });
    let claimed = edit(cluster, &connection, patch).await?;
    Ok(claimed.map(Arc::new))
}

/// Writes that `into` stands for `some` as well, and has counted those and `still`. `None` if
/// it is another by now, as where another replica was first.
async fn note(
    cluster: &KubeCluster,
    into: &KiteConnection,
    some: &[Arc<KiteConnection>],
    still: &[String],
) -> Result<Option<KiteConnection>, String> {
    let mut earlier = together(into.spec.earlier.as_ref(), some);
    if let Some(earlier) = &mut earlier {
        earlier.counted.extend_from_slice(still);
    }
    let patch = json!({ "spec": { "earlier": earlier } });
    let written = edit(cluster, into, patch).await?;
    let is_there = |written: &KiteConnection| {
        let counts = |it: &EarlierConnections| (it.count, it.counted.clone());
        written.spec.earlier.as_ref().map(counts) == earlier.as_ref().map(counts)
    };
    if written.as_ref().is_some_and(|it| !is_there(it)) {
        return Err(OUTDATED.to_owned());
    }
    Ok(written)
}

/// Writes `patch`. `None` if `connection` is another by now, or gone.
async fn edit(
    cluster: &KubeCluster,
    connection: &KiteConnection,
    patch: Value,
) -> Result<Option<KiteConnection>, String> {
    let edit = patch_unchanged(cluster, kite_core::managers::API, connection, patch);
    match tokio::time::timeout(PATIENCE, edit).await {
        Ok(written) => written.map_err(|error| error.to_string()),
        Err(_) => Err("the API server did not answer in time".to_owned()),
    }
}

/// Deletes those that were counted. Gives how many there were; the names of those that stay
/// are in `still`, and of the others are not.
async fn clear(
    cluster: &KubeCluster,
    some: &[Arc<KiteConnection>],
    still: &mut Vec<String>,
) -> Result<usize, String> {
    let deleting = some
        .iter()
        .cloned()
        .map(|it| async move { (it.name_any(), delete(cluster, &it).await) });
    let mut deleting = stream::iter(deleting).buffer_unordered(PARALLEL);
    let (mut count, mut failed) = (0, None);
    while let Some((name, deleted)) = deleting.next().await {
        still.retain(|it| *it != name);
        match deleted {
            Ok(Deleted::Now) => count += 1,
            Ok(Deleted::Before) => {}
            Ok(Deleted::Stays) => still.push(name),
            Err(error) => failed = Some(error),
        }
    }
    match failed {
        Some(error) => Err(error),
        None => Ok(count),
    }
}

/// What was counted before, and `some`.
fn together(
    before: Option<&EarlierConnections>,
    some: &[Arc<KiteConnection>],
) -> Option<EarlierConnections> {
    let of_some = some.iter().flat_map(|it| {
        // It may have stood for others itself.
        let own = it.spec.earlier.clone();
        own.into_iter().chain([alone(it)])
    });
    let all = before.cloned().into_iter().chain(of_some);
    let mut all = all.reduce(|mut all, one| {
        all.count = all.count.saturating_add(one.count);
        all.first.0 = all.first.0.min(one.first.0);
        all.last.0 = all.last.0.max(one.last.0);
        all.bytes_up = all.bytes_up.saturating_add(one.bytes_up);
        all.bytes_down = all.bytes_down.saturating_add(one.bytes_down);
        for peer in one.peers {
            if all.peers.len() < MOST_EARLIER_PEERS && !all.peers.contains(&peer) {
                all.peers.push(peer);
            }
        }
        all
    })?;
    all.counted = some.iter().map(|it| it.name_any()).collect();
    Some(all)
}

/// One as it is counted.
fn alone(connection: &KiteConnection) -> EarlierConnections {
    let spec = &connection.spec;
    let carried = spec.ended.as_ref().map(|it| (it.bytes_up, it.bytes_down));
    let (up, down) = carried.unwrap_or_default();
    EarlierConnections {
        count: 1,
        first: spec.opened_at.clone(),
        last: spec.opened_at.clone(),
        bytes_up: up.unwrap_or_default(),
        bytes_down: down.unwrap_or_default(),
        peers: spec.peer.iter().cloned().collect(),
        counted: Vec::new(),
    }
}

#[cfg(test)]
#[path = "merge_histories.rs"]
mod histories;
#[cfg(test)]
#[path = "merge_tests.rs"]
mod tests;
