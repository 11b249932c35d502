//! A [`Transport`] on a stream, with tokio.

mod eager;
mod workers;

use std::future::Future as _;
use std::io;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::io::poll_read_buf;
use zeroize::Zeroize as _;

use crate::message::{Disconnect, USERAUTH_61, USERAUTH_REQUEST};
use crate::transport::{Config, Done, Step, Transport, TransportError};
pub use {eager::Eager, workers::Workers};

/// Keys that last longer are changed, however little has passed.
const DAY: Duration = Duration::from_secs(24 * 3600);
/// Bytes that are read where nothing is expected, on the stack: an idle connection has no
/// buffer.
const LITTLE: usize = 4 * 1024;
/// Bytes that are read at once where much comes.
const MUCH: usize = 64 * 1024;
/// What a relay lets wait, with a packet: as much as is made room for at once, so that what is
/// said is not moved about as it grows.
const WAITING: usize = 192 * 1024;
/// Bytes that may wait before a login, and after it, until their reader has taken some: a peer
/// that makes answers necessary and reads none is not read either. The latter is more than a
/// relay lets wait, which goes on reading meanwhile.
const SAID_TO_STRANGERS: usize = 64 * 1024;
const SAID: usize = 1024 * 1024;
/// A buffer that is kept although it is empty.
const KEPT: usize = 1024;

/// Why a connection ends.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectionError {
    /// The line breaks.
    #[error("the line broke: {0}")]
    Io(#[from] io::Error),
    /// The peer hangs up without a word.
    #[error("the connection was closed")]
    Closed,
    /// The peer ends the connection with a word.
    #[error("the other side ended the connection: {}", .0.text)]
    Disconnected(Disconnect),
    /// The peer breaks the protocol.
    #[error(transparent)]
    Transport(#[from] TransportError),
    /// The peer says more than is held of it.
    #[error("more was said than is held")]
    Flood,
    /// What was to be computed was not.
    #[error("the key exchange was not computed")]
    Work,
}

/// What a peer has done.
#[derive(Debug)]
pub enum Event {
    /// The server has this host key: see [`Transport::trust`].
    HostKey(Vec<u8>),
    /// The first keys are there.
    Keyed,
    /// A message of a layer above, to be read by [`Connection::message`].
    Message {
        /// The number of its packet.
        sequence: u32,
    },
}

/// One side of a connection on a stream. What it says is written as the next thing is waited
/// for.
pub struct Connection {
    stream: Box<dyn Stream>,
    transport: Transport,
    workers: Workers,
    /// What has come, and how much of it is used up.
    input: Vec<u8>,
    used: usize,
    /// Bytes of the message that its reader has, and where it is.
    taken: usize,
    message: Range<usize>,
    /// What is said, and how much of it is written.
    out: Vec<u8>,
    written: usize,
    /// What may wait.
    most: usize,
    /// When keys were changed last, by us.
    keyed: Instant,
    job: Option<JoinHandle<Option<Done>>>,
    is_closed: bool,
    /// Much has come last.
    is_busy: bool,
}

/// What a connection can be on.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection")
            .field("transport", &self.transport)
            .field("waiting", &self.waiting())
            .finish_non_exhaustive()
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if let Some(job) = &self.job {
            job.abort();
        }
        self.wipe();
    }
}

impl Connection {
    /// Begins.
    ///
    /// # Errors
    /// There is no randomness.
    pub fn start(
        config: Arc<Config>,
        stream: impl Stream + 'static,
        workers: Workers,
    ) -> Result<Self, TransportError> {
        let mut out = Vec::new();
        let transport = Transport::start(config, &mut out)?;
        Ok(Self {
            stream: Box::new(stream),
            transport,
            workers,
            input: Vec::new(),
            used: 0,
            taken: 0,
            message: 0..0,
            out,
            written: 0,
            most: SAID_TO_STRANGERS,
            keyed: Instant::now(),
            job: None,
            is_closed: false,
            is_busy: false,
        })
    }

    /// The transport.
    #[must_use]
    pub fn transport(&self) -> &Transport {
        &self.transport
    }

    /// The message that came last.
    #[must_use]
    pub fn message(&self) -> &[u8] {
        &self.input[self.message.clone()]
    }

    /// Bytes that are said and not written.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.out.len() - self.written
    }

    /// Says something of a layer above: the bytes of `head` and `tail`.
    ///
    /// # Errors
    /// As [`Transport::send`].
    pub fn send(&mut self, head: &[u8], tail: &[u8]) -> Result<(), TransportError> {
        if tail.len() > LITTLE && self.out.capacity() < WAITING {
            self.out.reserve(WAITING.saturating_sub(self.out.len()));
        }
        self.transport.send(head, tail, &mut self.out)
    }

    /// The server's host key is the right one.
    ///
    /// # Errors
    /// As [`Transport::trust`].
    pub fn trust(&mut self) -> Result<(), TransportError> {
        self.transport.trust(&mut self.out)
    }

    /// Tells the peer that nobody knows its message.
    ///
    /// # Errors
    /// As [`Transport::unimplemented`].
    pub fn unimplemented(&mut self, sequence: u32) -> Result<(), TransportError> {
        self.transport.unimplemented(sequence, &mut self.out)
    }

    /// The login is over: longer packets are taken.
    pub fn open_wide(&mut self) {
        self.most = SAID;
        self.transport.open_wide();
    }

    /// Begins to change the keys.
    ///
    /// # Errors
    /// As [`Transport::rekey`].
    pub fn rekey(&mut self) -> Result<(), TransportError> {
        self.keyed = Instant::now();
        self.transport.rekey(&mut self.out)
    }

    /// Whether keys are to be changed, by what has passed or after a day.
    #[must_use]
    pub fn is_due(&self) -> bool {
        self.transport.is_due() || self.keyed.elapsed() > DAY
    }

    /// The next thing that the peer does; what was said is written meanwhile.
    ///
    /// # Errors
    /// The connection ends.
    pub async fn next(&mut self) -> Result<Event, ConnectionError> {
        std::future::poll_fn(|cx| {
            if let Poll::Ready(event) = self.poll_next(cx) {
                // What is said before an error is written by `end`.
                return Poll::Ready(event);
            }
            if let Poll::Ready(Err(error)) = self.poll_write(cx) {
                return Poll::Ready(Err(error.into()));
            }
            Poll::Pending
        })
        .await
    }

    /// The next thing that the peer does.
    pub(crate) fn poll_next(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Event, ConnectionError>> {
        self.used += std::mem::take(&mut self.taken);
        self.wipe();
        loop {
            if let Some(job) = &mut self.job {
                let done = ready!(Pin::new(job).poll(cx));
                self.job = None;
                let done = done.ok().flatten().ok_or(ConnectionError::Work)?;
                self.transport.done(done, &mut self.out)?;
            }
            if self.waiting() > self.most {
                ready!(self.poll_write(cx))?;
            }
            let next = self
                .transport
                .next(&mut self.input[self.used..], &mut self.out)?;
            match next.step {
                Step::Wait { needed } => {
                    self.used += next.consumed;
                    if self.is_closed {
                        return Poll::Ready(Err(ConnectionError::Closed));
                    }
                    ready!(self.poll_read(cx, needed))?;
                }
                Step::Work(work) => {
                    self.used += next.consumed;
                    self.job = Some(self.workers.run(move || work.run()));
                }
                Step::Working => return Poll::Ready(Err(ConnectionError::Work)),
                Step::HostKey(key) => {
                    self.used += next.consumed;
                    return Poll::Ready(Ok(Event::HostKey(key)));
                }
                Step::Keyed => {
                    self.used += next.consumed;
                    return Poll::Ready(Ok(Event::Keyed));
                }
                Step::Message { payload, sequence } => {
                    self.taken = next.consumed;
                    self.message = self.used + payload.start..self.used + payload.end;
                    return Poll::Ready(Ok(Event::Message { sequence }));
                }
                Step::Disconnected(told) => {
                    return Poll::Ready(Err(ConnectionError::Disconnected(told)));
                }
            }
        }
    }

    /// The message was read; one of a login may have a password.
    fn wipe(&mut self) {
        let is_of_a_login = matches!(self.message(), [USERAUTH_REQUEST | USERAUTH_61, ..]);
        let message = std::mem::take(&mut self.message);
        if is_of_a_login {
            self.input[message].zeroize();
        }
    }

    /// Reads more behind what is not used up, of which a message wants `needed` bytes.
    fn poll_read(&mut self, cx: &mut Context<'_>, needed: usize) -> Poll<io::Result<()>> {
        if self.used > 0 {
            self.input.copy_within(self.used.., 0);
            self.input.truncate(self.input.len() - self.used);
            self.used = 0;
        }
        let count = if self.input.capacity() <= KEPT && !self.is_busy {
            let mut little = [0; LITTLE];
            let mut read = ReadBuf::new(&mut little);
            ready!(Pin::new(&mut self.stream).poll_read(cx, &mut read))?;
            let count = read.filled().len();
            self.input.extend_from_slice(read.filled());
            count
        } else {
            let length = self.input.len();
            let more = needed.saturating_sub(length).max(MUCH / 2);
            if self.input.capacity() - length < more {
                self.input.reserve(more.max(MUCH));
            }
            match poll_read_buf(Pin::new(&mut self.stream), cx, &mut self.input) {
                Poll::Ready(read) => read?,
                Poll::Pending => {
                    if self.input.is_empty() {
                        self.input = Vec::new();
                    }
                    return Poll::Pending;
                }
            }
        };
        // More is to be expected where much has come.
        self.is_busy = count >= LITTLE;
        self.is_closed = count == 0;
        Poll::Ready(Ok(()))
    }

    /// Writes what is said; ready when all of it is written.
    pub(crate) fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.written < self.out.len() {
            let rest = &self.out[self.written..];
            let count = match Pin::new(&mut self.stream).poll_write(cx, rest) {
                Poll::Ready(count) => count?,
                Poll::Pending => {
                    // Room for what is said next, without what is written.
                    if self.written > self.out.len() / 2 {
                        self.out.drain(..self.written);
                        self.written = 0;
                    }
                    return Poll::Pending;
                }
            };
            if count == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.written += count;
        }
        self.written = 0;
        self.out.clear();
        if self.out.capacity() > KEPT {
            self.out = Vec::new();
        }
        // Some streams keep what is written.
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    /// Writes all that was said.
    ///
    /// # Errors
    /// The line breaks.
    pub async fn flush(&mut self) -> io::Result<()> {
        std::future::poll_fn(|cx| self.poll_write(cx)).await
    }

    /// Says why the connection ends, if that was not said, and ends it. A peer that does not
    /// read that within `patience` is cut off.
    pub async fn end(mut self, why: &Disconnect, patience: Duration) {
        self.transport.disconnect(why, &mut self.out);
        let goodbye = async {
            self.flush().await?;
            self.stream.shutdown().await?;
            // What the peer still says is read: a line that is cut with something unread
            // takes along what was said last.
            let mut unread = [0; 512];
            while !self.is_closed {
                self.is_closed = self.stream.read(&mut unread).await? == 0;
            }
            Ok::<_, io::Error>(())
        };
        // Whoever does not take it is gone, or is treated so.
        let _ = tokio::time::timeout(patience, goodbye).await;
    }
}
