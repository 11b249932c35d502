//! A file that is only added to, and that others may rename or cut while it is.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, Read as _, Seek as _, SeekFrom, Write as _},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use crate::chain::Hash;

/// How much of a file is read at once to find its last line.
const PIECE: u64 = 64 * 1024;

/// Where lines go.
pub(crate) trait Out: Send {
    /// Adds a line, or nothing.
    fn add(&mut self, line: &str) -> io::Result<()>;
}

/// A file at a path. When somebody renames or removes it, a new one is begun there.
pub(crate) struct Kept {
    path: PathBuf,
    file: File,
}

impl Kept {
    /// Opens or makes the file, for its owner alone, with the hash of its last line.
    pub(crate) fn open(path: &Path) -> io::Result<(Self, Option<Hash>)> {
        let mut file = open(path)?;
        let last = last_line(&mut file)?;
        let kept = Self {
            path: path.to_owned(),
            file,
        };
        Ok((kept, last.map(|line| Hash::of(&line))))
    }

    fn is_there(&self) -> io::Result<bool> {
        let own = self.file.metadata()?;
        Ok(fs::metadata(&self.path)
            .is_ok_and(|there| (there.dev(), there.ino()) == (own.dev(), own.ino())))
    }
}

impl Out for Kept {
    fn add(&mut self, line: &str) -> io::Result<()> {
        if !self.is_there()? {
            self.file = open(&self.path)?;
        }
        let length = self.file.metadata()?.len();
        let whole = is_whole(&mut self.file, length)?;
        let start = if whole { "" } else { "\n" };
        let written = self.file.write_all(format!("{start}{line}\n").as_bytes());
        if written.is_err() {
            // What is there of it would be read as a record that somebody has damaged.
            let _ = self.file.set_len(length);
        }
        written
    }
}

/// What is there once and is not kept by its name, such as a pipe.
pub(crate) struct Plain<W> {
    to: W,
    /// Whether a line may have been written in part.
    is_broken: bool,
}

impl<W> Plain<W> {
    pub(crate) fn new(to: W) -> Self {
        Self {
            to,
            is_broken: false,
        }
    }
}

impl<W: io::Write + Send> Out for Plain<W> {
    fn add(&mut self, line: &str) -> io::Result<()> {
        let start = if self.is_broken { "\n" } else { "" };
        // In one piece: others may write to the same place.
        let text = format!("{start}{line}\n");
        let written = self.to.write_all(text.as_bytes());
        let written = written.and_then(|()| self.to.flush());
        self.is_broken = written.is_err();
        written
    }
}

fn open(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new()
        .create(true)
        .read(true)
        .append(true)
        // Commands are in it, and in commands there are secrets at times.
        .mode(0o600)
        .open(path)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(io::Error::new(
            io::ErrorKind::ResourceBusy,
            "another process writes to it: give each one a file of its own",
        )),
        // There are file systems that know no locks.
        Err(TryLockError::Error(error)) => {
            tracing::warn!(path = %path.display(), %error, "the audit log cannot be locked");
            Ok(file)
        }
    }
}

/// Whether the last line of `length` bytes has its end.
fn is_whole(file: &mut File, length: u64) -> io::Result<bool> {
    let Some(last) = length.checked_sub(1) else {
        return Ok(true);
    };
    let mut byte = [0];
    file.seek(SeekFrom::Start(last))?;
    // It may have been cut just now.
    Ok(file.read(&mut byte)? == 0 || byte == *b"\n")
}

/// The last line that is not empty, without its end.
fn last_line(file: &mut File) -> io::Result<Option<Vec<u8>>> {
    let mut start = file.metadata()?.len();
    let mut tail: Vec<u8> = Vec::new();
    loop {
        let kept = tail.trim_ascii_end();
        if let Some(end) = kept.iter().rposition(|byte| *byte == b'\n') {
            return Ok(kept.get(end + 1..).map(<[u8]>::to_vec));
        }
        if start == 0 {
            return Ok((!kept.is_empty()).then(|| kept.to_vec()));
        }
        let from = start.saturating_sub(PIECE);
        let mut piece = vec![0; usize::try_from(start - from).unwrap_or_default()];
        file.seek(SeekFrom::Start(from))?;
        file.read_exact(&mut piece)?;
        piece.append(&mut tail);
        tail = piece;
        start = from;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn the_last_line_is_found_however_long_it_is() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a");
        let long = "x".repeat(200_000);
        for (text, last) in [
            (String::new(), None),
            ("\n\n".to_owned(), None),
            ("a\nb\n".to_owned(), Some("b")),
            ("a\nb".to_owned(), Some("b")),
            (format!("a\n{long}\n\n"), Some(long.as_str())),
            (long.clone(), Some(long.as_str())),
        ] {
            fs::write(&path, &text).unwrap();
            let (_, hash) = Kept::open(&path).unwrap();
            assert_eq!(hash, last.map(|last| Hash::of(last.as_bytes())));
        }
    }

    #[test]
    fn a_file_that_was_renamed_cut_or_broken_off_goes_on() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a");
        fs::write(&path, "broken").unwrap();
        let (mut kept, _) = Kept::open(&path).unwrap();
        kept.add("1").unwrap();
        let other = directory.path().join("a.1");
        fs::rename(&path, &other).unwrap();
        kept.add("2").unwrap();
        kept.add("3").unwrap();
        assert_eq!(fs::read_to_string(&other).unwrap(), "broken\n1\n");
        assert_eq!(fs::read_to_string(&path).unwrap(), "2\n3\n");
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        File::options()
            .write(true)
            .open(&path)
            .unwrap()
            .set_len(0)
            .unwrap();
        kept.add("4").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "4\n");
    }

    /// Takes so many bytes, fails once, and then takes all.
    struct Narrow {
        taken: Vec<u8>,
        room: usize,
    }

    impl io::Write for Narrow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if self.room == 0 {
                self.room = usize::MAX;
                return Err(io::Error::other("there is no room"));
            }
            let count = bytes.len().min(self.room);
            self.room -= count;
            self.taken.extend_from_slice(&bytes[..count]);
            Ok(count)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_line_that_was_written_in_part_spoils_no_other() {
        let mut to = Narrow {
            taken: Vec::new(),
            room: 3,
        };
        let mut plain = Plain::new(&mut to);
        plain.add("1").unwrap();
        assert!(plain.add("broken").is_err());
        plain.add("2").unwrap();
        plain.add("3").unwrap();
        assert_eq!(String::from_utf8(to.taken).unwrap(), "1\nb\n2\n3\n");
    }

    #[test]
    fn two_do_not_write_to_one_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a");
        let first = Kept::open(&path).unwrap();
        let error = Kept::open(&path).err().unwrap();
        assert!(error.to_string().contains("another process"), "{error}");
        drop(first);
        assert!(Kept::open(&path).is_ok());
    }
}
