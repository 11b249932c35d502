//! kite-fake: an in-memory Kubernetes for tests, demos and simulations.
//!
//! [`FakeCluster`] is an API server that answers like a real one (every answer
//! of the recorded transcripts in `tests/transcripts` is checked), without
//! sockets, without a disk, without waiting: it starts in milliseconds, takes
//! its time from tokio (a paused runtime lets an hour pass at once) and its
//! identifiers from a seed. It knows nothing of Kite.
//!
//! ```
//! use k8s_openapi::api::core::v1::ConfigMap;
//! use kite_fake::FakeCluster;
//! use kube::{Api, api::PostParams};
//!
//! # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
//! # runtime.block_on(async {
//! let cluster = FakeCluster::builder().seed(7).build()?;
//! let maps: Api<ConfigMap> = Api::default_namespaced(cluster.client());
//!
//! let mut map = ConfigMap::default();
//! map.metadata.name = Some("greeting".into());
//! map.data = Some([("text".into(), "hello".into())].into());
//! let created = maps.create(&PostParams::default(), &map).await?;
//!
//! assert!(created.metadata.uid.is_some());
//! assert_eq!(maps.get("greeting").await?.data, map.data);
//! assert_eq!(cluster.server().log().writes(), 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # How it is built
//!
//! ```text
//!  kube::Client::new(cluster.service())      kubectl, curl, other processes
//!                 │                                     │ HTTP
//!             service (tower)  ◄────────────────────  serve
//!                 │  one request at a time, synchronous, no I/O
//!             server ── auth ── rest (paths, options, selectors, media types)
//!                 │  ├─ builtin, schema      what a kind is
//!                 │  ├─ fields, patch        how a write changes an object
//!                 │  └─ discovery, openapi, table    how it is described
//!             store: one revision counter, objects as text, a bounded event log
//!                 ▲
//!             actors: the rest of a cluster, clients like any other
//! ```
//!
//! | Module | What |
//! |---|---|
//! | [`server`] | requests in, answers out: every verb, admission, watches, reviews |
//! | [`store`] | objects and their history |
//! | [`rest`] | what a request says |
//! | [`auth`] | tokens, impersonation, RBAC |
//! | [`status`] | failures in the server's words |
//! | [`schedule`] | schedules as cron and `CronJob`s have them |
//! | [`schema`], [`builtin`] | the shape and rules of custom and built-in kinds |
//! | [`registry`] | which kinds are served, in which versions |
//! | [`fields`], [`patch`] | server-side apply, `managedFields`, the patch formats |
//! | [`metadata`], [`names`] | rules that hold for all kinds |
//! | [`discovery`], [`openapi`], [`table`] | what clients read about the API, and tables |
//! | [`protobuf`] | what Go's clients send and read by default |
//! | [`hooks`] | who answers for webhooks of the cluster |
//! | [`actors`] | the controllers of the control plane, and what plays further parts of a cluster |
//! | [`fault`] | what goes wrong between a client and its API server |
//! | [`sim`] | reconcilers step by step, in simulated time, with every fault at every request |
//! | [`service`], [`serve`] | the tower service and the HTTP server |
//! | [`clock`] | time and identifiers |
//! | [`state`] | snapshots: keep, put back, dump, compare, file |
//!
//! # Feature flags
//!
//! - `cel` (default): rules in CEL, of definitions and of admission policies. Without it
//!   definitions that have rules are refused, and so is what policies are about.
//!
//! - `oidc`: tokens of service accounts are signed, and `/openid/v1/jwks` has the key.
//!
//! - `tls`: HTTPS with a certificate authority of its own
//!   ([`FakeCluster::serve_tls`]).
//!
//! - `webhooks`: calls webhooks of the cluster over HTTPS ([`hooks`]); those that answer in
//!   the same process are asked without it.
//!
//! Which Kubernetes it is, a feature of `k8s-openapi` says, such as `latest`. `tokio` is
//! used with `test-util`, by which time can be virtual.
//!
//! # What it does not do
//!
//! What the server does not do answers 501 with a `Status` that names it:
//! [`server::SUPPORT`] lists it.

pub mod actors;
pub mod auth;
mod build_error;
mod builder;
pub mod builtin;
pub mod clock;
mod cluster;
mod desk;
pub mod discovery;
mod endpoint;
mod extension;
pub mod fault;
mod field_error;
mod field_manager;
pub mod fields;
mod go;
mod go_json;
mod go_types;
mod held;
pub mod hooks;
mod members;
mod memo;
pub mod metadata;
pub mod names;
pub mod openapi;
pub mod patch;
mod path_element;
mod percent;
pub mod protobuf;
pub mod registry;
pub mod rest;
pub mod schedule;
pub mod schema;
pub mod serve;
pub mod server;
pub mod service;
pub mod sim;
pub mod state;
pub mod status;
pub mod store;
pub mod table;
#[cfg(test)]
mod testing;
mod webhook_answers;
mod yaml;

pub use build_error::BuildError;
pub use builder::Builder;
pub use cluster::FakeCluster;
