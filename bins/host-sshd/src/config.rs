//! sshd's configuration as files: what is read from where, and which lines say
//! where sshd listens. Pure: files come from a [`Source`].

pub(crate) mod edit;
pub(crate) mod glob;
pub(crate) mod line;
pub(crate) mod tree;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

/// Where files come from.
pub(crate) trait Source {
    /// The bytes of a file.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>>;
    /// The names in a directory.
    fn list(&self, dir: &Path) -> io::Result<Vec<String>>;
}

/// The host's own files.
pub(crate) struct Disk;

impl Source for Disk {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        std::fs::read(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(dir)? {
            // sshd's patterns are text, so no other name can be included.
            names.extend(entry?.file_name().into_string());
        }
        Ok(names)
    }
}

/// Files in memory.
impl Source for BTreeMap<PathBuf, Vec<u8>> {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let missing = || io::Error::from(io::ErrorKind::NotFound);
        self.get(path).cloned().ok_or_else(missing)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let mut names: Vec<String> = self
            .keys()
            .filter_map(|path| path.strip_prefix(dir).ok()?.components().next())
            .map(|first| first.as_os_str().to_string_lossy().into_owned())
            .collect();
        names.dedup();
        if names.is_empty() {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(names)
    }
}

/// Files as they will be: some others in place of those there are, and some gone
/// (`None`).
pub(crate) struct Overlay<'a> {
    pub(crate) below: &'a dyn Source,
    pub(crate) files: BTreeMap<PathBuf, Option<Vec<u8>>>,
}

impl Source for Overlay<'_> {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        match self.files.get(path) {
            Some(Some(content)) => Ok(content.clone()),
            Some(None) => Err(io::ErrorKind::NotFound.into()),
            None => self.below.read(path),
        }
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let mut names = self.below.list(dir)?;
        for (path, content) in &self.files {
            let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
                continue;
            };
            if parent == dir {
                let name = name.to_string_lossy();
                names.retain(|there| *there != name);
                if content.is_some() {
                    names.push(name.into_owned());
                }
            }
        }
        Ok(names)
    }
}

/// From which port to which.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ports {
    pub(crate) from: u16,
    pub(crate) to: u16,
}

impl Ports {
    /// Where something that listens on `port` listens after the move.
    pub(crate) fn moved(self, port: u16) -> u16 {
        if port == self.from { self.to } else { port }
    }
}
