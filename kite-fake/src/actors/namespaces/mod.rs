//! The life of namespaces: what every new one gets, and how one ends.

mod conditions;
mod defaults;
mod lifecycle;

pub use defaults::NamespaceDefaults;
pub use lifecycle::NamespaceLifecycle;
