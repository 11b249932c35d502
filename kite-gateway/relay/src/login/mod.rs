//! Logging in (RFC 4252, RFC 4256), in both roles, without I/O.
//!
//! [`Server`] reads what a client asks for, and writes the answers; the decision is its
//! user's. [`Client`] writes what is asked of a server, and reads the answers. Both are given
//! the messages that a [`Transport`](crate::transport::Transport) hands up until the login has
//! succeeded.

mod client;
mod request;
mod server;

#[cfg(test)]
mod tests;

pub use client::{Answered, Client, Question, Questions};
pub use request::{Offered, Proof, Request, Verified};
pub use server::{Asked, Methods, Prompt, Server};

use crate::message::Reason;
use crate::sign::SignError;
use crate::wire::{Malformed, Message};

/// The service that is the login.
const USERAUTH: &[u8] = b"ssh-userauth";
/// The service that a login is for.
const CONNECTION: &[u8] = b"ssh-connection";

/// Why a login ends with its connection.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LoginError {
    /// A message that cannot be read.
    #[error("message {0} cannot be read: it ends early, or goes on behind its end")]
    Malformed(u8),
    /// A message that must not come now.
    #[error("message {number} while {wanted} is expected")]
    Forbidden {
        /// Its number.
        number: u8,
        /// What is expected.
        wanted: &'static str,
    },
    /// A service that is not here.
    #[error("there is no service {0}")]
    Service(String),
    /// More was said before the login than is read.
    #[error("more than {MOST_WORDS} bytes of banners", MOST_WORDS = client::MOST_WORDS)]
    Words,
    /// The key does not sign.
    #[error(transparent)]
    Sign(#[from] SignError),
    /// The user of the machine did something in a state that does not know it.
    #[error("{0}: no such thing is under way")]
    Misuse(&'static str),
}

impl LoginError {
    fn of(number: u8) -> impl Fn(Malformed) -> Self {
        move |Malformed| Self::Malformed(number)
    }

    /// The reason that the peer is told.
    #[must_use]
    pub fn reason(&self) -> Reason {
        match self {
            Self::Service(_) => Reason::SERVICE_NOT_AVAILABLE,
            Self::Sign(_) | Self::Misuse(_) => Reason::BY_APPLICATION,
            Self::Malformed(_) | Self::Forbidden { .. } | Self::Words => Reason::PROTOCOL_ERROR,
        }
    }
}

/// What a key signs for a login.
fn signed_part(session: &[u8], user: &[u8], method: &str, algorithm: &[u8], key: &[u8]) -> Vec<u8> {
    let message = Message::new(crate::message::USERAUTH_REQUEST);
    let request = message.string(user).string(CONNECTION).string(method);
    let request = request.boolean(true).string(algorithm).string(key).done();
    let mut out = Vec::with_capacity(4 + session.len() + request.len());
    crate::wire::string(&mut out, session);
    out.extend_from_slice(&request);
    out
}
