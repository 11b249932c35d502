//! [`Kind`]: what there are copies of.

/// The kinds of objects of which there are copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Users,
    Vms,
    Images,
    Offers,
    Platforms,
    Sessions,
    Tokens,
    Connections,
    Invites,
}

impl Kind {
    /// Each of them.
    pub(crate) const ALL: [Self; 9] = [
        Self::Users,
        Self::Vms,
        Self::Images,
        Self::Offers,
        Self::Platforms,
        Self::Sessions,
        Self::Tokens,
        Self::Connections,
        Self::Invites,
    ];

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Users => "users",
            Self::Vms => "vms",
            Self::Images => "images",
            Self::Offers => "offers",
            Self::Platforms => "platforms",
            Self::Sessions => "sessions",
            Self::Tokens => "tokens",
            Self::Connections => "connections",
            Self::Invites => "invites",
        }
    }
}
