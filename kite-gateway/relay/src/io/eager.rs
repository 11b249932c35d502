//! A TCP stream that acknowledges at once what begins it.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// Reads that are acknowledged at once: those of a login and of what is started first.
const FIRST: u8 = 24;

/// A TCP stream whose first bytes are acknowledged as they are read, on Linux.
///
/// OpenSSH's programs keep a small packet back until the one before it is acknowledged, as long
/// as they do not know of a terminal; and a kernel keeps an acknowledgement back for 40 ms when
/// nothing is said that carries it. That is so three times between a client's first word and
/// its command's.
#[derive(Debug)]
pub struct Eager {
    stream: TcpStream,
    left: u8,
}

impl Eager {
    /// From a stream of which nothing was read, or little.
    #[must_use]
    pub fn new(stream: TcpStream) -> Self {
        Self {
            stream,
            left: FIRST,
        }
    }
}

impl AsyncRead for Eager {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        read: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.stream).poll_read(cx, read))?;
        if let Some(left) = self.left.checked_sub(1) {
            self.left = left;
            acknowledge(&self.stream);
        }
        Poll::Ready(Ok(()))
    }
}

/// The kernel goes back to its own ways as soon as something is said.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn acknowledge(stream: &TcpStream) {
    // Without it all is as it is, and later.
    let _ = stream.set_quickack(true);
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn acknowledge(_: &TcpStream) {}

impl AsyncWrite for Eager {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
