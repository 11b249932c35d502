//! Leader election by a Lease (`coordination.k8s.io/v1`): of several controllers
//! one works, and the others stand by.
//!
//! ```text
//! candidate ── takes the Lease ──► leader ── renews it ──► leader …
//!     ▲                              │ told to end: drains, releases the Lease
//!     └── renewal too late, or ◄─────┘
//!         another holds the Lease
//! ```
//!
//! What makes it safe:
//! - **No clock but one's own.** The times in a Lease are for people. A candidate
//!   takes over what *it* has seen unchanged for as long as the Lease lasts.
//! - **Every change names the version that it means.** Of two that want the
//!   Lease the API server lets one have it; a renewal that was delayed changes
//!   nothing of the next holder's.
//! - **The leader stops first.** It counts from *before* it sent its last
//!   renewal that was answered, and only up to
//!   [`Election::renew_deadline`], which is shorter than what the others wait for.
//!   [`Leadership`] says so to every write (`ClientLayer`),
//!   whether or not the process was awake to notice. It asks the monotonic clock
//!   and the system's, and the less favourable counts: the first stands still
//!   while a machine is suspended.
//!
//! What is left is a request that was sent in time and arrives after the whole
//! margin: no client can call it back. Reconcilers are safe against it because
//! they are safe against a second controller.

mod leadership;
mod record;

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::coordination::v1::Lease;
use kite_cluster::{Cluster, ClusterError, FieldManager};
use rand::RngExt as _;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

pub use self::leadership::{LeaderState, Leadership};
use self::record::Record;
use crate::Clock;

/// How long the Lease may take to be given back when the process ends.
const RELEASE: Duration = Duration::from_secs(2);

/// Which Lease is contended for, by whom, and how fast.
///
/// ```
/// use std::time::Duration;
///
/// use kite_runtime::leader::Election;
///
/// let mut election = Election::new("my-operator", "my-operator", "my-operator-7d9f_5c0e");
/// assert!(election.validate().is_ok());
/// // The leader would still work when another begins.
/// election.renew_deadline = Duration::from_secs(20);
/// assert!(election.validate().is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Election {
    /// Namespace of the Lease.
    pub namespace: String,
    /// Name of the Lease.
    pub name: String,
    /// Who this process is: no other process, not even the next one in the same
    /// pod, may have the same.
    pub identity: String,
    /// How long the others wait after the last renewal that they saw; whole
    /// seconds.
    pub lease_duration: Duration,
    /// How long after its last renewal the leader still works.
    pub renew_deadline: Duration,
    /// Within what time a candidate looks again. A renewal that failed is repeated
    /// after half of it.
    pub retry_period: Duration,
    /// Under whose name the Lease is changed.
    pub manager: FieldManager,
}

impl Election {
    /// An election with the durations of most controllers: a Lease of 15 s, work
    /// for 10 s after a renewal, a look within 2 s.
    pub fn new(
        namespace: impl Into<String>,
        name: impl Into<String>,
        identity: impl Into<String>,
    ) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
            identity: identity.into(),
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
            manager: FieldManager::new("leader-election"),
        }
    }

    /// With the Lease changed under this name.
    #[must_use]
    pub fn managed_by(self, manager: FieldManager) -> Self {
        Self { manager, ..self }
    }

    /// Checks that the durations make an election safe.
    ///
    /// # Errors
    /// [`ElectionError::Invalid`] with the duration that does not fit, and what to give.
    pub fn validate(&self) -> Result<(), ElectionError> {
        let Self {
            lease_duration,
            renew_deadline,
            retry_period,
            ..
        } = *self;
        let wrong = |field, value, remedy: &str| {
            Err(ElectionError::Invalid {
                field,
                value,
                remedy: remedy.to_owned(),
            })
        };
        if lease_duration.as_secs() == 0 || lease_duration.subsec_nanos() != 0 {
            return wrong(
                "lease duration",
                lease_duration,
                "a Lease lasts whole seconds, at least one",
            );
        }
        if renew_deadline >= lease_duration {
            return wrong(
                "renew deadline",
                renew_deadline,
                "the leader must stop before the others start: give less than the lease duration",
            );
        }
        if retry_period.is_zero() || retry_period * 3 > renew_deadline {
            return wrong(
                "retry period",
                retry_period,
                "give more than zero and at most a third of the renew deadline, so that a renewal \
                 may fail and be repeated in time",
            );
        }
        Ok(())
    }

    /// How often the leader renews: several times within the deadline, so that
    /// one that fails is no reason to step down.
    fn renew_period(&self) -> Duration {
        (self.renew_deadline / 5).max(self.retry_period)
    }

    /// A pause of up to the retry period: candidates do not look all at once, and a
    /// Lease that is given back is taken within it.
    fn pause(&self) -> Duration {
        self.retry_period
            .mul_f64(rand::rng().random_range(0.75..0.95))
    }
}

/// A name for [`Election::identity`] that no other process has: the host's name, and
/// something random.
pub fn identity() -> String {
    let host = std::env::var("HOSTNAME").unwrap_or_else(|_| "process".to_owned());
    format!("{host}_{:016x}", rand::rng().random::<u64>())
}

/// Why no election can be held.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ElectionError {
    /// The durations do not fit together.
    #[error("the {field} {value:?} cannot be used: {remedy}")]
    Invalid {
        /// Which one.
        field: &'static str,
        /// What it is.
        value: Duration,
        /// What to do.
        remedy: String,
    },
}

/// Runs `work` while this process leads, until `shutdown`.
///
/// `work` is called whenever the Lease is won, with a token that tells it to come
/// to its end; when it has, the Lease is released, so that another takes over at
/// once. When the Lease is lost, `work` is dropped where it stands, which must be
/// as harmless as a crash, and the process becomes a candidate again. Work that
/// ends by itself ends the election.
///
/// `cluster` must be able to write whether or not this process leads: do not give
/// one behind `ClientLayer`'s fence.
///
/// # Errors
/// [`ElectionError::Invalid`] before anything is done. A Lease that cannot be read or written
/// is logged, and tried again.
pub async fn lead<C, F, Fut>(
    cluster: Arc<C>,
    election: Election,
    leadership: Leadership,
    clock: Clock,
    shutdown: CancellationToken,
    mut work: F,
) -> Result<(), ElectionError>
where
    C: Cluster,
    F: FnMut(CancellationToken) -> Fut,
    Fut: Future<Output = ()>,
{
    election.validate()?;
    let lease = Arc::new(Record {
        cluster,
        election,
        clock,
    });
    let mut candidate = Candidate::default();
    while let Some(won) = candidate.wait(&lease, &leadership, &shutdown).await {
        let identity = &lease.election.identity;
        tracing::info!(%identity, lease = %lease.key(), "leads");
        // A task of its own: busy reconcilers must not hold up renewals.
        let renewing = tokio::spawn(renew(Arc::clone(&lease), leadership.clone(), won));
        let mut renewing = AbortOnDropHandle::new(renewing);
        tokio::select! {
            biased;
            lost = &mut renewing => {
                leadership.end();
                let why = lost.unwrap_or_else(|error| error.to_string());
                tracing::warn!(%identity, lease = %lease.key(), %why, "leads no more");
            }
            () = work(shutdown.child_token()) => {
                renewing.abort();
                let last = renewing.await;
                drop(last);
                if leadership.end() {
                    release(&lease).await;
                }
                return Ok(());
            }
        }
    }
    Ok(())
}

/// What a candidate knows: the Lease as it last saw it change.
#[derive(Default)]
struct Candidate {
    seen: Option<(Lease, Instant)>,
}

impl Candidate {
    /// Waits until the Lease is won; `None` at shutdown.
    async fn wait<C: Cluster>(
        &mut self,
        lease: &Record<C>,
        leadership: &Leadership,
        shutdown: &CancellationToken,
    ) -> Option<Lease> {
        let deadline = lease.election.renew_deadline;
        loop {
            let sent = lease.now();
            let answer = {
                let look = timeout(deadline, self.look(lease, leadership));
                tokio::pin!(look);
                tokio::select! {
                    biased;
                    answer = &mut look => answer,
                    () = shutdown.cancelled() => {
                        // A Lease that is won this late is not kept for nothing.
                        if let Ok(Ok(Ok(Some(_)))) = timeout(RELEASE, look).await {
                            release(lease).await;
                        }
                        return None;
                    }
                }
            };
            match answer {
                Ok(Ok(Some(won))) => {
                    leadership.hold(lease.until(sent), &lease.election.identity);
                    if leadership.is_held() {
                        return Some(won);
                    }
                }
                Ok(Ok(None)) => {}
                Ok(Err(error)) => tracing::warn!(%error, "cannot stand for election"),
                Err(_) => tracing::warn!("cannot stand for election: the API server is silent"),
            }
            tokio::select! {
                biased;
                () = shutdown.cancelled() => return None,
                () = sleep(self.pause(lease)) => {}
            }
        }
    }

    /// How long until the next look: no longer than until the Lease is free if nobody
    /// renews it, so that seldom looks put off no take-over.
    fn pause<C: Cluster>(&self, lease: &Record<C>) -> Duration {
        let pause = lease.election.pause();
        let left = self
            .seen
            .as_ref()
            .map(|(seen, since)| lease.lasts(seen).saturating_sub(since.elapsed()));
        match left {
            Some(left) if !left.is_zero() => pause.min(left),
            // It cannot be had though it is free.
            Some(_) | None => pause,
        }
    }

    /// One look at the Lease, and an attempt to take it if it is free.
    async fn look<C: Cluster>(
        &mut self,
        lease: &Record<C>,
        leadership: &Leadership,
    ) -> Result<Option<Lease>, ClusterError> {
        let Some(found) = lease.read().await? else {
            leadership.stand_by(None);
            // Who held it when it was deleted writes until the own deadline.
            let is_free = self
                .seen
                .as_ref()
                .is_none_or(|(seen, since)| lease.is_free(seen, since.elapsed()));
            return if is_free {
                lease.create().await
            } else {
                Ok(None)
            };
        };
        leadership.stand_by(record::holder(&found));
        let is_same = self
            .seen
            .as_ref()
            .is_some_and(|(seen, _)| version(seen) == version(&found));
        if !is_same {
            self.seen = Some((found.clone(), Instant::now()));
        }
        let since = self.seen.as_ref().map(|(_, since)| since.elapsed());
        if lease.is_free(&found, since.unwrap_or_default()) {
            return lease.take(&found).await;
        }
        Ok(None)
    }
}

/// What changes with every change of a Lease.
fn version(lease: &Lease) -> (Option<&str>, Option<&str>) {
    let metadata = &lease.metadata;
    (
        metadata.uid.as_deref(),
        metadata.resource_version.as_deref(),
    )
}

/// Renews the Lease until it is lost. Says why it is.
async fn renew<C: Cluster>(
    lease: Arc<Record<C>>,
    leadership: Leadership,
    mut held: Lease,
) -> String {
    let mut pause = lease.election.renew_period();
    loop {
        tokio::select! {
            biased;
            () = leadership.lost() => return "no renewal was answered in time".to_owned(),
            () = sleep(pause) => {}
        }
        let sent = lease.now();
        let Some(until) = leadership.deadline() else {
            return "no renewal was answered in time".to_owned();
        };
        // One request that hangs is no silence: there is time for others.
        let patience = until.min(Instant::now() + lease.election.renew_deadline / 3);
        let answer = timeout_at(patience, renew_once(&lease, &held)).await;
        pause = lease.election.retry_period / 2;
        match answer {
            Ok(Ok(Renewal::Renewed(renewed))) => {
                held = *renewed;
                if !leadership.prolong(lease.until(sent)) {
                    return "the renewal was answered too late".to_owned();
                }
                pause = lease.election.renew_period();
            }
            Ok(Ok(Renewal::Changed(changed))) => {
                held = *changed;
                pause = Duration::ZERO;
            }
            Ok(Ok(Renewal::Lost(why))) => return why,
            Ok(Err(error)) => tracing::warn!(%error, "the Lease cannot be renewed"),
            Err(_) if Instant::now() >= until => return "the API server is silent".to_owned(),
            Err(_) => tracing::warn!("a renewal of the Lease is not answered"),
        }
    }
}

enum Renewal {
    Renewed(Box<Lease>),
    /// Somebody touched the Lease, or an earlier renewal took effect though its
    /// answer was lost: it is still held, in this version.
    Changed(Box<Lease>),
    Lost(String),
}

async fn renew_once<C: Cluster>(lease: &Record<C>, held: &Lease) -> Result<Renewal, ClusterError> {
    match lease.renew(held).await {
        Ok(renewed) => return Ok(Renewal::Renewed(Box::new(renewed))),
        Err(ClusterError::Conflict { .. } | ClusterError::NotFound { .. }) => {}
        Err(error) => return Err(error),
    }
    let Some(found) = lease.read().await? else {
        return Ok(Renewal::Lost("the Lease was deleted".to_owned()));
    };
    Ok(match record::holder(&found) {
        Some(holder) if holder == lease.election.identity => Renewal::Changed(Box::new(found)),
        Some(holder) => Renewal::Lost(format!("{holder} holds the Lease")),
        None => Renewal::Lost("the Lease was taken away".to_owned()),
    })
}

/// Gives the Lease back, so that another need not wait for its end.
async fn release<C: Cluster>(lease: &Record<C>) {
    let releasing = async {
        loop {
            match lease.read().await? {
                Some(found) if record::holder(&found) == Some(&lease.election.identity) => {
                    // A renewal that was under way may come between.
                    if lease.release(&found).await? {
                        return Ok(());
                    }
                }
                Some(_) | None => return Ok::<_, ClusterError>(()),
            }
        }
    };
    match timeout(RELEASE, releasing).await {
        Ok(Ok(())) => tracing::info!(lease = %lease.key(), "the Lease is released"),
        Ok(Err(error)) => tracing::warn!(%error, "the Lease is not released and will expire"),
        Err(_) => tracing::warn!("the Lease is not released and will expire: no answer"),
    }
}
