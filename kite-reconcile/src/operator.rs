//! The controller as a process runs it: elected, fenced, rate-limited, counted.

use std::time::Duration;

use kite_core::cluster::KubeCluster;
use kite_runtime::{
    RequestMetrics,
    events::Reporter,
    health::Health,
    leader::{Election, ElectionError, Leadership},
    process::Process,
    wire::RateLimiter,
};
use kube::Client;
use prometheus_client::{metrics::info::Info, registry::Registry};
use tokio_util::sync::CancellationToken;

use crate::{Context, request_metrics, run};

/// Who reports, as Events name it.
const REPORTER: Reporter = Reporter {
    controller: "hy3ons.github.io/kite-controller",
    instance: "kite-controller",
};

/// All reconcilers, with what a process needs around them.
///
/// ```no_run
/// use kite_core::cluster::KubeCluster;
/// use kite_reconcile::{Context, leader::Election, operator::Operator};
/// use tokio_util::sync::CancellationToken;
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = kube::Client::try_default().await?;
/// let shutdown = CancellationToken::new();
/// Operator::with_election(Election::new("kite", "kite-controller", "pod-7_4f1c"))
///     .run(client, |client| Context::new(KubeCluster::new(client)), shutdown)
///     .await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Operator(Process);

impl Operator {
    /// The only controller of its cluster.
    pub fn without_election() -> Self {
        Self(Process::without_election(REPORTER)).counted(request_metrics())
    }

    /// One of several, of which one works at a time. The Lease is changed as the
    /// controller.
    pub fn with_election(election: Election) -> Self {
        let election = election.managed_by(kite_core::managers::CONTROLLER);
        Self(Process::with_election(REPORTER, election)).counted(request_metrics())
    }

    /// Sends writes no faster than `limiter`.
    #[must_use]
    pub fn rate_limited(self, limiter: RateLimiter) -> Self {
        Self(self.0.rate_limited(limiter))
    }

    /// Counts requests into `metrics`.
    #[must_use]
    pub fn counted(self, metrics: RequestMetrics) -> Self {
        Self(self.0.counted(metrics))
    }

    /// How long reconciles that are under way may take to finish when the process
    /// is told to end; by default 10 s.
    #[must_use]
    pub fn draining_for(self, drain: Duration) -> Self {
        Self(self.0.draining_for(drain))
    }

    /// Shows in `registry` which version runs and whether it leads.
    pub fn register(&self, registry: &mut Registry) {
        let registry = registry.sub_registry_with_prefix("kite");
        registry.register(
            "build",
            "The version that runs",
            Info::new(vec![("version", env!("CARGO_PKG_VERSION"))]),
        );
        self.0.register(registry);
    }

    /// Whether it leads.
    pub fn leadership(&self) -> &Leadership {
        self.0.leadership()
    }

    /// Whether it can do its work.
    pub fn health(&self) -> &Health {
        self.0.health()
    }

    /// Runs until `shutdown`, then finishes what is under way and releases the
    /// Lease. `context` makes what the reconcilers work with from the client
    /// through which they write; it is called once a term.
    ///
    /// # Errors
    /// An [`ElectionError`] if the election has durations that do not fit.
    pub async fn run<F>(
        self,
        client: Client,
        context: F,
        shutdown: CancellationToken,
    ) -> Result<(), ElectionError>
    where
        F: Fn(Client) -> Context<KubeCluster>,
    {
        let clock = context(self.0.client_of_work(client.clone()));
        let clock = clock.shared.clock;
        let work = |term: kite_runtime::process::Term| {
            let context = context(term.client.clone())
                .with_health(term.health)
                .with_events(term.events);
            run(term.client, context, term.stop)
        };
        self.0.run(client, clock, shutdown, work).await
    }
}
