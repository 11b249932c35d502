//! Whether a key made a signature.

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::rsa::PublicKeyComponents;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ECDSA_P521_SHA512_FIXED, ED25519,
    RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_2048_8192_SHA512, UnparsedPublicKey,
    VerificationAlgorithm,
};
use ssh_key::public::KeyData;

use crate::algorithm::Algorithm;
use crate::wire::{Fields, Malformed};

/// What a token says of the moment of signing. It vouches for it by its signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Token {
    /// Somebody touched it.
    pub touched: bool,
    /// Somebody gave it a PIN or a finger.
    pub verified: bool,
}

impl Token {
    fn of(flags: u8) -> Self {
        Self {
            touched: flags & 0x01 != 0,
            verified: flags & 0x04 != 0,
        }
    }
}

/// Why a signature proves nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum VerifyError {
    /// It is none of its algorithm.
    #[error("a signature that cannot be read")]
    Malformed,
    /// It is of another algorithm than was said, or the key signs by others.
    #[error("a signature by {0}, by which the key does not sign")]
    Algorithm(&'static str),
    /// The key did not make it, or not for this.
    #[error("the signature is not the key's")]
    Wrong,
}

impl From<Malformed> for VerifyError {
    fn from(Malformed: Malformed) -> Self {
        Self::Malformed
    }
}

/// Sees whether `signature`, as messages carry it, is `key`'s by `algorithm` over `data`.
/// Of a key that a token keeps it is told what the token says.
///
/// # Errors
/// It is not. RSA keys of less than 2048 bits sign nothing.
pub fn verify(
    key: &KeyData,
    algorithm: Algorithm,
    signature: &[u8],
    data: &[u8],
) -> Result<Option<Token>, VerifyError> {
    let mut fields = Fields(signature);
    if fields.string()? != algorithm.name().as_bytes() || !Algorithm::of(key).contains(&algorithm) {
        return Err(VerifyError::Algorithm(algorithm.name()));
    }
    let blob = fields.string()?;
    // A token signs hashes, of its application and of the data, with its flags between them.
    let token = |application: &str, mut fields: Fields<'_>| {
        let flags_and_counter = fields.bytes(5)?;
        fields.end()?;
        let hashes = [application.as_bytes(), data].map(|it| digest(&SHA256, it));
        let signed = [hashes[0].as_ref(), flags_and_counter, hashes[1].as_ref()].concat();
        Ok::<_, VerifyError>((signed, Token::of(flags_and_counter[0])))
    };
    match key {
        KeyData::Ed25519(key) => {
            fields.end()?;
            check(&ED25519, key.as_ref(), data, blob)?;
        }
        KeyData::Ecdsa(key) => {
            fields.end()?;
            ecdsa(algorithm, key.as_sec1_bytes(), data, blob)?;
        }
        KeyData::Rsa(key) => {
            fields.end()?;
            let parts = [key.n(), key.e()].map(|part| part.as_positive_bytes());
            let [Some(n), Some(e)] = parts else {
                return Err(VerifyError::Malformed);
            };
            let rule = match algorithm {
                Algorithm::RsaSha512 => &RSA_PKCS1_2048_8192_SHA512,
                _ => &RSA_PKCS1_2048_8192_SHA256,
            };
            let key = PublicKeyComponents { n, e };
            let verified = key.verify(rule, data, blob);
            verified.map_err(|_| VerifyError::Wrong)?;
        }
        KeyData::SkEd25519(key) => {
            let (signed, token) = token(key.application(), fields)?;
            check(&ED25519, key.public_key().as_ref(), &signed, blob)?;
            return Ok(Some(token));
        }
        KeyData::SkEcdsaSha2NistP256(key) => {
            let (signed, token) = token(key.application(), fields)?;
            ecdsa(
                Algorithm::EcdsaP256,
                key.ec_point().as_bytes(),
                &signed,
                blob,
            )?;
            return Ok(Some(token));
        }
        _ => return Err(VerifyError::Algorithm(algorithm.name())),
    }
    Ok(None)
}

fn check(
    rule: &'static dyn VerificationAlgorithm,
    key: &[u8],
    data: &[u8],
    signature: &[u8],
) -> Result<(), VerifyError> {
    let verified = UnparsedPublicKey::new(rule, key).verify(data, signature);
    verified.map_err(|_| VerifyError::Wrong)
}

/// Two numbers, which the library takes at their full length.
fn ecdsa(algorithm: Algorithm, point: &[u8], data: &[u8], blob: &[u8]) -> Result<(), VerifyError> {
    let (rule, bytes): (&'static dyn VerificationAlgorithm, _) = match algorithm {
        Algorithm::EcdsaP384 => (&ECDSA_P384_SHA384_FIXED, 48),
        Algorithm::EcdsaP521 => (&ECDSA_P521_SHA512_FIXED, 66),
        _ => (&ECDSA_P256_SHA256_FIXED, 32),
    };
    let mut fields = Fields(blob);
    let mut fixed = Vec::with_capacity(2 * bytes);
    for _ in 0..2 {
        let number = fields.string()?;
        let number = number.strip_prefix(&[0]).unwrap_or(number);
        let missing = bytes.checked_sub(number.len());
        fixed.resize(fixed.len() + missing.ok_or(VerifyError::Malformed)?, 0);
        fixed.extend_from_slice(number);
    }
    fields.end()?;
    check(rule, point, data, &fixed)
}
