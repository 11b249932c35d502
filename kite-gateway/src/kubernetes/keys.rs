//! Reads keys out of Secrets and specs.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Secret;
use kite_core::names::key_secret;
use russh::keys::{PrivateKey, PublicKey};

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

/// Reads `authorized_keys` lines; what cannot be read lets nobody in.
pub(super) fn public_keys(lines: &[String]) -> Vec<PublicKey> {
    lines
        .iter()
        .filter_map(|line| kite_core::public_key::PublicKey::parse(line).ok())
        .filter_map(|key| PublicKey::from_openssh(key.as_str()).ok())
        .collect()
}
