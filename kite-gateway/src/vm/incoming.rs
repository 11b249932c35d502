//! Channels that a machine opens towards the user.

use std::sync::Arc;

use russh::client::{ChannelOpenHandle, Msg};
use russh::{Channel, ChannelId, ChannelWriteHalf};

use super::mailboxes::Mailboxes;
use crate::audit::Purpose;
use crate::flow::{Queue, Room as _, Wire};

/// What a machine opened.
#[derive(Clone, Debug)]
pub(crate) enum Origin {
    /// `auth-agent@openssh.com`.
    Agent,
    /// `x11`.
    X11 { address: String, port: u32 },
    /// `forwarded-tcpip`.
    Tcpip {
        connected: String,
        connected_port: u32,
        address: String,
        port: u32,
    },
    /// `forwarded-streamlocal@openssh.com`.
    Streamlocal { path: String },
}

impl Origin {
    /// The channel type's name, for records and metrics.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Agent => "auth-agent",
            Self::X11 { .. } => "x11",
            Self::Tcpip { .. } => "forwarded-tcpip",
            Self::Streamlocal { .. } => "forwarded-streamlocal",
        }
    }

    /// What the records say that it is for.
    pub(crate) fn purpose(&self) -> Purpose {
        match self {
            Self::Agent => Purpose::Agent,
            Self::X11 { .. } => Purpose::X11,
            Self::Tcpip { .. } | Self::Streamlocal { .. } => Purpose::Forward,
        }
    }

    /// What the records say of it.
    pub(crate) fn detail(&self) -> Option<String> {
        match self {
            Self::Agent => None,
            Self::X11 { address, port } => Some(format!("{address}:{port}")),
            Self::Tcpip {
                connected,
                connected_port,
                ..
            } => Some(format!("{connected}:{connected_port}")),
            Self::Streamlocal { path } => Some(path.clone()),
        }
    }
}

/// A channel that waits for the user's answer.
pub(crate) struct Incoming {
    pub(crate) origin: Origin,
    /// Sends to the machine on this channel.
    pub(crate) writer: ChannelWriteHalf<Msg>,
    /// What the machine sends on it.
    pub(crate) queue: Arc<Queue>,
    /// The answer to the machine.
    pub(crate) reply: ChannelOpenHandle,
    /// Keeps the queue until this is dropped.
    pub(crate) kept: Kept,
}

/// Forgets a channel's queue when it is dropped.
pub(crate) struct Kept {
    mailboxes: Arc<Mailboxes>,
    id: ChannelId,
}

impl Kept {
    /// The way to the machine.
    pub(crate) fn wire(&self) -> &Wire {
        self.mailboxes.wire()
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.mailboxes.remove(self.id);
    }
}

impl Incoming {
    pub(super) fn new(
        origin: Origin,
        channel: Channel<Msg>,
        mailboxes: Arc<Mailboxes>,
        reply: ChannelOpenHandle,
    ) -> Self {
        // The handler takes what comes; an unread half would stop the connection.
        let (_, writer) = channel.split();
        let id = writer.id();
        Self {
            origin,
            writer,
            queue: mailboxes.add(id),
            reply,
            kept: Kept { mailboxes, id },
        }
    }
}
