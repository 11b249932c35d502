//! The byte streams under the two SSH sessions.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, BufReader, ReadBuf};
use tokio::time::{Instant, Sleep};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

/// Bytes that are read from a socket at a time; russh alone would ask the
/// system twice per packet.
const READ_BUFFER: usize = 64 * 1024;
/// How long reading rests after a stalled channel's trickle was answered.
const REST: Duration = Duration::from_millis(2);

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

/// The stream of a user's connection: buffered, cut by a token, rested by its
/// [`Pace`].
pub(crate) struct Paced<S> {
    inner: BufReader<S>,
    cut: Cut,
    pace: Arc<Pace>,
    resting: Option<Pin<Box<Sleep>>>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Paced<S> {
    pub(crate) fn new(inner: S, token: &CancellationToken, pace: Arc<Pace>) -> Self {
        Self {
            inner: BufReader::with_capacity(READ_BUFFER, inner),
            cut: Cut::new(token),
            pace,
            resting: None,
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Paced<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Cut::check(&mut self.cut.reading, cx)?;
        // What is buffered already came before the rest was called for, or is
        // other channels' data in the same read: only the socket rests.
        if self.inner.buffer().is_empty() {
            let until = self.pace.0.lock().take();
            if let Some(until) = until {
                self.resting = Some(Box::pin(tokio::time::sleep_until(until)));
            }
            if let Some(resting) = &mut self.resting {
                std::task::ready!(resting.as_mut().poll(cx));
                self.resting = None;
            }
        }
        Pin::new(&mut self.inner).poll_read(cx, buf)
    }
}

/// Says whether more may be read.
pub(crate) trait Room: Send + Sync + 'static {
    /// Ready while more may be read.
    fn poll_room(&self, cx: &Context<'_>) -> Poll<()>;
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
                Pin::new(&mut self.inner).poll_write(cx, buf)
            }

            fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                Cut::check(&mut self.cut.writing, cx)?;
                Pin::new(&mut self.inner).poll_flush(cx)
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
