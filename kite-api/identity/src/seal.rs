//! Sealing what is stored in objects but is nobody's to read who can read them.
//!
//! The key is in the Secret [`names::SEAL_SECRET`], which the first replica that
//! needs it makes. It is read each time: that is seldom, and another key holds at
//! once. Beside it is the one before, if there was one, which opens what it has sealed.

use aws_lc_rs::aead::{AES_256_GCM, Aad, NONCE_LEN, Nonce, RandomizedNonceKey};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use jiff::Timestamp;
use k8s_openapi::{ByteString, api::core::v1::Secret};
use kite_core::{
    cluster::{Cluster as _, ClusterError, ClusterExt as _, ObjectKey},
    crd::{KitePassword, KiteSecondFactor},
    names,
};
use kite_rest::{Problem, ProblemKind, patch_unchanged};
use kube::{
    ResourceExt as _,
    api::{ListParams, ObjectMeta},
};
use serde_json::json;

use crate::{state::Accounts, token::random};

/// Name of the key in its Secret.
const KEY: &str = "key";
/// Name of the key before it.
const BEFORE: &str = "previous";
/// Annotation of the Secret: when its key took the place of the one before.
const ROTATED_AT: &str = "hy3ons.github.io/rotated-at";
/// Bytes of a key.
const KEY_BYTES: usize = 32;

/// Seals and opens what is stored in objects (AES-256-GCM), with the keys of a cluster.
pub struct Seal {
    latest: RandomizedNonceKey,
    before: Option<RandomizedNonceKey>,
}

/// What becomes of something that is sealed when there is another key.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Renewal {
    /// It is sealed with the latest key already.
    Latest,
    /// This is the same, sealed with the latest key.
    Sealed(String),
    /// No key opens it.
    Unreadable,
}

impl std::fmt::Debug for Seal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Seal(…)")
    }
}

impl Seal {
    /// With the keys of this cluster. One is made if there is none, and nothing is sealed.
    pub(crate) async fn of_cluster(state: &Accounts) -> Result<Self, Problem> {
        Self::of_secret(&Self::secret_of(state).await?)
    }

    /// The same, to open what was sealed: none if there is no key, or none that is one.
    pub(crate) async fn if_any(state: &Accounts) -> Result<Option<Self>, Problem> {
        let key = state.own_key(names::SEAL_SECRET);
        let secret = state.cluster().get_opt::<Secret>(&key).await?;
        Ok(secret.and_then(|secret| Self::of_secret(&secret).ok()))
    }

    /// The Secret with the keys of this cluster, which is made if there is none and nothing
    /// is sealed yet: another key in place of a lost one would open nothing, and stand in
    /// the way of the one that comes back.
    pub(crate) async fn secret_of(state: &Accounts) -> Result<Secret, Problem> {
        let key = state.own_key(names::SEAL_SECRET);
        if let Some(secret) = state.cluster().get_opt::<Secret>(&key).await? {
            return Ok(secret);
        }
        if is_anything_sealed(state).await? {
            // The first key may have been made, and used, just now.
            let made = state.cluster().get_opt::<Secret>(&key).await?;
            return made.ok_or_else(|| lost(&key));
        }
        Ok(match state.cluster().create(&fresh(&key)?).await {
            Err(ClusterError::AlreadyExists { .. }) => state.cluster().get(&key).await?,
            made => made?,
        })
    }

    /// With the keys in a Secret like [`names::SEAL_SECRET`].
    ///
    /// # Errors
    /// [`ProblemKind::Internal`] if a key is missing or has another length than it must.
    pub fn of_secret(secret: &Secret) -> Result<Self, Problem> {
        let before = bytes_of(secret, BEFORE).map(key_of).transpose()?;
        let latest = key_of(bytes_of(secret, KEY).unwrap_or_default())?;
        Ok(Self { latest, before })
    }

    /// When the latest key took the place of another one.
    pub(crate) fn rotated_at(secret: &Secret) -> Option<Timestamp> {
        secret.annotations().get(ROTATED_AT)?.parse().ok()
    }

    /// Puts another key in place of the latest, which becomes the one before; what was
    /// that opens nothing any more. Refused if somebody else has written the Secret.
    pub(crate) async fn with_another_key(
        state: &Accounts,
        secret: &Secret,
    ) -> Result<Self, Problem> {
        let key: [u8; KEY_BYTES] = random()?;
        let before = bytes_of(secret, KEY).unwrap_or_default();
        let patch = json!({
            "metadata": { "annotations": { ROTATED_AT: Timestamp::now().to_string() } },
            "data": {
                KEY: ByteString(key.to_vec()),
                BEFORE: ByteString(before.to_vec()),
            },
        });
        match patch_unchanged(state.cluster(), state.store().manager(), secret, patch).await? {
            Some(written) => Self::of_secret(&written),
            None => Err(Problem::new(
                ProblemKind::Conflict,
                "somebody else made another key at the same moment: look before you try again",
            )),
        }
    }

    /// What `sealed` is, sealed for `whose`, with the latest key.
    pub(crate) fn renew(&self, whose: &str, sealed: &str) -> Result<Renewal, Problem> {
        if self.is_latest(whose, sealed) {
            return Ok(Renewal::Latest);
        }
        let before = self.before.as_ref();
        match before.and_then(|before| open_with(before, whose, sealed)) {
            Some(secret) => Ok(Renewal::Sealed(self.seal(whose, &secret)?)),
            None => Ok(Renewal::Unreadable),
        }
    }

    /// Seals `secret` for `whose`, and for nobody else's place.
    ///
    /// # Errors
    /// [`ProblemKind::Internal`] if the system gives no random nonce.
    pub fn seal(&self, whose: &str, secret: &[u8]) -> Result<String, Problem> {
        let mut sealed = secret.to_vec();
        let nonce = self
            .latest
            .seal_in_place_append_tag(Aad::from(whose.as_bytes()), &mut sealed)
            .map_err(|_| broken())?;
        Ok(STANDARD.encode([nonce.as_ref().as_slice(), &sealed].concat()))
    }

    /// Whether something is sealed for `whose` with the latest key.
    pub fn is_latest(&self, whose: &str, sealed: &str) -> bool {
        open_with(&self.latest, whose, sealed).is_some()
    }

    /// Opens what was sealed for `whose`.
    ///
    /// # Errors
    /// [`ProblemKind::Internal`] if none of the keys opens it, or it was sealed for another.
    pub fn open(&self, whose: &str, sealed: &str) -> Result<Vec<u8>, Problem> {
        let mut keys = [Some(&self.latest), self.before.as_ref()]
            .into_iter()
            .flatten();
        keys.find_map(|key| open_with(key, whose, sealed))
            .ok_or_else(broken)
    }
}

fn open_with(key: &RandomizedNonceKey, whose: &str, sealed: &str) -> Option<Vec<u8>> {
    let bytes = STANDARD.decode(sealed).ok()?;
    let (nonce, sealed) = bytes.split_at_checked(NONCE_LEN)?;
    let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
    let mut sealed = sealed.to_vec();
    let secret = key
        .open_in_place(nonce, Aad::from(whose.as_bytes()), &mut sealed)
        .ok()?;
    Some(secret.to_vec())
}

fn bytes_of<'a>(secret: &'a Secret, name: &str) -> Option<&'a [u8]> {
    let data = secret.data.as_ref()?;
    data.get(name).map(|key| key.0.as_slice())
}

fn key_of(bytes: &[u8]) -> Result<RandomizedNonceKey, Problem> {
    RandomizedNonceKey::new(&AES_256_GCM, bytes).map_err(|_| {
        let name = names::SEAL_SECRET;
        tracing::error!("the Secret {name} has a key that is not {KEY_BYTES} bytes, or none");
        broken()
    })
}

/// Whether there are passwords or second factors that some key has sealed.
async fn is_anything_sealed(state: &Accounts) -> Result<bool, Problem> {
    let one = ListParams::default().limit(1);
    let passwords = state.cluster().list::<KitePassword>(None, &one).await?;
    if !passwords.items.is_empty() || !passwords.unreadable.is_empty() {
        return Ok(true);
    }
    let factors = state.cluster().list::<KiteSecondFactor>(None, &one).await?;
    Ok(!factors.items.is_empty() || !factors.unreadable.is_empty())
}

fn lost(key: &ObjectKey) -> Problem {
    tracing::error!(
        secret = %key,
        "the key is gone by which passwords and second factors are sealed, and none is made in \
         its place: put the Secret back, as with kite restore; if it is lost for good, see \
         \"Where the key is lost\" in docs/operating.md"
    );
    Problem::new(
        ProblemKind::Unavailable,
        format!(
            "the key of passwords and second factors is gone, so none can be set: the operator \
             puts the Secret {} back in Kite's namespace, as with kite restore",
            key.name
        ),
    )
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
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;

    fn seal_of(latest: &[u8], before: Option<&[u8]>) -> Result<Seal, Problem> {
        let before = before.map(|key| (BEFORE, key));
        let keys = [Some((KEY, latest)), before].into_iter().flatten();
        let keys = keys.map(|(name, key)| (name.to_owned(), ByteString(key.to_vec())));
        Seal::of_secret(&Secret {
            data: Some(keys.collect()),
            ..Secret::default()
        })
    }

    #[test]
    fn what_is_sealed_opens_for_its_owner_and_with_its_key_only() {
        let seal = seal_of(&[1; KEY_BYTES], None).unwrap();
        let sealed = seal.seal("ann", b"secret").unwrap();
        assert_ne!(sealed, seal.seal("ann", b"secret").unwrap());
        assert_eq!(seal.open("ann", &sealed).unwrap(), b"secret");
        assert!(seal.open("bob", &sealed).is_err());
        assert!(seal.open("ann", "").is_err());
        let other = seal_of(&[2; KEY_BYTES], None).unwrap();
        assert!(other.open("ann", &sealed).is_err());
        assert!(seal_of(b"short", None).is_err());
        assert!(seal_of(&[1; KEY_BYTES], Some(b"short")).is_err());
        assert!(Seal::of_secret(&Secret::default()).is_err());
    }

    #[test]
    fn the_key_before_opens_and_seals_no_more() {
        let first = seal_of(&[1; KEY_BYTES], None).unwrap();
        let sealed = first.seal("ann", b"secret").unwrap();
        assert_eq!(first.renew("ann", &sealed).unwrap(), Renewal::Latest);
        let second = seal_of(&[2; KEY_BYTES], Some(&[1; KEY_BYTES])).unwrap();
        assert_eq!(second.open("ann", &sealed).unwrap(), b"secret");
        let Renewal::Sealed(renewed) = second.renew("ann", &sealed).unwrap() else {
            panic!("not renewed");
        };
        assert_eq!(second.renew("ann", &renewed).unwrap(), Renewal::Latest);
        assert!(first.open("ann", &renewed).is_err());
        let third = seal_of(&[3; KEY_BYTES], Some(&[2; KEY_BYTES])).unwrap();
        assert_eq!(third.open("ann", &renewed).unwrap(), b"secret");
        assert_eq!(third.renew("ann", &sealed).unwrap(), Renewal::Unreadable);
    }
}
