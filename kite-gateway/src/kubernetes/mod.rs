//! Routes out of a Kubernetes cluster.
//!
//! ```text
//! KiteVirtualMachine ─ sshId, power, hash, keys ─┐
//! KiteUser ─────────── public keys, suspended ───┤
//! Secret <vm>-ssh-key ─ key pair, host key ──────┼─► RouteTable ─► Routes::find
//! EndpointSlice ────── address and port ─────────┤
//! KitePlatform ─────── user authorities ─────────┘
//! ```
//!
//! VMs with an idle timeout have their use reported: [`report_activity`].
//!
//! Who is connected is reported, too, and ended by request: [`Reporter`].
//!
//! VMs that a login is to start are switched on by their spec: [`SpecStarter`].
//!
//! Four watches keep the table, one of which tells from the platform's status, too, what lies
//! between clients and the gateway. And the keys of each VM are read once, by the name of
//! their Secret; a login asks nothing of the API server, so logins cannot flood it and
//! go on while it is away.

mod activity;
mod connections;
mod ending;
mod host_key;
mod infrastructure;
mod keys;
mod mirror;
mod start;
mod table;
mod wanted;
mod watch;

pub use activity::report_activity;
pub use connections::{Live, ReportLimits, Reporter, watch_connections};
pub use host_key::{HostKeyError, host_key};
pub use start::SpecStarter;
pub use table::RouteTable;
pub use watch::{feed, watch_routes};
