//! The gateway's side towards a machine: one SSH connection per channel, so
//! that a channel that is not read holds up nobody but itself.

mod dial;
mod handler;
mod requests;

pub(crate) use dial::{DialError, Dialer, VmConnection};
pub(crate) use requests::{Request, RequestReceiver, Requests};
