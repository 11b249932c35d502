//! Whether the keys of user authorities can be read: one that cannot lets nobody in. Pure.

use kite_core::{
    conditions::NewCondition,
    crd::{UserAuthority, platform_condition::USER_AUTHORITIES_USABLE},
};

use super::draft::PlatformDraft;
use crate::stage::Stage;

/// Goes by the settings alone.
pub(super) struct Authorities;

impl Stage<PlatformDraft<'_>> for Authorities {
    fn condition(&self, draft: &PlatformDraft<'_>) -> Option<NewCondition> {
        let gateway = &draft.platform.object.spec.gateway;
        condition(&gateway.user_authorities)
    }
}

fn condition(authorities: &[UserAuthority]) -> Option<NewCondition> {
    let faults = authorities.iter().enumerate().filter_map(|(at, it)| {
        let why = it.key().err()?;
        let field = format!("spec.gateway.userAuthorities[{at}].publicKey");
        Some(format!("{field} (authority {}) {why}", it.name))
    });
    let faults: Vec<_> = faults.collect();
    let said =
        |holds, reason, message| NewCondition::new(USER_AUTHORITIES_USABLE, holds, reason, message);
    match authorities.len() {
        0 => None,
        _ if !faults.is_empty() => {
            let message = format!("{}; its certificates let nobody in", faults.join("; "));
            Some(said(false, "InvalidKey", message))
        }
        1 => Some(said(true, "Usable", "its key can be read".to_owned())),
        all => Some(said(true, "Usable", format!("all {all} keys can be read"))),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use kite_core::{conditions::ConditionStatus, crd::Principals};

    use super::*;

    const KEY: &str =
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIKO9ldbqXUWB+gMw90VFK2ZXIlM5RvBXwnm/KM3V61Ut";

    #[test]
    fn a_key_that_cannot_be_read_is_named() {
        let authority = |name: &str, key: &str| UserAuthority {
            name: name.to_owned(),
            public_key: key.to_owned(),
            principals: Principals::Accounts,
        };
        assert_eq!(condition(&[]), None);
        let said = condition(&[authority("staff", KEY)]).unwrap();
        assert_eq!(said.status, ConditionStatus::True);
        let cut = KEY.strip_suffix("V61Ut").unwrap();
        let said = condition(&[authority("staff", KEY), authority("guests", cut)]).unwrap();
        assert_eq!(
            (said.status, said.reason.as_str()),
            (ConditionStatus::False, "InvalidKey")
        );
        for word in [
            "userAuthorities[1].publicKey",
            "guests",
            "write the whole line",
            "certificates let nobody in",
        ] {
            assert!(said.message.contains(word), "{}", said.message);
        }
    }
}
