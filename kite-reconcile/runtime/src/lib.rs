//! What operators run on, for any kinds that they name.
//!
//! ```text
//!              one watch for each kind
//! API server ──────────────────────────► caches, triggers ──► queue ──► reconcile
//!      ▲  writes, fenced and paced                                          │
//!      └────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! | Module | What |
//! |---|---|
//! | [`operator`] | all of an operator, from the kinds that it reconciles |
//! | [`process`] | what a process needs around its work: elected, fenced, paced, counted |
//! | [`controller`] | queues, and the controllers that work on them |
//! | [`cache`] | reads without requests, which see what was written; the watches behind them |
//! | [`kinds`] | how kinds are watched and kept |
//! | [`listener`] | what a controller hears of beside its own kind |
//! | [`queue`] | which object is reconciled next |
//! | [`context`] | what reconciles share |
//! | [`failure`] | why they do not come to their end |
//! | [`backoff`] | how long an object waits then |
//! | [`leader`] | leader election by a Lease |
//! | [`wire`] | every request: counted, and if it writes, fenced and paced |
//! | [`events`] | what is told to people who ask `kubectl describe` |
//! | [`health`] | whether a controller can do its work |
//! | [`metrics`] | what is counted |
//!
//! # Feature flags
//!
//! | Feature | What |
//! |---|---|
//! | `sim` | `sim`: reconcilers in the simulation of `kite-fake`, for tests; off by default |
//!
//! Which Kubernetes it is, a feature of `k8s-openapi` says.

pub mod backoff;
pub mod cache;
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
pub mod process;
pub mod queue;
#[cfg(feature = "sim")]
pub mod sim;
pub mod wire;

pub use kube::runtime::controller::Action;

pub use self::{
    cache::{CachedCluster, Caches, Watches},
    context::{Clock, Context},
    controller::{drive, error_policy, watching},
    failure::{Error, Failure},
    kinds::{KindOptions, Kinds},
    listener::Listener,
    metrics::{Metrics, RequestMetrics},
    operator::{Operator, Reconciler},
};
