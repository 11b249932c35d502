//! Carries everything between the two sides of a channel until it is over.

use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use russh::server::Handle;
use russh::{ChannelWriteHalf, client, server};
use tokio_util::sync::CancellationToken;

use super::link::Link;
use crate::flow::{self, Ended, Item, Queue, STDERR};

/// How long a closed channel's last bytes may take to reach the machine.
const LINGER: Duration = Duration::from_secs(5);
/// What interactive sessions read when the gateway goes down.
const RESTART: &str =
    "\r\nkite: the gateway is restarting; this session ends soon, log in again\r\n";

/// The two ends of a channel.
pub(crate) struct Ends<'a> {
    /// The user's side.
    pub(crate) link: &'a Link,
    /// What the machine sends.
    pub(crate) down: &'a Queue,
    /// Sends to the user.
    pub(crate) user: &'a ChannelWriteHalf<server::Msg>,
    /// Sends to the user what only a connection can.
    pub(crate) handle: &'a Handle,
    /// Sends to the machine.
    pub(crate) machine: &'a ChannelWriteHalf<client::Msg>,
}

impl Ends<'_> {
    /// Carries until the channel is over, and says why it is.
    pub(crate) async fn pump(&self, draining: &CancellationToken) -> &'static str {
        let ended = tokio::select! {
            ended = self.downwards() => match ended {
                Ended::Closed => "closed",
                Ended::Lost => "connection to the VM lost",
                Ended::Gone => "user gone",
            },
            () = self.leaving() => "user gone, VM did not take the rest",
            ended = self.upwards() => ended,
            never = self.warning(draining) => never,
        };
        self.link.up.close();
        self.down.close();
        ended
    }

    async fn downwards(&self) -> Ended {
        tokio::select! {
            ended = flow::to_user(self.down, self.user, self.handle) => ended,
            () = self.link.gone.cancelled() => drained(self.down).await,
        }
    }

    async fn upwards(&self) -> &'static str {
        match flow::to_vm(&self.link.up, self.machine).await {
            // The user closed it and everything is delivered. The machine's
            // answering close is not waited for: russh does not tell of it.
            Ended::Closed => return "closed by the user",
            // The machine's side is over; what it sent last still goes down.
            Ended::Lost | Ended::Gone => self.link.up.close(),
        }
        std::future::pending().await
    }

    async fn leaving(&self) {
        self.link.gone.cancelled().await;
        // What the user sent before closing still goes to the machine.
        self.link.up.push(Item::Close);
        tokio::time::sleep(LINGER).await;
    }

    async fn warning(&self, draining: &CancellationToken) -> &'static str {
        draining.cancelled().await;
        if self.link.interactive.load(Ordering::Relaxed) {
            let text = Bytes::from_static(RESTART.as_bytes());
            self.down.push(Item::Extended(STDERR, text));
        }
        std::future::pending().await
    }
}

/// Takes what the machine still sends, for nobody, until its channel is over.
async fn drained(queue: &Queue) -> Ended {
    while let Some(item) = queue.pop().await {
        match item {
            Item::Close => return Ended::Closed,
            Item::Lost => return Ended::Gone,
            Item::Data(_)
            | Item::Extended(..)
            | Item::Eof
            | Item::ExitStatus(_)
            | Item::ExitSignal { .. } => {}
        }
    }
    Ended::Gone
}
