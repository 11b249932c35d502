//! Which algorithms two sides use (RFC 4253 §7.1).
//!
//! [`KexInit`] is the message; [`negotiate`] is the rule, the same for both roles: of each
//! list the first name of the client's that the server's has, too.

use ssh_encoding::{Decode as _, Encode as _, Reader as _};

use crate::message::KEXINIT;
use crate::packet::Suite;

/// By which a client says that it does strict key exchange.
pub const STRICT_CLIENT: &str = "kex-strict-c-v00@openssh.com";
/// By which a server does.
pub const STRICT_SERVER: &str = "kex-strict-s-v00@openssh.com";
/// By which a client asks for `EXT_INFO` (RFC 8308).
pub const EXT_INFO_CLIENT: &str = "ext-info-c";
/// Names among the methods that tell something, and are none.
const SIGNS: [&str; 4] = [STRICT_CLIENT, STRICT_SERVER, EXT_INFO_CLIENT, "ext-info-s"];

/// Bytes of a peer's list that are told.
const LONGEST_TOLD: usize = 512;

/// The longest name (RFC 4251 §6).
const LONGEST_NAME: usize = 64;

/// Names, the preferred one first. They are bytes: a peer may send whatever it likes, and
/// what is no name that we know is not chosen.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Names(Vec<u8>);

impl Names {
    /// Of known names.
    ///
    /// # Panics
    /// A name is empty, longer than 64 bytes or no printable ASCII without commas: an error
    /// of the program.
    #[must_use]
    pub fn of(names: &[&str]) -> Self {
        for name in names {
            let fits = name
                .bytes()
                .all(|byte| byte.is_ascii_graphic() && byte != b',');
            assert!(
                fits && !name.is_empty() && name.len() <= LONGEST_NAME,
                "no name of an algorithm: {name:?}"
            );
        }
        Self(names.join(",").into_bytes())
    }

    /// Each name.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let all = self.0.split(|byte| *byte == b',');
        all.filter(|name| !name.is_empty())
    }

    /// Whether a name is among them.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.iter().any(|it| it == name.as_bytes())
    }
}

impl std::fmt::Debug for Names {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Names({self})")
    }
}

impl std::fmt::Display for Names {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let cut = &self.0[..self.0.len().min(LONGEST_TOLD)];
        let more = if cut.len() < self.0.len() { "…" } else { "" };
        write!(f, "{}{more}", cut.escape_ascii())
    }
}

/// What a side offers in one direction.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Offer {
    /// Ciphers.
    pub ciphers: Names,
    /// MACs, for ciphers without a tag of their own.
    pub macs: Names,
    /// Compression.
    pub compression: Names,
    /// Languages, which nobody uses.
    pub languages: Names,
}

/// The message `KEXINIT`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KexInit {
    /// Random bytes, so that no exchange is like another.
    pub cookie: [u8; 16],
    /// Methods of key exchange, and signs of what a side can do.
    pub kex: Names,
    /// Algorithms of host keys.
    pub host_keys: Names,
    /// From the client to the server.
    pub up: Offer,
    /// From the server to the client.
    pub down: Offer,
    /// Whether the first message of the exchange that this side guesses comes next.
    pub guesses: bool,
}

/// Why a `KEXINIT` cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KexInitError {
    /// Another message.
    #[error("message {0} where KEXINIT (20) is expected")]
    Other(u8),
    /// It ends in the middle of something.
    #[error("a KEXINIT that ends early")]
    Short,
    /// Something follows its end.
    #[error("{0} bytes behind the end of a KEXINIT")]
    Long(usize),
}

impl KexInit {
    /// Reads a payload.
    ///
    /// # Errors
    /// It is no `KEXINIT`, or not a whole one and nothing else.
    pub fn decode(payload: &[u8]) -> Result<Self, KexInitError> {
        let reader = &mut &*payload;
        let number = u8::decode(reader).map_err(|_| KexInitError::Short)?;
        if number != KEXINIT {
            return Err(KexInitError::Other(number));
        }
        let decoded = Self::decode_rest(reader).map_err(|_| KexInitError::Short)?;
        match reader.remaining_len() {
            0 => Ok(decoded),
            more => Err(KexInitError::Long(more)),
        }
    }

    fn decode_rest(reader: &mut &[u8]) -> Result<Self, ssh_encoding::Error> {
        let mut cookie = [0; 16];
        reader.read(&mut cookie)?;
        let mut names = || Vec::decode(reader).map(Names);
        let (kex, host_keys) = (names()?, names()?);
        let (mut up, mut down) = (Offer::default(), Offer::default());
        (up.ciphers, down.ciphers) = (names()?, names()?);
        (up.macs, down.macs) = (names()?, names()?);
        (up.compression, down.compression) = (names()?, names()?);
        (up.languages, down.languages) = (names()?, names()?);
        let guesses = u8::decode(reader)? != 0;
        // Reserved for a later edition of the protocol: whatever it is.
        u32::decode(reader)?;
        Ok(Self {
            cookie,
            kex,
            host_keys,
            up,
            down,
            guesses,
        })
    }

    /// The payload, which both sides put into the hash of the exchange.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![KEXINIT];
        out.extend_from_slice(&self.cookie);
        let (up, down) = (&self.up, &self.down);
        for names in [
            &self.kex,
            &self.host_keys,
            &up.ciphers,
            &down.ciphers,
            &up.macs,
            &down.macs,
            &up.compression,
            &down.compression,
            &up.languages,
            &down.languages,
        ] {
            // A vector takes whatever is written.
            let _ = names.0.encode(&mut out);
        }
        out.push(u8::from(self.guesses));
        out.extend_from_slice(&[0; 4]);
        out
    }
}

impl Agreed<'_> {
    /// The suite of these names; `None` if this crate has none, which it has not offered.
    #[must_use]
    pub fn suite(&self) -> Option<Suite> {
        Suite::named(self.cipher, self.mac)
    }
}

/// What two sides agree on in one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Agreed<'a> {
    /// The cipher.
    pub cipher: &'a [u8],
    /// The MAC; `None` where the cipher has a tag of its own.
    pub mac: Option<&'a [u8]>,
    /// The compression.
    pub compression: &'a [u8],
}

/// What two sides agree on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Agreement<'a> {
    /// The method of key exchange.
    pub kex: &'a [u8],
    /// The algorithm of the host key.
    pub host_key: &'a [u8],
    /// From the client to the server.
    pub up: Agreed<'a>,
    /// From the server to the client.
    pub down: Agreed<'a>,
    /// Whether both do strict key exchange; it counts in the first exchange of a connection.
    pub strict: bool,
    /// Whether the server is to send `EXT_INFO`.
    pub ext_info: bool,
    /// Whether a guess is right, if a side announces one: both prefer the same method and the
    /// same algorithm of host keys. The message behind a wrong guess is dropped.
    pub guess_is_right: bool,
}

/// A list of which the sides have no name in common.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no {what} in common: the client has {client}, the server {server}")]
pub struct NothingInCommon {
    /// What the list is of.
    pub what: &'static str,
    /// The client's.
    pub client: Names,
    /// The server's.
    pub server: Names,
}

/// What a client and a server agree on.
///
/// # Errors
/// They have no name of a list in common.
pub fn negotiate<'a>(
    client: &'a KexInit,
    server: &KexInit,
) -> Result<Agreement<'a>, NothingInCommon> {
    let first = |names: &Names| names.iter().next().map(<[u8]>::to_vec);
    let alike = |ours: &Names, theirs: &Names| first(ours) == first(theirs);
    Ok(Agreement {
        // Signs are never chosen, whatever a peer says that copies the other side's.
        kex: common("key exchange method", &client.kex, &server.kex, |name| {
            !SIGNS.iter().any(|sign| sign.as_bytes() == name)
        })?,
        host_key: common(
            "host key algorithm",
            &client.host_keys,
            &server.host_keys,
            |_| true,
        )?,
        up: direction(&client.up, &server.up)?,
        down: direction(&client.down, &server.down)?,
        strict: client.kex.has(STRICT_CLIENT) && server.kex.has(STRICT_SERVER),
        ext_info: client.kex.has(EXT_INFO_CLIENT),
        guess_is_right: alike(&client.kex, &server.kex)
            && alike(&client.host_keys, &server.host_keys),
    })
}

/// The first of the client's that the server has, too.
fn common<'a>(
    what: &'static str,
    client: &'a Names,
    server: &Names,
    may_be: impl Fn(&[u8]) -> bool,
) -> Result<&'a [u8], NothingInCommon> {
    let mut names = client.iter().filter(|name| may_be(name));
    let found = names.find(|name| server.iter().any(|it| it == *name));
    found.ok_or_else(|| NothingInCommon {
        what,
        client: client.clone(),
        server: server.clone(),
    })
}

fn direction<'a>(client: &'a Offer, server: &Offer) -> Result<Agreed<'a>, NothingInCommon> {
    let cipher = common("cipher", &client.ciphers, &server.ciphers, |_| true)?;
    let mac = if Suite::named(cipher, None).is_some() {
        None
    } else {
        Some(common("MAC", &client.macs, &server.macs, |_| true)?)
    };
    Ok(Agreed {
        cipher,
        mac,
        compression: common(
            "compression",
            &client.compression,
            &server.compression,
            |_| true,
        )?,
    })
}

#[cfg(test)]
mod tests;
