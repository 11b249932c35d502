//! `KiteVirtualMachine`: from its spec to a running VM, and back to nothing.
//!
//! ```text
//! finalizer ► claims ► image ► keys ► cloud-init ► disk ► VirtualMachine ► Services ► Ingress or HTTPRoute
//! deletion:  Ingress, HTTPRoute, Services ► orders to move it ► VirtualMachine ► disk ► its claim ► Secrets ► claims ► finalizer
//! ```

pub(crate) mod blockers;
mod delete;
mod expiry;
mod exposed;
mod growth;
mod hold;
mod idle;
mod login;
mod lost;
mod machine;
mod moving;
mod observe;
mod offer;
mod orders;
mod plan;
mod quota;
mod remake;
mod resize;
mod restart;
mod status;
mod unreadable;
mod volume;

use async_trait::async_trait;
use kite_core::{
    cluster::Cluster,
    crd::{KiteVirtualMachine, KiteVirtualMachineStatus},
};
use kite_render::Vm;
use kube::runtime::controller::Action;

pub(crate) use self::login::KEYS_REPLACED;
pub(crate) use self::offer::{is_fulfilled, is_of as is_claim_of};
pub use self::{
    observe::{ImageSeen, Observed},
    offer::OfferSeen,
    orders::Moves,
    plan::plan,
};
use crate::{
    Error,
    context::{Context, Settings},
    drive::{self, Reconciler},
    objects::AnyObject,
    pace::Urgency,
    plan::{Outcome, Plan, Refusal, Step},
};

/// Reconciles one VM: makes the cluster match its spec as far as can be done
/// now, and reports what was seen in its status. A settled VM costs reads only.
pub async fn reconcile<C: Cluster>(
    vm: &KiteVirtualMachine,
    context: &Context<C>,
) -> Result<Action, Error> {
    drive::reconcile::<Vms, C>(vm, context).await
}

/// The reconciler of VMs.
pub(crate) struct Vms;

#[async_trait]
impl Reconciler for Vms {
    type Object = KiteVirtualMachine;
    type Status = KiteVirtualMachineStatus;
    type Observed = Observed;

    const KIND: &'static str = "KiteVirtualMachine";

    async fn observe<C: Cluster>(
        object: &KiteVirtualMachine,
        cluster: &C,
        _: &Settings,
    ) -> Result<Observed, Error> {
        Box::pin(Observed::read(object, cluster)).await
    }

    fn at(observed: &mut Observed, now: jiff::Timestamp) {
        observed.now = now;
    }

    fn holds_until(
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
        object: &KiteVirtualMachine,
        observed: &Observed,
        _: &Settings,
    ) -> Result<Plan<KiteVirtualMachineStatus>, Error> {
        plan(object, observed)
    }

    fn is_current(observed: &Observed) -> bool {
        observed.siblings_are_current || observed.siblings.is_empty()
    }

    async fn look_at_others<C: Cluster>(
        object: &KiteVirtualMachine,
        observed: &mut Observed,
        cluster: &C,
    ) -> Result<(), Error> {
        observed.look_at_siblings(&Vm::of(object)?, cluster).await
    }

    fn interrupts(observed: &Observed, step: &Step) -> bool {
        match (step, &observed.machine) {
            (Step::Apply(AnyObject::VirtualMachine(desired)), Some(stored)) => {
                desired.spec.run_strategy != stored.spec.run_strategy
            }
            // What else moves it, and how KubeVirt is configured, must be true and not old.
            (Step::Move(_), _) => true,
            _ => false,
        }
    }

    fn may_be_old(object: &KiteVirtualMachine, observed: &Observed, step: &Step) -> bool {
        delete::may_be_old(object, observed, step)
    }

    fn absorb(observed: &mut Observed, outcome: Outcome) {
        observed.absorb(outcome);
    }

    fn recall(observed: &mut Observed, refusal: Refusal) {
        observed.recall(refusal);
    }

    fn on_refusal(object: &KiteVirtualMachine, observed: &Observed) -> Option<Step> {
        let vm = kite_render::Vm::of(object).ok()?;
        let claim = offer::unfulfilled(&vm, observed).filter(|_| observed.disk.is_none());
        claim.cloned().map(Step::Unclaim)
    }

    fn urgency(old: &KiteVirtualMachineStatus, new: &KiteVirtualMachineStatus) -> Urgency {
        status::urgency(old, new)
    }
}
