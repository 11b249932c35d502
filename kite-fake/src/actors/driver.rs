//! Runs actors live, on tokio.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use kube::Client;
use kube::api::ListParams;
use parking_lot::Mutex;
use tokio::runtime::RuntimeFlavor;
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::actor::{Actor, ActorError, Change, Context, Next, Watches};
use super::catalog::Catalog;
use super::informer::{self, Outlet, Shown};
use super::kind::{CRD, Key, Kind};
use super::queue::Queue;
use super::rules::Rules;
use crate::FakeCluster;
use crate::clock::Clock;

/// Changes between the watches and the queues.
const UNDER_WAY: usize = 1024;
/// Pause between a change of a CRD and the discovery that follows on it.
const REDISCOVER: Duration = Duration::from_millis(5);
/// Pause after a discovery that failed.
const RETRY: Duration = Duration::from_millis(500);
/// Pause between two looks at whether everything is settled.
const LOOK: Duration = Duration::from_millis(1);

/// How many looks in a row have to find nothing going on.
const LOOKS: u32 = 5;

/// Whether tasks run beside this one. On a single thread every task that can
/// run has run when a sleep returns; otherwise that is not known.
fn is_parallel() -> bool {
    tokio::runtime::Handle::current().runtime_flavor() != RuntimeFlavor::CurrentThread
}

#[derive(Debug, Default)]
struct Work {
    queue: Queue,
    busy: bool,
}

/// An actor with its queue.
struct Cell {
    actor: Arc<dyn Actor>,
    watches: Watches,
    work: Mutex<Work>,
    wake: Notify,
    context: Context,
}

impl Cell {
    fn push(&self, keys: impl IntoIterator<Item = Key>) {
        let now = Instant::now();
        let mut work = self.work.lock();
        for key in keys {
            work.queue.push(key, now);
        }
        drop(work);
        self.wake.notify_one();
    }

    fn take(&self) -> Result<Key, Option<Instant>> {
        let mut work = self.work.lock();
        match work.queue.pop(Instant::now()) {
            Some(key) => {
                work.busy = true;
                Ok(key)
            }
            None => Err(work.queue.next_due()),
        }
    }

    fn finish(&self, key: Key, result: Result<Next, ActorError>) {
        let mut work = self.work.lock();
        work.busy = false;
        let now = Instant::now();
        match result {
            Ok(next) => {
                work.queue.succeeded(&key);
                match next {
                    Next::Done => {}
                    Next::After(pause) => work.queue.push(key, now + pause),
                    Next::Held => work.queue.hold(key),
                }
            }
            Err(error) => {
                if error.is_conflict() {
                    tracing::debug!(actor = self.actor.name(), %key, %error, "tries again");
                } else {
                    tracing::warn!(actor = self.actor.name(), %key, %error, "tries again");
                }
                work.queue.failed(key, now);
            }
        }
    }

    fn is_idle(&self) -> bool {
        let work = self.work.lock();
        !work.busy && work.queue.len() == 0
    }

    async fn run(self: Arc<Self>, shutdown: CancellationToken) {
        loop {
            match self.take() {
                Ok(key) => {
                    let result = tokio::select! {
                        () = shutdown.cancelled() => break,
                        result = self.actor.reconcile(&self.context, &key) => result,
                    };
                    self.finish(key, result);
                    // A busy actor leaves room for others.
                    tokio::task::yield_now().await;
                }
                Err(due) => {
                    let pause = async {
                        match due {
                            Some(due) => tokio::time::sleep_until(due).await,
                            None => std::future::pending().await,
                        }
                    };
                    tokio::select! {
                        () = shutdown.cancelled() => break,
                        () = self.wake.notified() => {}
                        () = pause => {}
                    }
                }
            }
        }
        self.actor.stop().await;
    }
}

/// Actors at work. They end when the token given to [`Actors::spawn`] fires.
pub struct Actors {
    cells: Vec<Arc<Cell>>,
    under_way: Arc<AtomicUsize>,
    watched: Watched,
    client: Client,
    tasks: TaskTracker,
}

/// What the watch of each kind has shown.
type Watched = Arc<Mutex<BTreeMap<Kind, Shown>>>;

impl std::fmt::Debug for Actors {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list()
            .entries(self.cells.iter().map(|cell| cell.actor.name()))
            .finish()
    }
}

impl Actors {
    /// Starts `actors` on the API server behind `client`. Timestamps come from
    /// `clock`, delays and failures from `rules`.
    pub fn spawn(
        client: &Client,
        clock: &Arc<dyn Clock>,
        rules: &Arc<Rules>,
        actors: Vec<Arc<dyn Actor>>,
        shutdown: &CancellationToken,
    ) -> Self {
        let catalog = Catalog::default();
        let cells: Vec<Arc<Cell>> = actors
            .into_iter()
            .map(|actor| {
                let context = Context::new(
                    client.clone(),
                    Arc::clone(clock),
                    Arc::clone(rules),
                    catalog.clone(),
                );
                Arc::new(Cell {
                    watches: actor.watches(),
                    actor,
                    work: Mutex::default(),
                    wake: Notify::new(),
                    context,
                })
            })
            .collect();
        // One until the first discovery is through: nothing is settled before.
        let under_way = Arc::new(AtomicUsize::new(1));
        let watched = Watched::default();
        let tasks = TaskTracker::new();
        let (sender, changes) = mpsc::channel(UNDER_WAY);
        let hub = Hub {
            client: client.clone(),
            catalog,
            cells: cells.clone(),
            outlet: Outlet {
                sender,
                under_way: Arc::clone(&under_way),
            },
            watches: BTreeMap::new(),
            watched: Arc::clone(&watched),
            tasks: tasks.clone(),
            shutdown: shutdown.clone(),
        };
        tasks.spawn(hub.run(changes, Arc::clone(rules)));
        tasks.close();
        Self {
            cells,
            under_way,
            watched,
            client: client.clone(),
            tasks,
        }
    }

    /// Starts `actors` on an in-memory cluster; they end with it.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use std::time::Duration;
    /// use kite_fake::FakeCluster;
    /// use kite_fake::actors::{Actors, Rules, control_plane, kind::SERVICE_ACCOUNT};
    ///
    /// # let runtime = tokio::runtime::Builder::new_current_thread()
    /// #     .enable_time().start_paused(true).build()?;
    /// # runtime.block_on(async {
    /// let cluster = FakeCluster::builder().build()?;
    /// let actors = Actors::on(&cluster, &Arc::new(Rules::instant()), control_plane());
    /// assert!(actors.settled(Duration::from_secs(10)).await);
    /// let accounts = SERVICE_ACCOUNT.api(&cluster.client(), Some("default"));
    /// assert!(accounts.get_opt("default").await?.is_some());
    /// cluster.shut_down();
    /// actors.ended().await;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn on(cluster: &FakeCluster, rules: &Arc<Rules>, actors: Vec<Arc<dyn Actor>>) -> Self {
        let (client, clock) = (cluster.client(), cluster.clock());
        Self::spawn(&client, clock, rules, actors, cluster.stopped())
    }

    /// Whether nothing is being done, waited for or heard of. What a client
    /// wrote a moment ago may not have been heard of yet.
    pub fn is_idle(&self) -> bool {
        self.under_way.load(Ordering::SeqCst) == 0 && self.cells.iter().all(|cell| cell.is_idle())
    }

    /// Waits until what was written before the call has been heard of and done,
    /// and the actors are idle. False when that did not happen within `limit`.
    /// Objects that rules hold do not count.
    pub async fn settled(&self, limit: Duration) -> bool {
        let settling = async {
            loop {
                let mut quiet = 0;
                while quiet < LOOKS {
                    tokio::time::sleep(LOOK).await;
                    quiet = if self.is_idle() { quiet + 1 } else { 0 };
                }
                if !is_parallel() || self.has_heard_all().await {
                    return;
                }
            }
        };
        tokio::time::timeout(limit, settling).await.is_ok()
    }

    /// Whether the watches have shown what there is now.
    async fn has_heard_all(&self) -> bool {
        let watched: Vec<(Kind, Shown)> = {
            let watched = self.watched.lock();
            let pairs = watched.iter();
            pairs
                .map(|(kind, shown)| (kind.clone(), Arc::clone(shown)))
                .collect()
        };
        for (kind, shown) in watched {
            let api = kind.api(&self.client, None);
            let Ok(there) = api.list(&ListParams::default()).await else {
                return false;
            };
            let shown = shown.lock();
            let same = there.items.iter().all(|object| {
                let known = shown.get(&Key::of(&kind, object));
                known.is_some_and(|k| {
                    k.metadata.resource_version == object.metadata.resource_version
                })
            });
            if !same || there.items.len() != shown.len() {
                return false;
            }
        }
        self.is_idle()
    }

    /// Waits until every actor has ended, after the shutdown token fired.
    pub async fn ended(&self) {
        self.tasks.wait().await;
    }
}

/// Between watches and queues: follows discovery, starts and ends watches,
/// hands out what they show.
struct Hub {
    client: Client,
    catalog: Catalog,
    cells: Vec<Arc<Cell>>,
    outlet: Outlet,
    watches: BTreeMap<Kind, CancellationToken>,
    watched: Watched,
    tasks: TaskTracker,
    shutdown: CancellationToken,
}

impl Hub {
    async fn run(mut self, mut changes: mpsc::Receiver<Change>, rules: Arc<Rules>) {
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
                        cell.work.lock().queue.wake_all(Instant::now());
                        cell.wake.notify_one();
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
                self.watched.lock().remove(kind);
            }
            keep
        });
        for kind in wanted {
            self.watches.entry(kind.clone()).or_insert_with(|| {
                let stop = self.shutdown.child_token();
                let (client, outlet) = (self.client.clone(), self.outlet.clone());
                let shown = Shown::default();
                self.watched.lock().insert(kind.clone(), Arc::clone(&shown));
                self.tasks
                    .spawn(informer::run(client, kind, shown, outlet, stop.clone()));
                stop
            });
        }
    }
}
