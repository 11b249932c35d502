//! What happens in the cluster, seen after every step.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt;
use std::sync::Arc;

use crate::FakeCluster;
use crate::fault::Call;
use crate::state::Snapshot;
use crate::store::{Change, Object};

/// A change of an object.
#[derive(Clone, Debug)]
#[non_exhaustive]
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
#[non_exhaustive]
pub struct Lives {
    /// How often it was created.
    pub created: u32,
    /// How often it was deleted.
    pub deleted: u32,
}

/// What rivals replaced or removed, and what went with that.
#[derive(Clone, Debug, Default)]
pub(super) struct Disturbed {
    /// The kinds of what they touched.
    pub(super) kinds: BTreeSet<String>,
    /// The objects, as [`Lives`] are counted.
    pub(super) slots: BTreeSet<String>,
    uids: HashSet<String>,
    namespaces: HashSet<String>,
}

impl Disturbed {
    /// Takes in what happened when rivals did their `deeds`, or later.
    fn note(&mut self, event: &Event, deeds: &[Call]) {
        let is_their_deed = deeds.iter().any(|call| {
            call.resource() == event.resource
                && call.namespace == event.namespace
                && call.name == event.name
        });
        let object = event.object.value();
        let is_one = |uid: &serde_json::Value| {
            let uid = uid.as_str();
            uid.is_some_and(|uid| self.uids.contains(uid))
        };
        let owners = object["metadata"]["ownerReferences"].as_array();
        let is_owned = owners.into_iter().flatten().any(|it| is_one(&it["uid"]));
        // A volume goes with its claim.
        let is_dependent = is_owned || is_one(&object["spec"]["claimRef"]["uid"]);
        let is_within = self.namespaces.contains(&event.namespace);
        let has_gone = event.change != Change::Modified || event.object.is_deleting();
        if is_their_deed && has_gone {
            self.kinds.insert(event.kind.clone());
            if event.kind == "Namespace" {
                self.namespaces.insert(event.name.clone());
            }
        } else if !is_dependent && !is_within {
            return;
        }
        self.uids.insert(event.object.meta("uid").to_owned());
        self.slots.insert(event.slot());
    }
}

/// What rivals did in a step.
#[derive(Clone, Debug, Default)]
pub(super) struct Deeds {
    /// The revision up to which it was they who changed something.
    pub(super) until: u64,
    /// The requests whose objects they replaced or removed.
    pub(super) disturbing: Vec<Call>,
}

/// Reads what happened.
pub(super) struct Observer {
    cursor: u64,
    invariants: Vec<Invariant>,
    pub(super) disturbed: Disturbed,
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
            disturbed: Disturbed::default(),
            lives: BTreeMap::new(),
            broken: Vec::new(),
            unseen: Vec::new(),
        }
    }

    /// The changes since the last call, in order; with what rivals disturbed.
    pub(super) fn look(&mut self, cluster: &FakeCluster, by: &str, deeds: &Deeds) -> Vec<Event> {
        let mut events = self.read(cluster, by, deeds.until);
        let deeds = &deeds.disturbing;
        if events.is_empty() {
            return events;
        }
        events.sort_by_key(|event| event.revision);
        for event in &events {
            if !deeds.is_empty() || !self.disturbed.slots.is_empty() {
                self.disturbed.note(event, deeds);
            }
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

    fn read(&mut self, cluster: &FakeCluster, by: &str, rivals_until: u64) -> Vec<Event> {
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
                by: if event.revision <= rivals_until {
                    format!("{by} or a rival")
                } else {
                    by.to_owned()
                },
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
