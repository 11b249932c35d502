//! Sealing what is stored in objects but is nobody's to read who can read them.
//!
//! The key is in the Secret [`names::SEAL_SECRET`], which the first replica that
//! needs it makes. It is read each time: that is seldom, and another key holds at
//! once.

use aws_lc_rs::aead::{AES_256_GCM, Aad, NONCE_LEN, Nonce, RandomizedNonceKey};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use k8s_openapi::{ByteString, api::core::v1::Secret};
use kite_core::{
    cluster::{Cluster as _, ClusterError, ClusterExt as _, ObjectKey},
    names,
};
use kube::api::ObjectMeta;

use super::token::random;
use crate::{
    problem::{Problem, ProblemKind},
    state::ApiState,
};

/// Name of the key in its Secret.
const KEY: &str = "key";
/// Bytes of a key.
const KEY_BYTES: usize = 32;

/// Seals and opens what is stored in objects (AES-256-GCM), with a key of a cluster.
pub struct Seal(RandomizedNonceKey);

impl std::fmt::Debug for Seal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Seal(…)")
    }
}

impl Seal {
    /// With the key of this cluster, which is made if there is none.
    pub(super) async fn of_cluster(state: &ApiState) -> Result<Self, Problem> {
        let key = state.own_key(names::SEAL_SECRET);
        let secret = match state.cluster().find::<Secret>(&key).await? {
            Some(secret) => secret,
            None => match state.cluster().create(&fresh(&key)?).await {
                Err(ClusterError::AlreadyExists { .. }) => state.cluster().get(&key).await?,
                made => made?,
            },
        };
        Self::of_secret(&secret)
    }

    /// With the key in a Secret like [`names::SEAL_SECRET`].
    pub fn of_secret(secret: &Secret) -> Result<Self, Problem> {
        let data = secret.data.as_ref();
        let bytes = data.and_then(|data| data.get(KEY));
        Self::new(bytes.map(|key| key.0.as_slice()).unwrap_or_default())
    }

    fn new(key: &[u8]) -> Result<Self, Problem> {
        RandomizedNonceKey::new(&AES_256_GCM, key)
            .map(Self)
            .map_err(|_| {
                let name = names::SEAL_SECRET;
                tracing::error!("the Secret {name} has no key of {KEY_BYTES} bytes");
                broken()
            })
    }

    /// Seals `secret` for `whose`, and for nobody else's place.
    pub fn seal(&self, whose: &str, secret: &[u8]) -> Result<String, Problem> {
        let mut sealed = secret.to_vec();
        let nonce = self
            .0
            .seal_in_place_append_tag(Aad::from(whose.as_bytes()), &mut sealed)
            .map_err(|_| broken())?;
        Ok(STANDARD.encode([nonce.as_ref().as_slice(), &sealed].concat()))
    }

    /// Opens what was sealed for `whose`.
    pub fn open(&self, whose: &str, sealed: &str) -> Result<Vec<u8>, Problem> {
        let bytes = STANDARD.decode(sealed).map_err(|_| broken())?;
        let (nonce, sealed) = bytes.split_at_checked(NONCE_LEN).ok_or_else(broken)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).map_err(|_| broken())?;
        let mut sealed = sealed.to_vec();
        let secret = self
            .0
            .open_in_place(nonce, Aad::from(whose.as_bytes()), &mut sealed)
            .map_err(|_| broken())?;
        Ok(secret.to_vec())
    }
}

fn fresh(at: &ObjectKey) -> Result<Secret, Problem> {
    let key: [u8; KEY_BYTES] = random()?;
    Ok(Secret {
        metadata: ObjectMeta {
            name: Some(at.name.clone()),
            namespace: at.namespace.clone(),
            ..ObjectMeta::default()
        },
        data: Some([(KEY.to_owned(), ByteString(key.to_vec()))].into()),
        ..Secret::default()
    })
}

fn broken() -> Problem {
    Problem::new(
        ProblemKind::Internal,
        format!(
            "what was sealed cannot be opened: the operator looks at the Secret {} in Kite's \
             namespace",
            names::SEAL_SECRET
        ),
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn what_is_sealed_opens_for_its_owner_and_with_its_key_only() {
        let seal = Seal::new(&[1; KEY_BYTES]).unwrap();
        let sealed = seal.seal("ann", b"secret").unwrap();
        assert_ne!(sealed, seal.seal("ann", b"secret").unwrap());
        assert_eq!(seal.open("ann", &sealed).unwrap(), b"secret");
        assert!(seal.open("bob", &sealed).is_err());
        assert!(seal.open("ann", "").is_err());
        let other = Seal::new(&[2; KEY_BYTES]).unwrap();
        assert!(other.open("ann", &sealed).is_err());
        assert!(Seal::new(b"short").is_err());
    }
}
