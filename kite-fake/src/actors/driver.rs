//! Runs actors live, on tokio.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use kube::Client;
use kube::api::ListParams;
use tokio::runtime::RuntimeFlavor;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::actor::{Actor, Context};
use super::catalog::Catalog;
use super::cell::Cell;
use super::hub::Hub;
use super::informer::Outlet;
use super::kind::Kind;
use super::mirror::{Mirrors, Shared};
use super::rules::Rules;
use crate::FakeCluster;
use crate::clock::Clock;

/// Changes between the watches and the queues.
const UNDER_WAY: usize = 1024;
/// Pause between two looks at whether everything is settled.
const LOOK: Duration = Duration::from_millis(1);

/// How many looks in a row have to find nothing going on.
const LOOKS: u32 = 5;

/// Whether tasks run beside this one. On a single thread every task that can
/// run has run when a sleep returns; otherwise that is not known.
fn is_parallel() -> bool {
    tokio::runtime::Handle::current().runtime_flavor() != RuntimeFlavor::CurrentThread
}

/// Actors at work. They end when the token given to [`Actors::spawn`] fires.
pub struct Actors {
    cells: Vec<Arc<Cell>>,
    under_way: Arc<AtomicUsize>,
    mirrors: Mirrors,
    client: Client,
    tasks: TaskTracker,
}

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
        let mirrors = Mirrors::default();
        let cells: Vec<Arc<Cell>> = actors
            .into_iter()
            .map(|actor| {
                let context = Context::new(
                    client.clone(),
                    Arc::clone(clock),
                    Arc::clone(rules),
                    catalog.clone(),
                )
                .mirrored(Arc::clone(&mirrors));
                Arc::new(Cell::new(actor, context))
            })
            .collect();
        // One until the first discovery is through: nothing is settled before.
        let under_way = Arc::new(AtomicUsize::new(1));
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
            mirrors: Arc::clone(&mirrors),
            tasks: tasks.clone(),
            shutdown: shutdown.clone(),
        };
        tasks.spawn(hub.run(changes, Arc::clone(rules)));
        tasks.close();
        Self {
            cells,
            under_way,
            mirrors,
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
        let (client, clock) = (cluster.control_plane_client(), cluster.clock());
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
        let watched: Vec<(Kind, Shared)> = {
            let mirrors = self.mirrors.lock();
            let pairs = mirrors.iter();
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
            let shown = shown.versions();
            let same = there.items.iter().all(|object| {
                let meta = &object.metadata;
                let namespace = meta.namespace.as_deref().unwrap_or_default();
                let known = shown.get(&(namespace, meta.name.as_deref().unwrap_or_default()));
                known.is_some_and(|version| *version == meta.resource_version.as_deref())
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
