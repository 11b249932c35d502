//! The states of a key exchange, and how one leads to the next.

use std::sync::Arc;

use super::config::Role;
use super::order::Phase;
use super::work::{Inputs, Outcome};
use super::{Done, MOST_EARLY, MOST_OFFER, Session, Step, Transport, TransportError, Work};
use crate::algorithm::Algorithm;
use crate::kex::{Begun, Method};
use crate::keys::{Derivation, Direction};
use crate::message::{EXT_INFO, KEX_INIT, KEX_REPLY, NEWKEYS};
use crate::negotiate::{KexInit, negotiate};
use crate::packet::{Keys, Suite};
use crate::sign::SigningKey;
use crate::wire::{Fields, Message};

/// Our offer, which was sent.
#[derive(Debug)]
pub(super) struct Offered {
    pub(super) init: KexInit,
    pub(super) payload: Vec<u8>,
    /// It is the connection's first.
    pub(super) is_first: bool,
}

/// What both offers come to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Agreed {
    incoming: Suite,
    outgoing: Suite,
    is_strict: bool,
    /// The client asks for `EXT_INFO`.
    wants_ext_info: bool,
    /// The peer's next message is of an exchange that it guessed wrongly.
    drops_a_guess: bool,
}

/// A server waits for the client's value.
#[derive(Debug)]
pub(super) struct Awaiting {
    agreed: Agreed,
    inputs: Inputs,
    host_key: Arc<SigningKey>,
}

/// A client waits for the server's.
#[derive(Debug)]
pub(super) struct Asking {
    agreed: Agreed,
    inputs: Inputs,
    begun: Begun,
    value: Vec<u8>,
}

/// Our `NEWKEYS` was sent, and the peer's has not come.
#[derive(Debug)]
pub(super) struct Turn {
    incoming: Suite,
    keys: Keys,
    is_strict: bool,
    pub(super) is_first: bool,
}

#[derive(Debug)]
pub(super) enum State {
    /// The peer's version has not come.
    Version(Box<Offered>),
    /// The peer's offer has not come.
    Offered(Box<Offered>),
    Awaiting(Box<Awaiting>),
    Asking(Box<Asking>),
    /// A [`Work`] is given out.
    Working(Box<Agreed>),
    /// Nobody has said yet whether the server's host key is the right one.
    Judging(Box<Agreed>, Box<Outcome>),
    NewKeys(Box<Turn>),
    /// No key exchange is under way.
    Open,
    /// A key exchange failed, which the peer is to be told.
    Broken,
    /// Both know that the connection is over.
    Ended,
}

impl State {
    pub(super) fn phase(&self) -> Phase {
        match self {
            Self::Awaiting(_) => Phase::Exchange(KEX_INIT),
            Self::Asking(_) => Phase::Exchange(KEX_REPLY),
            Self::NewKeys(_) => Phase::NewKeys,
            Self::Offered(offered) if !offered.is_first => Phase::Open,
            Self::Open => Phase::Open,
            // In the others no packet is read.
            Self::Version(_)
            | Self::Offered(_)
            | Self::Working(_)
            | Self::Judging(..)
            | Self::Broken
            | Self::Ended => Phase::First,
        }
    }

    fn agreed(&mut self) -> Option<&mut Agreed> {
        match self {
            Self::Awaiting(awaiting) => Some(&mut awaiting.agreed),
            Self::Asking(asking) => Some(&mut asking.agreed),
            _ => None,
        }
    }

    /// Whether the first key exchange is a strict one, of what is known so far.
    pub(super) fn is_strict(&self) -> bool {
        match self {
            Self::Awaiting(awaiting) => awaiting.agreed.is_strict,
            Self::Asking(asking) => asking.agreed.is_strict,
            _ => false,
        }
    }

    /// Whether the message is that of a wrong guess; it is dropped once.
    pub(super) fn drops_a_guess(&mut self, number: u8) -> bool {
        let is_of_a_method = (30..50).contains(&number);
        let agreed = self.agreed();
        let agreed = agreed.filter(|it| is_of_a_method && it.drops_a_guess);
        agreed.is_some_and(|it| std::mem::take(&mut it.drops_a_guess))
    }
}

impl Transport {
    /// Begins to change the keys, if no key exchange is under way.
    ///
    /// # Errors
    /// There is no randomness, or the connection is over.
    pub fn rekey(&mut self, out: &mut Vec<u8>) -> Result<(), TransportError> {
        if matches!(self.state, State::Open) {
            let offered = self.offer(out)?;
            self.state = State::Offered(offered);
        }
        Ok(())
    }

    /// Whether keys are to be changed, by packets or by bytes, and no key exchange is under
    /// way.
    #[must_use]
    pub fn is_due(&self) -> bool {
        let most = self.config.rekey_after.unwrap_or(u64::MAX);
        let is_due = self.sealer.is_due()
            || self.opener.is_due()
            || self.usage().iter().any(|usage| usage.bytes >= most);
        is_due && matches!(self.state, State::Open)
    }

    /// A message of a key exchange, in its time.
    pub(super) fn exchange(
        &mut self,
        message: &[u8],
        sequence: u32,
        out: &mut Vec<u8>,
    ) -> Result<Option<Step>, TransportError> {
        match std::mem::replace(&mut self.state, State::Broken) {
            State::Offered(ours) => self.agree(*ours, message, sequence, out).map(|()| None),
            State::Open => {
                let ours = self.offer(out)?;
                self.agree(*ours, message, sequence, out).map(|()| None)
            }
            State::Awaiting(awaiting) => {
                let Awaiting {
                    agreed,
                    inputs,
                    host_key,
                } = *awaiting;
                let mut fields = Fields(&message[1..]);
                let value = fields.string().and_then(|it| fields.end().map(|()| it));
                let value = value.map_err(TransportError::of(KEX_INIT))?;
                self.state = State::Working(Box::new(agreed));
                let work = Work::answer(inputs, host_key, value.to_vec());
                Ok(Some(Step::Work(work)))
            }
            State::Asking(asking) => {
                let Asking {
                    agreed,
                    inputs,
                    begun,
                    value,
                } = *asking;
                self.state = State::Working(Box::new(agreed));
                let work = Work::finish(inputs, begun, value, message.to_vec());
                Ok(Some(Step::Work(work)))
            }
            State::NewKeys(turn) => {
                if message.len() > 1 {
                    return Err(TransportError::Malformed(NEWKEYS));
                }
                let turn = *turn;
                self.opener
                    .rekey(turn.incoming, &turn.keys, turn.is_strict)?;
                self.state = State::Open;
                Ok(turn.is_first.then_some(Step::Keyed))
            }
            // `judge` lets none through in these.
            State::Version(_)
            | State::Working(_)
            | State::Judging(..)
            | State::Broken
            | State::Ended => Err(TransportError::Ended),
        }
    }

    /// Both offers are there.
    fn agree(
        &mut self,
        ours: Offered,
        message: &[u8],
        sequence: u32,
        out: &mut Vec<u8>,
    ) -> Result<(), TransportError> {
        if let Some(count) = &mut self.early_exchanges {
            *count += 1;
            if *count > MOST_EARLY {
                return Err(TransportError::Early);
            }
        }
        if message.len() > MOST_OFFER {
            return Err(TransportError::LongOffer(message.len()));
        }
        let theirs = KexInit::decode(message)?;
        let is_server = self.config.is_server();
        let (client, server) = if is_server {
            (&theirs, &ours.init)
        } else {
            (&ours.init, &theirs)
        };
        let found = negotiate(client, server)?;
        let is_first = self.session.is_none();
        if is_first && found.strict && sequence != 0 {
            return Err(TransportError::NotStrict(sequence));
        }
        // Only what this side has offered is agreed on.
        let chosen = (
            Method::named(found.kex),
            Algorithm::named(found.host_key),
            found.up.suite(),
            found.down.suite(),
        );
        let (Some(method), Some((algorithm, _)), Some(up), Some(down)) = chosen else {
            return Err(TransportError::Misuse("an offer of what this side lacks"));
        };
        let (incoming, outgoing) = if is_server { (up, down) } else { (down, up) };
        let agreed = Agreed {
            incoming,
            outgoing,
            is_strict: found.strict,
            wants_ext_info: found.ext_info,
            drops_a_guess: theirs.guesses && !found.guess_is_right,
        };
        let version = self.config.version.as_bytes().to_vec();
        let versions = (version, self.peer_version.clone());
        let inits = (ours.payload, message.to_vec());
        let ((client_version, server_version), (client_init, server_init)) = if is_server {
            ((versions.1, versions.0), (inits.1, inits.0))
        } else {
            (versions, inits)
        };
        let inputs = Inputs {
            method,
            algorithm,
            client_version,
            server_version,
            client_init,
            server_init,
        };
        self.state = match &self.config.role {
            Role::Server { host_keys } => {
                let signs = |key: &&Arc<SigningKey>| key.algorithms().contains(&algorithm);
                let host_key = host_keys.iter().find(signs).cloned();
                let host_key =
                    host_key.ok_or(TransportError::Misuse("a host key that this side lacks"))?;
                State::Awaiting(Box::new(Awaiting {
                    agreed,
                    inputs,
                    host_key,
                }))
            }
            Role::Client { .. } => {
                let (value, begun) = method.begin()?;
                let init = Message::new(KEX_INIT).string(&value).done();
                self.sealer.seal(&init, &[], out)?;
                State::Asking(Box::new(Asking {
                    agreed,
                    inputs,
                    begun,
                    value,
                }))
            }
        };
        Ok(())
    }

    /// Takes back what was given out.
    ///
    /// # Errors
    /// The key exchange fails, by which the connection is over: `out` ends with a
    /// `DISCONNECT` that says why.
    pub fn done(&mut self, done: Done, out: &mut Vec<u8>) -> Result<(), TransportError> {
        let result = self.take_back(done, out);
        result.map_err(|error| self.fail(error, out))
    }

    fn take_back(&mut self, done: Done, out: &mut Vec<u8>) -> Result<(), TransportError> {
        let State::Working(agreed) = std::mem::replace(&mut self.state, State::Broken) else {
            return Err(TransportError::Misuse("work"));
        };
        let outcome = done.0?;
        if !self.config.is_server() {
            match &self.session {
                None => {
                    self.state = State::Judging(agreed, Box::new(outcome));
                    return Ok(());
                }
                Some(session) if session.host_key != outcome.host_key => {
                    return Err(TransportError::HostKeyChanged);
                }
                Some(_) => {}
            }
        }
        self.turn(*agreed, outcome, out)
    }

    /// The server's host key is the right one.
    ///
    /// # Errors
    /// No host key waits for it.
    pub fn trust(&mut self, out: &mut Vec<u8>) -> Result<(), TransportError> {
        match std::mem::replace(&mut self.state, State::Broken) {
            State::Judging(agreed, outcome) => self.turn(*agreed, *outcome, out),
            other => {
                self.state = other;
                Err(TransportError::Misuse("a host key"))
            }
        }
    }

    /// Sends `NEWKEYS` and turns to the new keys in the direction that goes out.
    fn turn(
        &mut self,
        agreed: Agreed,
        outcome: Outcome,
        out: &mut Vec<u8>,
    ) -> Result<(), TransportError> {
        if let Some(reply) = &outcome.reply {
            self.sealer.seal(reply, &[], out)?;
        }
        self.sealer.seal(&[NEWKEYS], &[], out)?;
        let is_first = self.session.is_none();
        let session = self.session.get_or_insert_with(|| Session {
            id: outcome.hash.clone(),
            is_strict: agreed.is_strict,
            host_key: outcome.host_key,
            algorithm: outcome.algorithm,
        });
        let is_strict = session.is_strict;
        let derivation = Derivation {
            hash: outcome.method.hash(),
            secret: outcome.secret.encoded(),
            exchange: &outcome.hash,
            session: &session.id,
        };
        let is_server = self.config.is_server();
        let (incoming, outgoing) = if is_server {
            (Direction::ClientToServer, Direction::ServerToClient)
        } else {
            (Direction::ServerToClient, Direction::ClientToServer)
        };
        let keys = derivation.keys(agreed.outgoing, outgoing);
        self.sealer.rekey(agreed.outgoing, &keys, is_strict)?;
        self.state = State::NewKeys(Box::new(Turn {
            incoming: agreed.incoming,
            keys: derivation.keys(agreed.incoming, incoming),
            is_strict,
            is_first,
        }));
        if is_server && is_first && agreed.wants_ext_info {
            self.sealer.seal(&ext_info(), &[], out)?;
        }
        self.held_bytes = 0;
        for message in std::mem::take(&mut self.held) {
            self.sealer.seal(&message, &[], out)?;
        }
        Ok(())
    }
}

/// What a server can do.
fn ext_info() -> Vec<u8> {
    let algorithms = Algorithm::ALL.map(Algorithm::name).join(",");
    let message = Message::new(EXT_INFO).number(2);
    let message = message.string("server-sig-algs").string(algorithms);
    message.string("ping@openssh.com").string("0").done()
}
