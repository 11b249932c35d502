//! SSH for proxies that pass the connection protocol on.
//!
//! A proxy that ends the transport and the login on both sides and passes the connection
//! protocol on leaves windows, replies and exit codes to the client and the server behind
//! it, as if it were not there. It needs packets and not channels, which is what this crate
//! has: a transport and a login for both roles as state machines without I/O, a thin layer of
//! tokio, and the relay.
//!
//! ```no_run
//! # use std::sync::Arc;
//! # use kite_ssh_relay::io::{Connection, ConnectionError};
//! use kite_ssh_relay::relay::{Everything, Held, Settings, hold, relay};
//!
//! # async fn enter() -> Result<Connection, ConnectionError> { Err(ConnectionError::Closed) }
//! # async fn serve(mut user: Connection, settings: Settings) -> Result<(), ConnectionError> {
//! // The user is logged in, and the server is not there yet: what is said is held meanwhile.
//! let mut held = Held::default();
//! let server = hold(&mut user, &mut held, enter()).await??;
//!
//! // From here on the two are as good as alone.
//! let for_ever = std::future::pending();
//! let ended = relay(user, server, held, &settings, &mut Everything, for_ever).await;
//! println!("{ended}");
//! # Ok(())
//! # }
//! ```
//!
//! `examples/proxy` is the whole of it.
//!
//! | Module | What it has |
//! |---|---|
//! | [`version`] | the first lines of a connection |
//! | [`packet`] | bytes to payloads and back, with each cipher |
//! | [`negotiate`] | the message `KEXINIT`, and what two sides agree on |
//! | [`kex`] | two public values to one secret, and the hash that is signed |
//! | [`keys`] | from the secret of a key exchange to keys |
//! | [`transport`] | one side of a connection: the order of all that |
//! | [`algorithm`], [`sign`], [`verify`] | signatures |
//! | [`login`] | letting users in, and getting in |
//! | [`certificate`] | certificates of users |
//! | [`io`] | a transport on a stream, with tokio |
//! | [`relay`] | passing the connection protocol on |
//! | [`message`] | numbers, and the message that ends a connection |
//!
//! # What was weighed
//!
//! The registry has no library that offers packets and that a project under the Apache
//! licence can use: russh and makiko know sessions and channels, and keep packets to
//! themselves; `assh` and its `ssh-packet` have packets, under the GPL; `sunset` and
//! `libssh-rs` have sessions. A relay needs less than they have, and more than they let out.
//! Ciphers, MACs, hashes and signatures are those of
//! `aws-lc-rs`, keys and certificates are read by `ssh-key`, and wire types by `ssh-encoding`.
//!
//! # Feature flags
//!
//! None that others would set (`fuzzing` is for this project's own checks).

pub mod algorithm;
pub mod certificate;
#[cfg(any(test, feature = "fuzzing"))]
mod decisions;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
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
