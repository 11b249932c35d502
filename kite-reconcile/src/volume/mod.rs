//! `KiteVolume`: a disk apart from VMs, which it outlives.
//!
//! Which VM has it is a reservation, of which there can be one: the VM makes it before it is
//! given the disk, and gives it back when neither its machine nor what runs has the disk any
//! more. Here the disk is made, grown and, once no VM has it, deleted.
//!
//! ```text
//! finalizer ► room in the quota ► DataVolume ► its claim is told ► ready
//! deletion:  no VM has it ► DataVolume ► claim ► finalizer
//! ```
//!
//! A disk whose claim was told and is gone is lost: none is made in its place, for it would
//! look like the former one and have nothing of it.

mod data;
mod observe;
mod plan;
mod share;
mod summary;

use async_trait::async_trait;
use jiff::Timestamp;
use kite_core::{
    cluster::Cluster,
    crd::{KiteVolume, KiteVolumeStatus},
};
use kube::runtime::controller::Action;

pub use self::{observe::Observed, plan::plan};
use crate::{
    Error,
    context::{Context, Tools},
    plan::{Outcome, Plan, Refusal},
    siblings,
};
use kite_runtime::plan::{Planner, reconcile as reconcile_by_plan};

/// Reconciles one volume.
///
/// # Errors
/// An [`Error`] if the API server refuses something, or the plan comes to no end. What people
/// have to mend is told in the status instead.
pub async fn reconcile<C: Cluster>(
    volume: &KiteVolume,
    context: &Context<C>,
) -> Result<Action, Error> {
    reconcile_by_plan(&Volumes(context.tools()), volume, &context.shared).await
}

/// The reconciler of volumes.
pub(crate) struct Volumes<'a>(Tools<'a>);

#[async_trait]
impl<'a> Planner for Volumes<'a> {
    type Object = KiteVolume;
    type Status = KiteVolumeStatus;
    type Observed = Observed;
    type Executor = Tools<'a>;

    fn executor(&self) -> &Tools<'a> {
        &self.0
    }

    async fn observe<C: Cluster>(
        &self,
        object: &KiteVolume,
        cluster: &C,
    ) -> Result<Observed, Error> {
        Box::pin(Observed::read(object, cluster)).await
    }

    fn at(&self, observed: &mut Observed, now: Timestamp) {
        observed.now = now;
    }

    fn plan(
        &self,
        object: &KiteVolume,
        observed: &Observed,
    ) -> Result<Plan<KiteVolumeStatus>, Error> {
        plan(object, observed)
    }

    fn is_current(&self, observed: &Observed) -> bool {
        observed.siblings.are_known()
    }

    async fn look_at_others<C: Cluster>(
        &self,
        object: &KiteVolume,
        observed: &mut Observed,
        cluster: &C,
    ) -> Result<(), Error> {
        observed.siblings = siblings::live(object, cluster).await?;
        Ok(())
    }

    fn absorb(&self, _: &KiteVolume, observed: &mut Observed, outcome: Outcome) {
        observed.absorb(outcome);
    }

    fn recall(&self, observed: &mut Observed, refusal: Refusal) {
        observed.recall(refusal);
    }
}
