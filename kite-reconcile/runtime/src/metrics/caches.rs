//! What the caches hold, counted when somebody asks for the metrics.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric as _},
    metrics::{MetricType, gauge::ConstGauge},
};

use crate::cache::{CacheStats, Caches};

/// The caches that are counted.
#[derive(Clone, Debug, Default)]
pub(super) struct CacheCensus(Arc<Mutex<Option<Caches>>>);

impl CacheCensus {
    /// Counts these from now on.
    pub(super) fn set(&self, caches: Caches) {
        *self.lock() = Some(caches);
    }

    /// Counts none any more.
    pub(super) fn clear(&self) {
        *self.lock() = None;
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Caches>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

type Figure = fn(&CacheStats) -> usize;

const FIGURES: [(&str, &str, Figure); 7] = [
    (
        "cache_objects",
        "Objects that are cached, by kind",
        |held| held.objects,
    ),
    (
        "cache_packed_bytes",
        "Bytes of the cached objects of kinds that are kept packed",
        |held| held.packed_bytes,
    ),
    (
        "cache_unreadable_objects",
        "Objects that are in the cluster and cannot be read: the log names each and its field",
        |held| held.unreadable,
    ),
    (
        "cache_unconfirmed_writes",
        "Written objects that no watch has shown yet",
        |held| held.remembered,
    ),
    (
        "cache_unconfirmed_seconds",
        "Age of the oldest written version that no watch has shown yet, or 0",
        |held| usize::try_from(held.longest_unshown.as_secs()).unwrap_or(usize::MAX),
    ),
    (
        "cache_places_wanted",
        "Places, such as namespaces, in which a kind is to be watched that is not everywhere",
        |held| held.places_wanted,
    ),
    (
        "cache_places_known",
        "Those of them that are watched: reads of the others are requests",
        |held| held.places_known,
    ),
];

impl Collector for CacheCensus {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let Some(caches) = self.lock().clone() else {
            return Ok(());
        };
        let held = caches.stats();
        for (name, help, figure) in FIGURES {
            let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for one in &held {
                let labels = [("kind", one.kind.as_str())];
                let value = i64::try_from(figure(one)).unwrap_or(i64::MAX);
                ConstGauge::new(value).encode(metric.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}
