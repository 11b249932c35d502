//! Carries everything between the two sides of a channel until it is over.

use std::io;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use russh::server::Handle;
use russh::{ChannelWriteHalf, client, server};
use tokio_util::sync::CancellationToken;

use super::conn::Conn;
use super::link::Link;
use crate::audit::Event;
use crate::flow::{self, Ended, Item, Queue, STDERR, Wire, Witness};
use crate::recording::{Lost, RECORDED, Recording, Terminal};
use crate::vm::Gate;

/// How long a closed channel's last bytes may take to reach the machine.
const LINGER: Duration = Duration::from_secs(5);
/// What interactive sessions read when the gateway goes down.
const RESTART: &str =
    "\r\nkite: the gateway is restarting; this session ends soon, log in again\r\n";

/// Why a channel ended that had to be recorded.
pub(crate) const UNRECORDED: &str = "it could not be recorded";

/// The two ends of a channel.
pub(crate) struct Ends<'a> {
    /// The user's connection.
    pub(crate) conn: &'a Conn,
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
    /// The way to the machine.
    pub(crate) wire: &'a Wire,
    /// A session: it ends with an exit status.
    pub(crate) is_session: bool,
}

impl Ends<'_> {
    /// Carries until the channel is over, and says why it is.
    pub(crate) async fn pump(&self, draining: &CancellationToken) -> &'static str {
        let ended = tokio::select! {
            ended = self.downwards() => match ended {
                Ended::Closed => "closed",
                Ended::Lost => "connection to the VM lost",
                Ended::Gone => "user gone",
                Ended::Stopped => UNRECORDED,
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
            ended = flow::to_user(
                self.down,
                self.user,
                &self.conn.wire,
                self.handle,
                self,
                self.is_session,
            ) => ended,
            () = self.link.gone.cancelled() => drained(self.down).await,
        }
    }

    async fn begin(&self, terminal: &Terminal) -> io::Result<Recording> {
        let gone = || io::Error::from(io::ErrorKind::NotConnected);
        let recordings = self.conn.shared.recordings.as_ref().ok_or_else(gone)?;
        let identity = self.conn.identity().ok_or_else(gone)?;
        let (login, vm) = (&identity.login, &identity.vm);
        let begun = recordings.begin(terminal, login, vm).await;
        let begun = begun.inspect_err(|error| {
            tracing::error!(%vm, %error, "a session cannot be recorded");
        })?;
        self.conn.record(Event::Recording {
            login: login.clone(),
            vm: vm.clone(),
            name: begun.name().to_owned(),
        });
        Ok(begun)
    }

    async fn upwards(&self) -> &'static str {
        match flow::to_vm(&self.link.up, self.machine, self.wire).await {
            // The user closed it and everything is delivered. The machine's
            // answering close is not waited for: russh does not tell of it.
            Ended::Closed => return "closed by the user",
            // The machine's side is over; what it sent last still goes down.
            Ended::Lost | Ended::Gone | Ended::Stopped => self.link.up.close(),
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

impl Gate for Ends<'_> {
    /// Begins to record a terminal that is to be recorded, before anything is
    /// started in it.
    async fn may_start(&self) -> Result<(), String> {
        match self.link.terminal.get() {
            Some(terminal) => self.recording(terminal).await.map(drop),
            None => Ok(()),
        }
    }
}

impl Ends<'_> {
    async fn recording(&self, terminal: &Terminal) -> Result<&Recording, String> {
        let begun = self.link.recording.get_or_try_init(|| self.begin(terminal));
        begun.await.map_err(|error| unrecorded(&error.to_string()))
    }
}

fn unrecorded(error: &str) -> String {
    format!("kite: this session has to be recorded, and cannot be: {error}")
}

impl Witness for Ends<'_> {
    /// Records what a terminal prints that is to be recorded.
    async fn sees(&self, item: &Item) -> Result<(), String> {
        let (Item::Data(data) | Item::Extended(_, data)) = item else {
            return Ok(());
        };
        self.conn.carries();
        let Some(terminal) = self.link.terminal.get() else {
            return Ok(());
        };
        let recording = self.recording(terminal).await?;
        // Not earlier: behind the answers to what was asked for.
        if !self.link.told.swap(true, Ordering::Relaxed) {
            flow::tell(self.user, RECORDED).await;
        }
        let printed = recording.printed(data).await;
        printed.map_err(|Lost| unrecorded("it could not be written any more"))
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
