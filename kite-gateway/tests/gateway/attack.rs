//! What strangers send in quantity: handshakes that are cut off or changed, and
//! passwords that are wrong. Whoever belongs there must not notice.
#![allow(clippy::indexing_slicing)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use crate::common::{Bed, Trusting, resident, text};
use kite_core::password::PasswordHash;
use kite_gateway::{BanPolicy, Config, MaxStartups};
use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use russh::keys::PrivateKeyWithHashAlg;
use russh::{Disconnect, client};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// However a test goes, it does not go on for longer.
const HANG: Duration = Duration::from_secs(120);

const NEVER: BanPolicy = BanPolicy {
    failures: 0,
    within: Duration::from_secs(60),
    first: Duration::from_secs(60),
    longest: Duration::from_secs(60),
};

/// One address plays all strangers.
const EVERYBODY: MaxStartups = MaxStartups {
    start: 4096,
    rate: 100,
    full: 4096,
};

/// What a real client sends while it logs in and runs a command.
async fn overheard(bed: &Bed) -> Vec<u8> {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let said = Arc::new(Mutex::new(Vec::new()));
    let (heard, gateway) = (Arc::clone(&said), bed.address);
    let between = tokio::spawn(async move {
        let (mut client, _) = listener.accept().await.unwrap();
        let (mut from_client, mut to_client) = client.split();
        let mut server = TcpStream::connect(gateway).await.unwrap();
        let (mut from_server, mut to_server) = server.split();
        let up = async {
            let mut buffer = [0; 4096];
            while let Ok(length @ 1..) = from_client.read(&mut buffer).await {
                heard.lock().extend_from_slice(&buffer[..length]);
                to_server.write_all(&buffer[..length]).await.unwrap();
            }
        };
        let down = tokio::io::copy(&mut from_server, &mut to_client);
        tokio::select! {
            () = up => {}
            _ = down => {}
        }
    });
    let config = Arc::new(client::Config::default());
    let mut handle = client::connect(config, ("127.0.0.1", port), Trusting)
        .await
        .unwrap();
    let key = PrivateKeyWithHashAlg::new(Arc::new(bed.user_key.clone()), None);
    let result = handle.authenticate_publickey("web", key).await.unwrap();
    assert!(result.success());
    let mut channel = handle.channel_open_session().await.unwrap();
    channel.exec(true, "echo in").await.unwrap();
    while channel.wait().await.is_some() {}
    handle
        .disconnect(Disconnect::ByApplication, "", "")
        .await
        .unwrap();
    between.abort();
    let _ = between.await;
    Arc::into_inner(said).unwrap().into_inner()
}

/// Says something and hangs up, or waits for the gateway to do so.
async fn say(bed: &Bed, words: &[u8], hang_up: bool) {
    let mut stream = TcpStream::connect(bed.address).await.unwrap();
    // The gateway may have hung up on what was said before.
    let _ = stream.write_all(words).await;
    if hang_up {
        return;
    }
    let _ = stream.shutdown().await;
    let mut all = Vec::new();
    let reading = stream.read_to_end(&mut all);
    let _ = tokio::time::timeout(HANG, reading)
        .await
        .expect("the gateway hangs up");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn handshakes_that_are_cut_off_or_changed_leave_nothing() {
    let bed = Bed::with(Config {
        max_connections_per_address: 4096,
        max_startups: EVERYBODY,
        max_startups_per_address: 4096,
        ..Config::default()
    })
    .await;
    let _guest = bed.machine("web").await;
    let said = overheard(&bed).await;
    assert!(said.starts_with(b"SSH-2.0-") && said.len() > 1200);
    let mut random = StdRng::seed_from_u64(1);
    // Every place in the first words, and some of the rest.
    let cuts = (0..64).chain((64..said.len()).step_by(23));
    let shouts = cuts
        .map(|cut| said[..cut].to_vec())
        .chain((0..150).map(|_| {
            let mut changed = said.clone();
            for _ in 0..random.random_range(1..4) {
                // Most of it is the offer of algorithms; the lengths come before.
                let at = random.random_range(0..changed.len().min(1800));
                changed[at] = random.random();
            }
            changed
        }));
    let bed = &bed;
    futures::stream::StreamExt::for_each_concurrent(
        futures::stream::iter(shouts.enumerate()),
        16,
        |(number, words)| async move { say(bed, &words, number % 2 == 0).await },
    )
    .await;
    bed.emptied().await;
    assert_eq!(text(&bed.ssh("web", "echo in").await.stdout), "in\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_of_wrong_passwords_keeps_nobody_out() {
    // Without bans, which would end the flood.
    let bed = Bed::with(Config {
        address_bans: NEVER,
        name_bans: NEVER,
        max_connections_per_address: 4096,
        max_startups: EVERYBODY,
        max_startups_per_address: 4096,
        ..Config::default()
    })
    .await;
    let _guest = bed.machine("web").await;
    let costly = PasswordHash::create(crate::common::PASSWORD).unwrap();
    bed.table
        .change("web", |route| route.password = Some(costly));
    let mut session = bed.with_key("ssh");
    session.args(["-l", "web", "127.0.0.1", "cat"]);
    session.stdin(std::process::Stdio::piped());
    session.stdout(std::process::Stdio::piped());
    let mut session = tokio::process::Command::from(session).spawn().unwrap();
    let mut to = session.stdin.take().unwrap();
    let mut from = session.stdout.take().unwrap();
    let mut echo = async |word: &[u8; 4]| {
        to.write_all(word).await.unwrap();
        let mut back = [0; 4];
        let reading = from.read_exact(&mut back);
        let read = tokio::time::timeout(HANG, reading).await;
        read.expect("it comes back").unwrap();
        assert_eq!(&back, word);
    };
    echo(b"one\n").await;

    let before = resident();
    let (over, tried) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicUsize::new(0)),
    );
    let flood: Vec<_> = (0..100)
        .map(|number| {
            let (over, tried, address) = (Arc::clone(&over), Arc::clone(&tried), bed.address);
            tokio::spawn(async move {
                let config = Arc::new(client::Config::default());
                while !over.load(Ordering::Relaxed) {
                    let Ok(mut handle) =
                        client::connect(Arc::clone(&config), address, Trusting).await
                    else {
                        continue;
                    };
                    let name = if number % 2 == 0 { "web" } else { "nobody" };
                    for guess in 0..6 {
                        let password = format!("{number}-{guess}");
                        if over.load(Ordering::Relaxed) {
                            return;
                        }
                        match handle.authenticate_password(name, password).await {
                            Ok(result) => assert!(!result.success()),
                            Err(_) => break,
                        }
                        tried.fetch_add(1, Ordering::Relaxed);
                    }
                }
            })
        })
        .collect();
    while tried.load(Ordering::Relaxed) < 20 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let mut most = 0;
    for _ in 0..10 {
        echo(b"two\n").await;
        most = most.max(resident());
    }
    let output = tokio::time::timeout(HANG, bed.ssh("web", "echo in")).await;
    assert_eq!(text(&output.unwrap().stdout), "in\n");
    most = most.max(resident());
    assert!(flood.iter().all(|guesser| !guesser.is_finished()));
    over.store(true, Ordering::Relaxed);
    let tried = tried.load(Ordering::Relaxed);
    let grown = most.saturating_sub(before);
    eprintln!("{tried} wrong passwords; memory of both sides grew by {grown} MiB");
    // Two hashes at a time of some 20 MiB; a hash for each of a hundred would be
    // two gigabytes.
    assert!(grown < 600, "{grown} MiB");
    for guesser in flood {
        guesser.await.unwrap();
    }
}
