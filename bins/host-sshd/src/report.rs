//! What is printed at the end.

use std::fmt;
use std::path::PathBuf;

use serde::Serialize;

use crate::Exit;
use crate::config::edit::{Change, Edit};
use crate::daemon::Activation;
use crate::error::Error;
use crate::state::{Area, State, Store};
use crate::status::Status;

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Outcome {
    Moved,
    AlreadyMoved,
    Planned,
    Restored,
    NothingToRestore,
    Refused,
    RolledBack,
    Stuck,
    Failed,
}

/// Of a command that did what it was asked for.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum Report {
    Moved(Moved),
    Restored(Restored),
    Status(Status),
}

/// A move.
#[derive(Debug, Serialize)]
pub(crate) struct Moved {
    pub(crate) outcome: Outcome,
    pub(crate) from: u16,
    pub(crate) to: u16,
    pub(crate) config: PathBuf,
    pub(crate) activation: Activation,
    pub(crate) files: Vec<FileReport>,
    pub(crate) steps: Vec<String>,
    pub(crate) notices: Vec<String>,
}

/// A file that a move changes.
#[derive(Debug, Serialize)]
pub(crate) struct FileReport {
    path: PathBuf,
    /// A copy of it as it was; nothing where it is new.
    #[serde(skip_serializing_if = "Option::is_none")]
    backup: Option<PathBuf>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    changes: Vec<Change>,
}

/// A move that was undone.
#[derive(Debug, Serialize)]
pub(crate) struct Restored {
    pub(crate) outcome: Outcome,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) port: Option<u16>,
    pub(crate) files: Vec<FileReport>,
    pub(crate) steps: Vec<String>,
    pub(crate) notices: Vec<String>,
}

/// Something that failed.
#[derive(Debug, Serialize)]
pub(crate) struct Failed {
    outcome: Outcome,
    error: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    remedy: String,
}

impl Report {
    /// What the exit code says of it.
    pub(crate) fn exit(&self) -> Exit {
        match self {
            Self::Status(status) if !status.findings.is_empty() => Exit::Amiss,
            Self::Moved(_) | Self::Restored(_) | Self::Status(_) => Exit::Done,
        }
    }
}

impl Moved {
    /// The report of a move that went well.
    pub(crate) fn of(state: &State) -> Self {
        Self {
            outcome: Outcome::Moved,
            from: state.from,
            to: state.to,
            config: state.config.clone(),
            activation: state.activation.clone(),
            files: FileReport::noted(state),
            steps: Vec::new(),
            notices: Vec::new(),
        }
    }
}

impl FileReport {
    /// Files that are to be changed.
    pub(crate) fn of(edits: &[Edit], state: &State, store: &Store) -> Vec<Self> {
        let report = |edit: &Edit| Self {
            path: edit.path.clone(),
            backup: (edit.before.as_ref()).map(|_| store.copy(state, Area::Original, &edit.path)),
            changes: edit.changes.clone(),
        };
        edits.iter().map(report).collect()
    }

    /// Files of which it is noted that they are changed.
    fn noted(state: &State) -> Vec<Self> {
        let report = |path: &PathBuf| Self {
            path: path.clone(),
            backup: None,
            changes: Vec::new(),
        };
        state.files.iter().map(|file| report(&file.path)).collect()
    }
}

impl Restored {
    /// The report of a move that was undone.
    pub(crate) fn of(state: &State) -> Self {
        Self {
            port: Some(state.from),
            files: FileReport::noted(state),
            outcome: Outcome::Restored,
            ..Self::nothing()
        }
    }

    /// There was nothing to undo.
    pub(crate) fn nothing() -> Self {
        Self {
            outcome: Outcome::NothingToRestore,
            port: None,
            files: Vec::new(),
            steps: Vec::new(),
            notices: Vec::new(),
        }
    }
}

impl Failed {
    /// The report of an error.
    pub(crate) fn of(error: &Error) -> Self {
        Self {
            outcome: match error {
                Error::Refused(_) => Outcome::Refused,
                Error::RolledBack { .. } => Outcome::RolledBack,
                Error::Stuck { .. } => Outcome::Stuck,
                Error::Failed { .. } | Error::Silent { .. } | Error::Io { .. } => Outcome::Failed,
            },
            error: error.to_string(),
            remedy: error.remedy(),
        }
    }

    /// What the exit code says of it.
    pub(crate) fn exit(&self) -> Exit {
        match self.outcome {
            Outcome::Refused => Exit::Refused,
            Outcome::RolledBack => Exit::RolledBack,
            Outcome::Stuck => Exit::Stuck,
            _ => Exit::Failed,
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Moved(moved) => moved.fmt(f),
            Self::Restored(restored) => restored.fmt(f),
            Self::Status(status) => status.fmt(f),
        }
    }
}

impl fmt::Display for Moved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { from, to, .. } = self;
        match self.outcome {
            Outcome::Planned => {
                writeln!(f, "sshd would be moved from port {from} to {to}. Steps:")?;
                self.steps
                    .iter()
                    .try_for_each(|step| writeln!(f, "  {step}"))?;
            }
            Outcome::AlreadyMoved => writeln!(f, "sshd is on port {to} already: nothing to do")?,
            _ => writeln!(
                f,
                "sshd is moved from port {from} to {to}, and answers there"
            )?,
        }
        write_rest(f, &self.files, &self.notices)
    }
}

impl fmt::Display for Restored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.port {
            Some(port) => writeln!(
                f,
                "everything is as it was, and sshd answers on port {port}"
            )?,
            None => writeln!(f, "sshd is not moved by Kite: nothing to restore")?,
        }
        write_rest(f, &self.files, &self.notices)
    }
}

fn write_rest(f: &mut fmt::Formatter<'_>, files: &[FileReport], notices: &[String]) -> fmt::Result {
    for file in files {
        writeln!(f, "{file}")?;
    }
    notices
        .iter()
        .try_for_each(|notice| writeln!(f, "note: {notice}"))
}

impl fmt::Display for FileReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.path.display())?;
        if let Some(backup) = &self.backup {
            write!(f, " (as it was: {})", backup.display())?;
        }
        for Change { line, old, new } in &self.changes {
            if let Some(old) = old {
                write!(f, "\n  {line:>4} - {old}")?;
            }
            write!(f, "\n  {line:>4} + {new}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error: {}", self.error)?;
        if self.remedy.is_empty() {
            Ok(())
        } else {
            write!(f, "\nremedy: {}", self.remedy)
        }
    }
}
