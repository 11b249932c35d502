//! `KiteVirtualMachineOffer`: says who has it, takes it back from a VM that
//! vanished without having got anything, and says when it is too late.
//!
//! Claiming itself is the VM's business (`vm::offer`): it creates the claim's
//! reservation, which belongs to the offer and goes with it.

use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use kite_core::{
    cluster::{Cluster, ClusterExt as _, ObjectKey},
    conditions::NewCondition,
    crd::{
        KiteReservation, KiteVirtualMachine, KiteVirtualMachineOffer,
        KiteVirtualMachineOfferStatus, OfferClaim, OfferPhase,
    },
    names,
};
use kube::{ResourceExt as _, runtime::controller::Action};

use crate::{
    Error,
    context::{Context, Tools},
    plan::{Change, Outcome, Plan},
    unreadable::unreadable,
    vm,
};
use kite_runtime::plan::{Planner, reconcile as reconcile_by_plan};

/// When to look at an offer again that waits for nothing.
const RESYNC: Duration = Duration::from_secs(600);

/// The one condition: whether it can be claimed.
const AVAILABLE: &str = "Available";

/// Reconciles one offer.
///
/// # Errors
/// An [`Error`] if the API server refuses something, or the plan comes to no end. What people
/// have to mend is told in the status instead.
pub async fn reconcile<C: Cluster>(
    offer: &KiteVirtualMachineOffer,
    context: &Context<C>,
) -> Result<Action, Error> {
    reconcile_by_plan(&Offers(context.tools()), offer, &context.shared).await
}

/// What was seen of an offer.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// When it was looked at.
    pub now: Timestamp,
    /// The claim to it.
    pub claim: Option<KiteReservation>,
    /// The VM that the claim names, if it is still there.
    pub holder: Option<KiteVirtualMachine>,
}

/// The reconciler of offers.
pub(crate) struct Offers<'a>(Tools<'a>);

#[async_trait]
impl<'a> Planner for Offers<'a> {
    type Object = KiteVirtualMachineOffer;
    type Status = KiteVirtualMachineOfferStatus;
    type Observed = Observed;
    type Executor = Tools<'a>;

    fn executor(&self) -> &Tools<'a> {
        &self.0
    }

    async fn observe<C: Cluster>(
        &self,
        object: &KiteVirtualMachineOffer,
        cluster: &C,
    ) -> Result<Observed, Error> {
        let name = names::offer_reservation(&object.name_any());
        let claim: Option<KiteReservation> = cluster.get_opt(&ObjectKey::cluster(name)).await?;
        let claim = claim.filter(|claim| vm::is_claim_of(claim, object));
        let holder = match claim.as_ref().map(|claim| &claim.spec.holder) {
            None => None,
            Some(holder) => {
                let namespace = holder.namespace.clone().unwrap_or_default();
                let key = ObjectKey::namespaced(namespace, &holder.name);
                let found: Option<KiteVirtualMachine> = cluster.get_opt(&key).await?;
                found.filter(|found| found.metadata.uid.as_ref() == Some(&holder.uid))
            }
        };
        Ok(Observed {
            now: Timestamp::default(),
            claim,
            holder,
        })
    }

    fn at(&self, observed: &mut Observed, now: Timestamp) {
        observed.now = now;
    }

    fn plan(
        &self,
        object: &KiteVirtualMachineOffer,
        observed: &Observed,
    ) -> Result<Plan<KiteVirtualMachineOfferStatus>, Error> {
        Ok(plan(object, observed))
    }

    fn absorb(&self, _: &KiteVirtualMachineOffer, observed: &mut Observed, outcome: Outcome) {
        if let Outcome::Claimed(..) = outcome {
            // The only step is to free it.
            observed.claim = None;
        }
    }
}

/// What to do about an offer. Pure.
pub fn plan(
    offer: &KiteVirtualMachineOffer,
    seen: &Observed,
) -> Plan<KiteVirtualMachineOfferStatus> {
    let known = offer.status.as_ref().and_then(|it| it.claimed_by.as_ref());
    let used_up = known.filter(|by| by.fulfilled);
    let claimed_by = match (&seen.claim, &seen.holder) {
        _ if used_up.is_some() => used_up.cloned(),
        (Some(claim), Some(vm)) => Some(claimed_by(claim, vm::is_fulfilled(vm))),
        // The VM is gone, and was what was offered.
        (Some(claim), None) if claim.spec.fulfilled => Some(claimed_by(claim, true)),
        _ => None,
    };
    let unread = offer.status.as_ref().and_then(|it| it.unreadable.clone());
    // Who has it stands there, in words that are not known: nobody else may be told.
    let is_unknown = unread.as_ref().is_some_and(|it| it.keeps("claimedBy"));
    let claimed_by = claimed_by.filter(|_| !is_unknown);
    // The VM is gone without having been deleted in order, and never had its
    // disk: others may have the offer.
    let vanished = seen
        .claim
        .as_ref()
        .filter(|_| claimed_by.is_none() && !is_unknown)
        .filter(|_| offer.metadata.deletion_timestamp.is_none());
    let (phase, condition) = judge(offer, claimed_by.as_ref(), seen.now);
    let expires_in = offer
        .spec
        .expires_at
        .as_ref()
        .filter(|at| at.0 > seen.now)
        .and_then(|at| Duration::try_from(at.0.duration_since(seen.now)).ok());
    Plan {
        steps: vanished
            .cloned()
            .map(|it| Change::Unclaim(it).into())
            .into_iter()
            .collect(),
        status: KiteVirtualMachineOfferStatus {
            observed_generation: None,
            phase: Some(phase),
            claimed_by,
            conditions: Vec::new(),
            unreadable: unread,
        },
        conditions: vec![condition],
        requeue_after: expires_in.map_or(RESYNC, |left| left.min(RESYNC)),
    }
}

fn claimed_by(claim: &KiteReservation, is_fulfilled: bool) -> OfferClaim {
    let holder = &claim.spec.holder;
    let namespace = holder.namespace.clone().unwrap_or_default();
    OfferClaim {
        user: names::user_of_namespace(&namespace).map(str::to_owned),
        namespace,
        name: holder.name.clone(),
        uid: holder.uid.clone(),
        fulfilled: claim.spec.fulfilled || is_fulfilled,
    }
}

fn judge(
    offer: &KiteVirtualMachineOffer,
    claimed_by: Option<&OfferClaim>,
    now: Timestamp,
) -> (OfferPhase, NewCondition) {
    let not = |reason: &str, message: String| NewCondition::new(AVAILABLE, false, reason, message);
    if offer.metadata.deletion_timestamp.is_some() {
        let message = "the offer is being withdrawn; a VM that was made from it stays".to_owned();
        return (OfferPhase::Deleting, not("Deleting", message));
    }
    if let Some(by) = claimed_by {
        let vm = format!("VM {}/{}", by.namespace, by.name);
        let condition = if by.fulfilled {
            not("Claimed", format!("{vm} was made from it"))
        } else {
            let given_back = "if that fails, the offer is given back";
            not(
                "Claimed",
                format!("{vm} is being made from it; {given_back}"),
            )
        };
        return (OfferPhase::Claimed, condition);
    }
    if let Some(why) = offer.unreadable() {
        // Nobody could say what it is that is offered, or who has it.
        return (
            OfferPhase::Expired,
            unreadable(AVAILABLE, "the offer", &why),
        );
    }
    if let Some(at) = offer.spec.expires_at.as_ref().filter(|at| at.0 <= now) {
        let message = format!(
            "it could be claimed until {}: set spec.expiresAt to a later time to offer it again, \
             or delete it",
            at.0
        );
        return (OfferPhase::Expired, not("Expired", message));
    }
    let message = format!(
        "it is claimed by creating a VM with spec.offer {:?} and what it offers",
        offer.name_any()
    );
    (
        OfferPhase::Available,
        NewCondition::new(AVAILABLE, true, "Available", message),
    )
}
