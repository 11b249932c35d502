//! What is done with each message, without a connection.

use super::super::pass::{Broken, Outcome, Passing};
use super::super::*;
use super::{asks, asks_globally, confirm, data, of_channel, open, settings};
use crate::message::*;
use crate::wire::Message;

/// Lies of one side's after a channel of 7 and 3 was opened by the user.
fn lies() -> Vec<(Side, Vec<u8>)> {
    let both = |number: u8| {
        let extended = Message::new(number).number(9).number(1).string("x").done();
        [Side::User, Side::Server].map(|side| (side, extended.clone()))
    };
    let numbers = [
        CHANNEL_OPEN_CONFIRMATION,
        CHANNEL_OPEN_FAILURE,
        CHANNEL_DATA,
        CHANNEL_EXTENDED_DATA,
        CHANNEL_EOF,
        CHANNEL_CLOSE,
    ];
    let mut all: Vec<_> = numbers.into_iter().flat_map(both).collect();
    all.extend([
        (Side::User, asks(9, "x", false)),
        // A number that stands for a channel already.
        (Side::User, open("session", 7)),
        (Side::Server, confirm(7, 4)),
        (Side::User, confirm(3, 8)),
        // Fields that are not there.
        (Side::User, vec![CHANNEL_DATA, 0, 0]),
        (
            Side::User,
            [of_channel(CHANNEL_DATA, 3), vec![0, 0, 1, 0, 5]].concat(),
        ),
        (Side::User, vec![CHANNEL_OPEN, 0, 0, 0, 9]),
        (Side::User, vec![GLOBAL_REQUEST]),
        // The login's.
        (Side::Server, vec![USERAUTH_SUCCESS]),
        (
            Side::Server,
            Message::new(USERAUTH_BANNER).string("x").done(),
        ),
        (Side::Server, vec![USERAUTH_REQUEST]),
        (Side::User, vec![USERAUTH_61]),
    ]);
    all
}

#[test]
fn lies_end_the_connection() {
    for (side, lie) in lies() {
        let mut passing = Passing::<()>::new(&settings(10), b"session", None);
        let mut take = |side, message: &[u8]| passing.take(side, message, Ok(()), &mut Everything);
        assert!(take(Side::User, &open("session", 7)).unwrap().passes);
        assert!(take(Side::Server, &confirm(7, 3)).unwrap().passes);
        let taken = take(side, &lie);
        assert!(taken.is_err(), "{side:?}: {lie:?}: {taken:?}");
    }
    // Replies to nothing come to nothing.
    for (side, reply) in [
        (Side::User, vec![REQUEST_SUCCESS]),
        (Side::Server, vec![REQUEST_FAILURE]),
        (Side::User, of_channel(CHANNEL_SUCCESS, 3)),
        (Side::Server, of_channel(CHANNEL_FAILURE, 7)),
        (Side::Server, of_channel(CHANNEL_FAILURE, 8)),
    ] {
        let mut passing = Passing::<()>::new(&settings(10), b"session", None);
        let mut take = |side, message: &[u8]| passing.take(side, message, Ok(()), &mut Everything);
        take(Side::User, &open("session", 7)).unwrap();
        take(Side::Server, &confirm(7, 3)).unwrap();
        assert_eq!(take(side, &reply), Ok(Outcome::default()));
    }
    // Of a channel that its sender has closed, or that nobody has confirmed.
    let mut passing = Passing::<()>::new(&settings(10), b"session", None);
    let mut take = |side, message: &[u8]| passing.take(side, message, Ok(()), &mut Everything);
    take(Side::User, &open("session", 7)).unwrap();
    assert!(take(Side::Server, &data(7, b"early")).is_err());
    take(Side::Server, &confirm(7, 3)).unwrap();
    take(Side::User, &of_channel(CHANNEL_CLOSE, 3)).unwrap();
    assert!(take(Side::User, &data(3, b"late")).is_err());
    assert!(take(Side::Server, &data(7, b"still")).unwrap().passes);
    assert!(take(Side::User, &of_channel(CHANNEL_WINDOW_ADJUST, 3)).is_ok());
}

/// Servers of paramiko's say how a command has ended though its channel is closed; OpenSSH's
/// client goes on all the same, and its server does not.
#[test]
fn what_a_server_asks_of_a_closed_channel_is_dropped() {
    let mut passing = Passing::<()>::new(&settings(10), b"session", None);
    let mut take = |side, message: &[u8]| passing.take(side, message, Ok(()), &mut Everything);
    take(Side::User, &open("session", 7)).unwrap();
    take(Side::Server, &confirm(7, 3)).unwrap();
    take(Side::Server, &of_channel(CHANNEL_CLOSE, 7)).unwrap();
    let late = asks(7, "exit-status", false);
    assert_eq!(take(Side::Server, &late), Ok(Outcome::default()));
    take(Side::User, &of_channel(CHANNEL_CLOSE, 3)).unwrap();
    assert_eq!(take(Side::Server, &late), Ok(Outcome::default()));
    assert!(take(Side::User, &asks(3, "signal", false)).is_err());
    assert!(take(Side::Server, &data(7, b"late")).is_err());
}

#[test]
fn requests_without_end_end_the_connection() {
    let mut passing = Passing::<()>::new(&settings(10), b"session", None);
    let request = asks_globally("x", true);
    let all: Result<Vec<_>, _> = (0..5000)
        .map(|_| passing.take(Side::User, &request, Ok(()), &mut Everything))
        .collect();
    assert_eq!(all.unwrap_err(), Broken::Flood);
}

/// Refuses terminals and forwards.
struct Strict(Vec<(Vec<u8>, [u64; 2])>);

impl Rules for Strict {
    type Note = ();

    fn open(&mut self, _by: Side, open: &Open<'_>) -> Result<(), Refusal> {
        match open.destination() {
            Some((host, port)) => {
                let host = String::from_utf8_lossy(host);
                Err(Refusal(format!("not to {host}:{port}")))
            }
            None => Ok(()),
        }
    }

    fn ask(
        &mut self,
        _by: Side,
        _channel: &mut Channel<()>,
        request: &Request<'_>,
    ) -> Result<(), Denied> {
        if request.name == b"pty-req" {
            return Err(Denied::Refused);
        }
        Ok(())
    }

    fn ask_globally(&mut self, _by: Side, request: &Request<'_>) -> Result<(), Refusal> {
        if request.name == b"tcpip-forward" {
            return Err(Refusal("no forwards".into()));
        }
        Ok(())
    }

    fn closed(&mut self, channel: Channel<()>, _end: End) {
        self.0.push((channel.kind, channel.bytes));
    }
}

#[test]
fn refusals_come_in_the_order_of_what_was_asked() {
    let mut rules = Strict(Vec::new());
    let mut passing = Passing::<()>::new(&settings(10), b"session", None);
    let mut take = |side, message: &[u8]| passing.take(side, message, Ok(()), &mut rules).unwrap();
    take(Side::User, &open("session", 7));
    take(Side::Server, &confirm(7, 3));
    let refused = of_channel(CHANNEL_FAILURE, 7);
    // Nothing before it: at once.
    let said = take(Side::User, &asks(3, "pty-req", true));
    assert!(!said.passes);
    assert_eq!(said.says, [(Side::User, refused.clone())]);
    // Behind others: when they are answered.
    assert!(take(Side::User, &asks(3, "env", true)).passes);
    let said = take(Side::User, &asks(3, "pty-req", true));
    assert!(!said.passes && said.says.is_empty());
    let silent = take(Side::User, &asks(3, "pty-req", false));
    assert!(!silent.passes && silent.says.is_empty());
    assert!(take(Side::User, &asks(3, "shell", true)).passes);
    let said = take(Side::Server, &of_channel(CHANNEL_SUCCESS, 7));
    assert!(said.passes);
    assert_eq!(said.says, [(Side::User, refused)]);
    let said = take(Side::Server, &of_channel(CHANNEL_SUCCESS, 7));
    assert!(said.passes && said.says.is_empty());

    let said = take(Side::User, &asks_globally("tcpip-forward", true));
    assert_eq!(said.says, [(Side::User, vec![REQUEST_FAILURE])]);
    let mut judged = Passing::<()>::new(&settings(10), b"session", None);
    for asked in [open("session", 7), asks_globally("x", true)] {
        let may = Err(Refusal("no longer".into()));
        let said = judged
            .take(Side::User, &asked, may, &mut Everything)
            .unwrap();
        assert!(!said.passes && said.says.len() == 1);
    }
    let direct = [
        open("direct-tcpip", 8),
        Message::new(0).string("db").number(5432).done()[1..].to_vec(),
    ];
    let said = take(Side::User, &direct.concat());
    let text = String::from_utf8_lossy(&said.says[0].1).into_owned();
    assert!(text.contains("not to db:5432"), "{text}");

    take(Side::User, &data(3, b"12345"));
    take(Side::Server, &data(7, b"123"));
    take(Side::User, &of_channel(CHANNEL_CLOSE, 3));
    take(Side::Server, &of_channel(CHANNEL_CLOSE, 7));
    assert_eq!(rules.0, [(b"session".to_vec(), [5, 3])]);
}

/// Tells the user something on each session.
struct Talks;

impl Rules for Talks {
    type Note = ();

    fn ask(
        &mut self,
        _by: Side,
        channel: &mut Channel<()>,
        request: &Request<'_>,
    ) -> Result<(), Denied> {
        if request.name == b"exec" {
            return Err(Denied::Ended {
                words: "no more".into(),
                status: 255,
            });
        }
        channel.tell("recorded");
        if request.name == b"shell" {
            return Err(Denied::Refused);
        }
        Ok(())
    }
}

#[test]
fn words_take_of_the_window_that_the_server_does_not_know_of() {
    let kept = Settings {
        reserve: 20,
        ..settings(10)
    };
    let words = |number: u32| {
        let message = Message::new(CHANNEL_EXTENDED_DATA).number(number).number(1);
        (Side::User, message.string("recorded").done())
    };
    let mut passing = Passing::<()>::new(&kept, b"session", None);
    let mut take = |side, message: &[u8]| passing.take(side, message, Ok(()), &mut Talks).unwrap();
    let opened = take(Side::User, &open("session", 7)).instead.unwrap();
    let expected = Message::new(CHANNEL_OPEN).string("session").number(7);
    let expected = expected.number((1 << 20) - 20).number(1 << 15);
    assert_eq!(opened, expected.done());
    take(Side::Server, &confirm(7, 3));
    let said = take(Side::User, &asks(3, "pty-req", true));
    assert!(said.passes);
    assert_eq!(said.says, [words(7)]);
    // Words come before the refusal, which waits for the reply before it.
    assert_eq!(take(Side::User, &asks(3, "shell", true)).says, [words(7)]);
    assert_eq!(take(Side::User, &asks(3, "env", false)).says, [], "used up");
    // What the client has read makes room again, of which the server does not hear.
    let adjust = |more: u32| {
        Message::new(CHANNEL_WINDOW_ADJUST)
            .number(3)
            .number(more)
            .done()
    };
    let first = take(Side::User, &adjust(10));
    assert!(!first.passes);
    let second = take(Side::User, &adjust(100));
    assert_eq!((second.passes, second.instead), (true, Some(adjust(94))));
    assert!(take(Side::User, &adjust(5)).instead.is_none());
    assert_eq!(take(Side::User, &asks(3, "env", false)).says, [words(7)]);
    // Nothing is said behind the end of what the server says.
    take(Side::Server, &of_channel(CHANNEL_EOF, 7));
    assert_eq!(take(Side::User, &asks(3, "env", false)).says, []);

    // Forwards, and windows with little room, are left alone.
    let small = Message::new(CHANNEL_OPEN).string("session").number(8);
    let small = small.number(79).number(1 << 15).done();
    assert_eq!(take(Side::User, &small).instead, None);
    assert_eq!(take(Side::User, &open("direct-tcpip", 9)).instead, None);
    take(Side::Server, &confirm(8, 4));
    assert_eq!(take(Side::User, &asks(4, "env", false)).says, []);
}

#[test]
fn a_channel_that_the_relay_ends_is_over_when_both_have_closed_it() {
    let kept = Settings {
        reserve: 100,
        ..settings(1)
    };
    let mut passing = Passing::<()>::new(&kept, b"session", None);
    let mut take = |side, message: &[u8]| passing.take(side, message, Ok(()), &mut Talks).unwrap();
    take(Side::User, &open("session", 7));
    take(Side::Server, &confirm(7, 3));
    // A client that does not wait for replies.
    take(Side::User, &asks(3, "env", true));
    let ended = take(Side::User, &asks(3, "exec", true));
    assert!(!ended.passes);
    let said: Vec<_> = ended.says.iter().map(|(to, it)| (*to, it[0])).collect();
    let user = [
        CHANNEL_SUCCESS,
        CHANNEL_SUCCESS,
        CHANNEL_EXTENDED_DATA,
        CHANNEL_REQUEST,
        CHANNEL_EOF,
        CHANNEL_CLOSE,
    ];
    let mut expected = user.map(|number| (Side::User, number)).to_vec();
    expected.push((Side::Server, CHANNEL_CLOSE));
    assert_eq!(said, expected);
    // Nothing is said behind its end.
    assert!(passing.tell("late", &Talks).is_empty());
    let mut take = |side, message: &[u8]| passing.take(side, message, Ok(()), &mut Talks).unwrap();
    // What was on its way comes to nothing, and the channel counts until it is closed.
    for (side, late) in [
        (Side::Server, of_channel(CHANNEL_SUCCESS, 7)),
        (Side::Server, data(7, b"late")),
        (Side::User, data(3, b"late")),
        (Side::Server, of_channel(CHANNEL_CLOSE, 7)),
    ] {
        assert_eq!(take(side, &late), Outcome::default());
    }
    let refused = take(Side::User, &open("session", 8));
    assert_eq!(refused.says[0].1[0], CHANNEL_OPEN_FAILURE);
    // The server may give its number to another, which waits for the user's close.
    assert!(passing.has_to_wait(Side::Server, &confirm(9, 3)));
    assert!(!passing.has_to_wait(Side::Server, &confirm(9, 4)));
    assert!(passing.has_to_wait(Side::User, &open("session", 7)));
    let mut take = |side, message: &[u8]| passing.take(side, message, Ok(()), &mut Talks).unwrap();
    assert_eq!(
        take(Side::User, &of_channel(CHANNEL_CLOSE, 3)),
        Outcome::default()
    );
    assert!(take(Side::User, &open("session", 8)).passes);
}
