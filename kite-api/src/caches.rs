//! What the API reads from: one watched copy per kind, so that a request costs
//! the API server nothing.
//!
//! A copy lags behind by the time an event travels. Whoever writes waits until
//! the copy has caught up with the write ([`Cache::caught_up_with`]), so a client
//! reads its own writes. While a watch is broken its copy is not [live](Cache::is_live)
//! and what must not be stale is asked of the API server instead.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures::StreamExt as _;
use kite_core::{
    cluster::{Object, ObjectKey},
    crd::{
        KiteConnection, KiteImage, KiteInvite, KitePlatform, KiteSession, KiteToken, KiteUser,
        KiteVirtualMachine, KiteVirtualMachineOffer,
    },
};
use kube::{
    Api, Client, Resource, ResourceExt as _,
    runtime::{WatchStreamExt as _, watcher},
};
use parking_lot::RwLock;
use serde::Serialize;
use serde_json::value::RawValue;
use tokio::{
    sync::{broadcast, watch},
    task::JoinSet,
};

use crate::vms::VmView;

/// Longest wait for an event that must come.
const CATCH_UP: Duration = Duration::from_secs(2);
/// Changes that whoever listens may be behind before it has to look at the whole
/// copy again.
const NEWS: usize = 1024;

/// What happened to a copy.
#[derive(Debug)]
pub enum Change<K> {
    /// An object is there, or is another than it was: the copy has it.
    Seen(ObjectKey),
    /// An object is gone; this is what it was last.
    Gone(Arc<K>),
    /// The copy was filled anew: anything may be different.
    All,
}

impl<K> Clone for Change<K> {
    fn clone(&self) -> Self {
        match self {
            Self::Seen(key) => Self::Seen(key.clone()),
            Self::Gone(object) => Self::Gone(Arc::clone(object)),
            Self::All => Self::All,
        }
    }
}

/// An object of a copy.
#[derive(Debug)]
struct Entry<K> {
    object: Arc<K>,
    /// As the API shows it, written once per change and not once per request.
    shown: Option<Arc<RawValue>>,
}

/// How objects of a kind are shown; `None` to leave that to each request.
type Show<K> = fn(&K) -> Option<Arc<RawValue>>;

/// The objects by namespace and name, which is the order of lists.
type Entries<K> = BTreeMap<ObjectKey, Entry<K>>;

/// A watched copy of all objects of a kind.
pub struct Cache<K: Object> {
    entries: Arc<RwLock<Entries<K>>>,
    changes: watch::Receiver<()>,
    news: broadcast::Sender<Change<K>>,
    health: Arc<Health>,
}

/// How the watch behind a copy does.
#[derive(Default)]
struct Health {
    filled: AtomicBool,
    live: AtomicBool,
}

impl<K: Object> Cache<K> {
    fn start(client: Client, tasks: &mut JoinSet<()>, show: Show<K>) -> Self {
        let entries = Arc::new(RwLock::new(Entries::new()));
        let written = Arc::clone(&entries);
        let (notify, changes) = watch::channel(());
        let health = Arc::new(Health::default());
        let noted = Arc::clone(&health);
        let (news, _) = broadcast::channel(NEWS);
        let teller = news.clone();
        let api: Api<K> = Api::all(client);
        tasks.spawn(async move {
            let stream = watcher(api, watcher::Config::default()).default_backoff();
            let mut stream = std::pin::pin!(stream);
            // What a list has shown so far; only all of it counts.
            let mut filling = Entries::new();
            while let Some(event) = stream.next().await {
                match event {
                    Ok(event) => {
                        let change = take_in(event, &mut filling, &written, show);
                        if let Some(change) = change {
                            if matches!(change, Change::All) {
                                noted.filled.store(true, Ordering::Release);
                            }
                            noted.live.store(true, Ordering::Release);
                            // An error means that nobody listens.
                            let _ = teller.send(change);
                        }
                    }
                    Err(error) => {
                        if noted.live.swap(false, Ordering::AcqRel) {
                            tracing::warn!(kind = %K::kind(&()), %error, "a watch broke");
                        }
                    }
                }
                // Nobody is listening only when the cache is gone.
                let _ = notify.send(());
            }
        });
        Self {
            entries,
            changes,
            news,
            health,
        }
    }

    /// The object with this key.
    pub fn get(&self, key: &ObjectKey) -> Option<Arc<K>> {
        let entries = self.entries.read();
        entries.get(key).map(|entry| Arc::clone(&entry.object))
    }

    /// The objects for which `wanted` holds, by namespace and name.
    pub fn list(&self, wanted: impl Fn(&K) -> bool) -> Vec<Arc<K>> {
        let entries = self.entries.read();
        let objects = entries.values().map(|entry| &entry.object);
        objects.filter(|object| wanted(object)).cloned().collect()
    }

    /// The objects in `namespace`, or in all of them, for which `wanted` holds,
    /// with how they are shown.
    pub(crate) fn list_shown(
        &self,
        namespace: Option<&str>,
        wanted: impl Fn(&K) -> bool,
    ) -> Vec<(Arc<K>, Option<Arc<RawValue>>)> {
        let entries = self.entries.read();
        let first = match namespace {
            Some(namespace) => ObjectKey::namespaced(namespace, ""),
            None => ObjectKey::cluster(""),
        };
        entries
            .range(first..)
            .take_while(|(key, _)| namespace.is_none() || key.namespace.as_deref() == namespace)
            .map(|(_, entry)| entry)
            .filter(|entry| wanted(&entry.object))
            .map(|entry| (Arc::clone(&entry.object), entry.shown.clone()))
            .collect()
    }

    /// Some object for which `wanted` holds.
    pub fn find(&self, wanted: impl Fn(&K) -> bool) -> Option<Arc<K>> {
        let entries = self.entries.read();
        let mut objects = entries.values().map(|entry| &entry.object);
        objects.find(|object| wanted(object)).cloned()
    }

    /// Tells of every change of the copy. For whoever looks again at a thing or two.
    pub(crate) fn changes(&self) -> watch::Receiver<()> {
        self.changes.clone()
    }

    /// Whether the watch behind the copy works at the moment.
    pub fn is_live(&self) -> bool {
        self.health.live.load(Ordering::Acquire)
    }

    /// What happens to the copy from now on. Who lags behind too far is told so
    /// and must look at the whole copy again.
    pub fn subscribe(&self) -> broadcast::Receiver<Change<K>> {
        self.news.subscribe()
    }

    /// Waits until the copy was filled once.
    async fn filled(&self) {
        let mut changes = self.changes.clone();
        // An error means that the watch has ended, and the cache with it.
        let _ = changes
            .wait_for(|()| self.health.filled.load(Ordering::Acquire))
            .await;
    }

    /// Waits until `check` gives something, at most `timeout`.
    pub async fn wait_for<T>(
        &self,
        timeout: Duration,
        check: impl Fn(&Self) -> Option<T>,
    ) -> Option<T> {
        let mut changes = self.changes.clone();
        let wait = async {
            loop {
                changes.mark_unchanged();
                if let Some(found) = check(self) {
                    return Some(found);
                }
                if changes.changed().await.is_err() {
                    return None;
                }
            }
        };
        tokio::time::timeout(timeout, wait).await.ok().flatten()
    }

    /// Waits until the copy has seen `written` or something later, within
    /// bounds: after that the write stands all the same and shows up when the
    /// watch recovers.
    pub async fn caught_up_with(&self, written: &K) {
        let key = ObjectKey::of(written);
        let version = version(written);
        self.wait_for(CATCH_UP, |cache| {
            let seen = cache.get(&key)?;
            (seen.uid() != written.uid() || self::version(seen.as_ref()) >= version).then_some(())
        })
        .await;
    }

    /// Waits, within bounds, until the copy knows that `deleted` is gone or on
    /// its way out.
    pub async fn caught_up_with_deletion(&self, deleted: &K) {
        let key = ObjectKey::of(deleted);
        self.wait_for(CATCH_UP, |cache| match cache.get(&key) {
            Some(seen) if seen.uid() == deleted.uid() => {
                seen.meta().deletion_timestamp.as_ref().map(|_| ())
            }
            _ => Some(()),
        })
        .await;
    }
}

/// What an event does to a copy, which gets a whole list at once.
fn take_in<K: Object>(
    event: watcher::Event<K>,
    filling: &mut Entries<K>,
    entries: &RwLock<Entries<K>>,
    show: Show<K>,
) -> Option<Change<K>> {
    let enter = |object: K| {
        let entry = Entry {
            shown: show(&object),
            object: Arc::new(object),
        };
        (ObjectKey::of(entry.object.as_ref()), entry)
    };
    match event {
        // Said before the list is even asked for.
        watcher::Event::Init => {
            filling.clear();
            None
        }
        watcher::Event::InitApply(object) => {
            filling.extend([enter(object)]);
            None
        }
        watcher::Event::InitDone => {
            let before = std::mem::replace(&mut *entries.write(), std::mem::take(filling));
            drop(before);
            Some(Change::All)
        }
        watcher::Event::Apply(object) => {
            let (key, entry) = enter(object);
            entries.write().insert(key.clone(), entry);
            Some(Change::Seen(key))
        }
        watcher::Event::Delete(object) => {
            entries.write().remove(&ObjectKey::of(&object));
            Some(Change::Gone(Arc::new(object)))
        }
    }
}

/// Writes `view` down once for all requests.
fn written<T: Serialize>(view: &T) -> Option<Arc<RawValue>> {
    let text = serde_json::value::to_raw_value(view);
    text.inspect_err(|error| tracing::error!(%error, "an object cannot be shown"))
        .ok()
        .map(Into::into)
}

/// Resource versions of one kind are ordered numbers (Kubernetes 1.35 made that
/// a promise). One that is no number counts as oldest, so that nobody waits for
/// it in vain.
fn version<K: Resource>(object: &K) -> Option<u64> {
    object.resource_version()?.parse().ok()
}

/// The copies of all kinds that the API reads. Dropping it ends the watches.
pub struct Caches {
    /// Accounts.
    pub users: Cache<KiteUser>,
    /// Virtual machines of all users.
    pub vms: Cache<KiteVirtualMachine>,
    /// The catalogue of images.
    pub images: Cache<KiteImage>,
    /// VMs that are offered.
    pub offers: Cache<KiteVirtualMachineOffer>,
    /// The platform's settings.
    pub platforms: Cache<KitePlatform>,
    /// Login sessions.
    pub sessions: Cache<KiteSession>,
    /// API tokens.
    pub tokens: Cache<KiteToken>,
    /// Who is connected to VMs, and who was.
    pub connections: Cache<KiteConnection>,
    /// Invites.
    pub invites: Cache<KiteInvite>,
    _tasks: JoinSet<()>,
}

impl Caches {
    /// Begins to watch. The copies are empty until [`Caches::synced`].
    pub fn start(client: &Client) -> Self {
        let mut tasks = JoinSet::new();
        Self {
            users: Cache::start(client.clone(), &mut tasks, |_| None),
            vms: Cache::start(client.clone(), &mut tasks, |vm| written(&VmView::of(vm))),
            images: Cache::start(client.clone(), &mut tasks, |_| None),
            offers: Cache::start(client.clone(), &mut tasks, |_| None),
            platforms: Cache::start(client.clone(), &mut tasks, |_| None),
            sessions: Cache::start(client.clone(), &mut tasks, |_| None),
            tokens: Cache::start(client.clone(), &mut tasks, |_| None),
            connections: Cache::start(client.clone(), &mut tasks, |_| None),
            invites: Cache::start(client.clone(), &mut tasks, |_| None),
            _tasks: tasks,
        }
    }

    /// Waits until every copy was filled once. Never ends while a CRD is
    /// missing: callers bound it or report that they are not ready.
    pub async fn synced(&self) {
        futures::join!(
            self.users.filled(),
            self.vms.filled(),
            self.images.filled(),
            self.offers.filled(),
            self.platforms.filled(),
            self.sessions.filled(),
            self.tokens.filled(),
            self.connections.filled(),
            self.invites.filled(),
        );
    }

    /// The kinds whose watch is broken at the moment, for readiness probes.
    pub fn broken(&self) -> Vec<&'static str> {
        [
            ("KiteUser", self.users.is_live()),
            ("KiteVirtualMachine", self.vms.is_live()),
            ("KiteImage", self.images.is_live()),
            ("KiteVirtualMachineOffer", self.offers.is_live()),
            ("KitePlatform", self.platforms.is_live()),
            ("KiteSession", self.sessions.is_live()),
            ("KiteToken", self.tokens.is_live()),
            ("KiteConnection", self.connections.is_live()),
            ("KiteInvite", self.invites.is_live()),
        ]
        .into_iter()
        .filter_map(|(kind, live)| (!live).then_some(kind))
        .collect()
    }
}
