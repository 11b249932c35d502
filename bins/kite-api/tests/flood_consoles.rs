//! Who opens many consoles, reads nothing and sends much slowly holds no more of the
//! server's memory than one account may, and others have their consoles beside it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::print_stderr
)]

mod floods;

use std::{net::SocketAddr, sync::Arc, time::Duration};

use tokio::{io::AsyncWriteExt as _, net::TcpStream};

use self::floods::{
    Endless, OF_HTTP1, Stage, begun_frame, go_on, hello, read, resident, start_flood, ticket,
    upgraded, whom,
};

/// For consoles and streams: sixteen consoles.
const BUDGET: usize = 8 << 20;
/// Sockets for which no ticket is shown, and consoles that are opened.
const SOCKETS: usize = 300;
const CONSOLES: usize = 8;
/// Bytes of a message, which is just not too large.
const MESSAGE: usize = 250_000;
/// Bytes that come at a time.
const PIECE: usize = 50_000;
/// What the rest may grow by: the cluster in memory, and what answers are made of.
const WORK: usize = 16 << 20;

/// Sends messages of this kind slowly, and reads nothing, until the socket is closed.
/// `is_whole`: whether a message ever ends.
async fn trickle(mut socket: TcpStream, first: u8, is_whole: bool) {
    let piece = vec![b' '; PIECE];
    loop {
        if socket
            .write_all(&begun_frame(first, MESSAGE))
            .await
            .is_err()
        {
            return;
        }
        for n in 1..=MESSAGE / PIECE {
            let is_last = n == MESSAGE / PIECE;
            let next = if is_last && !is_whole {
                &piece[1..]
            } else {
                &piece[..]
            };
            if socket.write_all(next).await.is_err() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        if !is_whole {
            while is_open(&socket) {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            return;
        }
    }
}

/// Whether the other side has neither closed nor reset it, as far as one sees who reads
/// nothing of what it says.
fn is_open(socket: &TcpStream) -> bool {
    // What is said before the end is little, and is read away.
    let mut said = [0; 1024];
    match socket.try_read(&mut said) {
        Ok(read) => read > 0,
        Err(error) => error.kind() == std::io::ErrorKind::WouldBlock,
    }
}

/// A socket that never shows a ticket.
async fn knock(address: SocketAddr, token: &str) {
    if let Some(socket) = upgraded(address, token).await {
        trickle(socket, 0x81, false).await;
    }
}

/// A console that is open and takes nothing, and whose client reads nothing.
async fn enter(address: SocketAddr, token: &str) {
    if let Some(mut socket) = upgraded(address, token).await
        && let Some(ticket) = ticket(address, token, "web").await
        && socket.write_all(&hello(&ticket)).await.is_ok()
    {
        trickle(socket, 0x82, true).await;
    }
}

/// The flood, where it is started with whom to flood.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "is started by the other test"]
async fn flood() {
    let Some((address, token)) = whom() else {
        return;
    };
    let token: Arc<str> = token.into();
    // What is refused or cut off comes again, for as long as the test lasts.
    let pause = Duration::from_secs(2);
    for n in 0..CONSOLES + SOCKETS {
        let token = Arc::clone(&token);
        tokio::spawn(async move {
            loop {
                if n < CONSOLES {
                    enter(address, &token).await;
                } else {
                    knock(address, &token).await;
                }
                tokio::time::sleep(pause).await;
            }
        });
        // Each has its turn to come in.
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    go_on(()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_neither_reads_nor_ends_a_message_holds_up_nobody() {
    let stage = Stage::new(|builder| builder.stream_memory(BUDGET).terminals(Endless)).await;
    let (ann, bob) = (stage.sign_in("ann").await, stage.sign_in("bob").await);
    for (owner, token) in [("ann", &ann), ("bob", &bob)] {
        stage.namespace(owner).await;
        stage.vm(owner, token, "web", Vec::new()).await;
    }
    stage.answers(&bob).await;
    let before = resident();

    let mut flood = start_flood(stage.address, &ann).await;
    let mut console = stage.terminal(&bob, "web").await;

    let bound = BUDGET + (SOCKETS + CONSOLES + 4) * OF_HTTP1 + WORK;
    let mut most = 0;
    for round in 0..20 {
        if round % 8 == 0 {
            // Another one, which he leaves again.
            drop(stage.terminal(&bob, "web").await);
        }
        read(&mut console, 64 * 1024).await;
        stage.answers(&bob).await;
        most = most.max(resident().saturating_sub(before));
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
    assert!(flood.try_wait().unwrap().is_none(), "the flood has ended");
    eprintln!("grew by {} MiB of {}", most >> 20, bound >> 20);
    assert!(most < bound, "{} MiB of {}", most >> 20, bound >> 20);
    flood.kill().await.unwrap();
    stage.stop.cancel();
}
