//! Reads keys out of Secrets and specs.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Secret;
use kite_core::crd::{Principals, UserAuthority};
use kite_core::names::key_secret;
use russh::keys::{PrivateKey, PublicKey};

use crate::route::{Authority, AuthorizedKey};

/// What the gateway needs of a VM's key Secret.
#[derive(Clone)]
pub(super) struct VmKeys {
    /// Lets the gateway in.
    pub(super) client: Arc<PrivateKey>,
    /// The VM's host key.
    pub(super) host: PublicKey,
}

/// Reads a key Secret; says what is wrong with it.
pub(super) fn vm_keys(secret: &Secret) -> Result<VmKeys, String> {
    let text = |key: &str| {
        let bytes = secret
            .data
            .as_ref()
            .and_then(|data| data.get(key))
            .ok_or_else(|| format!("it has no key {key}"))?;
        String::from_utf8(bytes.0.clone()).map_err(|_| format!("{key} is not text"))
    };
    let client = PrivateKey::from_openssh(text(key_secret::CLIENT_PRIVATE)?)
        .map_err(|e| format!("{} is not a private key: {e}", key_secret::CLIENT_PRIVATE))?;
    let host = PublicKey::from_openssh(&text(key_secret::HOST_PUBLIC)?)
        .map_err(|e| format!("{} is not a public key: {e}", key_secret::HOST_PUBLIC))?;
    Ok(VmKeys {
        client: Arc::new(client),
        host,
    })
}

/// Reads an `authorized_keys` line.
fn public_key(line: &str) -> Option<AuthorizedKey> {
    let line = kite_core::public_key::PublicKey::parse(line).ok()?;
    let key = PublicKey::from_openssh(line.key()).ok()?;
    Some(AuthorizedKey {
        key,
        presence: line.presence(),
    })
}

/// Reads `authorized_keys` lines; what cannot be read lets nobody in.
pub(super) fn public_keys(lines: &[String]) -> Vec<AuthorizedKey> {
    lines.iter().filter_map(|line| public_key(line)).collect()
}

/// An authority that the platform trusts.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Trusted {
    key: Arc<PublicKey>,
    principals: Principals,
}

impl Trusted {
    /// Those that can be read; the platform's conditions name the others.
    pub(super) fn all(said: &[UserAuthority]) -> Vec<Self> {
        let read = |said: &UserAuthority| {
            let key = said.key().inspect_err(|error| {
                tracing::error!(authority = said.name, %error, "the key of a user authority");
            });
            let key = PublicKey::from_openssh(key.ok()?.key()).ok()?;
            Some(Self {
                key: Arc::new(key),
                principals: said.principals,
            })
        };
        said.iter().filter_map(read).collect()
    }

    /// The authority for one VM; `None` if it vouches for accounts, and the VM is of none.
    pub(super) fn of_vm(&self, account: Option<&str>, login: &str) -> Option<Authority> {
        let principal = match self.principals {
            Principals::Accounts => account?,
            Principals::LoginNames => login,
        };
        Some(Authority {
            key: Arc::clone(&self.key),
            principal: principal.to_owned(),
        })
    }
}
