//! The gateway's side towards a user: the login, the way into the machine, and what may pass
//! between the two.

mod conn;
mod enter;
mod entrance;
mod login;
mod progress;
mod review;
mod rights;
mod rules;
mod serve;
mod shown;
mod wait;

pub(crate) use conn::{Conn, Identity};
pub(crate) use entrance::Entrance;
pub(crate) use review::review;
pub(crate) use serve::{Shared, host_keys, serve, ssh_config};
