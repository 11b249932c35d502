//! Where new key pairs come from.

use kite_render::keys::VmKeys;
use russh::keys::{Algorithm, PrivateKey, ssh_key::LineEnding};

/// Makes the key pairs of a VM. Injected, because it is the one thing in a
/// reconcile that is random.
pub trait KeySource: Send + Sync + 'static {
    /// New key pairs for the VM called `name`.
    ///
    /// # Errors
    /// A [`KeyError`] if the system gives no random bytes.
    fn generate(&self, name: &str) -> Result<VmKeys, KeyError>;
}

/// No key pair could be made.
#[derive(Debug, thiserror::Error)]
#[error("a key pair could not be made: {0}")]
pub struct KeyError(String);

impl KeyError {
    /// With the reason `why`.
    pub fn new(why: impl Into<String>) -> Self {
        Self(why.into())
    }
}

/// Ed25519 key pairs (RFC 8709) from the operating system's random numbers.
///
/// ```
/// use kite_reconcile::keys::{KeySource as _, RandomKeys};
///
/// let keys = RandomKeys.generate("web")?;
/// assert!(keys.host_public.starts_with("ssh-ed25519 "));
/// # Ok::<(), kite_reconcile::keys::KeyError>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct RandomKeys;

impl KeySource for RandomKeys {
    fn generate(&self, name: &str) -> Result<VmKeys, KeyError> {
        let (client_private, client_public) = pair("kite-gateway")?;
        let (host_private, host_public) = pair(name)?;
        Ok(VmKeys {
            client_private,
            client_public,
            host_private,
            host_public,
        })
    }
}

/// A private key in OpenSSH format and its public half as one line.
fn pair(comment: &str) -> Result<(String, String), KeyError> {
    let error = |error: russh::keys::ssh_key::Error| KeyError(error.to_string());
    let mut key = PrivateKey::random(&mut rand::rng(), Algorithm::Ed25519).map_err(error)?;
    key.set_comment(comment);
    let private = key.to_openssh(LineEnding::LF).map_err(error)?;
    let public = key.public_key().to_openssh().map_err(error)?;
    Ok((private.to_string(), format!("{public}\n")))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use russh::keys::{PrivateKey, PublicKey};

    use super::*;

    #[test]
    fn the_halves_belong_together_and_no_two_pairs_are_alike() {
        let keys = RandomKeys.generate("web").unwrap();
        for (private, public) in [
            (&keys.client_private, &keys.client_public),
            (&keys.host_private, &keys.host_public),
        ] {
            let private = PrivateKey::from_openssh(private.as_bytes()).unwrap();
            let public = PublicKey::from_openssh(public.trim_end()).unwrap();
            assert_eq!(private.public_key().key_data(), public.key_data());
        }
        assert_ne!(keys.client_public, keys.host_public);
        assert_ne!(keys, RandomKeys.generate("web").unwrap());
    }
}
