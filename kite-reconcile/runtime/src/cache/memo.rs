//! What a reconcile was settled by, so that the next one need not plan again.
//!
//! A plan is a function of the object, of what was read, of the settings and of
//! the time. When nothing was to be done, and every read would be answered with
//! the same versions now, nothing is to be done now, until the next moment at
//! which time alone calls for something.

use std::{
    collections::HashMap,
    fmt,
    hash::{DefaultHasher, Hash, Hasher as _},
    sync::Arc,
    time::Duration,
};

use jiff::Timestamp;
use kite_cluster::ObjectKey;
use parking_lot::Mutex;

use super::table::Query;

/// What can say whether a read would be answered as before.
pub(super) trait Versions: Send + Sync {
    /// The version of the object with this key, 0 if it is not there. None if
    /// that is not certain.
    fn of(&self, key: &ObjectKey) -> Option<u64>;
    /// A digest of the versions of what the query finds. None if that is not
    /// certain.
    fn of_all(&self, query: &Query) -> Option<u64>;
}

/// One read, and what it was answered with.
pub struct Read {
    versions: Arc<dyn Versions>,
    what: What,
    answer: u64,
}

/// What was read.
pub(super) enum What {
    /// Most keys are the cache's own.
    One(Arc<ObjectKey>),
    All(Box<Query>),
}

impl Read {
    pub(super) fn new(versions: Arc<dyn Versions>, what: What, answer: u64) -> Self {
        Self {
            versions,
            what,
            answer,
        }
    }

    pub(super) fn would_be_the_same(&self) -> bool {
        let now = match &self.what {
            What::One(key) => self.versions.of(key),
            What::All(query) => self.versions.of_all(query),
        };
        now == Some(self.answer)
    }
}

/// The reads that a plan was made from.
pub type Reads = Vec<Read>;

/// A digest of several versions, in whatever order they come.
pub(super) fn digest(mut versions: Vec<u64>) -> u64 {
    versions.sort_unstable();
    let mut hasher = DefaultHasher::new();
    versions.hash(&mut hasher);
    hasher.finish()
}

/// For how long nothing is to be done if nothing changes.
#[derive(Clone, Copy, Debug)]
pub struct Holds {
    /// When time alone calls for something, if it ever does.
    pub until: Option<Timestamp>,
    /// How often to look again all the same.
    pub again: Duration,
}

impl Holds {
    /// How long from `now`; none if it is over.
    fn after(self, now: Timestamp) -> Option<Duration> {
        match self.until {
            Some(until) if until <= now => None,
            Some(until) => Some(self.again.min(until.duration_since(now).unsigned_abs())),
            None => Some(self.again),
        }
    }
}

struct Memo {
    /// The settled object: its uid and version.
    uid: Option<String>,
    version: Option<String>,
    reads: Box<[Read]>,
    holds: Holds,
}

/// What each object was settled by.
#[derive(Default)]
pub struct Memos {
    of: Mutex<HashMap<(&'static str, ObjectKey), Arc<Memo>>>,
}

impl fmt::Debug for Memos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memos").finish_non_exhaustive()
    }
}

impl Memos {
    /// How long nothing is to be done for the object, if that is certain.
    pub fn settled_for<K: kube::Resource>(
        &self,
        kind: &'static str,
        object: &K,
        now: Timestamp,
    ) -> Option<Duration> {
        let key = (kind, ObjectKey::of(object));
        let memo = Arc::clone(self.of.lock().get(&key)?);
        let meta = object.meta();
        let is_same = memo.uid == meta.uid && memo.version == meta.resource_version;
        let left = memo.holds.after(now).filter(|_| is_same)?;
        let is_settled = memo.reads.iter().all(Read::would_be_the_same);
        is_settled.then_some(left)
    }

    /// Nothing was to be done for the object, by these reads.
    pub fn settled<K: kube::Resource>(
        &self,
        kind: &'static str,
        object: &K,
        reads: Reads,
        holds: Holds,
    ) {
        let memo = Memo {
            uid: object.meta().uid.clone(),
            version: object.meta().resource_version.clone(),
            reads: reads.into_boxed_slice(),
            holds,
        };
        let key = (kind, ObjectKey::of(object));
        self.of.lock().insert(key, Arc::new(memo));
    }

    /// How many objects are remembered.
    pub fn remembered(&self) -> usize {
        self.of.lock().len()
    }

    /// Something is to be done for the object, or it is gone.
    pub fn forget(&self, kind: &'static str, key: &ObjectKey) {
        self.of.lock().remove(&(kind, key.clone()));
    }
}
