//! The whole content of a store at one moment, shared with it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use super::{Collection, Event, GroupResource, Key, Object, Store};

/// Objects of a collection, and what was removed of those that are there from the start.
pub(crate) type Remains = (BTreeMap<Key, Object>, BTreeSet<Key>);

/// One collection at that moment.
#[derive(Debug, Clone, Default)]
struct Kept {
    objects: Arc<BTreeMap<Key, Object>>,
    /// What was there before anything else and was removed.
    gone: Arc<BTreeSet<Key>>,
    log: Arc<VecDeque<Event>>,
    log_bytes: usize,
    floor: u64,
}

/// The state of a store, kept. Saving and cloning copy one pointer
/// for each collection; the store copies a collection when it next writes to it.
#[derive(Debug, Clone, Default)]
pub struct Saved {
    revision: u64,
    floor: u64,
    collections: Arc<BTreeMap<GroupResource, Kept>>,
}

impl Saved {
    /// Objects without a history, at a revision; and of each kind what of the objects that
    /// every cluster has from its start was removed.
    pub fn of(
        revision: u64,
        collections: impl IntoIterator<Item = (GroupResource, Remains)>,
    ) -> Self {
        let all = collections.into_iter().map(|(resource, (objects, gone))| {
            let kept = Kept {
                objects: Arc::new(objects),
                gone: Arc::new(gone),
                log: Arc::default(),
                log_bytes: 0,
                floor: revision,
            };
            (resource, kept)
        });
        Self {
            revision,
            floor: revision,
            collections: Arc::new(all.collect()),
        }
    }

    /// The revision of the last change.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// The collections that hold or held something, with their objects.
    pub fn collections(
        &self,
    ) -> impl Iterator<Item = (&GroupResource, &Arc<BTreeMap<Key, Object>>)> {
        self.collections.iter().map(|(r, kept)| (r, &kept.objects))
    }

    /// What was removed of a collection that is there from the start.
    pub(crate) fn gone(&self, resource: &GroupResource) -> impl Iterator<Item = &Key> {
        let kept = self.collections.get(resource);
        kept.into_iter().flat_map(|kept| kept.gone.iter())
    }

    /// The objects of one collection.
    pub fn collection(&self, resource: &GroupResource) -> Option<&Arc<BTreeMap<Key, Object>>> {
        Some(&self.collections.get(resource)?.objects)
    }
}

impl Store {
    /// What the store holds now.
    pub fn save(&self) -> Saved {
        let all = self.collections.iter().map(|(resource, collection)| {
            let kept = Kept {
                objects: collection.kept(),
                gone: Arc::clone(&collection.gone),
                log: Arc::clone(&collection.log),
                log_bytes: collection.log_bytes,
                floor: collection.floor,
            };
            (resource.clone(), kept)
        });
        Saved {
            revision: self.revision,
            floor: self.floor,
            collections: Arc::new(all.collect()),
        }
    }

    /// Takes up exactly where `saved` was, its revision and history included.
    /// For a store that nobody has read from.
    pub fn resume(&mut self, saved: &Saved) {
        self.revision = saved.revision;
        self.floor = saved.floor;
        self.put_in_place(saved, true);
    }

    /// Puts `saved` in place of what is there. The revision goes on: it is the
    /// later of the saved one and the one after the present one, and everything
    /// before it is forgotten. So no client ever sees it go back, and whoever
    /// watches or pages through the abandoned state is told to list again.
    pub fn restore(&mut self, saved: &Saved) {
        self.revision = saved.revision.max(self.revision + 1);
        self.floor = self.revision;
        self.put_in_place(saved, false);
    }

    fn put_in_place(&mut self, saved: &Saved, history: bool) {
        for (resource, collection) in &mut self.collections {
            if !saved.collections.contains_key(resource) {
                collection.objects = Arc::default();
                collection.gone = Arc::default();
                collection.log = Arc::default();
                collection.log_bytes = 0;
                collection.floor = self.floor;
            }
        }
        for (resource, kept) in saved.collections.iter() {
            let floor = self.floor;
            let collection = self
                .collections
                .entry(resource.clone())
                .or_insert_with(|| Collection::new(floor));
            collection.objects = Arc::clone(&kept.objects);
            collection.gone = Arc::clone(&kept.gone);
            (collection.log, collection.log_bytes, collection.floor) = if history {
                (Arc::clone(&kept.log), kept.log_bytes, kept.floor)
            } else {
                (Arc::default(), 0, floor)
            };
        }
        for collection in self.collections.values_mut() {
            // With its history, all that the log has is still there to be seen.
            let lost = if history {
                collection.floor
            } else {
                self.revision
            };
            collection.audience.begin_anew(lost, self.revision);
        }
        self.progress.send_replace(self.revision);
    }
}
