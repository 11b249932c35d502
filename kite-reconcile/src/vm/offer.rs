//! A VM that is made from an offer: it needs the offer's claim before anything
//! is made of it, and gives the claim back when it cannot be made.
//!
//! The claim is a reservation, won by creating it, so of two VMs that want one
//! offer the API server lets one through. It is made when nothing else is in the
//! way any more, and stays for good once the disk is filled: then the offer is
//! used up. The claim itself says so from then on, for the VM may go before
//! anybody else has noted it.

use jiff::SignedDuration;
use kite_core::{
    cluster::{Cluster, ClusterError, ClusterExt as _, ObjectKey},
    conditions::{self, NewCondition},
    crd::{
        KiteReservation, KiteVirtualMachine, KiteVirtualMachineOffer, VmPhase,
        vm_condition::OFFER_CLAIMED,
    },
    names,
};
use kite_render::{Vm, reservation};
use kube::ResourceExt as _;

use super::{
    draft::{Obstacle, VmDraft},
    expiry::later,
    lost,
    observe::Observed,
};
use crate::{
    claims::ClaimState,
    objects::AnyObject,
    plan::{Change, Refusal, Step},
    refused::Refused,
    stage::{Flow, Stage},
};

/// Has a VM without a disk made under its offer's claim, and one that has it note that.
/// Goes by `offer`, `disk`, `machine`, `refused` and `now`.
pub(super) struct Offer;

impl Stage<VmDraft<'_>> for Offer {
    fn plan(&self, draft: &mut VmDraft<'_>) -> Flow {
        let (vm, seen) = (draft.vm, draft.seen);
        if seen.own_disk(vm).is_some() || draft.loss.is_some() {
            draft.steps.extend(note(vm, seen));
        } else {
            gate(draft);
        }
        Flow::Next
    }

    fn condition(&self, draft: &VmDraft<'_>) -> Option<NewCondition> {
        condition(draft)
    }
}

/// By how much a VM may outlast its offer's lifetime: who asked for it reckoned
/// from a moment before its creation, and clocks differ.
const LENIENCE: SignedDuration = SignedDuration::from_mins(5);

/// Reason of the condition of a VM that got what was offered, once its claim
/// says so.
const FULFILLED: &str = "Fulfilled";

/// What was seen of the offer that a VM names. Not looked at while the disk is
/// being filled, nor once its claim says that the offer is used up.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OfferSeen {
    /// The offer.
    pub offer: Option<KiteVirtualMachineOffer>,
    /// The claim to it, whoever has it.
    pub claim: Option<KiteReservation>,
}

impl OfferSeen {
    /// Reads the offer `name`. Its claim decides of two VMs which is made: nothing
    /// but what the API server itself answers will do.
    pub(super) async fn read<C: Cluster>(cluster: &C, name: &str) -> Result<Self, ClusterError> {
        let claim = names::offer_reservation(name);
        Ok(Self {
            // The claim first: it cannot be older than the offer that is read after it.
            claim: cluster.get_opt(&ObjectKey::cluster(claim)).await?,
            offer: cluster.get_opt(&ObjectKey::cluster(name)).await?,
        })
    }

    /// Takes in how the claim stands now.
    pub(super) fn absorb(&mut self, state: ClaimState) {
        self.claim = match state {
            ClaimState::Free | ClaimState::Reserved(_) => None,
            ClaimState::Mine(claim)
            | ClaimState::Kept(claim)
            | ClaimState::Held {
                reservation: claim, ..
            } => Some(claim),
        };
    }
}

/// Whether the VM has had what was offered. Its status remembers the disk to the
/// end, also while the VM is deleted.
pub(crate) fn is_fulfilled(vm: &KiteVirtualMachine) -> bool {
    lost::had_data(vm).is_some()
}

/// Whether all that is to be noted of the offer is noted, as the VM's status says.
pub(super) fn is_noted(vm: &KiteVirtualMachine) -> bool {
    let status = vm.status.as_ref();
    let said = status.and_then(|it| conditions::find(&it.conditions, OFFER_CLAIMED));
    said.is_some_and(|said| said.reason == FULFILLED)
}

/// The claim, if it is the VM's to give back: it never got what was offered.
pub(super) fn unfulfilled<'a>(vm: &Vm<'_>, seen: &'a Observed) -> Option<&'a KiteReservation> {
    let claim = own_claim(vm, seen)?;
    (!has_it(vm, seen) && !claim.spec.fulfilled).then_some(claim)
}

/// Has the claim say that the VM got what was offered, once it did. A claim that
/// somebody deleted before it could say so is made again: the offer is used up.
pub(super) fn note(vm: &Vm<'_>, seen: &Observed) -> Option<Step> {
    if !has_it(vm, seen) {
        return None;
    }
    let found = seen.offer.as_ref()?;
    if let Some(claim) = &found.claim {
        let is_to_say = claim.spec.holder == vm.holder() && !claim.spec.fulfilled;
        return is_to_say.then(|| Step::Change(Change::Fulfil(claim.clone())));
    }
    let offer = found.offer.as_ref()?;
    let for_whom = offer.spec.user.as_deref();
    let is_its = for_whom.is_none() || for_whom == names::user_of_namespace(vm.namespace);
    let is_lost = vm.object.metadata.deletion_timestamp.is_none()
        && is_no_later(offer, vm, seen)
        && offer.metadata.deletion_timestamp.is_none()
        && is_its
        && holder(vm, found, offer).is_none();
    is_lost.then(|| Step::Change(Change::Claim(reservation::of_offer(vm, offer))))
}

/// Whether the offer was there when the VM's disk was made: one that came later, as in the
/// place of one with other terms, is not the one that it was made from.
fn is_no_later(offer: &KiteVirtualMachineOffer, vm: &Vm<'_>, seen: &Observed) -> bool {
    let disk = seen.own_disk(vm).map(|disk| &disk.metadata);
    let made = disk.unwrap_or(&vm.object.metadata);
    offer.creation_timestamp() <= made.creation_timestamp.clone()
}

fn has_it(vm: &Vm<'_>, seen: &Observed) -> bool {
    let status = vm.object.status.as_ref();
    let unread = status.and_then(|status| status.unreadable.as_ref());
    seen.own_disk(vm).is_some_and(lost::had_its_data)
        || is_fulfilled(vm.object)
        // What it had, nobody can read: an offer is not to be had twice.
        || unread.is_some_and(|unread| unread.keeps("disk"))
}

/// Whether the VM has the claim to its offer, or may claim it; also if it names
/// none.
pub(super) fn may_be_had(vm: &Vm<'_>, seen: &Observed) -> bool {
    let (Some(name), Some(found)) = (&vm.object.spec.offer, &seen.offer) else {
        return true;
    };
    own_claim(vm, seen).is_some() || refusal(vm, name, found, seen).is_ok()
}

fn own_claim<'a>(vm: &Vm<'_>, seen: &'a Observed) -> Option<&'a KiteReservation> {
    let claim = seen.offer.as_ref()?.claim.as_ref();
    claim.filter(|claim| claim.spec.holder == vm.holder())
}

/// What the offer has to say to the steps that make a VM without a disk. It can be taken
/// unless something else is in the way.
fn gate(draft: &mut VmDraft<'_>) {
    let (vm, seen) = (draft.vm, draft.seen);
    let (Some(name), Some(found)) = (&vm.object.spec.offer, &seen.offer) else {
        return;
    };
    let blocked = !draft.is_entitled || !draft.obstacles.is_empty();
    if own_claim(vm, seen).is_some() {
        if let Some(claim) = unfulfilled(vm, seen).filter(|_| blocked) {
            draft.steps = vec![Step::Change(Change::Unclaim(claim.clone()))];
        }
        return;
    }
    match refusal(vm, name, found, seen) {
        Err(obstacle) => {
            draft.obstacles.push(obstacle);
            draft.steps.clear();
        }
        // What is made of an offer is made under its claim.
        Ok(_) if blocked => draft.steps.retain(|step| is_free(step, seen)),
        Ok(offer) => {
            let claim = reservation::of_offer(vm, offer);
            draft.steps = vec![Step::Change(Change::Claim(claim))];
        }
    }
}

/// Whether a step makes nothing new: what runs can be switched off by it, and what
/// is not wanted any more can go.
fn is_free(step: &Step, seen: &Observed) -> bool {
    match step {
        Step::Change(Change::Apply(AnyObject::VirtualMachine(_))) => seen.machine.is_some(),
        Step::Change(Change::Delete(..) | Change::Unclaim(_) | Change::Keep(..)) => true,
        _ => false,
    }
}

/// The offer, if the VM may claim it.
fn refusal<'a>(
    vm: &Vm<'_>,
    name: &str,
    found: &'a OfferSeen,
    seen: &Observed,
) -> Result<&'a KiteVirtualMachineOffer, Obstacle> {
    let no = |reason: &str, message: String| Err(obstacle(VmPhase::Failed, reason, message));
    let Some(offer) = &found.offer else {
        return no(
            "OfferUnknown",
            format!(
                "spec.offer: there is no offer {name:?}: create the VM again without one, or with \
                 another"
            ),
        );
    };
    if let Some(why) = offer.unreadable() {
        return no(
            "OfferUnreadable",
            format!(
                "spec.offer: {name:?} cannot be read: {why}; an administrator must mend the field \
                 that is named, or make another offer"
            ),
        );
    }
    if let Some(user) = &offer.spec.user
        && names::user_of_namespace(vm.namespace) != Some(user)
    {
        // Not told for whom it is.
        return no(
            "OfferNotYours",
            format!("spec.offer: {name:?} is for another user: ask an administrator for one"),
        );
    }
    if let Some(holder) = holder(vm, found, offer) {
        return no(
            "OfferTaken",
            format!("spec.offer: {name:?} is taken by {holder}: ask for another offer"),
        );
    }
    if found.claim.is_some() {
        return Err(obstacle(
            VmPhase::Pending,
            "OfferNotFree",
            format!("waiting until the claim to an earlier offer {name:?} is gone"),
        ));
    }
    if offer.metadata.deletion_timestamp.is_some() {
        return no(
            "OfferWithdrawn",
            format!("spec.offer: {name:?} is being withdrawn: ask for another offer"),
        );
    }
    if let Some(expires_at) = offer.spec.expires_at.as_ref().filter(|at| at.0 <= seen.now) {
        return no(
            "OfferExpired",
            format!(
                "spec.offer: {name:?} could be claimed until {}: ask for another offer",
                expires_at.0
            ),
        );
    }
    if let Some(mismatch) = mismatch(vm.object, offer) {
        return no("OfferMismatch", mismatch);
    }
    let given_back = Refused::Offer.among(&seen.refused, &vm.object.metadata);
    if let Some(Refusal { why, .. }) = given_back {
        return no(
            "OfferGivenBack",
            format!(
                "what is made of offer {name:?} was refused, so that the offer is free again, and \
                 is claimed again in a while ({why})"
            ),
        );
    }
    Ok(offer)
}

/// Who has this very offer.
fn holder(vm: &Vm<'_>, found: &OfferSeen, offer: &KiteVirtualMachineOffer) -> Option<String> {
    let text = |namespace: &str, name: &str| match names::user_of_namespace(namespace) {
        Some(user) => format!("user {user} (VM {name})"),
        None => format!("VM {namespace}/{name}"),
    };
    let used_up = offer.status.as_ref().and_then(|it| it.claimed_by.as_ref());
    if let Some(by) = used_up.filter(|by| by.fulfilled && by.uid != vm.uid) {
        return Some(text(&by.namespace, &by.name));
    }
    let claim = found.claim.as_ref()?;
    let holder = &claim.spec.holder;
    let namespace = holder.namespace.as_deref().unwrap_or_default();
    is_of(claim, offer).then(|| text(namespace, &holder.name))
}

/// Whether a claim is one to this very offer, and not to an earlier one of the
/// same name.
pub(crate) fn is_of(claim: &KiteReservation, offer: &KiteVirtualMachineOffer) -> bool {
    let mut owners = claim.metadata.owner_references.iter().flatten();
    owners.any(|owner| Some(&owner.uid) == offer.metadata.uid.as_ref())
}

/// The first field in which the VM is not what is offered.
fn mismatch(vm: &KiteVirtualMachine, offer: &KiteVirtualMachineOffer) -> Option<String> {
    let (has, may) = (&vm.spec, &offer.spec);
    let name = offer.name_any();
    let remedy = |field: &str, has: String, may: String| {
        format!(
            "spec.{field} is {has}, and offer {name:?} is for {may}: create the VM again with \
             what the offer has"
        )
    };
    if has.cpu != may.cpu {
        return Some(remedy("cpu", has.cpu.to_string(), may.cpu.to_string()));
    }
    for (field, has, may) in [
        ("memory", &has.memory, &may.memory),
        ("disk", &has.disk, &may.disk),
    ] {
        if has != may {
            return Some(remedy(field, has.to_string(), may.to_string()));
        }
    }
    if has.image != may.image {
        return Some(remedy("image", has.image.clone(), may.image.clone()));
    }
    let lifetime = may.lifetime.as_ref()?.duration();
    let lifetime = SignedDuration::try_from(lifetime).unwrap_or(SignedDuration::MAX);
    let created = vm.metadata.creation_timestamp.as_ref()?.0;
    let latest = later(created, lifetime);
    let expires_at = has.expires_at.as_ref().map(|at| at.0);
    if expires_at.is_some_and(|at| at <= later(latest, LENIENCE)) {
        return None;
    }
    let has = expires_at.map_or("not set".to_owned(), |at| at.to_string());
    Some(format!(
        "spec.expiresAt is {has}, and a VM of offer {name:?} lasts {lifetime:#}: set it to \
         {latest} or earlier"
    ))
}

fn obstacle(phase: VmPhase, reason: &str, message: String) -> Obstacle {
    Obstacle {
        condition: NewCondition::new(OFFER_CLAIMED, false, reason, message),
        phase,
    }
}

/// What is said of the claim, for a VM that names an offer.
fn condition(draft: &VmDraft<'_>) -> Option<NewCondition> {
    let (vm, seen) = (draft.vm, draft.seen);
    let name = vm.object.spec.offer.as_ref()?;
    if let Some(said) = draft.said(OFFER_CLAIMED) {
        return Some(said);
    }
    if seen.own_disk(vm).is_some() || own_claim(vm, seen).is_some() {
        let is_looked_at = seen.offer.is_some() && has_it(vm, seen);
        let (reason, message) = if is_noted(vm.object) || is_looked_at {
            (FULFILLED, format!("the VM is made from offer {name}"))
        } else {
            ("Claimed", format!("the VM is being made from offer {name}"))
        };
        return Some(NewCondition::new(OFFER_CLAIMED, true, reason, message));
    }
    let message = format!("offer {name} is claimed when nothing else is in the way");
    Some(NewCondition::new(
        OFFER_CLAIMED,
        false,
        "NotClaimed",
        message,
    ))
}
