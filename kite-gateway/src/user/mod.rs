//! The gateway's side towards a user: one SSH connection with any number of
//! channels, each bridged to a connection of its own to the machine.

mod bridge;
mod handler;
mod link;
mod serve;

pub(crate) use serve::{Shared, serve, ssh_config};
