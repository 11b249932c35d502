//! What is known of one kind: what its watch has shown, and what was written
//! and the watch has not shown yet.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use kite_cluster::{Listed, Object, ObjectKey, Unread};
use kube::{
    ResourceExt as _,
    api::{ListParams, ObjectMeta},
};
use parking_lot::{RwLock, RwLockReadGuard};
use tokio::{sync::watch, time::Instant};

use super::{
    CacheStats,
    index::Index,
    memo::{Versions, digest},
    packed::Unreadable,
    reach::Reach,
    shelf::Shelf,
    witness::Ends,
    written::{Doubt, Verdict, Written},
};

/// What is known of an object.
pub(super) enum Known<K> {
    /// It is there. `is_confirmed`: as the watch has shown it.
    There { object: Arc<K>, is_confirmed: bool },
    /// It is not there.
    Absent { is_confirmed: bool },
    /// Only the API server can tell.
    Ask,
}

/// What is known of the objects that a query finds.
pub(super) enum Found<K> {
    /// These are all, but for those that cannot be read. `is_confirmed`: as the
    /// watch has shown them.
    All {
        objects: Vec<Arc<K>>,
        unreadable: Vec<Unread>,
        is_confirmed: bool,
    },
    /// That can be told when the API server was asked for these.
    After(Vec<ObjectKey>),
    /// Only the API server can tell.
    Ask,
}

/// Written objects beyond which those are looked for that can be forgotten.
const MANY: usize = 1024;

/// An object that cannot be read.
#[derive(Clone)]
pub(super) struct Hidden<K> {
    pub(super) unread: Unread,
    /// As it was when it could be read last.
    pub(super) last: Option<Arc<K>>,
}

/// What is known of the objects of one kind.
pub(super) struct Table<K: Object> {
    pub(super) shelf: Shelf<K>,
    pub(super) index: Option<Index<K>>,
    pub(super) transform: fn(&mut K),
    /// Whether the first list is complete.
    pub(super) filled: watch::Sender<bool>,
    /// Where all is known then.
    pub(super) reach: RwLock<Reach>,
    /// Objects that the watch has shown and that cannot be read. They are not on
    /// the shelf.
    pub(super) unreadable: RwLock<HashMap<ObjectKey, Hidden<K>>>,
    written: RwLock<HashMap<ObjectKey, Written<K>>>,
    /// What this process saw the end of.
    pub(super) ends: Ends,
    /// Counts what is noted, so that late answers are known as such.
    noted: AtomicU64,
    /// The latest version of any object that the watch has shown.
    shown: AtomicU64,
    /// The version up to which the shelf has all that happened. It goes back when a
    /// list comes in that is older than what was shown before.
    complete: AtomicU64,
    /// While a list is taken in.
    anew: AtomicBool,
    /// How often objects were shown to be gone.
    ended: AtomicU64,
}

/// When something was asked of the API server: whatever is noted after that may
/// be newer than the answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mark {
    noted: u64,
    /// What the watch had shown by then.
    shown: u64,
    /// How many ends it had shown by then.
    ended: u64,
}

impl<K: Object> Table<K> {
    pub(super) fn new(shelf: Shelf<K>, index: Option<Index<K>>, transform: fn(&mut K)) -> Self {
        Self {
            shelf,
            index,
            transform,
            filled: watch::Sender::new(false),
            reach: RwLock::new(Reach::Everywhere),
            unreadable: RwLock::default(),
            written: RwLock::default(),
            ends: Ends::default(),
            noted: AtomicU64::new(0),
            shown: AtomicU64::new(0),
            complete: AtomicU64::new(0),
            anew: AtomicBool::new(false),
            ended: AtomicU64::new(0),
        }
    }

    pub(super) fn is_synced(&self) -> bool {
        *self.filled.borrow()
    }

    /// Whether reads of this namespace and name are answered from what was shown; of all
    /// names, and in all namespaces, where none is given. What is known there is not
    /// dropped while the answer is held.
    fn reaches(
        &self,
        namespace: Option<&str>,
        name: Option<&str>,
    ) -> Option<RwLockReadGuard<'_, Reach>> {
        let reach = self.reach.read();
        (self.is_synced() && reach.covers(namespace, name)).then_some(reach)
    }

    fn reaches_key(&self, key: &ObjectKey) -> Option<RwLockReadGuard<'_, Reach>> {
        self.reaches(key.namespace.as_deref(), Some(&key.name))
    }

    pub(super) fn known(&self, key: &ObjectKey) -> Known<K> {
        let Some(_reach) = self.reaches_key(key) else {
            return Known::Ask;
        };
        if self.unreadable.read().contains_key(key) {
            return Known::Ask;
        }
        // Before the shelf is looked at: what is shown meanwhile is still among
        // the writes, which would otherwise be in neither.
        let written = self.written.read();
        let Ok(stored) = self.stored(key) else {
            return Known::Ask;
        };
        let verdict = match written.get(key) {
            Some(written) => written.beside(stored.as_deref()),
            None => Verdict::Confirmed,
        };
        match verdict {
            Verdict::There { object, is_settled } => Known::There {
                object,
                is_confirmed: is_settled,
            },
            Verdict::Absent => Known::Absent {
                is_confirmed: stored.is_none(),
            },
            Verdict::Ask => Known::Ask,
            Verdict::Confirmed => match stored {
                Some(object) => Known::There {
                    object,
                    is_confirmed: true,
                },
                None => Known::Absent { is_confirmed: true },
            },
        }
    }

    /// Whether there is certainly no such object, since this process saw the end of what
    /// had its name, for the sake of `whose`. What is known here has to agree.
    pub(super) fn is_surely_gone(&self, key: &ObjectKey, whose: &str) -> bool {
        self.ends.are_over(key, whose) && matches!(self.known(key), Known::Absent { .. })
    }

    /// The API server has just said that there is no such object, and for the sake of
    /// `whose` none is made any more.
    pub(super) fn witness_absence(&self, key: &ObjectKey, whose: &Arc<str>) {
        // Something may have been shown meanwhile.
        if matches!(self.known(key), Known::Absent { .. }) {
            self.ends.absent(key, whose);
        }
    }

    /// What the query finds.
    pub(super) fn find_all(&self, query: &Query) -> Found<K> {
        let Some(_reach) = self.reaches(query.namespace.as_deref(), None) else {
            return Found::Ask;
        };
        // First, as in `known`.
        let written = self.written.read();
        let Ok(candidates) = self.candidates(query) else {
            return Found::Ask;
        };
        let mut found: HashMap<ObjectKey, Arc<K>> = candidates
            .into_iter()
            .filter(|object| query.selects(&**object))
            .map(|object| (ObjectKey::of(&*object), object))
            .collect();
        let mut is_confirmed = true;
        let mut doubted = Vec::new();
        for (key, written) in written.iter() {
            if query.namespace.is_some() && query.namespace != key.namespace {
                continue;
            }
            if !found.contains_key(key) && written.is_surely_not_among(query) {
                continue;
            }
            let Ok(stored) = self.stored(key) else {
                return Found::Ask;
            };
            match written.beside(stored.as_deref()) {
                // It may have been shown since the candidates were taken.
                Verdict::Confirmed => match stored {
                    Some(object) if query.selects(&*object) => {
                        found.insert(key.clone(), object);
                    }
                    Some(_) | None => {
                        found.remove(key);
                    }
                },
                Verdict::Ask => {
                    if written.may_be_among(stored.as_deref(), query) {
                        doubted.push(key.clone());
                    }
                }
                Verdict::There { object, is_settled } if query.selects(&*object) => {
                    is_confirmed &= is_settled;
                    found.insert(key.clone(), object);
                }
                // Not there, or not among those that are asked for.
                Verdict::Absent | Verdict::There { .. } => {
                    is_confirmed &= found.remove(key).is_none();
                }
            }
        }
        drop(written);
        // Of these the shelf may have, for a moment, what they were.
        let hidden = self.unreadable.read();
        let hidden = hidden.values().map(|hidden| &hidden.unread);
        let unreadable: Vec<_> = hidden
            .filter(|unread| query.may_select(unread))
            .cloned()
            .collect();
        for unread in &unreadable {
            found.remove(&unread.key());
        }
        if !doubted.is_empty() {
            // In an order that does not depend on the map's.
            doubted.sort();
            return Found::After(doubted);
        }
        let mut found: Vec<_> = found.into_iter().collect();
        // As an API server lists.
        found.sort_by(|(a, _), (b, _)| a.cmp(b));
        Found::All {
            objects: found.into_iter().map(|(_, object)| object).collect(),
            unreadable,
            is_confirmed,
        }
    }

    /// To be taken before anything is asked of the API server.
    pub(super) fn mark(&self) -> Mark {
        Mark {
            noted: self.noted.load(Ordering::SeqCst),
            shown: self.shown.load(Ordering::SeqCst),
            ended: self.ended.load(Ordering::SeqCst),
        }
    }

    /// The number of what is noted next.
    fn next(&self) -> u64 {
        self.noted.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// The API server has answered with this object to what was asked at `mark`.
    pub(super) fn note(&self, object: &K, mark: Mark) {
        let key = ObjectKey::of(object);
        self.ends.refute(&key, object.meta().uid.as_deref());
        let answered = version(object);
        let mut written = self.written.write();
        let known = written.get(&key);
        if known.is_some_and(|known| known.stands_against(answered, mark.noted)) {
            return;
        }
        let shown = self.shelf.version(&key);
        let Some(answered) = answered.filter(|answered| shown < Some(*answered)) else {
            written.remove(&key);
            return;
        };
        let is_passed = answered <= self.shown.load(Ordering::SeqCst);
        let is_late =
            is_passed && (mark.shown < answered || mark.ended != self.ended.load(Ordering::SeqCst));
        let newer = if is_late && shown.is_none() {
            // The watch has come past this version, and the object is not there: it
            // was shown, and may have been shown to be gone in the meantime.
            Written::unsure(written.get(&key), Doubt::Anything, self.next())
        } else {
            let mut object = object.clone();
            (self.transform)(&mut object);
            Written::there(written.get(&key), object, answered, self.next())
        };
        written.insert(key, newer);
        self.forget_some(&mut written);
    }

    /// The API server has answered to what was asked at `mark` that there is no
    /// such object.
    pub(super) fn note_absence(&self, key: &ObjectKey, mark: Mark) {
        let mut written = self.written.write();
        let known = written.get(key);
        if known.is_some_and(|known| known.is_after(mark.noted)) {
            return;
        }
        let stored = self.stored(key).ok().flatten();
        let stored_at = stored.as_deref().and_then(version);
        if stored_at.is_some_and(|stored_at| mark.shown < stored_at) {
            // It has come since.
            return;
        }
        match Written::gone(known, stored.as_deref(), self.next()) {
            Some(gone) => {
                written.insert(key.clone(), gone);
                self.forget_some(&mut written);
            }
            None => {
                written.remove(key);
            }
        }
    }

    /// What became of a write of this object is not known.
    pub(super) fn doubt(&self, key: ObjectKey, doubt: Doubt) {
        self.ends.refute(&key, None);
        let mut written = self.written.write();
        let unsure = Written::unsure(written.get(&key), doubt, self.next());
        written.insert(key, unsure);
        self.forget_some(&mut written);
    }

    /// Whether the object with this uid is gone is not known.
    pub(super) fn doubt_deletion(&self, key: ObjectKey, uid: &str) {
        self.ends.refute(&key, Some(uid));
        let mut written = self.written.write();
        let stored = self.stored(&key).ok().flatten();
        let doubt = Written::deleted(written.get(&key), stored.as_deref(), uid, self.next());
        // The watch may have been faster than the answer.
        if stored
            .as_deref()
            .is_some_and(|stored| doubt.is_shown(stored))
        {
            written.remove(&key);
            return;
        }
        written.insert(key, doubt);
        self.forget_some(&mut written);
    }

    /// The API server has listed, to what was asked at `mark`, all that the query
    /// finds: whatever else was believed of these is wrong.
    pub(super) fn note_all(&self, query: &Query, found: &Listed<K>, mark: Mark) {
        for object in &found.items {
            self.note(object, mark);
        }
        let is_listed = |key: &ObjectKey| {
            let mut unread = found.unreadable.iter();
            found
                .items
                .iter()
                .any(|object| ObjectKey::of(object) == *key)
                || unread.any(|unread| unread.key() == *key)
        };
        let is_told = |key: &ObjectKey, known: &Written<K>| {
            if query.labels.is_empty() {
                return true;
            }
            let stored = self.stored(key).ok().flatten();
            known.doubted_deletion().is_some() && known.may_be_among(stored.as_deref(), query)
        };
        let known = self.written.read();
        let absent: Vec<_> = known
            .iter()
            .filter(|(key, _)| query.namespace.is_none() || query.namespace == key.namespace)
            .filter(|(key, known)| !is_listed(key) && is_told(key, known))
            .map(|(key, _)| key.clone())
            .collect();
        drop(known);
        for key in absent {
            self.note_absence(&key, mark);
        }
    }

    /// The watch shows this object; the store has it already.
    pub(super) fn shown(&self, object: &K) {
        self.come_to(object.meta());
        let key = ObjectKey::of(object);
        self.ends.refute(&key, object.meta().uid.as_deref());
        self.settle(&key, |written| written.is_shown(object));
    }

    /// The watch shows that this object is gone; so does the store already.
    pub(super) fn shown_gone(&self, object: &K) {
        self.come_to(object.meta());
        self.has_ended();
        let key = ObjectKey::of(object);
        self.ends.complete(&key, object.meta().uid.as_deref());
        self.settle(&key, |written| written.is_shown_gone(object));
    }

    /// The watch has shown that objects are gone.
    pub(super) fn has_ended(&self) {
        self.ended.fetch_add(1, Ordering::SeqCst);
    }

    /// The watch has come to this object's version. Before what was written is
    /// settled: whoever notes an answer does either before that, or sees this.
    pub(super) fn come_to(&self, meta: &ObjectMeta) {
        let version = number(meta).unwrap_or_default();
        self.shown.fetch_max(version, Ordering::SeqCst);
        if !self.anew.load(Ordering::SeqCst) {
            self.complete.fetch_max(version, Ordering::SeqCst);
        }
    }

    /// A list is about to stand on the shelf. What it holds is told one by one, and
    /// until all of it is, whoever reads by the index may miss some.
    pub(super) fn begin_anew(&self) {
        self.anew.store(true, Ordering::SeqCst);
        self.complete.store(0, Ordering::SeqCst);
    }

    /// All that the list holds is told; the newest of it has this version.
    pub(super) fn end_anew(&self, newest: u64) {
        self.anew.store(false, Ordering::SeqCst);
        self.complete.fetch_max(newest, Ordering::SeqCst);
    }

    /// Whether reads are answered with all that happened up to this version. Of several
    /// watches one may have come further than another: then that is never certain.
    pub(super) fn is_complete_to(&self, version: u64) -> bool {
        self.is_synced()
            && self.reach.read().is_everywhere()
            && self.complete.load(Ordering::SeqCst) >= version
    }

    fn settle(&self, key: &ObjectKey, is_settled: impl Fn(&Written<K>) -> bool) {
        if !self.written.read().get(key).is_some_and(&is_settled) {
            return;
        }
        let mut written = self.written.write();
        if written.get(key).is_some_and(is_settled) {
            written.remove(key);
        }
    }

    /// What is held.
    pub(super) fn stats(&self) -> CacheStats {
        let (objects, packed_bytes) = self.shelf.size();
        let reach = self.reach.read();
        let written = self.written.read();
        // What lies where nothing is watched is never shown.
        let watched = written
            .iter()
            .filter(|(key, _)| reach.covers(key.namespace.as_deref(), Some(&key.name)));
        let unshown = watched.filter_map(|(key, one)| {
            let stored = self.stored(key).ok()?;
            one.unshown(stored.as_deref())
        });
        let longest_unshown = unshown.max().unwrap_or_default();
        CacheStats {
            kind: K::kind(&()).into_owned(),
            objects,
            packed_bytes,
            unreadable: self.unreadable.read().len(),
            remembered: written.len(),
            longest_unshown,
            places_wanted: reach.places().0,
            places_known: reach.places().1,
        }
    }

    /// Forgets what the watch has shown since, or what is so old that nobody
    /// asks for it.
    fn forget_some(&self, written: &mut HashMap<ObjectKey, Written<K>>) {
        if written.len() < MANY {
            return;
        }
        written.retain(|key, one| {
            let stored = self.stored(key).ok().flatten();
            let verdict = one.beside(stored.as_deref());
            !matches!(verdict, Verdict::Confirmed) && !one.is_ancient()
        });
    }

    /// Forgets what was written where nothing is watched any more.
    pub(super) fn forget_written(&self, is_there: impl Fn(&ObjectKey) -> bool) {
        self.written.write().retain(|key, _| !is_there(key));
        self.ends.forget(is_there);
    }

    /// The object as the watch has shown it.
    pub(super) fn stored(&self, key: &ObjectKey) -> Result<Option<Arc<K>>, Unreadable> {
        let found = self.shelf.get(key);
        if let Err(error) = &found {
            tracing::error!(kind = %K::kind(&()), object = %key, %error, "cached object cannot be read, the API server is asked");
        }
        found
    }

    /// All that the query can find, and maybe more.
    fn candidates(&self, query: &Query) -> Result<Vec<Arc<K>>, Unreadable> {
        let keys = self.index.as_ref().and_then(|index| index.narrow(query));
        match keys {
            Some(keys) => keys
                .iter()
                .filter_map(|key| self.stored(key).transpose())
                .collect(),
            None => self.shelf.filter(|object| query.selects(object)),
        }
    }

    /// The versions of what the query finds, if they can be told without a look
    /// at the objects.
    fn versions_of_all(&self, query: &Query) -> Option<u64> {
        let _reach = self.reaches(query.namespace.as_deref(), None)?;
        let is_plain = self.written.read().is_empty() && self.unreadable.read().is_empty();
        if !query.labels.is_empty() || !is_plain {
            return None;
        }
        let keys = self.index.as_ref().and_then(|index| index.narrow(query));
        let versions = match keys {
            Some(keys) => keys
                .iter()
                .filter_map(|key| self.shelf.version_if_there(key))
                .collect::<Option<Vec<_>>>(),
            None if query.namespace.is_none() => self.shelf.versions(),
            None => None,
        };
        versions.map(digest)
    }
}

impl<K: Object> Versions for Table<K> {
    fn of(&self, key: &ObjectKey) -> Option<u64> {
        let is_plain =
            !self.written.read().contains_key(key) && !self.unreadable.read().contains_key(key);
        let reach = self.reaches_key(key);
        if is_plain && reach.is_some() {
            return match self.shelf.version_if_there(key) {
                Some(version) => version,
                None => Some(0),
            };
        }
        drop(reach);
        match self.known(key) {
            Known::There {
                object,
                is_confirmed: true,
            } => version(&*object),
            Known::Absent { is_confirmed: true } => Some(0),
            Known::There { .. } | Known::Absent { .. } | Known::Ask => None,
        }
    }

    fn of_all(&self, query: &Query) -> Option<u64> {
        if let Some(versions) = self.versions_of_all(query) {
            return Some(versions);
        }
        match self.find_all(query) {
            Found::All {
                objects,
                unreadable,
                is_confirmed: true,
            } => digest_of(&objects, &unreadable),
            Found::All { .. } | Found::After(_) | Found::Ask => None,
        }
    }
}

/// A digest of these objects' versions.
pub(super) fn digest_of<K: Object>(found: &[Arc<K>], unreadable: &[Unread]) -> Option<u64> {
    let versions = found.iter().map(|object| version(&**object));
    let others = unreadable.iter().map(|unread| number(&unread.meta));
    versions
        .chain(others)
        .collect::<Option<Vec<_>>>()
        .map(digest)
}

/// The resourceVersion as a number, greater in what is newer: Kubernetes
/// promises that since 1.35 for all of its resources, and etcd's revisions
/// always were. Of what gives no number nothing is remembered.
pub(super) fn version<K: Object>(object: &K) -> Option<u64> {
    number(object.meta())
}

fn number(meta: &ObjectMeta) -> Option<u64> {
    let version = meta.resource_version.as_deref()?;
    version.parse().ok().filter(|version| *version != 0)
}

/// A list request that can be answered from a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Query {
    pub(super) namespace: Option<String>,
    /// Labels with the values that they must have.
    pub(super) labels: Vec<(String, String)>,
}

impl Query {
    /// None for what only the API server can answer: other selectors than
    /// equality, pages, and past versions.
    pub(super) fn of(namespace: Option<&str>, params: &ListParams) -> Option<Self> {
        let is_plain = params.field_selector.is_none()
            && params.continue_token.is_none()
            && params.resource_version.is_none();
        if !is_plain {
            return None;
        }
        let terms = params.label_selector.as_deref().unwrap_or_default();
        let labels = terms
            .split(',')
            .filter(|term| !term.is_empty())
            .map(|term| {
                let (key, value) = term.split_once('=')?;
                let is_equality = !key.ends_with('!') && !key.contains([' ', '(']);
                let value = value.strip_prefix('=').unwrap_or(value);
                is_equality.then(|| (key.to_owned(), value.to_owned()))
            })
            .collect::<Option<Vec<_>>>()?;
        Some(Self {
            namespace: namespace.map(str::to_owned),
            labels,
        })
    }

    /// Whether an object that cannot be read may be among what is asked for.
    fn may_select(&self, unread: &Unread) -> bool {
        let is_inside = self.namespace.is_none() || self.namespace == unread.meta.namespace;
        // Its labels may be what cannot be read.
        let labels = unread.meta.labels.as_ref();
        is_inside
            && labels.is_none_or(|labels| {
                let mut asked = self.labels.iter();
                asked.all(|(key, value)| labels.get(key) == Some(value))
            })
    }

    pub(super) fn selects<K: Object>(&self, object: &K) -> bool {
        let meta = object.meta();
        let is_inside = self.namespace.is_none() || self.namespace == meta.namespace;
        is_inside
            && self
                .labels
                .iter()
                .all(|(key, value)| object.labels().get(key) == Some(value))
    }
}

/// How long the watch may take to show what was written, before the API server
/// is asked again.
pub const PATIENCE: std::time::Duration = std::time::Duration::from_secs(10);
/// When even what was never confirmed is forgotten.
pub(super) const ANCIENT: std::time::Duration = std::time::Duration::from_secs(600);

pub(super) fn now() -> Instant {
    Instant::now()
}
