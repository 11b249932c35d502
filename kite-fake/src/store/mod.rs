//! Objects by resource and key, one revision counter, and a bounded history.
//!
//! The store is what etcd is to a real API server: it knows values and
//! revisions, and nothing of kinds, schemas or who asks. Every change takes the
//! next revision of *one* counter, is stamped into `metadata.resourceVersion`,
//! and is appended to the log of its collection, from which watches read and
//! from which the state at an older revision is rebuilt (for `continue` tokens
//! and `resourceVersionMatch=Exact`).
//!
//! Objects are kept as text (see [`Stored`]). Everything is bounded: the log by
//! events and by bytes, the trees parsed from texts by bytes.

mod audience;
mod object;
mod past;
mod saved;
mod text;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use serde_json::Value;
use tokio::sync::watch;

use audience::Audience;
use object::Warmth;
pub use object::{Object, Stored};
pub(crate) use saved::Remains;
pub use saved::Saved;

/// Most bytes of text that one collection's log keeps alive.
const MAX_LOG_BYTES: usize = 32 * 1024 * 1024;

/// Trees of more bytes of text than this are let go of.
const MAX_WARM_BYTES: usize = 1024 * 1024;

/// Not before there are as many for each object and event that there is: to look
/// at all of them for less would cost more than to parse again.
const WARM_BYTES_EACH: usize = 32;

/// What ends the line of a watch event.
pub(crate) const END: Bytes = Bytes::from_static(b"}\n");
/// The revision of an empty store. No change has it: the first takes the next.
const FIRST: u64 = 1;

/// API group and plural: what names a collection, whatever version is asked for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupResource {
    /// API group, empty for the core group.
    pub group: String,
    /// Plural name.
    pub plural: String,
}

impl GroupResource {
    /// From its two parts.
    pub fn new(group: impl Into<String>, plural: impl Into<String>) -> Self {
        Self {
            group: group.into(),
            plural: plural.into(),
        }
    }
}

/// Namespace and name within a collection; the order is that of lists.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// Namespace, empty for cluster-scoped objects.
    pub namespace: String,
    /// Name.
    pub name: String,
}

impl Key {
    /// From its two parts.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
        }
    }
}

/// What happened to an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// It was created.
    Added,
    /// It was written.
    Modified,
    /// It is gone; the event carries its last state with a new resourceVersion.
    Deleted,
}

impl Change {
    /// The type of a watch event that tells of it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
        }
    }
}

/// One entry of a collection's history.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Event {
    /// The revision that the change took.
    pub revision: u64,
    /// What happened.
    pub change: Change,
    /// To which object.
    pub key: Key,
    /// Its state then.
    pub object: Object,
    /// Its state before, if it existed.
    pub previous: Option<Object>,
}

impl Event {
    /// What the log keeps alive by it: its state before. The state then is in
    /// the store or before the next event.
    fn size(&self) -> usize {
        let gone = (self.change == Change::Deleted).then(|| self.object.size());
        gone.unwrap_or(0) + self.previous.as_ref().map_or(0, |p| p.size())
    }

    fn cool(&mut self) {
        cool(&mut self.object);
        if let Some(previous) = &mut self.previous {
            cool(previous);
        }
    }
}

fn cool(object: &mut Object) {
    if let Some(cooled) = object.cooled() {
        *object = cooled;
    }
}

#[derive(Debug)]
struct Collection {
    /// Shared with snapshots: the first write after one copies it.
    objects: Arc<BTreeMap<Key, Object>>,
    /// Shared with snapshots, too.
    log: Arc<VecDeque<Event>>,
    /// Bytes that the log keeps alive.
    log_bytes: usize,
    /// Revisions up to this one are no longer in the log.
    floor: u64,
    audience: Audience,
    /// Objects that were there before anything else, changed since or not.
    first: BTreeSet<Key>,
    /// Those of them that were removed.
    gone: Arc<BTreeSet<Key>>,
}

impl Collection {
    /// What is to be saved: not what comes to be by itself.
    fn kept(&self) -> Arc<BTreeMap<Key, Object>> {
        if self.first.is_empty() {
            return Arc::clone(&self.objects);
        }
        let all = self.objects.iter();
        let kept = all.filter(|(_, object)| object.revision() != FIRST);
        Arc::new(
            kept.map(|(key, object)| (key.clone(), object.clone()))
                .collect(),
        )
    }

    fn new(floor: u64) -> Self {
        Self {
            objects: Arc::default(),
            log: Arc::default(),
            log_bytes: 0,
            floor,
            audience: Audience::new(floor),
            first: BTreeSet::new(),
            gone: Arc::default(),
        }
    }

    fn since(&self, revision: u64) -> impl DoubleEndedIterator<Item = &Event> + use<'_> {
        let start = self.log.partition_point(|e| e.revision <= revision);
        self.log.range(start..)
    }
}

/// History asked for that has been forgotten (410 Gone).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("too old resource version: {asked} ({oldest})")]
#[non_exhaustive]
pub struct Forgotten {
    /// The revision asked for.
    pub asked: u64,
    /// The oldest that can be answered.
    pub oldest: u64,
}

/// See the [module documentation](self).
#[derive(Debug)]
pub struct Store {
    revision: u64,
    /// Revisions up to this one are forgotten in every collection.
    floor: u64,
    history: usize,
    collections: BTreeMap<GroupResource, Collection>,
    progress: watch::Sender<u64>,
    warmth: Warmth,
    /// Memory in which objects are written.
    scratch: Vec<u8>,
}

impl Store {
    /// An empty store that remembers at most `history` events per collection.
    pub fn new(history: usize) -> Self {
        Self {
            revision: FIRST,
            floor: FIRST,
            history,
            collections: BTreeMap::new(),
            progress: watch::Sender::new(FIRST),
            warmth: Warmth::default(),
            scratch: Vec::new(),
        }
    }

    /// The revision of the last change.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// One object.
    pub fn get(&self, resource: &GroupResource, key: &Key) -> Option<&Object> {
        self.collections.get(resource)?.objects.get(key)
    }

    /// Objects in the order of their keys, of one namespace or of all, starting
    /// after a key if one is given.
    pub fn range<'a>(
        &'a self,
        resource: &GroupResource,
        namespace: Option<&'a str>,
        after: Option<&Key>,
    ) -> impl Iterator<Item = (&'a Key, &'a Object)> + use<'a> {
        let first = Key::new(namespace.unwrap_or_default(), "");
        let start = match after {
            Some(key) if *key >= first => Bound::Excluded(key.clone()),
            _ => Bound::Included(first),
        };
        self.collections
            .get(resource)
            .into_iter()
            .flat_map(move |c| c.objects.range((start.clone(), Bound::Unbounded)))
            .take_while(move |(key, _)| namespace.is_none_or(|n| key.namespace == n))
    }

    /// How many objects a collection holds, in one namespace or in all.
    pub fn count(&self, resource: &GroupResource, namespace: Option<&str>) -> usize {
        match namespace {
            None => self
                .collections
                .get(resource)
                .map_or(0, |c| c.objects.len()),
            some => self.range(resource, some, None).count(),
        }
    }

    /// The collections that hold or held something.
    pub fn resources(&self) -> impl Iterator<Item = &GroupResource> {
        self.collections.keys()
    }

    /// The events after `revision`, oldest first.
    ///
    /// # Errors
    /// [`Forgotten`] if the history does not go back to `revision`.
    pub fn events_since(
        &self,
        resource: &GroupResource,
        revision: u64,
    ) -> Result<impl DoubleEndedIterator<Item = &Event> + use<'_>, Forgotten> {
        let collection = self.collections.get(resource);
        let oldest = collection.map_or(self.floor, |c| c.floor.max(self.floor));
        self.events_beyond(resource, revision, oldest)
    }

    /// What an open watch that has seen everything up to `revision` has still to
    /// see. Unlike [`Store::events_since`] it goes by what was really dropped: a
    /// watch stays open while the history before it is forgotten.
    ///
    /// # Errors
    /// [`Forgotten`] if the history does not go back to `revision`.
    pub fn events_for(
        &self,
        resource: &GroupResource,
        namespace: Option<&str>,
        revision: u64,
    ) -> Result<impl DoubleEndedIterator<Item = &Event> + use<'_>, Forgotten> {
        let collection = self.collections.get(resource);
        let oldest = collection.map_or(0, |c| c.audience.lost(namespace));
        self.events_beyond(resource, revision, oldest)
    }

    fn events_beyond(
        &self,
        resource: &GroupResource,
        asked: u64,
        oldest: u64,
    ) -> Result<impl DoubleEndedIterator<Item = &Event> + use<'_>, Forgotten> {
        if asked < oldest {
            return Err(Forgotten { asked, oldest });
        }
        let collection = self.collections.get(resource);
        Ok(collection.into_iter().flat_map(move |c| c.since(asked)))
    }

    /// Tells when a collection changes in one namespace, or anywhere (the value
    /// is the revision).
    pub fn subscribe(
        &mut self,
        resource: &GroupResource,
        namespace: Option<&str>,
    ) -> watch::Receiver<u64> {
        self.collection(resource).audience.subscribe(namespace)
    }

    /// Wakes those who watch a collection although nothing in it changed.
    pub fn wake(&mut self, resource: &GroupResource) {
        if let Some(collection) = self.collections.get(resource) {
            collection.audience.wake();
        }
    }

    /// Tells when anything changes.
    pub fn subscribe_all(&self) -> watch::Receiver<u64> {
        self.progress.subscribe()
    }

    /// Creates or replaces an object; stamps its resourceVersion.
    pub fn put(&mut self, resource: &GroupResource, key: Key, value: Value, epoch: u64) -> Object {
        self.revision += 1;
        let change = match self.get(resource, &key) {
            Some(_) => Change::Modified,
            None => Change::Added,
        };
        let object = self.stamped(value, epoch, change);
        let objects = &mut self.collection(resource).objects;
        let previous = Arc::make_mut(objects).insert(key.clone(), object.clone());
        self.record(resource, change, key, object.clone(), previous);
        object
    }

    /// Puts an object where it would have been before anything else, unless there is one or
    /// it was removed: nobody is told, and what is saved does not have it.
    pub(crate) fn put_first(
        &mut self,
        resource: &GroupResource,
        key: Key,
        value: Value,
        epoch: u64,
    ) {
        let collection = self.collection(resource);
        collection.first.insert(key.clone());
        if collection.gone.contains(&key) || collection.objects.contains_key(&key) {
            return;
        }
        let warmth = &self.warmth;
        let scratch = &mut self.scratch;
        let object = Stored::stamped(value, FIRST, epoch, Change::Added, warmth, scratch);
        let collection = self.collection(resource);
        Arc::make_mut(&mut collection.objects).insert(key, object);
    }

    /// Removes an object; `None` if there is none. The event carries the last
    /// stored state, with the revision of the removal.
    pub fn remove(&mut self, resource: &GroupResource, key: &Key) -> Option<Object> {
        let collection = self.collections.get_mut(resource)?;
        // Only a removal copies what a snapshot shares.
        if !collection.objects.contains_key(key) {
            return None;
        }
        let previous = Arc::make_mut(&mut collection.objects).remove(key)?;
        if collection.first.contains(key) {
            Arc::make_mut(&mut collection.gone).insert(key.clone());
        }
        self.revision += 1;
        let object = self.stamped(previous.to_value(), previous.epoch(), Change::Deleted);
        self.record(
            resource,
            Change::Deleted,
            key.clone(),
            object.clone(),
            Some(previous),
        );
        Some(object)
    }

    fn stamped(&mut self, value: Value, epoch: u64, change: Change) -> Object {
        let (revision, warmth) = (self.revision, &self.warmth);
        Stored::stamped(value, revision, epoch, change, warmth, &mut self.scratch)
    }

    /// Lets go of the trees of objects, if there are too many: to be called between
    /// requests.
    pub fn cool(&mut self) {
        let warm = self.warmth.load(Ordering::Relaxed);
        if warm < MAX_WARM_BYTES {
            return;
        }
        let sizes = self
            .collections
            .values()
            .map(|c| c.objects.len() + c.log.len());
        if warm < sizes.sum::<usize>() * WARM_BYTES_EACH {
            return;
        }
        // One walk over everything for as much parsing as a thousand objects
        // need, so that it hardly counts.
        self.warmth.store(0, Ordering::Relaxed);
        for collection in self.collections.values_mut() {
            // What a snapshot holds as well would stay as it is there.
            if let Some(objects) = Arc::get_mut(&mut collection.objects) {
                objects.values_mut().for_each(cool);
            }
            if let Some(log) = Arc::get_mut(&mut collection.log) {
                log.iter_mut().for_each(Event::cool);
            }
        }
    }

    /// Forgets the history up to now, as an etcd compaction does.
    pub fn compact(&mut self) {
        self.floor = self.revision;
        for collection in self.collections.values_mut() {
            for event in collection.log.iter() {
                collection.audience.lose(event);
            }
            collection.log = Arc::default();
            collection.log_bytes = 0;
            collection.floor = self.revision;
        }
    }

    fn collection(&mut self, resource: &GroupResource) -> &mut Collection {
        let floor = self.floor;
        self.collections
            .entry(resource.clone())
            .or_insert_with(|| Collection::new(floor))
    }

    fn record(
        &mut self,
        resource: &GroupResource,
        change: Change,
        key: Key,
        object: Object,
        previous: Option<Object>,
    ) {
        let (revision, history) = (self.revision, self.history);
        let collection = self.collection(resource);
        collection.audience.tell(&key.namespace, revision);
        let event = Event {
            revision,
            change,
            key,
            object,
            previous,
        };
        collection.log_bytes += event.size();
        let log = Arc::make_mut(&mut collection.log);
        log.push_back(event);
        while log.len() > history || collection.log_bytes > MAX_LOG_BYTES {
            let Some(event) = log.pop_front() else {
                break;
            };
            collection.log_bytes -= event.size();
            collection.floor = event.revision;
            collection.audience.lose(&event);
        }
        self.progress.send_replace(revision);
    }
}

#[cfg(test)]
mod tests;
