//! The gateway's side towards a user: one SSH connection with any number of
//! channels, each bridged to a connection of its own to the machine.

mod bridge;
mod conn;
mod enter;
mod forwards;
mod handler;
mod link;
mod login;
mod progress;
mod pump;
mod relay;
mod review;
mod serve;
mod wait;

pub(crate) use conn::{Conn, Identity};
pub(crate) use review::review;
pub(crate) use serve::{Shared, serve, ssh_config};
