//! Connections that have not logged in: however many there are, others get in.

use std::net::SocketAddr;
use std::time::Duration;

use crate::common::{Bed, Trusting, text};
use kite_gateway::{Config, MaxStartups};
use russh::client;
use tokio::io::AsyncReadExt as _;
use tokio::net::{TcpSocket, TcpStream};

/// However a test goes, it does not go on for longer.
const HANG: Duration = Duration::from_secs(120);

/// A connection from an address of this machine's own.
async fn from(source: [u8; 4], to: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind((source, 0).into()).unwrap();
    socket.connect(to).await.unwrap()
}

/// Whether the gateway greets.
async fn is_greeted(stream: &mut TcpStream) -> bool {
    let mut greeting = [0; 26];
    let reading = stream.read_exact(&mut greeting);
    let read = tokio::time::timeout(HANG, reading).await;
    read.expect("it greets or hangs up").is_ok() && &greeting == b"SSH-2.0-OpenSSH_9.9 Kite\r\n"
}

/// Connections from 16 addresses, 30 from each, that say nothing; those that were taken.
async fn silent(bed: &Bed) -> Vec<TcpStream> {
    let mut open = Vec::new();
    for _ in 0..30 {
        for source in 1..=16 {
            let mut stream = from([127, 0, 7, source], bed.address).await;
            if is_greeted(&mut stream).await {
                open.push(stream);
            }
        }
    }
    open
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_of_silence_keeps_nobody_out() {
    let bed = Bed::with(Config {
        // However long the test takes, the flood stays.
        handshake_deadline: HANG,
        login_deadline: HANG,
        ..Config::default()
    })
    .await;
    let _guest = bed.machine("web").await;
    let flood = silent(&bed).await;
    // From the hundredth on some are dropped, and no address has more than ten.
    assert!((100..=160).contains(&flood.len()), "{}", flood.len());
    // Whom chance drops comes again, as any client's user does.
    let coming = async {
        loop {
            let output = bed.ssh("web", "echo in").await;
            if text(&output.stdout) == "in\n" {
                break;
            }
        }
    };
    tokio::time::timeout(HANG, coming).await.expect("gets in");
    // Whoever has logged in from there once is dropped by chance no more.
    for _ in 0..8 {
        assert_eq!(text(&bed.ssh("web", "echo in").await.stdout), "in\n");
    }
    for stream in &flood {
        // Behind the greeting there is an offer, and then nothing.
        let mut offer = [0; 4096];
        let still = loop {
            match stream.try_read(&mut offer) {
                Ok(0) => panic!("it is over"),
                Ok(_) => {}
                Err(error) => break error,
            }
        };
        assert_eq!(still.kind(), std::io::ErrorKind::WouldBlock, "it is over");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn places_are_kept_for_who_is_trusted() {
    let bed = Bed::with(Config {
        handshake_deadline: HANG,
        login_deadline: HANG,
        max_startups: MaxStartups {
            start: 4,
            rate: 100,
            full: 4,
        },
        never_ban: vec!["127.0.0.1".parse().unwrap()],
        ..Config::default()
    })
    .await;
    let _guest = bed.machine("web").await;
    let flood = silent(&bed).await;
    assert_eq!(flood.len(), 4);
    assert!(!is_greeted(&mut from([127, 0, 8, 1], bed.address).await).await);
    assert_eq!(text(&bed.ssh("web", "echo in").await.stdout), "in\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_has_logged_in_holds_no_place_of_those_who_have_not() {
    let bed = Bed::with(Config {
        max_startups_per_address: 1,
        ..Config::default()
    })
    .await;
    let _guest = bed.machine("web").await;
    let mut sessions = Vec::new();
    for _ in 0..5 {
        let mut session = bed.session("web", "cat").await;
        session.slowest_echo(1).await;
        sessions.push(session);
    }
    let mut first = from([127, 0, 0, 1], bed.address).await;
    assert!(is_greeted(&mut first).await);
    let mut second = from([127, 0, 0, 1], bed.address).await;
    assert!(!is_greeted(&mut second).await);
}

/// A client that exchanges keys has the time of a login; one that does not has less.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_exchanges_no_keys_is_sent_away_sooner() {
    let bed = Bed::with(Config {
        handshake_deadline: Duration::from_secs(2),
        login_deadline: HANG,
        ..Config::default()
    })
    .await;
    let connecting = client::connect(std::sync::Arc::default(), bed.address, Trusting);
    let mut keyed = connecting.await.unwrap();
    // The gateway sees that keys are exchanged by what is asked next.
    let refused = keyed.authenticate_none("web").await.unwrap();
    assert!(!refused.success());
    let mut silent = from([127, 0, 0, 1], bed.address).await;
    let mut all = Vec::new();
    let reading = silent.read_to_end(&mut all);
    let _ = tokio::time::timeout(HANG, reading)
        .await
        .expect("it is sent away");
    let refused = keyed.authenticate_none("web").await.unwrap();
    assert!(!refused.success(), "the other one is still there");
    let is_it = |record: &serde_json::Value| record["ended"] == "no key exchange in time";
    bed.records.find(is_it).await;
}

/// A burst of connections, while the gateway has no time for any: on this test's one
/// thread it runs only while the test waits.
#[tokio::test]
async fn a_burst_of_connections_waits_for_the_gateway() {
    const BURST: usize = 600;
    let allowed = std::fs::read_to_string("/proc/sys/net/core/somaxconn").unwrap();
    if allowed.trim().parse::<usize>().unwrap() < BURST {
        eprintln!("skipped: net.core.somaxconn is {allowed}, below {BURST}");
        return;
    }
    let bed = Bed::new().await;
    let mut first = from([127, 0, 8, 1], bed.address).await;
    assert!(is_greeted(&mut first).await);

    let patience = Duration::from_millis(900);
    let taken: Vec<_> = (0..BURST)
        .map(|turn| {
            std::net::TcpStream::connect_timeout(&bed.address, patience)
                .unwrap_or_else(|error| panic!("connection {turn}: {error}"))
        })
        .collect();
    assert_eq!(taken.len(), BURST);
    drop((first, taken));
    bed.end().await;
}
