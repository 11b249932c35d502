//! The gateway's side towards a machine: one SSH connection per channel, so
//! that a channel that is not read holds up nobody but itself. Channels that
//! the machine opens come on the connection of the session or forward that
//! asked for them.

mod dial;
mod enter;
mod handler;
mod incoming;
mod mailboxes;
mod requests;

pub(crate) use dial::{DialError, Dialer, VmConnection, fingerprint};
pub(crate) use incoming::{Incoming, Origin};
pub(crate) use mailboxes::Mailboxes;
pub(crate) use requests::{Gate, Halt, Request, RequestReceiver, Requests};
