//! The order of a connection's messages (RFC 4253): versions, key exchanges, and what both
//! sides may say at any time.
//!
//! A [`Transport`] is one side of one connection. It is given what has come and tells what
//! is in it, one [`Step`] at a time; what it has to say it appends to a buffer. Its states
//! own what belongs to them, so that no key exchange is left out, and none begins before the
//! last one is over.

mod config;
mod error;
mod order;
mod state;
mod work;

#[cfg(test)]
pub(crate) mod tests;

use std::ops::Range;
use std::sync::Arc;

pub use config::{Config, Role};
pub use error::TransportError;
pub use work::{Done, Work, WorkError};

use crate::algorithm::Algorithm;
use crate::message::{DISCONNECT, Disconnect, EXT_INFO, PING, PONG, UNIMPLEMENTED};
use crate::packet::{Opened, Opener, Sealer, Usage};
use crate::version::{self, Peer};
use crate::wire::{Fields, Message, names};
use order::{Phase, Verdict, judge};
use state::{Offered, State};
use zeroize::Zeroizing;

/// The longest offer that is kept of a stranger, in bytes; those of known peers have less
/// than three thousand.
const MOST_OFFER: usize = 16 * 1024;
/// Key exchanges of a connection before its login: they cost, and no client needs a second.
const MOST_EARLY: u32 = 8;
/// Bytes of answers that wait for the end of a key exchange.
const MOST_HELD: usize = 64 * 1024;

/// What has come.
#[derive(Debug)]
pub struct Next {
    /// Bytes of the input that are used up, whatever the step. They are taken away before
    /// more is asked for, but not before the step's message was read.
    pub consumed: usize,
    /// What is in them.
    pub step: Step,
}

/// What a peer has done.
#[derive(Debug)]
#[must_use]
pub enum Step {
    /// Nothing more is there.
    Wait {
        /// At least so many bytes behind those that are used up are wanted.
        needed: usize,
    },
    /// To be done, and given back by [`Transport::done`].
    Work(Work),
    /// A [`Work`] was given out, and is not back.
    Working,
    /// The server has this host key. [`Transport::trust`] goes on; whoever does not know it
    /// lets go.
    HostKey(Vec<u8>),
    /// The first keys are there: messages of the layers above may be sent.
    Keyed,
    /// A message of a layer above.
    Message {
        /// Where it is in the input.
        payload: Range<usize>,
        /// The number of its packet.
        sequence: u32,
    },
    /// The peer has ended the connection.
    Disconnected(Disconnect),
}

/// What both sides have agreed on first; it stays.
#[derive(Debug)]
struct Session {
    id: Vec<u8>,
    is_strict: bool,
    host_key: Vec<u8>,
    /// By what the host key has signed.
    algorithm: Algorithm,
}

/// One side of a connection.
#[derive(Debug)]
pub struct Transport {
    config: Arc<Config>,
    sealer: Sealer,
    opener: Opener,
    peer_version: Vec<u8>,
    state: State,
    session: Option<Session>,
    /// Messages that wait for the end of a key exchange, and their bytes.
    held: Vec<Zeroizing<Vec<u8>>>,
    held_bytes: usize,
    /// What a server says that it verifies.
    peer_algorithms: Option<Vec<Algorithm>>,
    /// Key exchanges before the login; `None` behind it.
    early_exchanges: Option<u32>,
}

impl Transport {
    /// Begins: says its version and its offer.
    ///
    /// # Errors
    /// There is no randomness.
    pub fn start(config: Arc<Config>, out: &mut Vec<u8>) -> Result<Self, TransportError> {
        let mut transport = Self {
            config,
            sealer: Sealer::new(),
            opener: Opener::new(),
            peer_version: Vec::new(),
            state: State::Ended,
            session: None,
            held: Vec::new(),
            held_bytes: 0,
            peer_algorithms: None,
            early_exchanges: Some(0),
        };
        out.extend_from_slice(transport.config.version.as_bytes());
        out.extend_from_slice(b"\r\n");
        let offered = transport.offer(out)?;
        transport.state = State::Version(offered);
        Ok(transport)
    }

    /// Goes on with what has come, up to the next thing that its user has to know.
    ///
    /// # Errors
    /// The peer breaks the protocol. The connection is over then, and `out` ends with a
    /// `DISCONNECT` that says why, where the peer can read one.
    pub fn next(&mut self, input: &mut [u8], out: &mut Vec<u8>) -> Result<Next, TransportError> {
        let mut consumed = 0;
        match self.advance(input, &mut consumed, out) {
            Ok(step) => Ok(Next { consumed, step }),
            Err(error) => Err(self.fail(error, out)),
        }
    }

    fn advance(
        &mut self,
        input: &mut [u8],
        at: &mut usize,
        out: &mut Vec<u8>,
    ) -> Result<Step, TransportError> {
        loop {
            match &self.state {
                State::Version(_) => {
                    if let Some(step) = self.read_version(input, at)? {
                        return Ok(step);
                    }
                }
                State::Working(_) => return Ok(Step::Working),
                State::Judging(_, outcome) => return Ok(Step::HostKey(outcome.host_key.clone())),
                State::Broken | State::Ended => return Err(TransportError::Ended),
                State::Offered(_)
                | State::Awaiting(_)
                | State::Asking(_)
                | State::NewKeys(_)
                | State::Open => {}
            }
            let begin = *at;
            match self.opener.open(&mut input[begin..])? {
                Opened::Part { needed } => return Ok(Step::Wait { needed }),
                Opened::Packet {
                    payload,
                    consumed,
                    sequence,
                } => {
                    *at += consumed;
                    let payload = begin + payload.start..begin + payload.end;
                    if let Some(step) = self.packet(input, payload, sequence, out)? {
                        return Ok(step);
                    }
                }
            }
        }
    }

    fn read_version(
        &mut self,
        input: &[u8],
        at: &mut usize,
    ) -> Result<Option<Step>, TransportError> {
        let peer = if self.config.is_server() {
            Peer::Client
        } else {
            Peer::Server
        };
        match version::read(input, peer)? {
            version::Read::Part => Ok(Some(Step::Wait {
                needed: input.len() + 1,
            })),
            version::Read::Version { text, consumed } => {
                self.peer_version = input[text].to_vec();
                *at += consumed;
                self.state = match std::mem::replace(&mut self.state, State::Broken) {
                    State::Version(offered) => State::Offered(offered),
                    other => other,
                };
                Ok(None)
            }
        }
    }

    fn packet(
        &mut self,
        input: &[u8],
        payload: Range<usize>,
        sequence: u32,
        out: &mut Vec<u8>,
    ) -> Result<Option<Step>, TransportError> {
        let message = &input[payload.clone()];
        // No payload is empty.
        let number = message[0];
        if self.state.drops_a_guess(number) {
            return Ok(None);
        }
        let (phase, is_strict) = (self.state.phase(), self.is_strict_now());
        match judge(phase, is_strict, number) {
            Verdict::Above => Ok(Some(Step::Message { payload, sequence })),
            Verdict::Drop => Ok(None),
            Verdict::KeyExchange => self.exchange(message, sequence, out),
            Verdict::Own => self.own(message, out),
            Verdict::Unimplemented => {
                self.unimplemented(sequence, out)?;
                Ok(None)
            }
            Verdict::Forbidden => Err(TransportError::Forbidden {
                number,
                wanted: phase.wanted(),
            }),
        }
    }

    fn own(&mut self, message: &[u8], out: &mut Vec<u8>) -> Result<Option<Step>, TransportError> {
        match message[0] {
            DISCONNECT => {
                self.state = State::Ended;
                let told = Disconnect::decode(message);
                let told = told.map_err(TransportError::of(DISCONNECT))?;
                return Ok(Some(Step::Disconnected(told)));
            }
            PING => {
                let mut fields = Fields(&message[1..]);
                let whole = fields.string().and_then(|_| fields.end());
                whole.map_err(TransportError::of(PING))?;
                self.send(&[PONG], &message[1..], out)?;
            }
            _ => self.learn(message).map_err(TransportError::of(EXT_INFO))?,
        }
        Ok(None)
    }

    /// Reads what the peer says that it can do.
    fn learn(&mut self, message: &[u8]) -> Result<(), crate::wire::Malformed> {
        let mut fields = Fields(&message[1..]);
        let count = fields.number()?;
        for _ in 0..count {
            let (name, value) = (fields.string()?, fields.string()?);
            if name == b"server-sig-algs" {
                let known = names(value).filter_map(Algorithm::named);
                let plain = known.filter(|(_, is_certificate)| !is_certificate);
                self.peer_algorithms = Some(plain.map(|(it, _)| it).collect());
            }
        }
        fields.end()
    }

    /// Whether messages go out at once: no key exchange holds them back.
    #[must_use]
    pub fn is_open(&self) -> bool {
        matches!(self.state, State::Open | State::NewKeys(_))
    }

    /// Sends a message of a layer above, whose bytes are those of `head` and `tail`. While
    /// keys are exchanged it is held, and goes out behind them: whoever has much to say sees
    /// by [`Transport::is_open`] whether that is so.
    ///
    /// # Errors
    /// No packet carries it, too much is held, or the connection is over.
    pub fn send(
        &mut self,
        head: &[u8],
        tail: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), TransportError> {
        if self.is_open() {
            return Ok(self.sealer.seal(head, tail, out)?);
        }
        if self.is_over() {
            return Err(TransportError::Ended);
        }
        self.held_bytes += head.len() + tail.len();
        if self.held_bytes > MOST_HELD {
            return Err(TransportError::Held);
        }
        self.held.push(Zeroizing::new([head, tail].concat()));
        Ok(())
    }

    /// Tells the peer that nobody knows its message of that packet.
    ///
    /// # Errors
    /// As [`Transport::send`].
    pub fn unimplemented(
        &mut self,
        sequence: u32,
        out: &mut Vec<u8>,
    ) -> Result<(), TransportError> {
        let message = Message::new(UNIMPLEMENTED).number(sequence).done();
        self.send(&message, &[], out)
    }

    /// Ends the connection with a reason.
    pub fn disconnect(&mut self, told: &Disconnect, out: &mut Vec<u8>) {
        let is_there = !matches!(self.state, State::Version(_) | State::Ended);
        self.state = State::Ended;
        if is_there {
            // What cannot be sealed any more cannot be told.
            let _ = self.sealer.seal(&told.encode(), &[], out);
        }
    }

    fn fail(&mut self, error: TransportError, out: &mut Vec<u8>) -> TransportError {
        // Who is told twice, or was told to go, reads no more.
        let told = Disconnect::new(error.reason(), error.to_string());
        self.disconnect(&told, out);
        error
    }

    /// The login is over: longer packets are taken from now on. Until then a packet is at
    /// most as long as everybody has to take (RFC 4253 §6.1), so that strangers take no more
    /// memory.
    pub fn open_wide(&mut self) {
        self.early_exchanges = None;
        self.opener.open_wide();
    }

    /// What names the connection in signatures; `None` before the first key exchange.
    #[must_use]
    pub fn session_id(&self) -> Option<&[u8]> {
        self.session.as_ref().map(|session| session.id.as_slice())
    }

    /// The server's host key as messages carry it; `None` before the first key exchange.
    #[must_use]
    pub fn host_key(&self) -> Option<&[u8]> {
        let session = self.session.as_ref();
        session.map(|session| session.host_key.as_slice())
    }

    /// The algorithm by which the host key has signed first; `None` before that.
    #[must_use]
    pub fn host_key_algorithm(&self) -> Option<Algorithm> {
        self.session.as_ref().map(|session| session.algorithm)
    }

    /// The peer's version string; empty before it has come.
    #[must_use]
    pub fn peer_version(&self) -> &[u8] {
        &self.peer_version
    }

    /// The algorithms by which the server says that it verifies users' signatures; `None` as
    /// long as it says nothing.
    #[must_use]
    pub fn peer_algorithms(&self) -> Option<&[Algorithm]> {
        self.peer_algorithms.as_deref()
    }

    /// What has passed under the present keys: what came, and what went.
    #[must_use]
    pub fn usage(&self) -> [Usage; 2] {
        [self.opener.usage(), self.sealer.usage()]
    }

    /// Whether the connection is over.
    #[must_use]
    pub fn is_over(&self) -> bool {
        matches!(self.state, State::Broken | State::Ended)
    }

    /// Whether the order is still that of the first, strict key exchange.
    fn is_strict_now(&self) -> bool {
        match (&self.session, &self.state) {
            (Some(session), State::NewKeys(turn)) => turn.is_first && session.is_strict,
            (Some(_), _) => false,
            (None, state) => state.is_strict(),
        }
    }

    fn offer(&mut self, out: &mut Vec<u8>) -> Result<Box<Offered>, TransportError> {
        let mut cookie = [0; 16];
        aws_lc_rs::rand::fill(&mut cookie)?;
        let is_first = self.session.is_none();
        let init = self.config.kex_init(cookie, is_first);
        let payload = init.encode();
        self.sealer.seal(&payload, &[], out)?;
        Ok(Box::new(Offered {
            init,
            payload,
            is_first,
        }))
    }
}

impl Phase {
    fn wanted(self) -> &'static str {
        match self {
            Self::First => "KEXINIT (20)",
            Self::Exchange(_) => "the key exchange",
            Self::NewKeys => "NEWKEYS (21)",
            Self::Open => "a service, the login or the connection",
        }
    }
}
