//! Between the watches and the queues.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use kube::Client;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::actor::{Change, Watches};
use super::catalog::Catalog;
use super::cell::Cell;
use super::informer::{self, Outlet};
use super::kind::{CRD, Kind};
use super::mirror::{Mirrors, Shared};
use super::rules::Rules;

/// Pause between a change of a CRD and the discovery that follows on it.
const REDISCOVER: Duration = Duration::from_millis(5);
/// Pause after a discovery that failed.
const RETRY: Duration = Duration::from_millis(500);

/// Between watches and queues: follows discovery, starts and ends watches,
/// hands out what they show.
pub(super) struct Hub {
    pub(super) client: Client,
    pub(super) catalog: Catalog,
    pub(super) cells: Vec<Arc<Cell>>,
    pub(super) outlet: Outlet,
    pub(super) watches: BTreeMap<Kind, CancellationToken>,
    pub(super) mirrors: Mirrors,
    pub(super) tasks: TaskTracker,
    pub(super) shutdown: CancellationToken,
}

impl Hub {
    pub(super) async fn run(mut self, mut changes: mpsc::Receiver<Change>, rules: Arc<Rules>) {
        let mut rule_changes = rules.changes();
        let mut discover_at = Some(Instant::now());
        let mut started = false;
        let shutdown = self.shutdown.clone();
        loop {
            let discovery = async {
                match discover_at {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = shutdown.cancelled() => break,
                Some(change) = changes.recv() => {
                    if change.kind == CRD && discover_at.is_none() {
                        // Not settled until the discovery that follows is through.
                        self.outlet.under_way.fetch_add(1, Ordering::SeqCst);
                        discover_at = Some(Instant::now() + REDISCOVER);
                    }
                    self.hand_out(&change);
                    self.outlet.under_way.fetch_sub(1, Ordering::SeqCst);
                }
                () = discovery => {
                    if let Err(error) = self.catalog.refresh(&self.client).await {
                        tracing::debug!(%error, "discovery failed");
                        discover_at = Some(Instant::now() + RETRY);
                        continue;
                    }
                    discover_at = None;
                    self.follow_catalog();
                    if !started {
                        started = true;
                        self.start_workers();
                    }
                    self.outlet.under_way.fetch_sub(1, Ordering::SeqCst);
                }
                Ok(()) = rule_changes.changed() => {
                    for cell in &self.cells {
                        cell.wake_all();
                    }
                }
            }
        }
    }

    fn start_workers(&self) {
        for cell in &self.cells {
            cell.push(cell.actor.initial_keys());
            self.tasks
                .spawn(Arc::clone(cell).run(self.shutdown.clone()));
        }
    }

    fn hand_out(&self, change: &Change) {
        for cell in &self.cells {
            if cell.watches.contains(&change.kind) {
                let keys = cell.actor.keys(change);
                if !keys.is_empty() {
                    cell.push(keys);
                }
            }
        }
    }

    /// Watches what is wanted and there, and nothing else.
    fn follow_catalog(&mut self) {
        let there = self.catalog.kinds(&["list", "watch"]);
        let mut wanted = vec![CRD];
        for cell in &self.cells {
            match &cell.watches {
                Watches::Everything => wanted.extend(there.iter().cloned()),
                Watches::Kinds(kinds) => {
                    let served = kinds.iter().filter(|kind| self.catalog.has(kind));
                    wanted.extend(served.cloned());
                }
            }
        }
        self.watches.retain(|kind, stop| {
            let keep = wanted.contains(kind);
            if !keep {
                stop.cancel();
                self.mirrors.lock().remove(kind);
            }
            keep
        });
        for kind in wanted {
            self.watches.entry(kind.clone()).or_insert_with(|| {
                let stop = self.shutdown.child_token();
                let (client, outlet) = (self.client.clone(), self.outlet.clone());
                let shown = Shared::default();
                self.mirrors.lock().insert(kind.clone(), Arc::clone(&shown));
                self.tasks
                    .spawn(informer::run(client, kind, shown, outlet, stop.clone()));
                stop
            });
        }
    }
}
