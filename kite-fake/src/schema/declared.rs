//! What is asked of an expression of a policy or a webhook, with the language or without.

/// What an expression can refer to, beside the object, the request and the namespace.
#[derive(Debug, Clone, Copy)]
#[cfg_attr(
    not(feature = "cel"),
    allow(dead_code, reason = "without the language nobody reads it")
)]
pub(crate) struct Declared<'a> {
    /// The parameters of a policy.
    pub(crate) params: bool,
    /// The rights of who asks.
    pub(crate) authorizer: bool,
    /// The names of a policy's own variables that are known here; `None` where there are
    /// no variables at all.
    pub(crate) variables: Option<&'a [&'a str]>,
}

/// What an expression has to come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wanted {
    Bool,
    Text,
    TextOrNull,
    Anything,
}
