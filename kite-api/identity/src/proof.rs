//! What asks for a fresh proof of who one is, by operation.
//!
//! A session that was taken from its owner must open nothing that outlives it. What does,
//! and what changes things for others, is done by who has proved within ten minutes that
//! the account is theirs: by signing in, or by `POST auth/prove` since.
//!
//! [`Act::asks_for_proof`](crate::Act::asks_for_proof) decides, where the action is allowed.
//! [`OPERATIONS`] says the same of operations, for the OpenAPI document, and an application
//! has a table of its own.

use aide::{openapi::PathItem, transform::TransformPathItem};
use kite_rest::{ProblemKind, openapi::refuses};
use serde_json::{Value, json};

/// What the document says of operations that ask for a fresh proof: when they do.
const PROOF: &str = "x-kite-proof";

/// When an operation asks for a proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asks {
    /// Never.
    Never,
    /// Always.
    Always,
    /// When the body has one of these fields.
    For(&'static [&'static str]),
    /// When it is about what belongs to somebody else.
    ForOthers,
    /// When it is about what belongs to somebody else, or the body has one of these fields.
    ForOthersOr(&'static [&'static str]),
    /// Where the account has a second factor: the body has the password, and one that
    /// fits is the proof otherwise.
    BesidePassword,
}

impl Asks {
    /// What the OpenAPI document says of it; nothing where no proof is asked for.
    fn described(self) -> Option<Value> {
        let when = match self {
            Self::Never => return None,
            Self::Always => "always".to_owned(),
            Self::For(fields) => format!("with {}", fields.join(", ")),
            Self::ForOthers => "for what belongs to others".to_owned(),
            Self::ForOthersOr(fields) => {
                format!("for what belongs to others, and with {}", fields.join(", "))
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

/// Every operation of this crate that changes something, by its id. What only looks never
/// asks.
pub const OPERATIONS: [(&str, Asks); 25] = [
    ("createInvite", Asks::Always),
    ("deleteInvite", Asks::Always),
    ("rotateSealKey", Asks::Always),
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
];

/// Says in the document of operations that ask for a fresh proof when they do: of those of
/// this crate, and of `more`. For [`ApiRouter::with_path_items`](aide::axum::ApiRouter::with_path_items).
pub fn describe<'a>(
    mut path: TransformPathItem<'a>,
    more: &[(&str, Asks)],
) -> TransformPathItem<'a> {
    let PathItem {
        get,
        put,
        post,
        delete,
        patch,
        ..
    } = path.inner_mut();
    for operation in [get, put, post, delete, patch].into_iter().flatten() {
        let id = operation.operation_id.as_deref().unwrap_or_default();
        let mut all = OPERATIONS.iter().chain(more);
        let asks = all.find_map(|(known, asks)| (*known == id).then_some(*asks));
        if let Some(when) = asks.and_then(Asks::described) {
            aide::generate::in_context(|ctx| {
                refuses(ctx, operation, &[ProblemKind::ProofRequired]);
            });
            operation.extensions.insert(PROOF.to_owned(), when);
        }
    }
    path
}
