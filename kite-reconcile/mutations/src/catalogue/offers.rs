//! Offers: claimed once, and used up by nothing but a VM that was made.

use super::Mutation;
use crate::suite::Suite::{Properties, Scenarios, Sweep};

const OFFER: &str = "kite-reconcile/src/offer.rs";
const OF_VM: &str = "kite-reconcile/src/vm/offer.rs";
const OBSERVE: &str = "kite-reconcile/src/vm/around.rs";
const DELETE: &str = "kite-reconcile/src/vm/delete.rs";
const ROUNDS: &str = "kite-reconcile/runtime/src/plan/rounds.rs";

pub(super) const ALL: &[Mutation] = &[
    Mutation {
        name: "offer-claimed-twice",
        what: "makes a VM from an offer that another VM has claimed",
        file: OF_VM,
        edits: &[(
            "if own_claim(vm, seen).is_some() {",
            "if found.claim.is_some() {",
        )],
        first: (Sweep, "offer_for_two::crashes"),
    },
    Mutation {
        name: "made-before-the-claim",
        what: "makes a VM's disk before the offer is claimed for it",
        file: OF_VM,
        edits: &[("draft.steps.retain(|step| is_free(step, seen)),", "{}")],
        first: (Properties, "offer_laws::without"),
    },
    Mutation {
        name: "offer-used-again",
        what: "gives an offer out again that was used up, once its claim is gone",
        file: OF_VM,
        edits: &[(
            "used_up.filter(|by| by.fulfilled && by.uid != vm.uid)",
            "used_up.filter(|by| by.fulfilled && by.uid == vm.uid)",
        )],
        first: (Properties, "offer_laws::"),
    },
    Mutation {
        name: "used-offer-freed",
        what: "frees an offer that was used up when its VM is gone",
        file: OFFER,
        edits: &[("_ if used_up.is_some() => used_up.cloned(),", "")],
        first: (Sweep, "offer_claimed::crashes"),
    },
    Mutation {
        name: "offer-burnt",
        what: "keeps the claim to an offer though its VM cannot be made",
        file: OF_VM,
        edits: &[(
            "draft.steps = vec![Step::Change(Change::Unclaim(claim.clone()))];",
            "let _ = claim; draft.steps.clear();",
        )],
        first: (Sweep, "offer_given_back::crashes"),
    },
    Mutation {
        name: "offer-burnt-by-a-refusal",
        what: "keeps the claim to an offer though the API server refuses the VM",
        file: ROUNDS,
        edits: &[(
            "planner.on_refusal(object, &observed, why)",
            "planner.on_refusal(object, &observed, why).filter(|_| false)",
        )],
        first: (Scenarios, "offers::a_refusal"),
    },
    Mutation {
        name: "offer-asked-for-without-a-pause",
        what: "claims an offer again at once that was given back for a refusal",
        file: "kite-reconcile/runtime/src/plan/step.rs",
        edits: &[(
            "    shared.refusals.note(kind, key, refusal);\n    let back",
            "    drop((kind, key, refusal));\n    let back",
        )],
        first: (Scenarios, "offers::what_is_always_refused"),
    },
    Mutation {
        name: "later-offer-used-up",
        what: "has a VM use up an offer that was made after its disk",
        file: OF_VM,
        edits: &[("        && is_no_later(offer, vm, seen)\n", "")],
        first: (Scenarios, "offers::an_offer_that_is_made_again"),
    },
    Mutation {
        name: "offer-burnt-by-a-deletion",
        what: "keeps the claim to an offer though its VM goes before it was made",
        file: DELETE,
        edits: &[(
            "steps.extend(offer::unfulfilled(vm, seen).cloned().map(|it| Change::Unclaim(it).into()));",
            "",
        )],
        first: (Properties, "offer_laws::a_failure"),
    },
    Mutation {
        name: "vanished-claimant-kept",
        what: "leaves an offer to a VM that vanished before it was made",
        file: OFFER,
        edits: &[(
            "steps: vanished.cloned().map(|it| Change::Unclaim(it).into()).into_iter().collect(),",
            "steps: vanished.cloned().map(|it| Change::Unclaim(it).into()).into_iter().take(0).collect(),",
        )],
        first: (Properties, "offer_laws::an_offer_is_taken"),
    },
    Mutation {
        name: "living-claimant-robbed",
        what: "takes an offer back from a VM that is there",
        file: OFFER,
        edits: &[(
            ".filter(|_| claimed_by.is_none() && !is_unknown)",
            ".filter(|_| used_up.is_none() && !is_unknown)",
        )],
        first: (Properties, "offer_laws::"),
    },
    Mutation {
        name: "expired-offer-given-out",
        what: "makes a VM from an offer whose time is over",
        file: OF_VM,
        edits: &[(
            "offer.spec.expires_at.as_ref().filter(|at| at.0 <= seen.now)",
            "offer.spec.expires_at.as_ref().filter(|at| at.0 <= seen.now && at.0 > seen.now)",
        )],
        first: (Sweep, "offer_expired::crashes"),
    },
    Mutation {
        name: "expired-offer-shown",
        what: "says of an offer whose time is over that it can be claimed",
        file: OFFER,
        edits: &[(
            "offer.spec.expires_at.as_ref().filter(|at| at.0 <= now)",
            "offer.spec.expires_at.as_ref().filter(|at| at.0 <= now && at.0 > now)",
        )],
        first: (Scenarios, "offers::an_offer_says"),
    },
    Mutation {
        name: "offer-of-another-user",
        what: "makes a VM from an offer that is for another user",
        file: OF_VM,
        edits: &[(
            "&& names::user_of_namespace(vm.namespace) != Some(user)",
            "&& names::user_of_namespace(vm.namespace).is_none() && !user.is_empty()",
        )],
        first: (Scenarios, "offers::an_offer_says"),
    },
    Mutation {
        name: "more-than-offered",
        what: "makes a VM from an offer of a smaller one",
        file: OF_VM,
        edits: &[(
            "if let Some(mismatch) = mismatch(vm.object, offer) {",
            "if let Some(mismatch) = mismatch(vm.object, offer).filter(|_| false) {",
        )],
        first: (Scenarios, "offers::a_vm_of"),
    },
    Mutation {
        name: "offer-by-an-old-view",
        what: "judges by its caches who has an offer",
        file: OBSERVE,
        edits: &[(
            "Some(uncached(OfferSeen::read(cluster, name)).await?)",
            "Some(OfferSeen::read(cluster, name).await?)",
        )],
        first: (Scenarios, "stale::nothing"),
    },
    Mutation {
        name: "claimant-named-every-other-time",
        what: "says who has an offer, and at the next look does not",
        file: OFFER,
        edits: &[(
            "(Some(claim), Some(vm)) => Some(claimed_by(claim, vm::is_fulfilled(vm))),",
            "(Some(claim), Some(vm)) if known.is_none() => Some(claimed_by(claim, vm::is_fulfilled(vm))),",
        )],
        first: (Properties, "offer_laws::an_offer_at_rest"),
    },
];
