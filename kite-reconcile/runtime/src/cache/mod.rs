//! Reads from caches.
//!
//! ```text
//!           one watch per kind                          ┌─ what the watch has shown
//! API server ───────────────────► CacheWriter ► Table ──┤
//!      ▲  writes, uncached reads                        └─ what was written since
//!      └──────────────── CachedCluster ◄─ reads ── reconcilers
//! ```
//!
//! A [`CachedCluster`] answers reads of the kinds that [`Caches`] hold without a
//! request. A cache is always a little behind; three rules keep that harmless.
//!
//! - **What was written is seen.** The answer of every write is remembered until
//!   the watch shows that version or a later one, or that the object went. After
//!   a write whose outcome is not known, and when the watch does not show in ten
//!   seconds what was written, the next read of the object is a request.
//! - **What destroys, or takes from others, is decided by the API server's own
//!   answers**: [`uncached`] has everything below it read there. Of the objects of
//!   others a cache may only say that they are there. What goes is spared looking
//!   once more for what this process itself has had deleted for it, and seen the
//!   end of: that is certain.
//! - **Writes carry what they rest on**: a uid, a resourceVersion.
//!
//! A kind whose first list is not complete, because it comes in or because the
//! kind is not installed, is read by requests. So is every kind that was not
//! registered: whoever embeds reconcilers may do without caches.
//!
//! A kind may be watched in some namespaces only, each by a watch of its own (see
//! [`Watches::confine`]): what is in any other namespace is read by requests, and so is
//! what is in all of them.
//!
//! Versions are compared as numbers, which Kubernetes promises since 1.35 for
//! resourceVersions of one resource, and which holds of every API server on
//! etcd. Of an object whose version is no number nothing is remembered.

mod cluster;
#[cfg(test)]
mod doubt_tests;
mod feed;
mod index;
pub(crate) mod memo;
mod packed;
mod reach;
pub mod reading;
mod retry;
mod shelf;
mod table;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod watch_tests;
pub mod watches;
#[cfg(test)]
mod within_tests;
mod witness;
#[cfg(test)]
mod witness_tests;
mod written;

use std::{
    any::{Any, TypeId},
    collections::HashMap,
    fmt,
    sync::Arc,
    time::Duration,
};

use kite_cluster::{Object, ObjectKey};
use kube::runtime::reflector::{ObjectRef, Store};
use tokio::sync::watch;

pub use self::table::PATIENCE;
pub use self::watches::{Running, Watches, WithoutListener};
pub use self::{cluster::CachedCluster, feed::CacheWriter, reading::uncached};
use self::{
    index::Index,
    shelf::{Filler, Shelf},
    table::Table,
};
pub use crate::kinds::Indexers;
use crate::kinds::KindOptions;

/// What is known of some kinds of objects. Clones share it.
#[derive(Clone)]
pub struct Caches {
    of: Arc<HashMap<TypeId, Entry>>,
}

/// A [`Table`], whatever its kind.
struct Entry {
    table: Box<dyn Any + Send + Sync>,
    filled: watch::Receiver<bool>,
    stats: Box<dyn Fn() -> CacheStats + Send + Sync>,
}

/// What a cache holds.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CacheStats {
    /// The kind.
    pub kind: String,
    /// How many objects.
    pub objects: usize,
    /// Bytes of the objects that are kept packed.
    pub packed_bytes: usize,
    /// Objects that are there and cannot be read.
    pub unreadable: usize,
    /// Written objects that are remembered since the watch has not shown them.
    pub remembered: usize,
    /// How long ago the oldest of the versions was answered that the watch should have
    /// shown and has not; zero if there is none.
    pub longest_unshown: Duration,
    /// Of a kind that is not watched everywhere: how many places are to be watched.
    pub places_wanted: usize,
    /// In how many of them all is known; reads of the others are requests.
    pub places_known: usize,
}

impl fmt::Debug for Caches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Caches")
            .field("kinds", &self.of.len())
            .finish_non_exhaustive()
    }
}

impl Caches {
    /// Caches of no kind yet.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Whether there is a cache of `K`, synced or not.
    pub fn has<K: Object>(&self) -> bool {
        self.of.contains_key(&TypeId::of::<K>())
    }

    /// Whether the first list of `K` is complete, so that reads are answered
    /// from the cache.
    pub fn is_synced<K: Object>(&self) -> bool {
        self.table::<K>().is_some_and(|table| table.is_synced())
    }

    /// Waits until the first lists of all kinds are complete. It never ends if a
    /// kind is not installed.
    pub async fn synced(&self) {
        for entry in self.of.values() {
            // Without a sender there is nobody left to wait for.
            let _ = entry.filled.clone().wait_for(|filled| *filled).await;
        }
    }

    /// The objects of kind `K` that an index finds by this value, as the watch
    /// has shown them; see [`Indexers::functions`]. None without such an index.
    pub fn by_index<K: Object>(
        &self,
        name: &'static str,
        value: &str,
    ) -> Option<Vec<ObjectRef<K>>> {
        let index = self.table::<K>()?.index.as_ref()?;
        let keys = index.with(name, value).into_iter();
        let references = keys.map(|key| {
            let mut reference = ObjectRef::new(&key.name);
            reference.namespace.clone_from(&key.namespace);
            reference
        });
        Some(references.collect())
    }

    /// How many written objects are remembered that the watches have not shown.
    pub fn remembered(&self) -> usize {
        self.of
            .values()
            .map(|entry| (entry.stats)().remembered)
            .sum()
    }

    /// What is held of each kind, in the order of their names.
    pub fn stats(&self) -> Vec<CacheStats> {
        let mut held: Vec<_> = self.of.values().map(|entry| (entry.stats)()).collect();
        held.sort_by(|a, b| a.kind.cmp(&b.kind));
        held
    }

    fn table<K: Object>(&self) -> Option<&Arc<Table<K>>> {
        self.of.get(&TypeId::of::<K>())?.table.downcast_ref()
    }
}

/// Collects the kinds that are cached.
#[derive(Default)]
pub struct Builder {
    of: HashMap<TypeId, Entry>,
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("kinds", &self.of.len())
            .finish_non_exhaustive()
    }
}

impl Builder {
    /// Reads objects of kind `K` from `store`, which somebody else fills, and
    /// has filled before the first read: as kube's `Controller` does before the
    /// first reconcile.
    #[must_use]
    pub fn store<K: Object>(mut self, store: Store<K>) -> Self {
        let table = Table::new(Shelf::Whole(store), None, |_| {});
        table.filled.send_replace(true);
        self.insert(Arc::new(table));
        self
    }

    /// Reads objects of kind `K` from what is written to the writer. Whatever
    /// `transform` removes is not kept. The objects are in the writer's
    /// [`store`](CacheWriter::store).
    pub fn writer<K: Object>(
        &mut self,
        indexers: Option<Indexers<K>>,
        transform: fn(&mut K),
    ) -> CacheWriter<K> {
        self.filled_by(Filler::whole(), indexers, transform)
    }

    /// As [`writer`](Self::writer), for a kind of which there are many objects and no
    /// controller: they are kept packed, in a tenth of the memory, and unpacked
    /// by whoever reads one.
    pub fn packed<K: Object>(
        &mut self,
        indexers: Option<Indexers<K>>,
        transform: fn(&mut K),
    ) -> CacheWriter<K> {
        self.filled_by(Filler::packed(), indexers, transform)
    }

    /// As [`writer`](Self::writer) or [`packed`](Self::packed), as `options` say. The watch has to
    /// select what they select.
    pub fn writer_for<K: Object>(&mut self, options: &KindOptions<K>) -> CacheWriter<K> {
        if options.is_packed {
            self.packed(options.indexers, options.transform)
        } else {
            self.writer(options.indexers, options.transform)
        }
    }

    fn filled_by<K: Object>(
        &mut self,
        filler: Filler<K>,
        indexers: Option<Indexers<K>>,
        transform: fn(&mut K),
    ) -> CacheWriter<K> {
        let table = Arc::new(Table::new(
            filler.shelf(),
            indexers.map(Index::new),
            transform,
        ));
        self.insert(Arc::clone(&table));
        CacheWriter::new(filler, table)
    }

    fn insert<K: Object>(&mut self, table: Arc<Table<K>>) {
        let counted = Arc::clone(&table);
        let entry = Entry {
            filled: table.filled.subscribe(),
            stats: Box::new(move || counted.stats()),
            table: Box::new(table),
        };
        self.of.insert(TypeId::of::<K>(), entry);
    }

    /// The caches.
    pub fn build(self) -> Caches {
        Caches {
            of: Arc::new(self.of),
        }
    }
}

/// What caches know of an object that somebody was handed.
pub enum Newest<K> {
    /// Nothing newer.
    Given,
    /// This is newer.
    Newer(Box<K>),
    /// Only the API server can tell: a write of it went wrong.
    Ask,
}

/// What is the newest that `caches` know of `object`.
pub fn newest<K: Object>(caches: &Caches, object: &K) -> Newest<K> {
    let Some(table) = caches.table::<K>().filter(|table| table.is_synced()) else {
        return Newest::Given;
    };
    match table.known(&ObjectKey::of(object)) {
        table::Known::There { object: known, .. }
            if table::version(&*known) > table::version(object) =>
        {
            Newest::Newer(Box::new(Arc::unwrap_or_clone(known)))
        }
        table::Known::There { .. } | table::Known::Absent { .. } => Newest::Given,
        table::Known::Ask => Newest::Ask,
    }
}

/// Whether reads of the kind are answered with all that happened until `object` was
/// as it is. Where versions are no numbers that is never known, and without caches
/// it always is.
pub fn has_shown<K: Object>(caches: &Caches, object: &K) -> bool {
    let Some(table) = caches.table::<K>().filter(|table| table.is_synced()) else {
        return true;
    };
    table::version(object).is_some_and(|version| table.is_complete_to(version))
}

/// Whether `object` is what `caches` know of it.
pub fn is_newest<K: Object>(caches: &Caches, object: &K) -> bool {
    let Some(table) = caches.table::<K>().filter(|table| table.is_synced()) else {
        return false;
    };
    matches!(
        table.known(&ObjectKey::of(object)),
        table::Known::There { object: known, .. }
            if known.meta().uid == object.meta().uid
                && known.meta().resource_version == object.meta().resource_version
    )
}
