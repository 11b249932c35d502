//! Passwords under load: what was not looked at is not wrong, and what fitted a moment ago
//! is not hashed again. That nobody's hashes keep others waiting: `flood_passwords.rs`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::process::Command;
use std::time::Duration;

use argon2::{Algorithm, Argon2, Params, PasswordHasher as _, Version};
use common::beside::try_password;
use common::{Bed, PASSWORD, run, text};
use kite_core::password::PasswordHash;
use kite_gateway::{BanPolicy, Config};
use serde_json::Value;

/// One wrong password bans whoever it counts against.
const AT_ONCE: BanPolicy = BanPolicy {
    failures: 1,
    within: Duration::from_secs(600),
    first: Duration::from_secs(600),
    longest: Duration::from_secs(600),
};

/// Who measures how long a hash takes has the processors alone.
static ALONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// The most costly hash that is verified.
fn costly() -> PasswordHash {
    let params = Params::new(65_536, 3, 4, None).unwrap();
    let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
    let hash = argon2.hash_password(PASSWORD.as_bytes()).unwrap();
    let hash = PasswordHash::from_phc(hash.to_string());
    assert!(!hash.is_too_costly());
    hash
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_nobody_looked_at_counts_against_nobody() {
    let _alone = ALONE.lock().await;
    let bed = Bed::with(Config {
        // Nothing is ever looked at.
        hash_patience: Duration::ZERO,
        address_bans: AT_ONCE,
        name_bans: AT_ONCE,
        ..Config::default()
    })
    .await;
    let _guest = bed.machine("web").await;
    bed.table
        .change("web", |route| route.password = Some(costly()));
    for method in ["password", "keyboard-interactive"] {
        for name in ["web", "nobody"] {
            // Of an option that is there twice the first counts.
            let once = bed.with_password(PASSWORD, method);
            let mut client = Command::new("ssh");
            client.args(["-o", "NumberOfPasswordPrompts=3"]);
            client.args(once.get_args()).env_remove("SSH_AUTH_SOCK");
            client.envs(
                once.get_envs()
                    .filter_map(|(name, value)| Some((name, value?))),
            );
            client.args(["-l", name, "127.0.0.1", "echo in"]);
            let told = text(&run(client, Vec::new()).await.stderr);
            assert!(told.contains("was not checked"), "{method} {name}: {told}");
            assert!(told.contains("try again"), "{method} {name}: {told}");
        }
    }
    let is_one = |record: &Value| record["unchecked"] == true;
    let record = bed.records.find(is_one).await;
    assert_eq!(record["accepted"], false);
}

/// As above, where what is not looked at and what is are told apart by what a hash takes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_right_password_still_fits_after_many_that_nobody_looked_at() {
    let _alone = ALONE.lock().await;
    let bed = Bed::with(Config {
        // Less than the costly hash takes on any machine, more than the quick one does.
        hash_patience: Duration::from_millis(20),
        address_bans: AT_ONCE,
        name_bans: AT_ONCE,
        max_startups_per_address: 100,
        ..Config::default()
    })
    .await;
    let _guest = bed.machine("web").await;
    let is_unchecked = |record: &Value| record["unchecked"] == true;
    let is_wrong = |record: &Value| record["accepted"] == false && record["unchecked"] != true;
    // All of them are right. Where the gateway is late, one may be looked at after all, and
    // those behind it are known to fit: once more, at another hash.
    let crowding = async {
        while !bed.records.any(is_unchecked) {
            bed.table
                .change("web", |route| route.password = Some(costly()));
            let crowd = (0..40).map(|_| try_password(bed.address, "web", PASSWORD));
            futures::future::join_all(crowd).await;
        }
    };
    in_time(crowding).await;
    // A hash that takes no time: had one of them counted, it would not fit now.
    let quick = PasswordHash::from_phc(bcrypt::hash(PASSWORD, 4).unwrap());
    bed.table
        .change("web", |route| route.password = Some(quick));
    // What was begun keeps the threads for a moment longer.
    in_time(async {
        while !matches!(try_password(bed.address, "web", PASSWORD).await, Ok(true)) {}
    })
    .await;
    assert!(!bed.records.any(is_wrong), "nobody was wrong");
    // Until it is looked at, which on a busy machine may take more than one.
    in_time(async {
        while !bed.records.any(is_wrong) {
            assert!(!try_password(bed.address, "web", "wrong").await.unwrap());
        }
    })
    .await;
    assert!(
        !try_password(bed.address, "web", PASSWORD).await.unwrap(),
        "that counts"
    );
}

/// What a ban, which lasts for longer, would have fail.
async fn in_time(task: impl Future<Output = ()>) {
    let ended = tokio::time::timeout(AT_ONCE.first / 10, task).await;
    ended.expect("a ban lasts for longer");
}

/// By what the processors did for hashes, and not by how long a login takes: others may have
/// the processors.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_connects_again_costs_no_second_hash() {
    let _alone = ALONE.lock().await;
    let earlier: Vec<_> = hashing().into_iter().map(|(thread, _)| thread).collect();
    let bed = Bed::with(Config {
        rejection_time: Duration::ZERO,
        ..Config::default()
    })
    .await;
    let _guest = bed.machine("web").await;
    bed.table
        .change("web", |route| route.password = Some(costly()));
    let hashed = || -> u64 {
        let own = hashing().into_iter();
        let own = own.filter(|(thread, _)| !earlier.contains(thread));
        own.map(|(_, ticks)| ticks).sum()
    };
    let costs = async |password: &str| {
        let before = hashed();
        let is_in = try_password(bed.address, "web", password).await.unwrap();
        assert_eq!(is_in, password == PASSWORD);
        hashed() - before
    };
    let (mut six, mut again) = (costs(PASSWORD).await, 0);
    for _ in 0..5 {
        for _ in 0..8 {
            again += costs(PASSWORD).await;
        }
        six += costs("wrong").await;
    }
    // The last tick of a hash may fall to what comes after it.
    assert!(six >= 12, "six costly hashes took {six} ticks");
    assert!(
        again <= six / 2,
        "{again} ticks for forty, {six} for six hashes"
    );
}

/// The gateway's threads for hashes in this process, each with the processor time that it
/// has had, in ticks of the kernel's (10 ms); the costly hash takes several.
fn hashing() -> Vec<(String, u64)> {
    let all = std::fs::read_dir("/proc/self/task").unwrap();
    let stats = all.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("stat")).ok());
    stats
        .filter(|stat| stat.contains("(kite-hash-"))
        .map(|stat| {
            let (thread, _) = stat.split_once(' ').unwrap();
            let (_, rest) = stat.rsplit_once(") ").unwrap();
            let fields: Vec<_> = rest.split(' ').collect();
            // `utime` and `stime`; the first field of these is the third of all.
            let ticks = fields[11..13].iter().map(|it| it.parse::<u64>().unwrap());
            (thread.to_owned(), ticks.sum())
        })
        .collect()
}
