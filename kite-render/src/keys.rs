//! The key pairs of a VM and the Secret that holds them.

use std::{collections::BTreeMap, fmt};

use k8s_openapi::{ByteString, api::core::v1::Secret};
use kite_core::{labels, names, names::key_secret as entry};

use crate::{RenderError, Vm};

/// Most bytes of one entry that are looked at.
const ENTRY_MAX: usize = 16 * 1024;

/// The two key pairs of a VM: the one with which the gateway enters, and the
/// guest's own host key, by which the gateway knows it. Private keys are in
/// OpenSSH format, public keys one `authorized_keys` line each. `Debug` does
/// not show them.
#[derive(Clone, PartialEq, Eq)]
pub struct VmKeys {
    /// The gateway's private key for this VM.
    pub client_private: String,
    /// Its public half.
    pub client_public: String,
    /// The VM's private host key.
    pub host_private: String,
    /// Its public half.
    pub host_public: String,
}

impl fmt::Debug for VmKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VmKeys").finish_non_exhaustive()
    }
}

impl VmKeys {
    /// Reads the keys back from their Secret.
    ///
    /// # Errors
    /// [`RenderError::KeySecret`] with the entry that is missing or no key.
    pub fn from_secret(secret: &Secret) -> Result<Self, RenderError> {
        let text = |key: &'static str, private: bool| {
            let problem = |problem| RenderError::KeySecret {
                secret: format!(
                    "{}/{}",
                    secret.metadata.namespace.as_deref().unwrap_or_default(),
                    secret.metadata.name.as_deref().unwrap_or_default()
                ),
                key,
                problem,
            };
            let value = secret.data.as_ref().and_then(|data| data.get(key));
            let value = &value.ok_or_else(|| problem("is missing"))?.0;
            let text = std::str::from_utf8(value).map_err(|_| problem("is not text"))?;
            let well_formed = text.len() <= ENTRY_MAX
                && if private {
                    text.starts_with("-----BEGIN OPENSSH PRIVATE KEY-----\n")
                } else {
                    text.starts_with("ssh-") && text.trim_end().lines().count() == 1
                };
            if well_formed {
                Ok(text.to_owned())
            } else {
                Err(problem("is no key in OpenSSH format"))
            }
        };
        Ok(Self {
            client_private: text(entry::CLIENT_PRIVATE, true)?,
            client_public: text(entry::CLIENT_PUBLIC, false)?,
            host_private: text(entry::HOST_PRIVATE, true)?,
            host_public: text(entry::HOST_PUBLIC, false)?,
        })
    }
}

/// The Secret that holds `keys`. It is immutable: keys that were replaced would
/// open nothing, since a guest learns them when its disk is made.
pub fn secret(vm: &Vm<'_>, keys: &VmKeys) -> Secret {
    fill(secret_metadata(vm), keys)
}

/// `template` with `keys` in it: for whoever generates keys and is handed what
/// [`secret_metadata`] rendered.
pub fn fill(template: Secret, keys: &VmKeys) -> Secret {
    let entries = [
        (entry::CLIENT_PRIVATE, &keys.client_private),
        (entry::CLIENT_PUBLIC, &keys.client_public),
        (entry::HOST_PRIVATE, &keys.host_private),
        (entry::HOST_PUBLIC, &keys.host_public),
    ];
    Secret {
        data: Some(
            entries
                .into_iter()
                .map(|(key, value)| (key.to_owned(), ByteString(value.clone().into_bytes())))
                .collect::<BTreeMap<_, _>>(),
        ),
        immutable: Some(true),
        ..template
    }
}

/// The key Secret without its keys: what can be put right in one that is there.
pub fn secret_metadata(vm: &Vm<'_>) -> Secret {
    let mut metadata = vm.metadata(names::ssh_key_secret(vm.name));
    metadata.labels.get_or_insert_default().insert(
        labels::COMPONENT.to_owned(),
        labels::COMPONENT_SSH_KEY.to_owned(),
    );
    Secret {
        metadata,
        ..Secret::default()
    }
}
