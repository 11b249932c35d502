//! Reconcilers that make a cluster match Kite's custom resources.
//!
//! ```text
//!            ┌────────── one loop for every kind        ───────────┐
//! object ──► │ observe ──► plan (pure) ──► execute ──► plan again … │ ──► status, last
//!            └──────────────────────────────────────────────────────┘
//! ```
//!
//! A reconciler looks at everything that its decision depends on, *plans* from
//! that (a pure function: no I/O, clock or randomness), carries the steps out,
//! takes what came of them into what it has seen, and plans again until nothing
//! is left to do but wait. Status is written last, and only if it says something
//! new. A settled object costs reads and no write.
//!
//! Because each step is planned from what *is*, not from what was done before, a
//! crash at any step, a lost answer or a second controller changes nothing in
//! the outcome: names are deterministic, writes are server-side applies, deletes
//! carry the uid they mean, and what there can be only one of is decided by the
//! API server ([`claims`]).
//!
//! # Running all of it
//!
//! ```no_run
//! use kite_core::cluster::KubeCluster;
//! use kite_reconcile::{Context, run};
//! use tokio_util::sync::CancellationToken;
//!
//! # async fn example() -> Result<(), kube::Error> {
//! let client = kube::Client::try_default().await?;
//! let context = Context::new(KubeCluster::new(client.clone()));
//! let shutdown = CancellationToken::new();
//! run(client, context, shutdown).await;
//! # Ok(())
//! # }
//! ```
//!
//! # Provisioning VMs from another operator
//!
//! Apply a [`KiteVirtualMachine`](kite_core::crd::KiteVirtualMachine) through
//! [`Cluster`](kite_core::cluster::Cluster) wherever your operator decides that
//! there shall be one, and run [`run_provisioning`] in the same process; the
//! example `embed_provisioning` does just that. VMs need no Kite user: in a
//! namespace that is not a user's they have no owner to be suspended with.
//!
//! # Planning without a cluster
//!
//! ```
//! use kite_core::crd::{KiteVirtualMachine, KiteVirtualMachineSpec};
//! use kite_reconcile::{plan::Step, vm::{Observed, plan}};
//!
//! let mut vm = KiteVirtualMachine::new(
//!     "web",
//!     KiteVirtualMachineSpec::new(2, "4Gi".parse()?, "20Gi".parse()?, "debian-12", "web"),
//! );
//! vm.metadata.namespace = Some("dev".into());
//! vm.metadata.uid = Some("7a0e".into());
//! let plan = plan(&vm, &Observed::default())?;
//! assert!(matches!(plan.steps[..], [Step::AddFinalizer(_)]));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | Module | What |
//! |---|---|
//! | [`vm`], [`user`], [`image`], [`offer`], [`platform`], [`snapshot`], [`volume`] | one reconciler each: `reconcile`, and the pure `plan` |
//! | [`plan`] | what a plan consists of |
//! | [`kinds`] | how its kinds are watched and kept |
//! | [`claims`] | login names, domains, usernames and addresses of which there can be one |
//! | [`kept`] | for how long those are kept that were given back |
//! | [`siblings`] | what else a user has, by which a quota is judged |
//! | [`matches`](mod@matches) | whether an apply would change anything |
//! | [`objects`] | all kinds that are written, as one type |
//! | [`keys`] | where new key pairs come from |
//! | [`triggers`] | what triggers a reconcile of what |
//! | [`operator`] | all of it as a process runs it |
//! | [`story`](mod@story) | what a change of a status means to people who ask `kubectl describe` |
//! | [`cache`], [`events`], [`health`], [`leader`], [`wire`] | what it runs on: modules of `kite-runtime` |
//!
//! # Feature flags
//!
//! None.

mod claim_state;
pub mod claims;
mod configured;
mod context;
mod disk_claim;
mod ending;
mod error;
mod execute;
mod freezing;
pub mod image;
pub mod kept;
pub mod keys;
pub mod kinds;
pub mod matches;
mod moves;
pub mod objects;
pub mod offer;
pub mod operator;
pub mod plan;
pub mod platform;
mod progress;
mod refused;
mod reports;
mod room;
mod run;
pub mod siblings;
mod slots;
pub mod snapshot;
mod stage;
mod standing;
pub mod story;
pub mod triggers;
mod unreadable;
pub mod user;
pub mod vm;
pub mod volume;

pub use kite_runtime::{
    Clock, Failure, KindOptions, Kinds, Metrics, RequestMetrics, cache, error_policy, events,
    health, leader, wire,
};

pub use self::{
    context::{Context, Settings},
    error::Error,
    run::{
        run, run_images, run_offers, run_platform, run_provisioning, run_snapshots, run_users,
        run_virtual_machines, run_volumes,
    },
};

/// What Kite's reconcilers count, of nothing yet.
pub fn metrics() -> Metrics {
    Metrics::new(
        "kite",
        &[
            "KiteVirtualMachine",
            "KiteUser",
            "KiteImage",
            "KitePlatform",
            "KiteVirtualMachineOffer",
            "KiteSnapshot",
            "KiteVolume",
        ],
    )
}

/// What is counted of requests to the API server, of none yet.
pub fn request_metrics() -> RequestMetrics {
    RequestMetrics::new("kite")
}
