//! Numbers of messages, and the messages that both sides may send at any time.

use crate::wire::{Fields, Malformed, Message};

/// Ends the connection.
pub const DISCONNECT: u8 = 1;
/// Means nothing.
pub const IGNORE: u8 = 2;
/// Answers a message that its receiver does not know.
pub const UNIMPLEMENTED: u8 = 3;
/// Is for people who look for an error.
pub const DEBUG: u8 = 4;
/// Asks for the login.
pub const SERVICE_REQUEST: u8 = 5;
/// Grants it.
pub const SERVICE_ACCEPT: u8 = 6;
/// Tells what its sender can do (RFC 8308).
pub const EXT_INFO: u8 = 7;
/// Begins a key exchange.
pub const KEXINIT: u8 = 20;
/// Ends it: what follows in that direction is under the new keys.
pub const NEWKEYS: u8 = 21;
/// The client's value.
pub const KEX_INIT: u8 = 30;
/// The server's, its host key and its signature.
pub const KEX_REPLY: u8 = 31;
/// A try to log in.
pub const USERAUTH_REQUEST: u8 = 50;
/// It failed, or does not suffice.
pub const USERAUTH_FAILURE: u8 = 51;
/// It succeeded.
pub const USERAUTH_SUCCESS: u8 = 52;
/// Words for the user.
pub const USERAUTH_BANNER: u8 = 53;
/// Depends on the method: the key may be tried, a password has to change, questions.
pub const USERAUTH_60: u8 = 60;
/// Answers to questions.
pub const USERAUTH_61: u8 = 61;
/// The first message of the connection protocol.
pub const GLOBAL_REQUEST: u8 = 80;
/// A global request succeeded.
pub const REQUEST_SUCCESS: u8 = 81;
/// It failed.
pub const REQUEST_FAILURE: u8 = 82;
/// Asks for a channel.
pub const CHANNEL_OPEN: u8 = 90;
/// Grants it.
pub const CHANNEL_OPEN_CONFIRMATION: u8 = 91;
/// Refuses it.
pub const CHANNEL_OPEN_FAILURE: u8 = 92;
/// Room for more data.
pub const CHANNEL_WINDOW_ADJUST: u8 = 93;
/// Data.
pub const CHANNEL_DATA: u8 = 94;
/// Data of another kind, as standard error.
pub const CHANNEL_EXTENDED_DATA: u8 = 95;
/// No more data come.
pub const CHANNEL_EOF: u8 = 96;
/// The channel is over.
pub const CHANNEL_CLOSE: u8 = 97;
/// Asks something of a channel.
pub const CHANNEL_REQUEST: u8 = 98;
/// It succeeded.
pub const CHANNEL_SUCCESS: u8 = 99;
/// It failed.
pub const CHANNEL_FAILURE: u8 = 100;
/// Asks for a `PONG` (OpenSSH's `ping@openssh.com`).
pub const PING: u8 = 192;
/// Answers a `PING` with the same bytes.
pub const PONG: u8 = 193;

/// Why a connection ends (RFC 4253 §11.1). A peer's may be any number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Reason(pub u32);

impl Reason {
    /// A message that the protocol does not allow.
    pub const PROTOCOL_ERROR: Self = Self(2);
    /// The sides have no algorithm in common, or the exchange failed.
    pub const KEY_EXCHANGE_FAILED: Self = Self(3);
    /// A tag does not fit its packet.
    pub const MAC_ERROR: Self = Self(5);
    /// There is no such service.
    pub const SERVICE_NOT_AVAILABLE: Self = Self(7);
    /// Another version of SSH, or another protocol.
    pub const PROTOCOL_VERSION_NOT_SUPPORTED: Self = Self(8);
    /// The host key is not the expected one.
    pub const HOST_KEY_NOT_VERIFIABLE: Self = Self(9);
    /// The line broke.
    pub const CONNECTION_LOST: Self = Self(10);
    /// The application ends it.
    pub const BY_APPLICATION: Self = Self(11);
    /// There are too many.
    pub const TOO_MANY_CONNECTIONS: Self = Self(12);
    /// No way to log in is left.
    pub const NO_MORE_AUTH_METHODS: Self = Self(14);
}

/// The message `DISCONNECT`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disconnect {
    /// Why.
    pub reason: Reason,
    /// Words for people; a peer's may be any bytes, of which nothing is kept that controls a
    /// terminal.
    pub text: String,
}

/// The longest text of a peer's that is kept, in bytes.
const LONGEST_TEXT: usize = 512;

impl Disconnect {
    /// With words.
    #[must_use]
    pub fn new(reason: Reason, text: impl Into<String>) -> Self {
        let text = text.into();
        Self { reason, text }
    }

    /// The payload.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let message = Message::new(DISCONNECT).number(self.reason.0);
        message.string(&self.text).string("en").done()
    }

    /// Reads a payload. Peers leave out the language, and what follows ends the connection
    /// all the same.
    ///
    /// # Errors
    /// It has no reason, or no text.
    pub fn decode(payload: &[u8]) -> Result<Self, Malformed> {
        let mut fields = Fields(payload);
        let (_, reason, text) = (fields.byte()?, fields.number()?, fields.string()?);
        Ok(Self::new(Reason(reason), printable(text)))
    }
}

/// What a peer wrote for people, without what controls a terminal.
pub(crate) fn printable(text: &[u8]) -> String {
    let text = &text[..text.len().min(LONGEST_TEXT)];
    let text = String::from_utf8_lossy(text);
    let clean = text.chars().filter(|it| !it.is_control());
    clean.collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_disconnect_comes_back() {
        let told = Disconnect::new(Reason::BY_APPLICATION, "the VM is gone");
        assert_eq!(Disconnect::decode(&told.encode()).unwrap(), told);
        let payload = told.encode();
        assert_eq!(Disconnect::decode(&payload[..9 + 14]).unwrap(), told);
        assert!(Disconnect::decode(&payload[..9 + 13]).is_err());
    }

    #[test]
    fn no_words_of_a_peer_control_a_terminal() {
        let text = b"\x1b]0;title\x07 caf\xe9\r\n";
        assert_eq!(printable(text), "]0;title caf\u{fffd}");
        assert_eq!(printable(&[b'x'; 10_000]).len(), 512);
    }
}
