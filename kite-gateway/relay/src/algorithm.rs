//! Algorithms of signatures, by their names.

use ssh_key::public::KeyData;

/// An algorithm that keys sign by. None with SHA-1 is here, nor DSA.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Algorithm {
    /// `ssh-ed25519` (RFC 8709).
    Ed25519,
    /// `ecdsa-sha2-nistp256` (RFC 5656).
    EcdsaP256,
    /// `ecdsa-sha2-nistp384`.
    EcdsaP384,
    /// `ecdsa-sha2-nistp521`.
    EcdsaP521,
    /// `rsa-sha2-512` (RFC 8332).
    RsaSha512,
    /// `rsa-sha2-256`.
    RsaSha256,
    /// `sk-ssh-ed25519@openssh.com`: a key that a token keeps.
    SkEd25519,
    /// `sk-ecdsa-sha2-nistp256@openssh.com`.
    SkEcdsaP256,
}

/// What stands behind the name of a key in that of its certificate.
const CERTIFICATE: &str = "-cert-v01@openssh.com";

impl Algorithm {
    /// All, the preferred one first.
    pub const ALL: [Self; 8] = [
        Self::Ed25519,
        Self::EcdsaP256,
        Self::EcdsaP384,
        Self::EcdsaP521,
        Self::RsaSha512,
        Self::RsaSha256,
        Self::SkEd25519,
        Self::SkEcdsaP256,
    ];

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ed25519 => "ssh-ed25519",
            Self::EcdsaP256 => "ecdsa-sha2-nistp256",
            Self::EcdsaP384 => "ecdsa-sha2-nistp384",
            Self::EcdsaP521 => "ecdsa-sha2-nistp521",
            Self::RsaSha512 => "rsa-sha2-512",
            Self::RsaSha256 => "rsa-sha2-256",
            Self::SkEd25519 => "sk-ssh-ed25519@openssh.com",
            Self::SkEcdsaP256 => "sk-ecdsa-sha2-nistp256@openssh.com",
        }
    }

    /// Its name with a certificate.
    #[must_use]
    pub fn certificate_name(self) -> String {
        let name = self.name();
        let name = name.strip_suffix("@openssh.com").unwrap_or(name);
        format!("{name}{CERTIFICATE}")
    }

    /// The one of a name, and whether that is of a certificate.
    #[must_use]
    pub fn named(name: &[u8]) -> Option<(Self, bool)> {
        Self::ALL.into_iter().find_map(|it| {
            if it.name().as_bytes() == name {
                Some((it, false))
            } else {
                (it.certificate_name().as_bytes() == name).then_some((it, true))
            }
        })
    }

    /// Those by which a key signs, the preferred one first; none for keys that nothing here
    /// verifies.
    #[must_use]
    pub fn of(key: &KeyData) -> &'static [Self] {
        use ssh_key::EcdsaCurve::{NistP256, NistP384, NistP521};
        match key {
            KeyData::Ed25519(_) => &[Self::Ed25519],
            KeyData::Ecdsa(key) => match key.curve() {
                NistP256 => &[Self::EcdsaP256],
                NistP384 => &[Self::EcdsaP384],
                NistP521 => &[Self::EcdsaP521],
            },
            KeyData::Rsa(_) => &[Self::RsaSha512, Self::RsaSha256],
            KeyData::SkEd25519(_) => &[Self::SkEd25519],
            KeyData::SkEcdsaSha2NistP256(_) => &[Self::SkEcdsaP256],
            _ => &[],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back() {
        for it in Algorithm::ALL {
            assert_eq!(Algorithm::named(it.name().as_bytes()), Some((it, false)));
            let name = it.certificate_name();
            assert_eq!(Algorithm::named(name.as_bytes()), Some((it, true)));
        }
        let sk = "sk-ssh-ed25519-cert-v01@openssh.com";
        assert_eq!(Algorithm::SkEd25519.certificate_name(), sk);
        for gone in ["ssh-rsa", "ssh-dss", "ssh-rsa-cert-v01@openssh.com", ""] {
            assert_eq!(Algorithm::named(gone.as_bytes()), None);
        }
    }
}
