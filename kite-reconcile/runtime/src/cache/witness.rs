//! Ends that this process knows of for certain, so that nobody need ask for them again.
//!
//! That a cache lacks an object may mean that it is behind. It does not where this
//! process had the object deleted for the sake of another that goes, by its uid, and
//! either the answer said that it is gone or the watch has shown its end since: nobody
//! makes anything any more for what goes. Neither does it where the API server itself
//! has said that there is none, at a time from which on none is made.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use kite_cluster::ObjectKey;
use parking_lot::RwLock;
use tokio::time::Instant;

use super::table::{ANCIENT, now};

/// Ends beyond which those are looked for that can be forgotten.
const MANY: usize = 1024;

/// What has ended, or was told to, of one kind.
#[derive(Default)]
pub(super) struct Ends {
    of: RwLock<HashMap<ObjectKey, End>>,
    /// How many there were that could not be forgotten, when that was last looked at.
    kept: AtomicUsize,
}

struct End {
    /// Uid of the object that goes, for whose sake this one does.
    whose: Arc<str>,
    /// Uid of what had the name; none where nothing was seen under it.
    uid: Option<String>,
    /// Whether its end was witnessed.
    is_over: bool,
    since: Instant,
}

impl End {
    fn is_ancient(&self) -> bool {
        self.since.elapsed() > ANCIENT
    }
}

impl Ends {
    /// The object with this uid is told to go, for the sake of `whose`.
    pub(super) fn begin(&self, key: &ObjectKey, whose: &Arc<str>, uid: &str) {
        let is_known = |end: &End| end.whose == *whose && end.uid.as_deref() == Some(uid);
        let mut of = self.of.write();
        // That it is over stays true.
        if !of.get(key).is_some_and(is_known) {
            let end = End {
                whose: Arc::clone(whose),
                uid: Some(uid.to_owned()),
                is_over: false,
                since: now(),
            };
            self.insert(&mut of, key, end);
        }
    }

    /// The object with this uid is gone.
    pub(super) fn complete(&self, key: &ObjectKey, uid: Option<&str>) {
        // Most of what goes was not told to from here.
        let is_it = |end: &End| uid.is_some() && end.uid.as_deref() == uid;
        if !self.of.read().get(key).is_some_and(is_it) {
            return;
        }
        if let Some(end) = self.of.write().get_mut(key).filter(|end| is_it(end)) {
            (end.is_over, end.since) = (true, now());
        }
    }

    /// The API server has said that there is none, and for the sake of `whose` none is
    /// made any more.
    pub(super) fn absent(&self, key: &ObjectKey, whose: &Arc<str>) {
        let mut of = self.of.write();
        let uid = of.get(key).and_then(|end| end.uid.clone());
        let end = End {
            whose: Arc::clone(whose),
            uid,
            is_over: true,
            since: now(),
        };
        self.insert(&mut of, key, end);
    }

    /// There is an object with this uid: what has ended was another, and says nothing of
    /// this one. Of the same, somebody has only been late to tell. Without a uid all of
    /// it is in doubt.
    pub(super) fn refute(&self, key: &ObjectKey, uid: Option<&str>) {
        let is_another = |end: &End| uid.is_none() || end.uid.as_deref() != uid;
        if self.of.read().get(key).is_some_and(is_another) {
            let mut of = self.of.write();
            if of.get(key).is_some_and(is_another) {
                of.remove(key);
            }
        }
    }

    /// Whether what had this name has ended for the sake of `whose`, and nothing is
    /// known to have come after it.
    pub(super) fn are_over(&self, key: &ObjectKey, whose: &str) -> bool {
        let of = self.of.read();
        of.get(key)
            .is_some_and(|end| end.is_over && &*end.whose == whose && !end.is_ancient())
    }

    /// Forgets all of what is there.
    pub(super) fn forget(&self, is_there: impl Fn(&ObjectKey) -> bool) {
        self.of.write().retain(|key, _| !is_there(key));
    }

    fn insert(&self, of: &mut HashMap<ObjectKey, End>, key: &ObjectKey, end: End) {
        of.insert(key.clone(), end);
        // Only when there are twice as many as had to stay: looking through all of them
        // each time would cost the square of a fleet.
        let kept = self.kept.load(Ordering::Relaxed);
        if of.len() > MANY.max(kept.saturating_mul(2)) {
            of.retain(|_, end| !end.is_ancient());
            self.kept.store(of.len(), Ordering::Relaxed);
        }
    }
}
