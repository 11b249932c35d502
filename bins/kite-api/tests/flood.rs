//! Who asks for much holds no more of the server's memory than it gives, and somebody who
//! is signed in is answered beside it.
//!
//! What is measured is the process's resident memory, so the clients of the flood are in
//! another one.

#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr)]

use std::{convert::Infallible, fs, net::SocketAddr, process::Stdio, time::Duration};

use bytes::Bytes;
use futures::{StreamExt as _, stream};
use http::Request;
use http_body_util::{BodyExt, StreamBody, combinators::BoxBody};
use hyper::{body::Frame, client::conn::http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use kite_api::{ApiState, router};
use kite_core::{
    cluster::{Cluster as _, KubeCluster},
    crd::{self, KiteUser, KiteUserSpec},
    password::PasswordHash,
};
use kite_fake::{FakeCluster, actors::kubevirt_definitions};
use kite_process::Serving;
use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::{TcpListener, TcpStream},
    process::Command,
};
use tokio_util::sync::CancellationToken;

/// For bodies, and for streams.
const BUDGET: usize = 8 << 20;
/// What a connection of HTTP/1.1 may hold beside it: its buffers, the head, its task.
const OF_HTTP1: usize = 64 * 1024;
/// What one of HTTP/2 may, as `kite_process` says: the window of its bodies, and what as
/// many requests are made of as there may be.
const OF_HTTP2: usize = 800 * 1024;
/// What the flood says once it has begun.
const BEGUN: &str = "the flood has begun";
const HTTP1: usize = 200;
/// More than are served at a time.
const HTTP2: usize = 80;
const HTTP2_SERVED: usize = 64;
/// More than a connection may have at a time.
const STREAMS: usize = 40;
/// What a body is of, which never ends.
const BODY: usize = 250_000;
const PASSWORD: &str = "correct horse battery";

fn resident() -> usize {
    let text = fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find(|it| it.starts_with("VmRSS:")).unwrap();
    let kilobytes = line.split_whitespace().nth(1).unwrap();
    kilobytes.parse::<usize>().unwrap() * 1024
}

/// A server over a cluster in memory with one account.
async fn serve() -> (SocketAddr, CancellationToken) {
    let fake = FakeCluster::builder()
        .crds(crd::all())
        .crds(kubevirt_definitions())
        .build()
        .unwrap();
    let cluster = KubeCluster::new(fake.client());
    let spec = KiteUserSpec {
        password_hash: Some(PasswordHash::create(PASSWORD).unwrap()),
        ..KiteUserSpec::new("ann")
    };
    cluster.create(&KiteUser::new("ann", spec)).await.unwrap();
    let state = ApiState::builder(fake.client())
        .body_memory(BUDGET)
        .stream_memory(BUDGET)
        .build()
        .await
        .unwrap();
    state.synced().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let stop = CancellationToken::new();
    let serving = kite_process::serve_and_drain(
        listener,
        router(state),
        Serving::default(),
        stop.clone(),
        std::future::ready(()),
    );
    tokio::spawn(async move {
        let _fake = fake;
        serving.await
    });
    (address, stop)
}

/// A request by HTTP/1.1 on a connection of its own: the status, and the body.
async fn ask(address: SocketAddr, head: &str, body: &str) -> (u16, Value) {
    let mut client = TcpStream::connect(address).await.unwrap();
    let asked = format!(
        "{head}\r\nHost: a\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    client.write_all(asked.as_bytes()).await.unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).await.unwrap();
    let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    (status, serde_json::from_str(body).unwrap_or_default())
}

/// Says something, and then neither says nor reads anything more.
async fn begin(address: SocketAddr, said: Vec<u8>) -> TcpStream {
    let mut client = TcpStream::connect(address).await.unwrap();
    // It may be refused before all of it is said.
    let saying = client.write_all(&said);
    let _ = tokio::time::timeout(Duration::from_secs(2), saying).await;
    client
}

/// A body that is as good as whole, and never ends.
fn unfinished() -> BoxBody<Bytes, Infallible> {
    static PIECE: [u8; 10_000] = [b' '; 10_000];
    let pieces =
        stream::iter(0..BODY / PIECE.len()).map(|_| Ok(Frame::data(Bytes::from_static(&PIECE))));
    BodyExt::boxed(StreamBody::new(pieces.chain(stream::pending())))
}

/// As many streams as there can be, each with such a body. `false`: it is not served.
async fn over_http2(address: SocketAddr, token: &'static str) -> bool {
    let stream = TcpStream::connect(address).await.unwrap();
    let Ok((sender, connection)) =
        http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await
    else {
        return false;
    };
    tokio::spawn(connection);
    for n in 0..STREAMS {
        let path = ["auth/sign-in", "auth/sign-up", "vms"][n % 3];
        let request = Request::post(format!("http://a/api/v1/{path}"))
            .header("content-type", "application/json")
            .header("authorization", format!("Bearer {token}"))
            .body(unfinished())
            .unwrap();
        let mut sender = sender.clone();
        // What is refused is tried again, for as long as the test lasts.
        tokio::spawn(async move {
            while sender.ready().await.is_ok() {
                let _ = sender.send_request(request_like(&request)).await;
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        });
    }
    true
}

fn request_like(
    request: &Request<BoxBody<Bytes, Infallible>>,
) -> Request<BoxBody<Bytes, Infallible>> {
    let mut like = Request::post(request.uri().clone())
        .body(unfinished())
        .unwrap();
    *like.headers_mut() = request.headers().clone();
    like
}

/// The flood, where it is started with whom to flood.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "is started by the other test"]
async fn flood() {
    let Ok(told) = std::env::var("KITE_TEST_FLOOD") else {
        return;
    };
    let (address, token) = told.split_once(' ').unwrap();
    let address: SocketAddr = address.parse().unwrap();
    let mut kept = Vec::new();
    for n in 0..HTTP1 {
        let said = match n % 4 {
            // A body that does not say how long it is.
            0 | 1 => {
                let head = "POST /api/v1/auth/sign-in HTTP/1.1\r\nHost: a\r\n\
                            Content-Type: application/json\r\n\
                            Transfer-Encoding: chunked\r\n\r\n";
                let size = if n % 4 == 0 { BODY } else { 4000 };
                let chunk = format!("{size:x}\r\n{}", " ".repeat(size));
                format!("{head}{chunk}")
            }
            // One that does.
            2 => format!(
                "POST /api/v1/auth/sign-up HTTP/1.1\r\nHost: a\r\n\
                 Content-Type: application/json\r\nContent-Length: {BODY}\r\n\r\n{}",
                " ".repeat(BODY - 1)
            ),
            // A head that does not end.
            _ => format!("GET / HTTP/1.1\r\nHost: a\r\nA: {}", "b".repeat(BODY)),
        };
        kept.push(begin(address, said.into_bytes()).await);
    }
    // News that nobody reads, and the first message of a console, but for its end.
    for n in 0..32 {
        let said = if n % 2 == 0 {
            format!(
                "GET /api/v1/events HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {token}\r\n\r\n"
            )
            .into_bytes()
        } else {
            let head = format!(
                "GET /api/v1/console HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {token}\r\n\
                 Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                 Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
            );
            let length = u64::try_from(BODY).unwrap().to_be_bytes();
            let blank = vec![b' '; BODY - 1];
            let frame = [&[0x81, 0xff][..], &length, &[0; 4], &blank].concat();
            [head.into_bytes(), frame].concat()
        };
        kept.push(begin(address, said).await);
    }
    let http2 = (0..HTTP2).map(|_| over_http2(address, "kite_nonsense"));
    let begun = futures::future::join_all(http2).await;
    assert!(begun.iter().any(|begun| *begun));

    println!("{BEGUN}");
    // Until it is killed.
    std::future::pending::<()>().await;
    drop(kept);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_takes_no_more_memory_than_there_is_for_it() {
    let (address, stop) = serve().await;
    let sign_in = format!(r#"{{"username":"ann","password":"{PASSWORD}"}}"#);
    let (status, answer) = ask(address, "POST /api/v1/auth/sign-in HTTP/1.1", &sign_in).await;
    assert_eq!(status, 200, "{answer}");
    let token = answer["token"].as_str().unwrap().to_owned();
    let get_me = format!("GET /api/v1/me HTTP/1.1\r\nAuthorization: Bearer {token}");
    let edit_me = format!("PATCH /api/v1/me HTTP/1.1\r\nAuthorization: Bearer {token}");
    let email = r#"{"email":"ann@example.org"}"#;
    let is_answered = async || {
        let (status, answer) = ask(address, &get_me, "").await;
        assert_eq!(status, 200, "{answer}");
        let (status, answer) = ask(address, &edit_me, email).await;
        assert_eq!(status, 200, "{answer}");
    };
    is_answered().await;
    let before = resident();

    let mut flood = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "flood", "--ignored", "--nocapture"])
        .env("KITE_TEST_FLOOD", format!("{address} {token}"))
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(flood.stdout.take().unwrap()).lines();
    while let Some(line) = lines.next_line().await.unwrap() {
        if line.contains(BEGUN) {
            break;
        }
    }
    assert!(flood.try_wait().unwrap().is_none(), "the flood has ended");

    let bound = BUDGET + BUDGET + (HTTP1 + 32) * OF_HTTP1 + HTTP2_SERVED * OF_HTTP2;
    let mut most = 0;
    for _ in 0..20 {
        is_answered().await;
        most = most.max(resident().saturating_sub(before));
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    eprintln!("grew by {} MiB of {}", most >> 20, bound >> 20);
    assert!(most < bound, "{} MiB of {}", most >> 20, bound >> 20);
    flood.kill().await.unwrap();
    stop.cancel();
}
