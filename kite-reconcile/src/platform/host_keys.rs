//! What the SSH gateway's host key is known by. Pure.

use k8s_openapi::api::core::v1::Secret;
use kite_core::{crd::GatewayHostKey, names::key_secret};
use russh::keys::{HashAlg, PublicKey};

/// The public half of the host key in `secret`. One that cannot be read is none: the
/// gateway says what is wrong with it.
pub(super) fn host_keys(secret: Option<&Secret>) -> Vec<GatewayHostKey> {
    let data = secret.and_then(|secret| secret.data.as_ref());
    let line = data.and_then(|data| data.get(key_secret::HOST_PUBLIC));
    let line = line.and_then(|line| std::str::from_utf8(&line.0).ok());
    let key = line.and_then(|line| PublicKey::from_openssh(line.trim()).ok());
    let known_by = |mut key: PublicKey| {
        // Whoever made it wrote where; that is nobody else's concern.
        key.set_comment("");
        Some(GatewayHostKey {
            fingerprint: key.fingerprint(HashAlg::Sha256).to_string(),
            public_key: key.to_openssh().ok()?.trim().to_owned(),
        })
    };
    key.and_then(known_by).into_iter().collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use k8s_openapi::ByteString;

    use super::*;

    fn secret(line: &str) -> Secret {
        let line = ByteString(line.as_bytes().to_vec());
        Secret {
            data: Some([(key_secret::HOST_PUBLIC.to_owned(), line)].into()),
            ..Secret::default()
        }
    }

    #[test]
    fn a_key_is_shown_as_ssh_shows_it() {
        let key =
            "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAILM+rvN+ot98qgEN796jTiQfZfG1KaT0PtFDJ/XFSqti";
        let found = host_keys(Some(&secret(&format!("{key} root@build-7\n"))));
        // What `ssh-keygen -l` says of it.
        let fingerprint = "SHA256:UCUiLr7Pjs9wFFJMDByLgc3NrtdU344OgUM45wZPcIQ";
        assert_eq!(
            found,
            [GatewayHostKey {
                public_key: key.to_owned(),
                fingerprint: fingerprint.to_owned(),
            }]
        );
    }

    #[test]
    fn what_is_no_key_is_not_shown() {
        assert!(host_keys(None).is_empty());
        assert!(host_keys(Some(&Secret::default())).is_empty());
        assert!(host_keys(Some(&secret("ssh-ed25519 AAAA"))).is_empty());
    }
}
