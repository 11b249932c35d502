//! The binary packet protocol (RFC 4253 §6): bytes to payloads and back.
//!
//! [`Sealer`] and [`Opener`] are the two directions of one side. Neither does any I/O: the
//! one appends to a buffer, the other reads from one, in place. Both begin without keys, as a
//! connection does, and change them by `rekey`, at the message `NEWKEYS`.

mod cipher;
mod half;
mod open;
mod seal;
mod suite;

#[cfg(test)]
mod tests;

pub use open::{Opened, Opener};
pub use seal::Sealer;
pub use suite::{CtrKey, Keys, Mac, Suite};

/// Bytes of the member `packet_length`.
const LENGTH: usize = 4;
/// The longest packet, by its member `packet_length`, that is taken before there are keys:
/// what RFC 4253 §6.1 asks of everybody. Nothing of a stranger is kept beyond it.
pub const LONGEST_PLAIN: u32 = 35_000;
/// The longest that is taken with keys: what OpenSSH takes.
pub const LONGEST: u32 = 256 * 1024;
/// The least padding.
const LEAST_PADDING: usize = 4;
/// Packets under one key after which both sides change it at the latest (RFC 4344 §3.1).
pub const MOST_PACKETS: u64 = 1 << 31;

/// Why a packet cannot be read or written. Each ends the connection.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PacketError {
    /// `packet_length` is more than is taken.
    #[error("a packet of {length} bytes: at most {longest} are taken")]
    TooLong {
        /// What the packet says, or would.
        length: u64,
        /// What is taken.
        longest: u32,
    },
    /// `packet_length` has no room for a message and its padding, or does not fill blocks.
    #[error("a packet of {length} bytes: no message fills that with blocks of {block} bytes")]
    Length {
        /// What the packet says.
        length: u32,
        /// The block of the cipher.
        block: usize,
    },
    /// The padding is less than four bytes, or leaves no message.
    #[error("{padding} bytes of padding in a packet of {length}")]
    Padding {
        /// What the packet says.
        padding: u8,
        /// Its length.
        length: u32,
    },
    /// The tag is not that of the packet: it was changed, or the keys differ.
    #[error("a packet's tag does not fit it")]
    Tampered,
    /// The peer, or this side, did not change the keys in time.
    #[error("{MOST_PACKETS} packets under one key")]
    Exhausted,
    /// A payload without a byte: it has no number of a message.
    #[error("an empty message")]
    Empty,
    /// The library does not seal a packet.
    #[error("the cipher fails")]
    Cipher,
    /// Keys of another suite, or ones that the library does not take.
    #[error("the keys are not those of {0:?}")]
    Keys(Suite),
}

/// What has passed under the present keys.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Packets.
    pub packets: u64,
    /// Bytes on the wire.
    pub bytes: u64,
}

impl Usage {
    /// Whether the keys are to be changed.
    fn is_due(self, suite: Suite) -> bool {
        self.packets >= MOST_PACKETS / 2 || self.bytes >= suite.rekey_after()
    }
}
