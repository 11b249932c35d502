//! What a controller's reconciles share.

use kite_cluster::ObjectKey;

use crate::{Error, Failure, backoff::Backoff, metrics::Metrics};

/// What a controller's reconciles share, as far as the runtime asks for it.
pub trait Context: Send + Sync + 'static {
    /// Why reconciles do not come to their end.
    type Error: Failure;

    /// What is counted.
    fn metrics(&self) -> &Metrics;

    /// How long objects wait after errors.
    fn backoff(&self) -> &Backoff;

    /// Forgets what is remembered of an object that is gone.
    fn forget(&self, kind: &'static str, key: &ObjectKey) {
        self.backoff().reset(kind, key.clone());
    }
}

/// The context of an operator that needs no more than its cluster: `cluster`, and what
/// the runtime asks for.
#[derive(Debug)]
pub struct Plain<C> {
    /// What reconciles read and change, such as a [`CachedCluster`](crate::CachedCluster).
    pub cluster: C,
    metrics: Metrics,
    backoff: Backoff,
}

impl<C> Plain<C> {
    /// A context whose metrics nobody asks for.
    pub fn new(cluster: C) -> Self {
        Self::counting(cluster, Metrics::default())
    }

    /// A context that counts into `metrics`.
    pub fn counting(cluster: C, metrics: Metrics) -> Self {
        Self {
            cluster,
            metrics,
            backoff: Backoff::default(),
        }
    }
}

impl<C: Send + Sync + 'static> Context for Plain<C> {
    type Error = Error;

    fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    fn backoff(&self) -> &Backoff {
        &self.backoff
    }
}
