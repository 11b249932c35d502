//! One watch for all actors that want to hear of a kind.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::StreamExt as _;
use kube::Client;
use kube::api::DynamicObject;
use kube::runtime::watcher::{self, Event, watcher};
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::actor::Change;
use super::kind::{Key, Kind};

/// Pause before a watch that failed is tried again.
const PAUSE: Duration = Duration::from_millis(250);

/// The sending end of all watches. It counts what is under way, so that a
/// cluster can be told from one that is settled.
#[derive(Clone, Debug)]
pub(super) struct Outlet {
    pub(super) sender: mpsc::Sender<Change>,
    pub(super) under_way: Arc<AtomicUsize>,
}

impl Outlet {
    async fn send(&self, change: Change) {
        self.under_way.fetch_add(1, Ordering::SeqCst);
        if self.sender.send(change).await.is_err() {
            self.under_way.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

/// The objects of one kind as the watch last showed them.
pub(super) type Shown = Arc<Mutex<HashMap<Key, Arc<DynamicObject>>>>;

/// Objects of one kind on their way to the actors.
struct Known {
    kind: Kind,
    objects: Shown,
    listed: Option<HashMap<Key, Arc<DynamicObject>>>,
    outlet: Outlet,
}

impl Known {
    async fn tell(&self, object: Arc<DynamicObject>, gone: bool) {
        let kind = self.kind.clone();
        self.outlet.send(Change { kind, object, gone }).await;
    }

    /// An object is there. One that was replaced by another of the same name
    /// without a sign of its end is gone first.
    async fn seen(&mut self, object: DynamicObject) {
        let (key, object) = (Key::of(&self.kind, &object), Arc::new(object));
        if let Some(listed) = &mut self.listed {
            listed.insert(key.clone(), Arc::clone(&object));
        }
        let old = self.objects.lock().insert(key, Arc::clone(&object));
        if let Some(old) = old {
            if old.metadata.uid != object.metadata.uid {
                self.tell(old, true).await;
            } else if old.metadata.resource_version == object.metadata.resource_version {
                return;
            }
        }
        self.tell(object, false).await;
    }

    async fn handle(&mut self, event: Event<DynamicObject>) {
        match event {
            Event::Init => self.listed = Some(HashMap::new()),
            Event::InitApply(object) | Event::Apply(object) => self.seen(object).await,
            Event::Delete(object) => {
                let key = Key::of(&self.kind, &object);
                self.objects.lock().remove(&key);
                self.tell(Arc::new(object), true).await;
            }
            Event::InitDone => {
                let Some(listed) = self.listed.take() else {
                    return;
                };
                let gone: BTreeMap<_, _> = {
                    let mut objects = self.objects.lock();
                    let before = std::mem::replace(&mut *objects, listed);
                    let gone = before
                        .into_iter()
                        .filter(|(key, _)| !objects.contains_key(key));
                    gone.collect()
                };
                // By key, so that the same happens in every run.
                for object in gone.into_values() {
                    self.tell(object, true).await;
                }
            }
        }
    }
}

/// Watches `kind` until `stop` fires; then everything that was known is gone,
/// as far as actors are concerned.
pub(super) async fn run(
    client: Client,
    kind: Kind,
    objects: Shown,
    outlet: Outlet,
    stop: CancellationToken,
) {
    let api = kind.api(&client, None);
    let mut known = Known {
        kind,
        objects,
        listed: None,
        outlet,
    };
    let mut events = std::pin::pin!(watcher(api, watcher::Config::default()));
    loop {
        let event = tokio::select! {
            biased;
            () = stop.cancelled() => break,
            event = events.next() => event,
        };
        match event {
            Some(Ok(event)) => known.handle(event).await,
            Some(Err(error)) => {
                tracing::debug!(kind = %known.kind.kind, %error, "watch failed");
                tokio::select! {
                    biased;
                    () = stop.cancelled() => break,
                    () = tokio::time::sleep(PAUSE) => {}
                }
            }
            None => break,
        }
    }
    let left = std::mem::take(&mut *known.objects.lock());
    let left: BTreeMap<_, _> = left.into_iter().collect();
    for object in left.into_values() {
        known.tell(object, true).await;
    }
}
