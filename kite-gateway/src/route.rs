//! Where a login name leads. Other projects implement [`Routes`] to put the
//! gateway before machines of their own.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use kite_core::password::PasswordHash;
pub use kite_core::public_key::Presence;
use russh::keys::{PrivateKey, PublicKey};
use serde::Serialize;

/// Longest login name that is looked at, in bytes.
pub const MAX_LOGIN_NAME: usize = 64;

/// A login name as a client sent it, once it looks like one.
///
/// ```
/// use kite_gateway::LoginName;
///
/// assert!(LoginName::parse("web").is_some());
/// assert!(LoginName::parse("web; rm -rf /").is_none());
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize)]
#[serde(transparent)]
pub struct LoginName(String);

impl LoginName {
    /// Takes a name of 1 to [`MAX_LOGIN_NAME`] bytes out of ASCII letters,
    /// digits, `-`, `_` and `.`; anything else cannot be a login name and must
    /// not reach logs or labels either.
    pub fn parse(text: &str) -> Option<Self> {
        let fits = (1..=MAX_LOGIN_NAME).contains(&text.len())
            && text
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'));
        fits.then(|| Self(text.to_owned()))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for LoginName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Which machine a route leads to.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize)]
pub struct VmKey {
    /// The namespace, or any other realm in which names are unique.
    pub namespace: String,
    /// The machine's name in it.
    pub name: String,
}

impl fmt::Display for VmKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// Whether a machine can be entered now. The texts tell its owner what is the matter
/// and what to do; nobody else sees them.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum VmState {
    /// It runs.
    Running,
    /// It is switched off, and may be started.
    Stopped(String),
    /// It does not run yet, and will by itself.
    Starting(String),
    /// It does not run, and somebody has to do something.
    Unavailable(String),
}

/// What a login takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum LoginRule {
    /// A key or a password.
    #[default]
    KeyOrPassword,
    /// A key, and then a password.
    KeyAndPassword,
}

/// With what the gateway enters a machine.
#[derive(Clone)]
#[non_exhaustive]
pub enum Credential {
    /// A key that the machine's user accepts.
    Key(Arc<PrivateKey>),
    /// The password that the user types: the machine itself decides on it, and the
    /// connection goes on to it. Keys do not log in to such a machine, as a
    /// signature that a client makes for the gateway is worth nothing elsewhere. It
    /// has to decide within [`Config::rejection_time`](crate::Config::rejection_time):
    /// see [`Config::relaying`](crate::Config::relaying).
    UsersPassword,
}

/// How the gateway enters a machine.
#[derive(Clone)]
pub struct Target {
    /// Where its sshd is; tried in order. Empty while it is not known.
    pub addresses: Vec<SocketAddr>,
    /// The user inside.
    pub user: String,
    /// What lets the gateway in.
    pub credential: Credential,
    /// The machine's host key; any other is refused.
    pub host_key: PublicKey,
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Target")
            .field("addresses", &self.addresses)
            .field("user", &self.user)
            .finish_non_exhaustive()
    }
}

/// A public key that may log in.
#[derive(Clone, Debug)]
pub struct AuthorizedKey {
    /// The key.
    pub key: PublicKey,
    /// What the token has to say that keeps it, if one does.
    pub presence: Presence,
}

impl From<PublicKey> for AuthorizedKey {
    fn from(key: PublicKey) -> Self {
        Self {
            key,
            presence: Presence::default(),
        }
    }
}

/// An authority whose certificates log in.
#[derive(Clone, Debug)]
pub struct Authority {
    /// Its key.
    pub key: Arc<PublicKey>,
    /// Who has to be among the principals of a certificate.
    pub principal: String,
}

/// Everything that the gateway knows of a login name.
#[derive(Clone, Debug)]
pub struct Route {
    /// The machine.
    pub vm: VmKey,
    /// Tells the machine from an earlier one of the same name; a user who
    /// logged in to one never gets into the other. Empty where names are not
    /// given again.
    pub uid: String,
    /// Who owns it, for the records.
    pub owner: Option<String>,
    /// Whether it can be entered now.
    pub state: VmState,
    /// Whether a login starts it, and waits until it runs.
    pub start_on_connect: bool,
    /// How to enter it; absent while keys are missing.
    pub target: Option<Target>,
    /// What a login takes.
    pub rule: LoginRule,
    /// Hash of the password; without one passwords never fit.
    pub password: Option<PasswordHash>,
    /// Public keys that may log in.
    pub authorized_keys: Vec<AuthorizedKey>,
    /// Authorities whose certificates may.
    pub authorities: Vec<Authority>,
}

impl Route {
    /// Where the machine itself decides on passwords, how to enter it.
    pub(crate) fn decided_by_machine(&self) -> Option<&Target> {
        let target = self.target.as_ref()?;
        matches!(target.credential, Credential::UsersPassword).then_some(target)
    }
}

/// Finds routes.
///
/// ```
/// use std::{collections::HashMap, sync::Arc};
///
/// use kite_gateway::{LoginName, Route, Routes};
///
/// /// Login names such as `ann.web` lead to Ann's machine `web`.
/// struct ByOwner(HashMap<(String, String), Arc<Route>>);
///
/// impl Routes for ByOwner {
///     fn find(&self, login: &LoginName) -> Option<Arc<Route>> {
///         let (owner, machine) = login.as_str().split_once('.')?;
///         self.0.get(&(owner.to_owned(), machine.to_owned())).cloned()
///     }
/// }
/// ```
pub trait Routes: Send + Sync + 'static {
    /// The route of `login`, out of memory: the gateway asks on every login and
    /// must never wait for a lookup.
    fn find(&self, login: &LoginName) -> Option<Arc<Route>>;

    /// A machine showed another host key than the route says, or did not take its
    /// credential. Whoever has these from elsewhere may look at them again; the gateway
    /// does not wait for that.
    fn doubt(&self, _: &Route) {}
}

/// A fixed set of routes, for tests and small set-ups.
impl<S> Routes for std::collections::HashMap<String, Arc<Route>, S>
where
    S: std::hash::BuildHasher + Send + Sync + 'static,
{
    fn find(&self, login: &LoginName) -> Option<Arc<Route>> {
        self.get(login.as_str()).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn login_names_are_checked_before_use() {
        assert!(LoginName::parse("web-1").is_some());
        for bad in ["", "a b", "a\nb", "a/b", "ä", &"x".repeat(65)] {
            assert_eq!(LoginName::parse(bad), None, "{bad:?}");
        }
    }
}
