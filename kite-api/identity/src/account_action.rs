//! [`AccountAction`]: what people do to accounts.

crate::actions! {
    /// What the API can do to accounts, for somebody who is signed in.
    ///
    /// - Everybody looks after themselves; `ReadOnly` only looks.
    /// - An `Admin` may do everything, except take the own account away from itself: so
    ///   there is always one left.
    /// - What makes tokens, ends sessions, changes how somebody signs in or puts notices
    ///   away needs somebody who has signed in: no API token does it.
    /// - All but one's own sessions and looking at accounts asks for a proof: how one signs
    ///   in, what opens the account without signing in, what takes away the notices that
    ///   tell of such a session, and what is done to others' accounts.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    #[non_exhaustive]
    pub enum AccountAction;

    /// See one's account and its sessions, sign out.
    UseAccount: "use an account",
        own From(ReadOnly), others Nobody, token Looking(AccountRead), proof Never,
        leads to a factor: true;
    /// Change one's email address.
    EditAccount: "edit an account",
        own From(User), others Nobody, token Both(AccountWrite), proof Always;
    /// Change the keys that open all that is an account's.
    EditAccountKeys: "change the keys of an account",
        own From(User), others From(Admin), token Both(AccountKeys), proof Always;
    /// Give an account another password.
    ChangePassword: "change the password of an account",
        own From(ReadOnly), others From(Admin), token Never, proof Always;
    /// Make a second factor, or take an account's away.
    ManageSecondFactor: "manage the second factor of an account",
        own From(ReadOnly), others From(Admin), token Never, proof Always,
        leads to a factor: true;
    /// Link one's account with people at sign-in providers, or unlink an account.
    ManageIdentities: "link or unlink sign-in providers",
        own From(ReadOnly), others From(Admin), token Never, proof Always;
    /// See, make and end one's API tokens.
    ManageTokens: "manage API tokens",
        own From(ReadOnly), others Nobody, token Never, proof Always;
    /// Say that one has seen what one is told of one's account.
    PutAwayNotices: "put notices away",
        own From(ReadOnly), others Nobody, token Never, proof Always;
    /// See accounts.
    SeeUsers: "see accounts",
        own From(Admin), others From(Admin), token Both(AdminRead), proof Never;
    /// Create an account.
    CreateUser: "create an account",
        own From(Admin), others From(Admin), token Both(Admin), proof Always;
    /// Change an account's email address, quota or keys.
    EditUser: "edit the account",
        own From(Admin), others From(Admin), token Both(Admin), proof Always;
    /// Change an account's access level.
    SetAccessLevel: "change the access level of the account",
        own Nobody, others From(Admin), token Both(Admin), proof Always;
    /// Suspend an account or let it in again.
    SuspendUser: "suspend the account",
        own Nobody, others From(Admin), token Both(Admin), proof Always;
    /// Delete an account with all that is its.
    DeleteUser: "delete the account",
        own Nobody, others From(Admin), token Both(Admin), proof Always;
    /// See, make and withdraw invites for accounts of this level.
    ManageInvites: "see, make or withdraw invites",
        own From(Admin), others From(Admin), token Each(AdminRead, Admin), proof Always;
    /// End everybody's sessions, one's own too.
    SignOutEveryone: "sign everyone out",
        own From(Admin), others From(Admin), token Never, proof Always;
    /// Put another key in place of the one that seals second factors and passwords.
    RotateSealKey: "replace the key that seals second factors",
        own From(Admin), others From(Admin), token Both(Admin), proof Always;
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use kite_core::crd::{AccessLevel, TokenScope};

    use super::AccountAction;
    use crate::{
        Access, Act as _, Whose,
        rule::{Proof, flaws, levels, proof, within},
    };

    /// What is expected, written down beside the table: for each [`Whose`] a character
    /// per level in ascending order, and when a proof is asked for.
    const EXPECTED: [(AccountAction, &str, Proof); 17] = [
        (
            AccountAction::UseAccount,
            "RUMA ---- ---- ---- ----",
            Proof::Never,
        ),
        (
            AccountAction::EditAccount,
            "-UMA ---- ---- ---- ----",
            Proof::Always,
        ),
        (
            AccountAction::EditAccountKeys,
            "-UMA ---A ---A ---A ---A",
            Proof::Always,
        ),
        (
            AccountAction::ChangePassword,
            "RUMA ---A ---A ---A ---A",
            Proof::Always,
        ),
        (
            AccountAction::ManageSecondFactor,
            "RUMA ---A ---A ---A ---A",
            Proof::Always,
        ),
        (
            AccountAction::ManageIdentities,
            "RUMA ---A ---A ---A ---A",
            Proof::Always,
        ),
        (
            AccountAction::ManageTokens,
            "RUMA ---- ---- ---- ----",
            Proof::Always,
        ),
        (
            AccountAction::PutAwayNotices,
            "RUMA ---- ---- ---- ----",
            Proof::Always,
        ),
        (
            AccountAction::SeeUsers,
            "---A ---A ---A ---A ---A",
            Proof::Never,
        ),
        (
            AccountAction::CreateUser,
            "---A ---A ---A ---A ---A",
            Proof::Always,
        ),
        (
            AccountAction::EditUser,
            "---A ---A ---A ---A ---A",
            Proof::Always,
        ),
        (
            AccountAction::SetAccessLevel,
            "---- ---A ---A ---A ---A",
            Proof::Always,
        ),
        (
            AccountAction::SuspendUser,
            "---- ---A ---A ---A ---A",
            Proof::Always,
        ),
        (
            AccountAction::DeleteUser,
            "---- ---A ---A ---A ---A",
            Proof::Always,
        ),
        (
            AccountAction::ManageInvites,
            "---A ---A ---A ---A ---A",
            Proof::Always,
        ),
        (
            AccountAction::SignOutEveryone,
            "---A ---A ---A ---A ---A",
            Proof::Always,
        ),
        (
            AccountAction::RotateSealKey,
            "---A ---A ---A ---A ---A",
            Proof::Always,
        ),
    ];

    #[test]
    fn the_table_says_what_is_expected() {
        assert_eq!(EXPECTED.map(|(action, ..)| action), AccountAction::ALL);
        for (action, may, asks) in EXPECTED {
            assert_eq!(levels(action).join(" "), may, "{action:?}");
            assert_eq!(proof(action), asks, "{action:?}");
        }
    }

    #[test]
    fn without_the_factor_that_it_needs_an_account_can_get_one_and_no_more() {
        let leads = |action: &AccountAction| action.leads_to_factor(Whose::Own);
        let all: Vec<_> = AccountAction::ALL.into_iter().filter(leads).collect();
        let expected = [AccountAction::UseAccount, AccountAction::ManageSecondFactor];
        assert_eq!(all, expected);
        let other = Whose::Other(AccessLevel::User);
        assert!(
            !AccountAction::ALL
                .iter()
                .any(|it| it.leads_to_factor(other))
        );
    }

    #[test]
    fn power_grows_with_levels_and_with_scopes() {
        assert_eq!(flaws(&AccountAction::ALL), Vec::<String>::new());
    }

    #[test]
    fn each_scope_allows_just_this() {
        let allowed = |scope: TokenScope| within(&AccountAction::ALL, &[scope]);
        let both = |names: &[&str]| -> BTreeSet<String> {
            names
                .iter()
                .flat_map(|name| [format!("Read{name}"), format!("Write{name}")])
                .collect()
        };
        for scope in [
            TokenScope::VmsRead,
            TokenScope::VmsPower,
            TokenScope::VmsWrite,
            TokenScope::VmsAccess,
        ] {
            assert_eq!(allowed(scope), BTreeSet::new(), "{scope:?}");
        }
        let own: BTreeSet<_> = ["ReadUseAccount".to_owned()].into();
        assert_eq!(allowed(TokenScope::AccountRead), own);
        let mut edits = both(&["EditAccount"]);
        edits.extend(own);
        assert_eq!(allowed(TokenScope::AccountWrite), edits);
        edits.extend(both(&["EditAccountKeys"]));
        assert_eq!(allowed(TokenScope::AccountKeys), edits);

        let mut sees = both(&["SeeUsers"]);
        sees.extend(["ReadManageInvites".to_owned()]);
        assert_eq!(allowed(TokenScope::AdminRead), sees);
        let all = [
            "SeeUsers",
            "ManageInvites",
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
            AccountAction::ManageTokens,
            AccountAction::ChangePassword,
            AccountAction::ManageSecondFactor,
            AccountAction::ManageIdentities,
            AccountAction::SignOutEveryone,
        ] {
            for access in Access::ALL {
                assert!(!action.is_within(&TokenScope::ALL, access), "{action:?}");
            }
        }
        assert!(!AccountAction::UseAccount.is_within(&TokenScope::ALL, Access::Write));
    }
}
