//! [`Cache`]: the watched copy of one kind.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use futures::StreamExt as _;
use kite_core::{
    cluster::{Lenient, Object, ObjectKey, Unread},
    watch_backoff::WatchBackoff,
};
use kube::{
    Api, Client, Resource, ResourceExt as _,
    api::ListParams,
    runtime::{WatchStreamExt as _, watcher},
};
use parking_lot::RwLock;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use tokio::{
    sync::{broadcast, watch},
    task::JoinSet,
};

use crate::written;

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
pub type Show<K> = fn(&K) -> Option<Arc<RawValue>>;

/// What stands in a copy for an object of the kind that cannot be read; `None` to leave
/// that out.
pub type StandIn<K> = fn(&Unread) -> Option<K>;

/// The objects by namespace and name, which is the order of lists.
type Entries<K> = BTreeMap<ObjectKey, Entry<K>>;

/// A watched copy of all objects of a kind. Its clones are the same copy.
#[derive(Clone)]
pub struct Cache<K: Object> {
    kind: &'static str,
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
    /// The latest version that was seen.
    seen: AtomicU64,
}

impl<K: Object> Cache<K> {
    /// Begins to watch all objects of the kind, which clients are told of as `kind`: a few
    /// lowercase letters. The watch ends with `tasks`.
    ///
    /// # Panics
    ///
    /// If `kind` is anything else: a header could not name it.
    pub fn start(
        kind: &'static str,
        client: Client,
        tasks: &mut JoinSet<()>,
        show: Show<K>,
    ) -> Self {
        Self::start_with(kind, client, tasks, show, |_| None)
    }

    /// The same, with something for objects that cannot be read.
    ///
    /// # Panics
    ///
    /// As [`Cache::start`].
    pub fn start_with(
        kind: &'static str,
        client: Client,
        tasks: &mut JoinSet<()>,
        show: Show<K>,
        stand_in: StandIn<K>,
    ) -> Self {
        let is_name = !kind.is_empty() && kind.bytes().all(|it| it.is_ascii_lowercase());
        assert!(is_name, "{kind:?} has to be lowercase letters");
        let entries = Arc::new(RwLock::new(Entries::new()));
        let written = Arc::clone(&entries);
        let (notify, changes) = watch::channel(());
        let health = Arc::new(Health::default());
        let noted = Arc::clone(&health);
        let (news, _) = broadcast::channel(NEWS);
        let teller = news.clone();
        // One that cannot be read must not end the watch of all others.
        let api: Api<Lenient<K>> = Api::all(client);
        tasks.spawn(async move {
            let stream =
                watcher(api.clone(), watcher::Config::default()).backoff(WatchBackoff::default());
            let mut stream = std::pin::pin!(stream);
            // What a list has shown so far; only all of it counts.
            let mut filling = Entries::new();
            let mut latest = 0;
            while let Some(event) = stream.next().await {
                match event {
                    Ok(event) => {
                        if matches!(event, watcher::Event::Init) {
                            latest = version_now(&api).await.max(latest);
                        }
                        latest = version_of(&event).max(latest);
                        let see = || noted.seen.store(latest, Ordering::Release);
                        let change = if let Some(event) = readable(event, &written, stand_in) {
                            take_in(event, &mut filling, &written, show, see)
                        } else {
                            see();
                            None
                        };
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
            kind,
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
    pub fn list_shown(
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
    pub fn changes(&self) -> watch::Receiver<()> {
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
    /// watch recovers. Whoever is answered then reads it on other replicas, too.
    pub async fn caught_up_with(&self, written: &K) {
        self.shows(written).await;
        written::note(self.kind, version(written).unwrap_or_default());
    }

    /// Waits in the same way for something that was read and not written.
    pub async fn shows(&self, read: &K) {
        let key = ObjectKey::of(read);
        let version = version(read);
        let seen = self.wait_for(CATCH_UP, |cache| {
            let seen = cache.get(&key)?;
            (seen.uid() != read.uid() || self::version(seen.as_ref()) >= version).then_some(())
        });
        self.tell_if_late(seen.await);
    }

    /// Waits, within bounds, until the copy knows that `deleted` is gone or on
    /// its way out.
    pub async fn caught_up_with_deletion(&self, deleted: &K) {
        let key = ObjectKey::of(deleted);
        let seen = self.wait_for(CATCH_UP, |cache| match cache.get(&key) {
            Some(seen) if seen.uid() == deleted.uid() => {
                seen.meta().deletion_timestamp.as_ref().map(|_| ())
            }
            _ => Some(()),
        });
        self.tell_if_late(seen.await);
        // What is gone has no version to ask for; what this copy has seen has it.
        written::note(self.kind, self.health.seen.load(Ordering::Acquire));
    }

    fn tell_if_late(&self, seen: Option<()>) {
        if seen.is_none() {
            tracing::warn!(
                kind = self.kind,
                "a copy does not show yet what was written"
            );
        }
    }
}

/// A [`Cache`] of some kind.
#[async_trait]
pub trait Watched: Send + Sync {
    /// What clients are told of it as.
    fn name(&self) -> &'static str;

    /// The kind, as Kubernetes calls it.
    fn kind(&self) -> String;

    /// Whether the watch behind the copy works at the moment.
    fn is_live(&self) -> bool;

    /// Waits until the copy was filled once.
    async fn synced(&self);

    /// Waits, within bounds, until the copy has seen `version` or a later one. Whether it
    /// has.
    async fn reaches(&self, version: u64) -> bool;
}

#[async_trait]
impl<K: Object> Watched for Cache<K> {
    fn name(&self) -> &'static str {
        self.kind
    }

    fn kind(&self) -> String {
        K::kind(&()).into_owned()
    }

    fn is_live(&self) -> bool {
        Cache::is_live(self)
    }

    async fn synced(&self) {
        let mut changes = self.changes.clone();
        // An error means that the watch has ended, and the cache with it.
        let _ = changes
            .wait_for(|()| self.health.filled.load(Ordering::Acquire))
            .await;
    }

    async fn reaches(&self, version: u64) -> bool {
        let seen = self.wait_for(CATCH_UP, |cache| {
            (cache.health.seen.load(Ordering::Acquire) >= version).then_some(())
        });
        seen.await.is_some()
    }
}

/// The version of the object that an event tells of.
fn version_of<K: Resource>(event: &watcher::Event<K>) -> u64 {
    match event {
        watcher::Event::Apply(object)
        | watcher::Event::Delete(object)
        | watcher::Event::InitApply(object) => version(object).unwrap_or_default(),
        watcher::Event::Init | watcher::Event::InitDone => 0,
    }
}

/// The version of what is there before a list of it is asked for: what was deleted
/// before is in no list, and was written by then.
async fn version_now<K>(api: &Api<K>) -> u64
where
    K: Clone + std::fmt::Debug + DeserializeOwned,
{
    let one = api.list(&ListParams::default().limit(1)).await.ok();
    let version = one.and_then(|list| list.metadata.resource_version?.parse().ok());
    version.unwrap_or_default()
}

/// The event as the copy takes it in: what cannot be read is not there, for nobody could
/// say what it is, or something stands for it. What was known of it before is not true any
/// more.
fn readable<K: Object>(
    event: watcher::Event<Lenient<K>>,
    entries: &RwLock<Entries<K>>,
    stand_in: StandIn<K>,
) -> Option<watcher::Event<K>> {
    let last = |unread: &Unread| {
        let entries = entries.read();
        let last = entries.get(&unread.key())?;
        Some(watcher::Event::Delete(K::clone(&last.object)))
    };
    match event {
        watcher::Event::Init => Some(watcher::Event::Init),
        watcher::Event::InitDone => Some(watcher::Event::InitDone),
        watcher::Event::InitApply(Lenient::Read(object)) => {
            Some(watcher::Event::InitApply(*object))
        }
        watcher::Event::Apply(Lenient::Read(object)) => Some(watcher::Event::Apply(*object)),
        watcher::Event::Delete(Lenient::Read(object)) => Some(watcher::Event::Delete(*object)),
        watcher::Event::InitApply(Lenient::Unreadable(unread)) => {
            complain::<K>(&unread);
            stand_in(&unread).map(watcher::Event::InitApply)
        }
        watcher::Event::Apply(Lenient::Unreadable(unread)) => {
            complain::<K>(&unread);
            match stand_in(&unread) {
                Some(object) => Some(watcher::Event::Apply(object)),
                None => last(&unread),
            }
        }
        watcher::Event::Delete(Lenient::Unreadable(unread)) => last(&unread),
    }
}

fn complain<K: Object>(unread: &Unread) {
    tracing::error!(kind = %K::kind(&()), %unread, "an object cannot be read");
}

/// What an event does to a copy, which gets a whole list at once. `see` says that the copy
/// has it, before anybody can look.
fn take_in<K: Object>(
    event: watcher::Event<K>,
    filling: &mut Entries<K>,
    entries: &RwLock<Entries<K>>,
    show: Show<K>,
    see: impl FnOnce(),
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
            let mut entries = entries.write();
            let before = std::mem::replace(&mut *entries, std::mem::take(filling));
            see();
            drop(entries);
            drop(before);
            Some(Change::All)
        }
        watcher::Event::Apply(object) => {
            let (key, entry) = enter(object);
            let mut entries = entries.write();
            entries.insert(key.clone(), entry);
            see();
            Some(Change::Seen(key))
        }
        watcher::Event::Delete(object) => {
            let mut entries = entries.write();
            entries.remove(&ObjectKey::of(&object));
            see();
            Some(Change::Gone(Arc::new(object)))
        }
    }
}

/// Resource versions of one kind are ordered numbers (Kubernetes 1.35 made that
/// a promise). One that is no number counts as oldest, so that nobody waits for
/// it in vain.
fn version<K: Resource>(object: &K) -> Option<u64> {
    object.resource_version()?.parse().ok()
}
