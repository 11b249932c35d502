//! Who may do what to whose: pure tables, asked by every handler. What is done to accounts is
//! an [`AccountAction`].
//!
//! The tables are also printed into `docs/api.md`; a test keeps them equal.

use kite_core::crd::{AccessLevel, TokenScope};
pub use kite_identity::{Access, AccountAction, Act, Deed, Whose};

/// Everything that the API can do for a signed-in user beside what is about accounts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
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
    /// See and change the platform's settings.
    ManagePlatform,
    /// Change at which providers people sign in.
    ManageProviders,
}

impl Action {
    /// Every action, in the order of the documentation.
    pub const ALL: [Self; 16] = [
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
        Self::ManagePlatform,
        Self::ManageProviders,
    ];
}

impl Act for Action {
    fn describe(self) -> &'static str {
        match self {
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
            Self::ManagePlatform => "see or change the platform's settings",
            Self::ManageProviders => "change the sign-in providers",
        }
    }

    /// - `ReadOnly` only looks.
    /// - A `Manager` sees all VMs and runs, edits and deletes those of accounts
    ///   below `Admin`, but does not get into them: password, keys and consoles of
    ///   a VM are its owner's and the administrators'.
    /// - What was recorded of a terminal is seen by administrators only: it may be
    ///   somebody else's than the VM's owner's.
    fn is_allowed(self, who: AccessLevel, whose: Whose) -> bool {
        use AccessLevel::{Admin, Manager, ReadOnly, User};
        match (self, whose) {
            (Self::SeeImages | Self::SeeOffers, _)
            | (Self::SeeVm | Self::SeeVmSessions, Whose::Own) => true,
            (Self::SeeVm | Self::SeeVmSessions, Whose::Other(_)) => who >= Manager,
            (
                Self::CreateVm
                | Self::GiveVmAccess
                | Self::PowerVm
                | Self::EditVm
                | Self::EditVmAccess
                | Self::OpenConsole
                | Self::EndVmSession
                | Self::DeleteVm,
                Whose::Own,
            ) => who >= User,
            (
                Self::PowerVm | Self::EditVm | Self::EndVmSession | Self::DeleteVm,
                Whose::Other(owner),
            ) => match owner {
                ReadOnly | User | Manager => who >= Manager,
                Admin => who >= Admin,
            },
            (
                Self::ReplayVmSession
                | Self::ManageOffers
                | Self::ManagePlatform
                | Self::ManageProviders,
                _,
            )
            | (
                Self::CreateVm | Self::GiveVmAccess | Self::EditVmAccess | Self::OpenConsole,
                Whose::Other(_),
            ) => who >= Admin,
        }
    }

    /// What opens a console or shows what was recorded of one needs somebody who has signed
    /// in.
    fn scope(self, access: Access) -> Option<TokenScope> {
        match (self, access) {
            (Self::SeeImages | Self::SeeOffers | Self::SeeVm | Self::SeeVmSessions, _) => {
                Some(TokenScope::VmsRead)
            }
            (Self::PowerVm | Self::EndVmSession, _) => Some(TokenScope::VmsPower),
            (Self::CreateVm | Self::GiveVmAccess | Self::EditVm | Self::DeleteVm, _) => {
                Some(TokenScope::VmsWrite)
            }
            (Self::EditVmAccess, _) => Some(TokenScope::VmsAccess),
            (Self::ManageOffers | Self::ManagePlatform, Access::Read) => {
                Some(TokenScope::AdminRead)
            }
            (Self::ManageOffers | Self::ManagePlatform, Access::Write) => Some(TokenScope::Admin),
            (Self::ManageProviders | Self::OpenConsole | Self::ReplayVmSession, _) => None,
        }
    }

    /// What opens VMs without signing in, and whatever is done to others' VMs: made,
    /// changed, switched, entered or deleted.
    fn asks_for_proof(self, whose: Whose) -> bool {
        match self {
            Self::GiveVmAccess | Self::EditVmAccess => true,
            // A terminal of one's own ends with the session that opened it.
            Self::OpenConsole
            | Self::CreateVm
            | Self::PowerVm
            | Self::EditVm
            | Self::EndVmSession
            | Self::DeleteVm => matches!(whose, Whose::Other(_)),
            Self::SeeImages
            | Self::SeeOffers
            | Self::SeeVm
            | Self::SeeVmSessions
            | Self::ReplayVmSession
            | Self::ManageOffers
            | Self::ManagePlatform
            | Self::ManageProviders => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const LEVELS: [AccessLevel; 4] = [
        AccessLevel::ReadOnly,
        AccessLevel::User,
        AccessLevel::Manager,
        AccessLevel::Admin,
    ];

    /// One character per level in ascending order, one word per [`Whose`].
    const OF_VMS: [(Action, &str); 16] = [
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
        (Action::ManagePlatform, "---A ---A ---A ---A ---A"),
        (Action::ManageProviders, "---A ---A ---A ---A ---A"),
    ];

    const OF_ACCOUNTS: [(AccountAction, &str); 17] = [
        (AccountAction::UseAccount, "RUMA ---- ---- ---- ----"),
        (AccountAction::EditAccount, "-UMA ---- ---- ---- ----"),
        (AccountAction::EditAccountKeys, "-UMA ---A ---A ---A ---A"),
        (AccountAction::ChangePassword, "RUMA ---A ---A ---A ---A"),
        (
            AccountAction::ManageSecondFactor,
            "RUMA ---A ---A ---A ---A",
        ),
        (AccountAction::ManageIdentities, "RUMA ---A ---A ---A ---A"),
        (AccountAction::ManageTokens, "RUMA ---- ---- ---- ----"),
        (AccountAction::PutAwayNotices, "RUMA ---- ---- ---- ----"),
        (AccountAction::SeeUsers, "---A ---A ---A ---A ---A"),
        (AccountAction::CreateUser, "---A ---A ---A ---A ---A"),
        (AccountAction::EditUser, "---A ---A ---A ---A ---A"),
        (AccountAction::SetAccessLevel, "---- ---A ---A ---A ---A"),
        (AccountAction::SuspendUser, "---- ---A ---A ---A ---A"),
        (AccountAction::DeleteUser, "---- ---A ---A ---A ---A"),
        (AccountAction::ManageInvites, "---A ---A ---A ---A ---A"),
        (AccountAction::SignOutEveryone, "---A ---A ---A ---A ---A"),
        (AccountAction::RotateSealKey, "---A ---A ---A ---A ---A"),
    ];

    fn row<A: Act>(action: A) -> String {
        Whose::ALL
            .map(|whose| {
                LEVELS
                    .iter()
                    .zip("RUMA".chars())
                    .map(|(who, letter)| {
                        if action.is_allowed(*who, whose) {
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
    fn the_tables_are_the_documented_ones() {
        assert_eq!(OF_VMS.map(|(action, _)| action), Action::ALL);
        assert_eq!(OF_ACCOUNTS.map(|(action, _)| action), AccountAction::ALL);
        OF_VMS.into_iter().for_each(documented);
        OF_ACCOUNTS.into_iter().for_each(documented);
    }

    fn documented<A: Act>((action, expected): (A, &str)) {
        assert_eq!(row(action), expected, "{action:?}");
        let docs = include_str!("../../docs/api.md");
        let name = format!("| `{action:?}`:");
        let line = docs.lines().find(|line| line.starts_with(&name));
        let cells = line.map(|line| {
            let cells: Vec<_> = line.split('|').skip(2).map(str::trim).collect();
            cells.join(" ").trim().to_owned()
        });
        assert_eq!(cells.as_deref(), Some(expected), "{action:?}");
        let cell = |access| {
            let scope = action.scope(access);
            scope.map_or("never".to_owned(), |scope| format!("`{}`", scope.as_str()))
        };
        let [read, write] = Access::ALL.map(cell);
        let line = format!("| `{action:?}` | {read} | {write} |");
        assert!(docs.lines().any(|it| it == line), "{line}");
        let other = Whose::Other(AccessLevel::User);
        let asks = match (
            action.asks_for_proof(Whose::Own),
            action.asks_for_proof(other),
        ) {
            (true, true) => "always",
            (false, true) => "of others",
            // What nobody is asked for.
            (false, false) => return,
            (true, false) => "own",
        };
        let line = format!("| `{action:?}` | {asks} |");
        assert!(docs.lines().any(|it| it == line), "{line}");
    }

    #[test]
    fn more_power_never_means_fewer_rights_over_others() {
        Action::ALL.into_iter().for_each(grows_with_power);
        AccountAction::ALL.into_iter().for_each(grows_with_power);
    }

    fn grows_with_power<A: Act>(action: A) {
        for whose in Whose::ALL {
            for pair in LEVELS.windows(2) {
                assert!(
                    !action.is_allowed(pair[0], whose) || action.is_allowed(pair[1], whose),
                    "{action:?} {whose:?} {pair:?}"
                );
            }
        }
    }

    /// All that a token with these scopes may do.
    fn allowed(scopes: &[TokenScope]) -> BTreeSet<String> {
        fn of<A: Act>(all: impl IntoIterator<Item = A>, scopes: &[TokenScope]) -> Vec<String> {
            let all = all.into_iter();
            all.flat_map(|action| Access::ALL.map(|access| (action, access)))
                .filter(|(action, access)| action.is_within(scopes, *access))
                .map(|(action, access)| format!("{access:?}{action:?}"))
                .collect()
        }
        let vms = of(Action::ALL, scopes);
        vms.into_iter()
            .chain(of(AccountAction::ALL, scopes))
            .collect()
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
            let sum: BTreeSet<_> = set.iter().flat_map(|scope| allowed(&[*scope])).collect();
            assert_eq!(allowed(&set), sum, "{set:?}");
        }
    }

    #[test]
    fn each_scope_allows_just_this() {
        let allowed = |scope: TokenScope| allowed(&[scope]);
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
    fn no_token_enters_a_vm() {
        for action in [Action::OpenConsole, Action::ReplayVmSession] {
            for access in Access::ALL {
                assert!(!action.is_within(&TokenScope::ALL, access), "{action:?}");
            }
        }
    }
}
