//! What asks for a fresh proof of who one is: one pure table.
//!
//! A session that was taken from its owner must open nothing that outlives it. What does,
//! and what changes things for others, is done by who has proved within ten minutes that
//! the account is theirs: by signing in, or by `POST auth/prove` since.
//!
//! [`needed`] decides, where the [policy](crate::policy) has allowed the action.
//! [`OPERATIONS`] says the same of operations, for the OpenAPI document; a test asks every
//! one of them.

use serde_json::{Value, json};

use crate::{
    policy::{Action, Whose},
    scope::Access,
};

/// What a request is about to do beside its [`Action`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deed {
    /// Whether it looks or changes something.
    pub access: Access,
    /// Whether it is one of the operations for administrators, below `admin/`.
    pub is_administration: bool,
}

impl Deed {
    /// What a request does with this method at the route `path`.
    pub fn of(method: &http::Method, path: &str) -> Self {
        Self {
            access: Access::of(method),
            is_administration: path.contains("/api/v1/admin/"),
        }
    }
}

/// Whether a session must have been proved lately to do `action`.
///
/// - Everything below `admin/` that changes something.
/// - How one signs in, and what opens the account or VMs without signing in.
/// - What takes away the notices that tell of such a session.
/// - Whatever is done to others' VMs: made, changed, switched, entered or deleted.
pub fn needed(action: Action, whose: Whose, deed: Deed) -> bool {
    if deed.access == Access::Read {
        return false;
    }
    if deed.is_administration {
        return true;
    }
    match action {
        Action::EditAccount
        | Action::EditAccountKeys
        | Action::ChangePassword
        | Action::ManageSecondFactor
        | Action::ManageIdentities
        | Action::ManageTokens
        | Action::PutAwayNotices
        | Action::GiveVmAccess
        | Action::EditVmAccess => true,
        // A terminal of one's own ends with the session that opened it.
        Action::OpenConsole
        | Action::CreateVm
        | Action::PowerVm
        | Action::EditVm
        | Action::EndVmSession
        | Action::DeleteVm => matches!(whose, Whose::Other(_)),
        Action::UseAccount
        | Action::SeeImages
        | Action::SeeOffers
        | Action::SeeVm
        | Action::SeeVmSessions
        | Action::ReplayVmSession
        | Action::ManageOffers
        | Action::SeeUsers
        | Action::CreateUser
        | Action::EditUser
        | Action::SetAccessLevel
        | Action::SuspendUser
        | Action::DeleteUser
        | Action::ManageInvites
        | Action::ManagePlatform
        | Action::ManageProviders
        | Action::SignOutEveryone
        | Action::RotateSealKey => false,
    }
}

/// When an operation asks for a proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asks {
    /// Never.
    Never,
    /// Always.
    Always,
    /// When the body has one of these fields.
    For(&'static [&'static str]),
    /// When it is about somebody else's VM.
    ForOthers,
    /// When it is about somebody else's VM, or the body has one of these fields.
    ForOthersOr(&'static [&'static str]),
    /// Where the account has a second factor: the body has the password, and one that
    /// fits is the proof otherwise.
    BesidePassword,
}

impl Asks {
    /// What the OpenAPI document says of it; nothing where no proof is asked for.
    pub(crate) fn described(self) -> Option<Value> {
        let when = match self {
            Self::Never => return None,
            Self::Always => "always".to_owned(),
            Self::For(fields) => format!("with {}", fields.join(", ")),
            Self::ForOthers => "for VMs of others".to_owned(),
            Self::ForOthersOr(fields) => {
                format!("for VMs of others, and with {}", fields.join(", "))
            }
            Self::BesidePassword => {
                "where the account has a second factor; otherwise the password in the body is \
                 the proof"
                    .to_owned()
            }
        };
        Some(json!(when))
    }
}

/// What opens a VM, in bodies that make or edit one.
const VM_ACCESS: &[&str] = &["sshPublicKeys", "sshPassword"];

/// Every operation that changes something, by its id. What only looks never asks.
pub const OPERATIONS: [(&str, Asks); 41] = [
    ("deleteCertificate", Asks::Always),
    ("putCertificate", Asks::Always),
    ("createInvite", Asks::Always),
    ("deleteInvite", Asks::Always),
    ("createOffer", Asks::Always),
    ("deleteOffer", Asks::Always),
    ("editPlatform", Asks::Always),
    ("rotateSealKey", Asks::Always),
    ("endAnyVmSession", Asks::Always),
    ("signOutEveryone", Asks::Always),
    ("createUser", Asks::Always),
    ("deleteUser", Asks::Always),
    ("editUser", Asks::Always),
    ("unlinkIdentityOfUser", Asks::Always),
    ("bootstrap", Asks::Never),
    ("prove", Asks::Never),
    ("refresh", Asks::Never),
    ("signIn", Asks::Never),
    ("signOut", Asks::Never),
    ("signUp", Asks::Never),
    ("editMe", Asks::Always),
    ("linkIdentity", Asks::BesidePassword),
    ("unlinkIdentity", Asks::Always),
    ("changePassword", Asks::BesidePassword),
    ("endOtherSessions", Asks::Never),
    ("endSession", Asks::Never),
    ("createToken", Asks::Always),
    ("endToken", Asks::Never),
    // Its body has all that a proof takes.
    ("removeSecondFactor", Asks::Never),
    ("beginSecondFactor", Asks::BesidePassword),
    ("confirmSecondFactor", Asks::Always),
    ("claimOffer", Asks::For(VM_ACCESS)),
    ("createVm", Asks::ForOthersOr(VM_ACCESS)),
    ("deleteVm", Asks::ForOthers),
    (
        "editVm",
        Asks::ForOthersOr(&["sshPublicKeys", "sshPassword", "sshLogin", "domainPrefix"]),
    ),
    ("openConsole", Asks::ForOthers),
    ("restartVm", Asks::ForOthers),
    ("endVmSession", Asks::ForOthers),
    ("startVm", Asks::ForOthers),
    ("stopVm", Asks::ForOthers),
    ("seeNotices", Asks::Always),
];

/// When the operation with this id asks; never where it only looks.
pub fn of_operation(id: &str) -> Asks {
    let mut operations = OPERATIONS.iter();
    operations
        .find_map(|(known, asks)| (*known == id).then_some(*asks))
        .unwrap_or(Asks::Never)
}

#[cfg(test)]
mod tests {
    use kite_core::crd::AccessLevel;

    use super::*;

    fn deeds() -> impl Iterator<Item = (Action, Whose, Deed)> {
        let deeds = Access::ALL.into_iter().flat_map(|access| {
            [false, true].map(|is_administration| Deed {
                access,
                is_administration,
            })
        });
        deeds.flat_map(|deed| {
            let actions = Action::ALL.into_iter();
            actions.flat_map(move |action| Whose::ALL.map(|whose| (action, whose, deed)))
        })
    }

    #[test]
    fn whoever_only_looks_is_asked_for_nothing_and_administrators_always_are() {
        for (action, whose, deed) in deeds() {
            let is_asked = needed(action, whose, deed);
            match (deed.access, deed.is_administration) {
                (Access::Read, _) => assert!(!is_asked, "{action:?}"),
                (Access::Write, true) => assert!(is_asked, "{action:?}"),
                (Access::Write, false) => {}
            }
        }
    }

    #[test]
    fn the_documentation_lists_what_asks() {
        let docs = include_str!("../../docs/api.md");
        let deed = Deed {
            access: Access::Write,
            is_administration: false,
        };
        let other = Whose::Other(AccessLevel::User);
        for action in Action::ALL {
            let cell = match (
                needed(action, Whose::Own, deed),
                needed(action, other, deed),
            ) {
                (true, true) => "always",
                (false, true) => "of others",
                (false, false) => "no",
                (true, false) => "own",
            };
            // What no account but an administrator's does is below `admin/` anyway.
            if cell == "no" {
                continue;
            }
            let line = format!("| `{action:?}` | {cell} |");
            assert!(docs.lines().any(|it| it == line), "{line}");
        }
    }

    #[test]
    fn routes_of_administrators_are_known_by_their_path() {
        let is_administration = |path| Deed::of(&http::Method::POST, path).is_administration;
        assert!(is_administration("/api/v1/admin/users/{name}"));
        assert!(is_administration("/prefix/api/v1/admin/users"));
        assert!(!is_administration("/api/v1/vms/{name}"));
        assert!(!is_administration("/api/v1/me/admin"));
    }
}
