//! The in-memory disk of a guest: a small filesystem behind a cheaply cloneable
//! handle, so that it outlives the guest's sshd as a VM's disk outlives a reboot.
//!
//! Space and the number of entries are bounded; who runs into a bound gets
//! "No space left on device", as on a real disk.

mod copy;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use super::file::{Body, Space, now};
pub use super::file::{File, FsError};
use super::path::AbsPath;

/// Bytes that the files of one guest may hold together, unless told otherwise.
pub const DEFAULT_CAPACITY: u64 = 512 * 1024 * 1024;
/// Files and directories that one disk may hold.
const MAX_ENTRIES: u64 = 20_000;

/// What lies at a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A directory.
    Dir,
    /// A regular file.
    File,
}

/// What `stat` tells of a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stat {
    /// Directory or file.
    pub kind: Kind,
    /// Bytes in the file; 0 for a directory.
    pub size: u64,
    /// Permission bits, without the type.
    pub mode: u32,
    /// Seconds since the Unix epoch of the last change.
    pub mtime: u32,
}

/// How to open a file.
#[derive(Clone, Copy, Default, Debug)]
pub struct Open {
    /// Make the file if there is none.
    pub create: bool,
    /// With `create`: fail if the file is there already.
    pub exclusive: bool,
    /// Empty the file.
    pub truncate: bool,
}

#[derive(Debug)]
enum Node {
    Dir(Dir),
    File(Arc<Body>),
}

#[derive(Debug)]
struct Dir {
    mode: u32,
    mtime: u32,
    entries: BTreeMap<String, Node>,
}

impl Dir {
    fn new(mode: u32) -> Self {
        Self {
            mode,
            mtime: now(),
            entries: BTreeMap::new(),
        }
    }
}

/// A handle to a guest's disk. Clones share the disk.
#[derive(Clone, Debug)]
pub struct Home {
    root: Arc<Mutex<Dir>>,
    space: Arc<Space>,
    entries: Arc<AtomicU64>,
}

impl Default for Home {
    fn default() -> Self {
        Self::with_capacity(DEFAULT_CAPACITY)
    }
}

impl Home {
    /// An empty disk whose files hold at most `capacity` bytes together.
    pub fn with_capacity(capacity: u64) -> Self {
        Self {
            root: Arc::new(Mutex::new(Dir::new(0o755))),
            space: Arc::new(Space::new(capacity)),
            entries: Arc::default(),
        }
    }

    /// Bytes that all files hold together.
    pub fn used(&self) -> u64 {
        self.space.used()
    }

    /// What lies at `path`.
    ///
    /// # Errors
    /// `FsError::NotFound` or `FsError::NotADirectory` if the path leads nowhere.
    pub fn stat(&self, path: &AbsPath) -> Result<Stat, FsError> {
        let root = self.root.lock();
        let Some((parents, name)) = path.split() else {
            return Ok(stat_dir(&root));
        };
        let dir = walk(&root, parents)?;
        dir.entries
            .get(name)
            .map(stat_node)
            .ok_or(FsError::NotFound)
    }

    /// The entries of a directory, sorted by name.
    ///
    /// # Errors
    /// `FsError::NotFound` or `FsError::NotADirectory` if the path leads nowhere.
    pub fn list(&self, path: &AbsPath) -> Result<Vec<(String, Stat)>, FsError> {
        let root = self.root.lock();
        let dir = walk(&root, path.parts())?;
        Ok(dir
            .entries
            .iter()
            .map(|(name, node)| (name.clone(), stat_node(node)))
            .collect())
    }

    /// Opens, and where asked makes or empties, the file at `path`.
    ///
    /// # Errors
    /// `FsError::NotFound` or `FsError::NotADirectory` if the path leads nowhere,
    /// `FsError::IsADirectory` for a directory, `FsError::Exists` for a file that must be
    /// new, `FsError::NoSpace` if the disk has no more entries.
    pub fn open(&self, path: &AbsPath, how: Open) -> Result<File, FsError> {
        let (parents, name) = path.split().ok_or(FsError::IsADirectory)?;
        let mut root = self.root.lock();
        let dir = walk_mut(&mut root, parents)?;
        let body = match dir.entries.get(name) {
            Some(Node::Dir(_)) => return Err(FsError::IsADirectory),
            Some(Node::File(_)) if how.create && how.exclusive => return Err(FsError::Exists),
            Some(Node::File(body)) => Arc::clone(body),
            None if how.create => {
                self.count_entry()?;
                let body = Arc::new(Body::new(Arc::clone(&self.space)));
                dir.entries
                    .insert(name.to_owned(), Node::File(Arc::clone(&body)));
                dir.mtime = now();
                body
            }
            None => return Err(FsError::NotFound),
        };
        let file = File(body);
        if how.truncate {
            file.set_len(0)?;
        }
        Ok(file)
    }

    /// Makes one directory.
    ///
    /// # Errors
    /// `FsError::NotFound` or `FsError::NotADirectory` if the path leads nowhere,
    /// `FsError::Exists` if something is there, `FsError::NoSpace` if the disk has no more
    /// entries.
    pub fn create_dir(&self, path: &AbsPath, mode: u32) -> Result<(), FsError> {
        let (parents, name) = path.split().ok_or(FsError::Exists)?;
        let mut root = self.root.lock();
        let dir = walk_mut(&mut root, parents)?;
        if dir.entries.contains_key(name) {
            return Err(FsError::Exists);
        }
        self.count_entry()?;
        dir.entries
            .insert(name.to_owned(), Node::Dir(Dir::new(mode)));
        dir.mtime = now();
        Ok(())
    }

    /// Makes a directory and those above it that are missing.
    ///
    /// # Errors
    /// `FsError::Exists` or `FsError::NotADirectory` if a file is in the way,
    /// `FsError::NoSpace` if the disk has no more entries.
    pub fn create_dir_all(&self, path: &AbsPath) -> Result<(), FsError> {
        let mut at = AbsPath::root();
        for part in path.parts() {
            at = at.join(part).ok_or(FsError::InvalidName)?;
            match self.create_dir(&at, 0o755) {
                Ok(()) => {}
                Err(FsError::Exists) if self.stat(&at)?.kind == Kind::Dir => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// Removes a file.
    ///
    /// # Errors
    /// `FsError::NotFound` or `FsError::NotADirectory` if the path leads nowhere,
    /// `FsError::IsADirectory` for a directory.
    pub fn remove_file(&self, path: &AbsPath) -> Result<(), FsError> {
        self.remove(path, |node| match node {
            Node::File(_) => Ok(()),
            Node::Dir(_) => Err(FsError::IsADirectory),
        })
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// `FsError::NotFound` or `FsError::NotADirectory` if the path leads nowhere or to a
    /// file, `FsError::NotEmpty` if something is in it.
    pub fn remove_dir(&self, path: &AbsPath) -> Result<(), FsError> {
        self.remove(path, |node| match node {
            Node::File(_) => Err(FsError::NotADirectory),
            Node::Dir(dir) if !dir.entries.is_empty() => Err(FsError::NotEmpty),
            Node::Dir(_) => Ok(()),
        })
    }

    /// Removes a file, or a directory with all that is in it.
    ///
    /// # Errors
    /// `FsError::NotFound` or `FsError::NotADirectory` if the path leads nowhere.
    pub fn remove_all(&self, path: &AbsPath) -> Result<(), FsError> {
        self.remove(path, |_| Ok(()))
    }

    /// Moves what lies at `from` to `to`, over a file there if `replace`.
    ///
    /// # Errors
    /// `FsError::NotFound` or `FsError::NotADirectory` if the path leads nowhere,
    /// `FsError::InvalidName` for a move into itself, and what does not fit at `to`.
    pub fn rename(&self, from: &AbsPath, to: &AbsPath, replace: bool) -> Result<(), FsError> {
        if from == to {
            return self.stat(from).map(drop);
        }
        if from.contains(to) {
            return Err(FsError::InvalidName);
        }
        let (from_dir, from_name) = from.split().ok_or(FsError::InvalidName)?;
        let (to_dir, to_name) = to.split().ok_or(FsError::Exists)?;
        let mut root = self.root.lock();
        let moving_file = match walk(&root, from_dir)?.entries.get(from_name) {
            None => return Err(FsError::NotFound),
            Some(node) => matches!(node, Node::File(_)),
        };
        if let Some(there) = walk(&root, to_dir)?.entries.get(to_name) {
            match there {
                _ if !replace => return Err(FsError::Exists),
                Node::File(_) if !moving_file => return Err(FsError::NotADirectory),
                Node::Dir(_) if moving_file => return Err(FsError::IsADirectory),
                Node::Dir(dir) if !dir.entries.is_empty() => return Err(FsError::NotEmpty),
                Node::File(_) | Node::Dir(_) => {}
            }
        }
        let Some(node) = walk_mut(&mut root, from_dir)?.entries.remove(from_name) else {
            return Err(FsError::NotFound);
        };
        let target = walk_mut(&mut root, to_dir)?;
        if target.entries.insert(to_name.to_owned(), node).is_some() {
            self.entries.fetch_sub(1, Ordering::Relaxed);
        }
        target.mtime = now();
        Ok(())
    }

    /// Sets what is given of the permission bits and the time of change.
    ///
    /// # Errors
    /// `FsError::NotFound` or `FsError::NotADirectory` if the path leads nowhere.
    pub fn set_stat(
        &self,
        path: &AbsPath,
        mode: Option<u32>,
        mtime: Option<u32>,
    ) -> Result<(), FsError> {
        let mut root = self.root.lock();
        let Some((parents, name)) = path.split() else {
            set_dir(&mut root, mode, mtime);
            return Ok(());
        };
        match walk_mut(&mut root, parents)?.entries.get_mut(name) {
            None => Err(FsError::NotFound),
            Some(Node::Dir(dir)) => {
                set_dir(dir, mode, mtime);
                Ok(())
            }
            Some(Node::File(body)) => {
                body.set_meta(mode, mtime);
                Ok(())
            }
        }
    }

    fn remove(
        &self,
        path: &AbsPath,
        allowed: impl FnOnce(&Node) -> Result<(), FsError>,
    ) -> Result<(), FsError> {
        let (parents, name) = path.split().ok_or(FsError::InvalidName)?;
        let mut root = self.root.lock();
        let dir = walk_mut(&mut root, parents)?;
        allowed(dir.entries.get(name).ok_or(FsError::NotFound)?)?;
        if let Some(node) = dir.entries.remove(name) {
            self.entries.fetch_sub(count(&node), Ordering::Relaxed);
        }
        dir.mtime = now();
        Ok(())
    }

    fn count_entry(&self) -> Result<(), FsError> {
        // Only ever called under the root's lock, so the two steps cannot race.
        if self.entries.load(Ordering::Relaxed) >= MAX_ENTRIES {
            return Err(FsError::NoSpace);
        }
        self.entries.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

fn count(node: &Node) -> u64 {
    match node {
        Node::File(_) => 1,
        Node::Dir(dir) => 1 + dir.entries.values().map(count).sum::<u64>(),
    }
}

fn set_dir(dir: &mut Dir, mode: Option<u32>, mtime: Option<u32>) {
    dir.mode = mode.map_or(dir.mode, |m| m & 0o7777);
    dir.mtime = mtime.unwrap_or(dir.mtime);
}

fn stat_dir(dir: &Dir) -> Stat {
    Stat {
        kind: Kind::Dir,
        size: 0,
        mode: dir.mode,
        mtime: dir.mtime,
    }
}

fn stat_node(node: &Node) -> Stat {
    match node {
        Node::Dir(dir) => stat_dir(dir),
        Node::File(body) => {
            let (size, mode, mtime) = body.stat();
            Stat {
                kind: Kind::File,
                size,
                mode,
                mtime,
            }
        }
    }
}

fn walk<'a>(mut dir: &'a Dir, parts: &[String]) -> Result<&'a Dir, FsError> {
    for part in parts {
        dir = match dir.entries.get(part) {
            None => return Err(FsError::NotFound),
            Some(Node::File(_)) => return Err(FsError::NotADirectory),
            Some(Node::Dir(next)) => next,
        };
    }
    Ok(dir)
}

fn walk_mut<'a>(mut dir: &'a mut Dir, parts: &[String]) -> Result<&'a mut Dir, FsError> {
    for part in parts {
        dir = match dir.entries.get_mut(part) {
            None => return Err(FsError::NotFound),
            Some(Node::File(_)) => return Err(FsError::NotADirectory),
            Some(Node::Dir(next)) => next,
        };
    }
    Ok(dir)
}

#[cfg(test)]
#[path = "home_tests.rs"]
mod tests;
