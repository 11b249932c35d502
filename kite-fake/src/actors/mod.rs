//! The actors that play the rest of a cluster on the in-memory API server.
//!
//! An [`Actor`] is a small level-triggered reconciler. It is written against
//! the Kubernetes API alone, so each one can be used by itself, next to any
//! others, on any API server; [`Actors::spawn`] runs a list of them on tokio.
//! Delays and failures are set by [`Rules`], time is tokio's, so a paused
//! runtime lets an hour pass at once.

mod actor;
mod catalog;
mod cdi;
mod crds;
mod driver;
mod garbage;
mod informer;
pub mod kind;
mod kubevirt;
mod namespaces;
mod objects;
mod queue;
mod references;
mod rules;
mod services;
mod standard;
mod storage;
mod timers;
mod workloads;

pub use actor::{Actor, ActorError, Change, Context, Next, Watches};
pub use catalog::Catalog;
pub use cdi::{CdiAdmission, DataSources, DataVolumes};
pub use crds::CrdCleanup;
pub use driver::Actors;
pub use garbage::GarbageCollector;
pub use kind::{Key, Kind};
pub use kubevirt::{
    Address, Guests, Instances, KubeVirtAdmission, Machine, NoGuests, NodeAgent, SUBRESOURCES,
    SshGuests, VirtualMachines, VmSubresources,
};
pub use namespaces::{NamespaceDefaults, NamespaceLifecycle};
pub use rules::{Failure, Gate, Outcome, Rule, Rules, Selector, Stage};
pub use services::{EndpointSlices, HOST_PORTS, LoadBalancers};
pub use standard::{control_plane, everything, play};
pub use storage::ClaimBinder;
pub use workloads::{Deployments, NODE_NAME, Nodes, Pods};
