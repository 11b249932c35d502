//! Faults between a client and its API server: a [`tower::Layer`] that loses,
//! delays and refuses requests as networks and API servers do.
//!
//! ```
//! use k8s_openapi::api::core::v1::ConfigMap;
//! use kite_fake::FakeCluster;
//! use kite_fake::fault::{Fault, Faults, Plan};
//! use kube::api::PostParams;
//! use tower::Layer as _;
//!
//! # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
//! # runtime.block_on(async {
//! let cluster = FakeCluster::builder().build()?;
//! // The second request is carried out, but its answer never arrives.
//! let faults = Faults::new(Plan::at(2, Fault::ResetAfterCommit));
//! let layer = faults.layer("my-operator");
//! let client = kube::Client::new(layer.layer(cluster.service()), "default");
//!
//! let maps: kube::Api<ConfigMap> = kube::Api::default_namespaced(client);
//! let mut map = ConfigMap::default();
//! map.metadata.name = Some("a".into());
//! assert!(maps.get_opt("a").await?.is_none());
//! assert!(maps.create(&PostParams::default(), &map).await.is_err());
//! assert!(maps.get_opt("a").await?.is_some());
//! assert_eq!(
//!     faults.injected()[0].to_string(),
//!     "request 2 (my-operator: create configmaps default/a): reset after commit"
//! );
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A [`Plan`] says what goes wrong when: at the k-th request, at a request that
//! a predicate picks, or at random from a seed. Each [`Fault`] is something that
//! a real API server or network does; its documentation says what causes it.
//! What was done is recorded ([`Injected`]).
//!
//! The layer works in front of any service that speaks HTTP to an API server,
//! so also in front of a real one. [`crate::sim`] drives it step by step.

mod answers;
mod call;
mod layer;
mod mode;
mod plan;
mod rival;
mod shared;
mod watches;

pub use call::Call;
pub use layer::{FaultLayer, FaultService};
pub use mode::Fault;
pub use plan::Plan;
pub use rival::RIVAL;
pub use shared::{Faults, Injected};

pub(crate) use layer::Uncounted;

/// What a service may fail with.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;
