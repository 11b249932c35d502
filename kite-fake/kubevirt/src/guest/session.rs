//! One session channel at work: a shell, a command or the SFTP subsystem, with
//! or without a terminal.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use russh::server::{Handle, Msg};
use russh::{ChannelId, ChannelWriteHalf, Sig};
use tokio::io::AsyncRead;
use tokio_util::sync::CancellationToken;

use super::cut::Cut;
use super::inlet::Outlet;
use super::sftp::Sftp;
use super::shell::{Flow, Shell};
use super::stream::{Input, Io, Output};
use super::tty::{NewlineWriter, Tty, TtyReader};

/// `SSH_EXTENDED_DATA_STDERR` (RFC 4254 §5.2).
const STDERR: u32 = 1;
/// Longest line of a script on standard input.
const MAX_SCRIPT_LINE: usize = 128 * 1024;

/// What the client asked for.
pub enum Work {
    /// A shell, which reads commands from the channel.
    Shell,
    /// One command line.
    Exec(String),
    /// The SFTP subsystem.
    Sftp,
}

/// A channel whose work may start.
pub struct Session {
    /// The channel's number.
    pub id: ChannelId,
    /// For what only the connection can send.
    pub handle: Handle,
    /// Sends on the channel, within the client's window.
    pub writer: Arc<ChannelWriteHalf<Msg>>,
    /// What the client sends.
    pub outlet: Outlet,
    /// The shell, with the environment that the client asked for.
    pub shell: Shell,
    /// Whether a terminal was asked for.
    pub pty: bool,
    /// Ends the work: the client closed the channel or the guest stops.
    pub cancel: CancellationToken,
}

impl Session {
    /// Does the work and ends the channel in the order of RFC 4254:
    /// data, EOF, exit status or signal, close.
    pub async fn run(self, work: Work) {
        let Self {
            id,
            handle,
            writer,
            outlet,
            shell,
            pty,
            cancel,
        } = self;
        let flow = match work {
            Work::Sftp => Some(sftp(&shell, outlet, &writer, &cancel).await),
            Work::Shell | Work::Exec(_) => tokio::select! {
                flow = run_shell(shell, outlet, &writer, pty, work) => Some(flow),
                () = cancel.cancelled() => None,
            },
        };
        // A send fails only when the connection is gone.
        let _ = writer.eof().await;
        match flow {
            Some(Flow::Continue(status) | Flow::Exit(status)) => {
                let _ = writer.exit_status(u32::from(status)).await;
            }
            Some(Flow::Killed(signal)) => {
                let _ = handle
                    .exit_signal_request(id, sig(&signal), false, String::new(), String::new())
                    .await;
            }
            None => {}
        }
        let _ = writer.close().await;
        // russh does not tell of the client's answering close: this is what says
        // that the channel is over.
        cancel.cancel();
    }
}

fn sig(name: &str) -> Sig {
    match name {
        "ABRT" => Sig::ABRT,
        "HUP" => Sig::HUP,
        "INT" => Sig::INT,
        "KILL" => Sig::KILL,
        "QUIT" => Sig::QUIT,
        _ => Sig::TERM,
    }
}

async fn sftp(
    shell: &Shell,
    outlet: Outlet,
    writer: &ChannelWriteHalf<Msg>,
    cancel: &CancellationToken,
) -> Flow {
    let done = CancellationToken::new();
    let handler = Sftp::new(shell.machine.clone(), done.clone().drop_guard());
    let stream = Cut::new(tokio::io::join(outlet, writer.make_writer()), cancel);
    russh_sftp::server::run(stream, handler).await;
    done.cancelled().await;
    Flow::Exit(0)
}

async fn run_shell(
    mut shell: Shell,
    outlet: Outlet,
    writer: &ChannelWriteHalf<Msg>,
    pty: bool,
    work: Work,
) -> Flow {
    if !pty {
        let io = Io {
            stdin: Input::stream(outlet),
            stdout: Output::stream(writer.make_writer()),
            stderr: Output::stream(writer.make_writer_ext(Some(STDERR))),
        };
        return match work {
            Work::Exec(command) => shell.run(&command, &io).await,
            Work::Shell | Work::Sftp => script(&mut shell, &io).await,
        };
    }
    let screen = Output::stream(NewlineWriter::new(writer.make_writer()));
    on_terminal(&mut shell, outlet, screen, work).await
}

/// Works on a terminal: what is typed comes from `typed`, and all is shown on
/// `screen`.
pub(super) async fn on_terminal(
    shell: &mut Shell,
    typed: impl AsyncRead + Unpin,
    screen: Output,
    work: Work,
) -> Flow {
    let tty = Arc::new(Tty::default());
    let io = Io {
        stdin: Input::stream(TtyReader(Arc::clone(&tty))),
        stdout: screen.clone(),
        stderr: screen.clone(),
    };
    let driving = async {
        tty.drive(typed, screen).await;
        // The shell decides when the session ends; input may end before.
        std::future::pending().await
    };
    let working = async {
        match work {
            Work::Exec(command) => foreground(shell, &tty, &command, &io).await,
            Work::Shell | Work::Sftp => interactive(shell, &tty, &io).await,
        }
    };
    tokio::select! {
        flow = working => flow,
        flow = driving => flow,
    }
}

/// Runs a command that Ctrl-C interrupts.
async fn foreground(shell: &mut Shell, tty: &Tty, command: &str, io: &Io) -> Flow {
    let interrupted = tokio::select! {
        flow = shell.run(command, io) => return flow,
        () = tty.interrupt.notified() => true,
    };
    if interrupted {
        shell.interrupted();
    }
    Flow::Continue(shell.status())
}

async fn interactive(shell: &mut Shell, tty: &Arc<Tty>, io: &Io) -> Flow {
    let welcome = format!(
        "{}: a Kite demo guest with an in-memory disk. Type `help` for its commands.\n",
        shell.machine.hostname
    );
    if io.print(&welcome).await.is_err() {
        return Flow::Exit(1);
    }
    loop {
        if io.print(&shell.prompt()).await.is_err() {
            return Flow::Exit(1);
        }
        tty.at_prompt.store(true, Ordering::Relaxed);
        let line = tokio::select! {
            line = tty.line() => line,
            () = tty.interrupt.notified() => continue,
        };
        tty.at_prompt.store(false, Ordering::Relaxed);
        let Some(line) = line else {
            let _ = io.print("logout\n").await;
            return Flow::Exit(shell.status());
        };
        match foreground(shell, tty, &line, io).await {
            Flow::Continue(_) => {}
            end => return end,
        }
    }
}

/// A shell without a terminal: every line of standard input is a command, and
/// commands read on from where the line ended.
async fn script(shell: &mut Shell, io: &Io) -> Flow {
    loop {
        let line = match read_line(&io.stdin).await {
            Ok(Some(line)) => line,
            Ok(None) => return Flow::Exit(shell.status()),
            Err(e) => {
                let _ = io.complain(&format!("sh: {e}")).await;
                return Flow::Exit(2);
            }
        };
        match shell.run(&line, io).await {
            Flow::Continue(_) => {}
            end => return end,
        }
    }
}

async fn read_line(input: &Input) -> io::Result<Option<String>> {
    let mut line = Vec::new();
    loop {
        let byte = input.read(1).await?;
        match byte.first() {
            None if line.is_empty() => return Ok(None),
            None | Some(b'\n') => return Ok(Some(String::from_utf8_lossy(&line).into_owned())),
            Some(byte) => line.push(*byte),
        }
        if line.len() > MAX_SCRIPT_LINE {
            return Err(io::Error::other("line too long"));
        }
    }
}
