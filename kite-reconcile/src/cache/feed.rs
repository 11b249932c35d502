//! How a cache comes to know what it knows.

use std::{collections::HashSet, sync::Arc};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kite_core::{
    cluster::{Object, ObjectKey},
    labels,
};
use kube::{
    ResourceExt as _,
    runtime::{reflector::Store, watcher::Event},
};

use super::{
    lenient::Lenient,
    shelf::{Filler, Shelf},
    table::Table,
};

/// Fills the cache of one kind with the events of a watch, which somebody else
/// makes: [`watcher`](kube::runtime::watcher()) or a simulation.
pub struct Feeder<K: Object> {
    filler: Filler<K>,
    table: Arc<Table<K>>,
    /// Objects that cannot be read in the list that is coming in.
    unread_listed: HashSet<ObjectKey>,
}

impl<K: Object> std::fmt::Debug for Feeder<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Feeder")
            .field("kind", &K::kind(&()))
            .finish_non_exhaustive()
    }
}

/// Whether an object may not lead back to whom it belonged to. Most are spared the
/// look at how they were by this.
fn looks_lost<K: Object>(object: &K) -> bool {
    object.owner_references().is_empty() || !object.labels().contains_key(labels::MANAGED_BY)
}

/// Whether an object may lead back to somebody else than it did.
fn is_moved<K: Object>(old: &K, new: &K) -> bool {
    old.labels() != new.labels() || old.owner_references() != new.owner_references()
}

impl<K: Object> Feeder<K> {
    pub(super) fn new(filler: Filler<K>, table: Arc<Table<K>>) -> Self {
        Self {
            filler,
            table,
            unread_listed: HashSet::new(),
        }
    }

    /// The store that it fills; none if it keeps objects packed.
    pub fn store(&self) -> Option<Store<K>> {
        match &self.table.shelf {
            Shelf::Whole(store) => Some(store.clone()),
            Shelf::Packed(_) => None,
        }
    }

    /// The watch has failed in such a way that the cache may be older than
    /// anybody believes: until the next list is complete, reads are requests.
    pub(super) fn lost(&self) {
        self.table.filled.send_replace(false);
    }

    /// Whether reads are answered from the cache.
    pub(super) fn is_believed(&self) -> bool {
        self.table.is_filled()
    }

    /// Takes an event in of an object that may not have been read: the API
    /// server is asked for such a one whenever somebody reads it, who is then
    /// told why it cannot be read. The others are not concerned.
    pub(super) fn apply_lenient(&mut self, event: Event<Lenient<K>>, touched: impl FnMut(&K)) {
        let object = match &event {
            Event::Init => {
                self.unread_listed.clear();
                return self.apply(Event::Init, touched);
            }
            Event::InitDone => {
                let listed = std::mem::take(&mut self.unread_listed);
                self.table.unreadable.write().clone_from(&listed);
                return self.apply(Event::InitDone, touched);
            }
            Event::Apply(object) | Event::InitApply(object) | Event::Delete(object) => object,
        };
        let key = ObjectKey::of(object);
        if let Lenient::Unreadable(unread) = object {
            let why = &unread.why;
            match event {
                Event::Delete(_) => {
                    self.forget_unread(&key, touched);
                    return;
                }
                Event::InitApply(_) => {
                    self.unread_listed.insert(key.clone());
                }
                _ => {
                    self.table.unreadable.write().insert(key.clone());
                }
            }
            tracing::error!(kind = %K::kind(&()), object = %key, why, "object cannot be read and is left out, mend the field that is named");
            return;
        }
        let unwrap = |object| match object {
            Lenient::Read(object) => Some(*object),
            Lenient::Unreadable(_) => None,
        };
        let read = match event {
            Event::Apply(object) => unwrap(object).map(Event::Apply),
            Event::InitApply(object) => unwrap(object).map(Event::InitApply),
            Event::Delete(object) => unwrap(object).map(Event::Delete),
            Event::Init | Event::InitDone => None,
        };
        if !self.table.unreadable.read().is_empty() {
            self.table.unreadable.write().remove(&key);
        }
        if let Some(event) = read {
            self.apply(event, touched);
        }
    }

    /// An object is gone that could not be read at last, but maybe before.
    fn forget_unread(&mut self, key: &ObjectKey, touched: impl FnMut(&K)) {
        self.table.unreadable.write().remove(key);
        if let Ok(Some(old)) = self.table.stored(key) {
            self.apply(Event::Delete(Arc::unwrap_or_clone(old)), touched);
        }
    }

    /// Takes an event in. `touched` is told each object that the event is about;
    /// at the end of a list also those that are not in it any more, which went
    /// while nobody watched. An object that is gone has a deletionTimestamp: if
    /// it never had one, that of 1970. So it is if another is there under its name.
    /// Of an object that has lost its labels or its owners it is told as it was,
    /// too: whose it was may not show any more.
    pub fn apply(&mut self, mut event: Event<K>, mut touched: impl FnMut(&K)) {
        if let Event::Apply(object) | Event::InitApply(object) = &mut event {
            (self.table.narrow)(object);
        }
        match &event {
            Event::Init | Event::InitApply(_) => self.filler.apply(&event),
            Event::InitDone => self.end_list(touched),
            Event::Apply(object) => {
                let key = ObjectKey::of(object);
                let old = self.indexed(&key);
                let replaced = self.replaced(&key, object);
                let moved = self.moved(&key, object).filter(|_| replaced.is_none());
                self.filler.apply(&event);
                self.index(old.as_deref(), Some(object));
                self.table.shown(object);
                if let Some(old) = replaced {
                    touched(&gone(&*old));
                }
                if let Some(old) = moved {
                    touched(&old);
                }
                touched(object);
            }
            Event::Delete(object) => {
                let old = self.indexed(&ObjectKey::of(object));
                self.filler.apply(&event);
                self.index(old.as_deref(), None);
                self.table.shown_gone(object);
                touched(&gone(object));
            }
        }
    }

    fn end_list(&mut self, mut touched: impl FnMut(&K)) {
        let before = self.filler.end_list();
        let keys = self.table.shelf.keys();
        for key in &keys {
            // Told of already, if it cannot be read.
            let Ok(Some(object)) = self.table.stored(key) else {
                continue;
            };
            if self.table.index.is_some() {
                self.index(before.get(key).as_deref(), Some(&object));
            }
            self.table.shown(&object);
        }
        let absent = before.gone_from(&self.table.shelf);
        for key in &absent {
            self.index(before.get(key).as_deref(), None);
        }
        self.table.filled.send_replace(true);
        for key in &keys {
            if let Ok(Some(object)) = self.table.stored(key) {
                if let Some(replaced) = before.another(&object) {
                    touched(&gone(&*replaced));
                    touched(&object);
                    continue;
                }
                let old = looks_lost(&*object).then(|| before.get(key)).flatten();
                if let Some(old) = old.filter(|old| is_moved(&**old, &*object)) {
                    touched(&old);
                }
                touched(&object);
            }
        }
        for object in absent.iter().filter_map(|key| before.get(key)) {
            touched(&gone(&*object));
        }
    }

    /// The object as it was, if that is needed to find what is indexed under it.
    fn indexed(&self, key: &ObjectKey) -> Option<Arc<K>> {
        self.table.index.as_ref()?;
        self.table.stored(key).ok()?
    }

    /// The object that had the key until now, if it was another: what was told of
    /// it did not include its end.
    fn replaced(&self, key: &ObjectKey, new: &K) -> Option<Arc<K>> {
        if !self.table.shelf.has_another(new) {
            return None;
        }
        self.table.stored(key).ok()?
    }

    /// The object as it was, if it may have belonged to somebody else.
    fn moved(&self, key: &ObjectKey, new: &K) -> Option<Arc<K>> {
        if !looks_lost(new) {
            return None;
        }
        let old = self.table.stored(key).ok()?;
        old.filter(|old| is_moved(&**old, new))
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
