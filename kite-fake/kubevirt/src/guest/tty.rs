//! The terminal of a session: reads what is typed through the [`Editor`],
//! echoes it, and gives lines to whoever reads, the prompt or a command.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker, ready};

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};
use tokio::sync::Notify;

use super::editor::{Editor, Event};
use super::stream::Output;

/// Typed-ahead bytes that are kept for a reader before typing waits.
const MAX_TYPED_AHEAD: usize = 64 * 1024;

#[derive(Default)]
struct Cooked {
    /// Entered lines with their newlines; an empty one is a Ctrl-D, which a
    /// reader sees as an end.
    lines: VecDeque<VecDeque<u8>>,
    length: usize,
    /// The channel is at its end.
    closed: bool,
    waker: Option<Waker>,
}

/// Shared by the terminal's task and the readers of its lines.
#[derive(Default)]
pub struct Tty {
    cooked: Mutex<Cooked>,
    /// Signalled when a reader made room.
    room: Notify,
    /// Signalled on Ctrl-C.
    pub interrupt: Notify,
    /// Whether the prompt is reading, not a command.
    pub at_prompt: AtomicBool,
}

impl Tty {
    /// Reads `raw` until its end, echoing to `screen`.
    pub async fn drive(&self, mut raw: impl AsyncRead + Unpin, screen: Output) {
        let mut editor = Editor::default();
        let mut buffer = [0; 4096];
        loop {
            let count = match raw.read(&mut buffer).await {
                Ok(0) | Err(_) => break,
                Ok(count) => count,
            };
            let mut echo = Vec::new();
            for byte in buffer.iter().take(count) {
                let history = self.at_prompt.load(Ordering::Relaxed);
                match editor.feed(*byte, history, &mut echo) {
                    Event::None => {}
                    Event::Line(line) => self.push(line + "\n"),
                    Event::Interrupt => {
                        let mut cooked = self.cooked.lock();
                        cooked.lines.clear();
                        cooked.length = 0;
                        drop(cooked);
                        self.interrupt.notify_waiters();
                    }
                    Event::End => self.push(String::new()),
                }
            }
            if screen.write(&echo).await.is_err() {
                break;
            }
            while self.cooked.lock().length > MAX_TYPED_AHEAD {
                self.room.notified().await;
            }
        }
        let mut cooked = self.cooked.lock();
        cooked.closed = true;
        wake(&mut cooked);
    }

    fn push(&self, line: String) {
        let mut cooked = self.cooked.lock();
        // A Ctrl-D counts too, so that holding it down is bounded as well.
        cooked.length += line.len().max(1);
        cooked.lines.push_back(line.into_bytes().into());
        wake(&mut cooked);
    }

    /// The next entered line without its newline; `None` at the end of input.
    pub async fn line(self: &Arc<Self>) -> Option<String> {
        let mut reader = TtyReader(Arc::clone(self));
        let mut line = Vec::new();
        loop {
            // One byte at a time, so that what follows stays for the command.
            match reader.read_u8().await {
                Ok(b'\n') => return Some(String::from_utf8_lossy(&line).into_owned()),
                Ok(byte) => line.push(byte),
                Err(_) => return None,
            }
        }
    }
}

fn wake(cooked: &mut Cooked) {
    if let Some(waker) = cooked.waker.take() {
        waker.wake();
    }
}

/// Reads entered lines, as a command's standard input.
pub struct TtyReader(pub Arc<Tty>);

impl AsyncRead for TtyReader {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut cooked = self.0.cooked.lock();
        let Some(line) = cooked.lines.front_mut() else {
            if cooked.closed {
                return Poll::Ready(Ok(()));
            }
            cooked.waker = Some(cx.waker().clone());
            return Poll::Pending;
        };
        // As from a real terminal, one read gives at most one line.
        let count = line.len().min(buf.remaining());
        for byte in line.drain(..count) {
            buf.put_slice(&[byte]);
        }
        let used_up = line.is_empty();
        cooked.length -= count.max(1);
        if used_up {
            cooked.lines.pop_front();
        }
        drop(cooked);
        self.0.room.notify_one();
        Poll::Ready(Ok(()))
    }
}

/// Writes with CR before each LF, as a terminal's output processing does.
pub struct NewlineWriter<W> {
    inner: W,
    waiting: Vec<u8>,
}

impl<W> NewlineWriter<W> {
    /// Wraps the channel's writer.
    pub fn new(inner: W) -> Self {
        Self {
            inner,
            waiting: Vec::new(),
        }
    }
}

impl<W: AsyncWrite + Unpin> NewlineWriter<W> {
    fn poll_drain(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.waiting.is_empty() {
            let count = ready!(Pin::new(&mut self.inner).poll_write(cx, &self.waiting))?;
            self.waiting.drain(..count);
        }
        Poll::Ready(Ok(()))
    }
}

impl<W: AsyncWrite + Unpin> AsyncWrite for NewlineWriter<W> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_drain(cx))?;
        let mut last = 0;
        for byte in buf {
            if *byte == b'\n' && last != b'\r' {
                self.waiting.push(b'\r');
            }
            self.waiting.push(*byte);
            last = *byte;
        }
        Poll::Ready(Ok(buf.len()))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_drain(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_drain(cx)
    }
}
