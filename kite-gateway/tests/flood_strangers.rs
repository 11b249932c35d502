//! Strangers who say nothing, and strangers who exchange keys again and again: what they
//! take of the gateway's memory, and how long keystrokes and logins of others take beside
//! them. Alone in its process, as it watches the whole of it; the strangers are a process
//! of their own.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)]

mod common;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use common::beside::{Bystanders, Flood, WHOM};
use common::{Bed, PATIENCE, Trusting, resident};
use futures::future::join_all;
use kite_gateway::Config;
use russh::{Preferred, client, kex};
use tokio::io::AsyncReadExt as _;
use tokio::net::{TcpSocket, TcpStream};

/// What the strangers say once they are all there.
const BEGUN: &str = "the flood has begun";
/// Addresses of the silent ones, and connections from each: more than are taken.
const ADDRESSES: u8 = 16;
const EACH: usize = 30;
/// Connections of one address that are taken.
const TAKEN_EACH: u64 = 10;
/// Strangers who exchange keys, each from one address after the other: of one only so
/// many are let in a second.
const HANDSHAKES: u8 = 16;
/// What a connection before its login may take, in KiB.
const OF_STRANGER: u64 = 256;
/// What the rest may grow by, in MiB: records of the test's, and what allocators keep.
const WORK: u64 = 32;

/// Who measures the process's memory has the process alone.
static ALONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// A connection from an address of this machine's own.
async fn from(source: [u8; 4], to: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind((source, 0).into())?;
    socket.connect(to).await
}

/// A connection that is greeted and says nothing; none where it is not taken.
async fn silent(source: [u8; 4], to: SocketAddr) -> Option<TcpStream> {
    let mut stream = from(source, to).await.ok()?;
    let mut greeting = [0; 14];
    stream.read_exact(&mut greeting).await.ok()?;
    Some(stream)
}

/// Holds a connection that says nothing, and comes again whenever it has none.
async fn stay_silent(source: [u8; 4], to: SocketAddr, mut held: Option<TcpStream>) {
    loop {
        if let Some(stream) = &mut held {
            let mut byte = [0];
            let _ = stream.read(&mut byte).await;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        held = silent(source, to).await;
    }
}

/// One exchange of keys; the gateway is asked for the one that costs most.
async fn handshake(source: [u8; 4], to: SocketAddr) -> bool {
    let config = Arc::new(client::Config {
        preferred: Preferred {
            kex: [kex::DH_G18_SHA512, kex::CURVE25519].as_slice().into(),
            ..Preferred::DEFAULT
        },
        ..client::Config::default()
    });
    let Ok(stream) = from(source, to).await else {
        return false;
    };
    client::connect_stream(config, stream, Trusting)
        .await
        .is_ok()
}

/// The strangers' process, where it is told whom to flood.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "started by the tests below"]
async fn flood() {
    let Ok(told) = std::env::var(WHOM) else {
        return;
    };
    let (gateway, what) = told.split_once(' ').unwrap();
    let gateway: SocketAddr = gateway.parse().unwrap();
    if what == "silence" {
        let sources = (1..=ADDRESSES).flat_map(|it| [[127, 0, 7, it]; EACH]);
        let sources: Vec<_> = sources.collect();
        let held = join_all(sources.iter().map(|source| silent(*source, gateway))).await;
        let count = held.iter().flatten().count();
        assert!(count >= 90, "{count}");
        for (source, held) in sources.into_iter().zip(held) {
            tokio::spawn(stay_silent(source, gateway, held));
        }
    } else {
        let strangers = 1..=HANDSHAKES;
        let first = strangers
            .clone()
            .map(|it| handshake([127, 1, it, 1], gateway));
        let first = join_all(first).await;
        assert!(first.iter().all(|done| *done), "{first:?}");
        for stranger in strangers {
            tokio::spawn(async move {
                for turn in (1..=250).cycle() {
                    handshake([127, 1, stranger, turn], gateway).await;
                }
            });
        }
    }
    println!("{BEGUN}");
    // Until it is killed.
    std::future::pending::<()>().await;
}

/// Floods the gateway with `what`; it may grow by `bound` MiB.
async fn holds_up_nobody(what: &str, config: Config, bound: u64) {
    let _alone = ALONE.lock().await;
    let bed = Bed::with(config).await;
    let _guest = bed.machine("web").await;
    let mut others = Bystanders::come(&bed, "web").await;
    let before = resident();

    let mut flood = Flood::start(&format!("{} {what}", bed.address));
    flood.line(BEGUN).await;
    let mut most = resident();
    for _ in 0..5 {
        others.go_on().await;
        most = most.max(resident());
    }
    flood.end().await;
    let grown = most.saturating_sub(before);
    eprintln!("{what}: resident memory grew by {grown} MiB of {bound}");
    assert!(grown < bound, "{what}: {grown} MiB of {bound}");
    others.were_not_slowed().await;
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silence_of_strangers_holds_up_nobody() {
    let config = Config {
        // However long the test takes, they stay.
        handshake_deadline: PATIENCE,
        login_deadline: PATIENCE,
        drain_grace: Duration::ZERO,
        ..Config::default()
    };
    let taken = u64::from(ADDRESSES) * TAKEN_EACH;
    holds_up_nobody("silence", config, taken * OF_STRANGER / 1024 + WORK).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn handshakes_of_strangers_hold_up_nobody() {
    let config = Config {
        drain_grace: Duration::ZERO,
        ..Config::default()
    };
    let there = u64::from(HANDSHAKES);
    holds_up_nobody("handshakes", config, there * OF_STRANGER / 1024 + WORK).await;
}
