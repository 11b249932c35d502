//! Who asks for much holds no more of the server's memory than it gives; somebody who is
//! signed in is answered beside it, and others sign in.
//!
//! What is measured is the process's resident memory, so the clients of the flood are in
//! another one.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::print_stderr
)]

mod floods;

use std::{convert::Infallible, net::SocketAddr, time::Duration};

use bytes::Bytes;
use futures::{StreamExt as _, stream};
use http::Request;
use http_body_util::{BodyExt, StreamBody, combinators::BoxBody};
use hyper::{body::Frame, client::conn::http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::{io::AsyncWriteExt as _, net::TcpStream};

use self::floods::{
    OF_HTTP1, Stage, ask_for_console, ask_for_news, assert_not_slowed, begun_frame, go_on,
    median_of, resident, start_flood, whom,
};

/// For bodies, and for streams.
const BUDGET: usize = 8 << 20;
/// What one of HTTP/2 may: the window of its bodies, and as many requests as
/// `kite_process` serves at a time.
const OF_HTTP2: usize = 256 * 1024 + 32 * OF_REQUEST;
/// What a request is made of without its body: its head, and the task that waits for the
/// rest. That takes up to 27 KiB without optimisation, which was measured with bodies of
/// ten bytes.
const OF_REQUEST: usize = 32 * 1024;
const HTTP1: usize = 200;
/// More than are served at a time.
const HTTP2: usize = 80;
const HTTP2_SERVED: usize = 64;
/// More than a connection may have at a time.
const STREAMS: usize = 40;
/// What a body is of, which never ends.
const BODY: usize = 250_000;

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
    let Some((address, token)) = whom() else {
        return;
    };
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
            ask_for_news(&token)
        } else {
            let blank = vec![b' '; BODY - 1];
            [ask_for_console(&token), begun_frame(0x81, BODY), blank].concat()
        };
        kept.push(begin(address, said).await);
    }
    let http2 = (0..HTTP2).map(|_| over_http2(address, "kite_nonsense"));
    let begun = futures::future::join_all(http2).await;
    assert!(begun.iter().any(|begun| *begun));

    go_on(kept).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_takes_no_more_memory_than_there_is_for_it() {
    let stage = Stage::new(|builder| builder.body_memory(BUDGET).stream_memory(BUDGET)).await;
    let ann = stage.sign_in("ann").await;
    stage.answers(&ann).await;
    let quiet_in = stage.quiet_sign_in().await;
    let quiet = stage.quiet_answer(&ann).await;
    let before = resident();

    let mut flood = start_flood(stage.address, &ann).await;
    let bound = BUDGET + BUDGET + (HTTP1 + 32) * OF_HTTP1 + HTTP2_SERVED * OF_HTTP2;
    let mut most = 0;
    let beside = median_of(20, async || {
        stage.answers(&ann).await;
        most = most.max(resident().saturating_sub(before));
    })
    .await;
    let beside_in = median_of(5, async || {
        stage.sign_in_at_last("bob").await;
        most = most.max(resident().saturating_sub(before));
    })
    .await;
    for _ in 0..10 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        most = most.max(resident().saturating_sub(before));
    }
    eprintln!("grew by {} MiB of {}", most >> 20, bound >> 20);
    assert!(most < bound, "{} MiB of {}", most >> 20, bound >> 20);
    flood.kill().await.unwrap();
    let quiet_in = [quiet_in, stage.quiet_sign_in().await];
    let quiet = [quiet, stage.quiet_answer(&ann).await];
    // The flood has the processors, too: it is as large as the machine lets it be.
    let (answer, login) = (Duration::from_millis(20), Duration::from_millis(100));
    assert_not_slowed("an answer", beside, quiet, answer, 50);
    assert_not_slowed("a sign-in", beside_in, quiet_in, login, 50);
    stage.stop.cancel();
}
