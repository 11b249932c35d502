//! One watch for each kind, for the whole process, or for each place where it may be
//! read: it fills the kind's cache and triggers every controller that listens to the kind.

mod places;

use std::{
    any::{Any, TypeId},
    collections::HashMap,
    fmt,
    marker::PhantomData,
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use futures::{StreamExt as _, future::try_join_all, stream::BoxStream};
use kite_cluster::{Lenient, Object};
use kube::{
    Api, Client,
    runtime::{
        reflector::{ObjectRef, Store},
        watcher,
    },
};
use parking_lot::Mutex;
use tokio::{
    sync::watch,
    task::JoinSet,
    time::{Instant, sleep},
};
use tokio_util::sync::CancellationToken;

use self::places::Given;
use super::{Builder, CacheWriter, Caches, retry::Retry};
use crate::{
    health::Health,
    kinds::{KindOptions, Kinds},
    listener::Listener,
};

/// Watches that are not running yet, of kinds as `P` says.
///
/// ```no_run
/// use k8s_openapi::api::core::v1::{ConfigMap, Node};
/// use kite_cluster::{Cluster as _, KubeCluster, ObjectKey};
/// use kite_runtime::{cache::CachedCluster, kinds::Whole, Watches, health::Health};
/// use tokio_util::sync::CancellationToken;
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = kube::Client::try_default().await?;
/// let mut watches = Watches::<Whole>::new(client.clone());
/// watches.watch::<ConfigMap>();
/// watches.watch::<Node>();
/// let (caches, running) = watches.build();
/// tokio::spawn(running.run(Health::default(), CancellationToken::new()));
/// caches.synced().await;
/// let cluster = CachedCluster::new(KubeCluster::new(client), caches);
/// // No request.
/// let map = cluster.get::<ConfigMap>(&ObjectKey::namespaced("kube-system", "coredns")).await?;
/// # drop(map);
/// # Ok(())
/// # }
/// ```
pub struct Watches<P: Kinds> {
    client: Client,
    caches: Builder,
    feeds: HashMap<TypeId, Box<dyn Run>>,
    mended: Mended,
    kinds: PhantomData<fn() -> P>,
}

impl<P: Kinds> fmt::Debug for Watches<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watches")
            .field("kinds", &self.feeds.len())
            .finish_non_exhaustive()
    }
}

impl<P: Kinds> Watches<P> {
    /// Watches of no kind yet, which go through `client`.
    pub fn new(client: Client) -> Self {
        Self {
            client,
            caches: Caches::builder(),
            feeds: HashMap::new(),
            mended: Mended::default(),
            kinds: PhantomData,
        }
    }

    /// Watches objects of kind `K`, on which a controller works.
    ///
    /// # Panics
    ///
    /// If `P` has the kind packed.
    #[allow(clippy::expect_used, reason = "said of the kind where it is made")]
    pub fn store<K: Object>(&mut self) -> Store<K> {
        let store = self.feed::<K>().writer.store();
        store.expect("kinds with a controller are not packed")
    }

    /// Watches objects of kind `K` too.
    pub fn watch<K: Object>(&mut self) {
        self.feed::<K>();
    }

    /// Watches all that a controller of `K` hears of, and tells nobody.
    pub fn without_listener(&mut self) -> WithoutListener<'_, P> {
        WithoutListener(self)
    }

    /// Tells `listener` each object of kind `W` that an event is about.
    pub fn listen<W: Object>(&mut self, listener: impl Fn(&W) + Send + Sync + 'static) {
        self.feed::<W>().listeners.push(Box::new(listener));
    }

    /// Tells `listener` whenever an object of any kind is gone that could not be
    /// read, or can be read now.
    pub fn when_mended(&mut self, listener: impl Fn() + Send + 'static) {
        self.mended.0.lock().push(Box::new(listener));
    }

    /// Whether objects of kind `K` are watched.
    fn has<K: Object>(&self) -> bool {
        self.feeds.contains_key(&TypeId::of::<K>())
    }

    #[allow(clippy::expect_used, reason = "a feed stands under its own type")]
    fn feed<K: Object>(&mut self) -> &mut Feed<K> {
        let Self {
            client,
            caches,
            feeds,
            mended,
            ..
        } = self;
        let feed = feeds.entry(TypeId::of::<K>()).or_insert_with(|| {
            let options = P::options::<K>();
            Box::new(Feed::<K> {
                client: client.clone(),
                writer: caches.writer_for(&options),
                options,
                is_lenient: false,
                retry: Retry::default(),
                listeners: Vec::new(),
                mended: mended.clone(),
                tried: watch::Sender::new(false),
                given: None,
            })
        });
        let feed: &mut dyn Any = feed.as_any();
        feed.downcast_mut().expect("the feed is of this type")
    }

    /// The caches, and what fills them.
    pub fn build(self) -> (Caches, Running) {
        let feeds = self.feeds.into_values().collect();
        (self.caches.build(), Running { feeds })
    }
}

/// Has the kinds watched that a controller listens to, and tells nobody.
pub struct WithoutListener<'a, P: Kinds>(&'a mut Watches<P>);

impl<P: Kinds> fmt::Debug for WithoutListener<'_, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("WithoutListener").field(&self.0).finish()
    }
}

impl<P: Kinds, K: Object> Listener<K> for WithoutListener<'_, P> {
    fn on<W, M>(self, _config: watcher::Config, _start: fn() -> M) -> Self
    where
        W: Object,
        M: Fn(&W, &Store<K>) -> Vec<ObjectRef<K>> + Send + Sync + 'static,
    {
        self.0.watch::<W>();
        self
    }
}

/// Watches that fill caches. They do so while [`run`](Self::run) is polled.
pub struct Running {
    feeds: Vec<Box<dyn Run>>,
}

impl fmt::Debug for Running {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Running")
            .field("kinds", &self.feeds.len())
            .finish_non_exhaustive()
    }
}

impl Running {
    /// Waits until every first list is complete, or has failed: kinds that are
    /// not installed keep nobody waiting.
    pub fn tried(&self) -> impl Future<Output = ()> + use<> {
        let tried: Vec<_> = self.feeds.iter().map(|feed| feed.tried()).collect();
        async {
            let waits = tried
                .into_iter()
                .map(|mut tried| async move { tried.wait_for(|tried| *tried).await.map(|_| ()) });
            // Without watches there is nothing to wait for.
            let _ = try_join_all(waits).await;
        }
    }

    /// Watches until `shutdown`, and tells `health` of it. If a watch cannot go
    /// on, all of it ends, by `shutdown`: what would be done without it would be
    /// done blindly.
    pub async fn run(self, health: Health, shutdown: CancellationToken) {
        let mut tasks = JoinSet::new();
        let mut kinds = HashMap::new();
        for feed in self.feeds {
            feed.expect(&health);
            let kind = feed.kind();
            let task = tasks.spawn(feed.run(health.clone(), shutdown.clone()));
            kinds.insert(task.id(), kind);
        }
        while let Some(ended) = tasks.join_next_with_id().await {
            if let Err(error) = ended {
                let kind = kinds.get(&error.id()).map_or("", String::as_str);
                tracing::error!(kind, %error, "watch broke down, the controllers end");
                shutdown.cancel();
            }
        }
    }
}

type Tell<K> = Box<dyn Fn(&K) + Send + Sync>;

/// The watch of one kind.
struct Feed<K: Object> {
    client: Client,
    options: KindOptions<K>,
    /// Whether each object is read by itself, since one of them cannot be.
    is_lenient: bool,
    retry: Retry,
    writer: CacheWriter<K>,
    listeners: Vec<Tell<K>>,
    mended: Mended,
    tried: watch::Sender<bool>,
    /// Where it is watched, if not everywhere.
    given: Option<Given<K>>,
}

/// What a watch tells of, each object read by itself or not.
type Events<K> = BoxStream<'static, Result<watcher::Event<Lenient<K>>, watcher::Error>>;

/// Who hears that an object is gone that could not be read, or can be read now:
/// whom it may concern cannot be seen in it.
#[derive(Clone, Default)]
struct Mended(Arc<Mutex<Vec<Wake>>>);

type Wake = Box<dyn Fn() + Send>;

impl Mended {
    fn tell(&self) {
        for tell in &*self.0.lock() {
            tell();
        }
    }
}

/// A [`Feed`], whatever its kind.
#[async_trait]
trait Run: Send + Sync {
    fn as_any(&mut self) -> &mut dyn Any;
    fn tried(&self) -> watch::Receiver<bool>;
    fn kind(&self) -> String;
    fn expect(&self, health: &Health);
    async fn run(self: Box<Self>, health: Health, shutdown: CancellationToken);
}

#[async_trait]
impl<K: Object> Run for Feed<K> {
    fn as_any(&mut self) -> &mut dyn Any {
        self
    }

    fn tried(&self) -> watch::Receiver<bool> {
        self.tried.subscribe()
    }

    fn kind(&self) -> String {
        K::kind(&()).into_owned()
    }

    fn expect(&self, health: &Health) {
        health.expect::<K>(&self.options);
    }

    async fn run(mut self: Box<Self>, health: Health, shutdown: CancellationToken) {
        if let Some(given) = self.given.take() {
            self.follow_places(given, &health, &shutdown).await;
            return;
        }
        while !shutdown.is_cancelled() {
            self.follow(&health, &shutdown).await;
        }
    }
}

/// For how long a watch may fail before its cache is not believed any more.
const BLIND: Duration = Duration::from_secs(30);
/// A watch that broke and breaks again says so within less than this: one that has
/// not ran in between, in silence. One that cannot even be begun never ran, however
/// long an attempt hangs.
const SILENCE: Duration = Duration::from_secs(60);

/// When a watch failed first and last, since it worked.
#[derive(Default)]
struct Failing(Option<(Instant, Instant)>);

impl Failing {
    /// It fails by this again: for how long it has been failing.
    fn again(&mut self, error: &watcher::Error) -> Duration {
        let may_have_run = !matches!(error, watcher::Error::WatchStartFailed(_));
        let now = Instant::now();
        let since = self
            .0
            .filter(|(_, last)| !may_have_run || now - *last < SILENCE);
        let first = since.map_or(now, |(first, _)| first);
        self.0 = Some((first, now));
        now - first
    }
}

impl<K: Object> Feed<K> {
    /// Follows a watch until `shutdown`, or until it has to be begun anew.
    async fn follow(&mut self, health: &Health, shutdown: &CancellationToken) {
        let mut is_running = false;
        let mut failing = Failing::default();
        let events = self.events().take_until(shutdown.cancelled());
        let mut events = std::pin::pin!(events);
        while let Some(event) = events.next().await {
            match event {
                Ok(event) => {
                    let is_complete = matches!(event, watcher::Event::InitDone);
                    let is_change =
                        matches!(event, watcher::Event::Apply(_) | watcher::Event::Delete(_));
                    failing = Failing::default();
                    self.take_in(event);
                    if is_complete {
                        self.tried.send_replace(true);
                    }
                    if is_complete || (is_change && !is_running) {
                        health.watching::<K>();
                        is_running = true;
                    }
                }
                Err(error) => {
                    let is_absent = self.options.is_optional && is_not_installed(&error);
                    let wait = self.retry.after(is_absent);
                    let kind = K::kind(&());
                    if is_forbidden(&error) {
                        health.forbidden::<K>(&error);
                    } else {
                        health.failing::<K>(&error);
                    }
                    is_running = false;
                    if is_absent {
                        tracing::debug!(%kind, ?wait, "is not installed, will be looked for again");
                        self.take_in(watcher::Event::Init);
                        self.take_in(watcher::Event::InitDone);
                    } else {
                        tracing::warn!(%kind, %error, ?wait, "watch failed, will be tried again");
                        if matches!(error, watcher::Error::InitialListFailed(_)) {
                            self.writer.lost();
                        }
                    }
                    self.tried.send_replace(true);
                    if !self.is_lenient && is_unreadable(&error) {
                        // Which object it is shows when each is read by itself.
                        self.is_lenient = true;
                        return;
                    }
                    // The stream does nothing until it is asked.
                    tokio::select! {
                        () = sleep(wait) => {}
                        () = shutdown.cancelled() => {}
                    }
                    let is_blind = failing.again(&error) >= BLIND;
                    if is_blind && !is_absent && self.writer.is_believed() {
                        // Only a list tells for certain that all is known again.
                        self.writer.lost();
                        return;
                    }
                }
            }
        }
    }

    fn events(&self) -> Events<K> {
        let (client, config) = (self.client.clone(), self.options.config.clone());
        if self.is_lenient {
            let api = Api::<Lenient<K>>::all(client);
            watcher(api, config).boxed()
        } else {
            let api = Api::<K>::all(client);
            let events = watcher(api, config);
            events.map(|event| event.map(all_read)).boxed()
        }
    }

    fn take_in(&mut self, event: watcher::Event<Lenient<K>>) {
        self.change(|writer, tell| writer.apply_lenient(event, tell));
    }

    /// Has the cache changed, and tells whom that concerns. `change` gives whether an object
    /// that could not be read is gone, or can be read now.
    fn change(&mut self, change: impl FnOnce(&mut CacheWriter<K>, &dyn Fn(&K)) -> bool) {
        let listeners = &self.listeners;
        let tell = |object: &K| listeners.iter().for_each(|tell| tell(object));
        if change(&mut self.writer, &tell) {
            self.mended.tell();
        }
    }
}

/// The event, of an object that was read.
fn all_read<K>(event: watcher::Event<K>) -> watcher::Event<Lenient<K>> {
    match event {
        watcher::Event::Apply(object) => watcher::Event::Apply(object.into()),
        watcher::Event::Delete(object) => watcher::Event::Delete(object.into()),
        watcher::Event::Init => watcher::Event::Init,
        watcher::Event::InitApply(object) => watcher::Event::InitApply(object.into()),
        watcher::Event::InitDone => watcher::Event::InitDone,
    }
}

/// Whether an object could not be read as its kind.
fn is_unreadable(error: &watcher::Error) -> bool {
    matches!(
        error,
        watcher::Error::InitialListFailed(kube::Error::SerdeError(_))
            | watcher::Error::WatchFailed(kube::Error::SerdeError(_))
    )
}

/// Whether the cluster lacks a kind that the operator can do without. Reads of such a kind
/// are no requests: most clusters lack it. Of other kinds nothing is concluded
/// from an answer that may be a mistake.
fn is_not_installed(error: &watcher::Error) -> bool {
    matches!(
        error,
        watcher::Error::InitialListFailed(kube::Error::Api(status)) if status.code == 404
    )
}

/// Whether the account lacks the right to list or watch.
fn is_forbidden(error: &watcher::Error) -> bool {
    use kube::Error::Api;
    use watcher::Error::{InitialListFailed, WatchFailed, WatchStartFailed};
    matches!(
        error,
        InitialListFailed(Api(status)) | WatchStartFailed(Api(status)) | WatchFailed(Api(status))
            if matches!(status.code, 401 | 403)
    )
}
