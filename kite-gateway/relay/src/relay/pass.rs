//! What is done with each message of the connection protocol (RFC 4254): nearly all pass as
//! they are.

use std::sync::Arc;

use super::Settings;
use super::replies::Replies;
use super::rules::{Channel, Denied, End, Open, Refusal, Request, Rules, Side};
use super::table::{Entry, NoChannel, Table};
use crate::algorithm::Algorithm;
use crate::message::{
    CHANNEL_CLOSE, CHANNEL_DATA, CHANNEL_EOF, CHANNEL_EXTENDED_DATA, CHANNEL_FAILURE, CHANNEL_OPEN,
    CHANNEL_OPEN_CONFIRMATION, CHANNEL_OPEN_FAILURE, CHANNEL_REQUEST, CHANNEL_SUCCESS,
    CHANNEL_WINDOW_ADJUST, GLOBAL_REQUEST, REQUEST_FAILURE, REQUEST_SUCCESS, SERVICE_REQUEST,
    USERAUTH_REQUEST, printable,
};
use crate::sign::SigningKey;
use crate::wire::{Fields, Malformed, Message};

/// `SSH_OPEN_ADMINISTRATIVELY_PROHIBITED` (RFC 4254 §5.1).
const PROHIBITED: u32 = 1;
/// `SSH_OPEN_RESOURCE_SHORTAGE`.
const SHORTAGE: u32 = 4;

/// The announcement of a server's host keys (OpenSSH's `PROTOCOL`, 2.5).
const HOST_KEYS: &str = "hostkeys-00@openssh.com";
/// Asks the server to show that it has them.
const HOST_KEYS_PROVE: &str = "hostkeys-prove-00@openssh.com";

/// How often a user may have the host keys proved. Clients ask once, of those that are new to
/// them.
const MOST_PROOFS: u32 = 4;

/// How a side breaks the protocol.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Broken {
    /// A message that cannot be read.
    #[error("message {0} cannot be read: it ends early")]
    Malformed(u8),
    /// There is no such channel, or it is not in a state for that.
    #[error("message {message} for channel {channel}, which is not open")]
    NoChannel {
        /// The message.
        message: u8,
        /// The number.
        channel: u32,
    },
    /// The number stands for another channel.
    #[error("channel {0} is asked for twice")]
    Twice(u32),
    /// Nothing of the connection protocol.
    #[error("message {0} after the login")]
    Forbidden(u8),
    /// More wait for a reply than are remembered.
    #[error("too many requests wait for a reply")]
    Flood,
}

/// What is done with a message.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Outcome {
    /// It passes as it is.
    pub(super) passes: bool,
    /// This passes in its place.
    pub(super) instead: Option<Vec<u8>>,
    /// Its sender is told that nobody knows it.
    pub(super) is_unknown: bool,
    /// What the relay says by itself, behind it.
    pub(super) says: Vec<(Side, Vec<u8>)>,
}

impl Outcome {
    fn pass() -> Self {
        Self {
            passes: true,
            ..Self::default()
        }
    }

    fn say(side: Side, message: Vec<u8>) -> Self {
        Self {
            says: vec![(side, message)],
            ..Self::default()
        }
    }

    fn unknown() -> Self {
        Self {
            is_unknown: true,
            ..Self::default()
        }
    }
}

/// What a relay knows of the connection.
#[derive(Debug)]
pub(super) struct Passing<N> {
    channels: Table<N>,
    most_channels: usize,
    reserve: u32,
    /// What the user, and the server, wait for.
    replies: [Replies; 2],
    /// Forwards that the user has asked for.
    forwards: u32,
    socket_forwards: u32,
    /// What the user has asked the server to open.
    wants_x11: bool,
    wants_agent: bool,
    /// How often the user has had the relay's host keys proved.
    proofs: u32,
    /// The relay's own, and what names the user's connection.
    host_keys: Vec<Arc<SigningKey>>,
    session: Vec<u8>,
    signed_by: Option<Algorithm>,
}

impl<N: Default> Passing<N> {
    /// `signed_by` is the algorithm by which the relay's host key has signed for the user.
    pub(super) fn new(settings: &Settings, session: &[u8], signed_by: Option<Algorithm>) -> Self {
        Self {
            channels: Table::default(),
            most_channels: settings.most_channels,
            reserve: settings.reserve,
            replies: [Replies::default(), Replies::default()],
            forwards: 0,
            socket_forwards: 0,
            wants_x11: false,
            wants_agent: false,
            proofs: 0,
            host_keys: settings.host_keys.clone(),
            session: session.to_vec(),
            signed_by,
        }
    }

    /// What the user is told of the relay's host keys, so that a client learns of others than
    /// the one that it has seen.
    pub(super) fn announcement(&self) -> Option<Vec<u8>> {
        if self.host_keys.is_empty() {
            return None;
        }
        let message = Message::new(GLOBAL_REQUEST)
            .string(HOST_KEYS)
            .boolean(false);
        let keys = self.host_keys.iter();
        Some(
            keys.fold(message, |message, key| message.string(key.blob()))
                .done(),
        )
    }

    /// Judges a message of a side's, of which was said before whether it `may` pass.
    pub(super) fn take<R: Rules<Note = N>>(
        &mut self,
        from: Side,
        payload: &[u8],
        may: Result<(), Refusal>,
        rules: &mut R,
    ) -> Result<Outcome, Broken> {
        let Some((&number, rest)) = payload.split_first() else {
            return Err(Broken::Malformed(0));
        };
        let malformed = |Malformed| Broken::Malformed(number);
        let mut fields = Fields(rest);
        match number {
            CHANNEL_DATA
            | CHANNEL_EXTENDED_DATA
            | CHANNEL_WINDOW_ADJUST
            | CHANNEL_EOF
            | CHANNEL_CLOSE
            | CHANNEL_REQUEST
            | CHANNEL_SUCCESS
            | CHANNEL_FAILURE => {
                let channel = fields.number().map_err(malformed)?;
                self.channel(from, number, channel, fields, rules)
            }
            CHANNEL_OPEN => self.open(from, fields, may, rules).map_err(malformed)?,
            CHANNEL_OPEN_CONFIRMATION => {
                let (theirs, ours) = fields
                    .number()
                    .and_then(|it| Ok((it, fields.number()?)))
                    .map_err(malformed)?;
                let entry = self.channels.confirm(from, theirs, ours);
                let entry = entry.map_err(|NoChannel| no_channel(number, theirs))?;
                rules.opened(&mut entry.channel);
                Ok(passed(entry.words()))
            }
            CHANNEL_OPEN_FAILURE => {
                let theirs = fields.number().map_err(malformed)?;
                let refused = self.channels.refuse(from, theirs);
                let refused = refused.map_err(|NoChannel| no_channel(number, theirs))?;
                rules.closed(refused, End::Refused);
                Ok(Outcome::pass())
            }
            GLOBAL_REQUEST => {
                let (name, wants_reply) = fields
                    .string()
                    .and_then(|it| Ok((it, fields.boolean()?)))
                    .map_err(malformed)?;
                self.global(from, &Request::new(name, wants_reply, fields), may, rules)
            }
            REQUEST_SUCCESS | REQUEST_FAILURE => {
                let asked = &mut self.replies[from.other().index()];
                let Some(says) = asked.passed() else {
                    return Ok(Outcome::default());
                };
                let granted = (number == REQUEST_SUCCESS).then_some(rest);
                rules.answered_globally(from.other(), granted);
                Ok(passed(to(from.other(), says)))
            }
            // What was on its way when the login succeeded.
            USERAUTH_REQUEST if from == Side::User => Ok(Outcome::default()),
            SERVICE_REQUEST => Ok(Outcome::unknown()),
            _ if number < GLOBAL_REQUEST => Err(Broken::Forbidden(number)),
            _ => Ok(Outcome::unknown()),
        }
    }

    fn channel<R: Rules<Note = N>>(
        &mut self,
        from: Side,
        number: u8,
        channel: u32,
        mut fields: Fields<'_>,
        rules: &mut R,
    ) -> Result<Outcome, Broken> {
        let malformed = |Malformed| Broken::Malformed(number);
        if number == CHANNEL_CLOSE {
            let closed = self.channels.close(from, channel);
            let (passes, closed) = closed.map_err(|NoChannel| no_channel(number, channel))?;
            if let Some(closed) = closed {
                rules.closed(closed, End::Closed);
            }
            return Ok(Outcome {
                passes,
                ..Outcome::default()
            });
        }
        let entry = match self.channels.find(from, channel) {
            Ok(entry) => entry,
            // Room for data of a channel that has just gone, and replies that nobody waits for:
            // others drop these, too. And how a command ended whose channel is closed, which
            // some servers still say: OpenSSH's client goes on.
            Err(NoChannel)
                if matches!(
                    (number, from),
                    (CHANNEL_WINDOW_ADJUST | CHANNEL_SUCCESS | CHANNEL_FAILURE, _)
                        | (CHANNEL_REQUEST, Side::Server)
                ) =>
            {
                return Ok(Outcome::default());
            }
            Err(NoChannel) => return Err(no_channel(number, channel)),
        };
        if entry.is_ended {
            return Ok(Outcome::default());
        }
        match number {
            CHANNEL_DATA | CHANNEL_EXTENDED_DATA => {
                let is_error = number == CHANNEL_EXTENDED_DATA;
                if is_error {
                    fields.number().map_err(malformed)?;
                }
                let data = fields.string().map_err(malformed)?;
                entry.channel.bytes[from.index()] += data.len() as u64;
                rules.data(from, &mut entry.channel, data, is_error);
            }
            CHANNEL_REQUEST => {
                let (name, wants_reply) = fields
                    .string()
                    .and_then(|it| Ok((it, fields.boolean()?)))
                    .map_err(malformed)?;
                let request = Request::new(name, wants_reply, fields);
                if let Err(denied) = rules.ask(from, &mut entry.channel, &request) {
                    // Whoever has closed it hears no more of it.
                    if entry.is_closed_by(from.other()) {
                        return Ok(Outcome::default());
                    }
                    let says = match (denied, from) {
                        (Denied::Ended { words, status }, Side::User) => {
                            ended(entry, wants_reply, words, status)
                        }
                        _ => refused(entry, from, wants_reply),
                    };
                    if entry.replies[from.index()].is_full() {
                        return Err(Broken::Flood);
                    }
                    return Ok(Outcome {
                        says,
                        ..Outcome::default()
                    });
                }
                if wants_reply && !entry.replies[from.index()].pass() {
                    return Err(Broken::Flood);
                }
                if from == Side::User {
                    self.wants_x11 |= name == b"x11-req";
                    self.wants_agent |= name == b"auth-agent-req@openssh.com";
                }
            }
            CHANNEL_EOF => entry.is_finished |= from == Side::Server,
            CHANNEL_WINDOW_ADJUST if from == Side::User => {
                let more = fields.number().map_err(malformed)?;
                let kept = entry.keep_back(more);
                if kept > 0 {
                    let rest = Message::new(number).number(channel).number(more - kept);
                    return Ok(Outcome {
                        passes: more > kept,
                        instead: Some(rest.done()),
                        ..Outcome::default()
                    });
                }
            }
            CHANNEL_SUCCESS | CHANNEL_FAILURE => {
                let asked = &mut entry.replies[from.other().index()];
                let Some(says) = asked.passed() else {
                    return Ok(Outcome::default());
                };
                let granted = number == CHANNEL_SUCCESS;
                rules.answered(from.other(), &mut entry.channel, granted);
                let mut says = to(from.other(), says);
                says.extend(entry.words());
                return Ok(passed(says));
            }
            _ => {}
        }
        Ok(passed(entry.words()))
    }

    fn open<R: Rules<Note = N>>(
        &mut self,
        from: Side,
        mut fields: Fields<'_>,
        may: Result<(), Refusal>,
        rules: &mut R,
    ) -> Result<Result<Outcome, Broken>, Malformed> {
        let (kind, number) = (fields.string()?, fields.number()?);
        let (window, longest) = (fields.number()?, fields.number()?);
        if !self.channels.is_free(from, number) {
            return Ok(Err(Broken::Twice(number)));
        }
        let refuse = |reason, text: &str| {
            let message = Message::new(CHANNEL_OPEN_FAILURE).number(number);
            let message = message.number(reason).string(text).string("en");
            Ok(Ok(Outcome::say(from, message.done())))
        };
        if from == Side::Server && !self.is_wanted(kind) {
            let kind = printable(kind);
            return refuse(PROHIBITED, &format!("the user has not asked for {kind}"));
        }
        if self.channels.len() >= self.most_channels {
            let most = self.most_channels;
            return refuse(
                SHORTAGE,
                &format!("at most {most} channels on one connection"),
            );
        }
        let open = Open::new(kind, fields);
        let note = match may.and_then(|()| rules.open(from, &open)) {
            Ok(note) => note,
            Err(Refusal(text)) => return refuse(PROHIBITED, &text),
        };
        let channel = Channel {
            kind: kind.to_vec(),
            by: from,
            bytes: [0, 0],
            note,
            words: Vec::new(),
        };
        // A user who has room for it lends the relay some of it for words of its own: the
        // server is told of the rest, so that together they say no more than there is room for.
        let has_room = from == Side::User && kind == b"session" && window / 4 >= self.reserve;
        let reserve = if has_room { self.reserve } else { 0 };
        let opened = self.channels.open(number, channel, reserve);
        let message = Message::new(CHANNEL_OPEN).string(kind).number(number);
        let message = message.number(window - reserve).number(longest);
        let instead = (reserve > 0).then(|| message.bytes(fields.0).done());
        Ok(opened
            .map(|()| Outcome {
                passes: true,
                instead,
                ..Outcome::default()
            })
            .map_err(|NoChannel| Broken::Twice(number)))
    }

    /// Whether the user has asked for channels of that type, which the server opens.
    fn is_wanted(&self, kind: &[u8]) -> bool {
        match kind {
            b"forwarded-tcpip" => self.forwards > 0,
            b"forwarded-streamlocal@openssh.com" => self.socket_forwards > 0,
            b"x11" => self.wants_x11,
            b"auth-agent@openssh.com" => self.wants_agent,
            _ => false,
        }
    }

    fn global<R: Rules<Note = N>>(
        &mut self,
        from: Side,
        request: &Request<'_>,
        may: Result<(), Refusal>,
        rules: &mut R,
    ) -> Result<Outcome, Broken> {
        let replies = &mut self.replies[from.index()];
        let mut answer = |message: Vec<u8>| {
            let said = if request.wants_reply {
                replies.reply(message)
            } else {
                None
            };
            if replies.is_full() {
                return Err(Broken::Flood);
            }
            Ok(said.map_or_else(Outcome::default, |it| Outcome::say(from, it)))
        };
        // Host keys are the relay's own: the server's would not stand for the connection that
        // the user has.
        match (from, request.name) {
            (Side::User, name) if name == HOST_KEYS_PROVE.as_bytes() => {
                self.proofs += 1;
                let asks = self.proofs <= MOST_PROOFS && request.wants_reply;
                let proved =
                    asks.then(|| prove(&self.host_keys, &self.session, self.signed_by, request));
                let proved = proved.flatten();
                return answer(proved.unwrap_or_else(|| vec![REQUEST_FAILURE]));
            }
            (Side::Server, name) if name == HOST_KEYS.as_bytes() => {
                return answer(vec![REQUEST_FAILURE]);
            }
            _ => {}
        }
        if let Err(Refusal(_)) = may.and_then(|()| rules.ask_globally(from, request)) {
            return answer(vec![REQUEST_FAILURE]);
        }
        if request.wants_reply && !replies.pass() {
            return Err(Broken::Flood);
        }
        if from == Side::User {
            // One more than are granted does no harm: the client knows what it has asked for.
            match request.name {
                b"tcpip-forward" => self.forwards += 1,
                b"cancel-tcpip-forward" => self.forwards = self.forwards.saturating_sub(1),
                b"streamlocal-forward@openssh.com" => self.socket_forwards += 1,
                b"cancel-streamlocal-forward@openssh.com" => {
                    self.socket_forwards = self.socket_forwards.saturating_sub(1);
                }
                _ => {}
            }
        }
        Ok(Outcome::pass())
    }

    /// Whether a message has to wait as it gives a channel a number that is still that of one
    /// which the relay has ended, and the other side has not closed.
    pub(super) fn has_to_wait(&self, from: Side, message: &[u8]) -> bool {
        let number = match message.split_first() {
            Some((&CHANNEL_OPEN, rest)) => {
                let mut fields = Fields(rest);
                fields.string().and_then(|_| fields.number())
            }
            Some((&CHANNEL_OPEN_CONFIRMATION, rest)) => {
                let mut fields = Fields(rest);
                fields.number().and_then(|_| fields.number())
            }
            _ => return false,
        };
        number.is_ok_and(|number| self.channels.is_ended(from, number))
    }

    /// Words for the user on all channels that hear them.
    pub(super) fn tell<R: Rules<Note = N>>(&mut self, words: &str, rules: &R) -> Vec<Vec<u8>> {
        let mut said = Vec::new();
        for entry in self.channels.iter_mut() {
            if rules.hears(&entry.channel) {
                entry.channel.tell(words);
                said.extend(entry.words().into_iter().map(|(_, message)| message));
            }
        }
        said
    }

    /// The connection is over, and its channels with it.
    pub(super) fn end<R: Rules<Note = N>>(&mut self, rules: &mut R) {
        for channel in self.channels.drain() {
            rules.closed(channel, End::Connection);
        }
    }
}

/// What is asked of a channel failed.
fn refused<N>(entry: &mut Entry<N>, from: Side, wants_reply: bool) -> Vec<(Side, Vec<u8>)> {
    let mut says = entry.words();
    if let Some(number) = entry.number(from).filter(|_| wants_reply) {
        let refused = Message::new(CHANNEL_FAILURE).number(number).done();
        let said = entry.replies[from.index()].reply(refused);
        says.extend(said.map(|message| (from, message)));
    }
    says
}

/// What is asked of a channel ends it, towards both sides.
fn ended<N>(
    entry: &mut Entry<N>,
    wants_reply: bool,
    words: String,
    status: u32,
) -> Vec<(Side, Vec<u8>)> {
    let numbers = (entry.number(Side::User), entry.number(Side::Server));
    let (Some(user), Some(server)) = numbers else {
        return Vec::new();
    };
    let of = |number, channel| Message::new(number).number(channel);
    // A client whose terminal or command is refused reads no further.
    let success = of(CHANNEL_SUCCESS, user).done();
    let replies = &mut entry.replies[Side::User.index()];
    let mut says = to(Side::User, replies.give(&success));
    if wants_reply {
        says.push((Side::User, success));
    }
    entry.channel.tell(words);
    says.extend(entry.words());
    let exit = of(CHANNEL_REQUEST, user).string("exit-status");
    says.push((Side::User, exit.boolean(false).number(status).done()));
    if !entry.is_finished {
        says.push((Side::User, of(CHANNEL_EOF, user).done()));
    }
    says.push((Side::User, of(CHANNEL_CLOSE, user).done()));
    says.push((Side::Server, of(CHANNEL_CLOSE, server).done()));
    entry.is_ended = true;
    says
}

/// It passes, and this comes behind.
fn passed(says: Vec<(Side, Vec<u8>)>) -> Outcome {
    Outcome {
        passes: true,
        says,
        ..Outcome::default()
    }
}

fn to(side: Side, messages: Vec<Vec<u8>>) -> Vec<(Side, Vec<u8>)> {
    messages
        .into_iter()
        .map(|message| (side, message))
        .collect()
}

fn no_channel(message: u8, channel: u32) -> Broken {
    Broken::NoChannel { message, channel }
}

/// Signatures of the host keys that a client asks for; `None` if one is none of them. Of a key
/// that signs by several algorithms the client expects the one that it has agreed on.
fn prove(
    keys: &[Arc<SigningKey>],
    session: &[u8],
    signed_by: Option<Algorithm>,
    request: &Request<'_>,
) -> Option<Vec<u8>> {
    let mut asked = request.fields();
    let mut message = Message::new(REQUEST_SUCCESS);
    let mut left = keys.len();
    while !asked.0.is_empty() {
        left = left.checked_sub(1)?;
        let blob = asked.string().ok()?;
        let key = keys.iter().find(|key| key.blob() == blob)?;
        let mut signed = Vec::new();
        for part in [HOST_KEYS_PROVE.as_bytes(), session, blob] {
            crate::wire::string(&mut signed, part);
        }
        let agreed = signed_by.filter(|it| key.algorithms().contains(it));
        let algorithm = agreed.or_else(|| key.algorithms().first().copied())?;
        let signature = key.sign(algorithm, &signed).ok()?;
        message = message.string(signature);
    }
    Some(message.done())
}
