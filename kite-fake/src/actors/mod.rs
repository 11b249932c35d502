//! The actors that play the rest of a cluster on the in-memory API server.
//!
//! An [`Actor`] is a small level-triggered reconciler. It is written against
//! the Kubernetes API alone, so each one can be used by itself, next to any
//! others, on any API server. [`Actors::spawn`] runs a list of them on tokio:
//! one watch per kind for all of them, one queue for each. [`play`] starts
//! everybody.
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
//! | [`GarbageCollector`] | background, foreground and orphaning deletion by owner uid |
//! | [`CrdCleanup`] | the end of custom resource definitions |
//! | [`EndpointSlices`], [`LoadBalancers`] | where Services lead, and from where |
//! | [`ClaimBinder`] | volumes for claims |
//! | [`Replicas`], [`Jobs`] | readiness of `ReplicaSet`s, `StatefulSet`s and `DaemonSet`s; Jobs that are done |
//! | [`Nodes`], [`Pods`], [`Deployments`] | one node, a scheduler and kubelet, readiness |
//! | [`DataVolumes`], [`DataSources`], [`DataImportCrons`], [`StorageProfiles`], [`CdiAdmission`] | CDI |
//! | [`Certificates`], [`Gateways`], [`LeaseHolder`] | cert-manager, a Gateway API implementation, other leaders |
//! | [`Operators`] | the operators that install `KubeVirt` and CDI |
//! | [`VirtualMachines`], [`Instances`], [`NodeAgent`], [`KubeVirtAdmission`], [`LauncherEvictions`], [`VmSubresources`] | `KubeVirt`, with [`Guests`] inside |
//! | [`Snapshots`], [`SnapshotContents`], [`Restores`], [`Clones`], [`VolumeSnapshots`] | snapshots of VMs and of claims, and what is made from them |
//! | [`Migrations`], [`MigrationAgent`], [`MigrationTriggers`], [`HotplugVolumes`] | live migration; disks that are plugged in |
//!
//! Quotas are kept by the server itself.

mod actor;
mod catalog;
mod cdi;
mod cell;
mod crds;
mod definitions;
mod driver;
mod events;
mod garbage;
mod hub;
mod informer;
pub mod kind;
mod kubevirt;
pub(crate) mod loose;
pub(crate) mod mirror;
mod namespaces;
mod objects;
mod others;
mod queue;
mod references;
mod rules;
mod services;
mod snapshots;
mod standard;
mod storage;
mod timers;
mod workloads;

pub use actor::{Actor, ActorError, Change, Context, Next, Watches};
pub use catalog::Catalog;
pub use cdi::{CdiAdmission, DataImportCrons, DataSources, DataVolumes, StorageProfiles};
pub use crds::CrdCleanup;
pub use definitions::{
    cdi_definitions, kubevirt_definitions, operator_definitions, route_definitions,
    snapshot_definitions,
};
pub use driver::Actors;
pub use garbage::GarbageCollector;
pub use kind::{Key, Kind};
pub use kubevirt::{
    Address, Clones, Guests, HotplugVolumes, Instances, KubeVirtAdmission, LauncherEvictions,
    Machine, MigrationAdmission, MigrationAgent, MigrationTriggers, Migrations, NoGuests,
    NodeAgent, Restores, SUBRESOURCES, SnapshotAdmission, SnapshotContents, Snapshots, SshGuests,
    VirtualMachines, VmSubresources,
};
pub use namespaces::{NamespaceDefaults, NamespaceLifecycle};
pub use others::{Certificates, Gateways, LeaseHolder, Operators};
pub use rules::{Failure, Gate, Outcome, Rule, Rules, Selector, Stage};
pub use services::{EndpointSlices, HOST_PORTS, LoadBalancers};
pub use snapshots::VolumeSnapshots;
pub use standard::{control_plane, everything, play};
pub use storage::ClaimBinder;
pub use workloads::{Deployments, Jobs, NODE_NAME, Nodes, Pods, Replicas};
