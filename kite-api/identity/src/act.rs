//! [`Act`]: what an application lets people do who are signed in, and what it asks of them.

use std::fmt::Debug;

use kite_core::crd::{AccessLevel, TokenScope};

/// Something that the API can do for somebody who is signed in. An application has an enum
/// of them; those that are about accounts are [`AccountAction`](crate::AccountAction)s.
///
/// Each method is one pure table, which handlers ask by
/// [`Principal::require`](crate::Principal::require).
pub trait Act: Copy + Debug {
    /// What it is, after "you may not".
    fn describe(self) -> &'static str;

    /// Whether an account of level `who` may do it to what is `whose`.
    fn is_allowed(self, who: AccessLevel, whose: Whose) -> bool;

    /// The least scope that lets an API token do it, if its user may; none where no token
    /// may.
    fn scope(self, access: Access) -> Option<TokenScope>;

    /// Whether who changes something by it must have proved lately who they are: what
    /// outlives a session that was taken from its owner. What is done below `admin/` asks
    /// in any case.
    fn asks_for_proof(self, whose: Whose) -> bool;

    /// Whether somebody does it on the way to a second factor that the account needs and
    /// does not have yet.
    fn leads_to_factor(self, _whose: Whose) -> bool {
        false
    }

    /// Whether a token with these scopes may do it, if its user may.
    fn is_within(self, scopes: &[TokenScope], access: Access) -> bool {
        self.scope(access)
            .is_some_and(|needed| scopes.iter().any(|scope| scope.includes(needed)))
    }
}

/// Whose thing it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Whose {
    /// The caller's own.
    Own,
    /// Of another account, of this level.
    Other(AccessLevel),
}

impl Whose {
    /// Every value.
    pub const ALL: [Self; 5] = [
        Self::Own,
        Self::Other(AccessLevel::ReadOnly),
        Self::Other(AccessLevel::User),
        Self::Other(AccessLevel::Manager),
        Self::Other(AccessLevel::Admin),
    ];
}

/// What a request is about to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// Look.
    Read,
    /// Change something.
    Write,
}

impl Access {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Read, Self::Write];

    /// What a request with this method does (RFC 9110 §9.2.1).
    pub fn of(method: &http::Method) -> Self {
        if method.is_safe() {
            Self::Read
        } else {
            Self::Write
        }
    }
}

/// What a request is about to do beside its [`Act`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
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

    /// Whether a session must have been proved lately for this.
    pub fn needs_proof(self, action: impl Act, whose: Whose) -> bool {
        self.access == Access::Write && (self.is_administration || action.asks_for_proof(whose))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::AccountAction;

    #[test]
    fn whoever_only_looks_is_asked_for_nothing_and_administrators_always_are() {
        for action in AccountAction::ALL {
            for whose in Whose::ALL {
                for is_administration in [false, true] {
                    let deed = |access| Deed {
                        access,
                        is_administration,
                    };
                    assert!(!deed(Access::Read).needs_proof(action, whose), "{action:?}");
                    let asks = deed(Access::Write).needs_proof(action, whose);
                    assert!(asks || !is_administration, "{action:?}");
                }
            }
        }
    }

    #[test]
    fn routes_of_administrators_are_known_by_their_path() {
        let is_administration = |path| Deed::of(&http::Method::POST, path).is_administration;
        assert!(is_administration("/api/v1/admin/users/{name}"));
        assert!(is_administration("/prefix/api/v1/admin/users"));
        assert!(!is_administration("/api/v1/books/{name}"));
        assert!(!is_administration("/api/v1/me/admin"));
    }
}
