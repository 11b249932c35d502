//! How a cache comes to know what is in some places only: each of them has a watch,
//! whose lists say nothing of the others.

use std::collections::HashSet;

use kite_cluster::{Lenient, Object, ObjectKey};
use kube::runtime::watcher::Event;

use super::{CacheWriter, gone};
use crate::cache::reach::{Place, Reach};

impl<K: Object> CacheWriter<K> {
    /// Nothing is known but of the places that are listed from now on.
    pub(in crate::cache) fn confine(&self) {
        *self.table.reach.write() = Reach::nowhere();
    }

    /// So many places are to be listed.
    pub(in crate::cache) fn want(&self, places: usize) {
        self.table.reach.write().want(places);
    }

    /// The places that were there first were listed, or could not be: reads of the
    /// others are requests, and nobody waits any more.
    pub(in crate::cache) fn begin(&self) {
        self.table.filled.send_replace(true);
    }

    /// Whether reads of the place are answered from the cache.
    pub(in crate::cache) fn knows(&self, place: &Place) -> bool {
        self.table.reach.read().has(place)
    }

    /// Whether reads of any namespace are.
    pub(in crate::cache) fn knows_any_namespace(&self) -> bool {
        self.table.reach.read().has_any_namespace()
    }

    /// As [`lost`](Self::lost), for one place.
    pub(in crate::cache) fn lost_in(&self, place: &Place) {
        self.table.reach.write().remove(place);
    }

    /// This is all that there is in the place, of which nothing was known before if
    /// `is_first`. Gives whether an object that could not be read is gone, or can be read
    /// now.
    pub(in crate::cache) fn list_in(
        &mut self,
        place: &Place,
        listed: Vec<Lenient<K>>,
        is_first: bool,
        mut touched: impl FnMut(&K),
    ) -> bool {
        let mut absent: HashSet<_> = if is_first {
            HashSet::new()
        } else {
            self.keys_in(place).into_iter().collect()
        };
        let mut is_mended = false;
        for object in listed {
            absent.remove(&key_of(&object));
            is_mended |= self.apply_lenient(Event::Apply(object), &mut touched);
        }
        for key in absent {
            is_mended |= self.drop_one(&key, &mut touched);
        }
        self.table.reach.write().add(place);
        is_mended
    }

    /// The place is not watched any more: what was known of it is dropped, and told of
    /// as gone to whoever may look. Gives what [`list_in`](Self::list_in) does.
    pub(in crate::cache) fn leave(&mut self, place: &Place, mut touched: impl FnMut(&K)) -> bool {
        // First: what is dropped must not be taken for absent.
        self.lost_in(place);
        let mut is_mended = false;
        for key in self.keys_in(place) {
            is_mended |= self.drop_one(&key, &mut touched);
        }
        self.table.forget_written(|key| place.has(key));
        is_mended
    }

    /// The keys of all that is known of the place.
    fn keys_in(&self, place: &Place) -> Vec<ObjectKey> {
        let hidden = self.table.unreadable.read();
        let stored = self.table.shelf.keys();
        let all = stored.iter().map(|key| &**key).chain(hidden.keys());
        all.filter(|key| place.has(key)).cloned().collect()
    }

    /// The object went while nobody watched, or nobody watches it any more. Its version
    /// says nothing of when.
    fn drop_one(&mut self, key: &ObjectKey, mut touched: impl FnMut(&K)) -> bool {
        let stored = self.table.stored(key).ok().flatten();
        if let Some(old) = &stored {
            self.filler.apply(&Event::Delete(K::clone(old)));
            self.index(Some(old), None);
        }
        self.table.has_ended();
        let hidden = self.unhide(key);
        let is_mended = hidden.is_some();
        if let Some(last) = stored.or_else(|| hidden?.last) {
            touched(&gone(&*last));
        }
        is_mended
    }
}

fn key_of<K: Object>(object: &Lenient<K>) -> ObjectKey {
    match object {
        Lenient::Read(object) => ObjectKey::of(&**object),
        Lenient::Unreadable(unread) => unread.key(),
    }
}
