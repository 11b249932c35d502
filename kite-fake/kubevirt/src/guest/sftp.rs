//! The SFTP subsystem (draft-ietf-secsh-filexfer-02, version 3) on the guest's disk.

use std::collections::HashMap;

use russh_sftp::protocol::{
    Attrs, Data, File as Entry, FileAttributes, Handle, Name, OpenFlags, Packet, Status,
    StatusCode, Version,
};
use tokio_util::sync::DropGuard;

use super::home::{File, FsError, Home, Kind, Open, Stat};
use super::path::AbsPath;
use super::shell::Machine;

/// Files and directories that one session may have open.
const MAX_HANDLES: usize = 256;
/// Longest read that is answered, below the packet bound of the protocol.
const MAX_READ: u32 = 255 * 1024;
/// Entries of a directory per answer.
const ENTRIES_PER_ANSWER: usize = 128;
const DIRECTORY: u32 = 0o040_000;
const REGULAR: u32 = 0o100_000;

const POSIX_RENAME: &str = "posix-rename@openssh.com";
const FSYNC: &str = "fsync@openssh.com";

enum Handled {
    File {
        file: File,
        append: bool,
        read: bool,
        write: bool,
    },
    Dir(std::vec::IntoIter<(String, Stat)>),
}

/// One SFTP session.
pub struct Sftp {
    machine: Machine,
    handles: HashMap<String, Handled>,
    next: u64,
    /// Cancels its token when the session's task drops this.
    _done: DropGuard,
}

impl Sftp {
    /// A session in the user's home; `done` fires when it is over.
    pub fn new(machine: Machine, done: DropGuard) -> Self {
        Self {
            machine,
            handles: HashMap::new(),
            next: 0,
            _done: done,
        }
    }

    fn disk(&self) -> &Home {
        &self.machine.disk
    }

    fn path(&self, name: &str) -> Result<AbsPath, StatusCode> {
        self.machine
            .home_dir()
            .join(name)
            .ok_or(StatusCode::BadMessage)
    }

    fn keep(&mut self, id: u32, handled: Handled) -> Result<Handle, StatusCode> {
        if self.handles.len() >= MAX_HANDLES {
            return Err(StatusCode::Failure);
        }
        self.next += 1;
        let handle = self.next.to_string();
        self.handles.insert(handle.clone(), handled);
        Ok(Handle { id, handle })
    }

    fn file(&self, handle: &str) -> Result<&File, StatusCode> {
        match self.handles.get(handle) {
            Some(Handled::File { file, .. }) => Ok(file),
            _ => Err(StatusCode::Failure),
        }
    }

    fn attributes(&self, stat: &Stat) -> FileAttributes {
        let kind = match stat.kind {
            Kind::Dir => DIRECTORY,
            Kind::File => REGULAR,
        };
        FileAttributes {
            size: Some(stat.size),
            uid: Some(1000),
            gid: Some(1000),
            user: Some(self.machine.user.clone()),
            group: Some(self.machine.user.clone()),
            permissions: Some(stat.mode | kind),
            atime: Some(stat.mtime),
            mtime: Some(stat.mtime),
        }
    }

    fn stat_path(&self, id: u32, name: &str) -> Result<Attrs, StatusCode> {
        let stat = self.disk().stat(&self.path(name)?).map_err(code)?;
        Ok(Attrs {
            id,
            attrs: self.attributes(&stat),
        })
    }
}

fn code(error: FsError) -> StatusCode {
    match error {
        FsError::NotFound => StatusCode::NoSuchFile,
        FsError::Exists
        | FsError::NotADirectory
        | FsError::IsADirectory
        | FsError::NotEmpty
        | FsError::NoSpace
        | FsError::InvalidName => StatusCode::Failure,
    }
}

fn ok(id: u32) -> Status {
    Status {
        id,
        status_code: StatusCode::Ok,
        error_message: "Ok".to_owned(),
        language_tag: "en".to_owned(),
    }
}

/// The next string of an extended request's data (RFC 4251 §5).
fn take_string(data: &mut &[u8]) -> Result<String, StatusCode> {
    let (length, rest) = data
        .split_first_chunk::<4>()
        .ok_or(StatusCode::BadMessage)?;
    let length = usize::try_from(u32::from_be_bytes(*length)).unwrap_or(usize::MAX);
    let (text, rest) = rest
        .split_at_checked(length)
        .ok_or(StatusCode::BadMessage)?;
    *data = rest;
    String::from_utf8(text.to_vec()).map_err(|_| StatusCode::BadMessage)
}

impl russh_sftp::server::Handler for Sftp {
    type Error = StatusCode;

    fn unimplemented(&self) -> StatusCode {
        StatusCode::OpUnsupported
    }

    async fn init(
        &mut self,
        _version: u32,
        _extensions: HashMap<String, String>,
    ) -> Result<Version, StatusCode> {
        let mut version = Version::new();
        for extension in [POSIX_RENAME, FSYNC] {
            version
                .extensions
                .insert(extension.to_owned(), "1".to_owned());
        }
        Ok(version)
    }

    async fn open(
        &mut self,
        id: u32,
        filename: String,
        pflags: OpenFlags,
        attrs: FileAttributes,
    ) -> Result<Handle, StatusCode> {
        let path = self.path(&filename)?;
        let how = Open {
            create: pflags.contains(OpenFlags::CREATE),
            exclusive: pflags.contains(OpenFlags::EXCLUDE),
            truncate: pflags.contains(OpenFlags::TRUNCATE),
        };
        let is_new = self.disk().stat(&path) == Err(FsError::NotFound);
        let file = self.disk().open(&path, how).map_err(code)?;
        if is_new {
            file.set_meta(attrs.permissions, attrs.mtime);
        }
        self.keep(
            id,
            Handled::File {
                file,
                append: pflags.contains(OpenFlags::APPEND),
                read: pflags.contains(OpenFlags::READ),
                write: pflags.contains(OpenFlags::WRITE),
            },
        )
    }

    async fn close(&mut self, id: u32, handle: String) -> Result<Status, StatusCode> {
        self.handles
            .remove(&handle)
            .map(|_| ok(id))
            .ok_or(StatusCode::Failure)
    }

    async fn read(
        &mut self,
        id: u32,
        handle: String,
        offset: u64,
        len: u32,
    ) -> Result<Data, StatusCode> {
        let Some(Handled::File {
            file, read: true, ..
        }) = self.handles.get(&handle)
        else {
            return Err(StatusCode::Failure);
        };
        let data = file.read_at(offset, len.min(MAX_READ) as usize);
        if data.is_empty() {
            return Err(StatusCode::Eof);
        }
        Ok(Data { id, data })
    }

    async fn write(
        &mut self,
        id: u32,
        handle: String,
        offset: u64,
        data: Vec<u8>,
    ) -> Result<Status, StatusCode> {
        match self.handles.get(&handle) {
            Some(Handled::File {
                file,
                append,
                write: true,
                ..
            }) => {
                if *append {
                    file.append(&data)
                } else {
                    file.write_at(offset, &data)
                }
                .map_err(code)?;
                Ok(ok(id))
            }
            _ => Err(StatusCode::Failure),
        }
    }

    async fn lstat(&mut self, id: u32, path: String) -> Result<Attrs, StatusCode> {
        self.stat_path(id, &path)
    }

    async fn stat(&mut self, id: u32, path: String) -> Result<Attrs, StatusCode> {
        self.stat_path(id, &path)
    }

    async fn fstat(&mut self, id: u32, handle: String) -> Result<Attrs, StatusCode> {
        let (size, mode, mtime) = self.file(&handle)?.stat();
        let stat = Stat {
            kind: Kind::File,
            size,
            mode,
            mtime,
        };
        Ok(Attrs {
            id,
            attrs: self.attributes(&stat),
        })
    }

    async fn setstat(
        &mut self,
        id: u32,
        path: String,
        attrs: FileAttributes,
    ) -> Result<Status, StatusCode> {
        let path = self.path(&path)?;
        if let Some(size) = attrs.size {
            let file = self.disk().open(&path, Open::default()).map_err(code)?;
            file.set_len(size).map_err(code)?;
        }
        self.disk()
            .set_stat(&path, attrs.permissions, attrs.mtime)
            .map_err(code)?;
        Ok(ok(id))
    }

    async fn fsetstat(
        &mut self,
        id: u32,
        handle: String,
        attrs: FileAttributes,
    ) -> Result<Status, StatusCode> {
        let file = self.file(&handle)?;
        if let Some(size) = attrs.size {
            file.set_len(size).map_err(code)?;
        }
        file.set_meta(attrs.permissions, attrs.mtime);
        Ok(ok(id))
    }

    async fn opendir(&mut self, id: u32, path: String) -> Result<Handle, StatusCode> {
        let path = self.path(&path)?;
        let mut entries = self.disk().list(&path).map_err(code)?;
        for (name, at) in [("..", path.join("..")), (".", Some(path.clone()))] {
            let stat = self.disk().stat(&at.unwrap_or_default()).map_err(code)?;
            entries.insert(0, (name.to_owned(), stat));
        }
        self.keep(id, Handled::Dir(entries.into_iter()))
    }

    async fn readdir(&mut self, id: u32, handle: String) -> Result<Name, StatusCode> {
        let entries: Vec<_> = match self.handles.get_mut(&handle) {
            Some(Handled::Dir(entries)) => entries.by_ref().take(ENTRIES_PER_ANSWER).collect(),
            _ => return Err(StatusCode::Failure),
        };
        if entries.is_empty() {
            return Err(StatusCode::Eof);
        }
        let files = entries
            .into_iter()
            .map(|(name, stat)| Entry::new(name, self.attributes(&stat)))
            .collect();
        Ok(Name { id, files })
    }

    async fn remove(&mut self, id: u32, filename: String) -> Result<Status, StatusCode> {
        let path = self.path(&filename)?;
        self.disk().remove_file(&path).map_err(code)?;
        Ok(ok(id))
    }

    async fn mkdir(
        &mut self,
        id: u32,
        path: String,
        attrs: FileAttributes,
    ) -> Result<Status, StatusCode> {
        let path = self.path(&path)?;
        let mode = attrs.permissions.unwrap_or(0o755) & 0o7777;
        self.disk().create_dir(&path, mode).map_err(code)?;
        Ok(ok(id))
    }

    async fn rmdir(&mut self, id: u32, path: String) -> Result<Status, StatusCode> {
        let path = self.path(&path)?;
        self.disk().remove_dir(&path).map_err(code)?;
        Ok(ok(id))
    }

    async fn realpath(&mut self, id: u32, path: String) -> Result<Name, StatusCode> {
        let path = self.path(&path)?;
        Ok(Name {
            id,
            files: vec![Entry::dummy(path.to_string())],
        })
    }

    async fn rename(
        &mut self,
        id: u32,
        oldpath: String,
        newpath: String,
    ) -> Result<Status, StatusCode> {
        let (from, to) = (self.path(&oldpath)?, self.path(&newpath)?);
        self.disk().rename(&from, &to, false).map_err(code)?;
        Ok(ok(id))
    }

    async fn extended(
        &mut self,
        id: u32,
        request: String,
        data: Vec<u8>,
    ) -> Result<Packet, StatusCode> {
        let mut data = data.as_slice();
        match request.as_str() {
            POSIX_RENAME => {
                let from = self.path(&take_string(&mut data)?)?;
                let to = self.path(&take_string(&mut data)?)?;
                self.disk().rename(&from, &to, true).map_err(code)?;
                Ok(ok(id).into())
            }
            FSYNC => {
                self.file(&take_string(&mut data)?)?;
                Ok(ok(id).into())
            }
            _ => Err(StatusCode::OpUnsupported),
        }
    }
}
