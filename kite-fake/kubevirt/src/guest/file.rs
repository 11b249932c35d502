//! File bodies of the in-memory disk and the space that they share.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;

/// Why the disk refused, in the words that users know from real systems.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FsError {
    /// Nothing at the path.
    #[error("No such file or directory")]
    NotFound,
    /// Something is at the path already.
    #[error("File exists")]
    Exists,
    /// A file where a directory is needed.
    #[error("Not a directory")]
    NotADirectory,
    /// A directory where a file is needed.
    #[error("Is a directory")]
    IsADirectory,
    /// The directory still has entries.
    #[error("Directory not empty")]
    NotEmpty,
    /// The disk's bytes or entries are used up.
    #[error("No space left on device")]
    NoSpace,
    /// A name that the disk does not take, or a move into itself.
    #[error("Invalid argument")]
    InvalidName,
}

/// Bytes used of a disk, shared by all of its files.
#[derive(Debug)]
pub(super) struct Space {
    capacity: u64,
    used: Mutex<u64>,
}

impl Space {
    pub(super) fn new(capacity: u64) -> Self {
        Self {
            capacity,
            used: Mutex::new(0),
        }
    }

    pub(super) fn used(&self) -> u64 {
        *self.used.lock()
    }

    /// As much space of its own, as much of it used, for copies of all files.
    pub(super) fn alike(&self) -> Self {
        Self {
            capacity: self.capacity,
            used: Mutex::new(self.used()),
        }
    }

    /// Accounts for a file that grows or shrinks from `old` to `new` bytes.
    fn resize(&self, old: u64, new: u64) -> Result<(), FsError> {
        let mut used = self.used.lock();
        let next = used.saturating_sub(old).saturating_add(new);
        if new > old && next > self.capacity {
            return Err(FsError::NoSpace);
        }
        *used = next;
        Ok(())
    }
}

#[derive(Debug)]
struct Content {
    data: Vec<u8>,
    mode: u32,
    mtime: u32,
}

/// The bytes and attributes of one file. Stays alive while a handle is open,
/// even when its name is gone, as on a Unix filesystem.
#[derive(Debug)]
pub(super) struct Body {
    content: Mutex<Content>,
    space: Arc<Space>,
}

impl Body {
    pub(super) fn new(space: Arc<Space>) -> Self {
        Self {
            content: Mutex::new(Content {
                data: Vec::new(),
                mode: 0o644,
                mtime: now(),
            }),
            space,
        }
    }

    /// A copy on a disk whose space has it counted already.
    pub(super) fn copied(&self, space: Arc<Space>) -> Self {
        let content = self.content.lock();
        Self {
            content: Mutex::new(Content {
                data: content.data.clone(),
                mode: content.mode,
                mtime: content.mtime,
            }),
            space,
        }
    }

    pub(super) fn stat(&self) -> (u64, u32, u32) {
        let content = self.content.lock();
        (content.data.len() as u64, content.mode, content.mtime)
    }

    pub(super) fn set_meta(&self, mode: Option<u32>, mtime: Option<u32>) {
        let mut content = self.content.lock();
        content.mode = mode.map_or(content.mode, |m| m & 0o7777);
        content.mtime = mtime.unwrap_or(content.mtime);
    }
}

impl Drop for Body {
    fn drop(&mut self) {
        let size = self.content.get_mut().data.len() as u64;
        // Shrinking never fails.
        let _ = self.space.resize(size, 0);
    }
}

/// An open file.
#[derive(Clone, Debug)]
pub struct File(pub(super) Arc<Body>);

impl File {
    /// Bytes in the file.
    pub fn len(&self) -> u64 {
        self.0.stat().0
    }

    /// Whether the file has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Size in bytes, permission bits and time of change (Unix seconds).
    pub fn stat(&self) -> (u64, u32, u32) {
        self.0.stat()
    }

    /// Sets what is given of the permission bits and the time of change.
    pub fn set_meta(&self, mode: Option<u32>, mtime: Option<u32>) {
        self.0.set_meta(mode, mtime);
    }

    /// At most `max` bytes from `offset`; empty at and behind the end.
    pub fn read_at(&self, offset: u64, max: usize) -> Vec<u8> {
        let content = self.0.content.lock();
        let size = content.data.len();
        let start = usize::try_from(offset).map_or(size, |o| o.min(size));
        let end = start.saturating_add(max).min(size);
        content
            .data
            .get(start..end)
            .map(<[u8]>::to_vec)
            .unwrap_or_default()
    }

    /// Writes `data` at `offset`, filling a gap before it with zeros.
    pub fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), FsError> {
        let mut content = self.0.content.lock();
        let start = usize::try_from(offset).map_err(|_| FsError::NoSpace)?;
        let end = start.checked_add(data.len()).ok_or(FsError::NoSpace)?;
        let old = content.data.len();
        if end > old {
            self.0.space.resize(old as u64, end as u64)?;
            content.data.resize(end, 0);
        }
        if let Some(target) = content.data.get_mut(start..end) {
            target.copy_from_slice(data);
        }
        content.mtime = now();
        Ok(())
    }

    /// Adds `data` at the end.
    pub fn append(&self, data: &[u8]) -> Result<(), FsError> {
        let mut content = self.0.content.lock();
        let old = content.data.len() as u64;
        self.0.space.resize(old, old + data.len() as u64)?;
        content.data.extend_from_slice(data);
        content.mtime = now();
        Ok(())
    }

    /// Cuts or extends (with zeros) the file to `size` bytes.
    pub fn set_len(&self, size: u64) -> Result<(), FsError> {
        let mut content = self.0.content.lock();
        let old = content.data.len() as u64;
        let length = usize::try_from(size).map_err(|_| FsError::NoSpace)?;
        self.0.space.resize(old, size)?;
        content.data.resize(length, 0);
        if length == 0 {
            content.data.shrink_to_fit();
        }
        content.mtime = now();
        Ok(())
    }
}

/// Seconds since the Unix epoch.
pub(super) fn now() -> u32 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .ok()
        .and_then(|d| u32::try_from(d.as_secs()).ok())
        .unwrap_or(0)
}
