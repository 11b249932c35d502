//! Who may log in. [`RouteAuthenticator`] compares with what the route holds;
//! other projects implement [`Authenticator`].

use std::io;
use std::net::IpAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use kite_core::password::{PasswordError, PasswordHash};
use kite_ssh_relay::certificate::{CertificateError, Claim, Grant, Vouched};
use kite_ssh_relay::verify::Token;
use russh::keys::{HashAlg, PublicKey};

use crate::hashing::{HashPool, Turn};
use crate::route::{Authority, LoginName, Presence, Route};

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
    Key(Box<ProvenKey>),
    /// A certificate of such a key.
    Certificate(Box<Certified>),
}

/// A key that somebody has signed with.
#[derive(Clone, Debug)]
pub struct ProvenKey {
    /// The key.
    pub key: PublicKey,
    /// What the token has said that keeps it, if one does.
    pub token: Option<Token>,
}

/// Whether a token has said what is asked of it; what no token keeps is asked for nothing.
pub(crate) fn is_present(asked: Presence, token: Option<Token>) -> bool {
    let Presence { touched, verified } = asked;
    token.is_none_or(|token| (token.touched || !touched) && (token.verified || !verified))
}

/// A key that an authority has vouched for.
#[derive(Clone, Debug)]
pub struct Certified {
    /// The key.
    pub key: PublicKey,
    /// The key of the authority.
    pub authority: PublicKey,
    /// Whom the certificate was taken for.
    pub principal: String,
    /// What it allows.
    pub grant: Grant,
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

    /// What the token that keeps `key` has to say of the moment of signing, if one does.
    /// Asked whenever [`public_key`](Self::public_key) is. That it was touched, unless an
    /// implementation says otherwise.
    async fn presence(
        &self,
        _login: &LoginName,
        _route: Option<&Route>,
        _key: &PublicKey,
    ) -> Presence {
        Presence::default()
    }

    /// Whether the holder of `certificate`, who is at `address`, may log in. The address is
    /// `None` where others' is seen in its place. Asked in place of
    /// [`public_key`](Self::public_key). No certificate is taken unless an implementation
    /// says otherwise.
    ///
    /// # Errors
    /// Why it is not taken. The client is told of its times, its addresses and its conditions;
    /// not that it names somebody else, or by whom it is.
    async fn certificate(
        &self,
        _login: &LoginName,
        _route: Option<&Route>,
        certificate: &Vouched,
        _address: Option<IpAddr>,
    ) -> Result<Certified, CertificateError> {
        Err(untrusted(certificate))
    }

    /// Whether the proof of a login would still let its user in. Asked whenever
    /// a user who is logged in opens something new, and when the route has become
    /// another: a connection whose access was withdrawn ends. Must not take long.
    async fn still_holds(&self, login: &LoginName, route: &Route, proof: &Proof) -> Verdict;
}

fn untrusted(certificate: &Vouched) -> CertificateError {
    let print = certificate.authority().fingerprint(HashAlg::Sha256);
    CertificateError::Authority(print.to_string())
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

/// Compares with the route's password hash, public keys and authorities.
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
                .any(|it| it.key.key_data() == key.key_data())
        });
        if known {
            Verdict::Accept
        } else {
            Verdict::Reject
        }
    }

    async fn presence(
        &self,
        _login: &LoginName,
        route: Option<&Route>,
        key: &PublicKey,
    ) -> Presence {
        let keys = route.map_or(&[][..], |route| &route.authorized_keys);
        let lines = keys
            .iter()
            .filter(|it| it.key.key_data() == key.key_data())
            .map(|it| it.presence);
        // Where it stands twice, both are asked for.
        let both = |one: Presence, other: Presence| Presence {
            touched: one.touched || other.touched,
            verified: one.verified || other.verified,
        };
        lines.reduce(both).unwrap_or_default()
    }

    async fn certificate(
        &self,
        _login: &LoginName,
        route: Option<&Route>,
        certificate: &Vouched,
        address: Option<IpAddr>,
    ) -> Result<Certified, CertificateError> {
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = since_1970.map_or(0, |it| it.as_secs());
        let mut why = untrusted(certificate);
        let authorities = route.map_or(&[][..], |route| &route.authorities);
        for trusted in authorities {
            let claim = Claim {
                principal: &trusted.principal,
                address,
                now,
            };
            let is_trusted = |authority: &_| trusted.key.key_data() == authority;
            match certificate.check(&claim, is_trusted) {
                Ok(grant) => {
                    return Ok(Certified {
                        key: PublicKey::from(certificate.key().clone()),
                        authority: trusted.key.as_ref().clone(),
                        principal: trusted.principal.clone(),
                        grant,
                    });
                }
                Err(CertificateError::Authority(_)) => {}
                // An error that the client is told of wins over one that it is not.
                Err(error) => match why {
                    CertificateError::Authority(_) | CertificateError::Principal(_) => why = error,
                    _ => {}
                },
            }
        }
        Err(why)
    }

    async fn still_holds(&self, login: &LoginName, route: &Route, proof: &Proof) -> Verdict {
        match proof {
            // That it expires ends no session, as with sshd: it is about when to log in.
            Proof::Certificate(it) => {
                let trusted = |authority: &Authority| {
                    authority.key.key_data() == it.authority.key_data()
                        && authority.principal == it.principal
                };
                if route.authorities.iter().any(trusted) {
                    Verdict::Accept
                } else {
                    Verdict::Reject
                }
            }
            Proof::Key(it) => {
                let presence = self.presence(login, Some(route), &it.key).await;
                if is_present(presence, it.token) {
                    self.public_key(login, Some(route), &it.key).await
                } else {
                    Verdict::Reject
                }
            }
            Proof::Password(Some(hash)) if route.password.as_ref() == Some(hash) => Verdict::Accept,
            Proof::Password(_) => Verdict::Reject,
        }
    }
}
