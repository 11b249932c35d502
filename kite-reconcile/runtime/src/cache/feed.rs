//! How a cache comes to know what it knows.

mod within;

use std::{collections::HashMap, sync::Arc};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kite_cluster::{Lenient, Object, ObjectKey, Unread};
use kube::{
    ResourceExt as _,
    runtime::{reflector::Store, watcher::Event},
};

use super::{
    shelf::{Filler, Shelf},
    table::{self, Hidden, Table},
};

/// Fills the cache of one kind with the events of a watch, which somebody else
/// makes: [`watcher`](kube::runtime::watcher()) or a simulation.
pub struct CacheWriter<K: Object> {
    filler: Filler<K>,
    table: Arc<Table<K>>,
    /// Objects that cannot be read in the list that is coming in.
    unread_listed: HashMap<ObjectKey, Unread>,
}

impl<K: Object> std::fmt::Debug for CacheWriter<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CacheWriter")
            .field("kind", &K::kind(&()))
            .finish_non_exhaustive()
    }
}

/// The recommended label of who manages an object.
const MANAGED_BY: &str = "app.kubernetes.io/managed-by";

/// Whether an object may not lead back to whom it belonged to. Most are spared the
/// look at how they were by this.
fn looks_lost<K: Object>(object: &K) -> bool {
    object.owner_references().is_empty() || !object.labels().contains_key(MANAGED_BY)
}

/// Whether an object may lead back to somebody else than it did.
fn is_moved<K: Object>(old: &K, new: &K) -> bool {
    old.labels() != new.labels() || old.owner_references() != new.owner_references()
}

impl<K: Object> CacheWriter<K> {
    pub(super) fn new(filler: Filler<K>, table: Arc<Table<K>>) -> Self {
        Self {
            filler,
            table,
            unread_listed: HashMap::new(),
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
        self.table.is_synced()
    }

    /// Takes an event in of an object that may not have been read: the API server
    /// is asked for such a one whenever somebody reads it, who is then told why it
    /// cannot be read; lists say that they lack it. The others are not concerned.
    /// Gives whether one that could not be read is gone, or can be read now.
    pub(super) fn apply_lenient(
        &mut self,
        event: Event<Lenient<K>>,
        touched: impl FnMut(&K),
    ) -> bool {
        match event {
            Event::Init => self.take_in(Event::Init, touched),
            Event::InitDone => self.take_in(Event::InitDone, touched),
            Event::Apply(Lenient::Read(object)) => self.take_in(Event::Apply(*object), touched),
            Event::InitApply(Lenient::Read(object)) => {
                self.take_in(Event::InitApply(*object), touched)
            }
            Event::Delete(Lenient::Read(object)) => self.take_in(Event::Delete(*object), touched),
            Event::Apply(Lenient::Unreadable(unread)) => {
                complain::<K>(&unread);
                self.hide(&unread, touched);
                false
            }
            Event::InitApply(Lenient::Unreadable(unread)) => {
                complain::<K>(&unread);
                self.unread_listed.insert(unread.key(), *unread);
                false
            }
            Event::Delete(Lenient::Unreadable(unread)) => self.forget_hidden(&unread, touched),
        }
    }

    /// An object cannot be read any more. It is told of as it was.
    fn hide(&mut self, unread: &Unread, mut touched: impl FnMut(&K)) {
        let key = unread.key();
        self.table.come_to(&unread.meta);
        let stored = self.table.stored(&key).ok().flatten();
        {
            let mut all = self.table.unreadable.write();
            let earlier = all.remove(&key).and_then(|hidden| hidden.last);
            let last = stored
                .clone()
                .or(earlier)
                .filter(|last| is_of(last, unread));
            all.insert(
                key,
                Hidden {
                    unread: unread.clone(),
                    last,
                },
            );
        }
        if let Some(old) = stored {
            self.filler.apply(&Event::Delete((*old).clone()));
            self.index(Some(&old), None);
            touched(&as_it_is_now(&old, is_of(&old, unread)));
        }
    }

    /// An object is gone that could not be read at last, but maybe before.
    fn forget_hidden(&mut self, unread: &Unread, mut touched: impl FnMut(&K)) -> bool {
        let key = unread.key();
        self.table.come_to(&unread.meta);
        let hidden = self.table.unreadable.write().remove(&key);
        let last = match hidden {
            Some(hidden) => hidden.last,
            None => self.table.stored(&key).ok().flatten(),
        };
        if let Some(last) = last {
            let _ = self.take_in(Event::Delete((*last).clone()), &mut touched);
        }
        true
    }

    /// Takes an event in. `touched` is told each object that the event is about;
    /// at the end of a list also those that are not in it any more, which went
    /// while nobody watched. An object that is gone has a deletionTimestamp: if
    /// it never had one, that of 1970. So it is if another is there under its name.
    /// Of an object that has lost its labels or its owners it is told as it was,
    /// too: whose it was may not show any more.
    pub fn apply(&mut self, event: Event<K>, touched: impl FnMut(&K)) {
        self.take_in(event, touched);
    }

    /// As [`apply`](Self::apply); gives what [`apply_lenient`](Self::apply_lenient)
    /// does.
    fn take_in(&mut self, mut event: Event<K>, mut touched: impl FnMut(&K)) -> bool {
        if let Event::Apply(object) | Event::InitApply(object) = &mut event {
            (self.table.transform)(object);
        }
        match &event {
            Event::Init => {
                self.unread_listed.clear();
                self.filler.apply(&event);
                false
            }
            Event::InitApply(_) => {
                self.filler.apply(&event);
                false
            }
            Event::InitDone => self.end_list(touched),
            Event::Apply(object) => {
                let key = ObjectKey::of(object);
                let old = self.indexed(&key);
                let replaced = self.replaced(&key, object);
                let moved = self.moved(&key, object).filter(|_| replaced.is_none());
                self.filler.apply(&event);
                self.index(old.as_deref(), Some(object));
                self.table.shown(object);
                let mended = self.unhide(&key);
                let last = mended.as_ref().and_then(|hidden| hidden.last.clone());
                if let Some(old) = replaced.or(moved).or(last) {
                    touched(&as_it_is_now(&old, old.meta().uid == object.meta().uid));
                }
                touched(object);
                mended.is_some()
            }
            Event::Delete(object) => {
                let key = ObjectKey::of(object);
                let old = self.indexed(&key);
                self.filler.apply(&event);
                self.index(old.as_deref(), None);
                self.table.shown_gone(object);
                let mended = self.unhide(&key);
                touched(&gone(object));
                mended.is_some()
            }
        }
    }

    /// The object with this key can be read, or is gone.
    fn unhide(&self, key: &ObjectKey) -> Option<Hidden<K>> {
        // Seldom is there any.
        if self.table.unreadable.read().is_empty() {
            return None;
        }
        self.table.unreadable.write().remove(key)
    }

    fn end_list(&mut self, mut touched: impl FnMut(&K)) -> bool {
        let listed = std::mem::take(&mut self.unread_listed);
        let earlier = self.hide_listed(&listed);
        self.table.begin_anew();
        let before = self.filler.end_list();
        let keys = self.table.shelf.keys();
        let mut newest = 0;
        for key in &keys {
            // Told of already, if it cannot be read.
            let Ok(Some(object)) = self.table.stored(key) else {
                continue;
            };
            if self.table.index.is_some() {
                self.index(before.get(key).as_deref(), Some(&object));
            }
            newest = newest.max(table::version(&*object).unwrap_or_default());
            self.table.shown(&object);
        }
        let absent = before.gone_from(&self.table.shelf);
        for key in &absent {
            self.index(before.get(key).as_deref(), None);
        }
        if !absent.is_empty() {
            self.table.has_ended();
        }
        self.table.end_anew(newest);
        let last = |key: &ObjectKey| {
            let hidden = || earlier.get(key)?.last.clone();
            before.get(key).or_else(hidden)
        };
        let hidden: HashMap<_, _> = listed
            .into_iter()
            .map(|(key, unread)| {
                let last = last(&key).filter(|last| is_of(last, &unread));
                (key, Hidden { unread, last })
            })
            .collect();
        self.table.unreadable.write().clone_from(&hidden);
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
        for (key, object) in absent
            .iter()
            .filter_map(|key| Some((key, before.get(key)?)))
        {
            let is_there = hidden.get(key).is_some_and(|it| it.last.is_some());
            touched(&as_it_is_now(&object, is_there));
        }
        let mut is_mended = false;
        for (key, earlier) in earlier.iter().filter(|(key, _)| !hidden.contains_key(key)) {
            is_mended = true;
            let now = self.table.stored(key).ok().flatten();
            if let Some(last) = &earlier.last {
                let is_there = now.is_some_and(|now| now.meta().uid == last.meta().uid);
                touched(&as_it_is_now(last, is_there));
            }
        }
        is_mended
    }

    /// Hides what the list that is about to stand on the shelf could not read,
    /// together with what was hidden before, which is given back: nobody may take
    /// any of these for absent meanwhile.
    fn hide_listed(&self, listed: &HashMap<ObjectKey, Unread>) -> HashMap<ObjectKey, Hidden<K>> {
        let mut all = self.table.unreadable.write();
        let earlier = all.clone();
        for (key, unread) in listed {
            all.entry(key.clone()).or_insert_with(|| Hidden {
                unread: unread.clone(),
                last: None,
            });
        }
        earlier
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

/// Tells people of an object that cannot be read.
fn complain<K: Object>(unread: &Unread) {
    let (kind, object, why) = (K::kind(&()), unread.key(), &unread.why);
    tracing::error!(%kind, %object, why, "object cannot be read and is left out, mend the field that is named");
}

/// Whether it is the object that cannot be read.
fn is_of<K: Object>(object: &Arc<K>, unread: &Unread) -> bool {
    object.meta().uid == unread.meta.uid
}

/// The object as it is told of, according to whether it is still there.
fn as_it_is_now<K: Object>(object: &Arc<K>, is_there: bool) -> K {
    if is_there {
        K::clone(object)
    } else {
        gone(&**object)
    }
}

/// The object as it is told of when it is gone.
fn gone<K: Object>(object: &K) -> K {
    let mut gone = object.clone();
    let deleted = &mut gone.meta_mut().deletion_timestamp;
    deleted.get_or_insert(Time(Timestamp::UNIX_EPOCH));
    gone
}
