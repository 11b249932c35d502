//! The actors that play the rest of a cluster on the in-memory API server.
//!
//! An [`Actor`] is a small level-triggered reconciler. It is written against
//! the Kubernetes API alone, so each one can be used by itself, next to any
//! others, on any API server. [`Actors::spawn`] runs a list of them on tokio:
//! one watch per kind for all of them, one queue for each. [`control_plane`] lists
//! those that every cluster has; [`objects`], [`events`] and [`storage`] are for who
//! plays another part of a cluster.
//!
//! ```text
//! discovery ─► watches ─► Actor::keys ─► queue ─► Actor::reconcile ─► API server ─┐
//!                 ▲                        ▲ after a delay (Rules, Timers)        │
//!                 └────────────────────────────────────────────────────────────────┘
//! ```
//!
//! In a settled cluster nobody writes. Delays and failures are set by [`Rules`]
//! for each [`Stage`]; time is tokio's, so a paused runtime lets an hour pass at
//! once. An actor that is started anew takes over where another one ended.
//!
//! | Actor | Plays |
//! |---|---|
//! | [`NamespaceLifecycle`], [`NamespaceDefaults`] | the namespace controller; the default `ServiceAccount` and root certificate |
//! | [`AccountTokens`] | the tokens controller: Secrets with the token of a `ServiceAccount` |
//! | [`GarbageCollector`] | background, foreground and orphaning deletion by owner uid |
//! | [`EndpointSlices`], [`Endpoints`], [`EndpointMirrors`], [`LoadBalancers`] | where Services lead, and from where |
//! | [`ClaimBinder`], [`AttributesProtection`] | volumes for claims; classes of volume attributes that are in use |
//! | [`Deployments`], [`Replicas`], [`StatefulSets`], [`DaemonSets`] | workloads with their Pods and revisions |
//! | [`Jobs`], [`CronJobs`] | work that has an end, and its times |
//! | [`DisruptionBudgets`] | the disruption controller |
//! | [`Nodes`], [`Pods`], [`TaintEvictions`] | two nodes, and the taints of all; a scheduler and kubelets; who has to leave a node |
//! | [`VolumeSnapshots`] | the CSI external-snapshotter |
//! | [`Certificates`], [`Gateways`], [`LeaseHolder`] | cert-manager, a Gateway API implementation, other leaders |
//!
//! Quotas are kept by the server itself.

mod actor;
mod catalog;
mod cell;
pub mod definitions;
mod driver;
pub mod events;
mod garbage;
mod hub;
mod informer;
pub mod kind;
mod labels;
pub(crate) mod loose;
pub(crate) mod mirror;
mod namespaces;
pub mod objects;
mod others;
mod queue;
mod references;
mod rules;
mod selecting;
mod services;
mod snapshots;
mod standard;
pub mod storage;
mod timers;
mod workloads;

pub use actor::{Actor, ActorError, Change, Context, Next, Watches};
pub use catalog::Catalog;
pub use definitions::{route_definitions, snapshot_definitions};
pub use driver::Actors;
pub use garbage::GarbageCollector;
pub use kind::{Key, Kind};
pub use namespaces::AccountTokens;
pub use namespaces::{NamespaceDefaults, NamespaceLifecycle};
pub use others::{Certificates, Gateways, LeaseHolder};
pub use references::References;
pub use rules::{Failure, Gate, Outcome, Rule, Rules, Selector, Stage};
pub use services::{EndpointMirrors, EndpointSlices, Endpoints, HOST_PORTS, LoadBalancers};
pub use snapshots::VolumeSnapshots;
pub use standard::control_plane;
pub use storage::{AttributesProtection, ClaimBinder};
pub use workloads::{
    CronJobs, DaemonSets, Deployments, DisruptionBudgets, Jobs, NODE_NAME, Nodes, Pods, Replicas,
    StatefulSets, TaintEvictions,
};
