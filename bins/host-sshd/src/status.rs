//! `status`.

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::cli::{StatusOptions, default_config};
use crate::daemon::{Activation, Daemon, Running};
use crate::error::{Error, list};
use crate::files::same_file;
use crate::observe;
use crate::sockets::Listener;
use crate::sshd::Sshd;
use crate::state::{FileRecord, Found, Phase, State, Store};

/// Where sshd listens, and what is amiss.
#[derive(Debug, Serialize)]
pub(crate) struct Status {
    /// The main file of the configuration.
    config: PathBuf,
    /// Ports by the configuration; nothing where sshd refuses it.
    configured: BTreeSet<u16>,
    /// Sockets of sshd, or of systemd for it.
    listeners: Vec<Listener>,
    #[serde(skip_serializing_if = "Option::is_none")]
    activation: Option<Activation>,
    /// Nothing where Kite has not moved sshd.
    #[serde(skip_serializing_if = "Option::is_none")]
    moved: Option<MovedStatus>,
    /// Empty where all is well.
    pub(crate) findings: Vec<Finding>,
}

#[derive(Debug, Serialize)]
struct MovedStatus {
    phase: Phase,
    from: u16,
    to: u16,
    since: jiff::Timestamp,
    files: Vec<PathBuf>,
}

/// Something that is amiss.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Finding {
    what: String,
    remedy: String,
}

/// Looks, and changes nothing.
pub(crate) fn run(options: &StatusOptions) -> Result<Status, Error> {
    let sshd = Sshd::new(&options.common.sshd)?;
    let store = Store::new(&options.common.state_dir);
    let state = store.load()?;
    let running = observe::running(state.as_ref().map(|state| &state.activation))?;
    let noted = state.as_ref().map(|state| state.config.clone());
    let asked = options.config.clone().or(noted);
    let daemon = daemon(&running, state.as_ref(), asked.as_deref());
    let told = daemon
        .as_ref()
        .and_then(|daemon| daemon.arguments.config.clone());
    let config = asked.or(told).unwrap_or_else(default_config);
    let (configured, refused) = match sshd.effective(&config) {
        Ok(effective) => (effective.ports(), None),
        Err(error) => (BTreeSet::new(), Some(Finding::of(&error))),
    };
    let mut findings: Vec<Finding> = refused.into_iter().collect();
    let listening = daemon
        .as_ref()
        .map(|daemon| running.ports_of(daemon))
        .unwrap_or_default();
    if store.is_busy() {
        findings.push(Finding {
            what: "a move, or the way back, is under way".to_owned(),
            remedy: "look again when it is done".to_owned(),
        });
    } else if let Some(state) = &state {
        for file in &state.files {
            findings.extend(drift(file, file.found()?, state));
        }
        findings.extend(of_move(state, &listening));
    }
    let by_socket = daemon
        .as_ref()
        .is_some_and(|daemon| matches!(daemon.activation, Activation::Socket { .. }));
    if findings.is_empty() && !by_socket && listening != configured {
        findings.push(not_as_configured(&listening, &configured));
    }
    Ok(Status {
        config,
        configured,
        listeners: (running.listeners.iter())
            .filter(|one| {
                daemon
                    .as_ref()
                    .is_some_and(|daemon| running.is_of(daemon, one))
            })
            .cloned()
            .collect(),
        activation: daemon.map(|daemon| daemon.activation),
        moved: state.map(MovedStatus::of),
        findings,
    })
}

/// The sshd that was moved, or the one with this configuration; where none is named, the
/// one that was told of none, or else the first. There may be several on a host.
fn daemon(running: &Running, state: Option<&State>, config: Option<&Path>) -> Option<Daemon> {
    if let Some(moved) = state.and_then(|state| running.daemon_of(state)) {
        return Some(moved);
    }
    let ports = running.sshd_ports().into_iter();
    let mut all: Vec<Daemon> = ports.filter_map(|port| running.find(port).ok()).collect();
    all.retain(|daemon| daemon.arguments.config(config, same_file).is_ok());
    all.sort_by_key(|daemon| daemon.arguments.config.is_some() != config.is_some());
    all.into_iter().next()
}

fn drift(file: &FileRecord, found: Found, state: &State) -> Option<Finding> {
    let what = match found {
        Found::On(_) => return None,
        Found::Changed => "was changed",
        Found::Gone => "was removed",
    };
    Some(Finding {
        what: format!("{} {what} since {}", file.path.display(), state.begun),
        remedy: "leave it so; `kite host-sshd restore` will ask for --force, and keep a copy"
            .to_owned(),
    })
}

fn of_move(state: &State, listening: &BTreeSet<u16>) -> Option<Finding> {
    let State { from, to, .. } = state;
    let restore = "`kite host-sshd restore`";
    let (what, remedy) = match state.phase {
        Phase::Moving => (
            format!("a move from port {from} to {to} was cut off"),
            format!("`kite host-sshd move --from {from} --to {to}` goes on, {restore} goes back"),
        ),
        Phase::Restoring => (
            format!("the way back from port {to} to {from} was cut off"),
            format!("{restore} goes on"),
        ),
        Phase::Moved if !listening.contains(to) => (
            format!("sshd is moved to port {to}, and does not listen there"),
            format!(
                "start sshd (`systemctl status ssh sshd` says why it does not run), or {restore}"
            ),
        ),
        Phase::Moved if listening.contains(from) => (
            format!("sshd is moved to port {to}, and listens on {from} all the same"),
            format!("{restore} --force, and move again"),
        ),
        Phase::Moved => return None,
    };
    Some(Finding { what, remedy })
}

fn not_as_configured(listening: &BTreeSet<u16>, configured: &BTreeSet<u16>) -> Finding {
    Finding {
        what: format!(
            "sshd listens on {}, and by its configuration on {}",
            list(listening),
            list(configured)
        ),
        remedy: if listening.is_empty() {
            "start it: `systemctl start ssh`, or sshd on some systems".to_owned()
        } else {
            "have it read its configuration: `systemctl reload ssh`, or sshd on some systems"
                .to_owned()
        },
    }
}

impl Finding {
    fn of(error: &Error) -> Self {
        Self {
            what: error.to_string(),
            remedy: error.remedy(),
        }
    }
}

impl MovedStatus {
    fn of(state: State) -> Self {
        Self {
            phase: state.phase,
            from: state.from,
            to: state.to,
            since: state.begun,
            files: state.files.into_iter().map(|file| file.path).collect(),
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ports = list(&self.configured);
        writeln!(f, "{}: port {ports}", self.config.display())?;
        for listener in &self.listeners {
            writeln!(f, "{} is held by {}", listener.address, listener.holder())?;
        }
        match &self.activation {
            None => writeln!(f, "sshd does not listen anywhere")?,
            Some(Activation::Service { unit }) => writeln!(f, "started by {unit}")?,
            Some(Activation::Socket { unit }) => writeln!(f, "started through {unit}")?,
            Some(Activation::Process { command }) => {
                writeln!(f, "started as `{}`", command.join(" "))?;
            }
        }
        match &self.moved {
            None => writeln!(f, "not moved by Kite")?,
            Some(MovedStatus {
                phase: Phase::Moved,
                from,
                to,
                since,
                files,
            }) => {
                writeln!(f, "moved by Kite from port {from} to {to} on {since}")?;
                for file in files {
                    writeln!(f, "  by {}", file.display())?;
                }
            }
            Some(_) => {}
        }
        for Finding { what, remedy } in &self.findings {
            writeln!(f, "amiss: {what}\n  remedy: {remedy}")?;
        }
        Ok(())
    }
}
