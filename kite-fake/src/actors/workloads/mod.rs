//! Nodes, and what runs on them.

mod addresses;
mod budgets;
mod conditions;
mod cron_jobs;
mod daemon_sets;
mod deployments;
mod expected;
mod hash;
mod jobs;
mod making;
mod node_taints;
mod nodes;
mod owned;
mod placement;
mod pod_ends;
pub(super) mod pod_state;
mod pod_status;
mod pods;
mod replicas;
mod revisions;
mod room;
mod scheduling;
mod shares;
mod stateful_sets;
mod taints;
mod template;

pub use budgets::DisruptionBudgets;
pub use cron_jobs::CronJobs;
pub use daemon_sets::DaemonSets;
pub use deployments::Deployments;
pub use jobs::Jobs;
pub use nodes::{NODE_NAME, Nodes};
pub use pods::Pods;
pub use replicas::Replicas;
pub use stateful_sets::StatefulSets;
pub use taints::TaintEvictions;
