//! The transport of SSH for proxies, as state machines without I/O.
//!
//! A proxy that ends the transport and the login on both sides and passes the connection
//! protocol on leaves windows, replies and exit codes to the client and the server behind
//! it, as if it were not there. It needs packets and not channels, which is what this crate
//! has.
//!
//! ```
//! use kite_ssh_relay::keys::{Derivation, Direction, Hash};
//! use kite_ssh_relay::packet::{Opened, Opener, Sealer, Suite};
//!
//! // What a key exchange gives both sides.
//! let derivation = Derivation {
//!     hash: Hash::Sha256,
//!     secret: b"\0\0\0\x06secret",
//!     exchange: b"the hash of this exchange",
//!     session: b"the hash of the first exchange",
//! };
//! let suite = Suite::Aes128Gcm;
//! let keys = derivation.keys(suite, Direction::ClientToServer);
//! let (mut sealer, mut opener) = (Sealer::new(), Opener::new());
//! sealer.rekey(suite, &keys, true)?;
//! opener.rekey(suite, &keys, true)?;
//!
//! let mut wire = Vec::new();
//! sealer.seal(&[94, 0, 0, 0, 7], b"data of channel 7", &mut wire)?;
//! let Opened::Packet { payload, .. } = opener.open(&mut wire)? else {
//!     panic!("it is whole");
//! };
//! assert_eq!(&wire[payload][5..], b"data of channel 7");
//! # Ok::<(), kite_ssh_relay::packet::PacketError>(())
//! ```
//!
//! | Module | What it has |
//! |---|---|
//! | [`version`] | the first lines of a connection |
//! | [`packet`] | bytes to payloads and back, with each cipher |
//! | [`negotiate`] | the message `KEXINIT`, and what two sides agree on |
//! | [`kex`] | two public values to one secret, and the hash that is signed |
//! | [`keys`] | from the secret of a key exchange to keys |
//!
//! The order of messages, the login and the relay itself are not there yet.
//!
//! # What was weighed
//!
//! The registry has no library that offers packets and that a project under the Apache
//! licence can use: russh and makiko know sessions and channels, and keep packets to
//! themselves; `assh` and its `ssh-packet` have packets, under the GPL; `sunset` and
//! `libssh-rs` have sessions. A relay needs less than they have, and more than they let out.
//! Ciphers, MACs and hashes are those of `aws-lc-rs`, and wire types those of `ssh-encoding`.
//!
//! # Feature flags
//!
//! None.

pub mod algorithm;
pub mod certificate;
pub mod io;
pub mod kex;
pub mod keys;
pub mod login;
pub mod message;
pub mod negotiate;
pub mod packet;
pub mod relay;
pub mod sign;
pub mod transport;
pub mod verify;
pub mod version;
mod wire;

pub use wire::Malformed;
