//! What may pass between a user and a machine, and what is written down of it.

use std::collections::{HashMap, VecDeque};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use kite_ssh_relay::message::{CHANNEL_OPEN, GLOBAL_REQUEST};
use kite_ssh_relay::relay::{Channel, Denied, End, Open, Refusal, Request, Rules, Side};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio_util::sync::WaitForCancellationFutureOwned;

use super::conn::{Conn, Counted, LISTENER};
use super::enter::current;
use super::rights::{NOT_VOUCHED_FOR, Rights};
use crate::audit::{Event, Purpose};
use crate::recording::{Lost, RECORDED, Recording, Recordings, Terminal};

/// What interactive sessions read when the gateway goes down.
const RESTART: &str =
    "\r\nkite: the gateway is restarting; this session ends soon, log in again\r\n";
/// Exit status of a session that does not go on.
const UNAVAILABLE: u32 = 255;
/// Listeners for forwards that are remembered.
const MOST_FORWARDS: usize = 1024;

/// What is noted of a channel.
#[derive(Default)]
pub(super) struct Note {
    counted: Option<Counted>,
    purpose: Purpose,
    detail: Option<String>,
    /// The machine said yes to what stands there.
    is_certain: bool,
    /// A terminal was asked for: somebody reads what is printed.
    is_interactive: bool,
    terminal: Option<Terminal>,
    recording: Option<Arc<Recording>>,
    /// What was asked and is not answered: what it starts, if it does.
    asked: VecDeque<Option<(Purpose, String)>>,
}

impl Note {
    /// Keeps what is asked of the channel: the first that the machine says yes to,
    /// or else the first of all. What comes behind must not stand in its place.
    fn describe(&mut self, purpose: Purpose, text: String, is_accepted: bool) {
        let is_first = self.purpose == Purpose::Nothing;
        if is_first || (is_accepted && !self.is_certain) {
            self.purpose = purpose;
            self.detail = Some(text);
            self.is_certain = is_accepted;
        }
    }
}

/// Something that is waited for.
type Pending<T> = Pin<Box<dyn Future<Output = T> + Send>>;
/// A listener in the machine.
type Listener = (Vec<u8>, u32);

/// The rules of one connection.
pub(super) struct Watch {
    conn: Arc<Conn>,
    rights: Rights,
    draining: Option<Pin<Box<WaitForCancellationFutureOwned>>>,
    warnings: Option<UnboundedReceiver<String>>,
    /// What is printed waits for its recording.
    writing: Option<Pending<Result<(), Lost>>>,
    is_lost: bool,
    /// Whether the user may still open something is asked.
    asking: Option<Pending<Result<(), Refusal>>>,
    forwards: HashMap<Listener, Counted>,
    /// What was asked of the connection and is not answered: a listener, if it is one.
    asked: VecDeque<Option<Listener>>,
}

impl Watch {
    pub(super) fn new(conn: &Arc<Conn>) -> Self {
        let draining = conn.shared.draining.clone();
        Self {
            conn: Arc::clone(conn),
            rights: Rights::of(conn),
            draining: Some(Box::pin(draining.cancelled_owned())),
            warnings: conn.warnings(),
            writing: None,
            is_lost: false,
            asking: None,
            forwards: HashMap::new(),
            asked: VecDeque::new(),
        }
    }

    /// Whether a session with that terminal is recorded; nothing is started in one that is
    /// not and has to be.
    fn record(&self, channel: &mut Channel<Note>) -> Result<(), Denied> {
        let Some(terminal) = channel.note.terminal.clone() else {
            return Ok(());
        };
        if channel.note.recording.is_some() {
            return Ok(());
        }
        match self.begin(&terminal) {
            Ok(recording) => {
                channel.note.recording = Some(Arc::new(recording));
                Ok(())
            }
            Err(error) => Err(Denied::Ended {
                words: format!("{}\r\n", unrecorded(&error.to_string())),
                status: UNAVAILABLE,
            }),
        }
    }

    fn begin(&self, terminal: &Terminal) -> std::io::Result<Recording> {
        let gone = || std::io::Error::from(std::io::ErrorKind::NotConnected);
        let recordings = self.conn.shared.recordings.as_ref().ok_or_else(gone)?;
        let identity = self.conn.identity().ok_or_else(gone)?;
        let (login, vm) = (&identity.login, &identity.vm);
        let begun = recordings.begin(terminal, login, vm);
        let begun = begun.inspect_err(|error| {
            tracing::error!(%vm, %error, "a session cannot be recorded");
        })?;
        self.conn.record(Event::Recording {
            login: login.clone(),
            vm: vm.clone(),
            name: begun.name().to_owned(),
        });
        Ok(begun)
    }

    /// Something begins on a session, whose user is told what there is to tell.
    fn begins(&self, channel: &mut Channel<Note>) {
        if channel.note.recording.is_some() {
            channel.tell(format!("{RECORDED}\r\n"));
        }
        if channel.note.is_interactive && self.draining.is_none() {
            channel.tell(RESTART);
        }
    }

    fn lose(&mut self) {
        self.is_lost = true;
        let words = unrecorded("it could not be written any more");
        self.conn
            .kill(words.strip_prefix("kite: ").unwrap_or(&words));
    }
}

fn unrecorded(error: &str) -> String {
    format!("kite: this session has to be recorded, and cannot be: {error}")
}

fn text(bytes: Option<&[u8]>) -> String {
    String::from_utf8_lossy(bytes.unwrap_or_default()).into_owned()
}

/// The name of a channel's type, for records and metrics.
fn kind(kind: &[u8]) -> &'static str {
    match kind {
        b"session" => "session",
        b"direct-tcpip" => "direct-tcpip",
        b"direct-streamlocal@openssh.com" => "direct-streamlocal",
        b"forwarded-tcpip" => "forwarded-tcpip",
        b"forwarded-streamlocal@openssh.com" => "forwarded-streamlocal",
        b"x11" => "x11",
        b"auth-agent@openssh.com" => "auth-agent",
        _ => "other",
    }
}

/// What a channel of a type is for, as long as nothing more is known.
fn purpose(kind: &[u8]) -> Purpose {
    match kind {
        b"session" => Purpose::Nothing,
        b"x11" => Purpose::X11,
        b"auth-agent@openssh.com" => Purpose::Agent,
        _ => Purpose::Forward,
    }
}

impl Rules for Watch {
    type Note = Note;

    /// Whoever opens something has to have the right to it now, and not only at the login.
    fn poll_pass(
        &mut self,
        from: Side,
        message: &[u8],
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), Refusal>> {
        let opens = matches!(message, [CHANNEL_OPEN | GLOBAL_REQUEST, ..]);
        if from == Side::Server || !opens {
            return Poll::Ready(Ok(()));
        }
        let conn = &self.conn;
        let asking = self.asking.get_or_insert_with(|| {
            let conn = Arc::clone(conn);
            Box::pin(async move {
                let current = current(&conn).await;
                current.map(drop).map_err(|it| Refusal(it.to_string()))
            })
        });
        let may = std::task::ready!(asking.as_mut().poll(cx));
        self.asking = None;
        Poll::Ready(may)
    }

    fn open(&mut self, by: Side, open: &Open<'_>) -> Result<Note, Refusal> {
        if by == Side::User && !self.rights.may_open(open.kind) {
            return Err(Refusal(NOT_VOUCHED_FOR.to_owned()));
        }
        let destination = open.destination();
        let detail = destination.map(|(host, port)| {
            let host = String::from_utf8_lossy(host);
            if port == 0 {
                host.into_owned()
            } else {
                format!("{host}:{port}")
            }
        });
        Ok(Note {
            counted: Some(self.conn.count(kind(open.kind))),
            purpose: purpose(open.kind),
            detail,
            ..Note::default()
        })
    }

    fn ask(
        &mut self,
        by: Side,
        channel: &mut Channel<Note>,
        request: &Request<'_>,
    ) -> Result<(), Denied> {
        if by == Side::Server {
            return Ok(());
        }
        if !self.rights.may_ask(request.name) {
            return Err(Denied::Refused);
        }
        let recordings = self.conn.shared.recordings.as_ref();
        let note = &mut channel.note;
        let starts = match request.name {
            b"pty-req" => {
                note.is_interactive = true;
                if let (Some(_), Some((columns, rows))) = (recordings, request.size()) {
                    // A session has one terminal.
                    note.terminal.get_or_insert(Terminal {
                        term: text(request.text()),
                        columns,
                        rows,
                    });
                }
                None
            }
            b"window-change" => {
                if let (Some(recording), Some((columns, rows))) = (&note.recording, request.size())
                {
                    recording.resized(columns, rows);
                }
                None
            }
            b"shell" => Some((Purpose::Shell, String::new())),
            b"exec" => {
                let command = request.text().unwrap_or_default();
                Some((Purpose::of_command(command), text(Some(command))))
            }
            b"subsystem" => {
                let name = text(request.text());
                Some((Purpose::of_subsystem(&name), format!("subsystem {name}")))
            }
            _ => None,
        };
        if let Some((purpose, words)) = &starts {
            note.describe(*purpose, words.clone(), false);
            let is_sftp = request.name == b"subsystem" && request.text() == Some(b"sftp");
            let without = recordings.and_then(Recordings::without_terminal);
            if let (Some(terminal), false) = (without, is_sftp) {
                // One that was asked for stays.
                note.terminal.get_or_insert(terminal);
            }
            self.record(channel)?;
            if !request.wants_reply {
                self.begins(channel);
            }
        }
        if request.wants_reply {
            channel.note.asked.push_back(starts);
        }
        Ok(())
    }

    fn answered(&mut self, by: Side, channel: &mut Channel<Note>, is_granted: bool) {
        if by == Side::Server {
            return;
        }
        if let Some(Some((purpose, words))) = channel.note.asked.pop_front()
            && is_granted
        {
            channel.note.describe(purpose, words, true);
            self.begins(channel);
        }
    }

    fn ask_globally(&mut self, by: Side, request: &Request<'_>) -> Result<(), Refusal> {
        if by == Side::Server {
            return Ok(());
        }
        if !self.rights.may_ask_globally(request.name) {
            return Err(Refusal(NOT_VOUCHED_FOR.to_owned()));
        }
        let listener = match request.name {
            b"tcpip-forward" | b"cancel-tcpip-forward" => request.address(),
            b"streamlocal-forward@openssh.com" | b"cancel-streamlocal-forward@openssh.com" => {
                request.text().map(|path| (path, 0))
            }
            _ => None,
        };
        let listener = listener.map(|(address, port)| (address.to_vec(), port));
        let is_cancelled = request.name.starts_with(b"cancel-");
        if let Some(listener) = listener.as_ref().filter(|_| is_cancelled)
            && let Some(counted) = self.forwards.remove(listener)
        {
            close(listener, counted);
        }
        if request.wants_reply {
            self.asked.push_back(listener.filter(|_| !is_cancelled));
        }
        Ok(())
    }

    fn answered_globally(&mut self, by: Side, granted: Option<&[u8]>) {
        if by == Side::Server {
            return;
        }
        if let Some(Some(mut listener)) = self.asked.pop_front()
            && let Some(reply) = granted
            && self.forwards.len() < MOST_FORWARDS
        {
            // The machine says which port it has chosen, where it was to choose one.
            if let (0, Some(chosen)) = (listener.1, reply.first_chunk()) {
                listener.1 = u32::from_be_bytes(*chosen);
            }
            let counted = self.conn.count(LISTENER);
            if let Some(before) = self.forwards.insert(listener.clone(), counted) {
                close(&listener, before);
            }
        }
    }

    fn poll_ready(&mut self, from: Side, cx: &mut Context<'_>) -> Poll<()> {
        if from == Side::Server
            && let Some(writing) = &mut self.writing
        {
            let written = std::task::ready!(writing.as_mut().poll(cx));
            self.writing = None;
            if written.is_err() {
                self.lose();
            }
        }
        // Nothing more passes until the connection has ended.
        if self.is_lost && from == Side::Server {
            return Poll::Pending;
        }
        Poll::Ready(())
    }

    fn poll_words(&mut self, cx: &mut Context<'_>) -> Poll<String> {
        if let Some(draining) = &mut self.draining
            && draining.as_mut().poll(cx).is_ready()
        {
            self.draining = None;
            return Poll::Ready(RESTART.to_owned());
        }
        let Some(warnings) = &mut self.warnings else {
            return Poll::Pending;
        };
        match std::task::ready!(warnings.poll_recv(cx)) {
            Some(words) => Poll::Ready(format!("\r\nkite: {words}\r\n")),
            None => Poll::Pending,
        }
    }

    fn hears(&self, channel: &Channel<Note>) -> bool {
        channel.note.is_interactive
    }

    fn data(&mut self, by: Side, channel: &mut Channel<Note>, data: &[u8], _is_error: bool) {
        self.conn.carries();
        let Some(recording) = channel
            .note
            .recording
            .as_ref()
            .filter(|_| by == Side::Server)
        else {
            return;
        };
        let data = Bytes::copy_from_slice(data);
        match recording.try_printed(&data) {
            Ok(true) => {}
            Ok(false) => {
                let recording = Arc::clone(recording);
                self.writing = Some(Box::pin(async move { recording.printed(&data).await }));
            }
            Err(Lost) => self.lose(),
        }
    }

    fn closed(&mut self, channel: Channel<Note>, end: End) {
        let Channel { bytes, note, .. } = channel;
        let ended = match end {
            End::Closed => "closed",
            End::Refused => "refused",
            End::Connection => "closed with its connection",
        };
        if let Some(counted) = note.counted {
            counted.ended(note.purpose, note.detail.as_deref(), bytes, ended);
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        // What the user has read is recorded, if the disk is only slow.
        if let Some(writing) = self.writing.take() {
            tokio::spawn(writing);
        }
        for (listener, counted) in self.forwards.drain() {
            close(&listener, counted);
        }
    }
}

fn close((address, port): &Listener, counted: Counted) {
    let address = String::from_utf8_lossy(address);
    let detail = if *port == 0 {
        address.into_owned()
    } else {
        format!("{address}:{port}")
    };
    counted.ended(Purpose::Forward, Some(&detail), [0, 0], "closed");
}
