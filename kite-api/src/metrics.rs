//! What the API counts.

use std::time::Duration;

use http::{Method, StatusCode};
use kite_identity::Counts;
use kite_rest::ProblemKind;
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

use crate::{caches, console::ConsoleKind};

/// How the names begin of what is counted elsewhere for the API.
const PREFIX: &str = "kite_api";

/// Requests and refusals. Labels have few values: a request is counted under the
/// route that it matched, not under its path.
#[derive(Clone, Debug)]
pub struct Metrics {
    requests: Family<RequestLabels, Counter>,
    duration: Family<RouteLabel, Histogram, fn() -> Histogram>,
    accounts: Counts,
    consoles: Family<ConsoleLabel, Gauge>,
    consoles_opened: Family<ConsoleLabel, Counter>,
    consoles_refused: Family<RefusalLabel, Counter>,
    console_bytes: Family<TrafficLabels, Counter>,
    stale_answers: Family<KindLabel, Counter>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct KindLabel {
    kind: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ConsoleLabel {
    kind: ConsoleKind,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RefusalLabel {
    problem: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct TrafficLabels {
    kind: ConsoleKind,
    way: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    method: &'static str,
    route: String,
    status: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RouteLabel {
    route: String,
}

/// None of each kind, which is not the same as nothing to tell.
fn no_consoles() -> Family<ConsoleLabel, Gauge> {
    let consoles = Family::default();
    for kind in [ConsoleKind::Serial, ConsoleKind::Vnc, ConsoleKind::Terminal] {
        drop(consoles.get_or_create(&ConsoleLabel { kind }));
    }
    consoles
}

fn none_stale() -> Family<KindLabel, Counter> {
    let answers = Family::default();
    for kind in caches::NAMES {
        drop(answers.get_or_create(&KindLabel { kind }));
    }
    answers
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new(Counts::default())
    }
}

impl Metrics {
    /// Nothing yet, beside what is counted of `accounts`.
    pub(crate) fn new(accounts: Counts) -> Self {
        Self {
            accounts,
            requests: Family::default(),
            duration: Family::new_with_constructor(|| {
                Histogram::new(exponential_buckets(0.001, 2.0, 14))
            }),
            consoles: no_consoles(),
            consoles_opened: Family::default(),
            consoles_refused: Family::default(),
            console_bytes: Family::default(),
            stale_answers: none_stale(),
        }
    }
}

impl Metrics {
    /// Makes the metrics part of what `registry` shows.
    pub fn register(&self, registry: &mut Registry) {
        registry.register(
            "kite_api_requests",
            "Requests that were answered",
            self.requests.clone(),
        );
        registry.register(
            "kite_api_request_duration_seconds",
            "Time from a request's head to its answer's",
            self.duration.clone(),
        );
        self.accounts
            .register(registry.sub_registry_with_prefix(PREFIX));
        registry.register(
            "kite_api_consoles",
            "Consoles that are open, by kind",
            self.consoles.clone(),
        );
        registry.register(
            "kite_api_consoles_opened",
            "Consoles that were opened, by kind",
            self.consoles_opened.clone(),
        );
        registry.register(
            "kite_api_consoles_refused",
            "Consoles that were refused, by the problem's type",
            self.consoles_refused.clone(),
        );
        registry.register(
            "kite_api_console_bytes",
            "Bytes of consoles that have ended, by kind and way",
            self.console_bytes.clone(),
        );
        registry.register(
            "kite_api_stale_answers",
            "Answers that lacked what their client had written, by the kind of object",
            self.stale_answers.clone(),
        );
    }

    pub(crate) fn answered(
        &self,
        method: &Method,
        route: &str,
        status: StatusCode,
        took: Duration,
    ) {
        self.requests
            .get_or_create(&RequestLabels {
                method: known(method),
                route: route.to_owned(),
                status: status.as_u16(),
            })
            .inc();
        self.duration
            .get_or_create(&RouteLabel {
                route: route.to_owned(),
            })
            .observe(took.as_secs_f64());
    }

    pub(crate) fn answered_late(&self, behind: &[&'static str]) {
        for kind in behind.iter().copied() {
            self.stale_answers.get_or_create(&KindLabel { kind }).inc();
        }
    }

    pub(crate) fn console_opened(&self, kind: ConsoleKind) {
        let label = ConsoleLabel { kind };
        self.consoles.get_or_create(&label).inc();
        self.consoles_opened.get_or_create(&label).inc();
    }

    pub(crate) fn console_ended(&self, kind: ConsoleKind, bytes_up: u64, bytes_down: u64) {
        self.consoles.get_or_create(&ConsoleLabel { kind }).dec();
        for (way, bytes) in [("up", bytes_up), ("down", bytes_down)] {
            let labels = TrafficLabels { kind, way };
            self.console_bytes.get_or_create(&labels).inc_by(bytes);
        }
    }

    pub(crate) fn console_refused(&self, problem: ProblemKind) {
        let problem = problem.type_uri();
        let label = RefusalLabel { problem };
        self.consoles_refused.get_or_create(&label).inc();
    }
}

/// A client may invent methods; a label may not have any number of values.
fn known(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::PATCH => "PATCH",
        Method::PUT => "PUT",
        Method::DELETE => "DELETE",
        Method::OPTIONS => "OPTIONS",
        _ => "other",
    }
}
