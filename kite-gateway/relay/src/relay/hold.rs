//! What a user says before the server is there.

use std::future::Future;
use std::pin::pin;
use std::task::Poll;

use crate::io::{Connection, ConnectionError, Event};
use crate::message::{GLOBAL_REQUEST, IGNORE, REQUEST_FAILURE};
use crate::wire::Fields;

/// What a message takes beside its bytes.
const EACH: usize = 64;
/// Bytes that are held; whoever says more than that is let go.
const MOST: usize = 64 * 1024;

/// What a user has said, in order.
#[derive(Debug, Default)]
pub struct Held {
    /// Each with the number of its packet.
    pub(super) messages: Vec<(u32, Vec<u8>)>,
    bytes: usize,
    /// Something is asked that the server answers.
    waits: bool,
}

/// What is to be said to a user whose message was taken.
#[derive(Debug, PartialEq, Eq)]
enum Say {
    Nothing,
    /// Somebody is there.
    Reply,
    /// Somebody is there, and the reply comes later.
    Ignore,
}

impl Held {
    /// Takes a message. Whether the connection is alive is asked of whoever is there, and is
    /// answered at once; but replies come in order, so that one comes later if something was
    /// asked before it that the server answers.
    fn take(&mut self, sequence: u32, message: &[u8]) -> Say {
        let is_keepalive = global(message)
            .is_some_and(|(name, wants_reply)| wants_reply && name.starts_with(b"keepalive@"));
        if is_keepalive && !self.waits {
            return Say::Reply;
        }
        self.waits |= global(message).is_some_and(|(_, wants_reply)| wants_reply);
        self.bytes += message.len() + EACH;
        self.messages.push((sequence, message.to_vec()));
        if is_keepalive {
            Say::Ignore
        } else {
            Say::Nothing
        }
    }
}

/// The name of a global request, and whether it wants a reply.
fn global(message: &[u8]) -> Option<(&[u8], bool)> {
    let (&GLOBAL_REQUEST, rest) = message.split_first()? else {
        return None;
    };
    let mut fields = Fields(rest);
    Some((fields.string().ok()?, fields.boolean().ok()?))
}

/// Holds what a user says while something else is waited for. There can be no data among it, as
/// no channel is confirmed: it is little.
///
/// # Errors
/// The user's connection ends, or the user says more than is held.
pub async fn hold<F: Future>(
    user: &mut Connection,
    held: &mut Held,
    until: F,
) -> Result<F::Output, ConnectionError> {
    let mut until = pin!(until);
    std::future::poll_fn(|cx| {
        if let Poll::Ready(output) = until.as_mut().poll(cx) {
            return Poll::Ready(Ok(output));
        }
        loop {
            if held.bytes > MOST {
                return Poll::Ready(Err(ConnectionError::Flood));
            }
            match user.poll_next(cx) {
                Poll::Ready(Ok(Event::Message { sequence })) => {
                    match held.take(sequence, user.message()) {
                        Say::Nothing => {}
                        Say::Reply => user.send(&[REQUEST_FAILURE], &[])?,
                        // Any packet tells OpenSSH that somebody is there.
                        Say::Ignore => user.send(&[IGNORE, 0, 0, 0, 0], &[])?,
                    }
                }
                Poll::Ready(Ok(Event::Keyed | Event::HostKey(_))) => {}
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => break,
            }
        }
        if let Poll::Ready(Err(error)) = user.poll_write(cx) {
            return Poll::Ready(Err(error.into()));
        }
        Poll::Pending
    })
    .await
}
