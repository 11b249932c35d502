//! What the caches of a controller see, one event at a time.

use std::any::Any;
use std::collections::VecDeque;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use kube::runtime::reflector::{ObjectRef, Store, store::Writer};
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client, Resource, ResourceExt as _};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use tokio::task::AbortHandle;

use super::controller::{Taps, show};
use super::gate::{ERRAND, Errand};

/// Pause before a watch that failed is tried again.
const PAUSE: Duration = Duration::from_millis(250);

/// What can be watched: any typed resource.
///
/// ```
/// fn is_watched<K: kite_fake::sim::Watched>() {}
/// is_watched::<k8s_openapi::api::core::v1::Pod>();
/// ```
pub trait Watched:
    Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static
{
}

impl<K> Watched for K where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static
{
}

/// What arrives as one: a whole list, or one change.
pub(super) enum Batch<W> {
    Listed(Vec<W>),
    Applied(Box<W>),
    Deleted(Box<W>),
}

impl<W: Watched> Batch<W> {
    /// The events of kube's watcher that it was made of.
    pub(super) fn into_events(self) -> Vec<Event<W>> {
        match self {
            Self::Listed(all) => {
                let mut events = vec![Event::Init];
                events.extend(all.into_iter().map(Event::InitApply));
                events.push(Event::InitDone);
                events
            }
            Self::Applied(object) => vec![Event::Apply(*object)],
            Self::Deleted(object) => vec![Event::Delete(*object)],
        }
    }

    pub(super) fn describe(&self) -> String {
        let kind = W::kind(&());
        match self {
            Self::Listed(all) => format!("{} listed, {} there", kind, all.len()),
            Self::Applied(object) => format!(
                "{kind} {} at {}",
                name(&**object),
                object.resource_version().unwrap_or_default()
            ),
            Self::Deleted(object) => format!("{kind} {} gone", name(&**object)),
        }
    }
}

/// The objects that kube's `touched_objects` shows of events, by which its
/// `Controller` triggers: a list does not tell what is gone.
pub(super) fn touched<W>(events: &[Event<W>]) -> impl Iterator<Item = &W> {
    events.iter().filter_map(|event| match event {
        Event::Init | Event::InitDone => None,
        Event::InitApply(object) | Event::Apply(object) | Event::Delete(object) => Some(object),
    })
}

fn name<W: Resource>(object: &W) -> String {
    let meta = object.meta();
    let name = meta.name.as_deref().unwrap_or_default();
    match &meta.namespace {
        Some(namespace) => format!("{namespace}/{name}"),
        None => name.to_owned(),
    }
}

/// What a watch has brought.
struct Inbox<W> {
    batches: VecDeque<Batch<W>>,
    /// The watch failed, and has not listed anew yet.
    is_behind: bool,
}

impl<W> Default for Inbox<W> {
    fn default() -> Self {
        Self {
            batches: VecDeque::new(),
            is_behind: true,
        }
    }
}

type Arrived<W> = Arc<Mutex<Inbox<W>>>;

/// A watch whose events wait to be heard.
pub(super) struct Feed<W> {
    arrived: Arrived<W>,
    task: AbortHandle,
}

impl<W> Drop for Feed<W> {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl<W: Watched> Feed<W> {
    pub(super) fn open(client: &Client, config: watcher::Config) -> Self {
        let arrived = Arrived::default();
        let api = Api::<W>::all(client.clone());
        let follow = follow(api, config, Arc::clone(&arrived));
        let task = tokio::spawn(ERRAND.scope(Errand::Cache, follow));
        Self {
            arrived,
            task: task.abort_handle(),
        }
    }

    pub(super) fn is_waiting(&self) -> bool {
        !self.arrived.lock().batches.is_empty()
    }

    /// Whether there may be more to hear than has arrived.
    pub(super) fn is_behind(&self) -> bool {
        self.arrived.lock().is_behind
    }

    pub(super) fn next(&self) -> Option<Batch<W>> {
        self.arrived.lock().batches.pop_front()
    }
}

async fn follow<W: Watched>(api: Api<W>, config: watcher::Config, arrived: Arrived<W>) {
    let mut events = std::pin::pin!(watcher(api, config));
    let mut list = Vec::new();
    while let Some(event) = events.next().await {
        let batch = match event {
            Ok(Event::Init) => {
                list.clear();
                continue;
            }
            Ok(Event::InitApply(object)) => {
                list.push(object);
                continue;
            }
            Ok(Event::InitDone) => Batch::Listed(std::mem::take(&mut list)),
            Ok(Event::Apply(object)) => Batch::Applied(Box::new(object)),
            Ok(Event::Delete(object)) => Batch::Deleted(Box::new(object)),
            Err(error) => {
                tracing::debug!(kind = %W::kind(&()), %error, "watch failed");
                arrived.lock().is_behind = true;
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        let mut inbox = arrived.lock();
        // A watch that expired lists anew; any event shows that it goes on.
        inbox.is_behind = false;
        inbox.batches.push_back(batch);
    }
}

/// What else a controller of `K` watches.
pub(super) trait Relation<K: Watched>: Send + Sync {
    fn open(&self, client: &Client) -> Box<dyn Open<K>>;
}

/// A relation's watch.
pub(super) trait Open<K: Watched>: Send {
    fn is_waiting(&self) -> bool;
    fn is_behind(&self) -> bool;
    /// The next event in words, and which objects it is about.
    fn hear(&mut self, store: &Store<K>, taps: &Mutex<Taps>)
    -> Option<(String, Vec<ObjectRef<K>>)>;
    /// What it has heard: a `Store` of its kind.
    fn cache(&self) -> Box<dyn Any + Send + Sync>;
}

type Mapper<W, K> = Box<dyn Fn(&W, &Store<K>) -> Vec<ObjectRef<K>> + Send + Sync>;
type MakeMapper<W, K> = Arc<dyn Fn() -> Mapper<W, K> + Send + Sync>;

/// Leads from objects of another kind to those of the controller.
pub(super) struct Mapped<W: Watched, K: Watched> {
    pub(super) config: watcher::Config,
    pub(super) start: MakeMapper<W, K>,
}

impl<W: Watched, K: Watched> Relation<K> for Mapped<W, K> {
    fn open(&self, client: &Client) -> Box<dyn Open<K>> {
        Box::new(OpenMapped {
            feed: Feed::open(client, self.config.clone()),
            mapper: (self.start)(),
            writer: Writer::default(),
        })
    }
}

struct OpenMapped<W: Watched, K: Watched> {
    feed: Feed<W>,
    mapper: Mapper<W, K>,
    writer: Writer<W>,
}

impl<W: Watched, K: Watched> Open<K> for OpenMapped<W, K> {
    fn is_waiting(&self) -> bool {
        self.feed.is_waiting()
    }

    fn is_behind(&self) -> bool {
        self.feed.is_behind()
    }

    fn hear(
        &mut self,
        store: &Store<K>,
        taps: &Mutex<Taps>,
    ) -> Option<(String, Vec<ObjectRef<K>>)> {
        let batch = self.feed.next()?;
        let words = batch.describe();
        let events = batch.into_events();
        for event in &events {
            self.writer.apply_watcher_event(event);
        }
        let about = touched(&events).flat_map(|object| (self.mapper)(object, store));
        let about = about.collect();
        show(taps, events);
        Some((words, about))
    }

    fn cache(&self) -> Box<dyn Any + Send + Sync> {
        Box::new(self.writer.as_reader())
    }
}

/// The owners of kind `K` that an object names.
pub(super) fn owners<W: Watched, K: Watched>(object: &W) -> Vec<ObjectRef<K>> {
    let namespace = object.meta().namespace.as_deref();
    object
        .owner_references()
        .iter()
        .filter_map(|owner| ObjectRef::from_owner_ref(namespace, owner, ()))
        .collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use futures::{TryStreamExt as _, stream};
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::runtime::WatchStreamExt as _;

    use super::*;

    fn map(name: &str) -> ConfigMap {
        let mut map = ConfigMap::default();
        map.metadata.name = Some(name.to_owned());
        map
    }

    fn all() -> Vec<Batch<ConfigMap>> {
        vec![
            Batch::Listed(vec![map("a"), map("b")]),
            Batch::Applied(Box::new(map("c"))),
            Batch::Deleted(Box::new(map("b"))),
            // "c" went while nobody watched.
            Batch::Listed(vec![map("a")]),
            Batch::Listed(Vec::new()),
        ]
    }

    #[tokio::test]
    async fn what_is_touched_is_what_kube_says_is_touched() {
        for batch in all() {
            let words = batch.describe();
            let events = batch.into_events();
            let ours: Vec<ConfigMap> = touched(&events).cloned().collect();
            let theirs = stream::iter(events).map(Ok).touched_objects();
            let theirs: Vec<ConfigMap> = theirs.try_collect().await.unwrap();
            assert_eq!(ours, theirs, "{words}");
        }
    }

    #[test]
    fn the_store_forgets_what_a_list_does_not_show() {
        let mut writer = Writer::<ConfigMap>::default();
        let store = writer.as_reader();
        let mut seen = Vec::new();
        for batch in all() {
            for event in batch.into_events() {
                writer.apply_watcher_event(&event);
            }
            let known = super::super::controller::sorted(&store);
            let known = known.iter().map(|map| map.name_any()).collect::<String>();
            seen.push(known);
        }
        assert_eq!(seen, ["ab", "abc", "ac", "a", ""]);
    }
}
