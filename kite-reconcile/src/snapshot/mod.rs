//! `KiteSnapshot`: a VM's root disk as it was at one moment.
//!
//! How it is taken decides [`kite_disks::taking`]: the guest is frozen where that is possible,
//! and goes on always. What that rests on is here: a note in the status before the first
//! request to freeze, a Lease beside the VM that one snapshot has at a time, and on the
//! request to storage how the machine was.
//!
//! ```text
//! finalizer ► room in the quota ► [Lease ► note ► freeze] ► VolumeSnapshot ► told ► [thaw ► no note ► no Lease] ► ready
//! deletion:  thaw ► VolumeSnapshot ► Lease ► finalizer
//! ```

mod begin;
mod observe;
mod plan;
mod room;
mod storage;
mod summary;
mod taking;
mod told;

use async_trait::async_trait;
use jiff::Timestamp;
use kite_core::{
    cluster::Cluster,
    crd::{KiteSnapshot, KiteSnapshotStatus},
};
use kube::runtime::controller::Action;

pub use self::{observe::Observed, plan::plan, storage::StorageSeen};
use crate::{
    Error,
    context::{Context, Tools},
    plan::{Outcome, Plan, Refusal},
    siblings,
};
use kite_runtime::plan::{Planner, reconcile as reconcile_by_plan};

/// Reconciles one snapshot.
///
/// # Errors
/// An [`Error`] if the API server refuses something, or the plan comes to no end. What people
/// have to mend is told in the status instead.
pub async fn reconcile<C: Cluster>(
    snapshot: &KiteSnapshot,
    context: &Context<C>,
) -> Result<Action, Error> {
    reconcile_by_plan(&Snapshots(context.tools()), snapshot, &context.shared).await
}

/// The reconciler of snapshots.
pub(crate) struct Snapshots<'a>(Tools<'a>);

#[async_trait]
impl<'a> Planner for Snapshots<'a> {
    type Object = KiteSnapshot;
    type Status = KiteSnapshotStatus;
    type Observed = Observed;
    type Executor = Tools<'a>;

    fn executor(&self) -> &Tools<'a> {
        &self.0
    }

    async fn observe<C: Cluster>(
        &self,
        object: &KiteSnapshot,
        cluster: &C,
    ) -> Result<Observed, Error> {
        Box::pin(Observed::read(object, cluster)).await
    }

    fn at(&self, observed: &mut Observed, now: Timestamp) {
        observed.now = now;
    }

    fn plan(
        &self,
        object: &KiteSnapshot,
        observed: &Observed,
    ) -> Result<Plan<KiteSnapshotStatus>, Error> {
        plan(object, observed)
    }

    fn is_current(&self, observed: &Observed) -> bool {
        observed.siblings.are_known()
    }

    async fn look_at_others<C: Cluster>(
        &self,
        object: &KiteSnapshot,
        observed: &mut Observed,
        cluster: &C,
    ) -> Result<(), Error> {
        observed.siblings = siblings::live(object, cluster).await?;
        Ok(())
    }

    fn absorb(&self, _: &KiteSnapshot, observed: &mut Observed, outcome: Outcome) {
        observed.absorb(outcome);
    }

    fn recall(&self, observed: &mut Observed, refusal: Refusal) {
        observed.recall(refusal);
    }
}
