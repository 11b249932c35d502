//! Reconciles by plans: observe, decide without doing, carry out, and tell in the status.
//!
//! ```text
//! object ──► observe ──► plan (pure) ──► execute ──► plan again … ──► status, last
//! ```
//!
//! A [`Planner`] looks at everything that its decision depends on and *plans* from that: a
//! pure function, which needs no cluster to be tried. [`reconcile`] carries the steps out,
//! hands what came of them back, and has it planned again until nothing is left to do but
//! wait. The status is written last, and only if it says something new.
//!
//! Because each step is planned from what *is*, not from what was done before, a crash at
//! any step, a lost answer or a second controller changes nothing in the outcome, as long
//! as each [`Change`] says by uid or resourceVersion what it rests on. What the loop adds:
//!
//! - An object is read from the API server before the first change that is made for it,
//!   and everything that was observed before the first that destroys something
//!   ([`Change::is_destructive`]): caches may be old.
//! - A plan that had nothing to do is remembered with what it was made from: as long as
//!   all of that is as it was, the object is at rest and costs nothing
//!   ([`Planner::holds_until`]).
//! - A failure is told in the condition `Ready` ([`PlanError::reason_to_tell`]): at once
//!   what an edit has to mend, and what may pass by itself if it does not.

mod fresh;
mod planner;
mod report;
mod rounds;
mod step;

use std::{fmt, time::Duration};

use kite_cluster::conditions::NewCondition;

pub use self::{
    planner::{ChangeOf, ErrorOf, Executor, OutcomeOf, PlanError, Planner, reason_of},
    rounds::reconcile,
};
pub use crate::{pace::Urgency, refusals::Refusal};

/// The outcome of planning: pure data, without times.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan<S, C> {
    /// What can be done now, in this order. When all of it is done, there is to
    /// be planned again with what came of it; no steps means that nothing is
    /// left to do but wait.
    pub steps: Vec<Step<C>>,
    /// The status to report when there are no steps, without its conditions.
    pub status: S,
    /// The status's conditions.
    pub conditions: Vec<NewCondition>,
    /// When to look again though nothing changes. Until then a plan made from the
    /// same observations is the same.
    pub requeue_after: Duration,
}

/// One step of a plan.
#[derive(Clone, Debug, PartialEq)]
pub enum Step<C> {
    /// Put the finalizer on the reconciled object.
    AddFinalizer(&'static str),
    /// Take the finalizer off. Always the last step of all: the object may be
    /// gone after it.
    RemoveFinalizer(&'static str),
    /// Write the status of this plan, on the condition that the object is unchanged
    /// since it was read, and look at everything anew as it was after that: what is
    /// planned then was told before to all who have to know. The only step of its
    /// plan.
    WriteStatus,
    /// Delete the reconciled object itself, on the condition that it is
    /// unchanged since it was read: its time is over, and whoever gives it more
    /// time at the last moment wins. The only step of its plan.
    DeleteSelf,
    /// A change of anything else.
    Change(C),
}

impl<C> From<C> for Step<C> {
    fn from(change: C) -> Self {
        Self::Change(change)
    }
}

impl<C: Change> Step<C> {
    /// Whether what was observed may not be old: the step destroys something, or
    /// lets it be destroyed.
    pub fn is_destructive(&self) -> bool {
        match self {
            Self::RemoveFinalizer(_) | Self::DeleteSelf => true,
            Self::AddFinalizer(_) | Self::WriteStatus => false,
            Self::Change(change) => change.is_destructive(),
        }
    }

    /// What it does, for logs: kinds and names, never contents.
    pub fn describe(&self) -> String {
        match self {
            Self::AddFinalizer(name) => format!("add finalizer {name}"),
            Self::RemoveFinalizer(name) => format!("remove finalizer {name}"),
            Self::WriteStatus => "write the status".to_owned(),
            Self::DeleteSelf => "delete the object itself".to_owned(),
            Self::Change(change) => change.describe(),
        }
    }
}

/// One change to the cluster that a planner plans, beside those of the reconciled object
/// itself. Data: [`Executor::execute`] carries it out.
pub trait Change: Clone + fmt::Debug + Send + Sync + 'static {
    /// What it does, for logs: kinds and names, never contents.
    fn describe(&self) -> String;

    /// Whether it destroys something, or lets it be destroyed: it is planned once more
    /// from what the API server itself says before it is carried out.
    fn is_destructive(&self) -> bool;

    /// Whether it writes an object that others may have made, or made anew, unseen: where
    /// the API server reports a conflict, everything is observed once more there and
    /// planned again, instead of failing.
    fn may_be_contested(&self) -> bool {
        false
    }

    /// Whether the status of its plan is written first, on the condition that the object is
    /// unchanged. Then it is the only step of its plan.
    fn is_told_first(&self) -> bool {
        false
    }

    /// Whether it is as right if the object of this uid, which goes, has been written since
    /// it was read, or is gone already: then it is not read again before.
    fn stands_by_itself(&self, of: &str) -> bool {
        let _ = of;
        false
    }
}

/// What came of a change.
#[derive(Clone, Debug)]
pub struct Done<O> {
    /// What is to be taken into what was observed; see [`Planner::absorb`].
    pub outcome: O,
    /// What was refused with it, to be remembered until it may be tried again; see
    /// [`Planner::recall`].
    pub refusal: Option<Refusal>,
}

impl<O> From<O> for Done<O> {
    fn from(outcome: O) -> Self {
        Self {
            outcome,
            refusal: None,
        }
    }
}
