//! Simulation: reconcilers on a fresh cluster, step by step, while things go
//! wrong.
//!
//! A [`Simulation`] has participants (your [`Controller`]s), actors that play
//! the rest of the cluster, and a scenario. [`Simulation::run`] plays it from
//! the start, on a single thread and in simulated time. What happens next —
//! which request is carried out, which watch event is heard, which object is
//! reconciled — is chosen by a seed, so that the same plan and seed give the
//! same run, in any process. A [`Plan`](crate::fault::Plan) says what goes
//! wrong. [`Simulation::sweep`] tries every fault at every request.
//!
//! ```no_run
//! use std::sync::Arc;
//! use k8s_openapi::api::core::v1::{ConfigMap, Secret};
//! use kite_fake::sim::{Controller, Simulation, World};
//! use kube::runtime::controller::Action;
//! use kube::{Api, Resource, ResourceExt};
//! use kube::api::{Patch, PatchParams};
//! use serde_json::json;
//!
//! /// Keeps a Secret next to each `ConfigMap`.
//! async fn reconcile(map: Arc<ConfigMap>, client: kube::Client) -> Result<Action, kube::Error> {
//!     let secrets: Api<Secret> = Api::namespaced(client, &map.namespace().unwrap_or_default());
//!     let copy = json!({
//!         "apiVersion": "v1", "kind": "Secret",
//!         "metadata": {"name": map.name_any(), "ownerReferences": [map.controller_owner_ref(&())]},
//!         "stringData": map.data,
//!     });
//!     let params = PatchParams::apply("copier").force();
//!     secrets.patch(&map.name_any(), &params, &Patch::Apply(copy)).await?;
//!     Ok(Action::await_change())
//! }
//!
//! let copier = Controller::new("copier", |client: kube::Client| {
//!     move |map| reconcile(map, client.clone())
//! });
//! let simulation = Simulation::builder()
//!     .controller(copier.owns::<Secret>())
//!     .actors(kite_fake::actors::control_plane)
//!     .scenario(async |world: World| {
//!         let mut map = ConfigMap::default();
//!         map.metadata.name = Some("a".into());
//!         map.metadata.namespace = Some("default".into());
//!         map.data = Some([("k".into(), "v".into())].into());
//!         world.create(&map).await?;
//!         world.settle().await?;
//!         world.delete(&map).await?;
//!         world.settle().await
//!     })
//!     .build();
//! let summary = simulation.sweep().run();
//! assert!(summary.is_clean(), "{summary}");
//! ```
//!
//! `examples/own_operator/tests/survives.rs` is nearly this, run as a test: it
//! takes seconds. There the operator also asks whether its object is still there,
//! and leaves Kubernetes' own maps alone.
//!
//! # What is checked
//!
//! The run without faults is the reference ([`Plan::none`](crate::fault::Plan::none)).
//! Every other run must come to the same outcome:
//!
//! * it settles: nobody is busy, every watch event was heard, no timer is due
//!   soon ([`Rule::Settles`]);
//! * each time that the scenario lets it settle, the objects are the same, up to
//!   uids, resourceVersions, times, generated names and allocated addresses
//!   ([`Rule::State`]);
//! * objects were created and deleted as often ([`Rule::Lives`]);
//! * who looks at the settled world once more changes nothing
//!   ([`Rule::SecondPass`]); no object is left whose owners are gone
//!   ([`Rule::Orphan`]); nothing panics ([`Rule::Panic`]);
//! * each fault that was meant for a single request found it
//!   ([`Rule::Unfired`]);
//! * what [`Builder::always`] says holds after every step ([`Rule::Invariant`]).
//!
//! A participant has to take its time and its random numbers from what it is
//! given. The system's clock and entropy make runs differ, and so does what
//! uses them unseen: `tokio::select!` without `biased`, the order of a
//! `HashMap`, and `state()` of a kube `Store`, for which there is [`sorted`].
//!
//! The idea of injecting every fault at every step, of stale and unobserved
//! states, and of comparing with an undisturbed run is Sieve's (Sun et al.,
//! OSDI 2022); that of a single seeded thread is `FoundationDB`'s.

mod action;
mod cast;
mod controller;
mod due;
mod engine;
mod essence;
mod feed;
mod gate;
mod observer;
mod participant;
mod run;
mod simulation;
mod sweep;
mod world;

pub use controller::{Controller, ControllerContext, sorted};
pub use feed::Watched;
pub use observer::{Event, Lives};
pub use run::{Finding, Rule, Run, Violation};
pub use simulation::{Builder, Simulation};
pub use sweep::{Summary, Sweep};
pub use world::{ScenarioError, World};

/// What somebody said who panicked.
fn panic_message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "panic".to_owned())
}
