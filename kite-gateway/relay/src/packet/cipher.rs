//! Suites with their keys, on `aws-lc-rs`.

use aws_lc_rs::aead::chacha20_poly1305_openssh as chacha;
use aws_lc_rs::aead::{AES_128_GCM, AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::cipher::{
    AES_128, AES_256, EncryptionContext, StreamingEncryptingKey, UnboundCipherKey,
};
use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::error::Unspecified;
use aws_lc_rs::hmac;
use aws_lc_rs::iv::FixedLength;
use zeroize::Zeroizing;

use super::LENGTH;
use super::suite::{CtrKey, Keys, Mac, Suite};

/// Bytes that counter mode turns at once.
const PIECE: usize = 2048;

/// The nonce of AES-GCM (RFC 5647 §7.1): four bytes that stay and a counter of eight.
pub(super) struct Invocation {
    fixed: [u8; 4],
    counter: u64,
}

impl Invocation {
    fn new(iv: [u8; 12]) -> Self {
        let [a, b, c, d, rest @ ..] = iv;
        Self {
            fixed: [a, b, c, d],
            counter: u64::from_be_bytes(rest),
        }
    }

    /// The nonce of the next packet. The number of packets under a key is bounded far below
    /// what the counter has.
    fn next(&mut self) -> Nonce {
        let mut nonce = [0; 12];
        let (fixed, counter) = nonce.split_at_mut(4);
        fixed.copy_from_slice(&self.fixed);
        counter.copy_from_slice(&self.counter.to_be_bytes());
        self.counter = self.counter.wrapping_add(1);
        Nonce::assume_unique_for_key(nonce)
    }
}

/// Counter mode, in both directions, with the MAC over what it makes.
pub(super) struct Counted {
    stream: StreamingEncryptingKey,
    mac: hmac::Key,
}

impl Counted {
    fn new(length: CtrKey, mac: Mac, keys: &Keys) -> Result<Self, Unspecified> {
        let algorithm = match length {
            CtrKey::Aes128 => &AES_128,
            CtrKey::Aes256 => &AES_256,
        };
        let iv: [u8; 16] = keys.iv.as_slice().try_into().map_err(|_| Unspecified)?;
        let key = UnboundCipherKey::new(algorithm, &keys.key)?;
        let start = EncryptionContext::Iv128(FixedLength::from(iv));
        let hash = match mac {
            Mac::Sha256Etm => hmac::HMAC_SHA256,
            Mac::Sha512Etm => hmac::HMAC_SHA512,
        };
        Ok(Self {
            stream: StreamingEncryptingKey::less_safe_ctr(key, start)?,
            mac: hmac::Key::new(hash, &keys.mac),
        })
    }

    /// Encrypts or decrypts: the two are the same.
    fn turn(&mut self, data: &mut [u8]) -> Result<(), Unspecified> {
        // The cipher does not write in place; what it writes may be a password.
        let mut scratch = Zeroizing::new([0; PIECE]);
        for piece in data.chunks_mut(PIECE) {
            let scratch = &mut scratch[..piece.len()];
            let done = self.stream.less_safe_update(piece, scratch)?;
            if done.written().len() != piece.len() {
                return Err(Unspecified);
            }
            piece.copy_from_slice(scratch);
        }
        Ok(())
    }

    fn sign(&self, sequence: u32, packet: &[u8]) -> hmac::Tag {
        let mut context = hmac::Context::with_key(&self.mac);
        context.update(&sequence.to_be_bytes());
        context.update(packet);
        context.sign()
    }
}

/// `ChaCha20`'s keys, of which the library has one type for each direction.
pub(super) trait ChaCha {
    /// From the bytes of both keys.
    fn of(key: &[u8; chacha::KEY_LEN]) -> Self;
}

impl ChaCha for chacha::SealingKey {
    fn of(key: &[u8; chacha::KEY_LEN]) -> Self {
        Self::new(key)
    }
}

impl ChaCha for chacha::OpeningKey {
    fn of(key: &[u8; chacha::KEY_LEN]) -> Self {
        Self::new(key)
    }
}

/// What protects the packets of one direction; `C` is one of [`ChaCha`]'s.
pub(super) enum Guard<C> {
    Plain,
    Gcm(LessSafeKey, Invocation),
    ChaCha(C),
    Counted(Box<Counted>),
}

impl<C: ChaCha> Guard<C> {
    pub(super) fn new(suite: Suite, keys: &Keys) -> Result<Self, Unspecified> {
        let gcm = |algorithm| {
            let iv: [u8; 12] = keys.iv.as_slice().try_into().map_err(|_| Unspecified)?;
            let key = LessSafeKey::new(UnboundKey::new(algorithm, &keys.key)?);
            Ok(Self::Gcm(key, Invocation::new(iv)))
        };
        match suite {
            Suite::Aes128Gcm => gcm(&AES_128_GCM),
            Suite::Aes256Gcm => gcm(&AES_256_GCM),
            Suite::ChaCha20Poly1305 => {
                let key = keys.key.as_slice().try_into().map_err(|_| Unspecified)?;
                Ok(Self::ChaCha(C::of(key)))
            }
            Suite::Ctr(length, mac) => {
                Ok(Self::Counted(Box::new(Counted::new(length, mac, keys)?)))
            }
        }
    }
}

impl Guard<chacha::SealingKey> {
    /// Seals the packet that begins at `start`, from its length to its padding, in place and
    /// appends the tag.
    pub(super) fn seal(
        &mut self,
        sequence: u32,
        out: &mut Vec<u8>,
        start: usize,
    ) -> Result<(), Unspecified> {
        match self {
            Self::Plain => {}
            Self::Gcm(key, nonce) => {
                let (length, body) = out[start..].split_at_mut(LENGTH);
                let tag = key.seal_in_place_separate_tag(nonce.next(), Aad::from(length), body)?;
                out.extend_from_slice(tag.as_ref());
            }
            Self::ChaCha(key) => {
                let mut tag = [0; chacha::TAG_LEN];
                key.seal_in_place(sequence, &mut out[start..], &mut tag);
                out.extend_from_slice(&tag);
            }
            Self::Counted(counted) => {
                counted.turn(&mut out[start + LENGTH..])?;
                let tag = counted.sign(sequence, &out[start..]);
                out.extend_from_slice(tag.as_ref());
            }
        }
        Ok(())
    }
}

impl Guard<chacha::OpeningKey> {
    /// What a packet says of its length. Nothing vouches for it yet.
    pub(super) fn length(&self, sequence: u32, first: [u8; LENGTH]) -> u32 {
        u32::from_be_bytes(match self {
            Self::ChaCha(key) => key.decrypt_packet_length(sequence, first),
            Self::Plain | Self::Gcm(..) | Self::Counted(_) => first,
        })
    }

    /// Opens a packet in place: its length, what it holds, and behind them its tag.
    pub(super) fn open(
        &mut self,
        sequence: u32,
        packet: &mut [u8],
        tag: &[u8],
    ) -> Result<(), Unspecified> {
        match self {
            Self::Plain => {}
            Self::Gcm(key, nonce) => {
                let (length, body) = packet.split_at_mut(LENGTH);
                key.open_in_place_separate_tag(nonce.next(), Aad::from(length), tag, body)?;
            }
            Self::ChaCha(key) => {
                let tag = tag.try_into().map_err(|_| Unspecified)?;
                key.open_in_place(sequence, packet, tag)?;
            }
            Self::Counted(counted) => {
                let right = counted.sign(sequence, packet);
                verify_slices_are_equal(right.as_ref(), tag)?;
                counted.turn(&mut packet[LENGTH..])?;
            }
        }
        Ok(())
    }
}
