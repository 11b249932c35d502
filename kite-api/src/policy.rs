//! Who may do what to whose: a table, asked by every handler. What is done to accounts is
//! an [`AccountAction`].
//!
//! The tables in `docs/api.md` are made from both.

pub use kite_identity::{Access, AccountAction, Act, Deed, Whose};

kite_identity::actions! {
    /// Everything that the API can do for a signed-in user beside what is about accounts.
    ///
    /// - `ReadOnly` only looks.
    /// - A `Manager` sees all VMs and runs, edits and deletes those of accounts below
    ///   `Admin`, but does not get into them: password, keys and consoles of a VM are its
    ///   owner's and the administrators'.
    /// - What was recorded of a terminal is seen by administrators only: it may be somebody
    ///   else's than the VM's owner's.
    /// - What opens a console or shows what was recorded of one needs somebody who has
    ///   signed in: no API token does it.
    /// - What opens VMs without signing in asks for a proof, and so does whatever is done to
    ///   others' VMs: made, changed, switched, entered or deleted. A terminal of one's own
    ///   ends with the session that opened it.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum Action;

    /// See the catalogue of images.
    SeeImages: "see images",
        own From(ReadOnly), others From(ReadOnly), token Both(VmsRead), proof Never;
    /// See the offers that one can claim.
    SeeOffers: "see offers",
        own From(ReadOnly), others From(ReadOnly), token Both(VmsRead), proof Never;
    /// See a VM and its state.
    SeeVm: "see the VM",
        own From(ReadOnly), others From(Manager), token Both(VmsRead), proof Never;
    /// Create a VM.
    CreateVm: "create a VM",
        own From(User), others From(Admin), token Both(VmsWrite), proof OfOthers;
    /// Give a VM that is being created a password or keys.
    GiveVmAccess: "create a VM with a password or keys",
        own From(User), others From(Admin), token Both(VmsWrite), proof Always;
    /// Create a VM whose disk is copied from a snapshot: who gets into that reads what the
    /// other has.
    CopyVm: "create a VM from a snapshot",
        own From(User), others From(Admin), token Both(VmsAccess), proof OfOthers;
    /// Start or stop a VM.
    PowerVm: "start or stop the VM",
        own From(User), others Downwards(Manager), token Both(VmsPower), proof OfOthers;
    /// Change a VM's size and how long it lasts.
    EditVm: "edit the VM",
        own From(User), others Downwards(Manager), token Both(VmsWrite), proof OfOthers;
    /// Change which volumes a VM has: who gets into it reads what is on them.
    AttachVolumes: "change the volumes of the VM",
        own From(User), others Downwards(Manager), token Both(VmsAccess), proof OfOthers;
    /// Change who gets into a VM: password, keys, and the domain that publishes it.
    EditVmAccess: "change who gets into the VM: its password, keys or domain",
        own From(User), others From(Admin), token Both(VmsAccess), proof Always;
    /// Open a VM's consoles and terminals.
    OpenConsole: "open a console of the VM",
        own From(User), others From(Admin), token Never, proof OfOthers;
    /// See who is connected to a VM, and who was.
    SeeVmSessions: "see who is connected to the VM",
        own From(ReadOnly), others From(Manager), token Both(VmsRead), proof Never;
    /// End somebody's session in a VM.
    EndVmSession: "end sessions in the VM",
        own From(User), others Downwards(Manager), token Both(VmsPower), proof OfOthers;
    /// See what was recorded of a session in a VM.
    ReplayVmSession: "see recordings of sessions",
        own From(Admin), others From(Admin), token Never, proof Never;
    /// Delete a VM and its disk.
    DeleteVm: "delete the VM",
        own From(User), others Downwards(Manager), token Both(VmsWrite), proof OfOthers;
    /// See snapshots.
    SeeSnapshots: "see snapshots",
        own From(ReadOnly), others From(Manager), token Both(VmsRead), proof Never;
    /// Take snapshots of a VM, and change how long they are kept.
    MakeSnapshots: "take or edit snapshots",
        own From(User), others Downwards(Manager), token Both(VmsWrite), proof OfOthers;
    /// Delete a snapshot and its data.
    DeleteSnapshots: "delete snapshots",
        own From(User), others Downwards(Manager), token Both(VmsWrite), proof OfOthers;
    /// Have a VM's disk be made anew from a snapshot, or the one before put back.
    RestoreVm: "restore the VM",
        own From(User), others Downwards(Manager), token Both(VmsWrite), proof OfOthers;
    /// See volumes.
    SeeVolumes: "see volumes",
        own From(ReadOnly), others From(Manager), token Both(VmsRead), proof Never;
    /// Create a volume, and have it grow.
    MakeVolumes: "create or edit volumes",
        own From(User), others Downwards(Manager), token Both(VmsWrite), proof OfOthers;
    /// Delete a volume and its data.
    DeleteVolumes: "delete volumes",
        own From(User), others Downwards(Manager), token Both(VmsWrite), proof OfOthers;
    /// See all offers and who has them, create and delete them.
    ManageOffers: "manage offers",
        own From(Admin), others From(Admin), token Each(AdminRead, Admin), proof Never;
    /// Add images to the catalogue, change what is said of them, and take them out.
    ManageImages: "manage images",
        own From(Admin), others From(Admin), token Each(AdminRead, Admin), proof Never;
    /// See and change the platform's settings.
    ManagePlatform: "see or change the platform's settings",
        own From(Admin), others From(Admin), token Each(AdminRead, Admin), proof Never;
    /// Change at which providers people sign in.
    ManageProviders: "change the sign-in providers",
        own From(Admin), others From(Admin), token Never, proof Never;
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use kite_core::crd::TokenScope;
    use kite_identity::rule::{Proof, flaws, levels, proof, within};

    use super::*;

    /// What is expected, written down beside the table: for each [`Whose`] a character per
    /// level in ascending order, and when a proof is asked for.
    const EXPECTED: [(Action, &str, Proof); 26] = [
        (Action::SeeImages, "RUMA RUMA RUMA RUMA RUMA", Proof::Never),
        (Action::SeeOffers, "RUMA RUMA RUMA RUMA RUMA", Proof::Never),
        (Action::SeeVm, "RUMA --MA --MA --MA --MA", Proof::Never),
        (
            Action::CreateVm,
            "-UMA ---A ---A ---A ---A",
            Proof::OfOthers,
        ),
        (
            Action::GiveVmAccess,
            "-UMA ---A ---A ---A ---A",
            Proof::Always,
        ),
        (Action::CopyVm, "-UMA ---A ---A ---A ---A", Proof::OfOthers),
        (Action::PowerVm, "-UMA --MA --MA --MA ---A", Proof::OfOthers),
        (Action::EditVm, "-UMA --MA --MA --MA ---A", Proof::OfOthers),
        (
            Action::AttachVolumes,
            "-UMA --MA --MA --MA ---A",
            Proof::OfOthers,
        ),
        (
            Action::EditVmAccess,
            "-UMA ---A ---A ---A ---A",
            Proof::Always,
        ),
        (
            Action::OpenConsole,
            "-UMA ---A ---A ---A ---A",
            Proof::OfOthers,
        ),
        (
            Action::SeeVmSessions,
            "RUMA --MA --MA --MA --MA",
            Proof::Never,
        ),
        (
            Action::EndVmSession,
            "-UMA --MA --MA --MA ---A",
            Proof::OfOthers,
        ),
        (
            Action::ReplayVmSession,
            "---A ---A ---A ---A ---A",
            Proof::Never,
        ),
        (
            Action::DeleteVm,
            "-UMA --MA --MA --MA ---A",
            Proof::OfOthers,
        ),
        (
            Action::SeeSnapshots,
            "RUMA --MA --MA --MA --MA",
            Proof::Never,
        ),
        (
            Action::MakeSnapshots,
            "-UMA --MA --MA --MA ---A",
            Proof::OfOthers,
        ),
        (
            Action::DeleteSnapshots,
            "-UMA --MA --MA --MA ---A",
            Proof::OfOthers,
        ),
        (
            Action::RestoreVm,
            "-UMA --MA --MA --MA ---A",
            Proof::OfOthers,
        ),
        (Action::SeeVolumes, "RUMA --MA --MA --MA --MA", Proof::Never),
        (
            Action::MakeVolumes,
            "-UMA --MA --MA --MA ---A",
            Proof::OfOthers,
        ),
        (
            Action::DeleteVolumes,
            "-UMA --MA --MA --MA ---A",
            Proof::OfOthers,
        ),
        (
            Action::ManageOffers,
            "---A ---A ---A ---A ---A",
            Proof::Never,
        ),
        (
            Action::ManageImages,
            "---A ---A ---A ---A ---A",
            Proof::Never,
        ),
        (
            Action::ManagePlatform,
            "---A ---A ---A ---A ---A",
            Proof::Never,
        ),
        (
            Action::ManageProviders,
            "---A ---A ---A ---A ---A",
            Proof::Never,
        ),
    ];

    #[test]
    fn the_table_says_what_is_expected() {
        assert_eq!(EXPECTED.map(|(action, ..)| action), Action::ALL);
        for (action, may, asks) in EXPECTED {
            assert_eq!(levels(action).join(" "), may, "{action:?}");
            assert_eq!(proof(action), asks, "{action:?}");
        }
    }

    #[test]
    fn power_grows_with_levels_and_with_scopes() {
        assert_eq!(flaws(&Action::ALL), Vec::<String>::new());
    }

    #[test]
    fn each_scope_allows_just_this() {
        let allowed = |scope: TokenScope| within(&Action::ALL, &[scope]);
        let both = |names: &[&str]| -> BTreeSet<String> {
            names
                .iter()
                .flat_map(|name| [format!("Read{name}"), format!("Write{name}")])
                .collect()
        };
        let see = [
            "SeeImages",
            "SeeOffers",
            "SeeVm",
            "SeeVmSessions",
            "SeeSnapshots",
            "SeeVolumes",
        ];
        assert_eq!(allowed(TokenScope::VmsRead), both(&see));
        let power: Vec<_> = see.into_iter().chain(["PowerVm", "EndVmSession"]).collect();
        assert_eq!(allowed(TokenScope::VmsPower), both(&power));
        let write = [
            "CreateVm",
            "GiveVmAccess",
            "EditVm",
            "DeleteVm",
            "MakeSnapshots",
            "DeleteSnapshots",
            "RestoreVm",
            "MakeVolumes",
            "DeleteVolumes",
        ];
        let write: Vec<_> = power.into_iter().chain(write).collect();
        assert_eq!(allowed(TokenScope::VmsWrite), both(&write));
        let access = ["CopyVm", "AttachVolumes", "EditVmAccess"];
        let access: Vec<_> = write.into_iter().chain(access).collect();
        assert_eq!(allowed(TokenScope::VmsAccess), both(&access));

        for scope in [
            TokenScope::AccountRead,
            TokenScope::AccountWrite,
            TokenScope::AccountKeys,
        ] {
            assert_eq!(allowed(scope), BTreeSet::new(), "{scope:?}");
        }
        let managed = ["ManageOffers", "ManageImages", "ManagePlatform"];
        let looks = managed.map(|name| format!("Read{name}"));
        assert_eq!(allowed(TokenScope::AdminRead), looks.into());
        assert_eq!(allowed(TokenScope::Admin), both(&managed));
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
