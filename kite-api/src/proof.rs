//! What asks for a fresh proof of who one is, by operation.
//!
//! A session that was taken from its owner must open nothing that outlives it. What does,
//! and what changes things for others, is done by who has proved within ten minutes that
//! the account is theirs: by signing in, or by `POST auth/prove` since.
//!
//! [`Act::asks_for_proof`](crate::policy::Act::asks_for_proof) decides, where the
//! [policy](crate::policy) has allowed the action. [`OPERATIONS`] says the same of
//! operations, for the OpenAPI document; a test asks every one of them.

use serde_json::{Value, json};

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
