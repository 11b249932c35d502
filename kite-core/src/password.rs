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
/// holders, no longer salts and hashes than argon2 makes, the parameters in the order of
/// its encoded form, and costing no more than [`ARGON2_MOST`] and [`BCRYPT_MAX_COST`].
const PATTERN: &str = concat!(
    r"^(\$argon2id\$v=19\$",
    // At most 65536, and with four passes 49152.
    r"(m=([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-6]),t=[1-3]",
    r"|m=([1-9][0-9]{0,3}|[1-3][0-9]{4}|4[0-8][0-9]{3}|490[0-9]{2}|491[0-4][0-9]|4915[0-2]),t=4)",
    r",p=[1-4]",
    r"\$[A-Za-z0-9+/]{11,86}\$[A-Za-z0-9+/]{14,86}",
    r"|\$2[aby]\$(0[4-9]|1[0-2])\$[./A-Za-z0-9]{53})$",
);
/// Most of argon2's parameters `m` (KiB), `t` (passes) and `p` (lanes) that is verified.
/// The second of those that RFC 9106 recommends is among them.
const ARGON2_MOST: [(&str, u32); 3] = [("m", 65_536), ("t", 4), ("p", 4)];
/// Most of `m` times `t`, which is what argon2 costs: about a third of a second.
const ARGON2_MOST_WORK: u64 = 3 * 65_536;
/// Highest bcrypt cost that is verified: 2^12 rounds take about a quarter of a second.
const BCRYPT_MAX_COST: u32 = 12;

/// About what bcrypt works on, and what is refused.
const BCRYPT_MEMORY: usize = 4096;

/// A password's hash. `Debug` does not show it.
///
/// ```
/// use kite_core::password::PasswordHash;
///
/// let hash = PasswordHash::create("correct horse battery")?;
/// assert!(hash.verify("correct horse battery"));
/// assert!(!hash.verify("wrong"));
/// # Ok::<(), kite_core::password::PasswordError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PasswordHash(String);

/// Why a password could not be hashed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
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
    ///
    /// # Errors
    /// [`PasswordError::TooLong`] beyond [`MAX_PASSWORD_BYTES`], [`PasswordError::Hash`] if the
    /// system gives no salt.
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
    /// weak scheme, one that [costs too much](Self::is_too_costly), and a bcrypt hash of
    /// a password whose end bcrypt would not have looked at, verify nothing.
    pub fn verify(&self, password: &str) -> bool {
        if password.len() > MAX_PASSWORD_BYTES || self.is_too_costly() {
            return false;
        }
        let usual = normalized(password);
        // The hash may have been made of what was typed, before there was one spelling.
        self.fits(&usual) || (usual != password && self.fits(password))
    }

    fn fits(&self, password: &str) -> bool {
        if self.0.starts_with("$2") {
            return password.len() < BCRYPT_BYTES
                && bcrypt::non_truncating_verify(password, &self.0).unwrap_or(false);
        }
        let parsed = self.argon2();
        parsed.is_some_and(|hash| {
            Argon2::default()
                .verify_password(password.as_bytes(), &hash)
                .is_ok()
        })
    }

    /// Whether the hash would cost more than any is given, so that it verifies nothing.
    /// A hash is data that a user may have written: it must not eat the machine. New
    /// ones of this kind are refused; they may have been stored by an earlier version.
    pub fn is_too_costly(&self) -> bool {
        if self.0.starts_with("$2") {
            let cost = self.0.split('$').nth(2);
            let cost = cost.and_then(|cost| cost.parse::<u32>().ok());
            return cost.is_some_and(|cost| cost > BCRYPT_MAX_COST);
        }
        let Some(hash) = self.argon2() else {
            return false;
        };
        let of = |name: &str| hash.params.get_decimal(name).unwrap_or(0);
        let work = u64::from(of("m")) * u64::from(of("t"));
        work > ARGON2_MOST_WORK || ARGON2_MOST.iter().any(|(name, most)| of(name) > *most)
    }

    /// Bytes of memory that [`verify`](Self::verify) works on.
    pub fn memory(&self) -> usize {
        if self.0.starts_with("$2") || self.is_too_costly() {
            return BCRYPT_MEMORY;
        }
        let kibibytes = self.argon2().and_then(|hash| hash.params.get_decimal("m"));
        // Where they are not told, argon2 takes its own.
        let kibibytes = kibibytes.unwrap_or(argon2::Params::DEFAULT_M_COST);
        usize::try_from(kibibytes).map_or(usize::MAX, |it| it.saturating_mul(1024))
    }

    fn argon2(&self) -> Option<argon2::password_hash::phc::PasswordHash> {
        let is_meant = self.0.starts_with("$argon2id$");
        let parsed = argon2::password_hash::phc::PasswordHash::new(&self.0);
        parsed.ok().filter(|_| is_meant)
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
                "message": concat!(
                    "must be a whole argon2id or bcrypt hash that costs at most m=65536,t=3,p=4, ",
                    "m=49152,t=4,p=4 or, of bcrypt, 12: make one with \"kite password-hash\"",
                ),
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
    fn a_hash_tells_how_much_memory_it_takes() {
        let of = |text: &str| PasswordHash::from_phc(text).memory();
        let hash = PasswordHash::create("correct horse").unwrap();
        assert_eq!(hash.memory(), 19 << 20);
        let parameters = hash.as_str().split('$').nth(3).unwrap();
        let with = |other: &str| of(&hash.as_str().replace(parameters, other));
        assert_eq!(with("m=65536,t=3,p=1"), 64 << 20);
        // It is not hashed at all.
        assert_eq!(with("m=4194304,t=3,p=1"), BCRYPT_MEMORY);
        assert_eq!(of("$2b$04$x"), BCRYPT_MEMORY);
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

    /// The schema and the code hold the same bounds.
    #[test]
    fn the_schema_takes_what_can_verify_something() {
        let taken = regex::Regex::new(PATTERN).unwrap();
        let argon = PasswordHash::create("correct horse").unwrap();
        let made = argon.as_str().to_owned();
        let with = |from: &str, to: &str| made.replace(from, to);
        let parameters = made.split('$').nth(3).unwrap().to_owned();
        let bcrypt = bcrypt::hash("secret", 4).unwrap();
        assert!(taken.is_match(&made), "{made}");
        assert!(taken.is_match(&bcrypt));
        let is_cheap = |m: u32, t: u32, p: u32| {
            let within = m <= 65_536 && t <= 4 && p <= 4;
            within && u64::from(m) * u64::from(t) <= 196_608
        };
        let edges = [
            1, 8, 9_999, 10_000, 49_151, 49_152, 49_153, 65_535, 65_536, 65_537,
        ];
        let random = (0..400_u32).map(|n| n.wrapping_mul(2_654_435_761) % 300_000 + 1);
        for m in edges.into_iter().chain(random) {
            for (t, p) in [
                (1, 1),
                (2, 4),
                (3, 4),
                (4, 4),
                (4, 1),
                (5, 1),
                (1, 5),
                (10, 16),
            ] {
                let text = with(&parameters, &format!("m={m},t={t},p={p}"));
                assert_eq!(taken.is_match(&text), is_cheap(m, t, p), "{text}");
                let hash = PasswordHash::from_phc(&*text);
                assert_eq!(hash.is_too_costly(), !is_cheap(m, t, p), "{text}");
            }
        }
        for cost in 4..=31 {
            let text = bcrypt.replace("$04$", &format!("${cost:02}$"));
            assert_eq!(taken.is_match(&text), cost <= 12, "{text}");
            let hash = PasswordHash::from_phc(&*text);
            assert_eq!(hash.is_too_costly(), cost > 12, "{text}");
        }
        for bad in [
            "$argon2id$…".to_owned(),
            "secret".to_owned(),
            with("argon2id", "argon2d"),
            with(&parameters, "m=08,t=1,p=1"),
            format!("{made}\n"),
            format!(" {made}"),
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
