//! A controller as a process runs it: elected, fenced, rate-limited, counted.

use std::{fmt, sync::Arc, time::Duration};

use kite_cluster::KubeCluster;
use kube::Client;
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric as _},
    metrics::{counter::ConstCounter, gauge::ConstGauge},
    registry::Registry,
};
use tokio::time::sleep;
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use crate::{
    Clock, RequestMetrics,
    events::{Events, Recorder, Reporter},
    health::Health,
    leader::{Election, ElectionError, Leadership, lead},
    wire::{ClientLayer, RateLimiter},
};

/// What a process needs around its work.
///
/// ```no_run
/// use std::sync::Arc;
///
/// use jiff::Timestamp;
/// use kite_runtime::{events::Reporter, leader::Election, process::Process, wire::RateLimiter};
/// use tokio_util::sync::CancellationToken;
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let reporter = Reporter { controller: "example.org/my-operator", instance: "my-operator" };
/// let election = Election::new("my-operator", "my-operator", "my-operator-7d9f_5c0e");
/// let process = Process::with_election(reporter, election)
///     .rate_limited(RateLimiter::per_second(20.0, 50));
/// let client = kube::Client::try_default().await?;
/// let work = |term: kite_runtime::process::Term| async move {
///     // What writes through `term.client` is refused once this process leads no more.
///     term.stop.cancelled().await;
/// };
/// process.run(client, Arc::new(Timestamp::now), CancellationToken::new(), work).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Process {
    reporter: Reporter,
    election: Option<Election>,
    leadership: Leadership,
    health: Health,
    layer: ClientLayer,
    requests: RequestMetrics,
    drain: Duration,
}

/// What work is done with, from when a process leads until it leads no more.
#[derive(Clone)]
#[non_exhaustive]
pub struct Term {
    /// The client to work through: its writes are fenced, rate-limited and counted.
    pub client: Client,
    /// Where to tell what a person should read.
    pub events: Events,
    /// Where watches report whether they run.
    pub health: Health,
    /// Tells the work to come to its end.
    pub stop: CancellationToken,
}

impl fmt::Debug for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Term").finish_non_exhaustive()
    }
}

impl Process {
    /// The only one of its cluster.
    pub fn without_election(reporter: Reporter) -> Self {
        Self::new(reporter, None, Leadership::always())
    }

    /// One of several, of which one works at a time.
    pub fn with_election(reporter: Reporter, election: Election) -> Self {
        Self::new(reporter, Some(election), Leadership::candidate())
    }

    fn new(reporter: Reporter, election: Option<Election>, leadership: Leadership) -> Self {
        Self {
            reporter,
            election,
            leadership,
            health: Health::default(),
            layer: ClientLayer::default(),
            requests: RequestMetrics::default(),
            drain: Duration::from_secs(10),
        }
    }

    /// Sends writes no faster than `limiter`.
    #[must_use]
    pub fn rate_limited(mut self, limiter: RateLimiter) -> Self {
        self.layer = self.layer.rate_limited(limiter);
        self
    }

    /// Counts requests into `metrics`.
    #[must_use]
    pub fn counted(mut self, metrics: RequestMetrics) -> Self {
        self.requests = metrics;
        self
    }

    /// How long work that is under way may take to finish when the process is told to
    /// end; by default 10 s.
    #[must_use]
    pub fn draining_for(mut self, drain: Duration) -> Self {
        self.drain = drain;
        self
    }

    /// Shows in `registry` whether it leads, as `leader`: give a sub-registry with the
    /// operator's prefix.
    pub fn register(&self, registry: &mut Registry) {
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

    /// Does `work`, whenever this process leads, until `shutdown`; then it finishes what is
    /// under way and releases the Lease. `clock` is what the Lease's times are from.
    ///
    /// # Errors
    /// An [`ElectionError`] if the election has durations that do not fit.
    pub async fn run<F, Fut>(
        self,
        client: Client,
        clock: Clock,
        shutdown: CancellationToken,
        work: F,
    ) -> Result<(), ElectionError>
    where
        F: Fn(Term) -> Fut,
        Fut: Future<Output = ()>,
    {
        let client_of_work = self.client_of_work(client.clone());
        let (health, drain, reporter) = (self.health, self.drain, self.reporter);
        let is_alone = self.election.is_none();
        let work = |stop: CancellationToken| {
            health.clear();
            let (events, recorder) = Recorder::new(client_of_work.clone(), reporter);
            let working = work(Term {
                client: client_of_work.clone(),
                events,
                health: health.clone(),
                stop: stop.clone(),
            });
            let working = Box::pin(async move {
                let recording = AbortOnDropHandle::new(tokio::spawn(recorder.run()));
                working.await;
                // No successor waits for what is still to be told. Whoever keeps its Events
                // is not waited for.
                if is_alone {
                    let told = tokio::time::timeout(drain, recording).await;
                    drop(told);
                }
            });
            async move {
                tokio::select! {
                    () = working => {}
                    () = too_late(stop, drain) => {
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
                let client = ClientLayer::default().counted(self.requests).wrap(client);
                let cluster =
                    Arc::new(KubeCluster::new(client).with_field_manager(election.manager));
                lead(cluster, election, self.leadership, clock, shutdown, work).await
            }
        }
    }

    /// The client that work is done through.
    pub fn client_of_work(&self, client: Client) -> Client {
        let layer = self.layer.clone().counted(self.requests.clone());
        layer.fenced_by(self.leadership.clone()).wrap(client)
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
            "leader",
            "1 in the process that leads, 0 in those that stand by",
            None,
            gauge.metric_type(),
        )?;
        gauge.encode(metric)?;
        let terms = ConstCounter::new(self.0.terms());
        let metric = encoder.encode_descriptor(
            "leader_terms",
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
