//! What a controller's reconciles share.

use std::{fmt, sync::Arc};

use jiff::Timestamp;
use kite_cluster::{Cluster, Object, ObjectKey};

use crate::{
    Clock, Failure,
    backoff::Backoff,
    cache::{CachedCluster, Caches, memo::Memos},
    events::Events,
    metrics::Metrics,
    pace::Pace,
    refusals::Refusals,
};

/// What a controller's reconciles share, as far as the runtime asks for it.
pub trait Context: Send + Sync + 'static {
    /// What is counted.
    fn metrics(&self) -> &Metrics;

    /// How long objects wait after errors.
    fn backoff(&self) -> &Backoff;

    /// Forgets what is remembered of an object that is gone.
    fn forget(&self, kind: &'static str, key: &ObjectKey) {
        self.backoff().reset(kind, key.clone());
    }
}

/// What reconciles share: the cluster, and what is not to be had from it.
pub struct Shared<C> {
    /// What they read and change, such as a [`CachedCluster`].
    pub cluster: C,
    /// What time it is.
    pub clock: Clock,
    /// What is counted.
    pub metrics: Metrics,
    /// Where to tell what a person should read.
    pub events: Events,
    pub(crate) backoff: Backoff,
    pub(crate) caches: Option<Caches>,
    pub(crate) memos: Memos,
    pub(crate) pace: Pace,
    pub(crate) refusals: Refusals,
}

impl<C> Shared<C> {
    /// With the system's clock, and metrics and Events that nobody asks for.
    pub fn new(cluster: C) -> Self {
        Self {
            cluster,
            clock: Arc::new(Timestamp::now),
            metrics: Metrics::default(),
            events: Events::default(),
            backoff: Backoff::default(),
            caches: None,
            memos: Memos::default(),
            pace: Pace::default(),
            refusals: Refusals::default(),
        }
    }

    /// The same, with reads answered from `caches`, and nothing remembered yet. They must
    /// be written for as long as it is used.
    #[must_use]
    pub fn cached(&self, caches: Caches) -> Shared<CachedCluster<C>>
    where
        C: Cluster + Clone,
    {
        let cluster = CachedCluster::new(self.cluster.clone(), caches.clone());
        Shared {
            clock: Arc::clone(&self.clock),
            metrics: self.metrics.clone(),
            events: self.events.clone(),
            caches: Some(caches),
            ..Shared::new(cluster)
        }
    }

    /// With another clock, such as the in-memory cluster's.
    #[must_use]
    pub fn with_clock(self, clock: Clock) -> Self {
        Self { clock, ..self }
    }

    /// Telling what happens to `events`.
    #[must_use]
    pub fn with_events(self, events: Events) -> Self {
        Self { events, ..self }
    }

    /// Counting into `metrics`.
    #[must_use]
    pub fn with_metrics(self, metrics: Metrics) -> Self {
        Self { metrics, ..self }
    }

    /// Counts a reconcile of `object`, and has its next failure be the first in a row where
    /// this is none.
    pub(crate) async fn counted<K: Object, T, E: Failure>(
        &self,
        object: &K,
        reconcile: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        let kind = kind_of::<K>();
        let _timer = self.metrics.start(kind);
        let done = reconcile.await;
        match &done {
            Ok(_) => self.backoff.reset(kind, ObjectKey::of(object)),
            Err(error) => self.metrics.error(kind, error.category()),
        }
        done
    }

    /// For how many objects it is remembered that they are at rest.
    pub fn at_rest(&self) -> usize {
        self.memos.remembered()
    }
}

impl<C: Send + Sync + 'static> Context for Shared<C> {
    fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    fn backoff(&self) -> &Backoff {
        &self.backoff
    }

    fn forget(&self, kind: &'static str, key: &ObjectKey) {
        self.memos.forget(kind, key);
        self.backoff.reset(kind, key.clone());
        self.pace.forget(kind, key.clone());
        self.refusals.forget(kind, key);
    }
}

impl<C: fmt::Debug> fmt::Debug for Shared<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared")
            .field("cluster", &self.cluster)
            .finish_non_exhaustive()
    }
}

/// The kind's name, as reconcilers have it.
pub(crate) fn kind_of<K: Object>() -> &'static str {
    match K::kind(&()) {
        std::borrow::Cow::Borrowed(kind) => kind,
        std::borrow::Cow::Owned(_) => "object",
    }
}
