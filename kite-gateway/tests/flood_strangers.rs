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
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use common::{Bed, PATIENCE, Session, Trusting, resident, text};
use futures::future::join_all;
use kite_gateway::Config;
use russh::{Preferred, client, kex};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::net::{TcpSocket, TcpStream};
use tokio::process::{Child, Command};

/// What the strangers say once they are all there.
const BEGUN: &str = "the flood has begun";
/// Whom they are to flood, and how.
const WHOM: &str = "KITE_TEST_FLOOD";
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

async fn start_flood(bed: &Bed, what: &str) -> Child {
    let mut flood = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "flood", "--ignored", "--nocapture"])
        .env(WHOM, format!("{} {what}", bed.address))
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(flood.stdout.take().unwrap()).lines();
    let begins = async {
        while let Some(line) = lines.next_line().await.unwrap() {
            if line.contains(BEGUN) {
                return;
            }
        }
        panic!("the strangers do not come");
    };
    tokio::time::timeout(PATIENCE, begins).await.unwrap();
    // Who is not heard out ends: after a minute the test harness says that it still runs.
    tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
    flood
}

fn middle(mut all: Vec<Duration>) -> Duration {
    all.sort_unstable();
    all[all.len() / 2]
}

/// How long a keystroke takes, in the middle of so many.
async fn keystroke(session: &mut Session, times: usize) -> Duration {
    let mut all = Vec::new();
    for _ in 0..times {
        all.push(session.slowest_echo(1).await);
    }
    middle(all)
}

/// How long a login and a command take, in the middle of so many.
async fn login(bed: &Bed, times: usize) -> Duration {
    let mut all = Vec::new();
    for _ in 0..times {
        let started = Instant::now();
        let output = bed.ssh("web", "echo in").await;
        all.push(started.elapsed());
        let told = text(&output.stderr);
        assert_eq!(text(&output.stdout), "in\n", "{told}");
    }
    middle(all)
}

/// That something takes at most so many times as long as beside nobody. What is below
/// `floor`, in milliseconds, is not measured: machines are noisy.
fn assert_not_slowed(what: &str, beside: Duration, quiet: Duration, floor: u64, by: u32) {
    eprintln!("{what}: {beside:?} beside strangers, {quiet:?} beside nobody");
    let bound = quiet.max(Duration::from_millis(floor)) * by;
    assert!(
        beside < bound,
        "{what}: {beside:?}, beside nobody {quiet:?}"
    );
}

/// Floods the gateway with `what`; it may grow by `bound` MiB.
async fn holds_up_nobody(what: &str, config: Config, bound: u64) {
    let _alone = ALONE.lock().await;
    let bed = Bed::with(config).await;
    let _guest = bed.machine("web").await;
    let mut session = bed.session("web", "cat").await;
    // Their address is known from here on, and no more dropped by chance.
    let quiet_login = login(&bed, 5).await;
    let quiet = keystroke(&mut session, 100).await;
    let before = resident();

    let mut flood = start_flood(&bed, what).await;
    let mut most = resident();
    let (mut beside, mut logins) = (Vec::new(), Vec::new());
    for _ in 0..5 {
        beside.push(keystroke(&mut session, 40).await);
        logins.push(login(&bed, 1).await);
        most = most.max(resident());
    }
    assert!(
        flood.try_wait().unwrap().is_none(),
        "the strangers have left"
    );
    flood.kill().await.unwrap();
    let grown = most.saturating_sub(before);
    eprintln!("{what}: resident memory grew by {grown} MiB of {bound}");
    assert!(grown < bound, "{what}: {grown} MiB of {bound}");
    assert_not_slowed("a keystroke", middle(beside), quiet, 10, 20);
    assert_not_slowed("a login", middle(logins), quiet_login, 200, 20);
    // The session itself would keep the gateway from ending.
    drop(session);
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
