//! Which sessions count which, as their objects say it.
//!
//! Each session is counted once, by whichever replica, and wherever one is broken off. This
//! follows from:
//!
//! - A session that is to be counted names by an annotation who counts it, before it is. The
//!   API server takes one write of a version of it, so that of several replicas one decides,
//!   and all others keep to that for as long as who is named is there.
//! - Who is to count others is written before any of them names it: that makes another
//!   version of it. So of two replicas, of which one has it count and the other has it
//!   counted, only one gets on, and no two sessions name each other, nor more of them in a
//!   circle, in which each would wait for the next.
//! - Who counts others names them in [`counted`] by the write that raises the count, and goes
//!   on naming those that are still there. That is one write of a version as well: whoever
//!   makes it has seen all that were counted before. Who is named there is only deleted.
//! - Who stands for others may be counted by another one like any session, but not before all
//!   that it counted are gone. Once it names who counts it, it is another version, so that
//!   nobody can add to it any more.
//!
//! What is looked at has to be the copy as of one moment, as a watch of the whole kind gives
//! it: who is not in it, and was named by somebody in it, is gone for good.
//!
//! [`counted`]: kite_core::crd::EarlierConnections::counted

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use kite_core::{cluster::ObjectKey, crd::KiteConnection};
use kube::ResourceExt as _;

/// The annotation of a session that is to be counted: the name of the one that counts it.
pub(super) const COUNTED_BY: &str = "hy3ons.github.io/counted-by";

/// The annotation of a session that is about to count others: another text each time.
pub(super) const ABOUT_TO_COUNT: &str = "hy3ons.github.io/about-to-count";

/// The name of the one that is to count `connection`, whether that is there or not.
pub(super) fn named_by(connection: &KiteConnection) -> Option<&str> {
    let name = connection.annotations().get(COUNTED_BY);
    name.map(String::as_str)
}

/// All sessions that there are, and which count which.
pub(super) struct Claims {
    there: HashMap<ObjectKey, Arc<KiteConnection>>,
    /// Those that were counted and are still there, and by whom.
    counted: HashMap<ObjectKey, Arc<KiteConnection>>,
    /// Those that have counted some that are still there, or are to count some.
    busy: HashSet<ObjectKey>,
}

impl Claims {
    pub(super) fn of(all: &[Arc<KiteConnection>]) -> Self {
        let there = all.iter().map(|it| (key(it), Arc::clone(it))).collect();
        let mut claims = Self {
            there,
            counted: HashMap::new(),
            busy: HashSet::new(),
        };
        for connection in all {
            for name in claims.still_there(connection) {
                let counted = beside(connection, &name);
                claims.counted.insert(counted, Arc::clone(connection));
                claims.busy.insert(key(connection));
            }
            let by = claims.claimed_by(connection).map(key);
            claims.busy.extend(by);
        }
        claims
    }

    /// The names of those that `connection` has counted and that are still there.
    pub(super) fn still_there(&self, connection: &KiteConnection) -> Vec<String> {
        let counted = connection.spec.earlier.iter().flat_map(|it| &it.counted);
        let is_there = |name: &&String| self.there.contains_key(&beside(connection, name));
        counted.filter(is_there).cloned().collect()
    }

    /// By whom it was counted.
    pub(super) fn counted_by(&self, connection: &KiteConnection) -> Option<&Arc<KiteConnection>> {
        self.counted.get(&ObjectKey::of(connection))
    }

    /// Who is to count it, and nobody else is. Who is gone counts nobody any more.
    pub(super) fn claimed_by(&self, connection: &KiteConnection) -> Option<&Arc<KiteConnection>> {
        let by = self.there.get(&beside(connection, named_by(connection)?))?;
        let is_of_vm = by.spec.vm.uid == connection.spec.vm.uid;
        (is_of_vm && by.metadata.name != connection.metadata.name).then_some(by)
    }

    /// Whether it may count others: nobody counts it.
    pub(super) fn is_free(&self, connection: &KiteConnection) -> bool {
        self.claimed_by(connection).is_none() && self.counted_by(connection).is_none()
    }

    /// Whether it may not be counted yet: some that it has counted are still there, or it is
    /// to count some.
    pub(super) fn is_busy(&self, connection: &KiteConnection) -> bool {
        self.busy.contains(&ObjectKey::of(connection))
    }

    /// Whether it stands for others, or is about to.
    pub(super) fn bears(&self, connection: &KiteConnection) -> bool {
        connection.spec.earlier.is_some() || self.is_busy(connection)
    }
}

pub(super) fn key(connection: &Arc<KiteConnection>) -> ObjectKey {
    ObjectKey::of(connection.as_ref())
}

/// The key of another one in the same namespace.
fn beside(connection: &KiteConnection, name: &str) -> ObjectKey {
    ObjectKey {
        namespace: connection.metadata.namespace.clone(),
        name: name.to_owned(),
    }
}
