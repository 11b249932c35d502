//! Writes what the ledger says, and hears what others make of it.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use futures::{Stream, StreamExt as _, stream};
use jiff::Timestamp;
use kite_core::cluster::{Cluster, ClusterError, ObjectKey};
use kite_core::connections::{BEAT_EVERY, object};
use kite_core::crd::KiteConnection;
use kube::runtime::watcher::{self, Event as WatchEvent};
use serde_json::json;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::ledger::{Due, Sent};
use super::{Live, Shared};
use crate::kubernetes::ending::{self, LAST, LAST_PATIENCE};

/// Writes under way at a time.
const PARALLEL: usize = 8;
/// The same as the process ends: as many as are known at most are written in time at
/// 30 ms each.
const LAST_PARALLEL: usize = 16;
/// How long the process takes for that at most. It ends sooner if nothing is taken
/// for [`LAST`].
const LONGEST_LAST: Duration = Duration::from_secs(20);
/// How long one write may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long after the API server was away it is tried again, doubled each time.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The longest of these times.
const LONGEST_PAUSE: Duration = Duration::from_secs(15);

/// The events of a watch on connections.
type Heard = Result<WatchEvent<KiteConnection>, watcher::Error>;

pub(super) struct Writer<C, L> {
    pub(super) shared: Arc<Shared>,
    pub(super) cluster: C,
    pub(super) namespace: String,
    pub(super) live: L,
}

impl<C: Cluster, L: Live> Writer<C, L> {
    /// Takes in what is heard of the objects of this process, for ever.
    pub(super) async fn hear_all(&self, events: impl Stream<Item = Heard>) {
        let mut events = std::pin::pin!(events);
        let mut missing = HashSet::new();
        while let Some(event) = events.next().await {
            self.hear(event, &mut missing);
        }
        std::future::pending::<()>().await;
    }

    /// `missing` are those that had an object when a list was asked for, and that it
    /// has not shown yet: deletions that nobody heard of.
    fn hear(&self, event: Heard, missing: &mut HashSet<u64>) {
        let ledger = &self.shared.ledger;
        match event {
            Ok(WatchEvent::Apply(it)) => self.seen(&it),
            Ok(WatchEvent::Delete(it)) => self.deleted(self.number_of(&it), !it.is_live()),
            Ok(WatchEvent::Init) => *missing = ledger.lock().told().collect(),
            Ok(WatchEvent::InitApply(it)) => {
                if let Some(number) = self.number_of(&it) {
                    missing.remove(&number);
                }
                self.seen(&it);
            }
            Ok(WatchEvent::InitDone) => self.deleted(missing.drain(), false),
            Err(error) => {
                tracing::warn!(%error, "the watch on connections failed and is started again");
            }
        }
    }

    /// Which of this process' connections it is.
    fn number_of(&self, connection: &KiteConnection) -> Option<u64> {
        let spec = &connection.spec;
        let is_mine = spec.instance == self.shared.instance.id();
        u64::try_from(spec.number).ok().filter(|_| is_mine)
    }

    fn seen(&self, connection: &KiteConnection) {
        let number = self.number_of(connection);
        let is_live = |number: &u64| self.shared.ledger.lock().is_live(*number);
        let Some(number) = number.filter(is_live) else {
            return;
        };
        if let Some(wish) = &connection.spec.end {
            tracing::info!(number, by = wish.by, "a connection is ended by request");
            self.live.end(number, wish);
        }
        if connection.spec.ended.is_some() {
            let now = Instant::now();
            self.shared.ledger.lock().revived(number, now);
            self.shared.changed.notify_one();
        }
    }

    fn deleted(&self, numbers: impl IntoIterator<Item = u64>, told_its_end: bool) {
        let now = Instant::now();
        for number in numbers {
            let mut ledger = self.shared.ledger.lock();
            ledger.deleted(number, told_its_end, now);
        }
        self.shared.changed.notify_one();
    }

    /// Writes what is due until `shutdown`, and then what is left.
    pub(super) async fn write_all(&self, shutdown: &CancellationToken) {
        // Carried out after the end of its connection, a write would take that back.
        ending::until(shutdown, self.write_until(shutdown)).await;
        let (ended, now) = (Timestamp::now(), Instant::now());
        let why = "the server went down";
        self.shared.ledger.lock().all_ended(ended, why, now);
        tokio::select! {
            () = self.write_last() => {}
            () = self.stalled() => {}
            () = tokio::time::sleep(LONGEST_LAST) => {}
        }
        let left = self.shared.ledger.lock().waiting();
        if left > 0 {
            tracing::warn!(left, "ends of connections are not reported in time");
        }
    }

    /// Returns when nothing was taken for too long as the process ends.
    async fn stalled(&self) {
        loop {
            let since = self.shared.ledger.lock().stalled_since();
            let until = since.unwrap_or_else(Instant::now) + LAST;
            if until <= Instant::now() {
                return;
            }
            tokio::time::sleep_until(until).await;
        }
    }

    /// Writes what is due, and begins nothing more after `shutdown`.
    async fn write_until(&self, shutdown: &CancellationToken) {
        let shared = &self.shared;
        let (mut beat, mut pause) = (Instant::now(), FIRST_PAUSE);
        while !shutdown.is_cancelled() {
            let now = Instant::now();
            if beat <= now {
                self.end_what_is_gone();
            }
            let is_anybody_there = shared.ledger.lock().live().next().is_some();
            let mut answers = Answers::default();
            // First, lest somebody takes what is written next for abandoned.
            if is_anybody_there && beat <= now {
                if self.beat().await == Sent::Lost {
                    answers.lost += 1;
                } else {
                    beat = now + BEAT_EVERY;
                }
            }
            if answers.are_all() {
                self.ask_for_clients();
                let due = shared.ledger.lock().due(PARALLEL * 4, Instant::now());
                let stop = shutdown.cancelled();
                answers = self.send(due, PARALLEL, PATIENCE, stop).await;
            }
            if !answers.are_none() {
                pause = FIRST_PAUSE;
            }
            let now = Instant::now();
            let is_away = !answers.are_all();
            let next = if is_away {
                let next = now + pause;
                pause = (pause * 2).min(LONGEST_PAUSE);
                Some(next)
            } else {
                let due = shared.ledger.lock().next(now);
                let beat = is_anybody_there.then_some(beat);
                due.into_iter().chain(beat).min()
            };
            shared.count();
            let sleep = async {
                match next {
                    Some(next) => tokio::time::sleep_until(next).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = shutdown.cancelled() => {}
                () = sleep => {}
                // What happens while the API server is away does not bring it back.
                () = shared.changed.notified(), if !is_away => {}
            }
        }
    }

    /// A connection may end in the very moment of its login, and its end be recorded
    /// before it is: that record is the last there is.
    fn end_what_is_gone(&self) {
        let ledger = &self.shared.ledger;
        let open: Vec<_> = ledger.lock().live().collect();
        for number in open {
            if self.live.is_there(number) {
                continue;
            }
            let mut ledger = ledger.lock();
            // Unless its end was recorded meanwhile, which says more.
            if ledger.is_live(number) {
                let why = "it is not there any more";
                ledger.ended(number, Timestamp::now(), why, Instant::now());
            }
        }
    }

    /// A login is told of before its client has said what it is.
    fn ask_for_clients(&self) {
        let nameless: Vec<_> = self.shared.ledger.lock().nameless().collect();
        for number in nameless {
            if let Some(client) = self.live.client(number) {
                self.shared.ledger.lock().client_is(number, &client);
            }
        }
    }

    /// Writes what is left as the process ends.
    async fn write_last(&self) {
        let ledger = &self.shared.ledger;
        let mut pause = Duration::ZERO;
        while !ledger.lock().is_empty() {
            tokio::time::sleep(pause).await;
            let last = ledger.lock().last(LAST_PARALLEL * 4);
            let stop = std::future::pending();
            let answers = self.send(last, LAST_PARALLEL, LAST_PATIENCE, stop).await;
            // Where all is refused there is no haste to hear that again.
            let is_going_on = answers.are_all() && answers.taken > 0;
            pause = if is_going_on {
                Duration::ZERO
            } else {
                FIRST_PAUSE
            };
        }
    }

    async fn beat(&self) -> Sent {
        let lease = self
            .shared
            .instance
            .heartbeat(&self.namespace, Timestamp::now());
        let writing = self.cluster.apply(kite_core::managers::GATEWAY, &lease);
        match tokio::time::timeout(PATIENCE, writing).await {
            Ok(Ok(_)) => Sent::Taken,
            Ok(Err(error)) => {
                tracing::warn!(%error, "the heartbeat of this process cannot be written");
                what_came_of(&error)
            }
            Err(_) => Sent::Lost,
        }
    }

    /// Writes, `parallel` at a time and each for `patience` at most, and says what the
    /// API server answered. Nothing is begun after `stop`.
    async fn send(
        &self,
        due: Vec<Due>,
        parallel: usize,
        patience: Duration,
        stop: impl Future<Output = ()>,
    ) -> Answers {
        let mut answers = Answers::default();
        let sending = due
            .into_iter()
            .map(|due| async move { (self.send_one(&due, patience).await, due) });
        let mut sent = std::pin::pin!(
            stream::iter(sending)
                .take_until(stop)
                .buffer_unordered(parallel)
        );
        while let Some((sent, due)) = sent.next().await {
            match sent {
                Sent::Taken | Sent::NoPlace => answers.taken += 1,
                Sent::Refused => answers.refused += 1,
                Sent::Lost => answers.lost += 1,
            }
            self.shared.metrics.sent(sent);
            let mut ledger = self.shared.ledger.lock();
            if ledger.sent(&due, sent, Instant::now()) {
                self.shared.metrics.left_out.inc();
            }
        }
        answers
    }

    async fn send_one(&self, due: &Due, patience: Duration) -> Sent {
        let object = object(&due.namespace, due.spec.clone());
        let writing = async {
            if due.is_revived {
                // Whoever said so owns that field: leaving it out does not take it back.
                let patch = json!({"spec": {"ended": null}});
                let key = ObjectKey::of(&object);
                let manager = kite_core::managers::GATEWAY;
                let edit = self
                    .cluster
                    .merge_patch::<KiteConnection>(manager, &key, &patch);
                match edit.await {
                    // It was deleted meanwhile, and is made anew.
                    Ok(_) | Err(ClusterError::NotFound { .. }) => {}
                    Err(error) => return Err(error),
                }
            }
            self.cluster
                .apply(kite_core::managers::GATEWAY, &object)
                .await
        };
        match tokio::time::timeout(patience, writing).await {
            Ok(Ok(_)) => Sent::Taken,
            Ok(Err(error)) => {
                let number = due.number;
                tracing::warn!(number, %error, "a connection cannot be reported");
                what_came_of(&error)
            }
            Err(_) => Sent::Lost,
        }
    }
}

/// What the API server answered to some writes.
#[derive(Clone, Copy, Default, Debug)]
struct Answers {
    /// Writes of which nothing is left to do.
    taken: usize,
    refused: usize,
    /// Writes without an answer.
    lost: usize,
}

impl Answers {
    fn are_all(self) -> bool {
        self.lost == 0
    }

    fn are_none(self) -> bool {
        self.lost > 0 && self.taken + self.refused == 0
    }
}

fn what_came_of(error: &ClusterError) -> Sent {
    match error {
        ClusterError::NotFound { .. } => Sent::NoPlace,
        ClusterError::Invalid { .. }
        | ClusterError::Forbidden { .. }
        | ClusterError::Conflict { .. }
        | ClusterError::AlreadyExists { .. }
        | ClusterError::Unreadable { .. } => Sent::Refused,
        ClusterError::Unavailable { .. }
        | ClusterError::NotLeader { .. }
        | ClusterError::Other { .. } => Sent::Lost,
    }
}
