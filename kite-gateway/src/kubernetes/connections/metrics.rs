//! What is counted of reports.

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::ledger::Sent;

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, EncodeLabelValue)]
enum Outcome {
    Taken,
    Refused,
    Lost,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct Labels {
    outcome: Outcome,
}

#[derive(Default)]
pub(super) struct Metrics {
    writes: Family<Labels, Counter>,
    pub(super) waiting: Gauge,
    /// Connections of which nothing was reported, or not all.
    pub(super) left_out: Counter,
}

impl Metrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        let registry = registry.sub_registry_with_prefix("kite_connections");
        registry.register(
            "writes",
            "Writes of who is connected to VMs, by what came of them",
            self.writes.clone(),
        );
        registry.register(
            "waiting",
            "Connections whose latest state is not written yet",
            self.waiting.clone(),
        );
        registry.register(
            "unreported",
            "Connections of which not all was reported, as there were too many or it was refused",
            self.left_out.clone(),
        );
    }

    pub(super) fn sent(&self, sent: Sent) {
        let outcome = match sent {
            Sent::Taken => Outcome::Taken,
            Sent::NoPlace | Sent::Refused => Outcome::Refused,
            Sent::Lost => Outcome::Lost,
        };
        self.writes.get_or_create(&Labels { outcome }).inc();
    }
}
