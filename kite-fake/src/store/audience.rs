//! Who is told of changes: everybody who watches a collection, or one of its
//! namespaces. Whom a change does not concern is not woken.

use std::collections::BTreeMap;

use tokio::sync::watch;

use super::Event;

/// So many namespaces without watchers are remembered before they are dropped.
const IDLE: usize = 64;

/// Those who watch one collection, as a whole or in one namespace.
#[derive(Debug)]
struct Circle {
    signal: watch::Sender<u64>,
    /// The last change that concerned them and is no longer in the log.
    lost: u64,
}

impl Circle {
    fn new(lost: u64, revision: u64) -> Self {
        Self {
            signal: watch::Sender::new(revision),
            lost,
        }
    }
}

/// See the [module documentation](self).
#[derive(Debug)]
pub(super) struct Audience {
    all: Circle,
    within: BTreeMap<String, Circle>,
}

impl Audience {
    pub(super) fn new(revision: u64) -> Self {
        Self {
            all: Circle::new(0, revision),
            within: BTreeMap::new(),
        }
    }

    pub(super) fn subscribe(&mut self, namespace: Option<&str>) -> watch::Receiver<u64> {
        let Some(namespace) = namespace else {
            return self.all.signal.subscribe();
        };
        if let Some(circle) = self.within.get(namespace) {
            return circle.signal.subscribe();
        }
        if self.within.len() >= IDLE {
            self.within.retain(|_, c| c.signal.receiver_count() > 0);
        }
        // What was lost before is not known: as much as anywhere.
        let circle = Circle::new(self.all.lost, *self.all.signal.borrow());
        let receiver = circle.signal.subscribe();
        self.within.insert(namespace.to_owned(), circle);
        receiver
    }

    /// Tells of a change in a namespace.
    pub(super) fn tell(&self, namespace: &str, revision: u64) {
        self.all.signal.send_replace(revision);
        if let Some(circle) = self.within.get(namespace) {
            circle.signal.send_replace(revision);
        }
    }

    /// Wakes everybody.
    pub(super) fn wake(&self) {
        for circle in self.within.values().chain([&self.all]) {
            circle.signal.send_modify(|_| {});
        }
    }

    /// A change leaves the log.
    pub(super) fn lose(&mut self, event: &Event) {
        self.all.lost = event.revision;
        if let Some(circle) = self.within.get_mut(&event.key.namespace) {
            circle.lost = event.revision;
        }
    }

    /// The collection was replaced: whoever saw less than `lost` must begin anew.
    pub(super) fn begin_anew(&mut self, lost: u64, revision: u64) {
        for circle in self.within.values_mut().chain([&mut self.all]) {
            circle.lost = lost;
            circle.signal.send_replace(revision);
        }
    }

    /// The last change that is lost to a watch.
    pub(super) fn lost(&self, namespace: Option<&str>) -> u64 {
        namespace
            .and_then(|namespace| self.within.get(namespace))
            .unwrap_or(&self.all)
            .lost
    }
}
