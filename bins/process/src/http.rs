//! An axum router on a socket, until a token ends it.

use std::{io::Cursor, net::SocketAddr, sync::Arc, time::Duration};

use anyhow::Context as _;
use axum::{
    Extension, Router,
    extract::{ConnectInfo, Request},
    http::Extensions,
    middleware::{Next, from_fn},
    response::Response,
};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto,
    service::TowerToHyperService,
};
use socket2::SockRef;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite},
    net::TcpListener,
};
use tokio_io_timeout::TimeoutWriter;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    guests::{Guests, Pass},
    places::{Place, Places},
};

/// How long requests that are under way get after the end was asked for.
const GRACE: Duration = Duration::from_secs(1);
/// How long a client may take until it is known which HTTP it speaks, for the head of a
/// request, and for the answer to an HTTP/2 ping. Who takes longer holds a connection for
/// nothing.
const HEAD_TIMEOUT: Duration = Duration::from_secs(15);
/// How often an HTTP/2 client is asked whether it is still there.
const PING_INTERVAL: Duration = Duration::from_secs(30);
/// How long a client may take nothing of what is written to it. Whoever asks and does not
/// read holds a connection, and what is in its buffers, for nothing. A connection on which
/// there is nothing to write, as that of news when there are none, waits as long as it likes.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);
/// How many connections may wait to be accepted: as many as the kernel lets them, which
/// caps this at `net.core.somaxconn`. By default it is 128, which a burst fills, and
/// whoever comes next waits for retransmissions, a second or more.
const BACKLOG: i32 = 65_535;
/// What HTTP/2 begins with (RFC 9113 §3.4).
const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Connections at a time; for further ones some make room ([`Guests`]).
const MAX_CONNECTIONS: usize = 4096;
/// Of these, connections that speak HTTP/2, and how many of them one address may have: each
/// can hold as much as [`MAX_STREAMS`] heads and [`CONNECTION_WINDOW`] that no handler has
/// asked for, which is 0.8 MiB, beside the tasks of its requests.
const MAX_HTTP2: usize = 64;
const HTTP2_PER_ADDRESS: usize = 16;
/// Requests at a time over one HTTP/2 connection.
const MAX_STREAMS: u32 = 32;
/// Bytes of a body that are taken in before a handler asks for them, in one stream and in
/// all streams of a connection.
const STREAM_WINDOW: u32 = 64 * 1024;
const CONNECTION_WINDOW: u32 = 256 * 1024;
/// Bytes of an answer that wait in one stream for a client that reads slowly.
const SEND_BUFFER: usize = 64 * 1024;
/// Bytes of a request's head. Also what a connection of HTTP/1.1 reads ahead.
const MAX_HEAD: u16 = 16 * 1024;
/// Streams that a client has opened and reset, and those that it was refused, of which a
/// connection still knows; with more it is closed.
const MAX_RESETS: usize = 32;
/// Pause after a connection could not be accepted, as when descriptors run out.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Tells of an answer whether it is one to somebody who has shown a session or a token.
pub type KnownBy = fn(&Extensions) -> bool;

/// Whom a server serves how.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Serving {
    /// Connections at a time from one address (IPv6: from one /64); further ones are
    /// closed. For where addresses are the clients' own.
    pub per_address: Option<usize>,
    /// Connections at a time. For further ones those make room that have not shown whose
    /// they are, the oldest first; a quarter is for those that have.
    pub connections: usize,
    /// Tells by the extensions of an answer whether its request has shown whose it is.
    /// Without it nobody has.
    pub known_by: Option<KnownBy>,
    /// Whether HTTP/2 is spoken (in the clear, by who knows that it is). What begins to
    /// speak it otherwise is closed.
    pub http2: bool,
}

impl Default for Serving {
    fn default() -> Self {
        Self {
            per_address: None,
            connections: MAX_CONNECTIONS,
            known_by: None,
            http2: true,
        }
    }
}

impl Serving {
    /// With so many connections from one address.
    #[must_use]
    pub fn per_address(self, per_address: Option<usize>) -> Self {
        Self {
            per_address,
            ..self
        }
    }

    /// With so many connections at a time (4096).
    #[must_use]
    pub fn connections(self, connections: usize) -> Self {
        Self {
            connections,
            ..self
        }
    }

    /// With places for those of whose answers this says that they are to somebody known.
    #[must_use]
    pub fn known_by(self, known_by: KnownBy) -> Self {
        Self {
            known_by: Some(known_by),
            ..self
        }
    }

    /// With or without HTTP/2.
    #[must_use]
    pub fn http2(self, http2: bool) -> Self {
        Self { http2, ..self }
    }

    /// The places of connections that speak HTTP/2.
    fn http2_places(self) -> Places {
        let per_address = self.per_address.map(|most| most.min(HTTP2_PER_ADDRESS));
        Places::new(if self.http2 { MAX_HTTP2 } else { 0 }, per_address)
    }
}

/// Serves `router` on `listener` until `shutdown`, then lets the requests that
/// are under way finish for a moment. Handlers get the client's address as
/// `ConnectInfo<SocketAddr>`.
///
/// # Errors
/// The listener cannot be served any more.
pub async fn serve_http(
    listener: TcpListener,
    router: Router,
    shutdown: CancellationToken,
) -> anyhow::Result<()> {
    serve(listener, router, Serving::default(), shutdown).await
}

async fn serve(
    listener: TcpListener,
    router: Router,
    serving: Serving,
    shutdown: CancellationToken,
) -> anyhow::Result<()> {
    listener
        .local_addr()
        .context("the socket is not listening")?;
    // Listening again changes the backlog and nothing else.
    SockRef::from(&listener)
        .listen(BACKLOG)
        .context("the socket takes no longer backlog")?;
    let router = match serving.known_by {
        Some(known_by) => router.layer(from_fn(move |request: Request, next: Next| {
            keep_place(known_by, request, next)
        })),
        None => router,
    };
    let guests = Guests::new(serving.connections, serving.known_by.is_some());
    let places = Places::new(serving.connections, serving.per_address);
    let http2 = Arc::new(serving.http2_places());
    let connections = TaskTracker::new();
    loop {
        let accepted = tokio::select! {
            () = shutdown.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, peer)) => {
                // Nobody makes room for who is not served.
                if !places.has_room(peer.ip()) {
                    tracing::debug!(%peer, "the address has as many connections as it may");
                    continue;
                }
                let guest = guests.come();
                // Who was asked to go is gone in a moment.
                let place = tokio::select! {
                    () = shutdown.cancelled() => break,
                    place = places.one() => place,
                };
                let Some(place) = place.and_then(|place| places.give(place, peer.ip())) else {
                    continue;
                };
                let http2 = Arc::clone(&http2);
                let about = (Extension(ConnectInfo(peer)), Extension(guest.pass()));
                let router = router.clone().layer(about);
                let serving = serve_connection(stream, peer, router, http2, shutdown.clone());
                connections.spawn(async move {
                    tokio::select! {
                        () = serving => {}
                        () = guest.is_to_go() => {
                            tracing::debug!(%peer, "a connection makes room for another");
                        }
                    }
                    drop((guest, place));
                });
            }
            Err(error) => {
                tracing::warn!(%error, "a connection cannot be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    connections.close();
    // What is not over by then is cut: the end must not wait for anybody.
    let _ = tokio::time::timeout(GRACE, connections.wait()).await;
    Ok(())
}

/// Serves a request, and has its connection keep its place if it has shown whose it is.
async fn keep_place(known_by: KnownBy, request: Request, next: Next) -> Response {
    let pass = request.extensions().get::<Pass>().cloned();
    let answer = next.run(request).await;
    if let Some(pass) = pass.filter(|_| known_by(answer.extensions())) {
        pass.show();
    }
    answer
}

/// As [`serve_http`], beside what lets those go who stay: `drain` runs once
/// `shutdown` is there, and both have ended when this returns.
///
/// # Errors
/// The listener cannot be served any more.
pub async fn serve_and_drain(
    listener: TcpListener,
    router: Router,
    serving: Serving,
    shutdown: CancellationToken,
    drain: impl Future<Output = ()>,
) -> anyhow::Result<()> {
    let draining = async {
        shutdown.cancelled().await;
        drain.await;
        Ok(())
    };
    tokio::try_join!(serve(listener, router, serving, shutdown.clone()), draining)?;
    Ok(())
}

/// Reads until a client has said so much that hyper knows which HTTP it speaks, for which
/// hyper itself would wait for ever: whether it is HTTP/2, and what was read. `None`: it has
/// not, or is gone.
async fn begun(stream: &mut (impl AsyncRead + Unpin)) -> Option<(bool, Vec<u8>)> {
    let reading = async {
        let mut seen = Vec::with_capacity(PREFACE.len());
        while PREFACE.starts_with(&seen) {
            let rest = PREFACE.len() - seen.len();
            if rest == 0 {
                return Some((true, seen));
            }
            let mut rest = (&mut *stream).take(rest as u64);
            let read = rest.read_buf(&mut seen).await.ok();
            read.filter(|it| *it > 0)?;
        }
        Some((false, seen))
    };
    tokio::time::timeout(HEAD_TIMEOUT, reading).await.ok()?
}

async fn serve_connection<S>(
    mut stream: S,
    peer: SocketAddr,
    router: Router,
    http2: Arc<Places>,
    shutdown: CancellationToken,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let begun = tokio::select! {
        begun = begun(&mut stream) => begun,
        () = shutdown.cancelled() => None,
    };
    let Some((is_http2, seen)) = begun else {
        return;
    };
    let _place: Option<Place> = if is_http2 {
        let Some(place) = http2.free(peer.ip()) else {
            tracing::debug!(%peer, "no further connection of HTTP/2 is served");
            return;
        };
        Some(place)
    } else {
        None
    };
    let (reader, writer) = tokio::io::split(stream);
    let stream = tokio::io::join(Cursor::new(seen).chain(reader), writer);
    let service = TowerToHyperService::new(router);
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(MAX_HEAD.into());
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(HEAD_TIMEOUT)
        .max_concurrent_streams(MAX_STREAMS)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_send_buf_size(SEND_BUFFER)
        .max_header_list_size(MAX_HEAD.into())
        .max_pending_accept_reset_streams(MAX_RESETS)
        .max_local_error_reset_streams(MAX_RESETS);
    // Goes with the stream when it is upgraded: WebSockets are under the same limit.
    let mut stream = TimeoutWriter::new(stream);
    stream.set_timeout(Some(WRITE_TIMEOUT));
    let stream = TokioIo::new(Box::pin(stream));
    let connection = builder.serve_connection_with_upgrades(stream, service);
    tokio::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = shutdown.cancelled() => {
            connection.as_mut().graceful_shutdown();
            tokio::select! {
                ended = connection.as_mut() => ended,
                () = tokio::time::sleep(GRACE) => Ok(()),
            }
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%peer, %error, "connection ended");
    }
}

#[cfg(test)]
mod tests {
    use axum::{
        body::{Body, Bytes},
        extract::{Request, ws},
        routing::{any, get},
    };
    use tokio::{
        io::{AsyncWriteExt as _, DuplexStream},
        net::TcpStream,
        sync::mpsc,
    };

    use super::*;

    /// An empty SETTINGS frame of HTTP/2.
    const SETTINGS: [u8; 9] = [0, 0, 0, 4, 0, 0, 0, 0, 0];

    /// A client of `router`, with nothing but memory between them: a clock that goes on
    /// when all wait would run ahead of what a kernel carries.
    fn client_of(router: Router) -> DuplexStream {
        let (client, server) = tokio::io::duplex(64 << 10);
        let peer = SocketAddr::from(([192, 0, 2, 1], 1024));
        let http2 = Arc::new(Places::new(MAX_HTTP2, Some(HTTP2_PER_ADDRESS)));
        let stop = CancellationToken::new();
        tokio::spawn(serve_connection(server, peer, router, http2, stop));
        client
    }

    // The clock stands still but when there is nothing else to wait for.
    #[tokio::test(start_paused = true)]
    async fn whoever_says_nothing_holds_no_connection() {
        let preface = [&PREFACE[..], &SETTINGS].concat();
        for said in [
            &b""[..],
            b"P",
            b"PRI * HT",
            b"GET / HTTP/1.1\r\nHo",
            &preface,
        ] {
            let mut client = client_of(Router::new());
            client.write_all(said).await.unwrap();
            let began = tokio::time::Instant::now();
            let mut rest = Vec::new();
            let text = String::from_utf8_lossy(said);
            let ended = client.read_to_end(&mut rest);
            let longest = PING_INTERVAL + 2 * HEAD_TIMEOUT;
            let ended = tokio::time::timeout(longest, ended).await;
            assert!(ended.is_ok(), "{text:?} is there for ever");
            assert!(began.elapsed() >= HEAD_TIMEOUT, "{text:?} was cut off");
        }
    }

    /// More than fits into the buffers of a connection.
    const MUCH: usize = 64 << 20;

    /// Serves what is much, and a WebSocket that sends without end and tells when it ended.
    fn much() -> (Router, mpsc::Receiver<()>) {
        let (ended, ends) = mpsc::channel(1);
        let socket = any(async move |upgrade: ws::WebSocketUpgrade| {
            upgrade.on_upgrade(async move |mut socket: ws::WebSocket| {
                let message = ws::Message::Binary(Bytes::from(vec![0; 1 << 16]));
                while socket.send(message.clone()).await.is_ok() {}
                let _ = ended.send(()).await;
            })
        });
        let router = Router::new()
            .route("/much", get(async || vec![0; MUCH]))
            .route("/socket", socket);
        (router, ends)
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_does_not_read_holds_no_connection() {
        let (router, mut ends) = much();
        let mut client = client_of(router.clone());
        // Ten requests at once: what is answered to the first is not read.
        let asked = b"GET /much HTTP/1.1\r\nHost: a\r\n\r\n".repeat(10);
        client.write_all(&asked).await.unwrap();
        tokio::time::sleep(2 * WRITE_TIMEOUT).await;
        let mut rest = Vec::new();
        let _ = client.read_to_end(&mut rest).await;
        assert!(rest.starts_with(b"HTTP/1.1 200"), "{}", rest.len());
        assert!(rest.len() < MUCH, "all of it is there: {}", rest.len());

        let mut client = client_of(router);
        let handshake = "GET /socket HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\n\
                         Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                         Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n";
        client.write_all(handshake.as_bytes()).await.unwrap();
        let ended = tokio::time::timeout(2 * WRITE_TIMEOUT, ends.recv()).await;
        assert_eq!(ended, Ok(Some(())), "the WebSocket is there for ever");
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_reads_slowly_or_waits_for_news_stays() {
        let (router, _ends) = much();
        let mut client = client_of(router);
        let asked = b"GET /much HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
        client.write_all(asked).await.unwrap();
        let mut piece = vec![0; MUCH / 8];
        let mut length = 0;
        loop {
            tokio::time::sleep(WRITE_TIMEOUT / 2).await;
            match client.read_exact(&mut piece).await {
                Ok(read) => length += read,
                Err(_) => break,
            }
        }
        assert!(length >= MUCH, "was cut off after {length}");

        let news = get(async |_: Request| {
            Body::from_stream(futures::stream::unfold(0, async |count| {
                tokio::time::sleep(10 * WRITE_TIMEOUT).await;
                let news = Ok::<_, std::io::Error>(Bytes::from("news\n"));
                (count < 2).then_some((news, count + 1))
            }))
        });
        let mut client = client_of(Router::new().route("/", news));
        let asked = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
        client.write_all(asked).await.unwrap();
        let mut told = String::new();
        client.read_to_string(&mut told).await.unwrap();
        assert_eq!(told.matches("news").count(), 2, "{told}");
    }

    #[tokio::test]
    async fn one_address_has_so_many_connections_at_a_time() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let stop = CancellationToken::new();
        let router = Router::new().route("/", get(async || "here"));
        let drain = std::future::ready(());
        let serving = serve_and_drain(
            listener,
            router,
            Serving::default().per_address(Some(1)),
            stop.clone(),
            drain,
        );
        let serving = tokio::spawn(serving);
        let asked = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
        let ask = async |client: &mut TcpStream| {
            client.write_all(asked).await?;
            let mut answer = [0; 8];
            client.read_exact(&mut answer).await
        };
        let mut first = TcpStream::connect(address).await.unwrap();
        ask(&mut first).await.unwrap();
        let mut second = TcpStream::connect(address).await.unwrap();
        assert!(ask(&mut second).await.is_err(), "is served as well");
        ask(&mut first).await.unwrap();
        drop(first);
        // Until it is seen that the first is gone.
        while {
            let mut third = TcpStream::connect(address).await.unwrap();
            ask(&mut third).await.is_err()
        } {}
        stop.cancel();
        serving.await.unwrap().unwrap();
    }

    // As docs/api.md says: it is hyper that answers these, and nothing shapes them.
    #[tokio::test]
    async fn what_is_no_request_is_answered_by_a_status_alone() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let stop = CancellationToken::new();
        tokio::spawn(serve_http(listener, Router::new(), stop.clone()));
        let path = format!("GET /{} HTTP/1.1\r\n\r\n", "a".repeat(70_000));
        let headers = format!("GET / HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(200));
        let lengths = "POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab";
        for (said, status) in [
            ("what is this\r\n\r\n", "400"),
            (lengths, "400"),
            (path.as_str(), "431"),
            (headers.as_str(), "431"),
        ] {
            let mut client = TcpStream::connect(address).await.unwrap();
            client.write_all(said.as_bytes()).await.unwrap();
            let mut answer = String::new();
            client.read_to_string(&mut answer).await.unwrap();
            let (head, body) = answer.split_once("\r\n\r\n").unwrap();
            assert!(head.starts_with(&format!("HTTP/1.1 {status}")), "{head}");
            assert_eq!(body, "", "{status}");
        }
        stop.cancel();
    }

    /// Whether a connection that begins to speak HTTP/2 is answered in it.
    async fn speaks_http2(address: SocketAddr) -> (bool, TcpStream) {
        let mut client = TcpStream::connect(address).await.unwrap();
        let mut frame = [0; 9];
        let said = client.write_all(&[&PREFACE[..], &SETTINGS].concat()).await;
        let read = client.read_exact(&mut frame).await;
        (
            said.is_ok() && read.is_ok() && frame[3] == SETTINGS[3],
            client,
        )
    }

    #[tokio::test]
    async fn http2_has_few_places_and_is_switched_off() {
        let begin = async |serving: Serving| {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let stop = CancellationToken::new();
            let router = Router::new().route("/", get(async || "here"));
            let drain = std::future::ready(());
            tokio::spawn(serve_and_drain(
                listener,
                router,
                serving,
                stop.clone(),
                drain,
            ));
            (address, stop)
        };
        let answers = async |address| {
            let mut client = TcpStream::connect(address).await.unwrap();
            let asked = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
            client.write_all(asked).await.unwrap();
            let mut answer = String::new();
            client.read_to_string(&mut answer).await.unwrap();
            answer.ends_with("here")
        };

        let (address, stop) = begin(Serving::default().http2(false)).await;
        assert!(!speaks_http2(address).await.0);
        assert!(answers(address).await);
        stop.cancel();

        for (per_address, most) in [(Some(512), HTTP2_PER_ADDRESS), (None, MAX_HTTP2)] {
            let (address, stop) = begin(Serving::default().per_address(per_address)).await;
            let mut kept = Vec::new();
            for _ in 0..most {
                let (speaks, client) = speaks_http2(address).await;
                assert!(speaks, "{} of {most}", kept.len());
                kept.push(client);
            }
            assert!(!speaks_http2(address).await.0, "one more than {most}");
            assert!(answers(address).await, "HTTP/1.1 beside them");
            kept.pop();
            // Until it is seen that one is gone.
            while !speaks_http2(address).await.0 {}
            stop.cancel();
        }
    }

    /// What a server tells of its bounds is what it keeps; h2 itself holds clients to it.
    #[tokio::test]
    async fn http2_begins_with_small_windows() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let stop = CancellationToken::new();
        tokio::spawn(serve_http(listener, Router::new(), stop.clone()));
        let mut client = TcpStream::connect(address).await.unwrap();
        let hello = [&PREFACE[..], &SETTINGS].concat();
        client.write_all(&hello).await.unwrap();
        let mut head = [0; 9];
        client.read_exact(&mut head).await.unwrap();
        assert_eq!(head[3], SETTINGS[3]);
        let length = (usize::from(head[1]) << 8) | usize::from(head[2]);
        let mut settings = vec![0; length];
        client.read_exact(&mut settings).await.unwrap();
        let settings: Vec<(u16, u32)> = settings
            .chunks_exact(6)
            .map(|it| {
                let id = u16::from_be_bytes([it[0], it[1]]);
                (id, u32::from_be_bytes([it[2], it[3], it[4], it[5]]))
            })
            .collect();
        // RFC 9113 §6.5.2: streams, window of a stream, size of a head.
        for (id, value) in [(3, 32), (4, 64 * 1024), (6, 16 * 1024)] {
            assert!(settings.contains(&(id, value)), "{id}: {settings:?}");
        }
        stop.cancel();
    }

    /// On this test's one thread, the server accepts only while the test waits.
    #[tokio::test]
    async fn a_burst_of_connections_waits_for_the_server() {
        const BURST: usize = 600;
        let allowed = std::fs::read_to_string("/proc/sys/net/core/somaxconn").unwrap();
        if allowed.trim().parse::<usize>().unwrap() < BURST {
            eprintln!("skipped: net.core.somaxconn is {allowed}, below {BURST}");
            return;
        }
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let stop = CancellationToken::new();
        let serving = tokio::spawn(serve_http(listener, Router::new(), stop.clone()));
        tokio::task::yield_now().await;

        let patience = Duration::from_millis(900);
        let taken: Vec<_> = (0..BURST)
            .map(|turn| {
                std::net::TcpStream::connect_timeout(&address, patience)
                    .unwrap_or_else(|error| panic!("connection {turn}: {error}"))
            })
            .collect();
        assert_eq!(taken.len(), BURST);
        drop(taken);
        stop.cancel();
        serving.await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn a_request_is_answered_and_a_half_sent_one_does_not_hold_up_the_end() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().route(
            "/",
            get(async |ConnectInfo(peer): ConnectInfo<SocketAddr>| peer.to_string()),
        );
        let stop = CancellationToken::new();
        let serving = tokio::spawn(serve_http(listener, router, stop.clone()));

        let mut whole = TcpStream::connect(address).await.unwrap();
        let request = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
        whole.write_all(request).await.unwrap();
        let mut answer = String::new();
        whole.read_to_string(&mut answer).await.unwrap();
        let own = whole.local_addr().unwrap().to_string();
        assert!(
            answer.starts_with("HTTP/1.1 200") && answer.ends_with(&own),
            "{answer}"
        );

        // A preface that comes in two pieces is one.
        let mut later = TcpStream::connect(address).await.unwrap();
        later.set_nodelay(true).unwrap();
        later.write_all(&PREFACE[..8]).await.unwrap();
        tokio::time::sleep(Duration::from_millis(100)).await;
        later.write_all(&PREFACE[8..]).await.unwrap();
        later.write_all(&SETTINGS).await.unwrap();
        let mut frame = [0; 9];
        later.read_exact(&mut frame).await.unwrap();
        assert_eq!(frame[3], SETTINGS[3], "its SETTINGS: {frame:?}");

        let mut half = TcpStream::connect(address).await.unwrap();
        half.write_all(b"GET / HTTP/1.1\r\nHo").await.unwrap();
        stop.cancel();
        let ended = tokio::time::timeout(Duration::from_secs(30), serving).await;
        ended.unwrap().unwrap().unwrap();
    }
}
