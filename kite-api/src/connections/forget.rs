//! Forgets sessions that have ended: what is kept is kept for a month.
//!
//! Numbers bound it, too, since the API server's store is bounded, but so that nobody
//! pushes out what tells of somebody: sessions in which nothing was done are counted
//! apart from all others, those that were used apart from those that were recorded,
//! each by VM; and where there are too many in all, those of the owner with the most go
//! first, the recorded ones last. What was recorded is found without its session, too
//! (`archive`).
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
/// Sessions of one VM in which nothing was done that are kept when they have ended.
const MOST_IDLE: usize = 50;
/// Those in which something was done, and nothing recorded.
const MOST_USED: usize = 1_000;
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

/// What was done in a session that has ended: what says more is kept longer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Done {
    /// Something was recorded.
    Recorded,
    /// Something was carried, or nobody could say whether anything was.
    Used,
    /// Somebody logged in, and that was all.
    Nothing,
}

impl Done {
    fn of(connection: &KiteConnection) -> Self {
        let spec = &connection.spec;
        if !spec.recordings.is_empty() {
            return Self::Recorded;
        }
        let carried = spec.ended.as_ref().map(|it| (it.bytes_up, it.bytes_down));
        match carried {
            Some((Some(0), Some(0))) => Self::Nothing,
            _ => Self::Used,
        }
    }

    /// How many of one VM are kept.
    fn most(self) -> usize {
        match self {
            Self::Recorded => usize::MAX,
            Self::Used => MOST_USED,
            Self::Nothing => MOST_IDLE,
        }
    }
}

fn too_old(all: Vec<Arc<KiteConnection>>, now: Timestamp) -> Vec<Arc<KiteConnection>> {
    let oldest = now - KEPT_HOURS.hours();
    let mut ended: Vec<_> = all
        .into_iter()
        .filter_map(|it| Some((Done::of(&it), it.spec.ended.as_ref()?.at.0, it)))
        .collect();
    // What says most first, and of that the newest.
    ended.sort_by(|(done, at, it), (other_done, other_at, other)| {
        let by_name = || it.metadata.name.cmp(&other.metadata.name);
        let by_time = || other_at.cmp(at).then_with(by_name);
        done.cmp(other_done).then_with(by_time)
    });
    let mut of_vm: HashMap<(String, Done), usize> = HashMap::new();
    let mut of_owner: HashMap<Option<String>, Vec<_>> = HashMap::new();
    let mut old = Vec::new();
    for (done, at, connection) in ended {
        let vm = (connection.spec.vm.uid.clone(), done);
        let count = of_vm.entry(vm).or_default();
        if at < oldest || *count >= done.most() {
            old.push(connection);
        } else {
            *count += 1;
            let owner = connection.metadata.namespace.clone();
            of_owner.entry(owner).or_default().push(connection);
        }
    }
    let each = part_of_each(of_owner.values().map(Vec::len).collect(), MOST_IN_ALL);
    let beyond = of_owner
        .into_values()
        .flat_map(|it| it.into_iter().skip(each));
    old.extend(beyond);
    old
}

/// Up to how many each may keep so that all together keep `most`: who has fewer keeps
/// all.
fn part_of_each(mut counts: Vec<usize>, most: usize) -> usize {
    counts.sort_unstable();
    let (mut left, mut others) = (most, counts.len());
    for count in counts {
        let part = left / others;
        if count > part {
            return part;
        }
        left -= count;
        others -= 1;
    }
    usize::MAX
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
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]

    use serde_json::json;

    use super::*;

    /// One of a VM that ended then.
    fn connection(
        owner: &str,
        vm: &str,
        number: usize,
        done: Done,
        ended: Option<Timestamp>,
    ) -> Arc<KiteConnection> {
        let carried = i64::from(done != Done::Nothing);
        let ended = ended.map(
            |at| json!({"at": at.to_string(), "why": "over", "bytesUp": 0, "bytesDown": carried}),
        );
        let recordings = match done {
            Done::Recorded => json!([format!("{number}.cast")]),
            Done::Used | Done::Nothing => json!([]),
        };
        let spec = json!({
            "vm": {"name": vm, "uid": vm}, "owner": owner, "login": vm, "kind": "Ssh",
            "instance": "a", "number": number, "openedAt": "2020-01-01T00:00:00Z",
            "recordings": recordings, "ended": ended,
        });
        let spec = serde_json::from_value(spec).unwrap();
        Arc::new(kite_core::connections::object(
            &format!("kite-user-{owner}"),
            spec,
        ))
    }

    fn now() -> Timestamp {
        "2026-06-01T00:00:00Z".parse().unwrap()
    }

    /// So many that ended in the last minutes, the first one last.
    fn many(
        owner: &str,
        vm: &str,
        done: Done,
        numbers: std::ops::RangeInclusive<usize>,
    ) -> Vec<Arc<KiteConnection>> {
        numbers
            .map(|number| {
                let minutes = i64::try_from(number).unwrap();
                let ended = Some(now() - minutes.minutes());
                connection(owner, vm, number, done, ended)
            })
            .collect()
    }

    fn forgotten(all: Vec<Arc<KiteConnection>>) -> Vec<(String, usize)> {
        let mut old: Vec<_> = too_old(all, now())
            .into_iter()
            .map(|it| {
                let number = usize::try_from(it.spec.number).unwrap();
                (it.spec.vm.name.clone(), number)
            })
            .collect();
        old.sort_unstable();
        old
    }

    #[test]
    fn what_is_older_than_a_month_is_forgotten_and_what_lasts_never() {
        for done in [Done::Recorded, Done::Used, Done::Nothing] {
            let at = |hours: i64| Some(now() - hours.hours());
            let all = vec![
                connection("ann", "web", 0, done, None),
                connection("ann", "web", 1, done, at(KEPT_HOURS - 1)),
                connection("ann", "web", 2, done, at(KEPT_HOURS + 1)),
            ];
            assert_eq!(forgotten(all), [("web".to_owned(), 2)]);
        }
    }

    #[test]
    fn logins_that_did_nothing_push_out_no_others() {
        let minutes = |number| Some(now() - 600.minutes() - i64::from(number).minutes());
        let mut all = vec![
            connection("ann", "web", 9_001, Done::Recorded, minutes(1)),
            connection("ann", "web", 9_002, Done::Used, minutes(2)),
            connection("ann", "db", 9_003, Done::Nothing, minutes(3)),
        ];
        all.extend(many("ann", "web", Done::Nothing, 1..=MOST_IDLE + 3));
        let web = |number| ("web".to_owned(), number);
        let too_many = [MOST_IDLE + 1, MOST_IDLE + 2, MOST_IDLE + 3].map(web);
        assert_eq!(forgotten(all), too_many);
    }

    #[test]
    fn sessions_that_were_used_push_out_no_recorded_one() {
        let long_ago = Some(now() - (KEPT_HOURS - 1).hours());
        let mut all = vec![connection("ann", "web", 9_001, Done::Recorded, long_ago)];
        all.extend(many("ann", "web", Done::Used, 1..=MOST_USED + 1));
        all.extend(many("ann", "web", Done::Recorded, 2_000..=4_000));
        assert_eq!(forgotten(all), [("web".to_owned(), MOST_USED + 1)]);
    }

    #[test]
    fn a_flood_of_one_owner_pushes_out_their_own() {
        let mut all = many("eve", "bad", Done::Recorded, 1..=MOST_IN_ALL + 10);
        all.extend(many("ann", "web", Done::Nothing, 1..=10));
        all.extend(many("bob", "db", Done::Recorded, 1..=90));
        let old = forgotten(all);
        // Those of the others stay, and of hers the newest.
        assert_eq!(old.len(), 110);
        assert!(old.iter().all(|(vm, _)| vm == "bad"));
        assert_eq!(old[0].1, MOST_IN_ALL - 99);
    }

    #[test]
    fn parts_fill_up_what_there_is() {
        assert_eq!(part_of_each(vec![], 10), usize::MAX);
        assert_eq!(part_of_each(vec![4, 6], 10), usize::MAX);
        assert_eq!(part_of_each(vec![1, 20, 30], 11), 5);
        assert_eq!(part_of_each(vec![20, 20], 11), 5);
        assert_eq!(part_of_each(vec![9], 0), 0);
    }
}
