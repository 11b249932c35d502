//! Laws for offers: claimed once, given out in time and to whom they are for,
//! and never used up by a failure.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kite_core::{
    crd::{
        Claim, DiskStatus, HolderKind, KiteReservation, KiteVirtualMachine,
        KiteVirtualMachineOffer, KiteVirtualMachineOfferSpec, KiteVirtualMachineOfferStatus,
        OfferClaim, OfferPhase, VmPhase,
    },
    names,
};
use kite_reconcile::{
    offer::{self, Observed},
    plan::{Change, Plan, Step},
    vm::OfferSeen,
};
use kite_render::{Vm, reservation};
use proptest::prelude::*;

use crate::{
    found::{BOB, Found, found, now, other_holder},
    vms::{ANN, World, world_of},
};

fn law(holds: bool, otherwise: &str) -> Result<(), String> {
    if holds {
        Ok(())
    } else {
        Err(otherwise.to_owned())
    }
}

fn at(text: &str) -> Time {
    Time(text.parse().unwrap())
}

/// An offer of just what the VMs here are.
fn gold() -> KiteVirtualMachineOffer {
    let spec = KiteVirtualMachineOfferSpec {
        cpu: 2,
        memory: "4Gi".parse().unwrap(),
        disk: "20Gi".parse().unwrap(),
        image: "debian-12".to_owned(),
        expires_at: None,
        lifetime: None,
        user: None,
        unreadable: None,
    };
    let mut offer = KiteVirtualMachineOffer::new("gold", spec);
    offer.metadata.uid = Some("uid-gold".to_owned());
    offer.metadata.generation = Some(1);
    offer
}

/// When an offer ends: now is the first of January 2026.
fn end() -> impl Strategy<Value = Option<Time>> {
    prop_oneof![
        2 => Just(None),
        1 => Just(Some(at("2025-06-01T00:00:00Z"))),
        1 => Just(Some(now())),
        1 => Just(Some(at("2026-02-01T00:00:00Z"))),
    ]
}

fn claimed_by(uid: &str, fulfilled: bool) -> OfferClaim {
    OfferClaim {
        namespace: BOB.to_owned(),
        name: "other".to_owned(),
        uid: uid.to_owned(),
        user: Some("bob".to_owned()),
        fulfilled,
    }
}

/// What the status says: nothing, or that the offer is claimed, or used up.
fn told() -> impl Strategy<Value = Option<bool>> {
    prop_oneof![2 => Just(None), 1 => Just(Some(false)), 1 => Just(Some(true))]
}

fn offer_of(end: Option<Time>, told: Option<bool>, deleting: bool) -> KiteVirtualMachineOffer {
    let mut offer = gold();
    offer.spec.expires_at = end;
    offer.metadata.deletion_timestamp = deleting.then(now);
    offer.status = told.map(|fulfilled| KiteVirtualMachineOfferStatus {
        claimed_by: Some(claimed_by("uid-alive", fulfilled)),
        ..KiteVirtualMachineOfferStatus::default()
    });
    offer
}

/// The other VM's claim to the offer.
fn claim_of_other(offer: &KiteVirtualMachineOffer) -> KiteReservation {
    let mut vm: KiteVirtualMachine =
        KiteVirtualMachine::new("other", crate::vms::plain_spec("other"));
    vm.metadata.namespace = Some(BOB.to_owned());
    vm.metadata.uid = Some("uid-alive".to_owned());
    let mut claim = reservation::of_offer(&Vm::of(&vm).unwrap(), offer);
    claim.spec.holder = other_holder(true);
    claim
}

prop_compose! {
    /// An offer and what is seen of it. A claim may be there without its holder,
    /// and the other way round not.
    fn offered()(
        end in end(),
        told in told(),
        (deleting, claimed, noted, there, made) in any::<(bool, bool, bool, bool, bool)>(),
    ) -> (KiteVirtualMachineOffer, Observed) {
        let offer = offer_of(end, told, deleting);
        let claim = claimed.then(|| {
            let mut claim = claim_of_other(&offer);
            claim.spec.fulfilled = noted;
            claim
        });
        let holder = (claimed && there).then(|| {
            let mut vm = KiteVirtualMachine::new("other", crate::vms::plain_spec("other"));
            vm.metadata.namespace = Some(BOB.to_owned());
            vm.metadata.uid = Some("uid-alive".to_owned());
            vm.status.get_or_insert_default().disk = made.then(|| DiskStatus {
                phase: Some("Succeeded".to_owned()),
                ..DiskStatus::default()
            });
            vm
        });
        (offer, Observed { now: now().0, claim, holder })
    }
}

fn used_up(offer: &KiteVirtualMachineOffer) -> Option<&OfferClaim> {
    let known = offer.status.as_ref()?.claimed_by.as_ref();
    known.filter(|by| by.fulfilled)
}

/// Plans and carries out until nothing is left to do.
fn to_rest(
    offer: &KiteVirtualMachineOffer,
    seen: &mut Observed,
) -> Result<Plan<KiteVirtualMachineOfferStatus>, TestCaseError> {
    for _ in 0..4 {
        let planned = offer::plan(offer, seen);
        if planned.steps.is_empty() {
            return Ok(planned);
        }
        for step in planned.steps {
            prop_assert!(
                matches!(step, Step::Change(Change::Unclaim(_))),
                "{}",
                step.describe()
            );
            seen.claim = None;
        }
    }
    Err(TestCaseError::fail("it never rests"))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    /// Nobody who is there is robbed, and what was used up is nobody's again.
    #[test]
    fn an_offer_is_taken_back_from_the_vanished_only((offer, seen) in offered()) {
        let planned = offer::plan(&offer, &seen);
        let is_free = seen.claim.as_ref().is_some_and(|claim| !claim.spec.fulfilled)
            && seen.holder.is_none()
            && used_up(&offer).is_none()
            && offer.metadata.deletion_timestamp.is_none();
        let expected: Vec<Step> = seen.claim.clone().filter(|_| is_free).map(|it| Change::Unclaim(it).into()).into_iter().collect();
        prop_assert_eq!(planned.steps, expected);
    }

    #[test]
    fn an_offer_is_available_when_it_can_be_claimed((offer, mut seen) in offered()) {
        let planned = to_rest(&offer, &mut seen)?;
        let is_over = offer.spec.expires_at.as_ref().is_some_and(|end| end.0 <= seen.now);
        let can_be_claimed = seen.claim.is_none()
            && used_up(&offer).is_none()
            && !is_over
            && offer.metadata.deletion_timestamp.is_none();
        prop_assert_eq!(planned.status.phase == Some(OfferPhase::Available), can_be_claimed);
        prop_assert_eq!(planned.conditions[0].status.as_str() == "True", can_be_claimed);
        // It is looked at again when its time is over.
        if let Some(end) = offer.spec.expires_at.filter(|end| end.0 > seen.now) {
            let left = end.0.duration_since(seen.now).unsigned_abs();
            prop_assert!(planned.requeue_after <= left);
        }
    }

    /// Who has it is who holds the claim; and once it is used up, that stays.
    #[test]
    fn an_offer_says_who_has_it((offer, mut seen) in offered()) {
        let planned = to_rest(&offer, &mut seen)?;
        let expected = match (used_up(&offer), &seen.holder) {
            (Some(by), _) => Some(by.uid.clone()),
            (None, Some(holder)) => holder.metadata.uid.clone(),
            // The claim itself remembers.
            (None, None) => {
                let noted = seen.claim.as_ref().filter(|claim| claim.spec.fulfilled);
                noted.map(|claim| claim.spec.holder.uid.clone())
            }
        };
        prop_assert_eq!(planned.status.claimed_by.map(|by| by.uid), expected);
    }

    /// What was written is not written again.
    #[test]
    fn an_offer_at_rest_stays_at_rest((mut offer, mut seen) in offered()) {
        let planned = to_rest(&offer, &mut seen)?;
        offer.status = Some(planned.status.clone());
        let again = offer::plan(&offer, &seen);
        prop_assert!(again.steps.is_empty());
        prop_assert_eq!(again.status, planned.status);
        prop_assert_eq!(again.conditions, planned.conditions);
    }
}

/// What is wrong with the offer for the VM of the worlds here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Offered {
    Fits,
    Not,
    Larger,
    Over,
    Withdrawn,
    OfAnother,
    UsedUp,
}

/// Who has claimed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ClaimedBy {
    Nobody,
    Itself,
    Another,
    /// Whoever had an earlier offer of this name.
    OneBefore,
}

fn seen_of(object: &KiteVirtualMachine, what: Offered, who: ClaimedBy) -> OfferSeen {
    let mut offer = gold();
    match what {
        Offered::Fits | Offered::Not => {}
        Offered::Larger => offer.spec.cpu = 3,
        Offered::Over => offer.spec.expires_at = Some(now()),
        Offered::Withdrawn => offer.metadata.deletion_timestamp = Some(now()),
        Offered::OfAnother => offer.spec.user = Some("bob".to_owned()),
        Offered::UsedUp => {
            offer.status.get_or_insert_default().claimed_by = Some(claimed_by("uid-gone", true));
        }
    }
    let claim = match who {
        ClaimedBy::Nobody => None,
        ClaimedBy::Itself => Some(reservation::of_offer(&Vm::of(object).unwrap(), &offer)),
        ClaimedBy::Another => Some(claim_of_other(&offer)),
        ClaimedBy::OneBefore => {
            let mut earlier = offer.clone();
            earlier.metadata.uid = Some("uid-earlier".to_owned());
            Some(claim_of_other(&earlier))
        }
    };
    OfferSeen {
        offer: (what != Offered::Not).then_some(offer),
        claim,
    }
}

prop_compose! {
    /// A world whose VM is to be made from an offer.
    fn of_an_offer()(
        (mut world, places) in world_of(any::<bool>().boxed(), found),
        what in prop_oneof![
            6 => Just(Offered::Fits),
            1 => Just(Offered::Not),
            1 => Just(Offered::Larger),
            1 => Just(Offered::Over),
            1 => Just(Offered::Withdrawn),
            1 => Just(Offered::OfAnother),
            1 => Just(Offered::UsedUp),
        ],
        who in prop_oneof![
            3 => Just(ClaimedBy::Nobody),
            3 => Just(ClaimedBy::Itself),
            1 => Just(ClaimedBy::Another),
            1 => Just(ClaimedBy::OneBefore),
        ],
    ) -> (World, Offered, ClaimedBy) {
        // It is looked at while there is no disk, and when the VM goes.
        if !world.is_deleting() || places.disk == Found::Not {
            world.seen.disk = None;
            world.seen.claim = None;
        }
        if has_what_was_offered(&world) {
            // Remembered to the end.
            world.object.status.get_or_insert_default().disk = Some(DiskStatus {
                phase: Some("Succeeded".to_owned()),
                ..DiskStatus::default()
            });
        }
        world.object.spec.offer = Some("gold".to_owned());
        world.seen.offer = Some(seen_of(&world.object, what, who));
        (world, what, who)
    }
}

fn is_to_an_offer(step: &Step) -> Option<(&KiteReservation, bool)> {
    match step {
        Step::Change(Change::Claim(claim)) if claim.spec.claim == Claim::Offer => {
            Some((claim, true))
        }
        Step::Change(Change::Unclaim(claim)) if claim.spec.claim == Claim::Offer => {
            Some((claim, false))
        }
        _ => None,
    }
}

fn has_claim(world: &World) -> bool {
    let claim = world.seen.offer.as_ref().and_then(|it| it.claim.as_ref());
    claim.is_some_and(|claim| claim.spec.holder.uid == "uid-web")
}

/// Whether the claim tells of itself that the offer is used up.
fn is_noted(world: &World) -> bool {
    let claim = world.seen.offer.as_ref().and_then(|it| it.claim.as_ref());
    claim.is_some_and(|claim| claim.spec.fulfilled)
}

fn has_what_was_offered(world: &World) -> bool {
    let phase = |disk: &kite_core::cdi::DataVolume| disk.status.as_ref()?.phase.clone();
    world.seen.disk.as_ref().and_then(phase).as_deref() == Some("Succeeded")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, max_global_rejects: 8192, ..ProptestConfig::default() })]

    /// A claim is made for the VM itself, to an offer that is for it, in time,
    /// and nobody's.
    #[test]
    fn an_offer_is_claimed_by_whom_it_is_for((mut world, what, _) in of_an_offer()) {
        world.to_rest(|world, step| {
            let Some((claim, true)) = is_to_an_offer(step) else { return Ok(()) };
            let holder = &claim.spec.holder;
            law(holder.uid == "uid-web" && holder.kind == HolderKind::KiteVirtualMachine, "for another")?;
            law(holder.namespace.as_deref() == Some(ANN), "for another tenant")?;
            law(what == Offered::Fits, "it may not have it")?;
            law(claim.metadata.name == Some(names::offer_reservation("gold")), "another offer")?;
            let there = world.seen.offer.as_ref().and_then(|it| it.claim.as_ref());
            law(there.is_none(), "somebody has it")?;
            law(!world.is_deleting(), "it is to go")
        })?;
    }

    /// Nothing that lasts is made of a VM before the offer is its own.
    #[test]
    fn without_the_offer_nothing_is_made((mut world, _, _) in of_an_offer()) {
        world.to_rest(|world, step| {
            let Step::Change(Change::Apply(object)) = step else { return Ok(()) };
            let is_new = match object.kind() {
                "DataVolume" => world.seen.disk.is_none(),
                "VirtualMachine" => world.seen.machine.is_none(),
                _ => false,
            };
            law(!is_new || has_claim(world), "it has no offer")
        })?;
    }

    /// A VM that cannot be made, or that goes before it was, gives the offer back;
    /// one that was made keeps it for good. What others have is theirs.
    #[test]
    fn a_failure_uses_no_offer_up((mut world, _, _) in of_an_offer()) {
        let is_used_up = has_what_was_offered(&world);
        let had_claim = has_claim(&world);
        world.to_rest(|_, step| {
            let Some((claim, false)) = is_to_an_offer(step) else { return Ok(()) };
            law(claim.spec.holder.uid == "uid-web", "it is another's")?;
            law(!is_used_up, "it was used up")
        })?;
        if world.gone {
            prop_assert_eq!(has_claim(&world), had_claim && is_used_up);
            prop_assert_eq!(is_noted(&world), had_claim && is_used_up, "before the VM is gone");
        } else if !world.is_deleting() && world.seen.disk.is_none() {
            let planned = world.plan();
            let has_failed = planned.status.phase == Some(VmPhase::Failed);
            prop_assert!(!has_failed || !has_claim(&world), "{:?}", planned.conditions);
        }
    }
}
