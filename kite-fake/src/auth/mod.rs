//! Who asks, and whether they may: tokens, impersonation, RBAC.

mod bootstrap;
mod grants;
mod identity;
mod rbac;
mod rights;

pub use bootstrap::objects as bootstrap_objects;
pub use grants::{missing_rights, rule_text};
pub use identity::{Identity, Tokens};
pub use rbac::{Attributes, Decision, authorize, rules_for};
pub use rights::Rights;
