//! Nodes, and what runs on them.

mod deployments;
mod nodes;
mod placement;
mod pod_status;
mod pods;

pub use deployments::Deployments;
pub use nodes::{NODE_NAME, Nodes};
pub use pods::Pods;
