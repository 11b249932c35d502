//! Flow control between the two sides of a channel.
//!
//! ```text
//! user ──► Handler::data ──► Queue ──► writer that waits for the VM's window ──► VM
//!            (never waits)     │
//!     Windows ◄── over its mark?
//!
//! VM ──► Throttled stream ──► Handler::data ──► Queue ──► writer that waits for the user's window ──► user
//!            └──── waits while the queue is over its mark ◄──┘
//! ```
//!
//! Nothing ever waits inside an SSH session's loop, so a stalled channel keeps
//! nobody else waiting: keystrokes, window adjustments and other channels'
//! data flow on. Memory per channel and direction is bounded by the mark, plus
//! one window of what users send; all together by the [`budget`](crate::budget):
//! when that is used up, the connection of a user whose machine does not read is
//! not read either.

mod pump;
mod queue;
mod stream;
mod window;
mod wire;

pub(crate) use pump::{Ended, STDERR, Witness, notice, tell, to_user, to_vm};
pub(crate) use queue::{Item, Queue};
pub(crate) use stream::{Brake, Pace, Paced, Room, Throttled};
pub(crate) use window::{INITIAL as INITIAL_WINDOW, Windows};
pub(crate) use wire::Wire;
