//! What is counted of requests.

use std::time::Instant;

use http::StatusCode;
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{
        counter::Counter,
        family::Family,
        histogram::{Histogram, exponential_buckets},
    },
    registry::Registry,
};

use super::Call;

/// Requests to the API server, by verb, resource and class of status. Labels have
/// few values: no name of an object gets into them.
#[derive(Clone, Debug)]
pub struct RequestMetrics {
    requests: Family<RequestLabels, Counter>,
    duration: Family<VerbLabel, Histogram, fn() -> Histogram>,
    prefix: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    verb: &'static str,
    resource: String,
    code: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct VerbLabel {
    verb: &'static str,
}

impl Default for RequestMetrics {
    fn default() -> Self {
        Self::new("operator")
    }
}

impl RequestMetrics {
    /// Metrics whose names begin with `prefix`.
    pub fn new(prefix: &'static str) -> Self {
        Self {
            requests: Family::default(),
            duration: Family::new_with_constructor(|| {
                Histogram::new(exponential_buckets(0.001, 2.0, 14))
            }),
            prefix,
        }
    }

    /// Makes the metrics part of what `registry` shows.
    pub fn register(&self, registry: &mut Registry) {
        let registry = registry.sub_registry_with_prefix(self.prefix);
        registry.register(
            "apiserver_requests",
            "Requests to the API server, by verb, resource and class of status",
            self.requests.clone(),
        );
        registry.register(
            "apiserver_request_duration_seconds",
            "Time until the API server answered, waiting for the rate limit of writes included",
            self.duration.clone(),
        );
    }

    /// Begins to measure a request.
    pub(super) fn start(&self, call: Call) -> RequestTimer<'_> {
        RequestTimer {
            metrics: self,
            call,
            since: Instant::now(),
        }
    }
}

/// Measures a request that is under way.
pub(super) struct RequestTimer<'a> {
    metrics: &'a RequestMetrics,
    call: Call,
    since: Instant,
}

impl RequestTimer<'_> {
    /// The request was answered with this status, or not at all.
    pub(super) fn end(self, status: Option<StatusCode>) {
        let verb = self.call.verb.as_str();
        let code = match status.map(|status| status.as_u16()) {
            None => "none",
            Some(100..=199) => "1xx",
            Some(200..=299) => "2xx",
            Some(300..=399) => "3xx",
            // Of these a controller has many in its ordinary life.
            Some(404) => "404",
            Some(409) => "409",
            Some(429) => "429",
            Some(400..=499) => "4xx",
            Some(_) => "5xx",
        };
        self.metrics
            .requests
            .get_or_create(&RequestLabels {
                verb,
                resource: self.call.resource,
                code,
            })
            .inc();
        self.metrics
            .duration
            .get_or_create(&VerbLabel { verb })
            .observe(self.since.elapsed().as_secs_f64());
    }
}
