//! What operators run on, for any kinds that they name.
//!
//! ```text
//!              one watch for each kind
//! API server ──────────────────────────► caches, triggers ──► queue ──► reconcile
//!      ▲  writes, fenced, rate-limited                                      │
//!      └────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! ```no_run
//! use std::sync::Arc;
//!
//! use async_trait::async_trait;
//! use k8s_openapi::api::core::v1::{ConfigMap, Secret};
//! use kite_cluster::{ABSENT, Cluster, ClusterExt as _, FieldManager, ObjectKey};
//! use kite_runtime::events::Reporter;
//! use kite_runtime::process::Process;
//! use kite_runtime::{Action, Error, Listener, Operator, Reconciler, Shared};
//! use kube::Resource as _;
//! use tokio_util::sync::CancellationToken;
//!
//! /// Gives each `ConfigMap` a Secret of its name.
//! struct Secrets;
//!
//! #[async_trait]
//! impl Reconciler for Secrets {
//!     type Object = ConfigMap;
//!     type Error = Error;
//!
//!     fn watches<L: Listener<ConfigMap>>(listener: L) -> L {
//!         listener.owns::<Secret>()
//!     }
//!
//!     async fn reconcile<C: Cluster>(
//!         &self,
//!         map: Arc<ConfigMap>,
//!         shared: &Shared<C>,
//!     ) -> Result<Action, Error> {
//!         let cluster = &shared.cluster;
//!         // Answered without a request: Secrets are watched.
//!         if cluster.get_opt::<Secret>(&ObjectKey::of(&*map)).await?.is_none() {
//!             let mut secret = Secret::default();
//!             // Refused if somebody else was first.
//!             secret.metadata.resource_version = Some(ABSENT.to_owned());
//!             secret.metadata.name.clone_from(&map.metadata.name);
//!             secret.metadata.namespace.clone_from(&map.metadata.namespace);
//!             secret.metadata.owner_references = map.controller_owner_ref(&()).map(|it| vec![it]);
//!             cluster.apply(FieldManager::new("secrets"), &secret).await?;
//!         }
//!         Ok(Action::await_change())
//!     }
//! }
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let client = kube::Client::try_default().await?;
//! let reporter = Reporter { controller: "example.org/secrets", instance: "secrets" };
//! let operator = Operator::new().controller(Secrets);
//! operator.run(client, Process::without_election(reporter), CancellationToken::new()).await?;
//! # Ok(())
//! # }
//! ```
//!
//! | Module | What |
//! |---|---|
//! | [`operator`] | all of an operator, from the kinds that it reconciles |
//! | [`plan`] | reconciles by plans: observe, decide without doing, carry out, tell |
//! | [`process`] | what a process needs around its work: elected, fenced, rate-limited, counted |
//! | [`controller`] | queues, and the controllers that work on them |
//! | [`cache`] | reads without requests, which see what was written; the watches behind them |
//! | [`kinds`] | how kinds are watched and kept |
//! | [`listener`] | what a controller watches beside its own kind |
//! | [`queue`] | which object is reconciled next |
//! | [`context`] | what reconciles share |
//! | [`failure`] | why they do not come to their end |
//! | [`backoff`] | how long an object waits then |
//! | [`leader`] | leader election by a Lease |
//! | [`wire`] | every request: counted, and if it writes, fenced and rate-limited |
//! | [`events`] | what is told to people who ask `kubectl describe` |
//! | [`health`] | whether a controller can do its work |
//! | [`metrics`] | what is counted |
//! | [`sim`](#feature-flags) | reconcilers in the simulation of `kite-fake`, for tests |
//!
//! # Feature flags
//!
//! | Feature | What |
//! |---|---|
//! | `sim` | the module `sim`; off by default |
//!
//! Which Kubernetes it is, a feature of `k8s-openapi` says.

pub mod backoff;
pub mod cache;
mod clock;
pub mod context;
pub mod controller;
pub mod events;
pub mod failure;
pub mod health;
mod isolate;
pub mod kinds;
pub mod leader;
pub mod listener;
pub mod metrics;
pub mod operator;
mod pace;
pub mod plan;
pub mod process;
pub mod queue;
mod refusals;
#[cfg(feature = "sim")]
pub mod sim;
pub mod wire;

pub use kube::runtime::controller::Action;

pub use self::{
    cache::{CachedCluster, Caches, Watches},
    clock::Clock,
    context::{Context, Shared},
    controller::{drive, error_policy, watching},
    failure::{Error, Failure},
    kinds::{KindOptions, Kinds},
    listener::Listener,
    metrics::Metrics,
    operator::{Operator, Reconciler},
    wire::RequestMetrics,
};
