//! One watch for all actors that want to hear of a kind.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::StreamExt as _;
use kube::Client;
use kube::api::DynamicObject;
use kube::runtime::watcher::{self, Event, watcher};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::actor::Change;
use super::kind::{Key, Kind};
use super::loose::{self, Loose};
use super::mirror::Shared;

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

/// Objects of one kind on their way to the actors.
struct Known {
    kind: Kind,
    objects: Shared,
    outlet: Outlet,
}

impl Known {
    async fn tell(&self, object: Arc<DynamicObject>, gone: bool) {
        let kind = self.kind.clone();
        self.outlet.send(Change { kind, object, gone }).await;
    }

    /// An object is there. One that was replaced by another of the same name
    /// without a sign of its end is gone first.
    async fn seen(&self, object: DynamicObject) {
        let (key, object) = (Key::of(&self.kind, &object), Arc::new(object));
        let old = self.objects.lock().show(&key, &object);
        if let Some(old) = old {
            if old.metadata.uid != object.metadata.uid {
                self.tell(old, true).await;
            } else if old.metadata.resource_version == object.metadata.resource_version {
                return;
            }
        }
        self.tell(object, false).await;
    }

    async fn handle(&self, event: Event<Loose>) {
        match event {
            Event::Init => self.objects.lock().begin(),
            Event::InitApply(object) | Event::Apply(object) => self.seen(object.0).await,
            Event::Delete(Loose(object)) => {
                let key = Key::of(&self.kind, &object);
                self.objects.lock().hide(&key, &object);
                self.tell(Arc::new(object), true).await;
            }
            Event::InitDone => {
                let gone = self.objects.lock().end();
                for object in gone {
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
    objects: Shared,
    outlet: Outlet,
    stop: CancellationToken,
) {
    let api = loose::within(&client, &kind, None);
    let known = Known {
        kind,
        objects,
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
    let left = known.objects.lock().clear();
    for object in left {
        known.tell(object, true).await;
    }
}
