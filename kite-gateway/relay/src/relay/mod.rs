//! Passing the connection protocol (RFC 4254) on between two connections.
//!
//! [`relay`] reads what one side says and says it to the other, unread but for the numbers of
//! channels: windows, replies and exit codes are the two ends' own. What may pass is told by
//! [`Rules`], where a channel is asked for, or something of one. A side is read only while
//! what waits for the other one is below [`MARK`], so that nothing piles up.

#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;
mod hold;
mod pass;
mod replies;
mod rules;
mod table;

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

pub use hold::{Held, hold};
pub use pass::Broken;
pub use rules::{Channel, Denied, End, Everything, Open, Refusal, Request, Rules, Side};

use crate::io::{Connection, ConnectionError, Event};
use crate::message::{Disconnect, Reason};
use crate::sign::SigningKey;
use crate::transport::TransportError;
use pass::{Outcome, Passing};

/// Bytes that wait for a side, above which the other one is not read.
pub const MARK: usize = 128 * 1024;
/// Bytes that are passed before others have their turn.
const TURN: usize = 1024 * 1024;

/// What a relay is to know.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Channels at a time.
    pub most_channels: usize,
    /// The host keys of the relay, which the user's client is told of; none are told where
    /// there are none.
    pub host_keys: Vec<Arc<SigningKey>>,
    /// Bytes of the window of each session that are kept for words of the relay's own (see
    /// [`Channel::tell`]). A user whose window is less than four times that hears none.
    pub reserve: u32,
    /// What the server is called in words for the user, such as `the server`.
    pub server: &'static str,
    /// How long a side may take to read why the connection ends.
    pub patience: Duration,
}

impl Settings {
    /// A thousand channels, no words of the relay's own, a server that is called so, and a
    /// second to read why the connection ends.
    #[must_use]
    pub fn new(host_keys: Vec<Arc<SigningKey>>) -> Self {
        Self {
            most_channels: 1000,
            host_keys,
            reserve: 0,
            server: "the server",
            patience: Duration::from_secs(1),
        }
    }
}

/// Why a relay ends.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Ended {
    /// A side's connection ends.
    #[error("{}: {why}", name(*.side))]
    Connection {
        /// Whose.
        side: Side,
        /// Why.
        why: ConnectionError,
    },
    /// A side breaks the connection protocol.
    #[error("{}: {why}", name(*.side))]
    Broken {
        /// Which.
        side: Side,
        /// How.
        why: Broken,
    },
    /// It was stopped.
    #[error("stopped: {}", .0.text)]
    Stopped(Disconnect),
}

const fn name(side: Side) -> &'static str {
    match side {
        Side::User => "the user's connection",
        Side::Server => "the connection to the server",
    }
}

impl Ended {
    /// What a side is told.
    fn told(&self, to: Side, server: &str) -> Disconnect {
        let lost = |to: Side, why: &dyn std::fmt::Display| {
            let whose = match to {
                Side::User => format!("the connection to {server}"),
                Side::Server => "the user's connection".to_owned(),
            };
            Disconnect::new(Reason::CONNECTION_LOST, format!("{whose} was lost: {why}"))
        };
        match self {
            // A server's words reach the user as they would without a relay.
            Self::Stopped(told)
            | Self::Connection {
                why: ConnectionError::Disconnected(told),
                ..
            } => told.clone(),
            Self::Connection { side, why } if *side != to => lost(to, why),
            Self::Broken { side, why } if *side != to => lost(to, why),
            Self::Connection { why, .. } => {
                Disconnect::new(Reason::PROTOCOL_ERROR, why.to_string())
            }
            Self::Broken { why, .. } => Disconnect::new(Reason::PROTOCOL_ERROR, why.to_string()),
        }
    }
}

/// Passes messages on between a user and a server, who are both logged in, until one of them
/// ends its connection or `stop` says why both end; then both are told, and ended.
///
/// `held` is what the user has said while the server was not there.
pub async fn relay<R: Rules>(
    user: Connection,
    server: Connection,
    held: Held,
    settings: &Settings,
    rules: &mut R,
    stop: impl Future<Output = Disconnect>,
) -> Ended {
    let session = user.transport().session_id().unwrap_or_default();
    let signed_by = user.transport().host_key_algorithm();
    let passing = Passing::new(settings, session, signed_by);
    let mut pair = Pair {
        ends: [user, server],
        parked: [None, None],
        held: held.messages.into(),
        passing,
    };
    let mut stop = pin!(stop);
    let ended = match pair.begin() {
        Err(ended) => ended,
        Ok(()) => {
            std::future::poll_fn(|cx| {
                if let Poll::Ready(told) = stop.as_mut().poll(cx) {
                    return Poll::Ready(Ended::Stopped(told));
                }
                pair.poll(cx, rules)
            })
            .await
        }
    };
    pair.passing.end(rules);
    let [user, server] = pair.ends;
    let told = |side| ended.told(side, settings.server);
    let (to_user, to_server) = (told(Side::User), told(Side::Server));
    tokio::join!(
        user.end(&to_user, settings.patience),
        server.end(&to_server, settings.patience),
    );
    ended
}

const SIDES: [Side; 2] = [Side::User, Side::Server];

/// Both connections, the user's first.
struct Pair<N> {
    ends: [Connection; 2],
    /// The number of a message that has come and does not pass yet.
    parked: [Option<u32>; 2],
    /// What the user has said before all else.
    held: VecDeque<(u32, Vec<u8>)>,
    passing: Passing<N>,
}

impl<N: Default> Pair<N> {
    /// Says what comes before all else.
    fn begin(&mut self) -> Result<(), Ended> {
        self.ends.iter_mut().for_each(Connection::open_wide);
        if let Some(announcement) = self.passing.announcement() {
            self.send(Side::User, &announcement)?;
        }
        Ok(())
    }

    fn poll<R: Rules<Note = N>>(&mut self, cx: &mut Context<'_>, rules: &mut R) -> Poll<Ended> {
        match self.turn(cx, rules) {
            Ok(true) => {
                // Others have their turn first.
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            Ok(false) => Poll::Pending,
            Err(ended) => Poll::Ready(ended),
        }
    }

    /// Passes what there is; whether there is more.
    fn turn<R: Rules<Note = N>>(
        &mut self,
        cx: &mut Context<'_>,
        rules: &mut R,
    ) -> Result<bool, Ended> {
        let mut passed = 0;
        loop {
            while let Poll::Ready(words) = rules.poll_words(cx) {
                for message in self.passing.tell(&words, rules) {
                    self.send(Side::User, &message)?;
                }
            }
            let mut waits = [false, false];
            for from in SIDES {
                waits[from.index()] = self.drain(from, cx, rules, &mut passed)?;
            }
            for side in SIDES {
                if let Poll::Ready(Err(error)) = self.end(side).poll_write(cx) {
                    return Err(lost(side, error));
                }
            }
            if passed >= TURN {
                self.rekey()?;
                return Ok(true);
            }
            // What was written or exchanged meanwhile may let pass what did not before.
            let can_pass = |from: Side| {
                let is_taken = waits[from.index()] && self.takes(from.other());
                is_taken && !self.passing.has_to_wait(from, self.message(from))
            };
            if !SIDES.into_iter().any(can_pass) && !self.rekey()? {
                return Ok(false);
            }
        }
    }

    /// Passes messages of a side's until none is there, or none may pass; whether one waits for
    /// the other side to take more.
    fn drain<R: Rules<Note = N>>(
        &mut self,
        from: Side,
        cx: &mut Context<'_>,
        rules: &mut R,
        passed: &mut usize,
    ) -> Result<bool, Ended> {
        while *passed < TURN && rules.poll_ready(from, cx).is_ready() {
            let sequence = if let Some(sequence) = self.parked[from.index()] {
                sequence
            } else if let (Side::User, Some((sequence, _))) = (from, self.held.front()) {
                *sequence
            } else {
                match self.end(from).poll_next(cx) {
                    Poll::Pending => break,
                    Poll::Ready(Ok(Event::Message { sequence })) => sequence,
                    Poll::Ready(Ok(Event::Keyed | Event::HostKey(_))) => {
                        return Err(lost(from, TransportError::Misuse("a login")));
                    }
                    Poll::Ready(Err(why)) => return Err(lost(from, why)),
                }
            };
            self.parked[from.index()] = Some(sequence);
            if !self.takes(from.other()) {
                return Ok(true);
            }
            let message = self.message(from);
            if self.passing.has_to_wait(from, message) {
                return Ok(true);
            }
            let Poll::Ready(may) = rules.poll_pass(from, message, cx) else {
                break;
            };
            self.parked[from.index()] = None;
            *passed += self.pass(from, sequence, may, rules)?;
        }
        Ok(false)
    }

    fn end(&mut self, side: Side) -> &mut Connection {
        &mut self.ends[side.index()]
    }

    /// The message of a side's that has come.
    fn message(&self, from: Side) -> &[u8] {
        match (from, self.held.front()) {
            (Side::User, Some((_, message))) => message,
            _ => self.ends[from.index()].message(),
        }
    }

    /// Whether something may be said to a side now.
    fn takes(&self, side: Side) -> bool {
        let end = &self.ends[side.index()];
        end.transport().is_open() && end.waiting() < MARK
    }

    fn send(&mut self, to: Side, message: &[u8]) -> Result<(), Ended> {
        let sent = self.end(to).send(message, &[]);
        sent.map_err(|why| lost(to, why))
    }

    /// Passes the message that a side has said; its bytes.
    fn pass<R: Rules<Note = N>>(
        &mut self,
        from: Side,
        sequence: u32,
        may: Result<(), Refusal>,
        rules: &mut R,
    ) -> Result<usize, Ended> {
        let [user, server] = &mut self.ends;
        let (source, sink) = match from {
            Side::User => (user, server),
            Side::Server => (server, user),
        };
        let held = match from {
            Side::User => self.held.pop_front(),
            Side::Server => None,
        };
        let held = held.as_ref().map(|(_, message)| message.as_slice());
        let message = held.unwrap_or_else(|| source.message());
        let length = message.len();
        let outcome = self.passing.take(from, message, may, rules);
        let outcome = outcome.map_err(|why| broken(from, why))?;
        if outcome.passes {
            let message = outcome.instead.as_deref().unwrap_or(message);
            let sent = sink.send(&[], message);
            sent.map_err(|why| lost(from.other(), why))?;
        }
        self.say(from, sequence, outcome)?;
        Ok(length)
    }

    /// Says what the relay has to say by itself.
    fn say(&mut self, from: Side, sequence: u32, outcome: Outcome) -> Result<(), Ended> {
        if outcome.is_unknown {
            let told = self.end(from).unimplemented(sequence);
            told.map_err(|why| lost(from, why))?;
        }
        for (to, message) in outcome.says {
            self.send(to, &message)?;
        }
        Ok(())
    }

    /// Changes keys that are due, of one side at a time: while one is asked for new keys, what
    /// it has said before has to pass to the other, or its answer would not be reached.
    fn rekey(&mut self) -> Result<bool, Ended> {
        if !self.ends.iter().all(|end| end.transport().is_open()) {
            return Ok(false);
        }
        for side in SIDES {
            if self.end(side).is_due() {
                let asked = self.end(side).rekey();
                asked.map_err(|why| lost(side, why))?;
                return Ok(true);
            }
        }
        Ok(false)
    }
}

fn lost(side: Side, why: impl Into<ConnectionError>) -> Ended {
    let why = why.into();
    Ended::Connection { side, why }
}

fn broken(side: Side, why: Broken) -> Ended {
    Ended::Broken { side, why }
}
