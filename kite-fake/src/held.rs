//! [`Held`]: which rules of a stored value hold.

/// What is known of the CEL rules of a stored value, so that they need not be
/// asked again about parts that do not change.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Held {
    /// Nothing: it was stored under another schema, or a rule failed.
    #[default]
    Unknown,
    /// The rules that look at the value alone hold.
    Alone,
    /// So do those that compare it with the value before, where that is the same.
    Repeated,
}
