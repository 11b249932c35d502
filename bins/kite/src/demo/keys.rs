//! The demo's SSH keys, kept in the state directory so that a restart does not
//! look like a machine in the middle.

use anyhow::Context as _;
use russh::keys::{Algorithm, PrivateKey, ssh_key::LineEnding};

use crate::state::StateDir;

/// Reads the ed25519 key `name` from the state directory, or makes it.
pub(super) fn load_or_create(
    state: &StateDir,
    name: &str,
    comment: &str,
) -> anyhow::Result<PrivateKey> {
    if let Some(text) = state.read(name)? {
        return PrivateKey::from_openssh(&text).with_context(|| {
            format!(
                "{} is no OpenSSH private key; remove it to get a new one",
                state.path(name).display()
            )
        });
    }
    let mut key = PrivateKey::random(&mut rand::rng(), Algorithm::Ed25519)
        .context("no SSH key can be made")?;
    key.set_comment(comment);
    state.write(name, key.to_openssh(LineEnding::LF)?.as_bytes())?;
    state.write(
        &format!("{name}.pub"),
        format!("{}\n", key.public_key().to_openssh()?).as_bytes(),
    )?;
    Ok(key)
}
