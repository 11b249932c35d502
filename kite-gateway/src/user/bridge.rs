//! Joins one channel of a user with one channel on a connection of its own to
//! the machine.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use russh::server::{ChannelOpenHandle, Handle};
use russh::{Channel, ChannelOpenFailure, ChannelWriteHalf, client, server};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::link::Link;
use super::serve::Shared;
use crate::audit::{Event, Record};
use crate::flow::{self, Ended, Item, STDERR};
use crate::metrics::{KindLabels, Way, WayLabels};
use crate::route::{LoginName, Route, VmKey, VmState};
use crate::vm::{DialError, RequestReceiver, VmConnection};

/// How long a closed channel's last bytes may take to reach the machine.
const LINGER: Duration = Duration::from_secs(5);
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
    /// The channel type's name, for records and metrics.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Session => "session",
            Self::DirectTcpip { .. } => "direct-tcpip",
            Self::DirectStreamlocal { .. } => "direct-streamlocal",
        }
    }
}

/// Why there is no machine behind a channel.
#[derive(Debug, thiserror::Error)]
enum OpenError {
    #[error("kite: the login name \"{0}\" no longer leads to the VM that you logged in to")]
    Moved(LoginName),
    #[error("kite: VM {vm}: {why}")]
    Unavailable { vm: VmKey, why: String },
    #[error("kite: VM {vm} cannot be entered: {error}")]
    Dial { vm: VmKey, error: Box<DialError> },
    #[error("kite: VM {vm} refused the channel: {error}")]
    Channel { vm: VmKey, error: Box<russh::Error> },
}

/// One channel to bridge.
pub(crate) struct Bridge {
    pub(crate) shared: Arc<Shared>,
    pub(crate) connection: u64,
    pub(crate) peer: std::net::SocketAddr,
    pub(crate) login: LoginName,
    /// The machine that the user logged in to.
    pub(crate) vm: VmKey,
    pub(crate) kind: Kind,
    pub(crate) link: Arc<Link>,
    pub(crate) writer: ChannelWriteHalf<server::Msg>,
    pub(crate) handle: Handle,
    pub(crate) reply: ChannelOpenHandle,
    pub(crate) requests: RequestReceiver,
}

impl Bridge {
    /// Opens the machine's side, answers the user's request for the channel,
    /// and carries everything until the channel is over.
    pub(crate) async fn run(self) {
        let started = Instant::now();
        let labels = KindLabels {
            kind: self.kind.name(),
        };
        let shared = Arc::clone(&self.shared);
        let link = Arc::clone(&self.link);
        let (connection, peer) = (self.connection, self.peer);
        let (login, vm) = (self.login.clone(), self.vm.clone());
        shared.metrics.channels_total.get_or_create(&labels).inc();
        shared.metrics.channels.get_or_create(&labels).inc();
        let ended = self.carry().await;
        shared.metrics.channels.get_or_create(&labels).dec();
        let (bytes_up, bytes_down) = (link.up.total(), link.down.total());
        for (way, bytes) in [(Way::Up, bytes_up), (Way::Down, bytes_down)] {
            let transferred = &shared.metrics.bytes_total;
            transferred.get_or_create(&WayLabels { way }).inc_by(bytes);
        }
        shared.audit.record(&Record {
            time: jiff::Timestamp::now(),
            connection,
            peer,
            event: Event::Channel {
                login,
                vm,
                kind: labels.kind,
                detail: link.detail(),
                bytes_up,
                bytes_down,
                seconds: started.elapsed().as_secs_f64(),
                ended,
            },
        });
    }

    /// Gives why the channel ended.
    async fn carry(self) -> String {
        let cut = CancellationToken::new();
        let _guard = cut.clone().drop_guard();
        let opened = tokio::select! {
            opened = self.open(cut) => opened,
            () = self.link.gone.cancelled() => return "user gone before it was open".to_owned(),
        };
        let (vm, channel) = match opened {
            Ok(opened) => opened,
            Err(error) => return self.explain(&error).await,
        };
        self.reply.accept().await;
        let ended = pump(
            &self.shared.draining,
            &self.link,
            &self.writer,
            &self.handle,
            &vm,
            channel,
            self.requests,
        )
        .await;
        self.link.up.close();
        self.link.down.close();
        vm.end().await;
        ended.to_owned()
    }

    /// The route as it is now: the machine may have moved since the login, but
    /// it must be the one that the user logged in to.
    fn route(&self) -> Result<Arc<Route>, OpenError> {
        self.shared
            .routes
            .find(&self.login)
            .filter(|route| route.vm == self.vm)
            .ok_or_else(|| OpenError::Moved(self.login.clone()))
    }

    async fn open(
        &self,
        cut: CancellationToken,
    ) -> Result<(VmConnection, Channel<client::Msg>), OpenError> {
        let route = self.route()?;
        let vm = || route.vm.clone();
        let unavailable = |why: &str| OpenError::Unavailable {
            vm: vm(),
            why: why.to_owned(),
        };
        if let VmState::Unavailable(why) = &route.state {
            return Err(unavailable(why));
        }
        let target = route
            .target
            .as_ref()
            .ok_or_else(|| unavailable("its keys are not there yet; try again in a moment"))?;
        let started = Instant::now();
        let down = Arc::clone(&self.link.down);
        let connection = match self.shared.dialer.dial(target, down, cut).await {
            Ok(connection) => connection,
            Err(error) => {
                let kind = error.kind();
                let failures = &self.shared.metrics.backend_failures_total;
                failures.get_or_create(&KindLabels { kind }).inc();
                tracing::warn!(vm = %route.vm, %error, "cannot enter a VM");
                return Err(OpenError::Dial {
                    vm: vm(),
                    error: Box::new(error),
                });
            }
        };
        self.shared
            .metrics
            .backend_seconds
            .observe(started.elapsed().as_secs_f64());
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
            Ok(channel) => Ok((connection, channel)),
            Err(error) => {
                connection.end().await;
                Err(OpenError::Channel {
                    vm: vm(),
                    error: Box::new(error),
                })
            }
        }
    }

    /// Tells the user why there is no machine behind the channel: a session is
    /// opened in order to print it and end with a status; other channels carry
    /// it in their refusal.
    async fn explain(self, error: &OpenError) -> String {
        let Self {
            kind,
            link,
            writer,
            reply,
            ..
        } = self;
        let refusal = match error {
            // The machine's own refusal is passed on as it is.
            OpenError::Channel { error, .. }
                if let russh::Error::ChannelOpenFailure(reason) = &**error =>
            {
                reason.clone()
            }
            error => ChannelOpenFailure::Other {
                code: CONNECT_FAILED,
                reason: error.to_string(),
            },
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

async fn pump(
    draining: &CancellationToken,
    link: &Link,
    user: &ChannelWriteHalf<server::Msg>,
    handle: &Handle,
    vm: &VmConnection,
    channel: Channel<client::Msg>,
    requests: RequestReceiver,
) -> &'static str {
    let (reader, machine) = channel.split();
    // The handler takes what comes; an unread half would stop the connection.
    drop(reader);
    let up = async {
        match flow::to_vm(&link.up, &machine).await {
            // Delivered to the last byte: the machine ends the channel, or is
            // given up below.
            Ended::Closed => {}
            // The machine's side is over; what it sent last still goes down.
            Ended::Lost | Ended::Gone => link.up.close(),
        }
        std::future::pending::<()>().await;
    };
    let asking = async {
        // Fails only when the machine is gone, which shows below.
        let _ = requests.run(&machine, &vm.replies).await;
        std::future::pending::<()>().await;
    };
    let warning = async {
        draining.cancelled().await;
        if link.interactive.load(Ordering::Relaxed) {
            let text =
                "\r\nkite: the gateway is restarting; this session ends soon, log in again\r\n";
            link.down
                .push(Item::Extended(STDERR, Bytes::from_static(text.as_bytes())));
        }
        std::future::pending::<()>().await;
    };
    let leaving = async {
        link.gone.cancelled().await;
        // What the user sent before closing still goes to the machine.
        link.up.push(Item::Close);
        tokio::time::sleep(LINGER).await;
    };
    let down = async {
        tokio::select! {
            ended = flow::to_user(&link.down, user, handle) => ended,
            () = link.gone.cancelled() => drained(&link.down).await,
        }
    };
    tokio::select! {
        ended = down => match ended {
            Ended::Closed => "closed",
            Ended::Lost => "connection to the VM lost",
            Ended::Gone => "user gone",
        },
        () = leaving => "user gone, VM did not take the rest",
        () = up => "closed",
        () = asking => "closed",
        () = warning => "closed",
    }
}

/// Takes what the machine still sends, for nobody, until its channel is over.
async fn drained(queue: &flow::Queue) -> Ended {
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
