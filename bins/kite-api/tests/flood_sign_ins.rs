//! Who guesses at passwords from everywhere takes no more memory than there is for hashes;
//! somebody who is signed in is answered beside it, and others sign in.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::print_stderr
)]

mod floods;

use std::{
    net::{Ipv4Addr, SocketAddr},
    time::Duration,
};

use kite_core::password::PasswordHash;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpSocket,
};

use self::floods::{
    OF_HTTP1, PASSWORD, Stage, assert_not_slowed, go_on, median_of, resident, start_flood, whom,
};

/// For hashes: three of those that Kite makes, or one that takes the most.
const BUDGET: usize = 64 << 20;
/// As many hashes as a machine with many processors would run.
const PROCESSORS: usize = 16;
/// Guesses at a time.
const GUESSES: u32 = 64;
/// Accounts whose hashes take the most, as who has an account may choose.
const DEAR: u32 = 20;
/// What the rest may grow by: the cluster in memory, and what is kept of each guess.
const WORK: usize = 48 << 20;

/// One guess from an address of its own; what comes of it is read.
async fn guess(address: SocketAddr, worker: u32, round: u32) -> Option<()> {
    let socket = TcpSocket::new_v4().ok()?;
    let source = Ipv4Addr::from_bits(0x7f01_0000 + (round % 0x3fff) * GUESSES + worker);
    socket.bind((source, 0).into()).ok()?;
    let mut client = socket.connect(address).await.ok()?;
    // Every other one is at a dear hash, for as long as the account may be tried.
    let name = if round.is_multiple_of(2) {
        format!("dear-{}", (worker + round / 2) % DEAR)
    } else {
        format!("nobody-{worker}-{round}")
    };
    let body = format!(r#"{{"username":"{name}","password":"wrong horse"}}"#);
    let asked = format!(
        "POST /api/v1/auth/sign-in HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    client.write_all(asked.as_bytes()).await.ok()?;
    client.read_to_end(&mut Vec::new()).await.ok()?;
    Some(())
}

/// The flood, where it is started with whom to flood.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "is started by the other test"]
async fn flood() {
    let Some((address, _)) = whom() else {
        return;
    };
    assert!(guess(address, 0, 0).await.is_some());
    for worker in 0..GUESSES {
        tokio::spawn(async move {
            for round in 0.. {
                if guess(address, worker, round).await.is_none() {
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        });
    }
    go_on(()).await;
}

/// A hash that no password fits, and that takes as much as any may.
fn dear() -> PasswordHash {
    let made = PasswordHash::create(PASSWORD).unwrap();
    let parameters = made.as_str().split('$').nth(3).unwrap();
    let dear = made.as_str().replace(parameters, "m=65536,t=3,p=1");
    PasswordHash::from_phc(dear)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn guesses_from_everywhere_take_no_more_memory_than_there_is_for_them() {
    let stage = Stage::new(|builder| {
        builder
            .hashing_concurrency(PROCESSORS)
            .password_memory(BUDGET)
    })
    .await;
    for n in 0..DEAR {
        stage.account(&format!("dear-{n}"), dear()).await;
    }
    let ann = stage.sign_in("ann").await;
    let quiet_in = stage.quiet_sign_in().await;
    let quiet = stage.quiet_answer(&ann).await;
    let before = resident();

    let mut flood = start_flood(stage.address, &ann).await;
    // What was hashed on is kept by allocators for a while, for as many threads as hash.
    let bound = 2 * BUDGET + 2 * usize::try_from(GUESSES).unwrap() * OF_HTTP1 + WORK;
    let mut most = 0;
    let beside = median_of(40, async || {
        stage.answers(&ann).await;
        most = most.max(resident().saturating_sub(before));
    })
    .await;
    let beside_in = median_of(3, async || {
        stage.sign_in_at_last("bob").await;
        most = most.max(resident().saturating_sub(before));
    })
    .await;
    assert!(flood.try_wait().unwrap().is_none(), "the flood has ended");
    eprintln!("grew by {} MiB of {}", most >> 20, bound >> 20);
    assert!(most < bound, "{} MiB of {}", most >> 20, bound >> 20);
    flood.kill().await.unwrap();
    let quiet_in = [quiet_in, stage.quiet_sign_in().await];
    let quiet = [quiet, stage.quiet_answer(&ann).await];
    let (answer, login) = (Duration::from_millis(20), Duration::from_millis(100));
    assert_not_slowed("an answer", beside, quiet, answer, 25);
    // Whoever signs in waits for all that came before, some of which is dear.
    assert_not_slowed("a sign-in", beside_in, quiet_in, login, 4 * GUESSES);
    stage.stop.cancel();
}
