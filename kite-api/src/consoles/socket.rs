//! The WebSocket of a console.
//!
//! The first message is text, `{"ticket": …, "cols": …, "rows": …}`. The answer is
//! `{"ready": true}` or `{"error": <problem>}` and the end. Afterwards binary
//! messages are the console's bytes; text of the client is `{"resize": …}`, and of the
//! server, before the end, `{"ended": {"by": …, "reason": …}}` where somebody wished it
//! and `{"cause": …}` where the shell or the VM came to its own.

use std::{
    net::IpAddr,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use axum::extract::ws::{Message, WebSocket};
use bytes::Bytes;
use futures::{
    SinkExt as _, StreamExt as _,
    stream::{SplitSink, SplitStream},
};
use jiff::Timestamp;
use kite_core::cluster::ObjectKey;
use kite_identity::Principal;
use kite_rest::{Problem, ProblemKind, budget::OwnersShare};
use kube::ResourceExt as _;
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::json;
use tokio::time::Instant;

use super::{activity, subresource, ticket, watch::Grounds};
use crate::{
    console::{
        Cause, ConsoleEnded, ConsoleEvent, ConsoleInput, ConsoleKind, ConsoleOutput, ConsoleRecord,
        ConsoleStream, End, Grant, Guest, Place, TerminalRequest, TerminalSize,
    },
    state::ApiState,
};

/// How long the first message may take.
const FIRST_MESSAGE: Duration = Duration::from_secs(5);
/// How long a VM may take to let somebody in to a terminal.
const TERMINAL_PATIENCE: Duration = Duration::from_secs(30);
/// How often a message without content keeps proxies from ending what is quiet.
const PING: Duration = Duration::from_secs(25);
/// How long a client may take to hear the last words.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// Within how long of its stream's end a console hears that another took its place.
const MOMENT: Duration = Duration::from_millis(500);
/// How long what a VM printed last may take to come when its end is known already.
const LAST_PRINTED: Duration = Duration::from_millis(500);

/// The first message.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Hello {
    ticket: String,
    cols: Option<u16>,
    rows: Option<u16>,
}

/// What a client may say afterwards.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Control {
    resize: Resize,
}

#[derive(Deserialize)]
struct Resize {
    cols: u16,
    rows: u16,
}

/// Terminals have a size, and not any.
fn size(columns: u16, rows: u16) -> TerminalSize {
    TerminalSize {
        columns: columns.clamp(1, 1000),
        rows: rows.clamp(1, 1000),
    }
}

/// Somebody who came with a session and wants a console.
pub(super) struct Visit {
    pub(super) state: ApiState,
    pub(super) principal: Principal,
    pub(super) address: Option<IpAddr>,
    /// Counts the socket for as long as it is there.
    pub(super) _guest: Guest,
    /// What it may hold of the memory for consoles.
    pub(super) _share: OwnersShare,
}

/// A console that is open.
struct Console {
    grant: Grant,
    place: Place,
    stream: ConsoleStream,
}

impl Visit {
    /// Serves the socket to its end.
    pub(super) async fn serve(self, mut socket: WebSocket) {
        let hello = match first_message(&mut socket).await {
            Ok(Some(hello)) => hello,
            Ok(None) => return,
            Err(problem) => return self.refuse(socket, None, &problem).await,
        };
        let redeemed = ticket::redeem(&self.state, &self.principal, &hello.ticket).await;
        let (grant, session) = match redeemed {
            Ok(redeemed) => redeemed,
            Err(problem) => return self.refuse(socket, None, &problem).await,
        };
        let told = grant.clone();
        let grounds = Grounds::new(&self.state, &self.principal, session, &told);
        let gone = grounds.gone();
        let mut gone = std::pin::pin!(gone);
        let opened = tokio::select! {
            biased;
            end = &mut gone => {
                self.record(&told, 0, ConsoleEvent::ConsoleRefused { why: end.reason().to_owned() });
                return farewell(socket, &end).await;
            }
            opened = self.open(grant, &hello) => opened,
        };
        let console = match opened {
            Ok(console) => console,
            Err(problem) => return self.refuse(socket, Some(&told), &problem).await,
        };
        self.attend(socket, console, &grounds, gone).await;
    }

    /// Opens the console that a ticket is for.
    async fn open(&self, grant: Grant, hello: &Hello) -> Result<Console, Problem> {
        let consoles = self.state.consoles();
        // Whoever gave the ticket may have been told otherwise.
        consoles.check(grant.kind)?;
        let user = self.principal.user().uid().unwrap_or_default();
        let place = consoles
            .places
            .enter(&consoles.limits, &user, &grant.uid, grant.kind)?;
        let stream = match grant.kind {
            ConsoleKind::Serial | ConsoleKind::Vnc => {
                subresource::open(&self.state, &grant).await?
            }
            ConsoleKind::Terminal => self.terminal(&grant, hello).await?,
        };
        place.take_over();
        Ok(Console {
            grant,
            place,
            stream,
        })
    }

    async fn terminal(&self, grant: &Grant, hello: &Hello) -> Result<ConsoleStream, Problem> {
        let terminals = self.state.consoles().terminals.as_ref();
        let terminals = terminals.ok_or_else(crate::console::no_terminals)?;
        let default = TerminalSize::default();
        let request = TerminalRequest {
            vm: ObjectKey::namespaced(&grant.namespace, &grant.vm),
            uid: grant.uid.clone(),
            user: self.principal.name(),
            from: self.address,
            size: size(
                hello.cols.unwrap_or(default.columns),
                hello.rows.unwrap_or(default.rows),
            ),
        };
        match tokio::time::timeout(TERMINAL_PATIENCE, terminals.open(request)).await {
            Ok(opened) => Ok(opened?),
            Err(_) => Err(Problem::new(
                ProblemKind::Unavailable,
                "the VM did not let anybody in in time: try again, or use the serial console",
            )),
        }
    }

    /// Carries bytes until something ends it.
    async fn attend(
        &self,
        socket: WebSocket,
        console: Console,
        grounds: &Grounds<'_>,
        mut gone: std::pin::Pin<&mut impl Future<Output = End>>,
    ) {
        let Console {
            grant,
            place,
            stream,
        } = console;
        let metrics = self.state.metrics();
        // A console is opened once.
        let _ = grounds.number.set(place.number);
        metrics.console_opened(grant.kind);
        self.record(&grant, place.number, ConsoleEvent::ConsoleOpened);
        if let Some(recording) = stream.recording.clone() {
            let recorded = ConsoleEvent::ConsoleRecorded { recording };
            self.record(&grant, place.number, recorded);
        }
        let (traffic, started) = (Traffic::new(), Instant::now());
        let limits = &self.state.consoles().limits;
        let (mut sink, mut source) = socket.split();
        let end = {
            let carried = carry(&mut sink, &mut source, stream, &traffic);
            let mut carried = std::pin::pin!(carried);
            let reporting = activity::keep_reporting(&self.state, &grant);
            let end = tokio::select! {
                end = &mut carried => end,
                end = &mut gone => end,
                () = place.taken.cancelled() => End::taken(),
                () = traffic.idle(limits.idle) => End::timed_out("nothing was done for too long"),
                () = tokio::time::sleep(limits.longest) => {
                    End::timed_out("the console was open for as long as one may be")
                }
                () = reporting => End::going_away(),
            };
            if end.is_of_vm() {
                // What it said last is still to be read.
                let _ = tokio::time::timeout(LAST_PRINTED, carried).await;
            }
            end
        };
        let end = if end.is_unexplained() {
            tokio::select! {
                () = place.taken.cancelled() => End::taken(),
                end = &mut gone => end,
                end = async {
                    tokio::time::sleep(MOMENT).await;
                    grounds.verdict(end).await
                } => end,
            }
        } else {
            end
        };
        let (bytes_up, bytes_down) = traffic.totals();
        metrics.console_ended(grant.kind, bytes_up, bytes_down);
        let ended = ConsoleEvent::ConsoleEnded {
            bytes_up,
            bytes_down,
            seconds: started.elapsed().as_secs_f64(),
            ended: end.reason().to_owned(),
            code: end.code(),
        };
        self.record(&grant, place.number, ended);
        drop(place);
        part(&mut sink, &mut source, &end).await;
        activity::tell(&self.state, &grant).await;
    }

    /// Tells why there is no console.
    async fn refuse(&self, mut socket: WebSocket, grant: Option<&Grant>, problem: &Problem) {
        self.state.metrics().console_refused(problem.kind());
        if let Some(grant) = grant {
            let why = problem.detail().to_owned();
            self.record(grant, 0, ConsoleEvent::ConsoleRefused { why });
        }
        let text = json!({ "error": problem.to_json() }).to_string();
        let told = socket.send(Message::text(text));
        let _ = tokio::time::timeout(LAST_WORDS, told).await;
        let end = match problem.kind() {
            ProblemKind::Unauthenticated => {
                End::session_over("the session has ended: sign in again")
            }
            _ => End::failed(problem.detail().to_owned()),
        };
        farewell(socket, &end).await;
    }

    fn record(&self, grant: &Grant, console: u64, event: ConsoleEvent) {
        self.state.consoles().audit.record(&ConsoleRecord {
            time: Timestamp::now(),
            console,
            address: self.address,
            user: self.principal.name(),
            namespace: grant.namespace.clone(),
            vm: grant.vm.clone(),
            uid: grant.uid.clone(),
            owner: grant.owner.clone(),
            kind: grant.kind,
            event,
        });
    }
}

async fn farewell(socket: WebSocket, end: &End) {
    let (mut sink, mut source) = socket.split();
    part(&mut sink, &mut source, end).await;
}

/// Closes in order: what a client sends meanwhile is read away, as the system would
/// answer it with a reset, and the last words would be lost.
async fn part(
    sink: &mut SplitSink<WebSocket, Message>,
    source: &mut SplitStream<WebSocket>,
    end: &End,
) {
    let parting = async {
        if let Some(words) = end.words() {
            // Where this does not get through, the close does not either.
            let _ = sink.send(words).await;
        }
        if sink.send(Message::Close(Some(end.frame()))).await.is_err() {
            // The client was first; the answer to its close is to be sent.
            let _ = sink.flush().await;
        }
        while let Some(Ok(_)) = source.next().await {}
    };
    // Who does not read is cut off all the same.
    let _ = tokio::time::timeout(LAST_WORDS, parting).await;
}

/// Reads the ticket; nothing if the client has gone.
async fn first_message(socket: &mut WebSocket) -> Result<Option<Hello>, Problem> {
    let malformed = |why: &str| Problem::new(ProblemKind::Malformed, why.to_owned());
    let first = async {
        loop {
            match socket.recv().await {
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                other => return other,
            }
        }
    };
    match tokio::time::timeout(FIRST_MESSAGE, first).await {
        Ok(Some(Ok(Message::Text(text)))) => {
            let hello = serde_json::from_str(&text);
            // What was sent may be a ticket all the same: it is not repeated.
            hello.map(Some).map_err(|_| {
                malformed(
                    "the first message must be {\"ticket\": \"…\", \"cols\": 120, \"rows\": 40}",
                )
            })
        }
        Ok(Some(Ok(Message::Binary(_)))) => {
            Err(malformed("the first message must be text, with the ticket"))
        }
        Ok(Some(Ok(_) | Err(_)) | None) => Ok(None),
        Err(_) => Err(malformed("no ticket came within five seconds")),
    }
}

/// What went which way, and when last.
struct Traffic {
    up: AtomicU64,
    down: AtomicU64,
    last: Mutex<Instant>,
}

impl Traffic {
    fn new() -> Self {
        Self {
            up: AtomicU64::new(0),
            down: AtomicU64::new(0),
            last: Mutex::new(Instant::now()),
        }
    }

    fn count(&self, way: &AtomicU64, bytes: usize) {
        way.fetch_add(bytes as u64, Ordering::Relaxed);
        *self.last.lock() = Instant::now();
    }

    fn totals(&self) -> (u64, u64) {
        let of = |way: &AtomicU64| way.load(Ordering::Relaxed);
        (of(&self.up), of(&self.down))
    }

    /// Waits until nothing has gone either way for so long.
    async fn idle(&self, most: Duration) {
        loop {
            let until = *self.last.lock() + most;
            if Instant::now() >= until {
                return;
            }
            tokio::time::sleep_until(until).await;
        }
    }
}

/// Carries bytes both ways until either side ends. Each way has one message under
/// way: who does not read holds up the other side.
async fn carry(
    sink: &mut SplitSink<WebSocket, Message>,
    source: &mut SplitStream<WebSocket>,
    stream: ConsoleStream,
    traffic: &Traffic,
) -> End {
    let mut ready = json!({"ready": true});
    if stream.recording.is_some() {
        ready["recorded"] = json!(true);
    }
    let ready = ready.to_string();
    if sink.send(Message::text(ready)).await.is_err() {
        return End::ended("the client left");
    }
    let ConsoleStream { input, output, .. } = stream;
    tokio::select! {
        end = downwards(sink, output, traffic) => end,
        end = upwards(source, input, traffic) => end,
    }
}

async fn downwards(
    sink: &mut SplitSink<WebSocket, Message>,
    mut output: Box<dyn ConsoleOutput>,
    traffic: &Traffic,
) -> End {
    let mut pings = tokio::time::interval(PING);
    loop {
        let message = tokio::select! {
            next = output.next() => match next {
                Ok(bytes) => {
                    traffic.count(&traffic.down, bytes.len());
                    Message::Binary(bytes)
                }
                Err(ended) => return of_stream(ended),
            },
            _ = pings.tick() => Message::Ping(Bytes::new()),
        };
        if sink.send(message).await.is_err() {
            return End::ended("the client left");
        }
    }
}

async fn upwards(
    source: &mut SplitStream<WebSocket>,
    mut input: Box<dyn ConsoleInput>,
    traffic: &Traffic,
) -> End {
    while let Some(message) = source.next().await {
        match message {
            Ok(Message::Binary(bytes)) => {
                traffic.count(&traffic.up, bytes.len());
                if let Err(ended) = input.write(bytes).await {
                    return of_stream(ended);
                }
            }
            Ok(Message::Text(text)) => match serde_json::from_str(&text) {
                Ok(Control {
                    resize: Resize { cols, rows },
                }) => input.resize(size(cols, rows)).await,
                Err(_) => return End::failed("a text message was not understood"),
            },
            Ok(Message::Ping(_) | Message::Pong(_)) => {}
            Ok(Message::Close(_)) => break,
            Err(error) => {
                tracing::debug!(%error, "a console's client broke off");
                return End::failed("the client's messages cannot be read");
            }
        }
    }
    End::ended("the client left")
}

fn of_stream(ended: ConsoleEnded) -> End {
    match ended {
        ConsoleEnded::Exited(status) => {
            End::ended(format!("ended with status {status}")).because(Cause::Exited(status))
        }
        ConsoleEnded::Killed(signal) => {
            End::ended(format!("ended by signal {signal}")).because(Cause::Killed(signal))
        }
        ConsoleEnded::Closed => End::unexplained(),
        ConsoleEnded::Lost(why) => End::lost(&why),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn who_does_something_is_not_idle() {
        let traffic = Traffic::new();
        let most = Duration::from_secs(60);
        let start = Instant::now();
        tokio::join!(traffic.idle(most), async {
            tokio::time::sleep(Duration::from_secs(50)).await;
            traffic.count(&traffic.up, 1);
        });
        assert_eq!(start.elapsed(), Duration::from_secs(110));
        assert_eq!(traffic.totals(), (1, 0));
    }
}
