//! Guesses at the machine of one owner, whose hash costs as much as may be, beside others:
//! what they take of the gateway's memory, and how long keystrokes, logins by key and by
//! another owner's password take. Alone in its process, as it watches the whole of it; the
//! guesses are a process of their own.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use common::beside::{Bystanders, Flood, WHOM, try_password};
use common::{Bed, PASSWORD, resident};
use kite_core::password::PasswordHash;
use kite_gateway::{BanPolicy, Config};
use mimalloc::MiMalloc;

/// As `kite-gateway` itself has it. The C library's keeps some of what was hashed on for
/// each thread.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// What the guesses say once as many wait as ever will.
const BEGUN: &str = "the flood has begun";
/// Guesses at a time.
const GUESSERS: usize = 20;
/// Hashes at a time, and what one that costs most is computed on, in MiB.
const HASHES: u64 = 2;
const OF_HASH: u64 = 64;
/// What the rest may grow by, in MiB: records, connections, and what allocators keep.
const WORK: u64 = 32;

/// A hash that no password fits, and that costs as much as any that is verified. That is not
/// computed here: what it is computed on would be there before the flood.
fn costly() -> PasswordHash {
    let made = PasswordHash::create(PASSWORD).unwrap();
    let parameters = made.as_str().split('$').nth(3).unwrap();
    let most = format!("m={},t=3,p=4", OF_HASH * 1024);
    let hash = PasswordHash::from_phc(made.as_str().replace(parameters, &most));
    assert!(!hash.is_too_costly());
    assert_eq!(hash.memory() as u64, OF_HASH << 20);
    hash
}

/// The guesses' process, where it is told at which gateway.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "started by the test below"]
async fn flood() {
    let Ok(gateway) = std::env::var(WHOM) else {
        return;
    };
    let gateway: SocketAddr = gateway.parse().unwrap();
    let answered = Arc::new(AtomicUsize::new(0));
    for guesser in 0..GUESSERS {
        let answered = Arc::clone(&answered);
        tokio::spawn(async move {
            for guess in 0.. {
                let guess = format!("{guesser}-{guess}");
                if try_password(gateway, "costly", &guess).await.is_ok() {
                    answered.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
    }
    // Whoever was answered guesses again: the queue is as long as it gets.
    while answered.load(Ordering::Relaxed) < 3 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    println!("{BEGUN}");
    // Until it is killed.
    for _ in std::io::stdin().lines() {
        println!("answered {}", answered.load(Ordering::Relaxed));
    }
}

/// How long the other owner's password takes, with another hash for each number: what fitted
/// a moment ago costs none.
async fn other_password(bed: &Bed, number: usize) -> Duration {
    let password = format!("{PASSWORD} {number}");
    let hash = PasswordHash::from_phc(bcrypt::hash(&password, 4).unwrap());
    bed.table.change("web", |route| route.password = Some(hash));
    let started = Instant::now();
    let is_in = try_password(bed.address, "web", &password).await;
    assert!(is_in.unwrap(), "the right password");
    started.elapsed()
}

/// How long a guess at the costly hash takes beside nobody.
async fn one_hash(bed: &Bed, guess: &str) -> Duration {
    let started = Instant::now();
    let is_in = try_password(bed.address, "costly", guess).await;
    assert!(!is_in.unwrap());
    started.elapsed()
}

/// The address of the guesses is the same as that of everybody else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_owners_costly_hashes_keep_no_other_waiting() {
    let never = BanPolicy {
        failures: 0,
        ..Config::default().address_bans
    };
    let bed = Bed::with(Config {
        address_bans: never,
        name_bans: never,
        max_startups_per_address: 100,
        parallel_hashes: usize::try_from(HASHES).unwrap(),
        hash_patience: Duration::from_secs(120),
        rejection_time: Duration::ZERO,
        drain_grace: Duration::ZERO,
        ..Config::default()
    })
    .await;
    let _guest = bed.machine("web").await;
    let _other = bed.machine("costly").await;
    bed.table.change("costly", |route| {
        route.owner = Some("mallory".to_owned());
        route.password = Some(costly());
    });
    let mut others = Bystanders::come(&bed, "web").await;
    let before = resident();
    let before_it = one_hash(&bed, "wrong").await;

    let mut flood = Flood::start(&bed.address.to_string());
    flood.line(BEGUN).await;
    let (mut most, mut slowest) = (0, Duration::ZERO);
    for number in 0..5 {
        most = most.max(resident());
        others.go_on().await;
        most = most.max(resident());
        slowest = slowest.max(other_password(&bed, number).await);
    }
    flood.go_on().await;
    let guesses = flood.line("answered ").await;
    flood.end().await;
    // The first one waits for what is left of the guesses.
    one_hash(&bed, "still wrong").await;
    let after_it = one_hash(&bed, "wrong again").await;
    // The machine has other things to do, before the flood or after it.
    let one_hash = before_it.max(after_it);
    eprintln!("{guesses} guesses at a hash of {one_hash:?}; the other's login {slowest:?} at most");
    // Twenty guesses are waiting all the time, on two threads: in their order it would
    // be ten hashes. In turn it is what is left of one, while two are computed on
    // processors that have other things to do.
    assert!(
        slowest < one_hash * 8,
        "{slowest:?}, of hashes of {one_hash:?}"
    );
    // What was hashed on is kept for a moment, while the next hash has its own. All that
    // wait at once would be ten times that.
    let bound = 2 * HASHES * OF_HASH + WORK;
    let grown = most.saturating_sub(before);
    eprintln!("resident memory grew by {grown} MiB of {bound}");
    assert!(grown < bound, "{grown} MiB of {bound}");
    others.were_not_slowed().await;
    bed.end().await;
}
