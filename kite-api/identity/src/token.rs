//! What a client's tokens look like.
//!
//! | Token | Form |
//! |---|---|
//! | a session of a script | `kite_` and 32 random bytes; the session is named after its hash |
//! | access token of a browser's session | `kite_at_` and [`Halves`] |
//! | refresh token of a browser's session | `kite_rt_` and [`Halves`] |
//! | API token | `kite_pat_` and [`Halves`] |
//! | invite | `kite_invite_` and [`Halves`] |
//!
//! People and secret scanners know one by its beginning when they see it.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use kite_core::names;
use kite_rest::{Problem, ProblemKind};
use rand::TryRng as _;

/// How a session's only token begins.
const SESSION: &str = "kite_";
/// How access tokens begin.
pub(crate) const ACCESS: &str = "kite_at_";
/// How refresh tokens begin.
pub(crate) const REFRESH: &str = "kite_rt_";
/// How API tokens begin.
pub(crate) const PERSONAL: &str = "kite_pat_";
/// How invites begin.
pub(crate) const INVITE: &str = "kite_invite_";
/// Random bytes in a secret: 256 bits.
const SECRET_BYTES: usize = 32;
/// Bytes that lead to the object.
const ID_BYTES: usize = 16;

/// A token in two halves: an id that leads to an object and stays the same, and a
/// secret of 256 bits of which the object has the hash.
#[derive(Clone, Copy)]
pub(crate) struct Halves {
    id: [u8; ID_BYTES],
    secret: [u8; SECRET_BYTES],
}

impl Halves {
    /// Both at random.
    pub(crate) fn random() -> Result<Self, Problem> {
        Self::of(random()?)
    }

    /// A random secret with this id.
    pub(crate) fn of(id: [u8; ID_BYTES]) -> Result<Self, Problem> {
        Ok(Self {
            id,
            secret: random()?,
        })
    }

    /// The same id with another secret.
    pub(crate) fn renewed(self) -> Result<Self, Problem> {
        Self::of(self.id)
    }

    /// The token as the client gets it.
    pub(crate) fn token(self, prefix: &str) -> String {
        let mut bytes = [0; ID_BYTES + SECRET_BYTES];
        let (id, secret) = bytes.split_at_mut(ID_BYTES);
        id.copy_from_slice(&self.id);
        secret.copy_from_slice(&self.secret);
        format!("{prefix}{}", URL_SAFE_NO_PAD.encode(bytes))
    }

    /// Reads a token that begins with `prefix`.
    pub(crate) fn parse(prefix: &str, token: &str) -> Option<Self> {
        let bytes = URL_SAFE_NO_PAD.decode(token.strip_prefix(prefix)?).ok()?;
        let (id, secret) = bytes.split_at_checked(ID_BYTES)?;
        Some(Self {
            id: id.try_into().ok()?,
            secret: secret.try_into().ok()?,
        })
    }

    /// The name of the session that it belongs to, in which the id is not to be seen.
    pub(crate) fn session_name(self) -> String {
        names::session(&URL_SAFE_NO_PAD.encode(self.id))
    }

    /// The name of the API token's object.
    pub(crate) fn token_name(self) -> String {
        names::token(&self.id)
    }

    /// The name of the invite's object.
    pub(crate) fn invite_name(self) -> String {
        names::invite(&self.id)
    }

    /// What is stored of the secret.
    pub(crate) fn fingerprint(self) -> String {
        names::fingerprint(&URL_SAFE_NO_PAD.encode(self.secret))
    }

    /// Whether both lead to the same object.
    pub(crate) fn is_sibling_of(self, other: Self) -> bool {
        self.id == other.id
    }
}

/// The only token of a session.
pub(crate) fn new_session_token() -> Result<String, Problem> {
    random_token(SESSION)
}

/// 256 random bits as text, behind a prefix.
///
/// ```
/// let token = kite_identity::random_token("app_")?;
/// assert!(token.starts_with("app_") && token.len() > 40);
/// # Ok::<(), kite_rest::Problem>(())
/// ```
///
/// # Errors
/// [`ProblemKind::Internal`] if the system gives no random bytes.
pub fn random_token(prefix: &str) -> Result<String, Problem> {
    let bytes: [u8; SECRET_BYTES] = random()?;
    Ok(format!("{prefix}{}", URL_SAFE_NO_PAD.encode(bytes)))
}

/// Whether a text can be the only token of a session. What cannot is not worth a
/// look-up.
pub(crate) fn is_session_token(text: &str) -> bool {
    text.strip_prefix(SESSION)
        .and_then(|rest| URL_SAFE_NO_PAD.decode(rest).ok())
        .is_some_and(|bytes| bytes.len() == SECRET_BYTES)
}

/// Bytes that nobody can guess.
pub(crate) fn random<const N: usize>() -> Result<[u8; N], Problem> {
    let mut bytes = [0; N];
    rand::rngs::SysRng
        .try_fill_bytes(&mut bytes)
        .map_err(|error| {
            tracing::error!(%error, "the system gave no random bytes");
            Problem::new(ProblemKind::Internal, "no random token could be made")
        })?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn tokens_are_256_random_bits() {
        let (a, b) = (new_session_token().unwrap(), new_session_token().unwrap());
        assert_ne!(a, b);
        assert!(is_session_token(&a), "{a}");
        assert_eq!(a.len(), SESSION.len() + 43);
    }

    #[test]
    fn what_cannot_be_a_token_is_not_looked_up() {
        let long = format!("{SESSION}{}", "A".repeat(44));
        for text in ["", "kite_", "kite_abc", "../../pods", &long] {
            assert!(!is_session_token(text), "{text}");
            assert!(Halves::parse(ACCESS, text).is_none(), "{text}");
        }
    }

    #[test]
    fn halves_come_back_from_their_token_and_from_no_other_kind() {
        let halves = Halves::random().unwrap();
        let token = halves.token(ACCESS);
        let read = Halves::parse(ACCESS, &token).unwrap();
        assert!(read.is_sibling_of(halves));
        assert_eq!(read.fingerprint(), halves.fingerprint());
        assert!(Halves::parse(REFRESH, &token).is_none());
        assert!(!is_session_token(&token));
        let renewed = halves.renewed().unwrap();
        assert_eq!(renewed.session_name(), halves.session_name());
        assert_ne!(renewed.fingerprint(), halves.fingerprint());
    }
}
