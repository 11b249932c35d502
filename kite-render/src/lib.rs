//! From Kite's specs to typed Kubernetes, `KubeVirt` and CDI objects.
//!
//! Everything here is a pure function: no I/O, no clock, no randomness. The
//! same input gives the same bytes, so a reconciler can tell from a rendered
//! object and the one in the cluster whether there is anything to do.
//!
//! ```text
//! KiteUser ──► Namespace, NetworkPolicies, ResourceQuota, RoleBindings
//! KitePlatform ► Service kite-gateway-external, Ingress or HTTPRoutes kite-platform
//! KiteImage ─► DataVolume, DataSource (in the image namespace)
//! KiteVirtualMachine
//!    ├─► Secret <vm>-ssh-key ──► Secret <vm>-cloud-init-userdata ─┐
//!    ├─► DataVolume <vm>-disk ────────────────────────────────────┴─► VirtualMachine <vm>
//!    └─► Service vps-access-<vm>, Service vps-web-<vm> ──► Ingress <vm>
//! KiteSnapshot ► VolumeSnapshot, Lease <vm>-freeze
//! KiteVolume ──► DataVolume <volume>-volume
//! ```
//!
//! Rendered objects set only fields that the API server leaves as they are, so
//! that applying one twice changes nothing the second time. They carry Kite's
//! labels, and an owner wherever Kubernetes allows it.
//!
//! # A first object
//!
//! ```
//! use kite_core::{crd::{KiteVirtualMachine, KiteVirtualMachineSpec}, names};
//! use kite_render::{Vm, service};
//!
//! let mut object = KiteVirtualMachine::new(
//!     "web",
//!     KiteVirtualMachineSpec::new(2, "4Gi".parse()?, "20Gi".parse()?, "debian-12", "web"),
//! );
//! object.metadata.namespace = Some("kite-user-ann".into());
//! object.metadata.uid = Some("7a0e".into());
//! let vm = Vm::of(&object)?;
//! let service = service::access(&vm);
//! assert_eq!(service.metadata.name.as_deref(), Some("vps-access-web"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | Module | Renders |
//! |---|---|
//! | [`namespace`], [`isolation`], [`quota`], [`grant`] | what a user gets |
//! | [`image`] | a golden image in the image namespace |
//! | [`platform`] | how the gateway, the web page and the API are reached |
//! | [`keys`], [`cloud_init`] | how the gateway enters a guest, and how the guest learns it |
//! | [`disk`], [`machine`], [`migration`] | the VM itself, and its way to another size |
//! | [`windows`] | what is different for Windows guests |
//! | [`snapshot`], [`restore`] | its disk as it was at one moment, and one made from that |
//! | [`schedule`] | snapshots that a VM's schedule has made |
//! | [`volume`] | a disk apart from VMs, and a VM that has it |
//! | [`service`], [`exposure`] | how it is reached |
//! | [`install`] | an installation of Kite: its processes, their rights, policies, settings |
//! | [`reservation`] | claims of which there can be one |
//!
//! # Feature flags
//!
//! None.

pub mod cloud_init;
pub mod disk;
mod error;
pub mod exposure;
pub mod grant;
mod guest_file;
pub mod image;
pub mod install;
pub mod isolation;
pub mod keys;
pub mod machine;
pub mod migration;
pub mod namespace;
mod owner;
pub mod platform;
pub mod quota;
pub mod reservation;
pub mod restore;
pub mod schedule;
pub mod service;
pub mod snapshot;
pub mod volume;
pub mod windows;

pub use self::{
    error::RenderError,
    owner::{Image, Platform, Snapshot, User, Vm, Volume},
};
