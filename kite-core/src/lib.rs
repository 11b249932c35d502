//! What every part of Kite shares: its custom resources, the typed subset of
//! `KubeVirt` and CDI objects that it reads and writes, the names and labels it
//! gives, and the [`Cluster`](cluster::Cluster) abstraction through which it
//! talks to an API server.
//!
//! ```text
//! KiteUser ──► namespace ◄── KiteVirtualMachine ──► KiteImage
//!     ├── KiteToken
//!     ├── KiteInvite
//!     └── KiteSession            ├── KiteReservation ("ssh-id.web", "domain.web")
//!                            ├── KiteSnapshot (of its disk)
//!                            └── KiteConnection (who is connected)
//! KitePlatform "default": what holds for all of them
//! ```
//!
//! A user's desired state is a custom resource ([`crd`]); reconcilers turn it
//! into Kubernetes, `KubeVirt` ([`kubevirt`]) and CDI ([`cdi`]) objects; the
//! status of the custom resource says what was seen. Nothing else is stored.
//!
//! # A first VM
//!
//! ```
//! use kite_core::crd::{KiteVirtualMachine, KiteVirtualMachineSpec};
//!
//! let vm = KiteVirtualMachine::new(
//!     "web",
//!     KiteVirtualMachineSpec::new(2, "4Gi".parse()?, "20Gi".parse()?, "debian-12", "web"),
//! );
//! assert_eq!(kite_core::names::disk(&vm.metadata.name.unwrap()), "web-disk");
//! # Ok::<(), kite_core::quantity::ParseQuantityError>(())
//! ```
//!
//! | Module | What |
//! |---|---|
//! | [`crd`] | Kite's own custom resources and their generated CRDs |
//! | [`kubevirt`], [`cdi`], [`gateway_api`], [`volume_snapshot`] | the subset of foreign kinds that Kite reads and writes |
//! | [`cert_manager`] | whether an issuer of certificates is there |
//! | [`cluster`] | `Cluster`, `KubeCluster`, `MockCluster`, `ClusterError`: the crate `kite-cluster` |
//! | [`names`], [`labels`] | how objects are called and marked |
//! | [`managers`] | under whose names fields are owned |
//! | [`activity`] | when a VM was last used |
//! | [`connections`] | which process reports who is connected to VMs, and whether it lives |
//! | [`conditions`] | conditions after the Kubernetes API conventions |
//! | [`quantity`] | byte quantities such as `20Gi` |
//! | [`cidr`] | ranges of addresses such as `10.0.0.0/8` |
//! | [`span`], [`time`] | spans such as `72h`, and times, as an API server admits them |
//! | [`public_key`] | SSH public keys that can log in |
//! | [`versions`] | fields that only some versions of Kubernetes have as optional |
//! | [`watch_backoff`] | how long a watch that broke waits until it is begun again |
//! | [`password`] | PHC password hashes: argon2id written, bcrypt read |
//!
//! # Feature flags
//!
//! | Feature | What |
//! |---|---|
//! | `mock` | `cluster::MockCluster`, by mockall, for tests of single error paths; off by default |

pub use kite_cluster::{self as cluster, conditions, versions, watch_backoff};

pub mod activity;
pub mod cdi;
pub mod cert_manager;
pub mod cidr;
pub mod connections;
pub mod crd;
pub mod gateway_api;
pub mod kubevirt;
pub mod labels;
pub mod managers;
pub mod names;
pub mod password;
pub mod public_key;
pub mod quantity;
pub mod span;
pub mod time;
pub mod volume_snapshot;
