//! The byte streams under the two SSH sessions.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, BufReader, Interest, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use super::Wire;

/// Bytes that are read from a socket at a time; russh alone would ask the
/// system twice per packet.
const READ_BUFFER: usize = 64 * 1024;
/// How long reading rests after a stalled channel's trickle was answered.
const REST: Duration = Duration::from_millis(2);
/// How often a connection that is not read is looked at again.
const LOOK: Duration = Duration::from_millis(10);
/// How long what was sent is still taken of a user who has hung up meanwhile.
const LAST: Duration = Duration::from_secs(5);

/// Fails every read and write once a token is cancelled.
struct Cut {
    reading: Pin<Box<WaitForCancellationFutureOwned>>,
    writing: Pin<Box<WaitForCancellationFutureOwned>>,
}

impl Cut {
    fn new(token: &CancellationToken) -> Self {
        Self {
            reading: Box::pin(token.clone().cancelled_owned()),
            writing: Box::pin(token.clone().cancelled_owned()),
        }
    }

    fn check(
        side: &mut Pin<Box<WaitForCancellationFutureOwned>>,
        cx: &mut Context<'_>,
    ) -> io::Result<()> {
        match side.as_mut().poll(cx) {
            Poll::Ready(()) => Err(io::ErrorKind::ConnectionAborted.into()),
            Poll::Pending => Ok(()),
        }
    }
}

/// Lets a connection's handler make reading rest for a moment.
///
/// A client whose channel is stalled answers each trickle of its window at once.
/// On a short line that would be ten thousand tiny packets a second; with a rest
/// after each it is a few hundred, at a cost of at most two milliseconds to
/// other channels' data, and only while one is stalled.
#[derive(Default)]
pub(crate) struct Pace(Mutex<Option<Instant>>);

impl Pace {
    /// Rests from now on.
    pub(crate) fn rest(&self) {
        *self.0.lock() = Some(Instant::now() + REST);
    }
}

/// Says whether a user's connection is not to be read now, and knows its way out.
pub(crate) trait Brake: Send + Sync + 'static {
    /// Whether nothing is to be read.
    fn holds(&self) -> bool;

    /// Told of what is written.
    fn wire(&self) -> &Wire;
}

/// Something that may be hung up by its other side.
pub(crate) trait Line {
    /// Whether the other side has hung up, though not all that it sent was read.
    fn is_hung_up(&self, cx: &mut Context<'_>) -> bool;
}

impl Line for TcpStream {
    fn is_hung_up(&self, cx: &mut Context<'_>) -> bool {
        let ready = std::pin::pin!(self.ready(Interest::READABLE));
        matches!(ready.poll(cx), Poll::Ready(Ok(ready)) if ready.is_read_closed())
    }
}

/// The stream of a user's connection: buffered, cut by a token, rested by its
/// [`Pace`], and not read while its [`Brake`] holds. TCP then holds the user back.
pub(crate) struct Paced<S> {
    inner: BufReader<S>,
    cut: Cut,
    pace: Arc<Pace>,
    brake: Arc<dyn Brake>,
    resting: Option<Pin<Box<Sleep>>>,
    /// Since when nobody is there any more, while the brake holds.
    alone: Option<Instant>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Paced<S> {
    pub(crate) fn new(
        inner: S,
        token: &CancellationToken,
        pace: Arc<Pace>,
        brake: Arc<dyn Brake>,
    ) -> Self {
        Self {
            inner: BufReader::with_capacity(READ_BUFFER, inner),
            cut: Cut::new(token),
            pace,
            brake,
            resting: None,
            alone: None,
        }
    }

    fn wire(&self) -> &Wire {
        self.brake.wire()
    }
}

impl<S: AsyncRead + AsyncWrite + Line + Unpin> Paced<S> {
    /// Ready when the socket may be read: with `false` if nobody is there any more.
    fn poll_socket(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        loop {
            if let Some(resting) = &mut self.resting {
                std::task::ready!(resting.as_mut().poll(cx));
                self.resting = None;
            }
            let until = self.pace.0.lock().take();
            let until = match until {
                Some(until) => until,
                None if !self.brake.holds() => {
                    self.alone = None;
                    return Poll::Ready(true);
                }
                None => {
                    let now = Instant::now();
                    // Without reading, that shows in nothing else.
                    if self.inner.get_ref().is_hung_up(cx)
                        && now - *self.alone.get_or_insert(now) >= LAST
                    {
                        return Poll::Ready(false);
                    }
                    now + LOOK
                }
            };
            self.resting = Some(Box::pin(tokio::time::sleep_until(until)));
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Line + Unpin> AsyncRead for Paced<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Cut::check(&mut self.cut.reading, cx)?;
        // What is buffered already came before the rest was called for, or is
        // other channels' data in the same read: only the socket rests.
        if self.inner.buffer().is_empty() && !std::task::ready!(self.poll_socket(cx)) {
            // As if the user had ended it.
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.inner).poll_read(cx, buf)
    }
}

/// Says whether more of a machine's connection may be read, and knows its way out.
pub(crate) trait Room: Send + Sync + 'static {
    /// Ready while more may be read.
    fn poll_room(&self, cx: &Context<'_>) -> Poll<()>;

    /// Told of what is written.
    fn wire(&self) -> &Wire;
}

/// The stream of a VM's connection: buffered, cut by a token, and not read
/// while a queue towards the user is over its mark.
pub(crate) struct Throttled<S> {
    inner: BufReader<S>,
    cut: Cut,
    room: Arc<dyn Room>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Throttled<S> {
    pub(crate) fn new(inner: S, token: &CancellationToken, room: Arc<dyn Room>) -> Self {
        Self {
            inner: BufReader::with_capacity(READ_BUFFER, inner),
            cut: Cut::new(token),
            room,
        }
    }

    fn wire(&self) -> &Wire {
        self.room.wire()
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Throttled<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Cut::check(&mut self.cut.reading, cx)?;
        std::task::ready!(self.room.poll_room(cx));
        Pin::new(&mut self.inner).poll_read(cx, buf)
    }
}

macro_rules! write_through {
    ($name:ident) => {
        impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for $name<S> {
            fn poll_write(
                mut self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                buf: &[u8],
            ) -> Poll<io::Result<usize>> {
                Cut::check(&mut self.cut.writing, cx)?;
                self.wire().writes();
                Pin::new(&mut self.inner).poll_write(cx, buf)
            }

            fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                Cut::check(&mut self.cut.writing, cx)?;
                std::task::ready!(Pin::new(&mut self.inner).poll_flush(cx))?;
                // russh flushes when it has nothing more to write.
                self.wire().has_written();
                Poll::Ready(Ok(()))
            }

            fn poll_shutdown(
                mut self: Pin<&mut Self>,
                cx: &mut Context<'_>,
            ) -> Poll<io::Result<()>> {
                Cut::check(&mut self.cut.writing, cx)?;
                Pin::new(&mut self.inner).poll_shutdown(cx)
            }
        }
    };
}

write_through!(Paced);
write_through!(Throttled);
