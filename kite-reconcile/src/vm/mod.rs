//! `KiteVirtualMachine`: from its spec to a running VM, and back to nothing.
//!
//! Its plan is the list of stages in `plan.rs`, each in the file of what it is about: what is
//! to be done, what is told of it, and when to look again. A VM that goes, or that cannot be
//! read, has a plan of its own.
//!
//! ```text
//! finalizer ► claims, also to volumes ► isolation ► image ► quota ► keys, cloud-init ► disk ► VirtualMachine ► Services ► Ingress or HTTPRoute
//! deletion:  Ingress, HTTPRoute, Services ► orders to move it ► VirtualMachine ► unfinished copies ► snapshots ► disks ► its claim ► Secrets ► claims ► finalizer
//! ```

mod absorb;
mod access;
mod around;
mod blockers;
mod data;
mod decided;
mod delete;
mod disk;
mod disks;
mod draft;
mod expiry;
mod exposed;
mod hold;
mod idle;
mod image;
mod isolation;
mod judge;
mod login;
mod lost;
mod machine;
mod made;
mod moving;
mod observe;
mod offer;
mod orders;
mod origin;
mod plan;
mod quota;
mod remake;
mod reserved;
mod resize;
mod restart;
mod restore;
mod scheduled;
mod snapshots;
mod status;
mod unreadable;
mod volumes;

use async_trait::async_trait;
use kite_core::{
    cluster::{Cluster, ClusterError},
    crd::{KiteVirtualMachine, KiteVirtualMachineStatus},
};
use kite_render::{Vm, restore as notes};
use kube::runtime::controller::Action;

pub(crate) use self::blockers::is_moving;
pub(crate) use self::data::present_disk;
pub(crate) use self::disk::runs_on;
pub(crate) use self::judge::DiskState;
pub(crate) use self::login::KEYS_REPLACED;
pub(crate) use self::offer::{is_fulfilled, is_of as is_claim_of};
pub(crate) use self::quota::{age, gibibytes};
pub(crate) use self::snapshots::COPIED;
pub use self::{
    disks::Disks,
    made::Made,
    observe::{ImageSeen, Observed},
    offer::OfferSeen,
    orders::Moves,
    plan::plan,
    restore::Source,
    volumes::VolumeSeen,
};
use crate::{
    Error,
    context::{Context, Tools},
    objects::AnyObject,
    plan::{Change, Outcome, Plan, Refusal, Step},
    refused::Refused,
    siblings,
};
use kite_runtime::plan::{Planner, Urgency, reconcile as reconcile_by_plan};

/// Reconciles one VM: makes the cluster match its spec as far as can be done
/// now, and reports what was seen in its status. A settled VM costs reads only.
///
/// # Errors
/// An [`Error`] if the API server refuses something, or the plan comes to no end. What people
/// have to mend is told in the status instead.
pub async fn reconcile<C: Cluster>(
    vm: &KiteVirtualMachine,
    context: &Context<C>,
) -> Result<Action, Error> {
    reconcile_by_plan(&Vms(context.tools()), vm, &context.shared).await
}

/// The reconciler of VMs.
pub(crate) struct Vms<'a>(Tools<'a>);

#[async_trait]
impl<'a> Planner for Vms<'a> {
    type Object = KiteVirtualMachine;
    type Status = KiteVirtualMachineStatus;
    type Observed = Observed;
    type Executor = Tools<'a>;

    fn executor(&self) -> &Tools<'a> {
        &self.0
    }

    async fn observe<C: Cluster>(
        &self,
        object: &KiteVirtualMachine,
        cluster: &C,
    ) -> Result<Observed, Error> {
        Box::pin(Observed::read(object, cluster)).await
    }

    fn at(&self, observed: &mut Observed, now: jiff::Timestamp) {
        observed.now = now;
    }

    fn holds_until(
        &self,
        object: &KiteVirtualMachine,
        observed: &Observed,
        again: jiff::Timestamp,
    ) -> Option<jiff::Timestamp> {
        match Vm::of(object) {
            Ok(vm) => plan::next_deadline(&vm, observed),
            Err(_) => Some(again),
        }
    }

    fn plan(
        &self,
        object: &KiteVirtualMachine,
        observed: &Observed,
    ) -> Result<Plan<KiteVirtualMachineStatus>, Error> {
        plan(object, observed)
    }

    fn is_current(&self, observed: &Observed) -> bool {
        observed.siblings.are_known()
    }

    async fn look_at_others<C: Cluster>(
        &self,
        object: &KiteVirtualMachine,
        observed: &mut Observed,
        cluster: &C,
    ) -> Result<(), Error> {
        observed.siblings = siblings::live(object, cluster).await?;
        Ok(())
    }

    fn interrupts(&self, observed: &Observed, step: &Step) -> bool {
        match (step, &observed.machine) {
            (Step::Change(Change::Apply(AnyObject::VirtualMachine(desired))), Some(stored)) => {
                desired.spec.run_strategy != stored.spec.run_strategy
                    || notes::disk_of(desired) != notes::disk_of(stored)
                    || self::volumes::attaches(desired, Some(stored))
            }
            (Step::Change(Change::Apply(AnyObject::VirtualMachine(desired))), None) => {
                self::volumes::attaches(desired, None)
            }
            // Which disk counts, and which are there, too.
            (
                Step::Change(
                    Change::Apply(AnyObject::DataVolume(desired))
                    | Change::Take(AnyObject::DataVolume(desired)),
                ),
                _,
            ) => self::restore::decides(observed, desired),
            // What else moves it, and how KubeVirt is configured, must be true and not old.
            (Step::Change(Change::Move(_)), _) => true,
            _ => false,
        }
    }

    fn may_be_old(&self, object: &KiteVirtualMachine, observed: &Observed, step: &Step) -> bool {
        delete::may_be_old(object, observed, step)
    }

    fn absorb(&self, vm: &KiteVirtualMachine, observed: &mut Observed, outcome: Outcome) {
        observed.absorb(vm, outcome);
    }

    fn recall(&self, observed: &mut Observed, refusal: Refusal) {
        observed.recall(refusal);
    }

    fn on_refusal(
        &self,
        object: &KiteVirtualMachine,
        observed: &Observed,
        why: &ClusterError,
    ) -> Option<(Change, Refusal)> {
        let vm = kite_render::Vm::of(object).ok()?;
        let claim = offer::unfulfilled(&vm, observed).filter(|_| observed.disk.is_none())?;
        let (meta, now) = (&object.metadata, observed.now);
        let refusal = Refused::Offer.because(&why.to_string(), meta, now);
        Some((Change::Unclaim(claim.clone()), refusal))
    }

    fn urgency(&self, old: &KiteVirtualMachineStatus, new: &KiteVirtualMachineStatus) -> Urgency {
        status::urgency(old, new)
    }
}
