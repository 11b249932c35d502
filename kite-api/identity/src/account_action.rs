//! [`AccountAction`]: what people do to accounts.

use kite_core::crd::{AccessLevel, TokenScope};

use crate::act::{Access, Act, Whose};

/// What the API can do to accounts, for somebody who is signed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AccountAction {
    /// See one's account and its sessions, sign out.
    UseAccount,
    /// Change one's email address.
    EditAccount,
    /// Change the keys that open all that is an account's.
    EditAccountKeys,
    /// Give an account another password.
    ChangePassword,
    /// Make a second factor, or take an account's away.
    ManageSecondFactor,
    /// Link one's account with people at sign-in providers, or unlink an account.
    ManageIdentities,
    /// See, make and end one's API tokens.
    ManageTokens,
    /// Say that one has seen what one is told of one's account.
    PutAwayNotices,
    /// See accounts.
    SeeUsers,
    /// Create an account.
    CreateUser,
    /// Change an account's email address, quota or keys.
    EditUser,
    /// Change an account's access level.
    SetAccessLevel,
    /// Suspend an account or let it in again.
    SuspendUser,
    /// Delete an account with all that is its.
    DeleteUser,
    /// See, make and withdraw invites for accounts of this level.
    ManageInvites,
    /// End everybody's sessions, one's own too.
    SignOutEveryone,
    /// Put another key in place of the one that seals second factors.
    RotateSealKey,
}

impl AccountAction {
    /// Every action, in the order of the documentation.
    pub const ALL: [Self; 17] = [
        Self::UseAccount,
        Self::EditAccount,
        Self::EditAccountKeys,
        Self::ChangePassword,
        Self::ManageSecondFactor,
        Self::ManageIdentities,
        Self::ManageTokens,
        Self::PutAwayNotices,
        Self::SeeUsers,
        Self::CreateUser,
        Self::EditUser,
        Self::SetAccessLevel,
        Self::SuspendUser,
        Self::DeleteUser,
        Self::ManageInvites,
        Self::SignOutEveryone,
        Self::RotateSealKey,
    ];
}

impl Act for AccountAction {
    fn describe(self) -> &'static str {
        match self {
            Self::UseAccount => "use an account",
            Self::EditAccount => "edit an account",
            Self::EditAccountKeys => "change the keys of an account",
            Self::ChangePassword => "change the password of an account",
            Self::ManageSecondFactor => "manage the second factor of an account",
            Self::ManageIdentities => "link or unlink sign-in providers",
            Self::ManageTokens => "manage API tokens",
            Self::PutAwayNotices => "put notices away",
            Self::SeeUsers => "see accounts",
            Self::CreateUser => "create an account",
            Self::EditUser => "edit the account",
            Self::SetAccessLevel => "change the access level of the account",
            Self::SuspendUser => "suspend the account",
            Self::DeleteUser => "delete the account",
            Self::ManageInvites => "see, make or withdraw invites",
            Self::SignOutEveryone => "sign everyone out",
            Self::RotateSealKey => "replace the key that seals second factors",
        }
    }

    /// - Everybody looks after themselves; `ReadOnly` only looks.
    /// - An `Admin` may do everything, except take the own account away from itself: so
    ///   there is always one left.
    fn is_allowed(self, who: AccessLevel, whose: Whose) -> bool {
        use AccessLevel::{Admin, User};
        match (self, whose) {
            (Self::UseAccount | Self::ManageTokens | Self::PutAwayNotices, whose) => {
                whose == Whose::Own
            }
            (Self::EditAccount, whose) => whose == Whose::Own && who >= User,
            (Self::EditAccountKeys, whose) => who >= if whose == Whose::Own { User } else { Admin },
            (Self::ChangePassword | Self::ManageSecondFactor | Self::ManageIdentities, whose) => {
                whose == Whose::Own || who >= Admin
            }
            (
                Self::ManageInvites
                | Self::SeeUsers
                | Self::CreateUser
                | Self::EditUser
                | Self::SignOutEveryone
                | Self::RotateSealKey,
                _,
            )
            | (Self::SetAccessLevel | Self::SuspendUser | Self::DeleteUser, Whose::Other(_)) => {
                who >= Admin
            }
            (Self::SetAccessLevel | Self::SuspendUser | Self::DeleteUser, Whose::Own) => false,
        }
    }

    /// What makes tokens, ends sessions, changes how somebody signs in or puts notices away
    /// needs somebody who has signed in.
    fn scope(self, access: Access) -> Option<TokenScope> {
        match (self, access) {
            (Self::UseAccount, Access::Read) => Some(TokenScope::AccountRead),
            (Self::EditAccount, _) => Some(TokenScope::AccountWrite),
            (Self::EditAccountKeys, _) => Some(TokenScope::AccountKeys),
            (Self::SeeUsers, _) | (Self::ManageInvites, Access::Read) => {
                Some(TokenScope::AdminRead)
            }
            (Self::ManageInvites, Access::Write)
            | (
                Self::CreateUser
                | Self::EditUser
                | Self::SetAccessLevel
                | Self::SuspendUser
                | Self::DeleteUser
                | Self::RotateSealKey,
                _,
            ) => Some(TokenScope::Admin),
            (Self::UseAccount, Access::Write)
            | (
                Self::ChangePassword
                | Self::ManageSecondFactor
                | Self::ManageIdentities
                | Self::ManageTokens
                | Self::PutAwayNotices
                | Self::SignOutEveryone,
                _,
            ) => None,
        }
    }

    /// All but one's own sessions and looking at accounts: how one signs in, what opens the
    /// account without signing in, what takes away the notices that tell of such a session,
    /// and what is done to others' accounts.
    fn asks_for_proof(self, _: Whose) -> bool {
        !matches!(self, Self::UseAccount | Self::SeeUsers)
    }

    fn leads_to_factor(self, whose: Whose) -> bool {
        match self {
            Self::UseAccount => true,
            Self::ManageSecondFactor => whose == Whose::Own,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
