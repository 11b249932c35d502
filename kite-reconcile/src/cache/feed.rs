//! How a cache comes to know what it knows.

use std::{collections::HashSet, sync::Arc};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kite_core::cluster::{Object, ObjectKey};
use kube::runtime::{reflector::store::Writer, watcher::Event};

use super::table::Table;

/// Fills the cache of one kind with the events of a watch, which somebody else
/// makes: [`watcher`](kube::runtime::watcher()) or a simulation.
pub struct Feeder<K: Object> {
    writer: Writer<K>,
    table: Arc<Table<K>>,
    /// What the list that is coming in has so far.
    listed: HashSet<ObjectKey>,
}

impl<K: Object> std::fmt::Debug for Feeder<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Feeder")
            .field("kind", &K::kind(&()))
            .finish_non_exhaustive()
    }
}

impl<K: Object> Feeder<K> {
    pub(super) fn new(writer: Writer<K>, table: Arc<Table<K>>) -> Self {
        Self {
            writer,
            table,
            listed: HashSet::new(),
        }
    }

    /// The store that it fills.
    pub fn store(&self) -> kube::runtime::reflector::Store<K> {
        self.table.store.clone()
    }

    /// The kind is not installed: as long as it is not, there are no objects of it.
    pub(super) fn not_installed(&self) {
        self.table.filled.send_replace(true);
    }

    /// Takes an event in. `touched` is told each object that the event is about;
    /// at the end of a list also those that are not in it any more, which went
    /// while nobody watched. An object that is gone has a deletionTimestamp: if
    /// it never had one, that of 1970.
    pub fn apply(&mut self, mut event: Event<K>, mut touched: impl FnMut(&K)) {
        if let Event::Apply(object) | Event::InitApply(object) = &mut event {
            (self.table.narrow)(object);
        }
        match &event {
            Event::Init => {
                self.listed.clear();
                self.writer.apply_watcher_event(&event);
            }
            Event::InitApply(object) => {
                self.listed.insert(ObjectKey::of(object));
                self.writer.apply_watcher_event(&event);
            }
            Event::InitDone => self.end_list(&event, touched),
            Event::Apply(object) => {
                let old = self.table.stored(&ObjectKey::of(object));
                self.writer.apply_watcher_event(&event);
                self.index(old.as_deref(), Some(object));
                self.table.shown(object);
                touched(object);
            }
            Event::Delete(object) => {
                let old = self.table.stored(&ObjectKey::of(object));
                self.writer.apply_watcher_event(&event);
                self.index(old.as_deref(), None);
                self.table.shown_gone(object);
                touched(&gone(object));
            }
        }
    }

    fn end_list(&mut self, event: &Event<K>, mut touched: impl FnMut(&K)) {
        let listed = std::mem::take(&mut self.listed);
        let before = self.table.store.state();
        let before: std::collections::HashMap<_, _> = before
            .into_iter()
            .map(|object| (ObjectKey::of(&*object), object))
            .collect();
        self.writer.apply_watcher_event(event);
        for object in self.table.store.state() {
            let old = before.get(&ObjectKey::of(&*object));
            self.index(old.map(|old| &**old), Some(&object));
            self.table.shown(&object);
        }
        let absent = before.iter().filter(|(key, _)| !listed.contains(*key));
        for (_, object) in absent.clone() {
            self.index(Some(object), None);
        }
        self.table.filled.send_replace(true);
        for object in self.table.store.state() {
            touched(&object);
        }
        for (_, object) in absent {
            touched(&gone(object));
        }
    }

    fn index(&self, old: Option<&K>, new: Option<&K>) {
        if let Some(index) = &self.table.index {
            index.change(old, new);
        }
    }
}

/// The object as it is told of when it is gone.
fn gone<K: Object>(object: &K) -> K {
    let mut gone = object.clone();
    let deleted = &mut gone.meta_mut().deletion_timestamp;
    deleted.get_or_insert(Time(Timestamp::UNIX_EPOCH));
    gone
}
