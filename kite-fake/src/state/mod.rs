//! The state of a whole cluster: kept, put back, read, compared, filed.
//!
//! A [`Snapshot`] holds everything that the server knows: objects and their
//! history, the revision, the served kinds, the tokens, and where the sequence
//! of identifiers stands (allocations, such as cluster IPs, are read from the
//! objects). It shares all of it with the cluster, so that taking one costs a
//! pointer for each kind of object.
//!
//! ```
//! use kite_fake::FakeCluster;
//! use serde_json::json;
//!
//! let cluster = FakeCluster::builder().build()?;
//! let before = cluster.snapshot();
//! cluster.create(&json!({
//!     "apiVersion": "v1", "kind": "ConfigMap",
//!     "metadata": {"name": "a", "namespace": "default"},
//! }))?;
//! let diff = before.diff(&cluster.snapshot());
//! assert_eq!(diff.to_string(), "+ ConfigMap default/a\n");
//!
//! cluster.restore(&before);
//! assert!(before.diff(&cluster.snapshot()).is_empty());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Putting a state back
//!
//! There are two ways, for two purposes.
//!
//! * [`FakeCluster::restore`] does to a *running* cluster what restoring etcd
//!   from a backup with `--bump-revision --mark-compacted` does: the objects are
//!   the old ones, with their old resourceVersions, but the revision goes on and
//!   never back. Open watches get `ERROR` with code 410, so clients list again;
//!   `continue` tokens and old resourceVersions are expired. Identifiers go on
//!   from where they stood at the snapshot: the same requests give the same uids
//!   and names again, so whoever keeps uids of the abandoned time must forget
//!   them.
//! * [`Builder::snapshot`](crate::Builder::snapshot) starts a *new* cluster that
//!   is the old one to the last detail, its revision and history included: what
//!   clients do to it then has the same answers. This is the way to try several
//!   continuations of one state.
//!
//! Not part of a state: the clock, the request log, whether RBAC decides,
//! webhooks, extensions and actors. Those belong to a cluster, not to what is
//! stored in it.

mod diff;
mod dump;
mod file;
mod id;
mod normal;
mod view;

use std::fmt;

use jiff::Timestamp;
use serde_json::Value;

use crate::FakeCluster;
use crate::auth::Tokens;
use crate::clock::Ids;
use crate::registry::Registry;
use crate::server::ApiServer;
use crate::store::{GroupResource, Key, Object, Saved};

pub use diff::{Diff, Difference, FieldChange};
pub use file::FileError;
pub use id::ObjectId;
pub use view::View;

pub(crate) use diff::field_changes;
pub(crate) use normal::without_uids;

/// See the [module documentation](self). Clones share everything.
#[derive(Clone)]
pub struct Snapshot {
    store: Saved,
    registry: Registry,
    ids: Ids,
    tokens: Tokens,
    taken: Timestamp,
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snapshot")
            .field("revision", &self.revision())
            .field("objects", &self.len())
            .field("taken", &self.taken)
            .finish_non_exhaustive()
    }
}

impl Snapshot {
    /// The revision of the last change.
    pub fn revision(&self) -> u64 {
        self.store.revision()
    }

    /// When it was taken, by the cluster's clock.
    pub fn taken(&self) -> Timestamp {
        self.taken
    }

    /// How many objects there are.
    pub fn len(&self) -> usize {
        self.store
            .collections()
            .map(|(_, objects)| objects.len())
            .sum()
    }

    /// Whether there is no object at all.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All objects as they are stored, by group, plural, namespace and name.
    pub fn objects(&self) -> impl Iterator<Item = (&GroupResource, &Key, &Object)> {
        self.store.collections().flat_map(|(resource, objects)| {
            objects
                .iter()
                .map(move |(key, object)| (resource, key, object))
        })
    }

    /// One object; the namespace of cluster-scoped ones is empty.
    pub fn get(&self, resource: &GroupResource, namespace: &str, name: &str) -> Option<&Object> {
        let objects = self.store.collection(resource)?;
        objects.get(&Key::new(namespace, name))
    }

    /// The kinds that were served.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// The objects in YAML, for people: sorted by kind, namespace and name, and
    /// without `managedFields`.
    ///
    /// ```
    /// # let cluster = kite_fake::FakeCluster::builder().build()?;
    /// let text = cluster.snapshot().dump();
    /// assert!(text.contains("# Namespace kube-system\n"));
    /// assert!(!text.contains("managedFields"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn dump(&self) -> String {
        self.dump_with(&View::default())
    }

    /// The objects in YAML, as `view` says.
    pub fn dump_with(&self, view: &View) -> String {
        dump::text(self, view)
    }

    /// What changed from this state to `other`, leaving aside `managedFields`
    /// and resourceVersions.
    pub fn diff(&self, other: &Self) -> Diff {
        self.diff_with(other, &View::default())
    }

    /// What changed from this state to `other`, as `view` sees both.
    pub fn diff_with(&self, other: &Self, view: &View) -> Diff {
        diff::between(self, other, view)
    }

    /// The objects that `view` selects, as it shows them.
    pub fn view(&self, view: &View) -> std::collections::BTreeMap<ObjectId, Value> {
        view.of(self)
    }

    /// Lets the revision go on by so many, as `etcdutl snapshot restore
    /// --bump-revision` does, and forgets the history: for a state that was
    /// filed a while before its cluster ended, so that clients have seen later
    /// revisions.
    #[must_use]
    pub fn bump_revision(mut self, by: u64) -> Self {
        let collections = self.store.collections();
        let collections: Vec<_> = collections
            .map(|(resource, objects)| {
                let gone = self.store.gone(resource).cloned().collect();
                (resource.clone(), (objects.as_ref().clone(), gone))
            })
            .collect();
        self.store = Saved::of(self.revision().saturating_add(by), collections);
        self
    }
}

impl ApiServer {
    /// Everything that the server knows at the moment.
    pub fn snapshot(&self, now: Timestamp) -> Snapshot {
        Snapshot {
            store: self.store.save(),
            registry: self.registry.clone(),
            ids: self.ids,
            tokens: self.tokens.clone(),
            taken: now,
        }
    }

    /// Puts a state in place of the present one; see [the module](self).
    pub fn restore(&mut self, snapshot: &Snapshot) {
        self.registry.restore(&snapshot.registry);
        self.store.restore(&snapshot.store);
        self.take_up(snapshot);
    }

    /// Goes on exactly where a state ended; see [the module](self).
    pub(crate) fn resume(&mut self, snapshot: &Snapshot) {
        self.registry = snapshot.registry.clone();
        self.store.resume(&snapshot.store);
        self.take_up(snapshot);
    }

    fn take_up(&mut self, snapshot: &Snapshot) {
        self.ids = snapshot.ids;
        drop(std::mem::take(self.allocations.get_mut()));
        self.start_fresh();
        self.forget_signer();
        self.tokens = snapshot.tokens.clone();
        self.read_hooks();
    }
}

impl FakeCluster {
    /// The state of the whole cluster, to [`restore`](Self::restore), read,
    /// compare or file. See [`state`](self).
    pub fn snapshot(&self) -> Snapshot {
        let now = self.now();
        self.server().snapshot(now)
    }

    /// Puts a state in place of the present one, of this cluster or of another:
    /// clients are told to list again, the revision never goes back, and this
    /// cluster's [`admin_token`](Self::admin_token) stays valid. See
    /// [`state`](self).
    pub fn restore(&self, snapshot: &Snapshot) {
        let mut server = self.server();
        server.restore(snapshot);
        self.admit_admin(&mut server);
    }

    /// The objects in YAML, for people: see [`Snapshot::dump`].
    pub fn dump(&self) -> String {
        self.snapshot().dump()
    }
}

#[cfg(test)]
mod tests;
