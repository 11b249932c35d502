//! How long guessing is waited for.

use std::time::Duration;

/// When waiting begins and where it ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limit {
    /// Failures without any wait.
    pub(crate) free: u32,
    /// Longest wait.
    pub(crate) longest: Duration,
}

/// The limits of one throttle.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// For one account from one address.
    pub(crate) pair: Limit,
    /// For one address, whatever the account.
    pub(crate) address: Limit,
    /// For one account, whatever the address.
    pub(crate) account: Limit,
}

impl Limits {
    /// For passwords.
    pub(crate) const SIGN_IN: Self = Self {
        pair: Limit {
            free: 5,
            longest: Duration::from_secs(15 * 60),
        },
        address: Limit {
            free: 30,
            longest: Duration::from_secs(15 * 60),
        },
        account: Limit {
            free: 20,
            longest: Duration::from_secs(10),
        },
    };
    /// For codes of a second factor. Only who knows the password gets to guess one,
    /// and a code has six digits: so the account as such waits for long, too.
    pub(crate) const SECOND_FACTOR: Self = Self {
        account: Limit {
            free: 10,
            longest: Duration::from_secs(15 * 60),
        },
        ..Self::SIGN_IN
    };
    /// For sign-ins at providers: each one that is begun counts until it ends well.
    /// The provider guards its passwords; what is spared are requests to it. Its
    /// name stands for the account, which belongs to everybody.
    pub(crate) const PROVIDER: Self = Self {
        pair: Limit {
            free: 120,
            longest: Duration::from_secs(60),
        },
        address: Limit {
            free: 120,
            longest: Duration::from_secs(60),
        },
        account: Limit {
            free: u32::MAX,
            longest: Duration::ZERO,
        },
    };
    /// For new accounts: every one counts, not only failures.
    pub(crate) const SIGN_UP: Self = Self {
        pair: Limit {
            free: 10,
            longest: Duration::from_secs(60),
        },
        address: Limit {
            free: 10,
            longest: Duration::from_secs(15 * 60),
        },
        account: Limit {
            free: 10,
            longest: Duration::from_secs(10),
        },
    };
}
