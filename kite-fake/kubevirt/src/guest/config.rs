//! What a guest is told at its first boot.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use russh::keys::{Algorithm, PrivateKey, PublicKey};
use serde::Deserialize;

use super::home::Home;

/// Why a guest cannot be set up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GuestError {
    /// The user data is not a `#cloud-config` document that the guest reads.
    #[error("cloud-init user data: {0}")]
    UserData(String),
    /// A key is not in OpenSSH's format.
    #[error("{field}: not a key in OpenSSH's format: {error}")]
    Key {
        /// Which field of the user data.
        field: &'static str,
        /// What the parser says.
        error: russh::keys::ssh_key::Error,
    },
    /// The port cannot be had.
    #[error("cannot listen on {address}: {error}")]
    Listen {
        /// Where it was tried.
        address: SocketAddr,
        /// Why not.
        error: std::io::Error,
    },
}

/// How a guest takes passwords.
#[derive(Clone, Default)]
pub enum Passwords {
    /// Not at all.
    #[default]
    Refused,
    /// This one, by the method `password`.
    Plain(String),
    /// This one, by `keyboard-interactive` only, as where PAM asks.
    Asked(String),
}

/// Everything that makes one guest.
#[derive(Clone)]
pub struct GuestConfig {
    /// Its host name, shown at the prompt.
    pub hostname: String,
    /// The one user that may log in.
    pub user: String,
    /// Public keys that let the user in.
    pub authorized_keys: Vec<PublicKey>,
    /// How passwords let the user in; not at all by default, as `ssh_pwauth: false`
    /// in a machine's user data.
    pub passwords: Passwords,
    /// The key by which clients know the guest.
    pub host_key: PrivateKey,
    /// The guest's disk; pass the same one again to reboot the guest.
    pub home: Home,
    /// Where to listen; port 0 picks a free one. Loopback by default.
    pub listen: SocketAddr,
}

impl fmt::Debug for GuestConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GuestConfig")
            .field("hostname", &self.hostname)
            .field("user", &self.user)
            .field("authorized_keys", &self.authorized_keys.len())
            .field("listen", &self.listen)
            .finish_non_exhaustive()
    }
}

impl GuestConfig {
    /// A guest with a new host key and an empty disk.
    ///
    /// # Errors
    ///
    /// [`GuestError::Key`] when no key can be made.
    pub fn new(
        hostname: impl Into<String>,
        user: impl Into<String>,
        authorized_keys: Vec<PublicKey>,
    ) -> Result<Self, GuestError> {
        Ok(Self {
            hostname: hostname.into(),
            user: user.into(),
            authorized_keys,
            passwords: Passwords::default(),
            host_key: new_key()?,
            home: Home::default(),
            listen: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0),
        })
    }

    /// Reads what cloud-init would: `hostname`, the first entry of `users` with
    /// a name and its `ssh_authorized_keys`, and `ssh_keys.ed25519_private`.
    /// Without a host key in it a new one is made.
    ///
    /// # Errors
    ///
    /// [`GuestError`] when the document is not a `#cloud-config`, names no
    /// user, or holds a key that is none.
    pub fn from_user_data(user_data: &str, home: Home) -> Result<Self, GuestError> {
        let wrong = |text: &str| GuestError::UserData(text.to_owned());
        if !user_data.trim_start().starts_with("#cloud-config") {
            return Err(wrong("does not start with #cloud-config"));
        }
        let config: CloudConfig =
            serde_saphyr::from_str(user_data).map_err(|e| wrong(&e.to_string()))?;
        let user = config
            .users
            .into_iter()
            .find_map(|user| match user {
                UserEntry::User(user) => Some(user),
                UserEntry::Name(_) => None,
            })
            .ok_or_else(|| wrong("users: no entry with a name"))?;
        let authorized_keys = user
            .ssh_authorized_keys
            .iter()
            .map(|line| {
                PublicKey::from_openssh(line).map_err(|error| GuestError::Key {
                    field: "users[].ssh_authorized_keys",
                    error,
                })
            })
            .collect::<Result<_, _>>()?;
        let host_key = match config.ssh_keys.ed25519_private {
            Some(text) => PrivateKey::from_openssh(text).map_err(|error| GuestError::Key {
                field: "ssh_keys.ed25519_private",
                error,
            })?,
            None => new_key()?,
        };
        Ok(Self {
            hostname: config.hostname.unwrap_or_else(|| "guest".to_owned()),
            home,
            host_key,
            ..Self::new("", user.name, authorized_keys)?
        })
    }
}

fn new_key() -> Result<PrivateKey, GuestError> {
    PrivateKey::random(&mut rand::rng(), Algorithm::Ed25519).map_err(|error| GuestError::Key {
        field: "new host key",
        error,
    })
}

#[derive(Deserialize)]
struct CloudConfig {
    hostname: Option<String>,
    #[serde(default)]
    users: Vec<UserEntry>,
    #[serde(default)]
    ssh_keys: SshKeys,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum UserEntry {
    /// `default` or another bare name: cloud-init's own users, not ours.
    Name(#[expect(dead_code, reason = "only its shape matters")] String),
    User(User),
}

#[derive(Deserialize)]
struct User {
    name: String,
    #[serde(default)]
    ssh_authorized_keys: Vec<String>,
}

#[derive(Deserialize, Default)]
struct SshKeys {
    ed25519_private: Option<String>,
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use russh::keys::ssh_key::LineEnding;

    use super::*;

    #[test]
    fn reads_user_data() {
        let key = new_key().unwrap();
        let private = key.to_openssh(LineEnding::LF).unwrap().to_string();
        let public = key.public_key().to_openssh().unwrap();
        let indented = private.replace('\n', "\n    ");
        let text = format!(
            "#cloud-config\nhostname: web\nssh_pwauth: false\nusers:\n  - default\n  - name: alice\n    \
             sudo: ALL=(ALL) NOPASSWD:ALL\n    ssh_authorized_keys:\n      - {public}\n\
             ssh_keys:\n  ed25519_private: |\n    {indented}\n  ed25519_public: {public}\n"
        );
        let config = GuestConfig::from_user_data(&text, Home::default()).unwrap();
        assert_eq!(config.hostname, "web");
        assert_eq!(config.user, "alice");
        assert_eq!(config.authorized_keys.len(), 1);
        assert_eq!(
            config.host_key.public_key().key_data(),
            key.public_key().key_data()
        );
        assert!(!format!("{config:?}").contains("PRIVATE"));
    }

    #[test]
    fn says_what_is_wrong() {
        let error = |text| {
            GuestConfig::from_user_data(text, Home::default())
                .unwrap_err()
                .to_string()
        };
        assert!(error("hostname: x").contains("#cloud-config"));
        assert!(error("#cloud-config\nhostname: x").contains("users"));
        let bad = "#cloud-config\nusers: [{name: a, ssh_authorized_keys: [nonsense]}]";
        assert!(error(bad).contains("ssh_authorized_keys"));
    }
}
