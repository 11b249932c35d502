//! What both directions have: what protects packets, their numbers, and how much has passed.

use super::cipher::{ChaCha, Guard};
use super::{Keys, LENGTH, LONGEST, LONGEST_PLAIN, MOST_PACKETS, PacketError, Suite, Usage};

/// One direction.
pub(super) struct Half<C> {
    pub(super) guard: Guard<C>,
    suite: Option<Suite>,
    sequence: u32,
    usage: Usage,
}

impl<C> Default for Half<C> {
    fn default() -> Self {
        Self {
            guard: Guard::Plain,
            suite: None,
            sequence: 0,
            usage: Usage::default(),
        }
    }
}

impl<C> std::fmt::Debug for Half<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Half")
            .field("suite", &self.suite)
            .field("sequence", &self.sequence)
            .field("usage", &self.usage)
            .finish_non_exhaustive()
    }
}

impl<C: ChaCha> Half<C> {
    pub(super) fn rekey(
        &mut self,
        suite: Suite,
        keys: &Keys,
        strict: bool,
    ) -> Result<(), PacketError> {
        self.guard = Guard::new(suite, keys).map_err(|_| PacketError::Keys(suite))?;
        self.suite = Some(suite);
        self.usage = Usage::default();
        if strict {
            self.sequence = 0;
        }
        Ok(())
    }
}

impl<C> Half<C> {
    pub(super) fn usage(&self) -> Usage {
        self.usage
    }

    pub(super) fn is_due(&self) -> bool {
        self.suite.is_some_and(|suite| self.usage.is_due(suite))
    }

    /// The number of the next packet.
    ///
    /// # Errors
    /// There may be none under these keys.
    pub(super) fn sequence(&self) -> Result<u32, PacketError> {
        if self.usage.packets >= MOST_PACKETS {
            return Err(PacketError::Exhausted);
        }
        Ok(self.sequence)
    }

    /// Counts the packet that has that number.
    pub(super) fn count(&mut self, bytes: usize) {
        self.sequence = self.sequence.wrapping_add(1);
        self.usage.packets += 1;
        self.usage.bytes += bytes as u64;
    }

    /// Bytes that packets fill multiples of.
    pub(super) fn block(&self) -> usize {
        self.suite.map_or(8, Suite::block)
    }

    /// Bytes of a packet that count among those, beside the ones that its length tells:
    /// without keys those of the length itself.
    pub(super) fn before(&self) -> usize {
        self.suite.map_or(LENGTH, |_| 0)
    }

    /// The longest packet.
    pub(super) fn longest(&self) -> u32 {
        self.suite.map_or(LONGEST_PLAIN, |_| LONGEST)
    }

    /// Bytes of the tag behind a packet.
    pub(super) fn tag(&self) -> usize {
        self.suite.map_or(0, Suite::tag)
    }
}
