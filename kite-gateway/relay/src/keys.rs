//! From the secret of a key exchange to keys (RFC 4253 §7.2).

use aws_lc_rs::digest::{Algorithm, Context, SHA256, SHA384, SHA512};
use zeroize::{Zeroize as _, Zeroizing};

use crate::packet::{Keys, Suite};

/// The hash of a key exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Hash {
    /// SHA-256.
    Sha256,
    /// SHA-384.
    Sha384,
    /// SHA-512.
    Sha512,
}

impl Hash {
    pub(crate) fn algorithm(self) -> &'static Algorithm {
        match self {
            Self::Sha256 => &SHA256,
            Self::Sha384 => &SHA384,
            Self::Sha512 => &SHA512,
        }
    }
}

/// Which way the packets go that keys are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Direction {
    /// What the client sends.
    ClientToServer,
    /// What the server sends.
    ServerToClient,
}

impl Direction {
    /// The letters of the initial vector, the key and the key of the MAC.
    const fn letters(self) -> [u8; 3] {
        match self {
            Self::ClientToServer => *b"ACE",
            Self::ServerToClient => *b"BDF",
        }
    }
}

/// What both sides have after a key exchange.
#[derive(Clone, Copy)]
pub struct Derivation<'a> {
    /// The hash of the exchange's method.
    pub hash: Hash,
    /// The shared secret as the method writes it into hashes: an `mpint`, or a `string`
    /// where it is of a hybrid method.
    pub secret: &'a [u8],
    /// The hash of this exchange.
    pub exchange: &'a [u8],
    /// The hash of the connection's first exchange.
    pub session: &'a [u8],
}

impl std::fmt::Debug for Derivation<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut out = f.debug_struct("Derivation");
        out.field("hash", &self.hash).finish_non_exhaustive()
    }
}

impl Derivation<'_> {
    /// The keys of one direction.
    #[must_use]
    pub fn keys(&self, suite: Suite, direction: Direction) -> Keys {
        let [iv, key, mac] = suite.lengths();
        let [for_iv, for_key, for_mac] = direction.letters();
        Keys {
            iv: self.take(for_iv, iv),
            key: self.take(for_key, key),
            mac: self.take(for_mac, mac),
        }
    }

    /// So many bytes of the stream that a letter stands for.
    fn take(&self, letter: u8, length: usize) -> Zeroizing<Vec<u8>> {
        let algorithm = self.hash.algorithm();
        // Whole hashes, so that the vector never grows and leaves a copy behind.
        let whole = length.next_multiple_of(algorithm.output_len());
        let mut made = Zeroizing::new(Vec::with_capacity(whole));
        while made.len() < length {
            let mut context = Context::new(algorithm);
            context.update(self.secret);
            context.update(self.exchange);
            if made.is_empty() {
                context.update(&[letter]);
                context.update(self.session);
            } else {
                context.update(&made);
            }
            made.extend_from_slice(context.finish().as_ref());
        }
        made[length..].zeroize();
        made.truncate(length);
        made
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(hash: Hash, parts: &[&[u8]]) -> Vec<u8> {
        let mut context = Context::new(hash.algorithm());
        for part in parts {
            context.update(part);
        }
        context.finish().as_ref().to_vec()
    }

    #[test]
    fn the_first_hash_has_the_letter_and_later_ones_what_came_before() {
        let (secret, exchange, session) = (&b"\0\0\0\x01k"[..], &b"exchange"[..], &b"session"[..]);
        for (method, letters) in [
            (Hash::Sha256, b"C"),
            (Hash::Sha384, b"C"),
            (Hash::Sha512, b"C"),
        ] {
            let derivation = Derivation {
                hash: method,
                secret,
                exchange,
                session,
            };
            let keys = derivation.keys(Suite::ChaCha20Poly1305, Direction::ClientToServer);
            let mut all = hash(method, &[secret, exchange, letters, session]);
            while all.len() < 64 {
                let next = hash(method, &[secret, exchange, &all]);
                all.extend(next);
            }
            assert_eq!(keys.key.as_slice(), &all[..64], "{method:?}");
            assert_eq!((keys.iv.len(), keys.mac.len()), (0, 0));
        }
    }

    #[test]
    fn no_two_keys_are_alike() {
        let derivation = Derivation {
            hash: Hash::Sha256,
            secret: b"\0\0\0\x01k",
            exchange: b"exchange",
            session: b"session",
        };
        let suite = Suite::Ctr(crate::packet::CtrKey::Aes128, crate::packet::Mac::Sha256Etm);
        let up = derivation.keys(suite, Direction::ClientToServer);
        let down = derivation.keys(suite, Direction::ServerToClient);
        let mut all = [&up.iv, &up.key, &up.mac, &down.iv, &down.key, &down.mac]
            .map(|key| key[..16].to_vec());
        all.sort();
        assert!(all.windows(2).all(|pair| pair[0] != pair[1]));
        let later = Derivation {
            exchange: b"a later one",
            ..derivation
        };
        assert_ne!(up.key, later.keys(suite, Direction::ClientToServer).key);
    }
}
