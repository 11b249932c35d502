//! Nodes, and what runs on them.

mod addresses;
mod conditions;
mod deployments;
mod hash;
mod jobs;
mod nodes;
mod owned;
mod placement;
mod pod_state;
mod pod_status;
mod pods;
mod replicas;
mod sets;
mod template;

pub use deployments::Deployments;
pub use jobs::Jobs;
pub use nodes::{NODE_NAME, Nodes};
pub use pods::Pods;
pub use replicas::Replicas;
pub use sets::Sets;
