//! Passwords that fitted a moment ago: who connects again costs no second hash.
//!
//! What is remembered is an authentication code of password and hash, under a key that
//! the process alone has and forgets. A password that does not fit is never found
//! here, and a hash that was replaced is another one.

use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

use hmac::{Hmac, KeyInit as _, Mac as _};
use kite_core::password::PasswordHash;
use parking_lot::Mutex;
use rand::RngExt as _;
use sha2::Sha256;
use tokio::time::Instant;

/// How long a password is remembered.
const KEPT: Duration = Duration::from_secs(30);
/// How many are; of more, all are forgotten.
const MOST: usize = 4096;

type Code = [u8; 32];

/// Remembers passwords that fitted.
pub(crate) struct Fitted {
    code: Hmac<Sha256>,
    until: Mutex<HashMap<Code, Instant>>,
}

impl fmt::Debug for Fitted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Fitted(…)")
    }
}

impl Fitted {
    pub(crate) fn new() -> Self {
        let key: [u8; 64] = rand::rng().random();
        Self {
            code: Hmac::new(&key.into()),
            until: Mutex::default(),
        }
    }

    /// The code of a password for a hash.
    pub(crate) fn code(&self, hash: &PasswordHash, password: &str) -> Code {
        let mut code = self.code.clone();
        // The length keeps the two apart.
        code.update(&(hash.as_str().len() as u64).to_be_bytes());
        code.update(hash.as_str().as_bytes());
        code.update(password.as_bytes());
        code.finalize().into_bytes().into()
    }

    /// Whether the password of this code has just fitted.
    pub(crate) fn has(&self, code: &Code) -> bool {
        let until = self.until.lock().get(code).copied();
        until.is_some_and(|until| Instant::now() < until)
    }

    /// Remembers that it fits.
    pub(crate) fn remember(&self, code: Code) {
        let now = Instant::now();
        let mut until = self.until.lock();
        if until.len() >= MOST {
            until.retain(|_, until| now < *until);
        }
        if until.len() >= MOST {
            until.clear();
        }
        until.insert(code, now + KEPT);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn only_that_password_for_that_hash_and_only_for_a_while() {
        let fitted = Fitted::new();
        let [one, other] = ["$a$1", "$a$12"].map(PasswordHash::from_phc);
        let code = fitted.code(&one, "2secret");
        fitted.remember(code);
        assert!(fitted.has(&fitted.code(&one, "2secret")));
        assert!(!fitted.has(&fitted.code(&one, "2Secret")));
        assert!(!fitted.has(&fitted.code(&other, "secret")), "read together");
        assert!(!fitted.has(&fitted.code(&other, "2secret")));
        assert_ne!(Fitted::new().code(&one, "2secret"), code, "another key");
        tokio::time::advance(KEPT).await;
        assert!(!fitted.has(&code));
    }

    #[test]
    fn memory_is_bounded() {
        let fitted = Fitted::new();
        let hash = PasswordHash::from_phc("$a$1");
        for n in 0..2 * MOST {
            fitted.remember(fitted.code(&hash, &n.to_string()));
        }
        assert!(fitted.until.lock().len() <= MOST);
    }
}
