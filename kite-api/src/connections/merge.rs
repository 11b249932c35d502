//! Has one session stand for others, of which it then says how many there were, since when
//! and until when, from where, and what they carried.
//!
//! First they are counted, by one write that names them, and then they are deleted. Whoever
//! finds one that is named knows that it was counted, so that none is counted twice, wherever
//! a replica was broken off; and of two that begin at once the API server takes one's write.

use std::{sync::Arc, time::Duration};

use futures::{StreamExt as _, stream};
use kite_core::{
    cluster::KubeCluster,
    crd::{EarlierConnections, KiteConnection, MOST_COUNTED, MOST_EARLIER_PEERS},
};
use kube::ResourceExt as _;
use serde_json::json;
use tokio::time::Instant;

use super::{
    forget::{Deleted, PARALLEL, PATIENCE, delete},
    kept::Merge,
};
use crate::unchanged::patch_unchanged;

/// The time for each, at the pace of forgetting.
const EACH: Duration = Duration::from_millis(5);

/// Carries it out, as far as nobody else is at it. Gives how many are not there any more.
pub(super) async fn merge(cluster: &KubeCluster, merge: Merge) -> Result<usize, String> {
    let Merge { into, gone } = merge;
    let mut into = into.as_ref().clone();
    let counted = into.spec.earlier.as_ref().map(|it| it.counted.clone());
    let counted = counted.unwrap_or_default();
    let (waiting, new): (Vec<_>, Vec<_>) = gone
        .into_iter()
        .partition(|it| counted.contains(&it.name_any()));
    let (mut count, mut is_clear) = clear(cluster, &waiting).await?;
    for some in new.chunks(MOST_COUNTED) {
        // The next write would name others, and what stays would be counted once more.
        if !is_clear {
            break;
        }
        let Some(written) = note(cluster, &into, some).await? else {
            break;
        };
        into = written;
        let cleared = clear(cluster, some).await?;
        count += cleared.0;
        is_clear = cleared.1;
    }
    Ok(count)
}

/// Writes that `into` stands for `some` as well. `None` if it is another by now, as where
/// another replica was first.
async fn note(
    cluster: &KubeCluster,
    into: &KiteConnection,
    some: &[Arc<KiteConnection>],
) -> Result<Option<KiteConnection>, String> {
    let earlier = together(into.spec.earlier.as_ref(), some);
    let patch = json!({ "spec": { "earlier": earlier } });
    let edit = patch_unchanged(cluster, into, patch);
    match tokio::time::timeout(PATIENCE, edit).await {
        Ok(written) => written.map_err(|error| error.to_string()),
        Err(_) => Err("the API server did not answer in time".to_owned()),
    }
}

/// Deletes those that were counted. Gives how many there were, and whether none is left.
async fn clear(
    cluster: &KubeCluster,
    some: &[Arc<KiteConnection>],
) -> Result<(usize, bool), String> {
    let pause = EACH * u32::try_from(some.len()).unwrap_or(u32::MAX);
    let next = Instant::now() + pause;
    let deleting = some
        .iter()
        .cloned()
        .map(|it| async move { delete(cluster, &it).await });
    let mut deleting = stream::iter(deleting).buffer_unordered(PARALLEL);
    let (mut count, mut is_clear, mut failed) = (0, true, None);
    while let Some(deleted) = deleting.next().await {
        match deleted {
            Ok(Deleted::Now) => count += 1,
            Ok(Deleted::Before) => {}
            Ok(Deleted::Stays) => is_clear = false,
            Err(error) => failed = Some(error),
        }
    }
    if let Some(error) = failed {
        return Err(error);
    }
    tokio::time::sleep_until(next).await;
    Ok((count, is_clear))
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
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn connection(number: i64, peer: &str) -> KiteConnection {
        let spec = json!({
            "vm": {"name": "web", "uid": "1"}, "owner": "ann", "login": "web", "kind": "Ssh",
            "instance": "a", "number": number, "peer": peer,
            "openedAt": format!("2026-01-01T00:{number:02}:00Z"),
            "ended": {"at": "2026-01-02T00:00:00Z", "why": "over", "bytesUp": 1, "bytesDown": 2},
        });
        let spec = serde_json::from_value(spec).unwrap();
        kite_core::connections::object("kite-user-ann", spec)
    }

    #[test]
    fn what_is_counted_says_how_many_when_from_where_and_how_much() {
        let some = [3, 4, 5].map(|number| Arc::new(connection(number, "192.0.2.1")));
        let first = together(None, &some).unwrap();
        assert_eq!((first.count, first.bytes_up, first.bytes_down), (3, 3, 6));
        assert_eq!(first.first.0.to_string(), "2026-01-01T00:03:00Z");
        assert_eq!(first.last.0.to_string(), "2026-01-01T00:05:00Z");
        assert_eq!(first.peers, ["192.0.2.1"]);
        assert_eq!(first.counted.len(), 3);

        // One that has stood for others is counted with them.
        let mut bearer = connection(6, "192.0.2.2");
        bearer.spec.earlier = Some(first.clone());
        let name = bearer.name_any();
        let second = together(Some(&first), &[Arc::new(bearer)]).unwrap();
        assert_eq!((second.count, second.bytes_up), (7, 7));
        assert_eq!(second.first.0.to_string(), "2026-01-01T00:03:00Z");
        assert_eq!(second.last.0.to_string(), "2026-01-01T00:06:00Z");
        assert_eq!(second.peers, ["192.0.2.1", "192.0.2.2"]);
        assert_eq!(second.counted, [name]);
    }

    #[test]
    fn addresses_are_bounded() {
        let some: Vec<_> = (0..40)
            .map(|number| Arc::new(connection(number, &format!("192.0.2.{number}"))))
            .collect();
        let counted = together(None, &some).unwrap();
        assert_eq!(counted.count, 40);
        assert_eq!(counted.peers.len(), MOST_EARLIER_PEERS);
    }
}
