//! Password hashes as PHC strings: argon2id is written, bcrypt is also read.
//!
//! Hashing takes tens of milliseconds and much memory on purpose: call it off
//! the async threads, and bound how many run at once.
//!
//! A password is hashed in one spelling (`OpaqueString` of RFC 8265). A hash that was made
//! of another spelling, by an earlier version or elsewhere, fits that one still.

mod normal;

use std::fmt;

use argon2::{
    Argon2,
    password_hash::{PasswordHasher as _, PasswordVerifier as _},
};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

pub use self::normal::normalized;

/// Longest password that is hashed, in bytes; a longer one is refused rather
/// than made to cost the server time.
pub const MAX_PASSWORD_BYTES: usize = 1024;

/// Bytes of a password that bcrypt looks at.
const BCRYPT_BYTES: usize = 72;
/// What a hash looks like that may verify something: whole ones only, no place
/// holders, no longer salts and hashes than argon2 makes, and the parameters in the
/// order of its encoded form.
const PATTERN: &str = concat!(
    r"^(\$argon2id\$v=19",
    // At most 262144.
    r"\$m=([1-9][0-9]{0,4}|1[0-9]{5}|2[0-5][0-9]{4}|26[01][0-9]{3}|2620[0-9]{2}|2621[0-3][0-9]|26214[0-4])",
    r",t=([1-9]|10),p=([1-9]|1[0-6])",
    r"\$[A-Za-z0-9+/]{11,86}\$[A-Za-z0-9+/]{14,86}",
    r"|\$2[aby]\$(0[4-9]|1[0-4])\$[./A-Za-z0-9]{53})$",
);
/// Highest bcrypt cost that is verified: 2^14 rounds take about a second.
const BCRYPT_MAX_COST: u32 = 14;

/// A password's hash. `Debug` does not show it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PasswordHash(String);

/// Why a password could not be hashed.
#[derive(Debug, thiserror::Error)]
pub enum PasswordError {
    /// Longer than [`MAX_PASSWORD_BYTES`].
    #[error("the password has {0} bytes: use at most {MAX_PASSWORD_BYTES}")]
    TooLong(usize),
    /// The hash function failed, or no random salt could be had.
    #[error("the password could not be hashed: {0}")]
    Hash(String),
}

impl PasswordHash {
    /// Hashes `password` with argon2id (RFC 9106) and a random salt.
    pub fn create(password: &str) -> Result<Self, PasswordError> {
        if password.len() > MAX_PASSWORD_BYTES {
            return Err(PasswordError::TooLong(password.len()));
        }
        Argon2::default()
            .hash_password(normalized(password).as_bytes())
            .map(|hash| Self(hash.to_string()))
            .map_err(|error| PasswordError::Hash(error.to_string()))
    }

    /// Takes a hash that was made elsewhere; it is judged when it is used.
    pub fn from_phc(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The PHC string.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether `password` is the one that was hashed. A hash of an unknown or
    /// weak scheme, and a bcrypt hash of a password whose end bcrypt would not
    /// have looked at, verify nothing.
    pub fn verify(&self, password: &str) -> bool {
        if password.len() > MAX_PASSWORD_BYTES {
            return false;
        }
        let usual = normalized(password);
        // The hash may have been made of what was typed, before there was one spelling.
        self.fits(&usual) || (usual != password && self.fits(password))
    }

    fn fits(&self, password: &str) -> bool {
        if self.0.starts_with("$2") {
            return self.verify_bcrypt(password);
        }
        if !self.0.starts_with("$argon2id$") {
            return false;
        }
        let Ok(parsed) = argon2::password_hash::phc::PasswordHash::new(&self.0) else {
            return false;
        };
        // A hash is data that a user may have written: refuse parameters that
        // would let it eat the machine.
        let bounded = |name: &str, most: u32| {
            parsed
                .params
                .get_decimal(name)
                .is_none_or(|value| value <= most)
        };
        bounded("m", 256 * 1024)
            && bounded("t", 10)
            && bounded("p", 16)
            && Argon2::default()
                .verify_password(password.as_bytes(), &parsed)
                .is_ok()
    }

    fn verify_bcrypt(&self, password: &str) -> bool {
        let cost = self
            .0
            .split('$')
            .nth(2)
            .and_then(|cost| cost.parse::<u32>().ok());
        password.len() < BCRYPT_BYTES
            && cost.is_some_and(|cost| cost <= BCRYPT_MAX_COST)
            && bcrypt::non_truncating_verify(password, &self.0).unwrap_or(false)
    }
}

impl fmt::Debug for PasswordHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PasswordHash(…)")
    }
}

impl JsonSchema for PasswordHash {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "PasswordHash".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "maxLength": 512,
            // A pattern's message would repeat the hash.
            "x-kubernetes-validations": [{
                "rule": format!("self.matches(r'{PATTERN}')"),
                "message": "must be a whole argon2id or bcrypt hash: make one with \"kite password-hash\"",
            }],
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_password_verifies_against_its_own_hash_only() {
        let hash = PasswordHash::create("correct horse").unwrap();
        assert!(hash.as_str().starts_with("$argon2id$v=19$"));
        assert!(hash.verify("correct horse"));
        assert!(!hash.verify("wrong horse"));
        assert_ne!(
            hash,
            PasswordHash::create("correct horse").unwrap(),
            "salted"
        );
    }

    #[test]
    fn a_password_fits_however_its_characters_are_put_together() {
        let (composed, apart) = ("caf\u{e9} au lait", "cafe\u{301}\u{a0}au lait");
        for made_of in [composed, apart] {
            let hash = PasswordHash::create(made_of).unwrap();
            assert!(hash.verify(composed) && hash.verify(apart), "{made_of:?}");
            assert!(!hash.verify("cafe au lait"));
        }
        // Made before, or elsewhere, of what was typed.
        let old = PasswordHash::from_phc(bcrypt::hash("cafe\u{301}", 4).unwrap());
        assert!(old.verify("cafe\u{301}"));
        assert!(!old.verify("caf\u{e9}") && !old.verify("cafe"));
    }

    #[test]
    fn defect_7_bcrypt_is_read_but_not_beyond_72_bytes() {
        let hash = PasswordHash::from_phc(bcrypt::hash("secret", 4).unwrap());
        assert!(hash.verify("secret"));
        assert!(!hash.verify("Secret"));
        let long = "x".repeat(80);
        assert!(!PasswordHash::from_phc(bcrypt::hash(&long, 4).unwrap()).verify(&long));
    }

    #[test]
    fn defect_7_unknown_schemes_and_greedy_parameters_verify_nothing() {
        for hash in [
            "",
            "plain",
            "$5$salt$hash",
            "$argon2id$v=19$m=4194304,t=3,p=4$c2FsdHNhbHQ$aGFzaGhhc2hoYXNoaGFzaA",
            "$2b$31$abcdefghijklmnopqrstuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuu",
            "$2b$",
        ] {
            assert!(!PasswordHash::from_phc(hash).verify(""), "{hash}");
        }
    }

    #[test]
    fn the_schema_takes_what_can_verify_something() {
        let taken = regex::Regex::new(PATTERN).unwrap();
        let argon = PasswordHash::create("correct horse").unwrap();
        let made = argon.as_str().to_owned();
        let with = |from: &str, to: &str| made.replace(from, to);
        let parameters = made.split('$').nth(3).unwrap().to_owned();
        assert!(taken.is_match(&made), "{made}");
        assert!(taken.is_match(&bcrypt::hash("secret", 4).unwrap()));
        assert!(taken.is_match(&with(&parameters, "m=262144,t=10,p=16")));
        for bad in [
            "$argon2id$…".to_owned(),
            "secret".to_owned(),
            with(&parameters, "m=262145,t=1,p=1"),
            with(&parameters, "m=8,t=11,p=1"),
            with(&parameters, "m=8,t=1,p=17"),
            with("argon2id", "argon2d"),
            format!("{made}\n"),
            format!(" {made}"),
            bcrypt::hash("secret", 4).unwrap().replace("$04$", "$15$"),
            "$2b$04$x".to_owned(),
        ] {
            assert!(!taken.is_match(&bad), "{bad:?}");
        }
    }

    #[test]
    fn secrets_are_not_shown() {
        assert_eq!(
            format!("{:?}", PasswordHash::from_phc("$2b$04$x")),
            "PasswordHash(…)"
        );
    }

    #[test]
    fn an_endless_password_is_refused_before_it_costs_time() {
        assert!(matches!(
            PasswordHash::create(&"x".repeat(2000)),
            Err(PasswordError::TooLong(2000))
        ));
    }
}
