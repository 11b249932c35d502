//! A controller that takes part in a simulation.

use std::any::{Any, TypeId};
use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::future::Future;
use std::sync::Arc;

use futures::future::BoxFuture;
use kube::runtime::controller::Action;
use kube::runtime::reflector::{ObjectRef, Store, store::Writer};
use kube::runtime::watcher::{self, Event};
use kube::{Client, Resource};
use parking_lot::Mutex;

use super::feed::{Batch, Feed, Mapped, Open, Relation, Watched, owners, touched};
use crate::clock::Clock;

type Reconcile<K> = Box<dyn Fn(Arc<K>) -> BoxFuture<'static, Result<Action, String>> + Send>;
type Start<K> = Arc<dyn Fn(ControllerContext<K>) -> Reconcile<K> + Send + Sync>;

/// What a controller starts with, each time that it starts.
pub struct ControllerContext<K: Watched> {
    /// Its client. What goes wrong goes wrong here.
    pub client: Client,
    /// The simulated time.
    pub clock: Arc<dyn Clock>,
    /// Its cache of the objects that it reconciles. The order of its
    /// `state()` is random and differs from run to run: use
    /// [`objects`](Self::objects) or sort.
    pub store: Store<K>,
    /// Its caches of what else it watches.
    caches: Vec<Box<dyn Any + Send + Sync>>,
    /// Who wants to see events, by their kind.
    taps: Arc<Mutex<Taps>>,
}

/// Who sees events, by their kind: a `Vec<Tap<W>>` for each `W`.
pub(super) type Taps = HashMap<TypeId, Box<dyn Any + Send>>;
pub(super) type Tap<W> = Box<dyn FnMut(Event<W>) + Send>;

impl<K: Watched> ControllerContext<K> {
    /// All that is in the cache, by namespace and name.
    pub fn objects(&self) -> Vec<Arc<K>> {
        sorted(&self.store)
    }

    /// Its cache of objects of kind `W`: what the watch of them has told so far.
    /// That of the first of several watches of one kind; none if it does not
    /// watch them.
    pub fn cache<W: Watched>(&self) -> Option<Store<W>> {
        let own: &dyn Any = &self.store;
        let others = self.caches.iter().map(|cache| &**cache as &dyn Any);
        let mut all = std::iter::once(own).chain(others);
        all.find_map(|cache| cache.downcast_ref::<Store<W>>().cloned())
    }

    /// Shows `tap` each event of the watch of kind `W` as the controller hears
    /// it, before anything is triggered by it: for caches of its own making. Of
    /// a kind that it does not watch nothing is shown.
    pub fn tap<W: Watched>(&self, tap: impl FnMut(Event<W>) + Send + 'static) {
        let mut taps = self.taps.lock();
        let all = taps.entry(TypeId::of::<W>());
        let all = all.or_insert_with(|| Box::new(Vec::<Tap<W>>::new()));
        if let Some(all) = all.downcast_mut::<Vec<Tap<W>>>() {
            all.push(Box::new(tap));
        }
    }
}

/// Shows events to whoever wants to see them.
pub(super) fn show<W: Watched>(taps: &Mutex<Taps>, events: Vec<Event<W>>) {
    let mut taps = taps.lock();
    let taps = taps.get_mut(&TypeId::of::<W>());
    let Some(taps) = taps.and_then(|taps| taps.downcast_mut::<Vec<Tap<W>>>()) else {
        return;
    };
    let Some((last, others)) = taps.split_last_mut() else {
        return;
    };
    for event in events {
        for tap in others.iter_mut() {
            tap(event.clone());
        }
        last(event);
    }
}

/// All that is in a cache, by namespace and name.
pub fn sorted<K: Watched>(store: &Store<K>) -> Vec<Arc<K>> {
    let mut all = store.state();
    all.sort_by_cached_key(|object| name_of(&**object));
    all
}

impl<K: Watched> fmt::Debug for ControllerContext<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ControllerContext").finish_non_exhaustive()
    }
}

/// A controller of `K`, with the words of `kube::runtime::Controller`.
///
/// ```
/// use std::sync::Arc;
/// use k8s_openapi::api::core::v1::{ConfigMap, Secret};
/// use kite_fake::sim::Controller;
/// use kube::runtime::controller::Action;
///
/// let controller = Controller::new("copier", |client: kube::Client| {
///     // Called again after each crash: whatever was remembered here is lost.
///     move |map: Arc<ConfigMap>| {
///         let client = client.clone();
///         async move {
///             let secrets: kube::Api<Secret> = kube::Api::default_namespaced(client);
///             secrets.list(&Default::default()).await?;
///             Ok::<_, kube::Error>(Action::await_change())
///         }
///     }
/// })
/// .owns::<Secret>();
/// ```
///
/// It gets what kube gives a controller: objects from a reflector's store, which
/// may be behind; triggers that are deduplicated by object; never the same
/// object twice at once; nothing before the store is filled. What a watch missed
/// is not made up for: a list that follows on a break triggers all that is there
/// and nothing that went meanwhile, though the store has forgotten it, for kube's
/// watcher makes no event of that (`Controller` goes by its `touched_objects`). A
/// deletion of what the controller itself reconciles triggers nothing either
/// (`applied_objects`). Objects of a list are triggered when the store shows it,
/// as those of a list of one page are by kube.
pub struct Controller<K: Watched> {
    name: String,
    replicas: usize,
    config: watcher::Config,
    start: Start<K>,
    relations: Vec<Arc<dyn Relation<K>>>,
}

impl<K: Watched> fmt::Debug for Controller<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Controller")
            .field("name", &self.name)
            .field("replicas", &self.replicas)
            .finish_non_exhaustive()
    }
}

impl<K: Watched> Controller<K> {
    /// A controller that `start` makes of a client. `start` is called again
    /// after each crash, so that whatever it keeps in memory is lost then.
    pub fn new<R, F, E>(
        name: impl Into<String>,
        start: impl Fn(Client) -> R + Send + Sync + 'static,
    ) -> Self
    where
        R: Fn(Arc<K>) -> F + Send + 'static,
        F: Future<Output = Result<Action, E>> + Send + 'static,
        E: fmt::Display,
    {
        Self::with_context(name, move |context| start(context.client))
    }

    /// As [`new`](Self::new), for a controller that also needs the simulated
    /// time or its own cache.
    pub fn with_context<R, F, E>(
        name: impl Into<String>,
        start: impl Fn(ControllerContext<K>) -> R + Send + Sync + 'static,
    ) -> Self
    where
        R: Fn(Arc<K>) -> F + Send + 'static,
        F: Future<Output = Result<Action, E>> + Send + 'static,
        E: fmt::Display,
    {
        let start = move |context: ControllerContext<K>| -> Reconcile<K> {
            let reconcile = start(context);
            Box::new(move |object| {
                let done = reconcile(object);
                Box::pin(async move { done.await.map_err(|error| error.to_string()) })
            })
        };
        Self {
            name: name.into(),
            replicas: 1,
            config: watcher::Config::default(),
            start: Arc::new(start),
            relations: Vec::new(),
        }
    }

    /// How it lists and watches what it reconciles; kube's default if not set.
    /// With `any_semantic` it lists from the API server's cache, and
    /// [`Fault::StaleRestart`](crate::fault::Fault::StaleRestart) shows it the
    /// past. Watches that are added from now on have the same semantic.
    #[must_use]
    pub fn watching(mut self, config: watcher::Config) -> Self {
        self.config = config;
        self
    }

    /// Objects of kind `W` that have an owner of kind `K` trigger their owner.
    #[must_use]
    pub fn owns<W: Watched>(self) -> Self {
        let config = self.plain();
        self.owns_with::<W>(config)
    }

    /// As [`owns`](Self::owns), of a selection.
    #[must_use]
    pub fn owns_with<W: Watched>(self, config: watcher::Config) -> Self {
        self.watches_with(config, |object: W, _| owners(&object))
    }

    /// Objects of kind `W` trigger what `mapper` says. The mapper should
    /// remember nothing: it stays the same over all crashes
    /// ([`watches_anew`](Self::watches_anew) has one that does not).
    #[must_use]
    pub fn watches<W: Watched, I>(self, mapper: impl Fn(W) -> I + Send + Sync + 'static) -> Self
    where
        I: IntoIterator<Item = ObjectRef<K>>,
    {
        let config = self.plain();
        self.watches_with(config, move |object, _| mapper(object))
    }

    /// As [`watches`](Self::watches), of a selection, with a look at the
    /// controller's cache.
    #[must_use]
    pub fn watches_with<W: Watched, I>(
        self,
        config: watcher::Config,
        mapper: impl Fn(W, &Store<K>) -> I + Send + Sync + 'static,
    ) -> Self
    where
        I: IntoIterator<Item = ObjectRef<K>>,
    {
        let mapper = Arc::new(mapper);
        self.watches_anew(config, move || {
            let mapper = Arc::clone(&mapper);
            move |object: &W, store: &Store<K>| mapper(object.clone(), store)
        })
    }

    /// As [`watches_with`](Self::watches_with), with a mapper that `start` makes
    /// each time that the controller starts: what it remembers is lost in a
    /// crash.
    #[must_use]
    pub fn watches_anew<W: Watched, M, I>(
        mut self,
        config: watcher::Config,
        start: impl Fn() -> M + Send + Sync + 'static,
    ) -> Self
    where
        M: Fn(&W, &Store<K>) -> I + Send + Sync + 'static,
        I: IntoIterator<Item = ObjectRef<K>>,
    {
        self.relations.push(Arc::new(Mapped {
            config,
            start: Arc::new(move || {
                let mapper = start();
                Box::new(move |object: &W, store: &Store<K>| {
                    mapper(object, store).into_iter().collect()
                })
            }),
        }));
        self
    }

    /// Runs so many copies at once, without electing a leader.
    #[must_use]
    pub fn replicas(mut self, count: usize) -> Self {
        self.replicas = count.max(1);
        self
    }

    fn plain(&self) -> watcher::Config {
        watcher::Config {
            list_semantic: self.config.list_semantic.clone(),
            ..watcher::Config::default()
        }
    }
}

/// Namespace and name of an object that is reconciled.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Name {
    namespace: Option<String>,
    name: String,
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{namespace}/{}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

/// A controller, whatever it reconciles.
pub(super) trait Role: Send + Sync {
    fn name(&self) -> &str;
    fn replicas(&self) -> usize;
    /// Begins a life.
    fn enter(&self, client: Client, clock: Arc<dyn Clock>) -> Box<dyn Life>;
}

/// What was heard.
pub(super) struct Heard {
    pub(super) words: String,
    pub(super) about: BTreeSet<Name>,
}

/// One life of a controller, between two crashes.
pub(super) trait Life: Send {
    /// The watches that have something to tell.
    fn waiting(&self) -> Vec<usize>;
    /// Whether a watch failed and may have more to tell than has arrived.
    fn is_behind(&self) -> bool;
    fn hear(&mut self, watch: usize) -> Option<Heard>;
    /// Whether what it reconciles was listed.
    fn is_ready(&self) -> bool;
    /// All that is in the cache.
    fn known(&self) -> BTreeSet<Name>;
    /// A reconcile of what the cache has by that name, if it has it.
    fn reconcile(&self, name: &Name) -> Option<BoxFuture<'static, Result<Action, String>>>;
}

impl<K: Watched> Role for Controller<K> {
    fn name(&self) -> &str {
        &self.name
    }

    fn replicas(&self) -> usize {
        self.replicas
    }

    fn enter(&self, client: Client, clock: Arc<dyn Clock>) -> Box<dyn Life> {
        let writer = Writer::<K>::default();
        let store = writer.as_reader();
        let feed = Feed::open(&client, self.config.clone());
        let taps = Arc::<Mutex<Taps>>::default();
        let relations = self.relations.iter();
        let relations: Vec<_> = relations.map(|relation| relation.open(&client)).collect();
        Box::new(Running {
            feed,
            reconcile: (self.start)(ControllerContext {
                client,
                clock,
                store: store.clone(),
                caches: relations.iter().map(|open| open.cache()).collect(),
                taps: Arc::clone(&taps),
            }),
            relations,
            taps,
            writer,
            store,
            is_ready: false,
        })
    }
}

struct Running<K: Watched> {
    feed: Feed<K>,
    relations: Vec<Box<dyn Open<K>>>,
    reconcile: Reconcile<K>,
    writer: Writer<K>,
    store: Store<K>,
    taps: Arc<Mutex<Taps>>,
    is_ready: bool,
}

impl<K: Watched> Running<K> {
    /// The name by which an object is known, if it is.
    fn name(&self, of: &ObjectRef<K>) -> Name {
        let namespace = match self.store.get(of) {
            Some(object) => object.meta().namespace.clone(),
            None => of.namespace.clone(),
        };
        Name {
            namespace,
            name: of.name.clone(),
        }
    }
}

fn name_of<K: Resource>(object: &K) -> Name {
    let meta = object.meta();
    Name {
        namespace: meta.namespace.clone(),
        name: meta.name.clone().unwrap_or_default(),
    }
}

impl<K: Watched> Life for Running<K> {
    fn waiting(&self) -> Vec<usize> {
        let own = self.feed.is_waiting().then_some(0);
        let others = self.relations.iter().enumerate();
        let others = others.filter(|(_, open)| open.is_waiting());
        own.into_iter()
            .chain(others.map(|(at, _)| at + 1))
            .collect()
    }

    fn is_behind(&self) -> bool {
        self.feed.is_behind() || self.relations.iter().any(|open| open.is_behind())
    }

    fn hear(&mut self, watch: usize) -> Option<Heard> {
        let Some(relation) = watch.checked_sub(1) else {
            let batch = self.feed.next()?;
            self.is_ready |= matches!(batch, Batch::Listed(_));
            let words = batch.describe();
            // What is gone cannot be reconciled.
            let is_gone = matches!(batch, Batch::Deleted(_));
            let events = batch.into_events();
            for event in &events {
                self.writer.apply_watcher_event(event);
            }
            let touched = touched(&events).filter(|_| !is_gone);
            let about = touched.map(name_of).collect();
            show(&self.taps, events);
            return Some(Heard { words, about });
        };
        let (words, about) = self
            .relations
            .get_mut(relation)?
            .hear(&self.store, &self.taps)?;
        let about = about.iter().map(|object| self.name(object)).collect();
        Some(Heard { words, about })
    }

    fn is_ready(&self) -> bool {
        self.is_ready
    }

    fn known(&self) -> BTreeSet<Name> {
        let state = self.store.state();
        state.iter().map(|object| name_of(&**object)).collect()
    }

    fn reconcile(&self, name: &Name) -> Option<BoxFuture<'static, Result<Action, String>>> {
        let mut object = ObjectRef::<K>::new(&name.name);
        object.namespace.clone_from(&name.namespace);
        Some((self.reconcile)(self.store.get(&object)?))
    }
}
