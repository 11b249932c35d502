//! The names of a VM of which there can be one: its login name and its domain.

use kite_core::{
    conditions::NewCondition,
    crd::{Claim, VmPhase, vm_condition::RESERVED},
};
use kite_render::Vm;

use super::{draft::VmDraft, exposed, observe::Observed, volumes};
use crate::{
    claims::{ClaimState, WantedClaim, holder_text},
    stage::{Flow, Stage},
};

/// Has what is wanted reserved before anything is made. Goes by `claims`.
pub(super) struct Names;

impl Stage<VmDraft<'_>> for Names {
    fn plan(&self, draft: &mut VmDraft<'_>) -> Flow {
        let wanted = draft.seen.claims.wants();
        if wanted.is_empty() {
            return Flow::Next;
        }
        draft.steps.extend(wanted);
        Flow::Stop
    }

    fn condition(&self, draft: &VmDraft<'_>) -> Option<NewCondition> {
        Some(condition(draft.vm, draft.seen))
    }
}

/// Gives back what is not wanted any more, once all else is done and nothing leads from it, or
/// has it. Goes by `claims`, `ingress`, `route`, `machine` and `instance`.
pub(super) struct FormerNames;

impl Stage<VmDraft<'_>> for FormerNames {
    fn plan(&self, draft: &mut VmDraft<'_>) -> Flow {
        if draft.steps.is_empty() {
            let (vm, seen) = (draft.vm, draft.seen);
            let unled =
                |claim: &_| !exposed::leads_from(vm, seen, claim) && !volumes::has(seen, claim);
            draft.steps.extend(seen.claims.give_back(unled));
        }
        Flow::Next
    }
}

/// Whether the VM has its login name.
pub(super) fn has_ssh_id(seen: &Observed) -> bool {
    has(seen, Claim::SshId)
}

/// Whether the VM has the domain that its spec asks for.
pub(super) fn has_domain(seen: &Observed) -> bool {
    has(seen, Claim::Domain)
}

fn has(seen: &Observed, claim: Claim) -> bool {
    wanted(seen, claim).is_some_and(WantedClaim::is_mine)
}

fn wanted(seen: &Observed, claim: Claim) -> Option<&WantedClaim> {
    seen.claims
        .wanted
        .iter()
        .find(|wanted| wanted.wanted.spec.claim == claim)
}

/// Whether the claim is kept for somebody else.
fn is_kept_from(seen: &Observed, claim: Claim) -> bool {
    wanted(seen, claim).is_some_and(|it| match &it.state {
        ClaimState::Kept(kept) => seen.claims.is_kept_from(kept, &it.wanted),
        _ => false,
    })
}

/// The phase of a VM that has no login name.
pub(super) fn phase_without(seen: &Observed) -> VmPhase {
    match wanted(seen, Claim::SshId).map(|claim| &claim.state) {
        Some(ClaimState::Kept(_)) if !is_kept_from(seen, Claim::SshId) => VmPhase::Pending,
        Some(ClaimState::Held { .. } | ClaimState::Kept(_) | ClaimState::Reserved(_)) => {
            VmPhase::Failed
        }
        Some(ClaimState::Free | ClaimState::Mine(_)) | None => VmPhase::Pending,
    }
}

/// What is said of them.
fn condition(vm: &Vm<'_>, seen: &Observed) -> NewCondition {
    let spec = &vm.object.spec;
    // What is said of volumes is said beside the disks that they are.
    let names = seen.claims.wanted.iter();
    for wanted in names.filter(|it| it.wanted.spec.claim != Claim::Volume) {
        let (field, value, taken, kept, remedy) = match wanted.wanted.spec.claim {
            Claim::Domain => (
                "spec.domainPrefix",
                spec.domain_prefix.as_deref().unwrap_or_default(),
                "DomainTaken",
                "DomainKept",
                "choose another; the VM itself is not affected",
            ),
            Claim::SshId
            | Claim::Username
            | Claim::Email
            | Claim::Identity
            | Claim::Offer
            | Claim::Volume => (
                "spec.sshId",
                spec.ssh_id.as_str(),
                "SshIdTaken",
                "SshIdKept",
                "create the VM with another sshId, or wait until it is free",
            ),
        };
        match &wanted.state {
            ClaimState::Mine(_) => {}
            ClaimState::Kept(claim) if is_kept_from(seen, wanted.wanted.spec.claim) => {
                let name = claim.metadata.name.as_deref().unwrap_or_default();
                let until = claim.spec.kept.as_ref().map(|it| it.until.0.to_string());
                let until = until.unwrap_or_default();
                return NewCondition::new(
                    RESERVED,
                    false,
                    kept,
                    format!(
                        "{field} {value:?} is kept until {until} for whoever had it before, unless \
                         an administrator releases it (kubectl delete kitereservation {name}): \
                         {remedy}"
                    ),
                );
            }
            ClaimState::Reserved(why) => {
                let message = format!("{field} {value:?} {why}");
                return NewCondition::new(RESERVED, false, "DomainReserved", message);
            }
            ClaimState::Free | ClaimState::Kept(_) => {
                return NewCondition::new(
                    RESERVED,
                    false,
                    "Reserving",
                    format!("{field} {value:?} is being reserved"),
                );
            }
            ClaimState::Held { reservation, .. } => {
                let holder = holder_text(&reservation.spec.holder);
                return NewCondition::new(
                    RESERVED,
                    false,
                    taken,
                    format!("{field} {value:?} is taken by {holder}: {remedy}"),
                );
            }
        }
    }
    NewCondition::new(RESERVED, true, "Reserved", "its names belong to the VM")
}
