//! The state directory: what a person or a script needs to use what was
//! started, and what survives a restart.

use std::{
    fs,
    io::{ErrorKind, Write as _},
    os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

use anyhow::{Context as _, bail};
use serde::Serialize;

/// A directory of ours with files that only we may read. Nobody else uses it
/// while we do.
pub(crate) struct StateDir {
    path: PathBuf,
    /// Locked for as long as it is open.
    _lock: fs::File,
}

impl StateDir {
    /// Opens or makes `path`, and takes away what says that an earlier run is ready.
    pub(crate) fn open(path: &Path) -> anyhow::Result<Self> {
        let shown = path.display();
        fs::create_dir_all(path).with_context(|| {
            format!("--state-dir {shown} cannot be made; choose another directory")
        })?;
        let path = path
            .canonicalize()
            .with_context(|| format!("--state-dir {shown} cannot be read"))?;
        let lock = lock(&path)?;
        let state = Self { path, _lock: lock };
        // A directory that cannot be written to must show itself now, not when
        // everything is running.
        state
            .write(".writable", b"")
            .and_then(|path| Ok(fs::remove_file(path)?))
            .with_context(|| {
                format!("--state-dir {shown} is not writable; choose another directory")
            })?;
        state.remove("ready.json")?;
        Ok(state)
    }

    /// The path of `name` in the directory.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Writes `name` as a whole or not at all.
    pub(crate) fn write(&self, name: &str, content: &[u8]) -> anyhow::Result<PathBuf> {
        let path = self.path(name);
        let draft = self.path(&format!("{name}.new"));
        let mut file = fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&draft)
            .with_context(|| format!("{} cannot be written", draft.display()))?;
        file.set_permissions(fs::Permissions::from_mode(0o600))?;
        file.write_all(content)?;
        fs::rename(&draft, &path)
            .with_context(|| format!("{} cannot be written", path.display()))?;
        Ok(path)
    }

    /// Writes `name` as JSON.
    pub(crate) fn write_json(
        &self,
        name: &str,
        content: &impl Serialize,
    ) -> anyhow::Result<PathBuf> {
        let mut text = serde_json::to_vec_pretty(content)?;
        text.push(b'\n');
        self.write(name, &text)
    }

    /// Reads `name`, if it is there.
    pub(crate) fn read(&self, name: &str) -> anyhow::Result<Option<String>> {
        let path = self.path(name);
        match fs::read_to_string(&path) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).with_context(|| format!("{} cannot be read", path.display())),
        }
    }

    /// Takes `name` away, if it is there.
    pub(crate) fn remove(&self, name: &str) -> anyhow::Result<()> {
        let path = self.path(name);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(error).with_context(|| format!("{} cannot be removed", path.display()))
            }
            _ => Ok(()),
        }
    }
}

/// Takes the directory for this process; the system gives it back when the
/// process ends, however that happens.
fn lock(path: &Path) -> anyhow::Result<fs::File> {
    let shown = path.display();
    let file = fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path.join("lock"))
        .with_context(|| {
            format!("--state-dir {shown} is not writable; choose another directory")
        })?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(fs::TryLockError::WouldBlock) => {
            bail!("--state-dir {shown} is in use by another kite; choose another directory")
        }
        Err(fs::TryLockError::Error(error)) => {
            Err(error).with_context(|| format!("--state-dir {shown} cannot be locked"))
        }
    }
}
