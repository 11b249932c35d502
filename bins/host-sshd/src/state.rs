//! What Kite notes of a move, so that it can be undone, and the directory for it.
//!
//! ```text
//! /var/lib/kite/host-sshd/
//! ├── lock                      held while a move or its undoing is at work
//! ├── state.json                there while sshd is moved, or being moved
//! └── backups/20260101T120000Z/
//!     ├── original/etc/ssh/…    files as they were
//!     ├── moved/etc/ssh/…       files as they are to be
//!     └── replaced/etc/ssh/…    what `restore --force` replaced
//! ```

use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::config::Ports;
use crate::daemon::{Activation, Daemon, Running};
use crate::error::{Error, Refusal};
use crate::files::{self, Digest, Owner};

/// The format of `state.json`.
const VERSION: u32 = 1;

/// What is noted of a move.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct State {
    version: u32,
    pub(crate) phase: Phase,
    pub(crate) from: u16,
    pub(crate) to: u16,
    pub(crate) begun: Timestamp,
    /// The main file of sshd's configuration.
    pub(crate) config: PathBuf,
    pub(crate) activation: Activation,
    /// Where sshd listened, on the old port.
    pub(crate) addresses: Vec<IpAddr>,
    /// Whether it listened on the new one, too.
    pub(crate) shared: bool,
    /// The directory with the copies.
    pub(crate) backup: PathBuf,
    /// In the order in which they are written.
    pub(crate) files: Vec<FileRecord>,
}

/// How far the move is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Phase {
    /// Files may be as they were or as they are to be.
    Moving,
    /// All is as it is to be.
    Moved,
    /// As with `Moving`, on the way back.
    Restoring,
}

/// A file that the move writes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FileRecord {
    /// Its name in the configuration.
    pub(crate) path: PathBuf,
    /// The file itself, where the name is that of a symbolic link.
    pub(crate) target: PathBuf,
    /// Nothing where there was no such file.
    pub(crate) original: Option<Digest>,
    pub(crate) moved: Digest,
    pub(crate) owner: Owner,
    /// A directory that was made for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) made: Option<PathBuf>,
}

/// One of the two contents that a file has in the course of a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Original,
    Moved,
}

/// What a file has now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// What it has on one side.
    On(Side),
    /// Something else.
    Changed,
    /// Nothing, though there was a file, or is to be one.
    Gone,
}

impl State {
    /// A move that begins.
    pub(crate) fn new(
        ports: Ports,
        begun: Timestamp,
        config: PathBuf,
        daemon: &Daemon,
        shared: bool,
    ) -> Self {
        let stamp = begun.strftime("%Y%m%dT%H%M%S%.3fZ");
        Self {
            version: VERSION,
            phase: Phase::Moving,
            from: ports.from,
            to: ports.to,
            begun,
            config,
            activation: daemon.activation.clone(),
            addresses: daemon.addresses.iter().copied().collect(),
            shared,
            backup: Path::new("backups").join(stamp.to_string()),
            files: Vec::new(),
        }
    }

    /// From which port to which.
    pub(crate) fn ports(&self) -> Ports {
        Ports {
            from: self.from,
            to: self.to,
        }
    }
}

impl FileRecord {
    /// What the file has now.
    pub(crate) fn found(&self) -> Result<Found, Error> {
        let doing = || format!("read {}", self.path.display());
        let same = match fs::canonicalize(&self.path) {
            Ok(target) => target == self.target,
            Err(error) if error.kind() == io::ErrorKind::NotFound => true,
            Err(error) => return Err(Error::io(doing())(error)),
        };
        let digest = files::read(&self.path).map_err(Error::io(doing()))?;
        let digest = digest.as_deref().map(Digest::of);
        Ok(match digest {
            Some(_) if !same => Found::Changed,
            digest if digest == self.original => Found::On(Side::Original),
            Some(digest) if digest == self.moved => Found::On(Side::Moved),
            Some(_) => Found::Changed,
            None => Found::Gone,
        })
    }
}

/// The directory of the state.
pub(crate) struct Store {
    dir: PathBuf,
}

/// Keeps others away while it lives.
pub(crate) struct Guard {
    _lock: File,
}

impl Store {
    /// The store in a directory, which is made by the first that writes.
    pub(crate) fn new(dir: &Path) -> Self {
        Self {
            dir: dir.to_owned(),
        }
    }

    /// Keeps others away. The lock goes with the process, however that ends.
    pub(crate) fn lock(&self) -> Result<Guard, Error> {
        let path = self.dir.join("lock");
        let doing = format!("lock {}", path.display());
        let open = || {
            files::make_private_dir(&self.dir)?;
            File::options().create(true).append(true).open(&path)
        };
        let lock = open().map_err(Error::io(doing.as_str()))?;
        match lock.try_lock() {
            Ok(()) => Ok(Guard { _lock: lock }),
            Err(TryLockError::WouldBlock) => Err(Refusal::Busy { lock: path }.into()),
            Err(TryLockError::Error(error)) => Err(Error::io(doing)(error)),
        }
    }

    /// What is noted, if sshd is moved or being moved.
    pub(crate) fn load(&self) -> Result<Option<State>, Error> {
        let path = self.state();
        let unusable = |why| self.unusable(&path, why);
        let read = files::read(&path).map_err(Error::io(format!("read {}", path.display())))?;
        let Some(json) = read else {
            return Ok(None);
        };
        let state: State =
            serde_json::from_slice(&json).map_err(|error| unusable(error.to_string()))?;
        match state.version {
            VERSION => Ok(Some(state)),
            version => Err(unusable(format!("version: {version} is not {VERSION}")).into()),
        }
    }

    fn unusable(&self, path: &Path, why: String) -> Refusal {
        Refusal::State {
            path: path.to_owned(),
            why,
            dir: self.dir.clone(),
        }
    }

    /// Whether somebody else is at work.
    pub(crate) fn is_busy(&self) -> bool {
        let lock = File::open(self.dir.join("lock"));
        let tried = lock.map(|lock| lock.try_lock_shared());
        matches!(tried, Ok(Err(TryLockError::WouldBlock)))
    }

    /// Notes a state.
    pub(crate) fn save(&self, state: &State) -> Result<(), Error> {
        let path = self.state();
        let write = || {
            let json = serde_json::to_vec_pretty(state)?;
            files::write(&path, &json, &Owner::PRIVATE)
        };
        write().map_err(Error::io(format!("write {}", path.display())))
    }

    /// Forgets the move; the copies stay.
    pub(crate) fn forget(&self) -> Result<(), Error> {
        let path = self.state();
        files::remove(&path).map_err(Error::io(format!("remove {}", path.display())))
    }

    /// Keeps a copy of a file, under its name.
    pub(crate) fn keep(
        &self,
        state: &State,
        area: Area,
        path: &Path,
        content: &[u8],
    ) -> Result<(), Error> {
        let copy = self.copy(state, area, path);
        let write = || {
            copy.parent().map_or(Ok(()), files::make_private_dir)?;
            files::write(&copy, content, &Owner::PRIVATE)
        };
        write().map_err(Error::io(format!("write {}", copy.display())))
    }

    /// The content that a file has on a side; nothing where there is no file on it.
    pub(crate) fn kept(
        &self,
        state: &State,
        file: &FileRecord,
        side: Side,
    ) -> Result<Option<Vec<u8>>, Error> {
        let (area, digest) = match side {
            Side::Original => (Area::Original, file.original.as_ref()),
            Side::Moved => (Area::Moved, Some(&file.moved)),
        };
        let Some(digest) = digest else {
            return Ok(None);
        };
        let copy = self.copy(state, area, &file.path);
        let content = fs::read(&copy).map_err(Error::io(format!("read {}", copy.display())))?;
        if Digest::of(&content) != *digest {
            let why = "it is not what was kept: its SHA-256 is not that of state.json".to_owned();
            return Err(self.unusable(&copy, why).into());
        }
        Ok(Some(content))
    }

    /// Both sides of all files, for a test of one of them.
    pub(crate) fn side(
        &self,
        state: &State,
        side: Side,
    ) -> Result<BTreeMap<PathBuf, Option<Vec<u8>>>, Error> {
        let kept = |file: &FileRecord| Ok((file.path.clone(), self.kept(state, file, side)?));
        state.files.iter().map(kept).collect()
    }

    /// Where a copy is.
    pub(crate) fn copy(&self, state: &State, area: Area, path: &Path) -> PathBuf {
        let name = path.strip_prefix("/").unwrap_or(path);
        self.dir.join(&state.backup).join(area.name()).join(name)
    }

    /// Where configurations are put to be tested.
    pub(crate) fn staging(&self) -> PathBuf {
        self.dir.join("staging")
    }

    /// The file with the state.
    pub(crate) fn state(&self) -> PathBuf {
        self.dir.join("state.json")
    }
}

/// Where copies are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Area {
    Original,
    Moved,
    Replaced,
}

impl Area {
    fn name(self) -> &'static str {
        match self {
            Self::Original => "original",
            Self::Moved => "moved",
            Self::Replaced => "replaced",
        }
    }
}

impl Running {
    /// The sshd of a move, on whichever of its ports.
    pub(crate) fn daemon_of(&self, state: &State) -> Option<Daemon> {
        let daemon = self.find(state.to).or_else(|_| self.find(state.from));
        daemon.ok()
    }

    /// What started the sshd of a move, as it is now; where none runs, as it was then.
    pub(crate) fn activation_of(&self, state: &State) -> Activation {
        let daemon = self.daemon_of(state);
        daemon.map_or_else(|| state.activation.clone(), |daemon| daemon.activation)
    }
}

#[cfg(test)]
#[path = "state_tests.rs"]
mod tests;
