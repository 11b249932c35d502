//! The objects of a kind that a user has, by which it is judged whether there is room in the
//! user's quota for what one of them asks for.

use kite_core::{
    cluster::{Cluster, ClusterError, Listed, Object, Unread},
    crd::{KiteSnapshot, KiteVirtualMachine, KiteVolume},
};
use kube::{ResourceExt as _, api::ListParams};

use crate::cache::{reading::read_since, uncached};

/// All objects of a kind in the namespace of one of them.
#[derive(Clone, Debug)]
pub struct Siblings<K> {
    /// Those that can be read, the one that is judged among them.
    pub all: Vec<K>,
    /// Those of which it cannot be read what they are charged with.
    pub unread: Vec<Unread>,
    /// Whether they were seen as they were when the one that is judged was as it was seen, or
    /// later.
    pub are_current: bool,
}

impl<K> Default for Siblings<K> {
    fn default() -> Self {
        Self {
            all: Vec::new(),
            unread: Vec::new(),
            are_current: false,
        }
    }
}

/// A kind of which users have a quota.
pub(crate) trait Charged: Object {
    /// Why it is not known what it is charged with, if that is so.
    fn doubt(&self) -> Option<String>;
}

impl Charged for KiteVirtualMachine {
    fn doubt(&self) -> Option<String> {
        let is_known = self.has_known_charge();
        (!is_known).then(|| self.unreadable().unwrap_or_default().into_owned())
    }
}

impl Charged for KiteSnapshot {
    fn doubt(&self) -> Option<String> {
        let unread = self.status.as_ref()?.unreadable.as_ref()?;
        let is_known = !unread.keeps("size");
        (!is_known).then(|| self.unreadable().unwrap_or_default().into_owned())
    }
}

impl Charged for KiteVolume {
    fn doubt(&self) -> Option<String> {
        let unread = self.status.as_ref()?.unreadable.as_ref()?;
        let is_known = !unread.keeps("granted") && !unread.keeps("asking");
        (!is_known).then(|| self.unreadable().unwrap_or_default().into_owned())
    }
}

/// Those of `of`, and whether they are seen as they were when it was as it was seen.
pub(crate) async fn told<K: Charged, C: Cluster>(
    of: &K,
    cluster: &C,
) -> Result<Siblings<K>, ClusterError> {
    let told = of.meta().resource_version.as_deref();
    let since = told.and_then(|version| version.parse().ok());
    let (found, are_current) = read_since(since, list(of, cluster)).await;
    Ok(judged(found?, are_current))
}

/// Those of `of` as the API server itself knows them.
pub(crate) async fn live<K: Charged, C: Cluster>(
    of: &K,
    cluster: &C,
) -> Result<Siblings<K>, ClusterError> {
    let found = uncached(list(of, cluster)).await?;
    Ok(judged(found, true))
}

fn judged<K: Charged>(found: Listed<K>, are_current: bool) -> Siblings<K> {
    let mut unread = found.unreadable;
    unread.extend(found.items.iter().filter_map(|it| {
        Some(Unread {
            meta: it.meta().clone(),
            why: it.doubt()?,
        })
    }));
    Siblings {
        all: found.items,
        unread,
        are_current,
    }
}

impl<K> Siblings<K> {
    /// Whether what they show may be judged by. Where there are none nobody has looked.
    pub(crate) fn are_known(&self) -> bool {
        self.are_current || self.all.is_empty()
    }
}

async fn list<K: Object, C: Cluster>(of: &K, cluster: &C) -> Result<Listed<K>, ClusterError> {
    cluster.list(of.namespace(), &ListParams::default()).await
}
