//! What a client sends on a channel, on its way to the command that reads it.
//!
//! The SSH session's loop must never wait for a command, or one that does not
//! read would freeze every channel of the connection. So data goes into a queue
//! without waiting, and the queue's length steers how far the client's window
//! is opened again: see [`Inlet::window`].

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::{Buf, Bytes};
use parking_lot::Mutex;
use tokio::io::{AsyncRead, ReadBuf};

/// Above this many waiting bytes the window only trickles.
const HIGH_WATER: usize = 1024 * 1024;
/// What the window is opened to while the queue is above its mark. Two, as the
/// window is adjusted when less than half of this is left: with one it would
/// never open again.
const TRICKLE: u32 = 2;
/// More than a well-behaved client can ever have waiting; above it the channel ends.
const HARD_CAP: usize = 32 * 1024 * 1024;

#[derive(Default)]
struct State {
    chunks: VecDeque<Bytes>,
    length: usize,
    ended: bool,
    waker: Option<Waker>,
}

/// The end that the SSH session fills.
#[derive(Clone, Default)]
pub struct Inlet(Arc<Mutex<State>>);

/// The end that a command reads; at its end after [`Inlet::end`].
pub struct Outlet(Arc<Mutex<State>>);

impl Inlet {
    /// Adds data. `false` when the queue is beyond its bound and the channel
    /// has to end.
    pub fn push(&self, data: &[u8]) -> bool {
        let mut state = self.0.lock();
        if state.ended {
            return true;
        }
        state.length += data.len();
        state.chunks.push_back(Bytes::copy_from_slice(data));
        wake(&mut state);
        state.length <= HARD_CAP
    }

    /// No more data will come.
    pub fn end(&self) {
        let mut state = self.0.lock();
        state.ended = true;
        wake(&mut state);
    }

    /// What the next adjustment of the client's window should open it to.
    pub fn window(&self, full: u32) -> u32 {
        if self.0.lock().length > HIGH_WATER {
            TRICKLE
        } else {
            full
        }
    }

    /// The reading end.
    pub fn outlet(&self) -> Outlet {
        Outlet(Arc::clone(&self.0))
    }
}

fn wake(state: &mut State) {
    if let Some(waker) = state.waker.take() {
        waker.wake();
    }
}

impl AsyncRead for Outlet {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut state = self.0.lock();
        let Some(chunk) = state.chunks.front_mut() else {
            if state.ended {
                return Poll::Ready(Ok(()));
            }
            state.waker = Some(cx.waker().clone());
            return Poll::Pending;
        };
        let count = chunk.len().min(buf.remaining());
        buf.put_slice(chunk.get(..count).unwrap_or_default());
        chunk.advance(count);
        let used_up = chunk.is_empty();
        state.length -= count;
        if used_up {
            state.chunks.pop_front();
        }
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use tokio::io::AsyncReadExt;

    use super::*;

    #[tokio::test]
    async fn data_then_end() {
        let inlet = Inlet::default();
        let mut outlet = inlet.outlet();
        let reading = tokio::spawn(async move {
            let mut all = Vec::new();
            outlet.read_to_end(&mut all).await.unwrap();
            all
        });
        tokio::task::yield_now().await;
        inlet.push(b"ab");
        inlet.push(b"c");
        inlet.end();
        assert_eq!(reading.await.unwrap(), b"abc");
    }

    #[tokio::test]
    async fn a_full_queue_closes_the_window_and_reading_opens_it() {
        let inlet = Inlet::default();
        let mut outlet = inlet.outlet();
        inlet.push(&vec![0; HIGH_WATER]);
        assert_eq!(inlet.window(1 << 21), 1 << 21);
        inlet.push(b"x");
        assert_eq!(inlet.window(1 << 21), TRICKLE);
        let mut some = [0; 10];
        outlet.read_exact(&mut some).await.unwrap();
        assert_eq!(inlet.window(1 << 21), 1 << 21);
    }

    #[test]
    fn a_flood_is_reported() {
        let inlet = Inlet::default();
        assert!(inlet.push(&vec![0; HARD_CAP]));
        assert!(!inlet.push(b"x"));
    }
}
