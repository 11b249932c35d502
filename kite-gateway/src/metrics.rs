//! What the gateway counts, for Prometheus.

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

use crate::{admission::Refusal, machine::DialError};

/// Outcome of a login.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, EncodeLabelValue)]
pub(crate) enum Outcome {
    Accepted,
    /// One of two steps.
    Partial,
    Rejected,
    /// Nobody could look at it.
    Unchecked,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
pub(crate) struct LoginLabels {
    pub(crate) method: &'static str,
    pub(crate) outcome: Outcome,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
pub(crate) struct KindLabels {
    pub(crate) kind: &'static str,
}

/// What was banned.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, EncodeLabelValue)]
pub(crate) enum Banned {
    Address,
    Name,
    /// An address, from machines that decide on passwords themselves.
    Relay,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
pub(crate) struct BanLabels {
    pub(crate) banned: Banned,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, EncodeLabelValue)]
pub(crate) enum Way {
    Up,
    Down,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
pub(crate) struct WayLabels {
    pub(crate) way: Way,
}

/// The gateway's metrics; register them with [`Metrics::register`].
#[derive(Clone, Debug)]
pub struct Metrics {
    pub(crate) connections: Gauge,
    pub(crate) connections_total: Counter,
    pub(crate) refused_total: Family<KindLabels, Counter>,
    pub(crate) logins_total: Family<LoginLabels, Counter>,
    pub(crate) channels: Family<KindLabels, Gauge>,
    pub(crate) channels_total: Family<KindLabels, Counter>,
    pub(crate) backend_failures_total: Family<KindLabels, Counter>,
    pub(crate) bans_total: Family<BanLabels, Counter>,
    pub(crate) bytes_total: Family<WayLabels, Counter>,
    pub(crate) login_seconds: Histogram,
    pub(crate) backend_seconds: Histogram,
}

/// What is counted from the start, as 0: of what appears with its first event, no
/// increase is seen.
fn from_zero<L: Clone + Eq + std::hash::Hash>(
    all: impl IntoIterator<Item = L>,
) -> Family<L, Counter> {
    let family = Family::default();
    for labels in all {
        drop(family.get_or_create(&labels));
    }
    family
}

impl Default for Metrics {
    fn default() -> Self {
        let seconds = || Histogram::new(exponential_buckets(0.001, 2.5, 11));
        let kinds = |kinds: &'static [&'static str]| {
            from_zero(kinds.iter().map(|kind| KindLabels { kind }))
        };
        let banned = [Banned::Address, Banned::Name, Banned::Relay];
        Self {
            connections: Gauge::default(),
            connections_total: Counter::default(),
            refused_total: kinds(&Refusal::KINDS),
            logins_total: Family::default(),
            channels: Family::default(),
            channels_total: Family::default(),
            backend_failures_total: kinds(&DialError::KINDS),
            bans_total: from_zero(banned.map(|banned| BanLabels { banned })),
            bytes_total: Family::default(),
            login_seconds: seconds(),
            backend_seconds: seconds(),
        }
    }
}

impl Metrics {
    /// Adds the metrics to a registry, each under `kite_gateway_`.
    pub fn register(&self, registry: &mut Registry) {
        let registry = registry.sub_registry_with_prefix("kite_gateway");
        registry.register(
            "connections",
            "Connections of clients that are open",
            self.connections.clone(),
        );
        registry.register(
            "connections_accepted",
            "Connections of clients that were accepted",
            self.connections_total.clone(),
        );
        registry.register(
            "refused",
            "Connections of clients that were refused, by reason",
            self.refused_total.clone(),
        );
        registry.register(
            "logins",
            "Logins by method and outcome",
            self.logins_total.clone(),
        );
        registry.register(
            "channels",
            "Channels that are open, by kind",
            self.channels.clone(),
        );
        registry.register(
            "channels_opened",
            "Channels that were opened, by kind",
            self.channels_total.clone(),
        );
        registry.register(
            "backend_failures",
            "Machines that could not be entered, by reason",
            self.backend_failures_total.clone(),
        );
        registry.register(
            "bans",
            "Bans of addresses and of login names' passwords",
            self.bans_total.clone(),
        );
        registry.register(
            "transferred_bytes",
            "Bytes of channel data by way: up is from the user to the machine",
            self.bytes_total.clone(),
        );
        registry.register_with_unit(
            "login",
            "Time from accepting a connection to its login",
            Unit::Seconds,
            self.login_seconds.clone(),
        );
        registry.register_with_unit(
            "backend",
            "Time to connect to a machine and log in there",
            Unit::Seconds,
            self.backend_seconds.clone(),
        );
    }
}
