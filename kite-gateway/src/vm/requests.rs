//! Channel requests (RFC 4254 §5.4, §6) on their way to a machine, and its
//! answers, which come in the order of the requests.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use russh::{ChannelWriteHalf, Pty, Sig, client};
use tokio::sync::{mpsc, oneshot};

/// Requests that may wait to be sent, as to a machine that boots.
const MAX_WAITING: usize = 256;
/// Bytes that these may have: commands are long at times, and a window's size is
/// told again and again.
const MAX_WAITING_BYTES: usize = 512 * 1024;

/// A request of the user.
#[derive(Debug)]
pub(crate) enum Request {
    /// `pty-req`.
    Pty {
        term: String,
        columns: u32,
        rows: u32,
        width: u32,
        height: u32,
        modes: Vec<(Pty, u32)>,
    },
    /// `env`.
    Env(String, String),
    /// `shell`.
    Shell,
    /// `exec`.
    Exec(Vec<u8>),
    /// `subsystem`.
    Subsystem(String),
    /// `auth-agent-req@openssh.com`.
    Agent,
    /// `x11-req`.
    X11 {
        single: bool,
        protocol: String,
        cookie: String,
        screen: u32,
    },
    /// `window-change`, which has no answer.
    WindowChange {
        columns: u32,
        rows: u32,
        width: u32,
        height: u32,
    },
    /// `signal`, which has no answer.
    Signal(Sig),
}

impl Request {
    /// Memory that it takes while it waits, as far as the user says how much.
    fn cost(&self) -> usize {
        let told = match self {
            Self::Pty { term, modes, .. } => term.len() + modes.len() * size_of::<(Pty, u32)>(),
            Self::Env(name, value) => name.len() + value.len(),
            Self::Exec(command) => command.len(),
            Self::X11 {
                protocol, cookie, ..
            } => protocol.len() + cookie.len(),
            Self::Subsystem(name) | Self::Signal(Sig::Custom(name)) => name.len(),
            Self::Shell | Self::Agent | Self::WindowChange { .. } | Self::Signal(_) => 0,
        };
        size_of::<Self>() + told
    }

    /// Whether it starts a shell, a command or a subsystem.
    fn starts(&self) -> bool {
        matches!(self, Self::Shell | Self::Exec(_) | Self::Subsystem(_))
    }

    fn is_answered(&self) -> bool {
        !matches!(self, Self::WindowChange { .. } | Self::Signal(_))
    }
}

/// Who waits for which answer.
#[derive(Clone, Default)]
pub(crate) struct Replies(Arc<Mutex<VecDeque<oneshot::Sender<bool>>>>);

impl Replies {
    /// The machine answered the oldest request.
    pub(super) fn answer(&self, success: bool) {
        if let Some(waiting) = self.0.lock().pop_front() {
            // Who no longer waits has given up on purpose.
            let _ = waiting.send(success);
        }
    }

    /// No answer will come any more.
    pub(crate) fn fail_all(&self) {
        self.0.lock().clear();
    }

    fn wait(&self, sender: oneshot::Sender<bool>) {
        self.0.lock().push_back(sender);
    }
}

type Waiting = (Request, Option<oneshot::Sender<bool>>);

/// Sends requests in order, apart from data, so that a full window holds up
/// neither a window change nor a signal.
pub(crate) struct Requests {
    sender: mpsc::Sender<Waiting>,
    bytes: Arc<AtomicUsize>,
}

impl Requests {
    /// The sending side, and the task's side for [`run`].
    pub(crate) fn new() -> (Self, RequestReceiver) {
        let (sender, receiver) = mpsc::channel(MAX_WAITING);
        let bytes = Arc::new(AtomicUsize::new(0));
        let ours = Self {
            sender,
            bytes: Arc::clone(&bytes),
        };
        (ours, RequestReceiver { receiver, bytes })
    }

    /// Sends a request. The receiver gets the machine's answer; it fails when
    /// none will come or too many requests wait.
    pub(crate) fn send(&self, request: Request) -> oneshot::Receiver<bool> {
        let (sender, receiver) = oneshot::channel();
        let sender = request.is_answered().then_some(sender);
        let cost = request.cost();
        // What does not fit drops the sender, which fails the receiver.
        let waiting = self.bytes.fetch_add(cost, Ordering::Relaxed) + cost;
        if waiting > MAX_WAITING_BYTES || self.sender.try_send((request, sender)).is_err() {
            self.bytes.fetch_sub(cost, Ordering::Relaxed);
        }
        receiver
    }
}

/// The task's side of [`Requests`].
pub(crate) struct RequestReceiver {
    receiver: mpsc::Receiver<Waiting>,
    bytes: Arc<AtomicUsize>,
}

/// Who is asked before something is started.
pub(crate) trait Gate: Sync {
    /// An error says to the user why nothing is.
    fn may_start(&self) -> impl Future<Output = Result<(), String>> + Send;
}

/// Why requests are not carried on.
#[derive(Debug)]
pub(crate) enum Halt {
    /// One may not be sent; this says why, to the user.
    Forbidden(String),
    /// The machine is gone.
    Gone,
}

impl RequestReceiver {
    /// Carries requests to the machine until either side is gone. Before one that
    /// starts something the gate is asked.
    pub(crate) async fn run(
        mut self,
        writer: &ChannelWriteHalf<client::Msg>,
        replies: &Replies,
        gate: &impl Gate,
    ) -> Result<(), Halt> {
        while let Some((request, sender)) = self.receiver.recv().await {
            self.bytes.fetch_sub(request.cost(), Ordering::Relaxed);
            if request.starts()
                && let Err(why) = gate.may_start().await
            {
                // As if it were carried out: the client then shows what it is told.
                if let Some(sender) = sender {
                    let _ = sender.send(true);
                }
                return Err(Halt::Forbidden(why));
            }
            if let Some(sender) = sender {
                replies.wait(sender);
            }
            send(writer, request).await.map_err(|_| Halt::Gone)?;
        }
        Ok(())
    }
}

async fn send(
    writer: &ChannelWriteHalf<client::Msg>,
    request: Request,
) -> Result<(), russh::Error> {
    match request {
        Request::Pty {
            term,
            columns,
            rows,
            width,
            height,
            modes,
        } => {
            writer
                .request_pty(true, &term, columns, rows, width, height, &modes)
                .await
        }
        Request::Env(name, value) => writer.set_env(true, name, value).await,
        Request::Shell => writer.request_shell(true).await,
        Request::Exec(command) => writer.exec(true, command).await,
        Request::Subsystem(name) => writer.request_subsystem(true, name).await,
        Request::Agent => writer.agent_forward(true).await,
        Request::X11 {
            single,
            protocol,
            cookie,
            screen,
        } => {
            writer
                .request_x11(true, single, protocol, cookie, screen)
                .await
        }
        Request::WindowChange {
            columns,
            rows,
            width,
            height,
        } => writer.window_change(columns, rows, width, height).await,
        Request::Signal(signal) => writer.signal(signal).await,
    }
}
