//! Why a machine cannot be entered.

use russh::keys::{HashAlg, PublicKey};

use crate::connect::ConnectError;

/// Why a machine cannot be entered; its owner gets to read it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DialError {
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error(
        "its host key is not the expected one: expected {expected}, got {shown}; \
         if the machine was reinstalled on purpose, its key Secret must say so"
    )]
    HostKey { expected: String, shown: String },
    #[error("it does not accept the gateway's key for the user {0}")]
    Refused(String),
    #[error("it does not take the password of {0} any more")]
    Password(String),
    #[error("it asks the user {0} for more than a password, which the gateway cannot pass on")]
    MoreThanPassword(String),
    #[error("it lets in by password only, and the login was by something else")]
    NoPassword,
    #[error("it did not answer in time")]
    Timeout,
    #[error("its sshd broke off: {0}")]
    Ssh(String),
}

impl From<russh::Error> for DialError {
    fn from(error: russh::Error) -> Self {
        Self::Ssh(error.to_string())
    }
}

impl DialError {
    /// All words for metrics.
    pub(crate) const KINDS: [&str; 5] = ["connect", "host_key", "refused", "timeout", "ssh"];

    /// A word for metrics.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Connect(_) => "connect",
            Self::HostKey { .. } => "host_key",
            Self::Refused(_) | Self::Password(_) | Self::MoreThanPassword(_) | Self::NoPassword => {
                "refused"
            }
            Self::Timeout => "timeout",
            Self::Ssh(_) => "ssh",
        }
    }
}

/// What its owner knows a host key by.
pub(crate) fn fingerprint(key: &PublicKey) -> String {
    format!("{} {}", key.algorithm(), key.fingerprint(HashAlg::Sha256))
}
