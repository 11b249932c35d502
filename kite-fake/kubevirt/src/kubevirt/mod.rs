//! `KubeVirt`: VMs, their instances, launcher Pods and the agent on the node.
//!
//! ```text
//! VirtualMachine ──VirtualMachines──► VirtualMachineInstance ──Instances──► Pod virt-launcher-…
//!        ▲ printableStatus                   ▲ phase, address                │ scheduled, ready
//!        └───────────────────────────────────┴────────── NodeAgent ◄─────────┘ boots the guest
//! ```
//!
//! What each of them writes follows what `KubeVirt` 1.9 was seen to write.

mod admission;
mod agent;
mod cloud_init;
mod conditions;
mod configuration;
mod eviction;
mod freezing;
mod guests;
mod handler;
mod hotplug;
mod instance_status;
mod instances;
mod instancetype;
mod launcher;
mod live_update;
mod machine_status;
mod machines;
mod migratable;
mod migration;
mod migration_admission;
mod requests;
mod run;
mod snapshot;
mod snapshot_admission;
mod volumes;

pub use admission::KubeVirtAdmission;
pub use agent::NodeAgent;
pub use eviction::LauncherEvictions;
pub use guests::{Address, Guests, Machine, NoGuests, SshGuests};
pub use handler::VirtHandler;
pub use hotplug::HotplugVolumes;
pub use instances::Instances;
pub use machines::VirtualMachines;
pub use migration::{MigrationAgent, MigrationTriggers, Migrations};
pub use migration_admission::MigrationAdmission;
pub use requests::{SUBRESOURCES, VmSubresources};
pub use snapshot::{Clones, Restores, SnapshotContents, Snapshots};
pub use snapshot_admission::SnapshotAdmission;

pub(super) use conditions::find;

/// Holds VMs and instances until their controllers have let go.
const FINALIZER: &str = "kubevirt.io/virtualMachineControllerFinalize";
/// The generation of the VM that an instance was made from.
const VM_GENERATION: &str = "kubevirt.io/vm-generation";
/// Annotations that tell which API versions the controllers know.
const OBSERVED_VERSIONS: [&str; 2] = [
    "kubevirt.io/latest-observed-api-version",
    "kubevirt.io/storage-observed-api-version",
];
