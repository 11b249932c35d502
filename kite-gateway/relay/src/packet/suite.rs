//! What protects packets, by name, and its keys.

use zeroize::Zeroizing;

/// A cipher with what vouches for its packets. A cipher without a tag of its own comes with a
/// MAC over the ciphertext: no other order can be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Suite {
    /// `aes128-gcm@openssh.com` (RFC 5647).
    Aes128Gcm,
    /// `aes256-gcm@openssh.com`.
    Aes256Gcm,
    /// `chacha20-poly1305@openssh.com`.
    ChaCha20Poly1305,
    /// `aes128-ctr`, `aes256-ctr` (RFC 4344) with a MAC.
    Ctr(CtrKey, Mac),
}

/// The keys of AES in counter mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CtrKey {
    /// `aes128-ctr`.
    Aes128,
    /// `aes256-ctr`.
    Aes256,
}

/// MACs over the ciphertext.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Mac {
    /// `hmac-sha2-256-etm@openssh.com`.
    Sha256Etm,
    /// `hmac-sha2-512-etm@openssh.com`.
    Sha512Etm,
}

impl Mac {
    /// Its name in a negotiation.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sha256Etm => "hmac-sha2-256-etm@openssh.com",
            Self::Sha512Etm => "hmac-sha2-512-etm@openssh.com",
        }
    }

    /// Bytes of the key, and of the tag.
    #[must_use]
    pub const fn bytes(self) -> usize {
        match self {
            Self::Sha256Etm => 32,
            Self::Sha512Etm => 64,
        }
    }
}

impl Suite {
    /// All, the preferred one first.
    pub const ALL: [Self; 7] = [
        Self::Aes128Gcm,
        Self::Aes256Gcm,
        Self::ChaCha20Poly1305,
        Self::Ctr(CtrKey::Aes128, Mac::Sha256Etm),
        Self::Ctr(CtrKey::Aes128, Mac::Sha512Etm),
        Self::Ctr(CtrKey::Aes256, Mac::Sha256Etm),
        Self::Ctr(CtrKey::Aes256, Mac::Sha512Etm),
    ];

    /// The name of its cipher in a negotiation.
    #[must_use]
    pub const fn cipher(self) -> &'static str {
        match self {
            Self::Aes128Gcm => "aes128-gcm@openssh.com",
            Self::Aes256Gcm => "aes256-gcm@openssh.com",
            Self::ChaCha20Poly1305 => "chacha20-poly1305@openssh.com",
            Self::Ctr(CtrKey::Aes128, _) => "aes128-ctr",
            Self::Ctr(CtrKey::Aes256, _) => "aes256-ctr",
        }
    }

    /// Its MAC; `None` where the cipher has a tag of its own.
    #[must_use]
    pub const fn mac(self) -> Option<Mac> {
        match self {
            Self::Ctr(_, mac) => Some(mac),
            Self::Aes128Gcm | Self::Aes256Gcm | Self::ChaCha20Poly1305 => None,
        }
    }

    /// The one of a cipher and a MAC that were agreed on; `None` if there is none of these
    /// names.
    #[must_use]
    pub fn named(cipher: &[u8], mac: Option<&[u8]>) -> Option<Self> {
        Self::ALL.into_iter().find(|suite| {
            suite.cipher().as_bytes() == cipher
                && suite.mac().map(|mac| mac.name().as_bytes()) == mac
        })
    }

    /// Bytes of the initial vector, the key and the key of the MAC.
    #[must_use]
    pub const fn lengths(self) -> [usize; 3] {
        match self {
            Self::Aes128Gcm => [12, 16, 0],
            Self::Aes256Gcm => [12, 32, 0],
            Self::ChaCha20Poly1305 => [0, 64, 0],
            Self::Ctr(CtrKey::Aes128, mac) => [16, 16, mac.bytes()],
            Self::Ctr(CtrKey::Aes256, mac) => [16, 32, mac.bytes()],
        }
    }

    /// Bytes that a packet fills multiples of, without `packet_length`.
    pub(super) const fn block(self) -> usize {
        match self {
            Self::ChaCha20Poly1305 => 8,
            Self::Aes128Gcm | Self::Aes256Gcm | Self::Ctr(..) => 16,
        }
    }

    /// Bytes of the tag behind a packet.
    pub(super) const fn tag(self) -> usize {
        match self {
            Self::Aes128Gcm | Self::Aes256Gcm | Self::ChaCha20Poly1305 => 16,
            Self::Ctr(_, mac) => mac.bytes(),
        }
    }

    /// Bytes under one key after which it is changed (RFC 4344 §3.2): 64 GiB for blocks of
    /// sixteen bytes, and one for `ChaCha20`, as OpenSSH does.
    #[must_use]
    pub const fn rekey_after(self) -> u64 {
        match self {
            Self::ChaCha20Poly1305 => 1 << 30,
            Self::Aes128Gcm | Self::Aes256Gcm | Self::Ctr(..) => 1 << 36,
        }
    }
}

/// Keys of one direction; they are wiped when they go.
pub struct Keys {
    /// The initial vector; empty where there is none.
    pub iv: Zeroizing<Vec<u8>>,
    /// The key of the cipher.
    pub key: Zeroizing<Vec<u8>>,
    /// The key of the MAC; empty where there is none.
    pub mac: Zeroizing<Vec<u8>>,
}

impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keys").finish_non_exhaustive()
    }
}
