//! What happens in the cluster, seen after every step.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::FakeCluster;
use crate::state::Snapshot;
use crate::store::{Change, Object};

/// A change of an object.
#[derive(Clone, Debug)]
pub struct Event {
    /// Who was acting: a participant, an actor, or the scenario.
    pub by: String,
    /// What happened.
    pub change: Change,
    /// Plural and group: `deployments.apps`.
    pub resource: String,
    /// Kind.
    pub kind: String,
    /// Namespace, empty at cluster scope.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// The object as it is, or as it last was.
    pub object: Object,
    /// The object before, if there was one.
    pub previous: Option<Object>,
    /// The revision of the change.
    pub revision: u64,
}

impl Event {
    /// Kind, namespace and name.
    pub fn what(&self) -> String {
        if self.namespace.is_empty() {
            format!("{} {}", self.kind, self.name)
        } else {
            format!("{} {}/{}", self.kind, self.namespace, self.name)
        }
    }

    /// As [`what`](Self::what), the same for every generated name, and for names
    /// with a uid in them.
    fn slot(&self) -> String {
        let value = self.object.value();
        let prefix = value["metadata"]["generateName"].as_str();
        let slot = match prefix.filter(|prefix| self.name.starts_with(prefix)) {
            Some(prefix) => {
                let what = self.what();
                let kept = what.len() - (self.name.len() - prefix.len());
                format!("{}*", &what[..kept])
            }
            None => self.what(),
        };
        crate::state::without_uids(&slot)
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = match self.change {
            Change::Added => '+',
            Change::Modified => '~',
            Change::Deleted => '-',
        };
        write!(f, "{sign} {} by {}", self.what(), self.by)
    }
}

type Holds = Arc<dyn Fn(&Snapshot, &Event) -> bool + Send + Sync>;

/// What must hold at every step.
#[derive(Clone)]
pub(super) struct Invariant {
    pub(super) name: String,
    pub(super) holds: Holds,
}

/// How often an object came and went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lives {
    /// How often it was created.
    pub created: u32,
    /// How often it was deleted.
    pub deleted: u32,
}

/// Reads what happened.
pub(super) struct Observer {
    cursor: u64,
    invariants: Vec<Invariant>,
    pub(super) lives: BTreeMap<String, Lives>,
    pub(super) broken: Vec<String>,
    /// Gaps in what was seen, in words.
    pub(super) unseen: Vec<String>,
}

impl Observer {
    pub(super) fn new(cluster: &FakeCluster, invariants: Vec<Invariant>) -> Self {
        Self {
            cursor: cluster.server().store().revision(),
            invariants,
            lives: BTreeMap::new(),
            broken: Vec::new(),
            unseen: Vec::new(),
        }
    }

    /// The changes since the last call, in order.
    pub(super) fn look(&mut self, cluster: &FakeCluster, by: &str) -> Vec<Event> {
        let mut events = self.read(cluster, by);
        if events.is_empty() {
            return events;
        }
        events.sort_by_key(|event| event.revision);
        for event in &events {
            let lives = self.lives.entry(event.slot()).or_default();
            match event.change {
                Change::Added => lives.created += 1,
                Change::Deleted => lives.deleted += 1,
                Change::Modified => {}
            }
        }
        if !self.invariants.is_empty() {
            let state = cluster.snapshot();
            for event in &events {
                self.check(&state, event);
            }
        }
        events
    }

    fn read(&mut self, cluster: &FakeCluster, by: &str) -> Vec<Event> {
        let server = cluster.server();
        let store = server.store();
        if store.revision() == self.cursor {
            return Vec::new();
        }
        let mut events = Vec::new();
        for resource in store.resources() {
            // The simulation looks after each step, so that only a restored state
            // or a very short history leaves a gap.
            let Ok(log) = store.events_since(resource, self.cursor) else {
                let plural = crate::status::qualified(&resource.group, &resource.plural);
                self.unseen.push(format!(
                    "what became of {plural} after revision {} is forgotten (a state was \
                     restored, or the history is too short): it was not checked",
                    self.cursor
                ));
                continue;
            };
            events.extend(log.map(|event| Event {
                by: by.to_owned(),
                change: event.change,
                resource: crate::status::qualified(&resource.group, &resource.plural),
                kind: kind_of(&event.object),
                namespace: event.key.namespace.clone(),
                name: event.key.name.clone(),
                object: event.object.clone(),
                previous: event.previous.clone(),
                revision: event.revision,
            }));
        }
        self.cursor = store.revision();
        events
    }

    fn check(&mut self, state: &Snapshot, event: &Event) {
        for invariant in &self.invariants {
            if (invariant.holds)(state, event) {
                continue;
            }
            let what = match event.change {
                Change::Added => "was created",
                Change::Modified => "was changed",
                Change::Deleted => "was deleted",
            };
            self.broken.push(format!(
                "\"{}\" does not hold: {} {what} by {}",
                invariant.name,
                event.what(),
                event.by
            ));
        }
    }
}

fn kind_of(object: &Object) -> String {
    let kind = object.value()["kind"].as_str();
    kind.unwrap_or_default().to_owned()
}
