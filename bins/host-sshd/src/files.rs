//! Files that are replaced whole, or not at all.

use std::fmt::Write as _;
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{
    DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _,
};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// The SHA-256 of a content, in hexadecimal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Digest(String);

impl Digest {
    pub(crate) fn of(content: &[u8]) -> Self {
        let hex = Sha256::digest(content)
            .iter()
            .fold(String::new(), |mut hex, byte| {
                let _ = write!(hex, "{byte:02x}");
                hex
            });
        Self(hex)
    }
}

/// Whose a file is, and who may do what with it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Owner {
    /// The bits of chmod(2).
    pub(crate) mode: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

impl Owner {
    /// Root's alone.
    pub(crate) const PRIVATE: Self = Self {
        mode: 0o600,
        uid: 0,
        gid: 0,
    };

    /// Root's, for all to read.
    pub(crate) const PUBLIC: Self = Self {
        mode: 0o644,
        uid: 0,
        gid: 0,
    };

    /// Those of a file that is there.
    pub(crate) fn of(path: &Path) -> io::Result<Self> {
        let metadata = fs::metadata(path)?;
        Ok(Self {
            mode: metadata.mode() & 0o7777,
            uid: metadata.uid(),
            gid: metadata.gid(),
        })
    }
}

/// A file's content, if there is such a file.
pub(crate) fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match fs::read(path) {
        Ok(content) => Ok(Some(content)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Puts a file there, or another in its place: readers and crashes see the one or the
/// other. Extended attributes, such as access control lists, pass to the new one.
/// `path` is the file itself and no symbolic link, or that would be replaced.
pub(crate) fn write(path: &Path, content: &[u8], owner: &Owner) -> io::Result<()> {
    // Always the same name, so that a crash leaves one behind at most; no pattern of
    // sshd or systemd takes it.
    let new = beside(path)?;
    remove_if_there(&new)?;
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&new)?;
    let written = (|| {
        file.write_all(content)?;
        std::os::unix::fs::fchown(&file, Some(owner.uid), Some(owner.gid))?;
        file.set_permissions(Permissions::from_mode(owner.mode))?;
        copy_attributes(path, &file)?;
        file.sync_all()?;
        fs::rename(&new, path)
    })();
    if written.is_err() {
        remove_if_there(&new)?;
    }
    written?;
    sync_parent(path)
}

/// Removes a file, if it is there, and what a crash may have left beside it.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    remove_if_there(&beside(path)?)?;
    remove_if_there(path)?;
    if path.parent().is_some_and(Path::exists) {
        sync_parent(path)
    } else {
        Ok(())
    }
}

/// Makes a directory that only root can look into; those above it are others', too.
pub(crate) fn make_private_dir(dir: &Path) -> io::Result<()> {
    dir.parent().map_or(Ok(()), fs::create_dir_all)?;
    DirBuilder::new().recursive(true).mode(0o700).create(dir)
}

/// The first of a path's directories that is not there yet.
pub(crate) fn first_missing(dir: &Path) -> Option<PathBuf> {
    let missing = dir.ancestors().take_while(|dir| !dir.exists());
    missing.last().map(Path::to_owned)
}

/// Whether two names are of one file.
pub(crate) fn same_file(one: &Path, other: &Path) -> bool {
    let real = |path: &Path| std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    real(one) == real(other)
}

fn beside(path: &Path) -> io::Result<PathBuf> {
    let no_name = || io::Error::new(io::ErrorKind::InvalidInput, "a file has a name");
    let name = path.file_name().ok_or_else(no_name)?.to_string_lossy();
    Ok(path.with_file_name(format!(".{name}.kite-new")))
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn sync_parent(path: &Path) -> io::Result<()> {
    let parent = path.parent().unwrap_or(Path::new("/"));
    File::open(parent)?.sync_all()
}

/// Those of the file that is to be replaced, if there is one.
fn copy_attributes(from: &Path, to: &File) -> io::Result<()> {
    let mut names = Vec::with_capacity(64 * 1024);
    match rustix::fs::listxattr(from, rustix::buffer::spare_capacity(&mut names)) {
        Ok(_) => {}
        Err(rustix::io::Errno::NOENT | rustix::io::Errno::NOTSUP) => return Ok(()),
        Err(error) => return Err(error.into()),
    }
    // Those two are of the content, and the kernel's own.
    let of_content = [&b"security.ima"[..], b"security.evm"];
    let names = names.split(|byte| *byte == 0);
    for name in names.filter(|name| !name.is_empty() && !of_content.contains(name)) {
        let mut value = Vec::with_capacity(64 * 1024);
        rustix::fs::getxattr(from, name, rustix::buffer::spare_capacity(&mut value))?;
        rustix::fs::fsetxattr(to, name, &value, rustix::fs::XattrFlags::empty())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn owned(mode: u32) -> Owner {
        let me = Owner::of(Path::new("/proc/self/status")).unwrap();
        Owner { mode, ..me }
    }

    #[test]
    fn a_file_is_replaced_with_its_rights_and_attributes() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("sshd_config");
        fs::write(&path, "old").unwrap();
        let owner = owned(0o640);
        let attribute = "user.origin";
        let flags = rustix::fs::XattrFlags::empty();
        let has_attributes = rustix::fs::setxattr(&path, attribute, b"image", flags).is_ok();
        // What an earlier crash left behind.
        fs::write(dir.path().join(".sshd_config.kite-new"), "half").unwrap();
        write(&path, b"new", &owner).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(Owner::of(&path).unwrap(), owner);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        if has_attributes {
            let mut value = Vec::with_capacity(64);
            let spare = rustix::buffer::spare_capacity(&mut value);
            rustix::fs::getxattr(&path, attribute, spare).unwrap();
            assert_eq!(value, b"image");
        }
    }

    #[test]
    fn what_cannot_be_written_leaves_nothing_behind() {
        let dir = tempfile::tempdir().unwrap();
        // A directory cannot be replaced by a file.
        let path = dir.path().join("sshd_config");
        fs::create_dir(&path).unwrap();
        assert!(write(&path, b"new", &owned(0o600)).is_err());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn removing_twice_is_removing_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        fs::write(&path, "x").unwrap();
        remove(&path).unwrap();
        remove(&path).unwrap();
        remove(&dir.path().join("none/x")).unwrap();
        assert_eq!(read(&path).unwrap(), None);
    }

    #[test]
    fn the_first_missing_directory() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a/b");
        assert_eq!(first_missing(&path), Some(dir.path().join("a")));
        assert_eq!(first_missing(dir.path()), None);
    }
}
