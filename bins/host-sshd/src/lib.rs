//! `kite host-sshd`: takes a host's own OpenSSH server off port 22, so that Kite's
//! gateway can have it, and puts it back.
//!
//! Whoever does this by hand risks to be locked out. So nothing is switched before
//! `sshd -t` has seen the new configuration and `sshd -T` has said that nothing but the
//! port changes in it; and when sshd does not answer on its new port, everything is put
//! back at once.
//!
//! A plan is made by pure functions (`config`, `daemon`, `plan`) from what was
//! seen (`observe`, `sockets`, `systemd`, `effective`) and carried out step by step
//! (`switch`). Before the first change it is noted what to undo (`state`), so that a
//! crash at any point leaves something from which either command goes on.
//!
//! | Module | What lives there |
//! |---|---|
//! | `config` | the files of a configuration, which lines say where sshd listens, and how they change |
//! | `effective` | the configuration as `sshd -T` prints it |
//! | `sockets`, `systemd`, `observe` | who listens, and who started it |
//! | `daemon` | the host's sshd, and how it takes another configuration |
//! | `plan` | which files change, and in which steps |
//! | `sshd`, `probe`, `files` | `sshd -t`, banners of servers, files that are replaced whole |
//! | `state` | backups, the note of what to undo, the lock |
//! | `switch` | carries a plan out, and puts things back where that fails |
//! | `moving`, `restoring`, `status` | the three commands |
//! | `notices`, `report`, `error` | what people and programs read |

mod cli;
mod config;
mod daemon;
mod effective;
mod error;
mod files;
mod moving;
mod notices;
mod observe;
mod plan;
mod probe;
mod report;
mod restoring;
mod sockets;
mod sshd;
mod state;
mod status;
mod switch;
mod systemd;

use std::io::{self, Write};
use std::process::ExitCode;

use serde::Serialize;

pub use self::cli::Options;
use self::cli::{Command, Format};
use self::error::{Error, Refusal};
use self::report::{Failed, Report};

/// How a command ended, as the process' exit code says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// It is as it was asked for.
    Done = 0,
    /// Something failed that is no matter of sshd's, such as a full disk.
    Failed = 1,
    /// Nothing was changed; what is printed says why, and what to do. (2 is said of
    /// options that cannot be understood.)
    Refused = 3,
    /// The switch failed, and everything is as it was before.
    RolledBack = 4,
    /// The switch failed, and so did putting things back: a person has to look.
    Stuck = 5,
    /// Of `status`: something is amiss.
    Amiss = 6,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// Runs a command as a process does: the outcome goes to standard output, messages to
/// standard error.
pub fn main(options: &Options) -> ExitCode {
    // A terminal that is gone must not stop a move half-way.
    let mut messages = |message: &str| _ = writeln!(io::stderr(), "{message}");
    match run(options, &mut io::stdout().lock(), &mut messages) {
        Ok(exit) => exit.into(),
        Err(error) => {
            messages(&format!("error: the outcome cannot be printed: {error}"));
            Exit::Failed.into()
        }
    }
}

/// Runs a command. The outcome goes to `output`; `messages` hears of each step before it
/// is taken, and of an error where the outcome is printed for people.
///
/// # Errors
/// When `output` cannot be written.
pub fn run(
    options: &Options,
    output: &mut dyn Write,
    messages: &mut dyn FnMut(&str),
) -> io::Result<Exit> {
    let format = options.command.common().output;
    match outcome(&options.command, messages) {
        Ok(report) => {
            match format {
                Format::Text => write!(output, "{report}")?,
                Format::Json => print_json(&report, output)?,
            }
            Ok(report.exit())
        }
        Err(error) => {
            let failed = Failed::of(&error);
            match format {
                Format::Text => messages(&failed.to_string()),
                Format::Json => print_json(&failed, output)?,
            }
            Ok(failed.exit())
        }
    }
}

fn outcome(command: &Command, messages: &mut dyn FnMut(&str)) -> Result<Report, Error> {
    let uid = rustix::process::geteuid();
    if !uid.is_root() {
        return Err(Refusal::NotRoot { uid: uid.as_raw() }.into());
    }
    Ok(match command {
        Command::Move(options) => Report::Moved(moving::run(options, messages)?),
        Command::Restore(options) => Report::Restored(restoring::run(options, messages)?),
        Command::Status(options) => Report::Status(status::run(options)?),
    })
}

fn print_json(report: &impl Serialize, output: &mut dyn Write) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *output, report)?;
    writeln!(output)
}
