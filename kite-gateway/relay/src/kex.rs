//! Key exchange: two public values to one secret, and the hash that the server signs.
//!
//! All methods go the same way (RFC 5656 §4): the client sends a value, the server answers
//! with one of its own and its host key, and signs the [`exchange_hash`]. No method of
//! finite fields is here: a stranger makes a server work for those.

use aws_lc_rs::agreement::{
    self, ECDH_P256, ECDH_P384, EphemeralPrivateKey, ParsedPublicKey, UnparsedPublicKey, X25519,
};
use aws_lc_rs::digest::{Context, SHA256};
use aws_lc_rs::error::Unspecified;
use aws_lc_rs::kem::{AlgorithmId, Ciphertext, DecapsulationKey, EncapsulationKey, ML_KEM_768};
use aws_lc_rs::rand::SystemRandom;
use zeroize::Zeroizing;

use crate::keys::Hash;

/// A method of key exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Method {
    /// `mlkem768x25519-sha256`, which a quantum computer does not undo.
    MlKem768X25519,
    /// `curve25519-sha256` (RFC 8731), also by its former name with `@libssh.org`.
    Curve25519,
    /// `ecdh-sha2-nistp256`.
    NistP256,
    /// `ecdh-sha2-nistp384`.
    NistP384,
}

/// Bytes of a value of ML-KEM-768: the client's key and the server's ciphertext.
const ML_KEM_KEY: usize = 1184;
const ML_KEM_CIPHERTEXT: usize = 1088;

/// The peer's value is none of the method.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the peer's value is none of {}", method.names()[0])]
pub struct BadValue {
    /// The method.
    pub method: Method,
}

/// A shared secret as hashes take it; it is wiped when it goes.
pub struct Secret(Zeroizing<Vec<u8>>);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(..)")
    }
}

impl Secret {
    /// An `mpint`, or a `string` where the method is a hybrid one, with its length.
    #[must_use]
    pub fn encoded(&self) -> &[u8] {
        &self.0
    }

    /// Bytes that stand for a number, the highest first.
    fn number(bytes: &[u8]) -> Self {
        let first = bytes.iter().position(|byte| *byte != 0);
        let digits = &bytes[first.unwrap_or(bytes.len())..];
        // The highest bit is the sign.
        let sign = digits.first().is_some_and(|byte| byte & 0x80 != 0);
        Self::prefixed(if sign { &[0] } else { &[] }, digits)
    }

    fn string(bytes: &[u8]) -> Self {
        Self::prefixed(&[], bytes)
    }

    /// Both parts behind their length.
    fn prefixed(first: &[u8], rest: &[u8]) -> Self {
        let length = first.len() + rest.len();
        // As long as it becomes, so that it does not grow and leave a copy behind.
        let mut made = Zeroizing::new(Vec::with_capacity(4 + length));
        made.extend_from_slice(&u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes());
        made.extend_from_slice(first);
        made.extend_from_slice(rest);
        Self(made)
    }
}

impl Method {
    /// All, the preferred one first.
    pub const ALL: [Self; 4] = [
        Self::MlKem768X25519,
        Self::Curve25519,
        Self::NistP256,
        Self::NistP384,
    ];

    /// Its names in a negotiation.
    #[must_use]
    pub const fn names(self) -> &'static [&'static str] {
        match self {
            Self::MlKem768X25519 => &["mlkem768x25519-sha256"],
            Self::Curve25519 => &["curve25519-sha256", "curve25519-sha256@libssh.org"],
            Self::NistP256 => &["ecdh-sha2-nistp256"],
            Self::NistP384 => &["ecdh-sha2-nistp384"],
        }
    }

    /// Whether a quantum computer does not undo it.
    #[must_use]
    pub const fn is_post_quantum(self) -> bool {
        match self {
            Self::MlKem768X25519 => true,
            Self::Curve25519 | Self::NistP256 | Self::NistP384 => false,
        }
    }

    /// The one of a name.
    #[must_use]
    pub fn named(name: &[u8]) -> Option<Self> {
        let has = |it: &Self| it.names().iter().any(|known| known.as_bytes() == name);
        Self::ALL.into_iter().find(has)
    }

    /// Its hash.
    #[must_use]
    pub const fn hash(self) -> Hash {
        match self {
            Self::MlKem768X25519 | Self::Curve25519 | Self::NistP256 => Hash::Sha256,
            Self::NistP384 => Hash::Sha384,
        }
    }

    const fn curve(self) -> &'static agreement::Algorithm {
        match self {
            Self::MlKem768X25519 | Self::Curve25519 => &X25519,
            Self::NistP256 => &ECDH_P256,
            Self::NistP384 => &ECDH_P384,
        }
    }

    /// A client's value, and what it keeps to finish with.
    ///
    /// # Errors
    /// There is no randomness.
    pub fn begin(self) -> Result<(Vec<u8>, Begun), Unspecified> {
        let (curve, public) = pair(self.curve())?;
        let (kem, value) = match self {
            Self::MlKem768X25519 => {
                let kem = DecapsulationKey::generate(&ML_KEM_768)?;
                let key = kem.encapsulation_key()?.key_bytes()?;
                let value = [key.as_ref(), &public].concat();
                (Some(kem), value)
            }
            Self::Curve25519 | Self::NistP256 | Self::NistP384 => (None, public),
        };
        let begun = Begun {
            method: self,
            curve,
            kem,
        };
        Ok((value, begun))
    }

    /// A server's value in answer to a client's, and the secret.
    ///
    /// # Errors
    /// The client's value is none of the method.
    pub fn answer(self, client: &[u8]) -> Result<(Vec<u8>, Secret), BadValue> {
        self.answered(client)
            .map_err(|Unspecified| BadValue { method: self })
    }

    fn answered(self, client: &[u8]) -> Result<(Vec<u8>, Secret), Unspecified> {
        let (curve, public) = pair(self.curve())?;
        match self {
            Self::MlKem768X25519 => {
                let (key, theirs) = client.split_at_checked(ML_KEM_KEY).ok_or(Unspecified)?;
                let key = EncapsulationKey::<AlgorithmId>::new(&ML_KEM_768, key)
                    .map_err(|_| Unspecified)?;
                let (ciphertext, shared) = key.encapsulate()?;
                let secret = hybrid(shared.as_ref(), self, curve, theirs)?;
                Ok(([ciphertext.as_ref(), &public].concat(), secret))
            }
            Self::Curve25519 | Self::NistP256 | Self::NistP384 => {
                Ok((public, agree(self, curve, client, Secret::number)?))
            }
        }
    }
}

/// A client's half of an exchange. It is used once.
pub struct Begun {
    method: Method,
    curve: EphemeralPrivateKey,
    kem: Option<DecapsulationKey<AlgorithmId>>,
}

impl std::fmt::Debug for Begun {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut out = f.debug_struct("Begun");
        out.field("method", &self.method).finish_non_exhaustive()
    }
}

impl Begun {
    /// The secret, with the server's value.
    ///
    /// # Errors
    /// The server's value is none of the method.
    pub fn finish(self, server: &[u8]) -> Result<Secret, BadValue> {
        let method = self.method;
        self.finished(server)
            .map_err(|Unspecified| BadValue { method })
    }

    fn finished(self, server: &[u8]) -> Result<Secret, Unspecified> {
        let Some(kem) = self.kem else {
            return agree(self.method, self.curve, server, Secret::number);
        };
        let split = server.split_at_checked(ML_KEM_CIPHERTEXT);
        let (ciphertext, theirs) = split.ok_or(Unspecified)?;
        let shared = kem.decapsulate(Ciphertext::from(ciphertext))?;
        hybrid(shared.as_ref(), self.method, self.curve, theirs)
    }
}

fn pair(
    algorithm: &'static agreement::Algorithm,
) -> Result<(EphemeralPrivateKey, Vec<u8>), Unspecified> {
    let private = EphemeralPrivateKey::generate(algorithm, &SystemRandom::new())?;
    let public = private.compute_public_key()?.as_ref().to_vec();
    Ok((private, public))
}

/// A curve's secret. The library refuses points that are not on the curve, and those of a
/// small order, by which a peer would choose the secret.
fn agree(
    method: Method,
    private: EphemeralPrivateKey,
    theirs: &[u8],
    take: impl FnOnce(&[u8]) -> Secret,
) -> Result<Secret, Unspecified> {
    // Public keys come in other forms as well, which are none of the protocol's.
    let bytes = match method {
        Method::MlKem768X25519 | Method::Curve25519 => 32,
        Method::NistP256 => 65,
        Method::NistP384 => 97,
    };
    if theirs.len() != bytes {
        return Err(Unspecified);
    }
    let theirs: ParsedPublicKey = UnparsedPublicKey::new(method.curve(), theirs)
        .try_into()
        .map_err(|_| Unspecified)?;
    agreement::agree_ephemeral(private, theirs, Unspecified, |shared| Ok(take(shared)))
}

/// The hash of both secrets (draft-ietf-sshm-mlkem-hybrid-kex §2.4).
fn hybrid(
    first: &[u8],
    method: Method,
    private: EphemeralPrivateKey,
    theirs: &[u8],
) -> Result<Secret, Unspecified> {
    agree(method, private, theirs, |second| {
        let mut context = Context::new(&SHA256);
        context.update(first);
        context.update(second);
        Secret::string(context.finish().as_ref())
    })
}

/// What the hash of an exchange is of.
#[derive(Debug, Clone, Copy)]
pub struct Exchange<'a> {
    /// The client's version string, without the end of its line.
    pub client_version: &'a [u8],
    /// The server's.
    pub server_version: &'a [u8],
    /// The payload of the client's `KEXINIT`.
    pub client_init: &'a [u8],
    /// Of the server's.
    pub server_init: &'a [u8],
    /// The host key, as its blob.
    pub host_key: &'a [u8],
    /// The client's value.
    pub client_value: &'a [u8],
    /// The server's.
    pub server_value: &'a [u8],
}

/// The hash of an exchange, which the server signs; that of the first is the session's name.
#[must_use]
pub fn exchange_hash(hash: Hash, exchange: &Exchange<'_>, secret: &Secret) -> Vec<u8> {
    let mut context = Context::new(hash.algorithm());
    for part in [
        exchange.client_version,
        exchange.server_version,
        exchange.client_init,
        exchange.server_init,
        exchange.host_key,
        exchange.client_value,
        exchange.server_value,
    ] {
        let length = u32::try_from(part.len()).unwrap_or(u32::MAX);
        context.update(&length.to_be_bytes());
        context.update(part);
    }
    context.update(secret.encoded());
    context.finish().as_ref().to_vec()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn both_sides_come_to_one_secret() {
        for method in Method::ALL {
            let (client, begun) = method.begin().unwrap();
            let (server, ours) = method.answer(&client).unwrap();
            let theirs = begun.finish(&server).unwrap();
            assert_eq!(ours.encoded(), theirs.encoded(), "{method:?}");
            let (_, other) = method.answer(&client).unwrap();
            assert_ne!(ours.encoded(), other.encoded(), "{method:?}");
        }
    }

    #[test]
    fn values_of_other_lengths_are_refused() {
        for method in Method::ALL {
            let (value, _) = method.begin().unwrap();
            let (answer, _) = method.answer(&value).unwrap();
            for wrong in [&value[1..], &[&value[..], &[0]].concat(), &[]] {
                let refused = method.answer(wrong).unwrap_err();
                assert_eq!(refused, BadValue { method });
            }
            for wrong in [&answer[1..], &[&answer[..], &[0]].concat(), &[]] {
                let (_, begun) = method.begin().unwrap();
                assert!(begun.finish(wrong).is_err(), "{method:?}");
            }
        }
    }

    #[test]
    fn points_by_which_a_peer_chooses_the_secret_are_refused() {
        // 0, 1 and, of the prime p, p - 1, p and p + 1.
        for (first, others, last) in [
            (0, 0, 0),
            (1, 0, 0),
            (0xec, 0xff, 0x7f),
            (0xed, 0xff, 0x7f),
            (0xee, 0xff, 0x7f),
        ] {
            let mut point = [others; 32];
            (point[0], point[31]) = (first, last);
            assert!(Method::Curve25519.answer(&point).is_err(), "{first:x}");
            let (value, _) = Method::MlKem768X25519.begin().unwrap();
            let hybrid = [&value[..ML_KEM_KEY], &point].concat();
            assert!(Method::MlKem768X25519.answer(&hybrid).is_err(), "{first:x}");
        }
        for (method, bytes) in [(Method::NistP256, 65), (Method::NistP384, 97)] {
            let mut off_the_curve = vec![1; bytes];
            off_the_curve[0] = 4;
            assert!(method.answer(&off_the_curve).is_err());
        }
    }

    #[test]
    fn numbers_have_no_needless_zeros_and_a_sign() {
        let encoded = |bytes: &[u8]| Secret::number(bytes).encoded().to_vec();
        assert_eq!(encoded(&[0, 0, 0x7f, 1]), [0, 0, 0, 2, 0x7f, 1]);
        assert_eq!(encoded(&[0, 0x80]), [0, 0, 0, 2, 0, 0x80]);
        assert_eq!(encoded(&[0, 0]), [0, 0, 0, 0]);
    }

    #[test]
    fn names_lead_back() {
        for method in Method::ALL {
            for name in method.names() {
                assert_eq!(Method::named(name.as_bytes()), Some(method));
            }
        }
        assert_eq!(Method::named(b"diffie-hellman-group14-sha256"), None);
    }
}
