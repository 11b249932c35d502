//! An SSH gateway as a library: one port in front of many machines.
//!
//! A user logs in with a login name that leads to a machine; the gateway enters
//! that machine with a key of its own and passes the connection protocol on, as if it were
//! not there (`kite-ssh-relay` has the protocol). It knows
//! nothing of Kubernetes at its core: where names lead is a [`Routes`], who may
//! log in an [`Authenticator`], how machines are reached a [`Connector`], and
//! who reads the records an [`AuditSink`]. The [`kubernetes`] module has a
//! `Routes` that is fed by watches.
//!
//! ```
//! use std::collections::HashMap;
//! use std::sync::Arc;
//!
//! use kite_gateway::{Gateway, Route};
//! use russh::keys::{Algorithm, PrivateKey};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let routes: HashMap<String, Arc<Route>> = HashMap::new();
//! let gateway = Gateway::builder()
//!     .routes(routes)
//!     .host_key(PrivateKey::random(&mut rand::rng(), Algorithm::Ed25519)?)
//!     .build()?;
//! // gateway.serve(listener, shutdown).await?;
//! # drop(gateway);
//! # Ok(())
//! # }
//! ```
//!
//! | Module | What |
//! |---|---|
//! | [`route`], [`auth`], [`connect`], [`start`], [`audit`] | the traits, and implementations |
//! | `gateway`, [`config`] | putting it together; accept, limits, drain |
//! | `admission`, `startups`, `bans`, `standing`, `proxy` | who may connect, and from where |
//! | `user` | a user's connection: login, the way into the machine, and what may pass |
//! | [`fallback`] | login names without a machine lead to a host's own sshd |
//! | `machine` | why a machine cannot be entered |
//! | [`recording`] | terminal sessions as asciicasts, in a directory or an object store |
//! | [`terminal`] | terminals in machines without a user's connection |
//! | `hashing`, `turns`, `fitted` | the threads that verify passwords, whose turn it is, and what fitted just now |
//! | `sessions` | who is connected, and ending a connection |
//! | [`kubernetes`] | routes from watches; the host key from a Secret |
//! | [`metrics`] | what is counted |
//!
//! # Feature flags
//!
//! None that others would set (`fuzzing` is for this project's own checks). Uploads of
//! recordings go to the object stores that `object_store` is built with: depend on it
//! with `aws`, `gcp` or `azure`.

mod admission;
pub mod audit;
pub mod auth;
mod bans;
pub mod config;
pub mod connect;
pub mod fallback;
mod fitted;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
mod gateway;
mod hashing;
pub mod kubernetes;
mod machine;
pub mod metrics;
mod proxy;
pub mod recording;
pub mod route;
mod sessions;
mod socket;
mod standing;
pub mod start;
mod startups;
pub mod terminal;
mod turns;
mod user;

pub use audit::AuditSink;
pub use auth::{Authenticator, Certified, Proof, ProvenKey, RouteAuthenticator, Verdict};
pub use bans::BanPolicy;
pub use config::Config;
pub use connect::{Connector, TcpConnector};
pub use fallback::HostFallback;
pub use gateway::{BuildError, Gateway, GatewayBuilder};
pub use kite_core::cidr::{Cidr, ParseCidrError};
/// The protocol, whose certificates appear in this interface.
pub use kite_ssh_relay;
pub use recording::Recordings;
pub use route::{
    Authority, AuthorizedKey, Credential, LoginName, LoginRule, Presence, Route, Routes, Target,
    VmKey, VmState,
};
/// The SSH library whose keys and streams appear in this interface.
pub use russh;
pub use sessions::{SessionInfo, Sessions};
pub use standing::Infrastructure;
pub use start::Starter;
pub use startups::{MaxStartups, ParseMaxStartupsError};
