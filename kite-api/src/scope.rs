//! What an API token may do, of what its user may: one pure table.
//!
//! The table is also printed into `docs/api.md`; a test keeps the two equal.

use kite_core::crd::TokenScope;

use crate::policy::Action;

/// What a request is about to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// Look.
    Read,
    /// Change something.
    Write,
}

impl Access {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Read, Self::Write];

    /// What a request with this method does (RFC 9110 §9.2.1).
    pub fn of(method: &http::Method) -> Self {
        if method.is_safe() {
            Self::Read
        } else {
            Self::Write
        }
    }
}

/// The least scope that lets a token do `action`; none where no token may: what
/// makes tokens, ends sessions, changes how somebody signs in, puts notices away, opens
/// a console or shows what was recorded of one needs somebody who has signed in.
pub fn needed(action: Action, access: Access) -> Option<TokenScope> {
    match (action, access) {
        (Action::SeeImages | Action::SeeOffers | Action::SeeVm | Action::SeeVmSessions, _) => {
            Some(TokenScope::VmsRead)
        }
        (Action::PowerVm | Action::EndVmSession, _) => Some(TokenScope::VmsPower),
        (Action::CreateVm | Action::GiveVmAccess | Action::EditVm | Action::DeleteVm, _) => {
            Some(TokenScope::VmsWrite)
        }
        (Action::EditVmAccess, _) => Some(TokenScope::VmsAccess),
        (Action::UseAccount, Access::Read) => Some(TokenScope::AccountRead),
        (Action::EditAccount, _) => Some(TokenScope::AccountWrite),
        (Action::EditAccountKeys, _) => Some(TokenScope::AccountKeys),
        (Action::SeeUsers, _)
        | (Action::ManageOffers | Action::ManageInvites | Action::ManagePlatform, Access::Read) => {
            Some(TokenScope::AdminRead)
        }
        (Action::ManageOffers | Action::ManageInvites | Action::ManagePlatform, Access::Write)
        | (
            Action::CreateUser
            | Action::EditUser
            | Action::SetAccessLevel
            | Action::SuspendUser
            | Action::DeleteUser
            | Action::RotateSealKey,
            _,
        ) => Some(TokenScope::Admin),
        (Action::UseAccount, Access::Write)
        | (
            Action::ChangePassword
            | Action::ManageSecondFactor
            | Action::ManageIdentities
            | Action::ManageProviders
            | Action::OpenConsole
            | Action::ReplayVmSession
            | Action::ManageTokens
            | Action::PutAwayNotices
            | Action::SignOutEveryone,
            _,
        ) => None,
    }
}

/// Whether a token with these scopes may do `action`, if its user may.
pub fn allows(scopes: &[TokenScope], action: Action, access: Access) -> bool {
    needed(action, access).is_some_and(|needed| scopes.iter().any(|scope| scope.includes(needed)))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn cell(action: Action, access: Access) -> String {
        needed(action, access).map_or("never".to_owned(), |scope| format!("`{}`", scope.as_str()))
    }

    #[test]
    fn the_documentation_shows_the_table() {
        let docs = include_str!("../../docs/api.md");
        for action in Action::ALL {
            let [read, write] = Access::ALL.map(|access| cell(action, access));
            let line = format!("| `{action:?}` | {read} | {write} |");
            assert!(docs.lines().any(|it| it == line), "{line}");
        }
    }

    /// All sets of scopes, each with all actions: a set allows what its members
    /// allow, and nothing is allowed by no scope.
    #[test]
    fn a_set_of_scopes_is_the_sum_of_its_scopes() {
        for bits in 0_u32..1 << TokenScope::ALL.len() {
            let set: Vec<_> = TokenScope::ALL
                .into_iter()
                .enumerate()
                .filter_map(|(n, scope)| (bits & (1 << n) != 0).then_some(scope))
                .collect();
            for action in Action::ALL {
                for access in Access::ALL {
                    let sum = set.iter().any(|scope| allows(&[*scope], action, access));
                    assert_eq!(allows(&set, action, access), sum, "{set:?} {action:?}");
                }
            }
        }
    }

    #[test]
    fn each_scope_allows_just_this() {
        let allowed = |scope: TokenScope| -> BTreeSet<String> {
            Action::ALL
                .into_iter()
                .flat_map(|action| Access::ALL.map(|access| (action, access)))
                .filter(|(action, access)| allows(&[scope], *action, *access))
                .map(|(action, access)| format!("{access:?}{action:?}"))
                .collect()
        };
        let both = |names: &[&str]| -> BTreeSet<String> {
            names
                .iter()
                .flat_map(|name| [format!("Read{name}"), format!("Write{name}")])
                .collect()
        };
        let see = ["SeeImages", "SeeOffers", "SeeVm", "SeeVmSessions"];
        assert_eq!(allowed(TokenScope::VmsRead), both(&see));
        let power: Vec<_> = see.into_iter().chain(["PowerVm", "EndVmSession"]).collect();
        assert_eq!(allowed(TokenScope::VmsPower), both(&power));
        let write = ["CreateVm", "GiveVmAccess", "EditVm", "DeleteVm"];
        let write: Vec<_> = power.into_iter().chain(write).collect();
        assert_eq!(allowed(TokenScope::VmsWrite), both(&write));
        let access: Vec<_> = write.into_iter().chain(["EditVmAccess"]).collect();
        assert_eq!(allowed(TokenScope::VmsAccess), both(&access));

        let own: BTreeSet<_> = ["ReadUseAccount".to_owned()].into();
        assert_eq!(allowed(TokenScope::AccountRead), own);
        let mut edits = both(&["EditAccount"]);
        edits.extend(own);
        assert_eq!(allowed(TokenScope::AccountWrite), edits);
        edits.extend(both(&["EditAccountKeys"]));
        assert_eq!(allowed(TokenScope::AccountKeys), edits);

        let mut sees = both(&["SeeUsers"]);
        sees.extend(
            ["ManageOffers", "ManageInvites", "ManagePlatform"].map(|name| format!("Read{name}")),
        );
        assert_eq!(allowed(TokenScope::AdminRead), sees);
        let all = [
            "SeeUsers",
            "ManageOffers",
            "ManageInvites",
            "ManagePlatform",
            "CreateUser",
            "EditUser",
            "SetAccessLevel",
            "SuspendUser",
            "DeleteUser",
            "RotateSealKey",
        ];
        assert_eq!(allowed(TokenScope::Admin), both(&all));
    }

    #[test]
    fn no_token_makes_tokens_or_changes_how_somebody_signs_in() {
        for action in [
            Action::ManageTokens,
            Action::ChangePassword,
            Action::ManageSecondFactor,
            Action::ManageIdentities,
            Action::OpenConsole,
            Action::ReplayVmSession,
            Action::SignOutEveryone,
        ] {
            for access in Access::ALL {
                assert!(!allows(&TokenScope::ALL, action, access), "{action:?}");
            }
        }
        assert!(!allows(&TokenScope::ALL, Action::UseAccount, Access::Write));
    }
}
