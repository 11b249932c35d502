//! Why a transport ends.

use super::work::WorkError;
use crate::message::Reason;
use crate::negotiate::{KexInitError, NothingInCommon};
use crate::packet::PacketError;
use crate::version::VersionError;
use crate::wire::Malformed;

/// Why a transport ends.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TransportError {
    /// The peer's first lines.
    #[error(transparent)]
    Version(#[from] VersionError),
    /// A packet.
    #[error(transparent)]
    Packet(#[from] PacketError),
    /// The peer's offer cannot be read.
    #[error(transparent)]
    KexInit(#[from] KexInitError),
    /// The peer's offer is longer than is kept of a stranger.
    #[error("a KEXINIT of {0} bytes: at most {MOST_OFFER} are taken", MOST_OFFER = super::MOST_OFFER)]
    LongOffer(usize),
    /// The sides have no algorithm in common.
    #[error(transparent)]
    NothingInCommon(#[from] NothingInCommon),
    /// The key exchange itself.
    #[error(transparent)]
    Work(#[from] WorkError),
    /// A message that must not come now.
    #[error("message {number} while {wanted} is expected")]
    Forbidden {
        /// Its number.
        number: u8,
        /// What is expected.
        wanted: &'static str,
    },
    /// A message that cannot be read.
    #[error("message {0} cannot be read: it ends early, or goes on behind its end")]
    Malformed(u8),
    /// Something came before the `KEXINIT` of a strict key exchange.
    #[error("{0} packets before the KEXINIT of a strict key exchange")]
    NotStrict(u32),
    /// The server shows another host key than before.
    #[error("the server's host key has changed within the connection")]
    HostKeyChanged,
    /// The peer makes answers necessary and does not finish its key exchange.
    #[error("more than {MOST_HELD} bytes of answers while keys are exchanged", MOST_HELD = super::MOST_HELD)]
    Held,
    /// Keys are exchanged again and again before a login.
    #[error("more than {MOST_EARLY} key exchanges before a login", MOST_EARLY = super::MOST_EARLY)]
    Early,
    /// There is no randomness.
    #[error("the system has no randomness")]
    Random,
    /// The user of the machine did something in a state that does not know it.
    #[error("{0}: no such thing is under way")]
    Misuse(&'static str),
    /// The connection is over.
    #[error("the connection is over")]
    Ended,
}

impl From<aws_lc_rs::error::Unspecified> for TransportError {
    fn from(_: aws_lc_rs::error::Unspecified) -> Self {
        Self::Random
    }
}

impl TransportError {
    pub(super) fn of(number: u8) -> impl Fn(Malformed) -> Self {
        move |Malformed| Self::Malformed(number)
    }

    /// The reason that the peer is told.
    #[must_use]
    pub fn reason(&self) -> Reason {
        match self {
            Self::Version(_) => Reason::PROTOCOL_VERSION_NOT_SUPPORTED,
            Self::Packet(PacketError::Tampered) => Reason::MAC_ERROR,
            Self::NothingInCommon(_) | Self::Work(_) => Reason::KEY_EXCHANGE_FAILED,
            Self::HostKeyChanged => Reason::HOST_KEY_NOT_VERIFIABLE,
            Self::Random | Self::Misuse(_) => Reason::BY_APPLICATION,
            Self::Packet(_)
            | Self::KexInit(_)
            | Self::LongOffer(_)
            | Self::Forbidden { .. }
            | Self::Malformed(_)
            | Self::NotStrict(_)
            | Self::Held
            | Self::Early
            | Self::Ended => Reason::PROTOCOL_ERROR,
        }
    }
}
