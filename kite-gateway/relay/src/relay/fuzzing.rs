//! What must hold of a relay whatever its two sides say, from bytes.

#![expect(
    clippy::expect_used,
    clippy::panic,
    reason = "a driver learns by a panic that something does not hold"
)]

use std::collections::HashMap;

use super::Settings;
use super::pass::{Outcome, Passing};
use super::rules::{Channel, Denied, End, Open, Refusal, Request, Rules, Side};
use crate::decisions::Decisions;
use crate::message::{
    CHANNEL_CLOSE, CHANNEL_DATA, CHANNEL_EOF, CHANNEL_EXTENDED_DATA, CHANNEL_FAILURE, CHANNEL_OPEN,
    CHANNEL_OPEN_CONFIRMATION, CHANNEL_OPEN_FAILURE, CHANNEL_REQUEST, CHANNEL_SUCCESS,
    CHANNEL_WINDOW_ADJUST, GLOBAL_REQUEST, REQUEST_FAILURE, REQUEST_SUCCESS,
};
use crate::wire::{Fields, Message};

/// Channels at a time.
const MOST: usize = 3;
/// Bytes of windows that are kept for words.
const RESERVE: u32 = 16;
const KINDS: [&str; 7] = [
    "session",
    "direct-tcpip",
    "forwarded-tcpip",
    "forwarded-streamlocal@openssh.com",
    "x11",
    "auth-agent@openssh.com",
    "else",
];
const ASKED: [&str; 8] = [
    "shell",
    "x11-req",
    "auth-agent-req@openssh.com",
    "tcpip-forward",
    "streamlocal-forward@openssh.com",
    "hostkeys-00@openssh.com",
    "hostkeys-prove-00@openssh.com",
    "refused",
];
/// What opens a door for which of the server's channels.
const DOORS: [(&str, &str); 4] = [
    ("tcpip-forward", "forwarded-tcpip"),
    (
        "streamlocal-forward@openssh.com",
        "forwarded-streamlocal@openssh.com",
    ),
    ("x11-req", "x11"),
    ("auth-agent-req@openssh.com", "auth-agent@openssh.com"),
];

/// Bytes, up to as many as the first one says.
fn run<'a>(input: &mut Decisions<'a>) -> &'a [u8] {
    let most = usize::from(input.byte());
    input.bytes(most)
}

/// What somebody says.
fn message(input: &mut Decisions<'_>) -> Vec<u8> {
    let number = input.one_of(&[
        CHANNEL_OPEN,
        CHANNEL_OPEN_CONFIRMATION,
        CHANNEL_DATA,
        CHANNEL_REQUEST,
        CHANNEL_CLOSE,
        CHANNEL_WINDOW_ADJUST,
        GLOBAL_REQUEST,
        CHANNEL_SUCCESS,
        CHANNEL_FAILURE,
        CHANNEL_EOF,
        CHANNEL_OPEN_FAILURE,
        REQUEST_SUCCESS,
        REQUEST_FAILURE,
        CHANNEL_EXTENDED_DATA,
        0,
    ]);
    let (channel, other) = (u32::from(input.byte() % 4), u32::from(input.byte() % 4));
    let of = |number| Message::new(number).number(channel);
    match number {
        // Anything.
        0 => run(input).to_vec(),
        CHANNEL_OPEN => {
            let kind = input.one_of(&KINDS);
            let window = u32::from(input.byte());
            let message = Message::new(number).string(kind).number(channel);
            message.number(window).number(1 << 15).done()
        }
        CHANNEL_OPEN_CONFIRMATION => {
            let message = of(number).number(other);
            message
                .number(u32::from(input.byte()))
                .number(1 << 15)
                .done()
        }
        CHANNEL_DATA => of(number).string(run(input)).done(),
        CHANNEL_EXTENDED_DATA => of(number).number(1).string(run(input)).done(),
        CHANNEL_WINDOW_ADJUST => of(number).number(u32::from(input.byte())).done(),
        CHANNEL_REQUEST => {
            let message = of(number).string(input.one_of(&ASKED));
            message.boolean(input.byte().is_multiple_of(2)).done()
        }
        GLOBAL_REQUEST => {
            let message = Message::new(number).string(input.one_of(&ASKED));
            message.boolean(input.byte().is_multiple_of(2)).done()
        }
        REQUEST_SUCCESS | REQUEST_FAILURE => vec![number],
        _ => of(number).done(),
    }
}

/// Counts, and refuses now and then.
#[derive(Default)]
struct Count {
    open: usize,
    denies: u8,
}

impl Rules for Count {
    type Note = ();

    fn open(&mut self, _: Side, open: &Open<'_>) -> Result<(), Refusal> {
        if open.kind == b"direct-tcpip" && self.denies.is_multiple_of(4) {
            return Err(Refusal("no".into()));
        }
        self.open += 1;
        Ok(())
    }

    fn ask(
        &mut self,
        _: Side,
        channel: &mut Channel<()>,
        request: &Request<'_>,
    ) -> Result<(), Denied> {
        if self.denies.is_multiple_of(3) {
            channel.tell("words");
        }
        match (request.name, self.denies % 2) {
            (b"refused", 0) => Err(Denied::Refused),
            (b"refused", _) => Err(Denied::Ended {
                words: "over".into(),
                status: 1,
            }),
            _ => Ok(()),
        }
    }

    fn closed(&mut self, _: Channel<()>, _: End) {
        let left = self.open.checked_sub(1);
        self.open = left.expect("what is closed was open");
    }
}

/// The channel and the bytes of a message that gives a window.
fn window(message: &[u8]) -> Option<(u32, u32)> {
    let (&number, rest) = message.split_first()?;
    let mut fields = Fields(rest);
    match number {
        CHANNEL_OPEN => fields.string().ok().map(drop)?,
        CHANNEL_WINDOW_ADJUST => {}
        _ => return None,
    }
    Some((fields.number().ok()?, fields.number().ok()?))
}

/// What the user sees of its own channels, and has asked for.
#[derive(Default)]
struct User {
    /// Bytes of the window of each, by its own number, of which the server does not know.
    kept: HashMap<u32, u32>,
    /// Its own numbers, by those of the server.
    numbers: HashMap<u32, u32>,
    /// Replies that it waits for, of the connection and of all channels.
    waits: [u32; 2],
    asked: Vec<Vec<u8>>,
}

impl User {
    /// It says something.
    fn says(&mut self, message: &[u8]) {
        let Some((&number, rest)) = message.split_first() else {
            return;
        };
        let mut fields = Fields(rest);
        let mut asks = |is_global: bool| {
            if !is_global {
                fields.number().ok()?;
            }
            let name = fields.string().ok()?;
            let waits = &mut self.waits[usize::from(!is_global)];
            *waits += u32::from(fields.boolean().ok()?);
            self.asked.push(name.to_vec());
            Some(())
        };
        match number {
            GLOBAL_REQUEST => asks(true),
            CHANNEL_REQUEST => asks(false),
            _ => None,
        };
    }

    /// What of a window that it gives reaches the server: what does not is kept.
    fn lends(&mut self, said: &[u8], outcome: &Outcome) {
        let Some((number, given)) = window(said) else {
            return;
        };
        let passed = outcome.instead.as_deref().unwrap_or(said);
        let lent = window(passed).filter(|_| outcome.passes);
        let kept = given.checked_sub(lent.map_or(0, |(_, lent)| lent));
        let kept = kept.expect("more is lent than is given");
        match said[0] {
            CHANNEL_OPEN => {
                self.kept.insert(number, kept);
            }
            _ if kept > 0 && outcome.instead.is_some() => {
                let own = self.numbers.get(&number).expect("a channel of the user's");
                *self.kept.entry(*own).or_default() += kept;
            }
            _ => {}
        }
    }

    /// It reads words of the relay's own.
    fn reads(&mut self, message: &[u8]) {
        if message[0] == CHANNEL_EXTENDED_DATA {
            let mut fields = Fields(&message[1..]);
            let number = fields.number().expect("a number");
            fields.number().expect("standard error");
            let words = fields.string().expect("words").len();
            let kept = self.kept.get_mut(&number).expect("a window");
            let left = kept.checked_sub(u32::try_from(words).expect("few"));
            *kept = left.expect("more words than there is room for");
        }
    }

    /// It hears something.
    fn hears(&mut self, message: &[u8]) {
        let mut fields = Fields(&message[1..]);
        if message[0] == CHANNEL_OPEN_CONFIRMATION {
            let numbers = (fields.number(), fields.number());
            let (Ok(own), Ok(theirs)) = numbers else {
                panic!("numbers");
            };
            self.numbers.insert(theirs, own);
        }
        let waits = match message[0] {
            REQUEST_SUCCESS | REQUEST_FAILURE => 0,
            CHANNEL_SUCCESS | CHANNEL_FAILURE => 1,
            CHANNEL_OPEN => {
                let kind = fields.string().expect("a type");
                let door = DOORS.iter().find(|(_, opens)| opens.as_bytes() == kind);
                let (asks, _) = door.expect("a channel that no user asks for");
                let is_asked = self.asked.iter().any(|it| it == asks.as_bytes());
                assert!(is_asked, "nobody has asked for it");
                return;
            }
            _ => return,
        };
        let left = self.waits[waits].checked_sub(1);
        self.waits[waits] = left.expect("a reply to nothing");
    }
}

/// The two sides say what they like: the relay holds no more channels than it may and forgets
/// none, the user gets no reply and no channel that was not asked for, and the server is never
/// lent more of the user's window than is there beside the relay's words.
///
/// # Panics
/// Where something of it does not hold.
pub fn check(data: &[u8]) {
    let settings = Settings {
        most_channels: MOST,
        reserve: RESERVE,
        ..Settings::new(Vec::new())
    };
    let mut passing = Passing::<()>::new(&settings, b"session", None);
    let mut input = Decisions::new(data);
    let (mut rules, mut user) = (Count::default(), User::default());
    while !input.is_empty() {
        let from = input.one_of(&[Side::User, Side::Server]);
        rules.denies = input.byte();
        let may = match rules.denies % 16 {
            15 => Err(Refusal("not now".into())),
            _ => Ok(()),
        };
        let said = message(&mut input);
        if passing.has_to_wait(from, &said) {
            continue;
        }
        let Ok(outcome) = passing.take(from, &said, may, &mut rules) else {
            break;
        };
        match from {
            Side::User => {
                user.says(&said);
                user.lends(&said, &outcome);
            }
            Side::Server if outcome.passes => user.hears(outcome.instead.as_ref().unwrap_or(&said)),
            Side::Server => {}
        }
        for (_, message) in outcome.says.iter().filter(|(to, _)| *to == Side::User) {
            user.hears(message);
            user.reads(message);
        }
        assert!(rules.open <= MOST, "{} channels", rules.open);
    }
    passing.end(&mut rules);
    assert_eq!(rules.open, 0, "channels that nobody has closed");
}
