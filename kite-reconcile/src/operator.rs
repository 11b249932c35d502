//! The controller as a process runs it: elected, fenced, paced, counted.

use std::{fmt, sync::Arc, time::Duration};

use kite_core::cluster::KubeCluster;
use kube::Client;
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric as _},
    metrics::{counter::ConstCounter, gauge::ConstGauge, info::Info},
    registry::Registry,
};
use tokio::time::sleep;
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use kite_runtime::{
    RequestMetrics,
    events::{Recorder, Reporter},
    health::Health,
    leader::{Election, ElectionError, Leadership, lead},
    wire::{Outbound, Pace},
};

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
/// Operator::contending(Election::new("kite", "kite-controller", "pod-7_4f1c"))
///     .run(client, |client| Context::new(KubeCluster::new(client)), shutdown)
///     .await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Operator {
    election: Option<Election>,
    leadership: Leadership,
    health: Health,
    outbound: Outbound,
    requests: RequestMetrics,
    drain: Duration,
}

impl Operator {
    /// The only controller of its cluster.
    pub fn alone() -> Self {
        Self::new(None, Leadership::alone())
    }

    /// One of several, of which one works at a time.
    pub fn contending(election: Election) -> Self {
        Self::new(Some(election), Leadership::contended())
    }

    fn new(election: Option<Election>, leadership: Leadership) -> Self {
        Self {
            election,
            leadership,
            health: Health::default(),
            outbound: Outbound::default(),
            requests: request_metrics(),
            drain: Duration::from_secs(10),
        }
    }

    /// Sends writes no faster than `pace`.
    #[must_use]
    pub fn paced(mut self, pace: Pace) -> Self {
        self.outbound = self.outbound.paced(pace);
        self
    }

    /// Counts requests into `metrics`.
    #[must_use]
    pub fn counted(mut self, metrics: RequestMetrics) -> Self {
        self.requests = metrics;
        self
    }

    /// How long reconciles that are under way may take to finish when the process
    /// is told to end; by default 10 s.
    #[must_use]
    pub fn draining_for(mut self, drain: Duration) -> Self {
        self.drain = drain;
        self
    }

    /// Shows in `registry` which version runs and whether it leads.
    pub fn register(&self, registry: &mut Registry) {
        registry.register(
            "kite_build",
            "The version that runs",
            Info::new(vec![("version", env!("CARGO_PKG_VERSION"))]),
        );
        registry.register_collector(Box::new(LeaderGauge(self.leadership.clone())));
    }

    /// Whether it leads.
    pub fn leadership(&self) -> &Leadership {
        &self.leadership
    }

    /// Whether it can do its work.
    pub fn health(&self) -> &Health {
        &self.health
    }

    /// Runs until `shutdown`, then finishes what is under way and releases the
    /// Lease. `context` makes what the reconcilers work with from the client
    /// through which they write; it is called once a term.
    pub async fn run<F>(
        self,
        client: Client,
        context: F,
        shutdown: CancellationToken,
    ) -> Result<(), ElectionError>
    where
        F: Fn(Client) -> Context<KubeCluster>,
    {
        let outbound = self.outbound.counted(self.requests.clone());
        let client_of_work = outbound
            .fenced_by(self.leadership.clone())
            .wrap(client.clone());
        let clock = context(client_of_work.clone()).clock;
        let (health, drain) = (self.health, self.drain);
        let is_alone = self.election.is_none();
        let work = |stop: CancellationToken| {
            health.clear();
            let client = client_of_work.clone();
            let (events, recorder) = Recorder::new(client.clone(), REPORTER);
            let context = context(client.clone())
                .with_health(health.clone())
                .with_events(events);
            let ended = stop.clone();
            let reconciling = Box::pin(async move {
                let recording = AbortOnDropHandle::new(tokio::spawn(recorder.run()));
                run(client, context, stop).await;
                // No successor waits for what is still to be told.
                if is_alone {
                    let told = recording.await;
                    drop(told);
                }
            });
            async move {
                tokio::select! {
                    () = reconciling => {}
                    () = too_late(ended, drain) => {
                        tracing::warn!(?drain, "what did not end in time is broken off");
                    }
                }
            }
        };
        match self.election {
            None => {
                work(shutdown).await;
                Ok(())
            }
            Some(election) => {
                // Not fenced: this is how leadership is won.
                let client = Outbound::default().counted(self.requests).wrap(client);
                let cluster = Arc::new(KubeCluster::new(client));
                lead(cluster, election, self.leadership, clock, shutdown, work).await
            }
        }
    }
}

/// Asked for whenever metrics are: right even when nobody has noticed yet that
/// the Lease ended.
#[derive(Debug)]
struct LeaderGauge(Leadership);

impl Collector for LeaderGauge {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let gauge = ConstGauge::new(i64::from(self.0.is_held()));
        let metric = encoder.encode_descriptor(
            "kite_leader",
            "1 in the process that leads, 0 in those that stand by",
            None,
            gauge.metric_type(),
        )?;
        gauge.encode(metric)?;
        let terms = ConstCounter::new(self.0.terms());
        let metric = encoder.encode_descriptor(
            "kite_leader_terms",
            "How often this process won the election",
            None,
            terms.metric_type(),
        )?;
        terms.encode(metric)
    }
}

/// Waits until `drain` has passed since `shutdown`.
async fn too_late(shutdown: CancellationToken, drain: Duration) {
    shutdown.cancelled().await;
    sleep(drain).await;
}
