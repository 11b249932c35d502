//! Packets to payloads.

use std::ops::Range;

use aws_lc_rs::aead::chacha20_poly1305_openssh::OpeningKey;

use super::half::Half;
use super::{Keys, LEAST_PADDING, LENGTH, LONGEST_PLAIN, PacketError, Suite, Usage};

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
#[derive(Debug, Default)]
pub struct Opener {
    half: Half<OpeningKey>,
    /// What the packet that is partly there says of its length.
    length: Option<u32>,
    /// Long packets are taken.
    is_wide: bool,
}

impl Opener {
    /// One without keys, as a connection begins.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes new keys, after `NEWKEYS` has been opened and before anything behind it is.
    /// With `strict` key exchange the sequence numbers begin anew.
    ///
    /// # Errors
    /// The keys are not those of the suite; nothing has changed then.
    pub fn rekey(&mut self, suite: Suite, keys: &Keys, strict: bool) -> Result<(), PacketError> {
        self.half.rekey(suite, keys, strict)?;
        self.length = None;
        Ok(())
    }

    /// From now on packets of up to [`LONGEST`](super::LONGEST) bytes are taken, as soon as there
    /// are keys.
    pub fn open_wide(&mut self) {
        self.is_wide = true;
    }

    /// What has passed under the present keys.
    #[must_use]
    pub fn usage(&self) -> Usage {
        self.half.usage()
    }

    /// Whether the keys are to be changed, by packets or by bytes.
    #[must_use]
    pub fn is_due(&self) -> bool {
        self.half.is_due()
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
            let length = self.half.guard.length(self.half.sequence()?, *first);
            self.check(length)?;
            *self.length.insert(length)
        };
        let end = LENGTH + length as usize;
        let consumed = end + self.half.tag();
        let Some(whole) = buffer.get_mut(..consumed) else {
            return Ok(Opened::Part { needed: consumed });
        };
        let (packet, tag) = whole.split_at_mut(end);
        let sequence = self.half.sequence()?;
        let opened = self.half.guard.open(sequence, packet, tag);
        opened.map_err(|_| PacketError::Tampered)?;
        let padding = packet[LENGTH];
        let message = (length as usize).saturating_sub(1 + usize::from(padding));
        if usize::from(padding) < LEAST_PADDING || message == 0 {
            return Err(PacketError::Padding { padding, length });
        }
        let start = LENGTH + 1;
        let opened = Opened::Packet {
            payload: start..start + message,
            consumed,
            sequence,
        };
        self.length = None;
        self.half.count(consumed);
        Ok(opened)
    }

    fn check(&self, length: u32) -> Result<(), PacketError> {
        let block = self.half.block();
        let longest = if self.is_wide {
            self.half.longest()
        } else {
            LONGEST_PLAIN
        };
        if length > longest {
            return Err(PacketError::TooLong {
                length: length.into(),
                longest,
            });
        }
        let least = 1 + 1 + LEAST_PADDING;
        let filled = self.half.before() + length as usize;
        if (length as usize) < least || !filled.is_multiple_of(block) {
            return Err(PacketError::Length { length, block });
        }
        Ok(())
    }
}
