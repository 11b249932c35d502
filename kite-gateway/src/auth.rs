//! Who may log in. [`RouteAuthenticator`] compares with what the route holds;
//! other projects implement [`Authenticator`].

use std::io;
use std::time::Duration;

use async_trait::async_trait;
use kite_core::password::{PasswordError, PasswordHash};
use russh::keys::PublicKey;

use crate::hashing::{HashPool, Turn};
use crate::route::{LoginName, Route};

/// The answer to a login.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Verdict {
    /// Let in.
    Accept,
    /// Not let in. Why is nobody's business.
    Reject,
    /// Nobody has looked at it, as there was too much to do, or whoever decides did not
    /// answer. It counts against nobody, and the user is told to try again.
    Unchecked,
}

/// With what somebody logged in; where a key and a password are needed, there is
/// one for each.
#[derive(Clone, Debug)]
pub enum Proof {
    /// The password of this hash; `None` where the authenticator knows it from
    /// elsewhere than the route.
    Password(Option<PasswordHash>),
    /// A public key whose private half the user holds.
    Key(Box<PublicKey>),
}

/// Decides on logins. The route is `None` for an unknown name: an implementation
/// must then take as long as for a known one.
#[async_trait]
pub trait Authenticator: Send + Sync + 'static {
    /// Whether `password` fits, also asked for keyboard-interactive.
    async fn password(&self, login: &LoginName, route: Option<&Route>, password: &str) -> Verdict;

    /// Whether `key` may log in. Asked before the client proved that it holds
    /// the key and again after.
    async fn public_key(
        &self,
        login: &LoginName,
        route: Option<&Route>,
        key: &PublicKey,
    ) -> Verdict;

    /// Whether the proof of a login would still let its user in. Asked whenever
    /// a user who is logged in opens something new, and when the route has become
    /// another: a connection whose access was withdrawn ends. Must not take long.
    async fn still_holds(&self, login: &LoginName, route: &Route, proof: &Proof) -> Verdict;
}

/// Why a [`RouteAuthenticator`] cannot be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AuthenticatorError {
    /// No dummy hash can be made.
    #[error(transparent)]
    Password(#[from] PasswordError),
    /// No thread for hashing can be started.
    #[error("no thread for hashing passwords: {0}")]
    Thread(#[from] io::Error),
}

/// Compares with the route's password hash and public keys.
///
/// Hashing runs on a few threads of its own, so that a flood of wrong passwords
/// neither starves sessions of CPU nor fills the memory. Owners of machines take
/// turns, so that the costly hash of one keeps no other waiting for long. An
/// unknown name and a machine without a password are compared with a dummy
/// hash. That bcrypt and argon2 differ in cost is hidden by
/// [`Config::rejection_time`](crate::Config::rejection_time).
#[derive(Debug)]
pub struct RouteAuthenticator {
    hashing: HashPool,
    dummy: PasswordHash,
}

impl RouteAuthenticator {
    /// At most `parallel` hashes at a time; a password that would wait and be hashed
    /// for longer than `patience` is not looked at.
    ///
    /// # Errors
    ///
    /// [`AuthenticatorError`] when threads or a dummy hash cannot be had.
    pub fn new(parallel: usize, patience: Duration) -> Result<Self, AuthenticatorError> {
        Ok(Self {
            hashing: HashPool::new(parallel, patience)?,
            dummy: PasswordHash::create("nobody has this password")?,
        })
    }
}

#[async_trait]
impl Authenticator for RouteAuthenticator {
    async fn password(&self, login: &LoginName, route: Option<&Route>, password: &str) -> Verdict {
        let (turn, hash) = match route {
            Some(route) => (Turn::of(route), route.password.clone()),
            None => (Turn::Stranger(login.to_string()), None),
        };
        let known = hash.is_some();
        let hash = hash.unwrap_or_else(|| self.dummy.clone());
        match self.hashing.verify(turn, hash, password.to_owned()).await {
            Some(fits) if fits && known => Verdict::Accept,
            Some(_) => Verdict::Reject,
            None => Verdict::Unchecked,
        }
    }

    async fn public_key(
        &self,
        _login: &LoginName,
        route: Option<&Route>,
        key: &PublicKey,
    ) -> Verdict {
        let known = route.is_some_and(|route| {
            route
                .authorized_keys
                .iter()
                .any(|k| k.key_data() == key.key_data())
        });
        if known {
            Verdict::Accept
        } else {
            Verdict::Reject
        }
    }

    async fn still_holds(&self, login: &LoginName, route: &Route, proof: &Proof) -> Verdict {
        match proof {
            Proof::Key(key) => self.public_key(login, Some(route), key).await,
            Proof::Password(Some(hash)) if route.password.as_ref() == Some(hash) => Verdict::Accept,
            Proof::Password(_) => Verdict::Reject,
        }
    }
}
