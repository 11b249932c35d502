//! Terminals in machines without a user's SSH connection: the same way in as a
//! login at the gateway has, for whoever decided elsewhere who may go in, such as
//! a web page.
//!
//! ```no_run
//! # async fn example(routes: kite_gateway::kubernetes::RouteTable) -> Result<(), Box<dyn std::error::Error>> {
//! use kite_gateway::terminal::{Size, Terminals};
//! use kite_gateway::{Config, TcpConnector, VmKey};
//!
//! let terminals = Terminals::new(TcpConnector::default(), &Config::default());
//! let vm = VmKey { namespace: "kite-user-ann".into(), name: "web".into() };
//! let route = routes.of_vm(&vm).ok_or("no such machine")?;
//! let size = Size { columns: 80, rows: 24 };
//! let (input, mut output) = terminals.open(&route, "xterm-256color", size).await?;
//! input.write("uptime\n".into()).await?;
//! println!("{:?}", output.next().await);
//! # Ok(())
//! # }
//! ```

mod dial;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use russh::client::{Handle, Msg};
use russh::{Channel, ChannelMsg, ChannelReadHalf, ChannelWriteHalf};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::{CancellationToken, DropGuard};

use self::dial::{Dialer, Handler, end};
use crate::config::Config;
use crate::connect::Connector;
use crate::recording::{RECORDED, Recording, Recordings, Terminal};
use crate::route::{LoginName, Route, VmKey, VmState};

/// How long after a shell ended its last words may take.
const LAST_PRINTED: Duration = Duration::from_secs(1);
/// Pieces of what is typed that wait for the machine; then whoever types waits.
const TYPED: usize = 4;

/// Why there is no terminal; whoever may go in gets to read it.
#[derive(Debug, thiserror::Error)]
pub enum TerminalError {
    /// The machine cannot be entered now.
    #[error("VM {vm}: {why}")]
    Unavailable {
        /// The machine.
        vm: VmKey,
        /// What is the matter, and what to do.
        why: String,
    },
    /// It could not be reached or does not let the gateway in.
    #[error("VM {vm} cannot be entered: {why}")]
    Dial {
        /// The machine.
        vm: VmKey,
        /// What happened.
        why: String,
    },
    /// It has no terminal for us.
    #[error("VM {vm} refused a terminal")]
    Refused {
        /// The machine.
        vm: VmKey,
    },
    /// It has to be recorded, and cannot be.
    #[error("this terminal has to be recorded, and cannot be: {0}")]
    Unrecorded(String),
}

/// The terminal is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the terminal is over")]
pub struct Over;

/// The size of a terminal in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Characters in a line.
    pub columns: u32,
    /// Lines.
    pub rows: u32,
}

/// What a terminal does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// It prints.
    Data(Bytes),
    /// The shell ended with this status.
    Exited(u32),
    /// The shell was ended by a signal of this name.
    Killed(String),
    /// It closed without a status.
    Closed,
    /// The connection to the machine broke.
    Lost,
    /// It cannot be recorded any more, and so does not go on.
    Unrecorded,
}

/// Opens terminals. Clones share everything.
#[derive(Clone)]
pub struct Terminals {
    dialer: Arc<Dialer>,
    recordings: Option<Recordings>,
}

impl Terminals {
    /// Reaches machines by `connector`, within the times of `config`.
    pub fn new(connector: impl Connector, config: &Config) -> Self {
        Self {
            dialer: Arc::new(Dialer::new(Arc::new(connector), config)),
            recordings: None,
        }
    }

    /// Records every terminal, as those of the gateway, and has it say so first;
    /// otherwise none is.
    #[must_use]
    pub fn recordings(mut self, recordings: Recordings) -> Self {
        self.recordings = Some(recordings);
        self
    }

    /// Whether terminals are recorded.
    pub fn are_recorded(&self) -> bool {
        self.recordings.is_some()
    }

    /// Enters the machine that `route` leads to, with the gateway's key for it and
    /// no other host key than its own, and starts a shell in a terminal. Who asks
    /// has seen to it that the person may.
    ///
    /// # Errors
    ///
    /// [`TerminalError`] when the machine does not run, cannot be reached, or
    /// refuses.
    pub async fn open(
        &self,
        route: &Route,
        term: &str,
        size: Size,
    ) -> Result<(TerminalInput, TerminalOutput), TerminalError> {
        let vm = &route.vm;
        let unavailable = |why: &str| TerminalError::Unavailable {
            vm: vm.clone(),
            why: why.to_owned(),
        };
        match &route.state {
            VmState::Running => {}
            VmState::Stopped(why) | VmState::Unavailable(why) => return Err(unavailable(why)),
            VmState::Starting(why) => {
                return Err(unavailable(&format!("{why}; try again in a moment")));
            }
        }
        let target = route.target.as_ref();
        let target = target
            .ok_or_else(|| unavailable("its keys are not there yet; try again in a moment"))?;
        let dialed = self.dialer.dial(target).await;
        let machine = dialed.map_err(|error| {
            tracing::warn!(%vm, %error, "cannot enter a VM");
            TerminalError::Dial {
                vm: vm.clone(),
                why: error.to_string(),
            }
        })?;
        let recording = match self.record(route, term, size) {
            Ok(recording) => recording,
            Err(error) => {
                end(&machine).await;
                return Err(error);
            }
        };
        let Some(channel) = shell(&machine, term, size).await else {
            tracing::warn!(%vm, "a VM refused a terminal");
            end(&machine).await;
            return Err(TerminalError::Refused { vm: vm.clone() });
        };
        let (reader, writer) = channel.split();
        let leave = CancellationToken::new();
        let (typed, typing) = mpsc::channel(TYPED);
        let (resized, sizes) = watch::channel(size);
        tokio::spawn(tend(machine, writer, typing, sizes, leave.clone()));
        let notice = recording
            .as_ref()
            .map(|_| Bytes::from(format!("{RECORDED}\r\n")));
        let output = TerminalOutput {
            reader,
            notice,
            recording: recording.map(Arc::new),
            ended: None,
            leave: Some(leave.drop_guard()),
        };
        let input = TerminalInput {
            typed,
            resized,
            recording: output.recording.clone(),
        };
        Ok((input, output))
    }

    fn record(
        &self,
        route: &Route,
        term: &str,
        size: Size,
    ) -> Result<Option<Recording>, TerminalError> {
        let Some(recordings) = &self.recordings else {
            return Ok(None);
        };
        let unrecorded = |why: &str| TerminalError::Unrecorded(why.to_owned());
        let user = route.target.as_ref().map(|target| target.user.as_str());
        let login = user.and_then(LoginName::parse);
        let login = login.ok_or_else(|| unrecorded("it has no login name"))?;
        let terminal = Terminal {
            term: term.to_owned(),
            columns: size.columns,
            rows: size.rows,
        };
        let begun = recordings.begin(&terminal, &login, &route.vm);
        begun.map(Some).map_err(|error| {
            tracing::error!(vm = %route.vm, %error, "a terminal cannot be recorded");
            unrecorded("the operator finds the cause in the log")
        })
    }
}

/// A shell in a terminal; `None` if the machine does not give one.
async fn shell(machine: &Handle<Handler>, term: &str, size: Size) -> Option<Channel<Msg>> {
    let Size { columns, rows } = size;
    let mut channel = machine.channel_open_session().await.ok()?;
    let asked = channel.request_pty(true, term, columns, rows, 0, 0, &[]);
    asked.await.ok()?;
    channel.request_shell(true).await.ok()?;
    let mut granted = 0;
    while granted < 2 {
        match channel.wait().await? {
            ChannelMsg::Success => granted += 1,
            // How much may be typed.
            ChannelMsg::WindowAdjusted { .. } => {}
            _ => return None,
        }
    }
    Some(channel)
}

/// Carries what is typed to the machine, until it or the user is gone.
async fn tend(
    machine: Handle<Handler>,
    writer: ChannelWriteHalf<Msg>,
    mut typed: mpsc::Receiver<Bytes>,
    mut sizes: watch::Receiver<Size>,
    left: CancellationToken,
) {
    let typing = async {
        while let Some(data) = typed.recv().await {
            if writer.data_bytes(data).await.is_err() {
                return;
            }
        }
        // Whoever types may leave first; what is printed still comes.
        std::future::pending::<()>().await;
    };
    let resizing = async {
        while sizes.changed().await.is_ok() {
            let Size { columns, rows } = *sizes.borrow_and_update();
            // That the machine is gone shows in what it prints.
            let _ = writer.window_change(columns, rows, 0, 0).await;
        }
        std::future::pending::<()>().await;
    };
    tokio::select! {
        () = typing => {}
        () = resizing => {}
        () = left.cancelled() => {}
    }
    drop(typed);
    left.cancelled().await;
    end(&machine).await;
}

/// The way to a terminal.
pub struct TerminalInput {
    typed: mpsc::Sender<Bytes>,
    resized: watch::Sender<Size>,
    recording: Option<Arc<Recording>>,
}

impl TerminalInput {
    /// Types. Waits while the machine does not take it.
    ///
    /// # Errors
    ///
    /// [`Over`] once the terminal is.
    pub async fn write(&self, data: Bytes) -> Result<(), Over> {
        self.typed.send(data).await.map_err(|_| Over)
    }

    /// Tells the machine that the terminal has another size.
    pub fn resize(&self, size: Size) {
        let Size { columns, rows } = size;
        // Whoever would hear it is gone.
        let _ = self.resized.send(size);
        if let Some(recording) = &self.recording {
            recording.resized(columns, rows);
        }
    }
}

/// The way from a terminal. Dropping it ends the terminal.
pub struct TerminalOutput {
    reader: ChannelReadHalf,
    /// What is told before anything is printed.
    notice: Option<Bytes>,
    recording: Option<Arc<Recording>>,
    /// How the shell ended; what it printed last may still be on its way.
    ended: Option<Output>,
    /// Ends the terminal when it is dropped; gone once it is over.
    leave: Option<DropGuard>,
}

impl TerminalOutput {
    /// Name of the recording, if there is one.
    pub fn recording(&self) -> Option<&str> {
        self.recording.as_deref().map(Recording::name)
    }

    /// What comes next. What is not asked for holds up the machine; dropping the
    /// future loses nothing. After anything but [`Output::Data`] it is over.
    pub async fn next(&mut self) -> Output {
        loop {
            if self.leave.is_none() {
                return Output::Closed;
            }
            if let Some(notice) = self.notice.take() {
                return Output::Data(notice);
            }
            let patience = self.ended.as_ref().map(|_| LAST_PRINTED);
            let next = match patience {
                Some(patience) => tokio::time::timeout(patience, self.reader.wait()).await,
                None => Ok(self.reader.wait().await),
            };
            let output = match next {
                Ok(Some(ChannelMsg::Data { data } | ChannelMsg::ExtendedData { data, .. })) => {
                    return self.printed(data).await;
                }
                Ok(Some(ChannelMsg::ExitStatus { exit_status })) => {
                    self.ended = Some(Output::Exited(exit_status));
                    continue;
                }
                Ok(Some(ChannelMsg::ExitSignal { signal_name, .. })) => {
                    self.ended = Some(Output::Killed(name(&signal_name)));
                    continue;
                }
                Ok(Some(ChannelMsg::Close)) | Err(_) => Output::Closed,
                Ok(None) => Output::Lost,
                // Nothing that a terminal shows.
                Ok(Some(_)) => continue,
            };
            self.leave = None;
            return self.ended.take().unwrap_or(output);
        }
    }

    async fn printed(&mut self, data: Bytes) -> Output {
        if let Some(recording) = &self.recording
            && recording.printed(&data).await.is_err()
        {
            self.leave = None;
            return Output::Unrecorded;
        }
        Output::Data(data)
    }
}

/// A signal's name as SSH spells it, without `SIG`.
fn name(signal: &russh::Sig) -> String {
    match signal {
        russh::Sig::Custom(name) => name.clone(),
        known => format!("{known:?}"),
    }
}
