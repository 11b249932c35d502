//! Ends the sessions of processes that are gone without a word.
//!
//! A process that carries sessions renews a Lease. One is taken for gone when its
//! Lease has not changed while it was looked at [`LOOKS`] times in a row: clocks of
//! other machines are not asked, and looks that failed, or that are far apart, do not
//! count, so that nobody is taken for gone because the API server was away. One that
//! was cut off takes back what is said here.

use std::{
    collections::{HashMap, HashSet},
    sync::Weak,
    time::Duration,
};

use futures::{StreamExt as _, stream};
use jiff::Timestamp;
use k8s_openapi::{api::coordination::v1::Lease, apimachinery::pkg::apis::meta::v1::Time};
use kite_core::{
    cluster::{Cluster as _, ObjectKey},
    connections::BEAT_EVERY,
    crd::{ConnectionEnd, KiteConnection},
    labels,
};
use kite_rest::patch_unchanged;
use kube::{
    ResourceExt as _,
    api::{ListParams, PropagationPolicy},
};
use serde_json::json;
use tokio::time::Instant;

use crate::state::Inner;

/// Time between two looks.
const INTERVAL: Duration = BEAT_EVERY;
/// After how many looks without a heartbeat a process is gone: longer than any of its
/// pauses between two tries.
const LOOKS: u32 = 5;
/// Every how many looks there is one though nobody is connected, for heartbeats that
/// were left behind.
const LOOK_ANYWAY: u32 = 3;
/// Writes under way at a time.
const PARALLEL: usize = 8;

/// Ends what nobody carries any more, at once and from then on, until the state is dropped.
pub(crate) async fn sweep_up(inner: Weak<Inner>) {
    let mut sweeper = Sweeper::default();
    while let Some(inner) = inner.upgrade() {
        sweeper.sweep(&inner).await;
        drop(inner);
        tokio::time::sleep(INTERVAL).await;
    }
}

/// What is known of the processes' heartbeats.
#[derive(Default)]
struct Sweeper {
    beats: Beats,
    rounds: u32,
}

impl Sweeper {
    /// Looks once. Several replicas may do so at a time.
    async fn sweep(&mut self, inner: &Inner) {
        if !inner.caches.connections.is_live() {
            self.beats = Beats::default();
            return;
        }
        let is_time = self.rounds.is_multiple_of(LOOK_ANYWAY);
        self.rounds = self.rounds.wrapping_add(1);
        let open = inner.caches.connections.list(KiteConnection::is_live);
        let mut live: HashMap<&str, Vec<&KiteConnection>> = HashMap::new();
        for connection in &open {
            let instance = connection.spec.instance.as_str();
            live.entry(instance).or_default().push(connection);
        }
        if !live.is_empty() || !self.beats.is_empty() || is_time {
            self.end_abandoned(inner, &live).await;
        }
    }

    /// Looks at the heartbeats after the sessions: who writes a session has shown
    /// before that it is there.
    async fn end_abandoned(&mut self, inner: &Inner, live: &HashMap<&str, Vec<&KiteConnection>>) {
        let selector = format!("{}={}", labels::COMPONENT, labels::COMPONENT_HEARTBEAT);
        let params = ListParams::default().labels(&selector);
        let namespace = Some(inner.accounts.settings().namespace.clone());
        let leases = match inner.cluster.list::<Lease>(namespace, &params).await {
            Ok(listed) => listed.items,
            Err(error) => {
                tracing::warn!(%error, "the heartbeats of gateways cannot be seen");
                self.beats = Beats::default();
                return;
            }
        };
        let mut seen: HashMap<String, Option<String>> = live
            .keys()
            .map(|instance| ((*instance).to_owned(), None))
            .collect();
        for lease in &leases {
            if let Some(instance) = lease.labels().get(labels::INSTANCE) {
                seen.insert(instance.clone(), lease.resource_version());
            }
        }
        let gone = self.beats.look(seen, Instant::now());
        let abandoned = gone.iter().filter_map(|it| live.get(it.as_str()));
        let abandoned: Vec<_> = abandoned.flatten().copied().collect();
        let last_seen = |connection: &KiteConnection| {
            let lease = leases
                .iter()
                .find(|it| it.labels().get(labels::INSTANCE) == Some(&connection.spec.instance));
            let renewed = lease.and_then(|it| it.spec.as_ref()?.renew_time.as_ref());
            renewed.map(|time| time.0)
        };
        each(abandoned, |connection| {
            end(inner, connection, last_seen(connection))
        })
        .await;
        // What says that nobody is there has said so.
        let silent = leases.iter().filter(|lease| {
            let instance = lease.labels().get(labels::INSTANCE);
            instance.is_none_or(|it| gone.contains(it) && !live.contains_key(it.as_str()))
        });
        each(silent, |lease| async move {
            let removed = inner
                .cluster
                .delete_unchanged(lease, PropagationPolicy::Background)
                .await;
            if let Err(error) = removed {
                tracing::debug!(%error, "a heartbeat that has ended stays");
            }
        })
        .await;
    }
}

async fn each<T, F: Future<Output = ()>>(all: impl IntoIterator<Item = T>, what: impl Fn(T) -> F) {
    let all: Vec<_> = all.into_iter().map(what).collect();
    stream::iter(all)
        .for_each_concurrent(PARALLEL, |it| it)
        .await;
}

/// Notes that a session is over, unless something was written of it meanwhile.
async fn end(inner: &Inner, connection: &KiteConnection, last_seen: Option<Timestamp>) {
    let key = ObjectKey::of(connection);
    let opened = connection.spec.opened_at.0;
    let ended = ConnectionEnd {
        at: Time(last_seen.map_or_else(Timestamp::now, |seen| seen.max(opened))),
        why: "the server that carried it went away".to_owned(),
        bytes_up: None,
        bytes_down: None,
    };
    let patch = json!({ "spec": { "ended": ended } });
    match patch_unchanged(&inner.cluster, kite_core::managers::API, connection, patch).await {
        Ok(Some(_)) => {
            tracing::info!(session = %key, "a session ended with the server that carried it");
        }
        // The server is there after all, or another replica was first.
        Ok(None) => {}
        Err(error) => tracing::warn!(session = %key, %error, "a session stays open as it seems"),
    }
}

/// How often in a row each process was seen without a new heartbeat. No clock, no I/O.
#[derive(Default)]
struct Beats {
    seen: HashMap<String, (Option<String>, u32)>,
    last: Option<Instant>,
}

impl Beats {
    fn is_empty(&self) -> bool {
        self.seen.is_empty()
    }

    /// Takes in a look at all heartbeats, by process; gives the processes that are
    /// gone.
    fn look(&mut self, beats: HashMap<String, Option<String>>, now: Instant) -> HashSet<String> {
        let is_next = self.last.is_some_and(|last| now - last <= INTERVAL * 2);
        self.last = Some(now);
        let before = std::mem::take(&mut self.seen);
        for (instance, version) in beats {
            let times = match before.get(&instance) {
                Some((known, times)) if is_next && *known == version => times + 1,
                _ => 0,
            };
            self.seen.insert(instance, (version, times));
        }
        let gone = self.seen.iter().filter(|(_, (_, times))| *times >= LOOKS);
        gone.map(|(instance, _)| instance.clone()).collect()
    }
}

#[cfg(test)]
#[path = "sweep_tests.rs"]
mod tests;
