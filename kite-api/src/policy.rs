//! Who may do what to whose: one pure table, asked by every handler.
//!
//! The table is also printed into `docs/api.md`; a test keeps the two equal.

use kite_core::crd::AccessLevel;

/// Everything that the API can do for a signed-in user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// See one's account and its sessions, sign out.
    UseAccount,
    /// Change one's email address.
    EditAccount,
    /// Change the keys that open all of an account's VMs.
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
    /// See the catalogue of images.
    SeeImages,
    /// See the offers that one can claim.
    SeeOffers,
    /// See a VM and its state.
    SeeVm,
    /// Create a VM.
    CreateVm,
    /// Give a VM that is being created a password or keys.
    GiveVmAccess,
    /// Start or stop a VM.
    PowerVm,
    /// Change a VM's size and how long it lasts.
    EditVm,
    /// Change who gets into a VM: password, keys, and the domain that publishes it.
    EditVmAccess,
    /// Open a VM's consoles and terminals.
    OpenConsole,
    /// See who is connected to a VM, and who was.
    SeeVmSessions,
    /// End somebody's session in a VM.
    EndVmSession,
    /// See what was recorded of a session in a VM.
    ReplayVmSession,
    /// Delete a VM and its disk.
    DeleteVm,
    /// See all offers and who has them, create and delete them.
    ManageOffers,
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
    /// Delete an account with its VMs.
    DeleteUser,
    /// See, make and withdraw invites for accounts of this level.
    ManageInvites,
    /// See and change the platform's settings.
    ManagePlatform,
    /// Change at which providers people sign in.
    ManageProviders,
    /// End everybody's sessions, one's own too.
    SignOutEveryone,
    /// Put another key in place of the one that seals second factors.
    RotateSealKey,
}

impl Action {
    /// Every action, in the order of the documentation.
    pub const ALL: [Self; 33] = [
        Self::UseAccount,
        Self::EditAccount,
        Self::EditAccountKeys,
        Self::ChangePassword,
        Self::ManageSecondFactor,
        Self::ManageIdentities,
        Self::ManageTokens,
        Self::PutAwayNotices,
        Self::SeeImages,
        Self::SeeOffers,
        Self::SeeVm,
        Self::CreateVm,
        Self::GiveVmAccess,
        Self::PowerVm,
        Self::EditVm,
        Self::EditVmAccess,
        Self::OpenConsole,
        Self::SeeVmSessions,
        Self::EndVmSession,
        Self::ReplayVmSession,
        Self::DeleteVm,
        Self::ManageOffers,
        Self::SeeUsers,
        Self::CreateUser,
        Self::EditUser,
        Self::SetAccessLevel,
        Self::SuspendUser,
        Self::DeleteUser,
        Self::ManageInvites,
        Self::ManagePlatform,
        Self::ManageProviders,
        Self::SignOutEveryone,
        Self::RotateSealKey,
    ];

    /// What it is, after "you may not".
    pub fn describe(self) -> &'static str {
        match self {
            Self::UseAccount => "use an account",
            Self::EditAccount => "edit an account",
            Self::EditAccountKeys => "change the keys of an account",
            Self::ChangePassword => "change the password of an account",
            Self::ManageSecondFactor => "manage the second factor of an account",
            Self::ManageIdentities => "link or unlink sign-in providers",
            Self::ManageTokens => "manage API tokens",
            Self::PutAwayNotices => "put notices away",
            Self::SeeImages => "see images",
            Self::SeeOffers => "see offers",
            Self::SeeVm => "see the VM",
            Self::CreateVm => "create a VM",
            Self::GiveVmAccess => "create a VM with a password or keys",
            Self::PowerVm => "start or stop the VM",
            Self::EditVm => "edit the VM",
            Self::EditVmAccess => "change who gets into the VM: its password, keys or domain",
            Self::OpenConsole => "open a console of the VM",
            Self::SeeVmSessions => "see who is connected to the VM",
            Self::EndVmSession => "end sessions in the VM",
            Self::ReplayVmSession => "see recordings of sessions",
            Self::DeleteVm => "delete the VM",
            Self::ManageOffers => "manage offers",
            Self::SeeUsers => "see accounts",
            Self::CreateUser => "create an account",
            Self::EditUser => "edit the account",
            Self::SetAccessLevel => "change the access level of the account",
            Self::SuspendUser => "suspend the account",
            Self::DeleteUser => "delete the account",
            Self::ManageInvites => "see, make or withdraw invites",
            Self::ManagePlatform => "see or change the platform's settings",
            Self::ManageProviders => "change the sign-in providers",
            Self::SignOutEveryone => "sign everyone out",
            Self::RotateSealKey => "replace the key that seals second factors",
        }
    }
}

/// Whose thing it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Whose {
    /// The caller's own.
    Own,
    /// Of another account, of this level.
    Other(AccessLevel),
}

impl Whose {
    /// Every value.
    pub const ALL: [Self; 5] = [
        Self::Own,
        Self::Other(AccessLevel::ReadOnly),
        Self::Other(AccessLevel::User),
        Self::Other(AccessLevel::Manager),
        Self::Other(AccessLevel::Admin),
    ];
}

/// Whether an account of level `who` may do `action` to what is `whose`.
///
/// - Everybody looks after themselves; `ReadOnly` only looks.
/// - A `Manager` sees all VMs and runs, edits and deletes those of accounts
///   below `Admin`, but does not get into them: password, keys and consoles of
///   a VM are its owner's and the administrators'.
/// - What was recorded of a terminal is seen by administrators only: it may be
///   somebody else's than the VM's owner's.
/// - An `Admin` may do everything, except take the own account away from
///   itself: so there is always one left.
pub fn allows(who: AccessLevel, action: Action, whose: Whose) -> bool {
    use AccessLevel::{Admin, Manager, ReadOnly, User};
    match (action, whose) {
        (Action::UseAccount | Action::ManageTokens | Action::PutAwayNotices, whose) => {
            whose == Whose::Own
        }
        (Action::EditAccount, whose) => whose == Whose::Own && who >= User,
        (Action::EditAccountKeys, whose) => who >= if whose == Whose::Own { User } else { Admin },
        (Action::ChangePassword | Action::ManageSecondFactor | Action::ManageIdentities, whose) => {
            whose == Whose::Own || who >= Admin
        }
        (Action::SeeImages | Action::SeeOffers, _)
        | (Action::SeeVm | Action::SeeVmSessions, Whose::Own) => true,
        (Action::SeeVm | Action::SeeVmSessions, Whose::Other(_)) => who >= Manager,
        (
            Action::CreateVm
            | Action::GiveVmAccess
            | Action::PowerVm
            | Action::EditVm
            | Action::EditVmAccess
            | Action::OpenConsole
            | Action::EndVmSession
            | Action::DeleteVm,
            Whose::Own,
        ) => who >= User,
        (
            Action::PowerVm | Action::EditVm | Action::EndVmSession | Action::DeleteVm,
            Whose::Other(owner),
        ) => match owner {
            ReadOnly | User | Manager => who >= Manager,
            Admin => who >= Admin,
        },
        (
            Action::ReplayVmSession
            | Action::ManageOffers
            | Action::ManageInvites
            | Action::ManagePlatform
            | Action::ManageProviders
            | Action::SeeUsers
            | Action::CreateUser
            | Action::EditUser
            | Action::SignOutEveryone
            | Action::RotateSealKey,
            _,
        )
        | (
            Action::CreateVm
            | Action::GiveVmAccess
            | Action::EditVmAccess
            | Action::OpenConsole
            | Action::SetAccessLevel
            | Action::SuspendUser
            | Action::DeleteUser,
            Whose::Other(_),
        ) => who >= Admin,
        (Action::SetAccessLevel | Action::SuspendUser | Action::DeleteUser, Whose::Own) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEVELS: [AccessLevel; 4] = [
        AccessLevel::ReadOnly,
        AccessLevel::User,
        AccessLevel::Manager,
        AccessLevel::Admin,
    ];

    /// One character per level in ascending order, one word per [`Whose`].
    const EXPECTED: [(Action, &str); 33] = [
        (Action::UseAccount, "RUMA ---- ---- ---- ----"),
        (Action::EditAccount, "-UMA ---- ---- ---- ----"),
        (Action::EditAccountKeys, "-UMA ---A ---A ---A ---A"),
        (Action::ChangePassword, "RUMA ---A ---A ---A ---A"),
        (Action::ManageSecondFactor, "RUMA ---A ---A ---A ---A"),
        (Action::ManageIdentities, "RUMA ---A ---A ---A ---A"),
        (Action::ManageTokens, "RUMA ---- ---- ---- ----"),
        (Action::PutAwayNotices, "RUMA ---- ---- ---- ----"),
        (Action::SeeImages, "RUMA RUMA RUMA RUMA RUMA"),
        (Action::SeeOffers, "RUMA RUMA RUMA RUMA RUMA"),
        (Action::SeeVm, "RUMA --MA --MA --MA --MA"),
        (Action::CreateVm, "-UMA ---A ---A ---A ---A"),
        (Action::GiveVmAccess, "-UMA ---A ---A ---A ---A"),
        (Action::PowerVm, "-UMA --MA --MA --MA ---A"),
        (Action::EditVm, "-UMA --MA --MA --MA ---A"),
        (Action::EditVmAccess, "-UMA ---A ---A ---A ---A"),
        (Action::OpenConsole, "-UMA ---A ---A ---A ---A"),
        (Action::SeeVmSessions, "RUMA --MA --MA --MA --MA"),
        (Action::EndVmSession, "-UMA --MA --MA --MA ---A"),
        (Action::ReplayVmSession, "---A ---A ---A ---A ---A"),
        (Action::DeleteVm, "-UMA --MA --MA --MA ---A"),
        (Action::ManageOffers, "---A ---A ---A ---A ---A"),
        (Action::SeeUsers, "---A ---A ---A ---A ---A"),
        (Action::CreateUser, "---A ---A ---A ---A ---A"),
        (Action::EditUser, "---A ---A ---A ---A ---A"),
        (Action::SetAccessLevel, "---- ---A ---A ---A ---A"),
        (Action::SuspendUser, "---- ---A ---A ---A ---A"),
        (Action::DeleteUser, "---- ---A ---A ---A ---A"),
        (Action::ManageInvites, "---A ---A ---A ---A ---A"),
        (Action::ManagePlatform, "---A ---A ---A ---A ---A"),
        (Action::ManageProviders, "---A ---A ---A ---A ---A"),
        (Action::SignOutEveryone, "---A ---A ---A ---A ---A"),
        (Action::RotateSealKey, "---A ---A ---A ---A ---A"),
    ];

    fn row(action: Action) -> String {
        Whose::ALL
            .map(|whose| {
                LEVELS
                    .iter()
                    .zip("RUMA".chars())
                    .map(|(who, letter)| {
                        if allows(*who, action, whose) {
                            letter
                        } else {
                            '-'
                        }
                    })
                    .collect::<String>()
            })
            .join(" ")
    }

    #[test]
    fn the_table_is_the_documented_one() {
        assert_eq!(EXPECTED.map(|(action, _)| action), Action::ALL);
        for (action, expected) in EXPECTED {
            assert_eq!(row(action), expected, "{action:?}");
        }
    }

    #[test]
    fn the_documentation_shows_the_table() {
        let docs = include_str!("../../docs/api.md");
        for action in Action::ALL {
            let name = format!("| `{action:?}`:");
            let line = docs.lines().find(|line| line.starts_with(&name));
            let cells = line.map(|line| {
                let cells: Vec<_> = line.split('|').skip(2).map(str::trim).collect();
                cells.join(" ").trim().to_owned()
            });
            assert_eq!(cells, Some(row(action)), "{action:?}");
        }
    }

    #[test]
    fn more_power_never_means_fewer_rights_over_others() {
        for action in Action::ALL {
            for whose in Whose::ALL {
                for pair in LEVELS.windows(2) {
                    assert!(
                        !allows(pair[0], action, whose) || allows(pair[1], action, whose),
                        "{action:?} {whose:?} {pair:?}"
                    );
                }
            }
        }
    }
}
