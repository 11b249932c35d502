//! What may pass, and who is told of it.

use std::task::{Context, Poll};

use crate::wire::{Fields, Malformed};

/// An end of a relay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Side {
    /// The user's client.
    User,
    /// The server behind the relay.
    Server,
}

impl Side {
    /// The one across.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::User => Self::Server,
            Self::Server => Self::User,
        }
    }

    pub(super) const fn index(self) -> usize {
        match self {
            Self::User => 0,
            Self::Server => 1,
        }
    }
}

/// A channel that is asked for.
#[derive(Debug, Clone, Copy)]
pub struct Open<'a> {
    /// Its type, as `session` or `direct-tcpip`.
    pub kind: &'a [u8],
    /// What its type says of it.
    detail: Fields<'a>,
}

impl<'a> Open<'a> {
    pub(super) fn new(kind: &'a [u8], detail: Fields<'a>) -> Self {
        Self { kind, detail }
    }

    /// Where it leads: the host and the port of `direct-tcpip`, and of `forwarded-tcpip` those
    /// that were connected to; the path of `…-streamlocal@openssh.com` with port 0. `None` for
    /// other types, and where it cannot be read.
    #[must_use]
    pub fn destination(&self) -> Option<(&'a [u8], u32)> {
        let mut fields = self.detail;
        match self.kind {
            b"direct-tcpip" | b"forwarded-tcpip" => {
                Some((fields.string().ok()?, fields.number().ok()?))
            }
            b"direct-streamlocal@openssh.com" | b"forwarded-streamlocal@openssh.com" => {
                Some((fields.string().ok()?, 0))
            }
            _ => None,
        }
    }
}

/// Something that is asked of a channel, or of the whole connection.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// Its name, as `exec` or `tcpip-forward`.
    pub name: &'a [u8],
    /// Whether an answer is wanted.
    pub wants_reply: bool,
    /// What its name says of it.
    fields: Fields<'a>,
}

impl<'a> Request<'a> {
    pub(super) fn new(name: &'a [u8], wants_reply: bool, fields: Fields<'a>) -> Self {
        Self {
            name,
            wants_reply,
            fields,
        }
    }

    pub(super) fn fields(&self) -> Fields<'a> {
        self.fields
    }

    /// Its first field, if that is a string: the command of `exec`, the name of `subsystem`,
    /// the address of `tcpip-forward`, the name of a terminal.
    #[must_use]
    pub fn text(&self) -> Option<&'a [u8]> {
        let mut fields = self.fields;
        fields.string().ok()
    }

    /// The address and the port of `tcpip-forward` and its cancellation.
    #[must_use]
    pub fn address(&self) -> Option<(&'a [u8], u32)> {
        let mut fields = self.fields;
        Some((fields.string().ok()?, fields.number().ok()?))
    }

    /// Columns and rows, of `pty-req` and `window-change`.
    #[must_use]
    pub fn size(&self) -> Option<(u32, u32)> {
        let mut fields = self.fields;
        if self.name == b"pty-req" {
            fields.string().ok()?;
        }
        let read = |fields: &mut Fields<'_>| -> Result<_, Malformed> {
            Ok((fields.number()?, fields.number()?))
        };
        read(&mut fields).ok()
    }
}

/// Why something does not pass; whoever asked is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal(pub String);

/// What becomes of something that is asked of a channel and does not pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Denied {
    /// Whoever asked is told that it failed.
    Refused,
    /// The channel ends: the user reads these words as standard error, and gets that exit
    /// status. What the server asks is refused.
    Ended {
        /// What is told, as far as what is kept back of the window suffices.
        words: String,
        /// As of a command.
        status: u32,
    },
}

/// A channel for its owner's notes.
#[derive(Debug)]
pub struct Channel<N> {
    /// Its type.
    pub kind: Vec<u8>,
    /// Who asked for it.
    pub by: Side,
    /// Bytes of data that have come from the user, and from the server.
    pub bytes: [u64; 2],
    /// What its owner notes.
    pub note: N,
    /// Words for the user that are not said yet.
    pub(super) words: Vec<String>,
}

impl<N> Channel<N> {
    /// Tells the user something on the channel, as standard error, if what is kept back of its
    /// window suffices (see [`Settings::reserve`](super::Settings::reserve)).
    pub fn tell(&mut self, words: impl Into<String>) {
        self.words.push(words.into());
    }
}

/// How a channel ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum End {
    /// Both sides have closed it.
    Closed,
    /// It was never there: the side that was asked for it has refused it.
    Refused,
    /// With its connection.
    Connection,
}

/// What may pass, and who is told of it. All of it allows everything but what is refused.
pub trait Rules {
    /// What is noted of each channel.
    type Note: Default;

    /// Whether a channel may be asked for. Of the server's only those come here that the user
    /// has asked for.
    ///
    /// # Errors
    /// It may not.
    fn open(&mut self, _by: Side, _open: &Open<'_>) -> Result<Self::Note, Refusal> {
        Ok(Self::Note::default())
    }

    /// The channel is there.
    fn opened(&mut self, _channel: &mut Channel<Self::Note>) {}

    /// Whether something may be asked of a channel.
    ///
    /// # Errors
    /// It may not.
    fn ask(
        &mut self,
        _by: Side,
        _channel: &mut Channel<Self::Note>,
        _request: &Request<'_>,
    ) -> Result<(), Denied> {
        Ok(())
    }

    /// What was asked of a channel is granted, or is not.
    fn answered(&mut self, _by: Side, _channel: &mut Channel<Self::Note>, _granted: bool) {}

    /// Whether something may be asked of the whole connection.
    ///
    /// # Errors
    /// It may not.
    fn ask_globally(&mut self, _by: Side, _request: &Request<'_>) -> Result<(), Refusal> {
        Ok(())
    }

    /// What was asked of the whole connection is granted, with what is said to it, or is not.
    fn answered_globally(&mut self, _by: Side, _granted: Option<&[u8]>) {}

    /// Judges a message of a side's before all else: whoever has to ask somebody first does so
    /// here. It is asked again until it is ready. What is refused is so where a channel, or
    /// something of the whole connection, is asked for; other messages pass all the same.
    fn poll_pass(
        &mut self,
        _from: Side,
        _message: &[u8],
        _cx: &mut Context<'_>,
    ) -> Poll<Result<(), Refusal>> {
        Poll::Ready(Ok(()))
    }

    /// Ready when more of a side's may pass: whoever keeps what passes may not keep up.
    fn poll_ready(&mut self, _from: Side, _cx: &mut Context<'_>) -> Poll<()> {
        Poll::Ready(())
    }

    /// Words for the user on all channels that [`Rules::hears`] them, when there are some.
    fn poll_words(&mut self, _cx: &mut Context<'_>) -> Poll<String> {
        Poll::Pending
    }

    /// Whether words for the user are said on that channel.
    fn hears(&self, channel: &Channel<Self::Note>) -> bool {
        channel.by == Side::User && channel.kind == b"session"
    }

    /// Data pass. `is_error` says whether they are of standard error.
    fn data(
        &mut self,
        _by: Side,
        _channel: &mut Channel<Self::Note>,
        _data: &[u8],
        _is_error: bool,
    ) {
    }

    /// The channel is over.
    fn closed(&mut self, _channel: Channel<Self::Note>, _end: End) {}
}

/// Everything may pass, and nobody is told.
#[derive(Debug, Clone, Copy, Default)]
pub struct Everything;

impl Rules for Everything {
    type Note = ();
}
