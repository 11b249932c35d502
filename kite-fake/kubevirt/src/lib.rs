//! kite-fake-kubevirt: KubeVirt, CDI and the guests of VMs, played on an in-memory
//! cluster.
//!
//! What is here are [actors](kite_fake::actors): controllers that watch a
//! [`FakeCluster`](kite_fake::FakeCluster), or any API server, and write what KubeVirt 1.9
//! and CDI 1.66 were seen to write. [`play`] starts all of them, with what both refuse
//! and the subresources of VMs.
//!
//! ```
//! use std::sync::Arc;
//! use std::time::Duration;
//!
//! use kite_fake::FakeCluster;
//! use kite_fake::actors::{Rules, route_definitions, snapshot_definitions};
//! use kite_fake_kubevirt::{cdi_definitions, kubevirt_definitions, operator_definitions, play};
//! use serde_json::json;
//!
//! # let runtime = tokio::runtime::Builder::new_current_thread()
//! #     .enable_time().start_paused(true).build()?;
//! # runtime.block_on(async {
//! let cluster = FakeCluster::builder()
//!     .crds(kubevirt_definitions())
//!     .crds(cdi_definitions())
//!     .crds(operator_definitions())
//!     .crds(snapshot_definitions())
//!     .crds(route_definitions())
//!     .build()?;
//! let rules = Arc::new(Rules::instant());
//! let actors = play(&cluster, &rules, false, cluster.stopped());
//! cluster.create(json!({
//!     "apiVersion": "kubevirt.io/v1",
//!     "kind": "VirtualMachine",
//!     "metadata": {"name": "web", "namespace": "default"},
//!     "spec": {
//!         "runStrategy": "Always",
//!         "template": {"spec": {"domain": {
//!             "devices": {},
//!             "resources": {"requests": {"memory": "64Mi"}},
//!         }}},
//!     },
//! }))?;
//! assert!(actors.settled(Duration::from_secs(60)).await);
//! assert!(cluster.dump().contains("printableStatus: Running"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | Module | What |
//! |---|---|
//! | [`kubevirt`] | VMs, instances, launchers, the agent on the node, migrations, snapshots; admission and subresources |
//! | [`cdi`] | disks that are filled from an image, another disk or nothing |
//! | [`guest`] | what runs inside a VM: an SSH server with a small shell |
//! | [`kinds`], [`stages`] | their kinds, and the stages at which rules hold them up or have them fail |
//!
//! # Feature flags
//!
//! None of its own; which Kubernetes it is, a feature of `k8s-openapi` says.

pub mod cdi;
mod definitions;
pub mod guest;
pub mod kinds;
pub mod kubevirt;
mod operators;
mod snapshot_class;
pub mod stages;
mod standard;

pub use definitions::{cdi_definitions, kubevirt_definitions, operator_definitions};
pub use operators::Operators;
pub use stages::demo_rules;
pub use standard::{everything, everything_with_guests, play};
