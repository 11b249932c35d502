//! What reconcilers count.

mod caches;
mod census;

use std::time::Instant;

use kite_cluster::Object;
use kube::runtime::reflector::Store;
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{
        counter::Counter,
        family::Family,
        gauge::Gauge,
        histogram::{Histogram, exponential_buckets},
    },
    registry::Registry,
};

pub use self::census::Waiting;
use self::{caches::CacheCensus, census::Census};
use crate::cache::Caches;

/// Reconciles by kind and how they ended. Labels have few values: kinds, and
/// [`Failure::category`](crate::Failure::category).
#[derive(Clone, Debug)]
pub struct Metrics {
    reconciles: Family<KindLabel, Counter>,
    errors: Family<ErrorLabels, Counter>,
    writes: Family<KindLabel, Counter>,
    running: Family<KindLabel, Gauge>,
    census: Census,
    caches: CacheCensus,
    duration: Family<KindLabel, Histogram, fn() -> Histogram>,
    prefix: &'static str,
    kinds: &'static [&'static str],
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

/// What an alert is worth the first time it happens, too: an increase is only seen of
/// what was there before, as 0.
fn errors_from_the_start(kinds: &[&'static str]) -> Family<ErrorLabels, Counter> {
    let errors = Family::default();
    for &kind in kinds {
        for category in ["panic", "forbidden"] {
            drop(errors.get_or_create(&ErrorLabels { kind, category }));
        }
    }
    errors
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new("operator", &[])
    }
}

impl Metrics {
    /// Metrics whose names begin with `prefix`, of controllers of `kinds`.
    pub fn new(prefix: &'static str, kinds: &'static [&'static str]) -> Self {
        Self {
            reconciles: Family::default(),
            errors: errors_from_the_start(kinds),
            writes: Family::default(),
            running: Family::default(),
            census: Census::default(),
            caches: CacheCensus::default(),
            duration: Family::new_with_constructor(|| {
                Histogram::new(exponential_buckets(0.001, 2.0, 14))
            }),
            prefix,
            kinds,
        }
    }
}

/// While it is there, caches are counted: those of a process that stands by again
/// would tell of the past, and stay in memory.
#[derive(Debug)]
pub struct Counted(Metrics);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.census.clear();
        self.0.caches.clear();
    }
}

impl Metrics {
    /// Makes the metrics part of what `registry` shows.
    pub fn register(&self, registry: &mut Registry) {
        let registry = registry.sub_registry_with_prefix(self.prefix);
        registry.register(
            "reconciles",
            "Reconciles that were begun",
            self.reconciles.clone(),
        );
        registry.register(
            "reconcile_errors",
            "Reconciles that ended with an error, by category",
            self.errors.clone(),
        );
        registry.register(
            "reconcile_writes",
            "Writes that reconciles asked for; none once an object is settled",
            self.writes.clone(),
        );
        registry.register(
            "reconciles_running",
            "Reconciles that are under way",
            self.running.clone(),
        );
        registry.register_collector(Box::new(self.census.clone()));
        registry.register_collector(Box::new(self.caches.clone()));
        registry.register(
            "reconcile_duration_seconds",
            "Time that a reconcile took",
            self.duration.clone(),
        );
    }

    /// Counts the objects in `store` by phase whenever the metrics are asked for.
    /// So with what is waiting.
    pub fn count<K: Object>(&self, store: Store<K>, phase: fn(&K) -> String, waiting: Waiting) {
        self.census.add(store, phase, waiting);
    }

    /// Counts what these caches hold, until what is given is dropped; then nothing
    /// is counted any more that was filled beside them.
    pub fn count_caches(&self, caches: Caches) -> Counted {
        self.caches.set(caches);
        Counted(self.clone())
    }

    /// Begins to measure a reconcile; the time is taken when the timer is dropped.
    pub fn start(&self, kind: &'static str) -> Timer {
        self.reconciles.get_or_create(&KindLabel { kind }).inc();
        let running = self.running.get_or_create_owned(&KindLabel { kind });
        running.inc();
        Timer {
            running,
            histogram: self.duration.get_or_create_owned(&KindLabel { kind }),
            since: Instant::now(),
        }
    }

    /// A reconcile of an object of this kind ended with an error.
    pub fn error(&self, kind: &'static str, category: &'static str) {
        self.errors
            .get_or_create(&ErrorLabels { kind, category })
            .inc();
    }

    /// A reconcile of an object of this kind panicked.
    pub fn panicked(&self, kind: &str, category: &'static str) {
        let kind = self.kinds.iter().find(|known| **known == kind);
        self.error(kind.copied().unwrap_or("other"), category);
    }

    /// A reconcile of an object of this kind asked for a write.
    pub fn write(&self, kind: &'static str) {
        self.writes.get_or_create(&KindLabel { kind }).inc();
    }
}

/// Measures from its making to its drop.
#[derive(Debug)]
pub struct Timer {
    running: Gauge,
    histogram: Histogram,
    since: Instant,
}

impl Drop for Timer {
    fn drop(&mut self) {
        self.running.dec();
        self.histogram.observe(self.since.elapsed().as_secs_f64());
    }
}
