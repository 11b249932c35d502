//! The life of namespaces: what every new one gets, and how one ends.

mod account_tokens;
mod conditions;
mod defaults;
mod lifecycle;

pub use account_tokens::AccountTokens;
use defaults::AUTHORITY;
pub use defaults::NamespaceDefaults;
pub use lifecycle::NamespaceLifecycle;
