//! Payloads to packets.

use aws_lc_rs::aead::chacha20_poly1305_openssh::SealingKey;

use super::half::Half;
use super::{Keys, LEAST_PADDING, LENGTH, PacketError, Suite, Usage};

/// The sending direction of one side.
#[derive(Debug, Default)]
pub struct Sealer(Half<SealingKey>);

impl Sealer {
    /// One without keys, as a connection begins.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes new keys, after `NEWKEYS` has been sealed. With `strict` key exchange the
    /// sequence numbers begin anew.
    ///
    /// # Errors
    /// The keys are not those of the suite; nothing has changed then.
    pub fn rekey(&mut self, suite: Suite, keys: &Keys, strict: bool) -> Result<(), PacketError> {
        self.0.rekey(suite, keys, strict)
    }

    /// What has passed under the present keys.
    #[must_use]
    pub fn usage(&self) -> Usage {
        self.0.usage()
    }

    /// Whether the keys are to be changed, by packets or by bytes.
    #[must_use]
    pub fn is_due(&self) -> bool {
        self.0.is_due()
    }

    /// Appends the packet whose payload is `head` and then `tail` to `out`: a relay changes
    /// the beginning of a message, and passes the rest on.
    ///
    /// The padding is zeros: with these suites nothing is learnt of it, and random numbers
    /// would cost as much as the cipher.
    ///
    /// # Errors
    /// The payload is longer than a peer takes, or empty; the keys have served too long.
    /// Nothing is appended then.
    pub fn seal(&mut self, head: &[u8], tail: &[u8], out: &mut Vec<u8>) -> Result<(), PacketError> {
        let sequence = self.0.sequence()?;
        let block = self.0.block();
        let payload = head.len() + tail.len();
        if payload == 0 {
            return Err(PacketError::Empty);
        }
        let filled = self.0.before() + 1 + payload;
        let mut padding = block - filled % block;
        if padding < LEAST_PADDING {
            padding += block;
        }
        let length = 1 + payload + padding;
        let longest = self.0.longest();
        let said = u32::try_from(length).unwrap_or(u32::MAX);
        if said > longest {
            return Err(PacketError::TooLong {
                length: length as u64,
                longest,
            });
        }
        let start = out.len();
        out.reserve(LENGTH + length + self.0.tag());
        out.extend_from_slice(&said.to_be_bytes());
        // Less than two blocks.
        out.push(u8::try_from(padding).unwrap_or(u8::MAX));
        out.extend_from_slice(head);
        out.extend_from_slice(tail);
        out.resize(start + LENGTH + length, 0);
        if self.0.guard.seal(sequence, out, start).is_err() {
            out.truncate(start);
            return Err(PacketError::Cipher);
        }
        self.0.count(out.len() - start);
        Ok(())
    }
}
