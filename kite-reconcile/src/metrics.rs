//! What reconcilers count.

use std::time::Instant;

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{
        counter::Counter,
        family::Family,
        histogram::{Histogram, exponential_buckets},
    },
    registry::Registry,
};

/// Reconciles by kind and how they ended. Labels have few values: kinds, and
/// [`Error::category`](crate::Error::category).
#[derive(Clone, Debug)]
pub struct Metrics {
    reconciles: Family<KindLabel, Counter>,
    errors: Family<ErrorLabels, Counter>,
    writes: Family<KindLabel, Counter>,
    duration: Family<KindLabel, Histogram, fn() -> Histogram>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct KindLabel {
    kind: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ErrorLabels {
    kind: &'static str,
    category: &'static str,
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            reconciles: Family::default(),
            errors: Family::default(),
            writes: Family::default(),
            duration: Family::new_with_constructor(|| {
                Histogram::new(exponential_buckets(0.001, 2.0, 14))
            }),
        }
    }
}

impl Metrics {
    /// Makes the metrics part of what `registry` shows.
    pub fn register(&self, registry: &mut Registry) {
        registry.register(
            "kite_reconciles",
            "Reconciles that were begun",
            self.reconciles.clone(),
        );
        registry.register(
            "kite_reconcile_errors",
            "Reconciles that ended with an error, by category",
            self.errors.clone(),
        );
        registry.register(
            "kite_reconcile_writes",
            "Writes that reconciles asked for; none once an object is settled",
            self.writes.clone(),
        );
        registry.register(
            "kite_reconcile_duration_seconds",
            "Time that a reconcile took",
            self.duration.clone(),
        );
    }

    /// Begins to measure a reconcile; the time is taken when the timer is dropped.
    pub(crate) fn start(&self, kind: &'static str) -> Timer {
        self.reconciles.get_or_create(&KindLabel { kind }).inc();
        Timer {
            histogram: self.duration.get_or_create_owned(&KindLabel { kind }),
            since: Instant::now(),
        }
    }

    pub(crate) fn error(&self, kind: &'static str, category: &'static str) {
        self.errors
            .get_or_create(&ErrorLabels { kind, category })
            .inc();
    }

    pub(crate) fn write(&self, kind: &'static str) {
        self.writes.get_or_create(&KindLabel { kind }).inc();
    }
}

/// Measures from its making to its drop.
#[derive(Debug)]
pub(crate) struct Timer {
    histogram: Histogram,
    since: Instant,
}

impl Drop for Timer {
    fn drop(&mut self) {
        self.histogram.observe(self.since.elapsed().as_secs_f64());
    }
}
