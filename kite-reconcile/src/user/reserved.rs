//! The names of a user of which there can be one.

use kite_core::{conditions::NewCondition, crd::Claim};
use kite_render::User;
use kube::ResourceExt as _;

use super::{
    Observed,
    draft::{RESERVED, UserDraft},
    namespace::NOT_MADE,
};
use crate::{
    claims::{ClaimState, holder_text},
    stage::{Flow, Stage},
};

/// Goes by `claims` and `namespace`.
pub(super) struct Names;

impl Stage<UserDraft<'_>> for Names {
    fn plan(&self, draft: &mut UserDraft<'_>) -> Flow {
        let claims = &draft.seen.claims;
        let mut changes = claims.wants();
        if changes.is_empty() {
            changes = claims.give_back(|_| true);
        }
        if !changes.is_empty() {
            draft.steps.extend(changes);
            return Flow::Stop;
        }
        let lost = claims.wanted.iter().any(|claim| !claim.is_mine());
        if lost && draft.seen.namespace.is_none() {
            return draft.wait("NotMade", NOT_MADE);
        }
        Flow::Next
    }

    fn condition(&self, draft: &UserDraft<'_>) -> Option<NewCondition> {
        Some(condition(draft.user, draft.seen))
    }
}

fn condition(user: &User<'_>, seen: &Observed) -> NewCondition {
    let spec = &user.object.spec;
    for wanted in &seen.claims.wanted {
        let (field, value) = match wanted.wanted.spec.claim {
            Claim::Email => ("spec.email", spec.email.as_deref().unwrap_or_default()),
            Claim::Identity => {
                let claimed = wanted.wanted.name_any();
                let mut identities = spec.identities.iter();
                let identity = identities.find(|it| it.reservation() == claimed);
                let subject = identity.map(|identity| identity.subject.as_str());
                ("spec.identities", subject.unwrap_or_default())
            }
            Claim::Username | Claim::SshId | Claim::Domain | Claim::Offer | Claim::Volume => {
                ("spec.username", spec.username.as_str())
            }
        };
        let (reason, message) = match &wanted.state {
            ClaimState::Mine(_) => continue,
            // Names of users are neither kept nor reserved.
            ClaimState::Free | ClaimState::Kept(_) | ClaimState::Reserved(_) => {
                ("Reserving", format!("{field} {value:?} is being reserved"))
            }
            ClaimState::Held { reservation, .. } => (
                "Taken",
                format!(
                    "{field} {value:?} is taken by {}: choose another",
                    holder_text(&reservation.spec.holder)
                ),
            ),
        };
        return NewCondition::new(RESERVED, false, reason, message);
    }
    NewCondition::new(
        RESERVED,
        true,
        "Reserved",
        "username, email and identities belong to the user",
    )
}
