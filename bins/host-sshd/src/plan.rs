//! What is done, step by step. Pure.
//!
//! A move and its undoing are the same plan with another goal, and so are what goes on
//! after a crash and what puts things back after a failure: files that are on the side
//! of the goal already are left alone, the rest is done again and does no harm.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::config::edit::{Change, Edit};
use crate::config::tree::Tree;
use crate::config::{Ports, Source, edit};
use crate::daemon::{Activation, Daemon, Running, Switch};
use crate::effective::Effective;
use crate::error::Refusal;
use crate::state::{Found, Side, State};
use crate::systemd;

/// One step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// A copy of a file, as it is and as it is to be.
    Keep { path: PathBuf },
    /// The note that says what to undo.
    Note { path: PathBuf },
    /// The file as it is on the side of the goal.
    Write {
        /// Its place in the notes.
        file: usize,
        path: PathBuf,
        side: Side,
    },
    /// The file, where the side of the goal has none.
    Remove { file: usize, path: PathBuf },
    /// sshd takes its configuration.
    Switch(Switch),
    /// sshd answers on a port, and does not listen on the other any more.
    Answer { port: u16, and_not: Option<u16> },
    /// The note that all is done.
    Settle,
    /// No note any more.
    Forget,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Keep { path } => write!(f, "keep a copy of {}", path.display()),
            Self::Note { path } => write!(f, "note in {} what to undo", path.display()),
            Self::Write {
                path,
                side: Side::Moved,
                ..
            } => write!(f, "write {}", path.display()),
            Self::Write {
                path,
                side: Side::Original,
                ..
            } => write!(f, "put {} back", path.display()),
            Self::Remove { path, .. } => write!(f, "remove {}", path.display()),
            Self::Switch(switch) => switch.fmt(f),
            Self::Answer { port, and_not } => {
                write!(f, "wait until sshd answers on port {port}")?;
                match and_not {
                    Some(old) => write!(f, " and not on {old}"),
                    None => Ok(()),
                }
            }
            Self::Settle => write!(f, "note that sshd is moved"),
            Self::Forget => write!(f, "forget the move"),
        }
    }
}

impl fmt::Display for Switch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ReloadUnits => write!(f, "systemctl daemon-reload"),
            Self::Reload { unit } => write!(f, "systemctl reload {unit}"),
            Self::Start { unit } => write!(f, "systemctl start {unit}"),
            Self::Stop { unit } => write!(f, "systemctl stop {unit}"),
            Self::Rebind { unit } => write!(f, "systemctl restart {unit}"),
            Self::Hangup { pid } => write!(f, "send SIGHUP to sshd (pid {pid})"),
            Self::Run { command } => write!(f, "run {}", command.join(" ")),
        }
    }
}

/// What is known of the host when a move begins.
pub(crate) struct Observed<'a> {
    pub(crate) tree: &'a Tree,
    pub(crate) effective: &'a Effective,
    pub(crate) running: &'a Running,
    pub(crate) files: &'a dyn Source,
}

/// The files that a move changes. Fails where it cannot be told, or would not move sshd.
pub(crate) fn edits(
    observed: &Observed<'_>,
    daemon: &Daemon,
    ports: Ports,
) -> Result<Vec<Edit>, Refusal> {
    let Observed {
        tree,
        effective,
        running,
        files,
    } = observed;
    if let Some(option) = daemon.arguments.listening.clone() {
        return Err(Refusal::OnCommandLine { option });
    }
    running.check_sessions(&daemon.activation)?;
    let (read, configured) = (tree.ports(), effective.ports());
    if read != configured {
        return Err(Refusal::Misread {
            config: tree.main().path.clone(),
            effective: configured,
            read,
        });
    }
    let mut edits = edit::edits(tree, ports, *files);
    match &daemon.activation {
        // sshd's own configuration may say something else than the socket. Where it says
        // the same it is moved along, or the service without its socket would go back.
        Activation::Socket { unit } => {
            let socket = running.sockets.iter().find(|socket| socket.id == *unit);
            if let Some(socket) = socket {
                edits.push(drop_in(socket, ports, *files)?);
            }
        }
        Activation::Service { .. } | Activation::Process { .. } => {
            if edits.is_empty() {
                return Err(Refusal::NotConfigured {
                    port: ports.from,
                    configured,
                });
            }
        }
    }
    Ok(edits)
}

fn drop_in(socket: &systemd::Socket, ports: Ports, files: &dyn Source) -> Result<Edit, Refusal> {
    if let Some(odd) = socket.listens.iter().find(|listen| !listen.is_plain()) {
        return Err(Refusal::OddSocket {
            unit: socket.id.clone(),
            address: odd.address.clone(),
            kind: odd.kind.clone(),
        });
    }
    let path = socket.drop_in();
    let text = socket.drop_in_text(ports);
    let said = text.lines().filter(|line| line.starts_with("Listen"));
    let change = |(index, line): (usize, &str)| Change {
        line: index + 1,
        old: None,
        new: line.to_owned(),
    };
    Ok(Edit {
        before: files.read(&path).ok(),
        changes: said.enumerate().map(change).collect(),
        after: text.into_bytes(),
        path,
    })
}

/// What comes before the first change of a move.
pub(crate) fn preparation(edits: &[Edit], state: &Path) -> Vec<Step> {
    let keep = |edit: &Edit| Step::Keep {
        path: edit.path.clone(),
    };
    let mut steps: Vec<Step> = edits.iter().map(keep).collect();
    steps.push(Step::Note {
        path: state.to_owned(),
    });
    steps
}

/// The steps to a goal, from wherever things are: `found` is what each of the files has.
pub(crate) fn steps(
    goal: Side,
    state: &State,
    found: &[Found],
    running: &Running,
    activation: &Activation,
) -> Vec<Step> {
    let mut steps = Vec::new();
    for (file, (record, found)) in state.files.iter().zip(found).enumerate() {
        let path = record.path.clone();
        let exists = goal == Side::Moved || record.original.is_some();
        match (*found == Found::On(goal), exists) {
            (true, _) => {}
            (false, true) => steps.push(Step::Write {
                file,
                path,
                side: goal,
            }),
            (false, false) => steps.push(Step::Remove { file, path }),
        }
    }
    let switches = running.switches(activation, [state.from, state.to]);
    let has_units = state.files.iter().any(|file| systemd::is_unit(&file.path));
    if has_units && !switches.contains(&Switch::ReloadUnits) {
        steps.push(Step::Switch(Switch::ReloadUnits));
    }
    steps.extend(switches.into_iter().map(Step::Switch));
    steps.extend(match goal {
        Side::Moved => [
            Step::Answer {
                port: state.to,
                and_not: Some(state.from),
            },
            Step::Settle,
        ],
        Side::Original => [
            Step::Answer {
                port: state.from,
                and_not: (!state.shared).then_some(state.to),
            },
            Step::Forget,
        ],
    });
    steps
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
