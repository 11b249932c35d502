//! Where the objects of a kind are kept as its watch has shown them.

use std::{collections::HashMap, sync::Arc};

use kite_cluster::{Object, ObjectKey};
use kube::runtime::{
    reflector::{ObjectRef, Store, store::Writer},
    watcher::Event,
};

use super::{
    packed::{self, PackedStore, Unreadable},
    table::version,
};

/// The objects of one kind.
#[derive(Clone)]
pub(super) enum Shelf<K: Object> {
    /// In a store of kube's, which a controller works on: as they are.
    Whole(Store<K>),
    /// Packed: for kinds that are only looked at.
    Packed(Arc<PackedStore<K>>),
}

impl<K: Object> Shelf<K> {
    /// The object with this key.
    pub(super) fn get(&self, key: &ObjectKey) -> Result<Option<Arc<K>>, Unreadable> {
        match self {
            Self::Whole(store) => Ok(store.get(&reference(key))),
            Self::Packed(store) => store.get(key),
        }
    }

    /// The version of the object with this key; none if it is not there, or is
    /// no number.
    pub(super) fn version(&self, key: &ObjectKey) -> Option<u64> {
        self.version_if_there(key).flatten()
    }

    /// Whether there is such an object, and its version, if that is a number.
    #[allow(clippy::option_option, reason = "as the words say")]
    pub(super) fn version_if_there(&self, key: &ObjectKey) -> Option<Option<u64>> {
        match self {
            Self::Whole(store) => Some(version(&*store.get(&reference(key))?)),
            Self::Packed(store) => Some(store.of.read().get(key)?.version()),
        }
    }

    /// Whether another object has the key of `object`.
    pub(super) fn has_another(&self, object: &K) -> bool {
        let key = ObjectKey::of(object);
        match self {
            Self::Whole(store) => store
                .get(&reference(&key))
                .is_some_and(|known| known.meta().uid != object.meta().uid),
            Self::Packed(store) => {
                let all = store.of.read();
                let known = all.get(&key).map(packed::Packed::identity);
                known.is_some_and(|known| known != packed::identity(object))
            }
        }
    }

    /// The versions of all objects, if they are numbers.
    pub(super) fn versions(&self) -> Option<Vec<u64>> {
        match self {
            Self::Whole(store) => store
                .state()
                .iter()
                .map(|object| version(&**object))
                .collect(),
            Self::Packed(store) => store
                .of
                .read()
                .values()
                .map(packed::Packed::version)
                .collect(),
        }
    }

    /// The objects that `wanted` picks.
    pub(super) fn filter(&self, wanted: impl Fn(&K) -> bool) -> Result<Vec<Arc<K>>, Unreadable> {
        match self {
            Self::Whole(store) => Ok(store.state_filter(wanted)),
            Self::Packed(store) => {
                let all = store.of.read();
                all.values()
                    .map(|packed| store.unpack(packed))
                    .filter(|object| object.as_ref().map_or(true, |object| wanted(object)))
                    .collect()
            }
        }
    }

    /// The key, shared with the shelf if it has such an object.
    pub(super) fn shared(&self, key: &ObjectKey) -> Arc<ObjectKey> {
        if let Self::Packed(store) = self
            && let Some((shared, _)) = store.of.read().get_key_value(key)
        {
            return Arc::clone(shared);
        }
        Arc::new(key.clone())
    }

    /// How many objects there are, and the bytes of those that are packed.
    pub(super) fn size(&self) -> (usize, usize) {
        match self {
            Self::Whole(store) => (store.len(), 0),
            Self::Packed(store) => {
                let all = store.of.read();
                (all.len(), all.values().map(packed::Packed::size).sum())
            }
        }
    }

    /// The keys of all objects.
    pub(super) fn keys(&self) -> Vec<Arc<ObjectKey>> {
        match self {
            Self::Whole(store) => {
                let all = store.state();
                all.iter()
                    .map(|object| Arc::new(ObjectKey::of(&**object)))
                    .collect()
            }
            Self::Packed(store) => store.of.read().keys().cloned().collect(),
        }
    }
}

/// What fills a shelf.
pub(super) enum Filler<K: Object> {
    Whole(Writer<K>),
    Packed {
        store: Arc<PackedStore<K>>,
        /// What the list that is coming in has so far.
        coming: packed::Shelf<K>,
    },
}

impl<K: Object> Filler<K> {
    pub(super) fn whole() -> Self {
        Self::Whole(Writer::default())
    }

    pub(super) fn packed() -> Self {
        Self::Packed {
            store: Arc::default(),
            coming: HashMap::new(),
        }
    }

    /// The shelf that it fills.
    pub(super) fn shelf(&self) -> Shelf<K> {
        match self {
            Self::Whole(writer) => Shelf::Whole(writer.as_reader()),
            Self::Packed { store, .. } => Shelf::Packed(Arc::clone(store)),
        }
    }

    /// Takes an event in that does not end a list.
    pub(super) fn apply(&mut self, event: &Event<K>) {
        let (store, coming) = match self {
            Self::Whole(writer) => return writer.apply_watcher_event(event),
            Self::Packed { store, coming } => (store, coming),
        };
        match event {
            Event::Init => *coming = HashMap::new(),
            Event::InitApply(object) => {
                coming.insert(Arc::new(ObjectKey::of(object)), store.pack(object));
            }
            Event::Apply(object) => {
                let packed = store.pack_warm(object);
                store
                    .of
                    .write()
                    .insert(Arc::new(ObjectKey::of(object)), packed);
            }
            Event::Delete(object) => {
                store.forget(&ObjectKey::of(object));
            }
            Event::InitDone => drop(self.end_list()),
        }
    }

    /// Puts the list that came in on the shelf, and gives what was there before.
    pub(super) fn end_list(&mut self) -> Before<K> {
        match self {
            Self::Whole(writer) => {
                let before = writer.as_reader().state().into_iter();
                let before = before
                    .map(|object| (ObjectKey::of(&*object), object))
                    .collect();
                writer.apply_watcher_event(&Event::InitDone);
                Before::Whole(before)
            }
            Self::Packed { store, coming } => {
                coming.shrink_to_fit();
                let before = store.replace(std::mem::take(coming));
                Before::Packed(Arc::clone(store), before)
            }
        }
    }
}

/// What was on a shelf before a list.
pub(super) enum Before<K: Object> {
    Whole(HashMap<ObjectKey, Arc<K>>),
    Packed(Arc<PackedStore<K>>, packed::Shelf<K>),
}

impl<K: Object> Before<K> {
    /// The object that had this key.
    pub(super) fn get(&self, key: &ObjectKey) -> Option<Arc<K>> {
        match self {
            Self::Whole(all) => all.get(key).cloned(),
            Self::Packed(store, all) => store.unpack(all.get(key)?).ok(),
        }
    }

    /// The object that had the key of `object`, if it was another.
    pub(super) fn another(&self, object: &K) -> Option<Arc<K>> {
        let key = ObjectKey::of(object);
        if let Self::Packed(_, all) = self {
            // Most are the same, and need not be unpacked to be told so.
            all.get(&key)
                .filter(|known| known.identity() != packed::identity(object))?;
        }
        self.get(&key)
            .filter(|known| known.meta().uid != object.meta().uid)
    }

    /// The keys of all that are not on `shelf` any more.
    pub(super) fn gone_from(&self, now: &Shelf<K>) -> Vec<ObjectKey> {
        let is_gone = |key: &&ObjectKey| now.version_if_there(key).is_none();
        match self {
            Self::Whole(all) => all.keys().filter(is_gone).cloned().collect(),
            Self::Packed(_, all) => {
                let keys = all.keys().map(|key| &**key);
                keys.filter(is_gone).cloned().collect()
            }
        }
    }
}

fn reference<K: Object>(key: &ObjectKey) -> ObjectRef<K> {
    let mut reference = ObjectRef::new(&key.name);
    reference.namespace.clone_from(&key.namespace);
    reference
}
