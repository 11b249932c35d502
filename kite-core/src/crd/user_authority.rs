//! Authorities that vouch for users of the SSH gateway by certificates.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::public_key::{PublicKey, PublicKeyError};

/// An authority whose certificates of users log in at the gateway.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct UserAuthority {
    /// What it is called here.
    #[schemars(length(min = 1, max = 63), regex(pattern = super::LABEL_PATTERN))]
    pub name: String,
    /// Its public key in one line, as in a file for sshd's `TrustedUserCAKeys`.
    #[schemars(length(max = 8192), regex(pattern = super::PLAIN_KEY_PATTERN))]
    pub public_key: String,
    /// Whom the principals of its certificates name.
    #[serde(default)]
    pub principals: Principals,
}

impl UserAuthority {
    /// Its key. There are no options to it: nobody sees to what its token says.
    ///
    /// # Errors
    /// What is wrong with it, and what to write instead.
    pub fn key(&self) -> Result<PublicKey, PublicKeyError> {
        PublicKey::parse_new(&self.public_key)?.without_options()
    }
}

/// Whom the principals of certificates name.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Principals {
    /// Accounts (names of `KiteUser`s): who is vouched for gets into the VMs of that account.
    #[default]
    Accounts,
    /// Login names (`sshId`), as with sshd: who is vouched for gets into that VM.
    LoginNames,
}
