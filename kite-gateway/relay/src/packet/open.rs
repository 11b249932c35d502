//! Packets to payloads.

use std::ops::Range;

use super::cipher::Open;
use super::{
    Keys, LEAST_PADDING, LENGTH, LONGEST, LONGEST_PLAIN, MOST_PACKETS, PacketError, Suite, Usage,
};

/// What a buffer begins with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Opened {
    /// Part of a packet, whose first `needed` bytes are wanted before anything can be said.
    Part {
        /// At least so many bytes, from the packet's first on.
        needed: usize,
    },
    /// A packet.
    Packet {
        /// Where in the buffer its payload is now; never empty.
        payload: Range<usize>,
        /// Bytes of the packet: the next one begins there.
        consumed: usize,
        /// Its sequence number, which `UNIMPLEMENTED` names.
        sequence: u32,
    },
}

/// The receiving direction of one side.
pub struct Opener {
    open: Open,
    suite: Option<Suite>,
    sequence: u32,
    usage: Usage,
    /// What the packet that is partly there says of its length.
    length: Option<u32>,
}

impl Default for Opener {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Debug for Opener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut out = f.debug_struct("Opener");
        out.field("suite", &self.suite)
            .field("sequence", &self.sequence)
            .finish_non_exhaustive()
    }
}

impl Opener {
    /// One without keys, as a connection begins.
    #[must_use]
    pub fn new() -> Self {
        Self {
            open: Open::Plain,
            suite: None,
            sequence: 0,
            usage: Usage::default(),
            length: None,
        }
    }

    /// Takes new keys, after `NEWKEYS` has been opened and before anything behind it is.
    /// With `strict` key exchange the sequence numbers begin anew.
    ///
    /// # Errors
    /// The keys are not those of the suite; nothing has changed then.
    pub fn rekey(&mut self, suite: Suite, keys: &Keys, strict: bool) -> Result<(), PacketError> {
        self.open = Open::new(suite, keys)?;
        self.suite = Some(suite);
        self.usage = Usage::default();
        self.length = None;
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

    /// Opens the packet that `buffer` begins with, in place.
    ///
    /// # Errors
    /// The peer breaks the protocol: the connection is to end, and the buffer is not to be
    /// read any more.
    pub fn open(&mut self, buffer: &mut [u8]) -> Result<Opened, PacketError> {
        let Some(first) = buffer.first_chunk::<LENGTH>() else {
            return Ok(Opened::Part { needed: LENGTH });
        };
        let length = if let Some(length) = self.length {
            length
        } else {
            let length = self.open.length(self.sequence, *first);
            self.check(length)?;
            *self.length.insert(length)
        };
        let end = LENGTH + length as usize;
        let tag = self.suite.map_or(0, Suite::tag);
        let consumed = end + tag;
        let Some(whole) = buffer.get_mut(..consumed) else {
            return Ok(Opened::Part { needed: consumed });
        };
        let (packet, tag) = whole.split_at_mut(end);
        self.open
            .open(self.sequence, packet, tag)
            .map_err(|_| PacketError::Tampered)?;
        let padding = packet[LENGTH];
        let message = (length as usize).saturating_sub(1 + usize::from(padding));
        if usize::from(padding) < LEAST_PADDING || message == 0 {
            return Err(PacketError::Padding { padding, length });
        }
        let start = LENGTH + 1;
        let opened = Opened::Packet {
            payload: start..start + message,
            consumed,
            sequence: self.sequence,
        };
        self.length = None;
        self.sequence = self.sequence.wrapping_add(1);
        self.usage.add(consumed);
        Ok(opened)
    }

    fn check(&self, length: u32) -> Result<(), PacketError> {
        if self.usage.packets >= MOST_PACKETS {
            return Err(PacketError::Exhausted);
        }
        let (block, before, longest) = match self.suite {
            Some(suite) => (suite.block(), 0, LONGEST),
            None => (8, LENGTH, LONGEST_PLAIN),
        };
        if length > longest {
            return Err(PacketError::TooLong {
                length: length.into(),
                longest,
            });
        }
        let least = 1 + 1 + LEAST_PADDING;
        let filled = before + length as usize;
        if (length as usize) < least || !filled.is_multiple_of(block) {
            return Err(PacketError::Length { length, block });
        }
        Ok(())
    }
}
