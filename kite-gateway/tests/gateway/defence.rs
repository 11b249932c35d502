//! What the gateway does against those who should not be there.

use std::sync::Arc;
use std::time::Duration;

use crate::common::{Bed, Trusting, run, text};
use kite_gateway::{BanPolicy, Config, Infrastructure};
use russh::client;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

const NEVER: BanPolicy = BanPolicy {
    failures: 0,
    within: Duration::from_secs(60),
    first: Duration::from_secs(60),
    longest: Duration::from_secs(60),
};

/// Sooner than connections end without a login.
const SOON: Duration = Duration::from_secs(40);

async fn guess(bed: &Bed, times: usize) {
    for _ in 0..times {
        let mut client = bed.with_password("wrong", "password");
        client.args(["-l", "web", "127.0.0.1", "echo in"]);
        assert_eq!(run(client, Vec::new()).await.status.code(), Some(255));
    }
}

/// Logs in to `web` by password, from 127.0.0.1.
async fn by_password(bed: &Bed, password: &str) -> bool {
    let mut client = bed.with_password(password, "password");
    client.args(["-l", "web", "127.0.0.1", "echo in"]);
    text(&run(client, Vec::new()).await.stdout) == "in\n"
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_address_that_guesses_is_banned_and_its_keys_are_not() {
    let bed = Bed::with(Config {
        address_bans: BanPolicy {
            failures: 3,
            ..NEVER
        },
        name_bans: NEVER,
        ..Config::default()
    })
    .await;
    let _guest = bed.machine("web").await;
    assert!(by_password(&bed, crate::common::PASSWORD).await);
    guess(&bed, 3).await;
    // Not even from where it has logged in before.
    assert!(
        !by_password(&bed, crate::common::PASSWORD).await,
        "it is banned"
    );
    assert_eq!(text(&bed.ssh("web", "echo in").await.stdout), "in\n");
    assert!(
        !by_password(&bed, crate::common::PASSWORD).await,
        "it still is"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_address_that_many_share_is_not_banned_and_guesses_at_a_name_still_are() {
    let infrastructure = Infrastructure::default();
    infrastructure.set(vec!["127.0.0.0/30".parse().unwrap()]);
    let bed = Bed::behind(
        infrastructure,
        Config {
            address_bans: BanPolicy {
                failures: 3,
                ..NEVER
            },
            name_bans: BanPolicy {
                failures: 6,
                ..NEVER
            },
            max_connections_per_address: 1,
            max_startups_per_address: 1,
            ..Config::default()
        },
    )
    .await;
    let _guest = bed.machine("web").await;
    assert!(by_password(&bed, crate::common::PASSWORD).await);
    let mut client = bed.with_password("wrong", "password");
    client.args(["-l", "nobody", "127.0.0.1", "echo in"]);
    assert_eq!(run(client, Vec::new()).await.status.code(), Some(255));
    guess(&bed, 5).await;
    assert!(
        by_password(&bed, crate::common::PASSWORD).await,
        "no address is banned"
    );
    // Nor does it have bounds of its own.
    let mut open = Vec::new();
    for _ in 0..20 {
        let mut stream = TcpStream::connect(bed.address).await.unwrap();
        let mut greeting = [0; 12];
        stream.read_exact(&mut greeting).await.unwrap();
        open.push(stream);
    }
    // The name is guessed at, and nobody can tell by the address who is at home.
    guess(&bed, 1).await;
    assert!(!by_password(&bed, crate::common::PASSWORD).await);
    assert_eq!(text(&bed.ssh("web", "echo in").await.stdout), "in\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_ban_holds_for_connections_that_were_open_before() {
    let bed = Bed::with(Config {
        address_bans: BanPolicy {
            failures: 3,
            ..NEVER
        },
        name_bans: NEVER,
        ..Config::default()
    })
    .await;
    let _guest = bed.machine("web").await;
    let config = Arc::new(client::Config::default());
    let mut open = Vec::new();
    for _ in 0..2 {
        let connecting = client::connect(Arc::clone(&config), bed.address, Trusting);
        open.push(connecting.await.unwrap());
    }
    for _ in 0..3 {
        let guess = open[0].authenticate_password("web", "wrong").await.unwrap();
        assert!(!guess.success());
    }
    // Right, and too late.
    let right = open[1].authenticate_password("web", crate::common::PASSWORD);
    assert!(!right.await.unwrap().success());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_that_is_guessed_at_takes_keys_only() {
    let bed = Bed::with(Config {
        address_bans: NEVER,
        name_bans: BanPolicy {
            failures: 3,
            ..NEVER
        },
        ..Config::default()
    })
    .await;
    let _guest = bed.machine("web").await;
    guess(&bed, 3).await;
    assert!(!by_password(&bed, crate::common::PASSWORD).await);
    assert_eq!(text(&bed.ssh("web", "echo in").await.stdout), "in\n");
}

/// A login by a connection of its own from another of this machine's addresses.
async fn from_elsewhere(bed: &Bed, source: [u8; 4], password: &str) -> bool {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind((source, 0).into()).unwrap();
    let stream = socket.connect(bed.address).await.unwrap();
    let connecting = client::connect_stream(Arc::default(), stream, Trusting);
    let mut handle = connecting.await.unwrap();
    let login = handle.authenticate_password("web", password).await;
    login.unwrap().success()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn guesses_elsewhere_keep_nobody_out_at_home() {
    let bed = Bed::with(Config {
        address_bans: NEVER,
        name_bans: BanPolicy {
            failures: 3,
            ..NEVER
        },
        ..Config::default()
    })
    .await;
    let _guest = bed.machine("web").await;
    let (home, away) = ([127, 0, 1, 1], [127, 0, 1, 2]);
    // By key or by password: whoever logged in belongs there.
    assert_eq!(text(&bed.ssh("web", "echo in").await.stdout), "in\n");
    assert!(from_elsewhere(&bed, home, crate::common::PASSWORD).await);
    for _ in 0..6 {
        assert!(!from_elsewhere(&bed, away, "wrong").await);
    }
    assert!(
        !from_elsewhere(&bed, away, crate::common::PASSWORD).await,
        "banned"
    );
    assert!(from_elsewhere(&bed, home, crate::common::PASSWORD).await);
    assert!(by_password(&bed, crate::common::PASSWORD).await);
    // Another machine of that name belongs to somebody else.
    bed.table.change("web", |route| route.uid = "2".to_owned());
    assert!(!from_elsewhere(&bed, home, crate::common::PASSWORD).await);
}

#[tokio::test]
async fn addresses_are_allowed_and_denied_as_the_proxy_names_them() {
    let bed = Bed::with(Config {
        proxies: vec!["127.0.0.0/8".parse().unwrap()],
        allow: vec!["192.0.2.0/24".parse().unwrap()],
        deny: vec!["192.0.2.66".parse().unwrap()],
        ..Config::default()
    })
    .await;
    for (header, greeted) in [
        ("PROXY TCP4 192.0.2.1 10.0.0.1 4711 22\r\n", true),
        ("PROXY TCP4 192.0.2.66 10.0.0.1 4711 22\r\n", false),
        ("PROXY TCP4 198.51.100.1 10.0.0.1 4711 22\r\n", false),
        ("SSH-2.0-without-header\r\n", false),
    ] {
        let mut stream = TcpStream::connect(bed.address).await.unwrap();
        stream.write_all(header.as_bytes()).await.unwrap();
        let mut greeting = [0; 12];
        let read = stream.read_exact(&mut greeting).await;
        assert_eq!(read.is_ok(), greeted, "{header}");
        if greeted {
            assert_eq!(&greeting, b"SSH-2.0-Open");
        }
    }
    let record = bed.records.find(|r| r["event"] == "connection").await;
    assert_eq!(record["peer"], "192.0.2.1:4711", "the real address");
}

#[tokio::test]
async fn silence_is_not_waited_for() {
    let bed = Bed::with(Config {
        login_deadline: Duration::from_millis(300),
        ..Config::default()
    })
    .await;
    let mut silent = TcpStream::connect(bed.address).await.unwrap();
    let mut greeted = TcpStream::connect(bed.address).await.unwrap();
    greeted.write_all(b"SSH-2.0-slow\r\n").await.unwrap();
    for stream in [&mut silent, &mut greeted] {
        let mut all = Vec::new();
        let reading = stream.read_to_end(&mut all);
        let _ = tokio::time::timeout(SOON, reading)
            .await
            .expect("the gateway hangs up");
    }
}

#[tokio::test]
async fn noise_ends_only_its_own_connection() {
    let bed = Bed::new().await;
    let _guest = bed.machine("web").await;
    for noise in [
        &b"GET / HTTP/1.1\r\n\r\n"[..],
        b"SSH-1.5-old\r\n",
        b"SSH-2.0-x\r\n\xff\xff\xff\xff\x00\x00\x00\x00",
        b"SSH-2.0-x\r\n\x00\x00\x00\x0c\x0a\x14\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00",
        b"SSH-2.0-x\r\n\x00\x00\x00\x00",
        &[0; 4096],
    ] {
        let mut stream = TcpStream::connect(bed.address).await.unwrap();
        stream.write_all(noise).await.unwrap();
        let _ = stream.shutdown().await;
        let mut all = Vec::new();
        let reading = stream.read_to_end(&mut all);
        let _ = tokio::time::timeout(SOON, reading)
            .await
            .expect("the gateway hangs up");
    }
    assert_eq!(text(&bed.ssh("web", "echo in").await.stdout), "in\n");
}
