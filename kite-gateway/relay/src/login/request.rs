//! What a client asks for.

use ssh_encoding::Decode as _;
use ssh_key::public::KeyData;
use zeroize::Zeroizing;

use crate::algorithm::Algorithm;
use crate::certificate::Certificate;
use crate::verify::{Token, VerifyError, verify};

/// One try to log in. Names are bytes: no encoding is asked of them.
#[derive(Debug)]
pub enum Request {
    /// Without anything: the client wants to know what may be tried.
    None,
    /// By a password.
    Password(Zeroizing<Vec<u8>>),
    /// By a key, which the client does not use before it knows that it is worth it.
    Probe(Box<Offered>),
    /// By a key, with a signature.
    Key(Box<Offered>, Box<Proof>),
    /// By questions.
    Interactive,
    /// The answers to questions.
    Answers(Vec<Zeroizing<Vec<u8>>>),
    /// By something that is not here, with the name of that.
    Unknown(Vec<u8>),
}

/// The least modulus of an RSA key that is taken, in bits.
const LEAST_RSA: u32 = 2048;

/// A key that is offered.
#[derive(Debug, Clone)]
pub struct Offered {
    /// By what it signs.
    pub algorithm: Algorithm,
    /// The key itself.
    pub key: KeyData,
    /// Its certificate, of which nothing is true before it is checked.
    pub certificate: Option<Certificate>,
}

impl Offered {
    /// Reads a key; `None` if it cannot be read, or is none of the algorithm.
    pub(super) fn read(name: &[u8], blob: &[u8]) -> Option<Self> {
        let (algorithm, is_certificate) = Algorithm::named(name)?;
        let (key, certificate) = if is_certificate {
            let certificate = Certificate::decode(blob).ok()?;
            (certificate.key().clone(), Some(certificate))
        } else {
            let reader = &mut &*blob;
            let key = KeyData::decode(reader).ok()?;
            (reader.is_empty().then_some(key)?, None)
        };
        let is_weak = key.rsa().is_some_and(|key| key.key_size() < LEAST_RSA);
        let fits = Algorithm::of(&key).contains(&algorithm) && !is_weak;
        fits.then_some(Self {
            algorithm,
            key,
            certificate,
        })
    }
}

/// A signature that nobody has verified.
#[derive(Debug)]
pub struct Proof {
    pub(super) key: KeyData,
    pub(super) algorithm: Algorithm,
    pub(super) signature: Vec<u8>,
    pub(super) signed: Vec<u8>,
    pub(super) request: u64,
}

impl Proof {
    /// Verifies it, on whatever thread; it takes some hundred microseconds at most.
    ///
    /// # Errors
    /// The client does not have the key.
    pub fn verify(self) -> Result<Verified, VerifyError> {
        let token = verify(&self.key, self.algorithm, &self.signature, &self.signed)?;
        Ok(Verified {
            token,
            request: self.request,
        })
    }
}

/// A signature that is the key's.
#[derive(Debug)]
pub struct Verified {
    pub(super) token: Option<Token>,
    pub(super) request: u64,
}

impl Verified {
    /// What a token says of the moment of signing; `None` of a key that no token keeps.
    #[must_use]
    pub fn token(&self) -> Option<Token> {
        self.token
    }
}
