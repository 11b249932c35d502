//! What is counted of recordings.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

#[derive(Clone, Debug, Default)]
pub(super) struct Metrics {
    /// Whole, and not in their object store yet.
    pub(super) waiting: Gauge,
    pub(super) upload_failures: Counter,
}

impl Metrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        let registry = registry.sub_registry_with_prefix("kite_recordings");
        registry.register(
            "waiting",
            "Recordings of sessions that have ended and are not in their object store yet",
            self.waiting.clone(),
        );
        registry.register(
            "upload_failures",
            "Attempts to carry a recording to its object store that failed",
            self.upload_failures.clone(),
        );
    }
}
