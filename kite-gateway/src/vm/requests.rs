//! Channel requests (RFC 4254 §5.4, §6) on their way to a machine, and its
//! answers, which come in the order of the requests.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use russh::{ChannelWriteHalf, Pty, Sig, client};
use tokio::sync::{mpsc, oneshot};

/// Requests that may wait to be sent.
const MAX_WAITING: usize = 256;

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
pub(crate) struct Requests(mpsc::Sender<Waiting>);

impl Requests {
    /// The sending side, and the task's side for [`run`].
    pub(crate) fn new() -> (Self, RequestReceiver) {
        let (sender, receiver) = mpsc::channel(MAX_WAITING);
        (Self(sender), RequestReceiver(receiver))
    }

    /// Sends a request. The receiver gets the machine's answer; it fails when
    /// none will come or too many requests wait.
    pub(crate) fn send(&self, request: Request) -> oneshot::Receiver<bool> {
        let (sender, receiver) = oneshot::channel();
        let sender = request.is_answered().then_some(sender);
        // A full queue drops the sender, which fails the receiver.
        let _ = self.0.try_send((request, sender));
        receiver
    }
}

/// The task's side of [`Requests`].
pub(crate) struct RequestReceiver(mpsc::Receiver<Waiting>);

impl RequestReceiver {
    /// Carries requests to the machine until either side is gone.
    pub(crate) async fn run(
        mut self,
        writer: &ChannelWriteHalf<client::Msg>,
        replies: &Replies,
    ) -> Result<(), russh::Error> {
        while let Some((request, sender)) = self.0.recv().await {
            if let Some(sender) = sender {
                replies.wait(sender);
            }
            send(writer, request).await?;
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
