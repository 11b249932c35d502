//! Verifying ID tokens (OpenID Connect Core 1.0 §3.1.3.7).

use jiff::Timestamp;
use jsonwebtoken::{
    Algorithm, DecodingKey, Validation, decode, decode_header,
    errors::ErrorKind,
    jwk::{Jwk, KeyAlgorithm, PublicKeyUse},
};
use serde_json::{Map, Value};
use subtle::ConstantTimeEq as _;

/// How much the clocks of Kite and of a provider may differ, in seconds.
const SKEW: i64 = 60;
/// Most bytes of a subject (OpenID Connect Core 1.0 §2).
const MOST_SUBJECT: usize = 255;

/// What a token must be for.
pub(super) struct Expected<'a> {
    pub(super) issuer: &'a str,
    pub(super) client_id: &'a str,
    pub(super) nonce: &'a str,
    /// When the sign-in began: the token is younger.
    pub(super) begun: Timestamp,
}

/// Why a token proves nothing; for the log.
#[derive(Debug, PartialEq)]
pub(super) enum Rejected {
    /// It is signed with a key that is not among these.
    UnknownKey,
    /// It is not what it should be.
    Wrong(String),
}

/// The claims of a token that `keys` signed for this sign-in.
pub(super) fn verify(
    token: &str,
    keys: &[Jwk],
    expected: &Expected<'_>,
    now: Timestamp,
) -> Result<Map<String, Value>, Rejected> {
    let header = decode_header(token).map_err(|error| wrong(format!("its header: {error}")))?;
    let algorithm = header.alg;
    if !is_public(algorithm) {
        return Err(wrong(format!("it is signed with {algorithm:?}")));
    }
    if header.crit.is_some() {
        return Err(wrong("it has critical extensions".to_owned()));
    }
    let fits = |key: &&Jwk| {
        let id = header.kid.as_ref();
        let common = &key.common;
        id.is_none_or(|id| common.key_id.as_ref() == Some(id)) && is_for(key, algorithm)
    };
    let mut validation = Validation::new(algorithm);
    validation.set_issuer(&[expected.issuer]);
    validation.set_audience(&[expected.client_id]);
    validation.set_required_spec_claims(&["exp", "iss", "aud", "sub"]);
    validation.validate_nbf = true;
    validation.leeway = SKEW.unsigned_abs();
    let mut outcome = Err(Rejected::UnknownKey);
    for key in keys.iter().filter(fits) {
        let Ok(key) = DecodingKey::from_jwk(key) else {
            continue;
        };
        match decode::<Map<String, Value>>(token, &key, &validation) {
            Ok(token) => {
                outcome = Ok(token.claims);
                break;
            }
            // Without an id, or with one that two keys have, another may fit.
            Err(error) if matches!(error.kind(), ErrorKind::InvalidSignature) => {
                outcome = Err(wrong("its signature".to_owned()));
            }
            Err(error) => return Err(wrong(error.to_string())),
        }
    }
    let claims = outcome?;
    check(&claims, expected, now)?;
    Ok(claims)
}

/// Checks what the library does not.
fn check(
    claims: &Map<String, Value>,
    expected: &Expected<'_>,
    now: Timestamp,
) -> Result<(), Rejected> {
    let text = |name: &str| claims.get(name).and_then(Value::as_str);
    let subject = text("sub").unwrap_or_default();
    if !(1..=MOST_SUBJECT).contains(&subject.len()) {
        return Err(wrong("its subject".to_owned()));
    }
    let nonce = text("nonce").unwrap_or_default();
    if !bool::from(nonce.as_bytes().ct_eq(expected.nonce.as_bytes())) {
        return Err(wrong("its nonce is that of another sign-in".to_owned()));
    }
    // Who else it is for may not stand in for Kite.
    let others = claims
        .get("aud")
        .and_then(Value::as_array)
        .is_some_and(|audiences| audiences.len() > 1);
    match claims.get("azp") {
        None if others => return Err(wrong("it is for several, and not said by whom".to_owned())),
        None => {}
        Some(party) if party.as_str() == Some(expected.client_id) => {}
        Some(_) => return Err(wrong("it was given to another client".to_owned())),
    }
    let seconds = claims.get("iat").and_then(Value::as_f64);
    let Some(issued) = seconds.filter(|it| it.is_finite()) else {
        return Err(wrong("it does not say when it was made".to_owned()));
    };
    #[allow(
        clippy::cast_precision_loss,
        reason = "seconds of this age fit a float"
    )]
    let (earliest, latest) = (
        (expected.begun.as_second() - SKEW) as f64,
        (now.as_second() + SKEW) as f64,
    );
    if issued < earliest {
        return Err(wrong("it is older than the sign-in".to_owned()));
    }
    if issued > latest {
        return Err(wrong("it is from the future".to_owned()));
    }
    Ok(())
}

/// Whether only the provider can sign so: anybody who knows the client's secret,
/// or takes a public key for a secret, can make the others.
fn is_public(algorithm: Algorithm) -> bool {
    match algorithm {
        Algorithm::RS256
        | Algorithm::RS384
        | Algorithm::RS512
        | Algorithm::PS256
        | Algorithm::PS384
        | Algorithm::PS512
        | Algorithm::ES256
        | Algorithm::ES384
        | Algorithm::EdDSA => true,
        // Those with a shared secret, and what nobody thought of yet.
        _ => false,
    }
}

/// Whether a key is one to sign with by this algorithm.
fn is_for(key: &Jwk, algorithm: Algorithm) -> bool {
    let signs = match &key.common.public_key_use {
        None | Some(PublicKeyUse::Signature) => true,
        Some(PublicKeyUse::Encryption | PublicKeyUse::Other(_)) => false,
    };
    let alone_for = match &key.common.key_algorithm {
        None => return signs && family_fits(key, algorithm),
        Some(KeyAlgorithm::RS256) => Algorithm::RS256,
        Some(KeyAlgorithm::RS384) => Algorithm::RS384,
        Some(KeyAlgorithm::RS512) => Algorithm::RS512,
        Some(KeyAlgorithm::PS256) => Algorithm::PS256,
        Some(KeyAlgorithm::PS384) => Algorithm::PS384,
        Some(KeyAlgorithm::PS512) => Algorithm::PS512,
        Some(KeyAlgorithm::ES256) => Algorithm::ES256,
        Some(KeyAlgorithm::ES384) => Algorithm::ES384,
        Some(KeyAlgorithm::EdDSA) => Algorithm::EdDSA,
        Some(_) => return false,
    };
    signs && alone_for == algorithm && family_fits(key, algorithm)
}

fn family_fits(key: &Jwk, algorithm: Algorithm) -> bool {
    DecodingKey::from_jwk(key).is_ok_and(|key| key.family().algorithms().contains(&algorithm))
}

fn wrong(what: String) -> Rejected {
    Rejected::Wrong(what)
}

#[cfg(test)]
mod tests;
