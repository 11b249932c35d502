//! What a kind's author says for it to be reconciled by plans.

use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kite_cluster::{Cluster, ClusterError, FieldManager, Object, conditions::ReportedStatus};
use kube::core::object::HasStatus;

use super::{Change, Done, Plan, Refusal, Step, Urgency};
use crate::{Error, Failure, Listener, events::EventRecord, queue::Progress};

/// How an operator's changes are carried out and told of, whatever kind they are made for.
#[async_trait]
pub trait Executor: Send + Sync {
    /// What can be changed.
    type Change: Change;
    /// What comes of a change.
    type Outcome: Send;
    /// Why a reconcile does not come to its end.
    type Error: PlanError;

    /// Under whose name statuses are written.
    fn manager(&self) -> FieldManager;

    /// Carries a change out for `object`.
    ///
    /// # Errors
    /// Why it was not carried out: the rest of the plan waits until the next reconcile.
    async fn execute<K: Object, C: Cluster>(
        &self,
        change: &Self::Change,
        object: &K,
        cluster: &C,
    ) -> Result<Done<Self::Outcome>, Self::Error>;

    /// What there is to tell by Events of a status whose conditions were `old` and are
    /// `new`; nothing by default.
    fn story(&self, old: &[Condition], new: &[Condition]) -> Vec<EventRecord> {
        let _ = (old, new);
        Vec::new()
    }

    /// How often a status is written at most that says nothing but how far something is
    /// on its way ([`Urgency::Later`]).
    fn progress_every(&self) -> Duration {
        Duration::from_secs(15)
    }
}

/// What is changed for a planner's objects.
pub type ChangeOf<P> = <<P as Planner>::Executor as Executor>::Change;
/// What comes of a change for a planner's objects.
pub type OutcomeOf<P> = <<P as Planner>::Executor as Executor>::Outcome;
/// Why a planner's reconciles do not come to their end.
pub type ErrorOf<P> = <<P as Planner>::Executor as Executor>::Error;

/// How objects of a kind are reconciled by plans: what is to be looked at, and what
/// follows from it.
///
/// A planner is a [`Reconciler`](crate::Reconciler): an [`Operator`](crate::Operator) and a
/// simulation take it as they take one.
#[async_trait]
pub trait Planner: Send + Sync {
    /// The kind.
    type Object: Object + HasStatus<Status = Self::Status>;
    /// Its status.
    type Status: ReportedStatus;
    /// What is looked at.
    type Observed: Send + Sync;
    /// What carries the changes out.
    type Executor: Executor;

    /// What carries the changes out.
    fn executor(&self) -> &Self::Executor;

    /// As [`Reconciler::watches`](crate::Reconciler::watches).
    fn watches<L: Listener<Self::Object>>(listener: L) -> L {
        listener
    }

    /// As [`Reconciler::progress`](crate::Reconciler::progress).
    fn progress(_object: &Self::Object) -> Progress {
        Progress::AtRest
    }

    /// Looks at all that the plan depends on: a fixed, small set of reads.
    ///
    /// # Errors
    /// What could not be read: nothing is planned then.
    async fn observe<C: Cluster>(
        &self,
        object: &Self::Object,
        cluster: &C,
    ) -> Result<Self::Observed, ErrorOf<Self>>;

    /// What to do. Pure.
    ///
    /// # Errors
    /// Why no plan can be made, such as an object that cannot be rendered.
    fn plan(
        &self,
        object: &Self::Object,
        observed: &Self::Observed,
    ) -> Result<Plan<Self::Status, ChangeOf<Self>>, ErrorOf<Self>>;

    /// Takes what came of a change for `object` into what was observed.
    fn absorb(
        &self,
        object: &Self::Object,
        observed: &mut Self::Observed,
        outcome: OutcomeOf<Self>,
    );

    /// Takes in what time it is, for kinds whose plan depends on that.
    fn at(&self, _observed: &mut Self::Observed, _now: Timestamp) {}

    /// The next moment at which time alone changes the plan, if there is one;
    /// `again` is when the plan asked to be made again.
    fn holds_until(
        &self,
        _object: &Self::Object,
        _observed: &Self::Observed,
        again: Timestamp,
    ) -> Option<Timestamp> {
        Some(again)
    }

    /// Whether what is told in the object's status, as it was seen, was told before
    /// the others were seen that it is told to; see [`Step::WriteStatus`].
    fn is_current(&self, _observed: &Self::Observed) -> bool {
        true
    }

    /// Looks at the others once more, as the API server itself knows them.
    ///
    /// # Errors
    /// What could not be read.
    async fn look_at_others<C: Cluster>(
        &self,
        _object: &Self::Object,
        _observed: &mut Self::Observed,
        _cluster: &C,
    ) -> Result<(), ErrorOf<Self>> {
        Ok(())
    }

    /// Whether the step starts or stops something that people use: where views may
    /// be old, it would be started and stopped in turns by whoever has the older one.
    fn interrupts(&self, _observed: &Self::Observed, _step: &Step<ChangeOf<Self>>) -> bool {
        false
    }

    /// Whether a step that destroys may be taken by what caches say. Such a step names
    /// by its uid what it destroys, and is right whatever else there is.
    fn may_be_old(
        &self,
        _object: &Self::Object,
        _observed: &Self::Observed,
        _step: &Step<ChangeOf<Self>>,
    ) -> bool {
        false
    }

    /// Takes in what was refused a while ago, and is not to be tried again yet.
    fn recall(&self, _observed: &mut Self::Observed, _refusal: Refusal) {}

    /// What to give back when the API server refuses a step for good, so that a
    /// failure uses nothing up, and for how long it is not taken again.
    fn on_refusal(
        &self,
        _object: &Self::Object,
        _observed: &Self::Observed,
        _why: &ClusterError,
    ) -> Option<(ChangeOf<Self>, Refusal)> {
        None
    }

    /// How soon `new` has to be written in the place of `old`.
    fn urgency(&self, _old: &Self::Status, _new: &Self::Status) -> Urgency {
        Urgency::Now
    }
}

/// Why a reconcile by plans does not come to its end.
pub trait PlanError: Failure + From<ClusterError> {
    /// The plan still wanted changes after `rounds` rounds, `step` first: two writers
    /// disagree about a field, and this is one of them.
    fn endless(rounds: usize, step: String) -> Self;

    /// The reason of the condition `Ready` that tells a person of this error; none if they
    /// need not know. `is_persistent`: it has come again and again.
    fn reason_to_tell(&self, is_persistent: bool) -> Option<&'static str> {
        reason_of(self.cluster(), is_persistent)
    }

    /// The API server's no to an object, of which a person should read why: it is invalid,
    /// or a quota or policy forbids it. That the account lacks a right is nothing of the
    /// object's, and passes where the right is being given.
    fn refusal(&self) -> Option<&ClusterError> {
        self.cluster().filter(|error| is_refusal(error))
    }
}

impl PlanError for Error {
    fn endless(rounds: usize, step: String) -> Self {
        Self::Endless { rounds, step }
    }

    fn reason_to_tell(&self, is_persistent: bool) -> Option<&'static str> {
        match self {
            Self::Endless { .. } => Some("Contested"),
            Self::Cluster(_) | Self::Panicked { .. } => reason_of(self.cluster(), is_persistent),
        }
    }
}

/// The reason that tells a person of what the cluster refused or did not answer, or of an
/// error that is none of the cluster's; see [`PlanError::reason_to_tell`].
pub fn reason_of(error: Option<&ClusterError>, is_persistent: bool) -> Option<&'static str> {
    match error {
        Some(error) if is_refusal(error) => Some("Refused"),
        Some(ClusterError::Unreadable { .. }) => Some("Unreadable"),
        // The kind, or the namespace.
        Some(ClusterError::NotFound { .. }) if is_persistent => Some("Missing"),
        // Somebody was faster, and is again; it is the next leader's turn.
        Some(ClusterError::Conflict { .. } | ClusterError::NotLeader { .. }) => None,
        _ => is_persistent.then_some("Failing"),
    }
}

/// See [`PlanError::refusal`].
fn is_refusal(error: &ClusterError) -> bool {
    let is_no = matches!(
        error,
        ClusterError::Invalid { .. } | ClusterError::Forbidden { .. }
    );
    is_no && !lacks_right(error)
}

/// Whether the account may not do this at all, as Kubernetes' authorizers say it.
fn lacks_right(error: &ClusterError) -> bool {
    let ClusterError::Forbidden { status, .. } = error else {
        return false;
    };
    let said = [" cannot ", " resource ", " in API group "];
    said.iter().all(|words| status.message.contains(words))
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    #[test]
    fn what_the_account_may_not_do_is_told_only_if_it_stays_so() {
        let told = |message: &str, is_persistent| {
            let error = Error::Cluster(ClusterError::Forbidden {
                operation: "get Secret a/b".to_owned(),
                status: Box::new(Status {
                    code: 403,
                    ..Status::failure(message, "Forbidden")
                }),
            });
            error.reason_to_tell(is_persistent)
        };
        let right = r#"secrets "b" is forbidden: User "kite" cannot get resource "secrets" in API group "" in the namespace "a""#;
        assert_eq!(told(right, false), None);
        assert_eq!(told(right, true), Some("Failing"));
        let quota = r#"secrets "b" is forbidden: exceeded quota: kite"#;
        assert_eq!(told(quota, false), Some("Refused"));
    }
}
