//! Joins one channel that a user opened with one channel on a connection of its
//! own to the machine.

use std::sync::Arc;

use russh::server::{ChannelOpenHandle, Handle};
use russh::{Channel, ChannelOpenFailure, ChannelWriteHalf, client, server};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::conn::Conn;
use super::enter::{EnterError, enter, refused};
use super::link::Link;
use super::pump::{Ends, UNRECORDED};
use super::relay::relay;
use super::wait::Waiting;
use crate::audit::Purpose;
use crate::budget::Paid;
use crate::flow::{self, Room as _};
use crate::metrics::Way;
use crate::vm::{Halt, Mailboxes, RequestReceiver, VmConnection};

/// Exit status of a session that the gateway could not bring to its machine.
const UNAVAILABLE: u32 = 255;
/// `SSH_OPEN_CONNECT_FAILED` (RFC 4254 §5.1).
const CONNECT_FAILED: u32 = 2;

/// What a user opened.
#[derive(Clone, Debug)]
pub(crate) enum Kind {
    /// `session`.
    Session,
    /// `direct-tcpip`: connect from the machine to a host and port.
    DirectTcpip {
        host: String,
        port: u32,
        originator: String,
        originator_port: u32,
    },
    /// `direct-streamlocal@openssh.com`: connect to a socket in the machine.
    DirectStreamlocal { path: String },
}

impl Kind {
    /// What the records say that it is for, as long as nothing more is known.
    pub(crate) fn purpose(&self) -> Purpose {
        match self {
            Self::Session => Purpose::Nothing,
            Self::DirectTcpip { .. } | Self::DirectStreamlocal { .. } => Purpose::Forward,
        }
    }

    /// The channel type's name, for records and metrics.
    fn name(&self) -> &'static str {
        match self {
            Self::Session => "session",
            Self::DirectTcpip { .. } => "direct-tcpip",
            Self::DirectStreamlocal { .. } => "direct-streamlocal",
        }
    }
}

/// One channel to bridge.
pub(crate) struct Bridge {
    pub(crate) conn: Arc<Conn>,
    pub(crate) kind: Kind,
    pub(crate) link: Arc<Link>,
    pub(crate) writer: ChannelWriteHalf<server::Msg>,
    pub(crate) handle: Handle,
    /// Opens the channel towards the user, or refuses it; none once it is open.
    pub(crate) reply: Option<ChannelOpenHandle>,
    pub(crate) requests: RequestReceiver,
    /// For the memory that it takes.
    pub(crate) _paid: Paid,
}

impl Bridge {
    /// Opens the machine's side, answers the user's request for the channel,
    /// and carries everything until the channel is over.
    pub(crate) async fn run(self) {
        let (conn, link) = (Arc::clone(&self.conn), Arc::clone(&self.link));
        let counted = conn.count(self.kind.name());
        let id = self.writer.id().into();
        let ended = self.carry().await;
        conn.remove(id);
        counted.ended(
            link.purpose(),
            link.detail().as_deref(),
            link.up.total(),
            link.down.total(),
            ended,
        );
    }

    /// Gives why the channel ended.
    async fn carry(mut self) -> String {
        let cut = CancellationToken::new();
        let _guard = cut.clone().drop_guard();
        let gone = self.link.gone.clone();
        let opened = tokio::select! {
            opened = async {
                self.wait().await?;
                self.open(cut).await
            } => opened,
            () = gone.cancelled() => return "user gone before it was open".to_owned(),
        };
        let (mut vm, channel, mailboxes) = match opened {
            Ok(opened) => opened,
            Err(error) => return self.explain(&error).await,
        };
        self.accept().await;
        // The handler takes what comes; an unread half would stop the connection.
        let (_, machine) = channel.split();
        let ends = Ends {
            conn: &self.conn,
            link: &self.link,
            down: &self.link.down,
            user: &self.writer,
            handle: &self.handle,
            machine: &machine,
            wire: mailboxes.wire(),
            is_session: matches!(self.kind, Kind::Session),
        };
        let relays = TaskTracker::new();
        let asking = async {
            match self.requests.run(&machine, &vm.replies, &ends).await {
                Err(Halt::Forbidden(why)) => {
                    flow::notice(ends.user, &why, UNAVAILABLE).await;
                    UNRECORDED
                }
                // That the machine is gone shows in the pump.
                Ok(()) | Err(Halt::Gone) => std::future::pending().await,
            }
        };
        let relaying = async {
            while let Some(incoming) = vm.incoming.recv().await {
                relays.spawn(relay(Arc::clone(&self.conn), incoming));
            }
            std::future::pending().await
        };
        let ended = tokio::select! {
            ended = ends.pump(&self.conn.shared.draining) => ended,
            ended = asking => ended,
            never = relaying => never,
        };
        vm.replies.fail_all();
        // An X11 window or an agent's answer may outlive the session, as without
        // a gateway.
        relays.close();
        tokio::select! {
            () = relays.wait() => {}
            () = self.conn.gone.cancelled() => {}
        }
        vm.end().await;
        ended.to_owned()
    }

    /// Opens the channel towards the user, once.
    async fn accept(&mut self) {
        if let Some(reply) = self.reply.take() {
            reply.accept().await;
        }
    }

    /// Waits for a machine that is to be started for this; a session reads how it
    /// comes along.
    async fn wait(&mut self) -> Result<(), EnterError> {
        let conn = Arc::clone(&self.conn);
        let Some(mut waiting) = Waiting::of(&conn).await? else {
            return Ok(());
        };
        while let Some(line) = waiting.next().await? {
            if matches!(self.kind, Kind::Session) {
                self.accept().await;
                flow::tell(&self.writer, &line).await;
            }
        }
        Ok(())
    }

    async fn open(
        &self,
        cut: CancellationToken,
    ) -> Result<(VmConnection, Channel<client::Msg>, Arc<Mailboxes>), EnterError> {
        let mailboxes = Arc::new(Mailboxes::new(
            Arc::clone(&self.link.down),
            self.conn.shared.metrics.strain(Way::Down),
            self.conn.share().cloned(),
        ));
        self.link.attach(Arc::clone(&mailboxes));
        let connection = enter(&self.conn, Arc::clone(&mailboxes), cut).await?;
        let handle = &connection.handle;
        let channel = match &self.kind {
            Kind::Session => handle.channel_open_session().await,
            Kind::DirectTcpip {
                host,
                port,
                originator,
                originator_port,
            } => {
                handle
                    .channel_open_direct_tcpip(host, *port, originator, *originator_port)
                    .await
            }
            Kind::DirectStreamlocal { path } => handle.channel_open_direct_streamlocal(path).await,
        };
        match channel {
            Ok(channel) => Ok((connection, channel, mailboxes)),
            Err(error) => {
                connection.end().await;
                Err(refused(&self.conn, error))
            }
        }
    }

    /// Tells the user why there is no machine behind the channel: a session is
    /// opened in order to print it and end with a status; other channels carry
    /// it in their refusal.
    async fn explain(self, error: &EnterError) -> String {
        let Self {
            kind,
            link,
            writer,
            reply,
            ..
        } = self;
        let refusal = match error {
            // The machine's own refusal is passed on as it is.
            EnterError::Refused { error, .. }
                if let russh::Error::ChannelOpenFailure(reason) = &**error =>
            {
                reason.clone()
            }
            error => ChannelOpenFailure::Other {
                code: CONNECT_FAILED,
                reason: error.to_string(),
            },
        };
        let Some(reply) = reply else {
            // It is open, and what was asked of it has waited for the machine.
            flow::notice(&writer, &error.to_string(), UNAVAILABLE).await;
            return error.to_string();
        };
        match kind {
            Kind::Session => {
                link.answer_locally();
                reply.accept().await;
                let telling = async {
                    link.started().await;
                    flow::notice(&writer, &error.to_string(), UNAVAILABLE).await;
                };
                tokio::select! {
                    () = telling => {}
                    () = link.gone.cancelled() => {}
                }
            }
            Kind::DirectTcpip { .. } | Kind::DirectStreamlocal { .. } => {
                reply.reject(refusal).await;
            }
        }
        error.to_string()
    }
}
