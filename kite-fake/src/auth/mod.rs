//! Who asks, and whether they may: tokens, impersonation, RBAC.

mod bootstrap;
mod grants;
mod identity;
mod rbac;
mod rights;
#[cfg(feature = "oidc")]
mod signer;
mod tokens;

pub use bootstrap::objects as bootstrap_objects;
pub use grants::{missing_rights, rule_text};
pub use identity::Identity;
pub use rbac::{Attributes, Decision, authorize, rules_for};
pub use rights::Rights;
#[cfg(feature = "oidc")]
pub(crate) use signer::Signer;
pub use tokens::Tokens;
pub(crate) use tokens::{ISSUER, Token};
