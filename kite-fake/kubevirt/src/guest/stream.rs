//! What a command of the guest's shell reads from and writes to.

use std::io;
use std::pin::Pin;
use std::sync::Arc;

use parking_lot::Mutex as SyncMutex;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::Mutex;

use super::home::File;

/// Bytes moved at a time between files, pipes and the channel.
pub const CHUNK: usize = 32 * 1024;

type Reader = Pin<Box<dyn AsyncRead + Send>>;
type Writer = Pin<Box<dyn AsyncWrite + Send>>;

/// A standard input; clones share the position.
#[derive(Clone)]
pub enum Input {
    /// At its end from the start, as `/dev/null`.
    Empty,
    /// Zeros without end, as `/dev/zero`.
    Zeros,
    /// A file, from the shared offset.
    File(File, Arc<SyncMutex<u64>>),
    /// A pipe, the channel or the terminal.
    Stream(Arc<Mutex<Reader>>),
}

impl Input {
    /// Reads from the start of `file`.
    pub fn file(file: File) -> Self {
        Self::File(file, Arc::default())
    }

    /// Reads from any byte stream.
    pub fn stream(reader: impl AsyncRead + Send + 'static) -> Self {
        Self::Stream(Arc::new(Mutex::new(Box::pin(reader))))
    }

    /// The next bytes, at most `max` and [`CHUNK`]; empty at the end.
    pub async fn read(&self, max: usize) -> io::Result<Vec<u8>> {
        let max = max.min(CHUNK);
        match self {
            Self::Empty => Ok(Vec::new()),
            Self::Zeros => Ok(vec![0; max]),
            Self::File(file, offset) => {
                let mut offset = offset.lock();
                let data = file.read_at(*offset, max);
                *offset += data.len() as u64;
                Ok(data)
            }
            Self::Stream(reader) => {
                let mut data = vec![0; max];
                let read = reader.lock().await.read(&mut data).await?;
                data.truncate(read);
                Ok(data)
            }
        }
    }
}

/// A standard output or error; clones write to the same place.
#[derive(Clone)]
pub enum Output {
    /// Takes everything and keeps nothing, as `/dev/null`.
    Null,
    /// The end of a file.
    File(File),
    /// A pipe, the channel or the terminal.
    Stream(Arc<Mutex<Writer>>),
}

impl Output {
    /// Writes to any byte stream.
    pub fn stream(writer: impl AsyncWrite + Send + 'static) -> Self {
        Self::Stream(Arc::new(Mutex::new(Box::pin(writer))))
    }

    /// Writes all of `data`; waits while the other side does not read.
    pub async fn write(&self, data: &[u8]) -> io::Result<()> {
        match self {
            Self::Null => Ok(()),
            Self::File(file) => file
                .append(data)
                .map_err(|e| io::Error::new(io::ErrorKind::StorageFull, e)),
            Self::Stream(writer) => {
                if data.is_empty() {
                    return Ok(());
                }
                let mut writer = writer.lock().await;
                writer.write_all(data).await?;
                writer.flush().await
            }
        }
    }
}

/// The three standard streams of a command.
#[derive(Clone)]
pub struct Io {
    /// Standard input.
    pub stdin: Input,
    /// Standard output.
    pub stdout: Output,
    /// Standard error.
    pub stderr: Output,
}

impl Io {
    /// Writes text to standard output.
    pub async fn print(&self, text: &str) -> io::Result<()> {
        self.stdout.write(text.as_bytes()).await
    }

    /// Writes a line to standard error.
    pub async fn complain(&self, text: &str) -> io::Result<()> {
        self.stderr.write(format!("{text}\n").as_bytes()).await
    }
}
