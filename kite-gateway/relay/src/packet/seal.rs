//! Payloads to packets.

use super::cipher::Seal;
use super::{
    Keys, LEAST_PADDING, LENGTH, LONGEST, LONGEST_PLAIN, MOST_PACKETS, PacketError, Suite, Usage,
};

/// The sending direction of one side.
pub struct Sealer {
    seal: Seal,
    suite: Option<Suite>,
    sequence: u32,
    usage: Usage,
}

impl Default for Sealer {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Debug for Sealer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut out = f.debug_struct("Sealer");
        out.field("suite", &self.suite)
            .field("sequence", &self.sequence)
            .finish_non_exhaustive()
    }
}

impl Sealer {
    /// One without keys, as a connection begins.
    #[must_use]
    pub fn new() -> Self {
        Self {
            seal: Seal::Plain,
            suite: None,
            sequence: 0,
            usage: Usage::default(),
        }
    }

    /// Takes new keys, after `NEWKEYS` has been sealed. With `strict` key exchange the
    /// sequence numbers begin anew.
    ///
    /// # Errors
    /// The keys are not those of the suite; nothing has changed then.
    pub fn rekey(&mut self, suite: Suite, keys: &Keys, strict: bool) -> Result<(), PacketError> {
        self.seal = Seal::new(suite, keys)?;
        self.suite = Some(suite);
        self.usage = Usage::default();
        if strict {
            self.sequence = 0;
        }
        Ok(())
    }

    /// What has passed under the present keys.
    #[must_use]
    pub fn usage(&self) -> Usage {
        self.usage
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
        if self.usage.packets >= MOST_PACKETS {
            return Err(PacketError::Exhausted);
        }
        let block = self.suite.map_or(8, Suite::block);
        // Without keys the length counts among what fills blocks.
        let before = if self.suite.is_some() { 0 } else { LENGTH };
        let payload = head.len() + tail.len();
        let filled = before + 1 + payload;
        let mut padding = block - filled % block;
        if padding < LEAST_PADDING {
            padding += block;
        }
        let length = 1 + payload + padding;
        let longest = self.suite.map_or(LONGEST_PLAIN, |_| LONGEST);
        let said = u32::try_from(length).unwrap_or(u32::MAX);
        if payload == 0 || said > longest {
            return Err(PacketError::TooLong {
                length: length as u64,
                longest,
            });
        }
        let start = out.len();
        out.reserve(LENGTH + length + self.suite.map_or(0, Suite::tag));
        out.extend_from_slice(&said.to_be_bytes());
        // Less than two blocks.
        out.push(u8::try_from(padding).unwrap_or(u8::MAX));
        out.extend_from_slice(head);
        out.extend_from_slice(tail);
        out.resize(start + LENGTH + length, 0);
        if self.seal.seal(self.sequence, out, start).is_err() {
            out.truncate(start);
            return Err(PacketError::Exhausted);
        }
        self.sequence = self.sequence.wrapping_add(1);
        self.usage.add(out.len() - start);
        Ok(())
    }
}
