//! A byte stream that a token can cut, as pulling a plug does.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

/// Wraps `S`; every read and write fails once the token is cancelled, waiting
/// ones included.
pub struct Cut<S> {
    inner: S,
    reading: Pin<Box<WaitForCancellationFutureOwned>>,
    writing: Pin<Box<WaitForCancellationFutureOwned>>,
}

impl<S> Cut<S> {
    /// Wraps `inner`.
    pub fn new(inner: S, token: &CancellationToken) -> Self {
        Self {
            inner,
            reading: Box::pin(token.clone().cancelled_owned()),
            writing: Box::pin(token.clone().cancelled_owned()),
        }
    }

    fn write_cut(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        match self.writing.as_mut().poll(cx) {
            Poll::Ready(()) => Err(io::ErrorKind::ConnectionAborted.into()),
            Poll::Pending => Ok(()),
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Cut<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.reading.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        Pin::new(&mut self.inner).poll_read(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Cut<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.write_cut(cx)?;
        Pin::new(&mut self.inner).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.write_cut(cx)?;
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.write_cut(cx)?;
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}
