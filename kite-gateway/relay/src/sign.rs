//! Keys that sign.

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::{KeyPairComponents, PublicKeyComponents};
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING,
    ECDSA_P521_SHA512_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, RSA_PKCS1_SHA256,
    RSA_PKCS1_SHA512, RsaKeyPair,
};
use crypto_bigint::{BoxedUint, NonZero};
use ssh_encoding::Encode as _;
use ssh_key::private::{KeypairData, RsaKeypair};
use ssh_key::public::KeyData;
use ssh_key::{Mpint, PrivateKey};
use zeroize::{Zeroize as _, Zeroizing};

use crate::algorithm::Algorithm;
use crate::wire::string;

/// Why a private key cannot sign.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// It is encrypted.
    #[error("the key is encrypted: decrypt it first")]
    Encrypted,
    /// Keys of this kind sign nothing here.
    #[error("keys of the kind {0} do not sign here; use ed25519, ecdsa or rsa")]
    Kind(String),
    /// Its parts do not belong together, or an RSA key is not of 2048 to 8192 bits.
    #[error("no valid key of the kind {0}; an RSA key has 2048 to 8192 bits")]
    Invalid(String),
}

/// The key did not sign: an error of the library's, or an algorithm of other keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the key does not sign by {}", .0.name())]
pub struct SignError(pub Algorithm);

enum Kind {
    Ed25519(Ed25519KeyPair),
    Ecdsa(EcdsaKeyPair),
    Rsa(Box<RsaKeyPair>),
}

/// A private key.
pub struct SigningKey {
    kind: Kind,
    public: KeyData,
    blob: Vec<u8>,
}

impl std::fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut out = f.debug_struct("SigningKey");
        out.field("public", &self.public).finish_non_exhaustive()
    }
}

impl SigningKey {
    /// From a key that was read.
    ///
    /// # Errors
    /// It is encrypted, of a kind that does not sign, or no valid one.
    pub fn new(key: &PrivateKey) -> Result<Self, KeyError> {
        let name = || key.algorithm().as_str().to_owned();
        let invalid = || KeyError::Invalid(name());
        let kind = match key.key_data() {
            KeypairData::Encrypted(_) => return Err(KeyError::Encrypted),
            KeypairData::Ed25519(pair) => {
                let mut seed = pair.private.to_bytes();
                let made = Ed25519KeyPair::from_seed_and_public_key(&seed, pair.public.as_ref());
                seed.zeroize();
                Kind::Ed25519(made.map_err(|_| invalid())?)
            }
            KeypairData::Ecdsa(pair) => {
                use ssh_key::EcdsaCurve::{NistP256, NistP384, NistP521};
                let rule = match pair.curve() {
                    NistP256 => &ECDSA_P256_SHA256_FIXED_SIGNING,
                    NistP384 => &ECDSA_P384_SHA384_FIXED_SIGNING,
                    NistP521 => &ECDSA_P521_SHA512_FIXED_SIGNING,
                };
                let (private, public) = (pair.private_key_bytes(), pair.public_key_bytes());
                let made = EcdsaKeyPair::from_private_key_and_public_key(rule, private, public);
                Kind::Ecdsa(made.map_err(|_| invalid())?)
            }
            KeypairData::Rsa(pair) => Kind::Rsa(Box::new(rsa(pair).ok_or_else(invalid)?)),
            _ => return Err(KeyError::Kind(name())),
        };
        let public = key.public_key().key_data().clone();
        let mut blob = Vec::new();
        public.encode(&mut blob).map_err(|_| invalid())?;
        Ok(Self { kind, public, blob })
    }

    /// Its public half.
    #[must_use]
    pub fn public(&self) -> &KeyData {
        &self.public
    }

    /// Its public half as messages carry it.
    #[must_use]
    pub fn blob(&self) -> &[u8] {
        &self.blob
    }

    /// The algorithms by which it signs, the preferred one first.
    #[must_use]
    pub fn algorithms(&self) -> &'static [Algorithm] {
        Algorithm::of(&self.public)
    }

    /// A signature as messages carry it.
    ///
    /// # Errors
    /// The key does not sign by that algorithm, or there is no randomness.
    pub fn sign(&self, algorithm: Algorithm, data: &[u8]) -> Result<Vec<u8>, SignError> {
        let failed = SignError(algorithm);
        if !self.algorithms().contains(&algorithm) {
            return Err(failed);
        }
        let blob = match &self.kind {
            Kind::Ed25519(pair) => pair.sign(data).as_ref().to_vec(),
            Kind::Ecdsa(pair) => {
                let made = pair.sign(&SystemRandom::new(), data).map_err(|_| failed)?;
                let (r, s) = made.as_ref().split_at(made.as_ref().len() / 2);
                let mut blob = Vec::with_capacity(10 + made.as_ref().len());
                for number in [r, s] {
                    let number = Mpint::from_positive_bytes(number);
                    string(&mut blob, number.as_bytes());
                }
                blob
            }
            Kind::Rsa(pair) => {
                let rule = match algorithm {
                    Algorithm::RsaSha512 => &RSA_PKCS1_SHA512,
                    _ => &RSA_PKCS1_SHA256,
                };
                let mut blob = vec![0; pair.public_modulus_len()];
                pair.sign(rule, &SystemRandom::new(), data, &mut blob)
                    .map_err(|_| failed)?;
                blob
            }
        };
        let mut signature = Vec::with_capacity(64 + blob.len());
        string(&mut signature, algorithm.name().as_bytes());
        string(&mut signature, &blob);
        Ok(signature)
    }
}

/// With the two exponents that OpenSSH's format leaves out.
fn rsa(pair: &RsaKeypair) -> Option<RsaKeyPair> {
    let (public, private) = (pair.public(), pair.private());
    let (p, q) = (
        private.p().as_positive_bytes()?,
        private.q().as_positive_bytes()?,
    );
    let d = private.d().as_positive_bytes()?;
    let components = KeyPairComponents {
        public_key: PublicKeyComponents {
            n: public.n().as_positive_bytes()?.to_vec(),
            e: public.e().as_positive_bytes()?.to_vec(),
        },
        d: Zeroizing::new(d.to_vec()),
        p: Zeroizing::new(p.to_vec()),
        q: Zeroizing::new(q.to_vec()),
        dP: exponent(d, p)?,
        dQ: exponent(d, q)?,
        qInv: Zeroizing::new(private.iqmp().as_positive_bytes()?.to_vec()),
    };
    RsaKeyPair::from_components(&components).ok()
}

/// `d mod (prime - 1)`, in a time that tells nothing of either.
fn exponent(d: &[u8], prime: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
    let read = |bytes: &[u8]| {
        let bits = u32::try_from(bytes.len()).ok()?.checked_mul(8)?;
        BoxedUint::from_be_slice(bytes, bits).ok()
    };
    let (mut d, mut prime) = (read(d)?, read(prime)?);
    let less = NonZero::new(prime.wrapping_sub(BoxedUint::one())).into_option();
    let mut rest = d.rem(&less?);
    let bytes = Zeroizing::new(rest.to_be_bytes().to_vec());
    d.zeroize();
    prime.zeroize();
    rest.zeroize();
    Some(bytes)
}

#[cfg(test)]
#[path = "sign_tests.rs"]
pub(crate) mod tests;
