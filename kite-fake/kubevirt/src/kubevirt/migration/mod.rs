//! Live migration: a running instance moves to another node.
//!
//! ```text
//! VirtualMachineInstanceMigration ─Migrations─► target Pod ─► status.migrationState of the instance
//!        ▲ made by people, and by MigrationTriggers           │ MigrationAgent: both nodes
//!        └── Pending, Scheduling, … Succeeded or Failed ◄─────┘
//! ```

mod agent;
mod controller;
mod state;
mod target;
mod triggers;

pub use agent::MigrationAgent;
pub use controller::Migrations;
pub(super) use state::{is_active, is_copying};
pub use triggers::MigrationTriggers;

/// Holds a migration until its controller has let go.
const FINALIZER: &str = "kubevirt.io/migrationJobFinalize";
/// On the target Pod: the uid of its migration.
const JOB_UID: &str = "kubevirt.io/migrationJobUID";
/// On the target Pod: the name of its migration.
const JOB_NAME: &str = "kubevirt.io/migrationJobName";
/// On an instance: the node it is moving to.
const TARGET_NODE: &str = "kubevirt.io/migrationTargetNodeName";
/// On a migration: its instance.
const SELECTOR: &str = "kubevirt.io/vmi-name";
