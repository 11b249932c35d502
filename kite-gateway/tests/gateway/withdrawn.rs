//! Connections whose user may not have them any more, and those that last too long.
#![allow(clippy::indexing_slicing)]

use std::process::{Command, Stdio};
use std::time::Duration;

use crate::common::{Bed, PASSWORD, PATIENCE, text};
use kite_core::password::PasswordHash;
use kite_gateway::{Config, LoginRule};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::Child;

/// For so long nothing is sent until a session is ended for it: longer than a busy machine
/// keeps somebody from sending something.
const IDLE: Duration = Duration::from_secs(30);

/// Somebody who is in.
pub(super) struct Session(Child);

impl Session {
    pub(super) async fn start(mut client: Command) -> Self {
        client.args(["-l", "web", "127.0.0.1", "cat"]);
        client.stdin(Stdio::piped()).stdout(Stdio::piped());
        client.stderr(Stdio::piped());
        let mut client = tokio::process::Command::from(client);
        let mut it = Self(client.kill_on_drop(true).spawn().unwrap());
        it.echoes().await;
        it
    }

    pub(super) async fn echoes(&mut self) {
        let there = self.0.stdin.as_mut().unwrap().write_all(b"on\n");
        there.await.unwrap();
        let mut back = [0; 3];
        let reading = self.0.stdout.as_mut().unwrap().read_exact(&mut back);
        let read = tokio::time::timeout(PATIENCE, reading).await;
        read.expect("it is there").unwrap();
        assert_eq!(&back, b"on\n");
    }

    /// Waits for its end; gives what the user reads.
    pub(super) async fn ends(mut self) -> String {
        // It would end by itself if nothing were to come any more.
        let _open = self.0.stdin.take();
        let output = tokio::time::timeout(PATIENCE, self.0.wait_with_output()).await;
        text(&output.expect("it ends").unwrap().stderr)
    }
}

async fn bed(config: Config) -> Bed {
    Bed::with(Config {
        drain_grace: Duration::ZERO,
        ..config
    })
    .await
}

/// Waits until each of so many sessions has been looked at since this began. A look asks for
/// the session's route, and once more where that has changed: beyond the rest of one round
/// and all of another, the first question of a third is awaited, a second after them.
async fn reviewed(bed: &Bed, sessions: usize) {
    bed.table.looked_at(4 * sessions + 1).await;
    let ended = |record: &serde_json::Value| record["event"] == "connection";
    assert!(!bed.records.any(ended), "a session has ended");
}

fn hash(password: &str) -> PasswordHash {
    PasswordHash::from_phc(bcrypt::hash(password, 4).unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_no_longer_opens_a_machine_ends_connections_made_with_it() {
    let bed = bed(Config::default()).await;
    let _guest = bed.machine("web").await;
    let mut by_key = Session::start(bed.with_key("ssh")).await;
    let by_password = Session::start(bed.with_password(PASSWORD, "password")).await;
    let mut asked = Session::start(bed.with_password(PASSWORD, "keyboard-interactive")).await;

    // Anything else of the route may change.
    bed.table
        .change("web", |route| route.start_on_connect = true);
    reviewed(&bed, 3).await;
    asked.echoes().await;
    by_key.echoes().await;

    bed.table
        .change("web", |route| route.password = Some(hash("another")));
    for session in [by_password, asked] {
        let told = session.ends().await;
        assert!(
            told.contains("no longer opens VM kite-user-ann/web"),
            "{told}"
        );
    }
    by_key.echoes().await;
    let by_password = Session::start(bed.with_password("another", "password")).await;

    let keys = |bed: &Bed| vec![bed.user_key.public_key().clone().into()];
    bed.table
        .change("web", |route| route.authorized_keys = Vec::new());
    let told = by_key.ends().await;
    assert!(told.contains("no longer opens"), "{told}");

    // One of two is not enough any more.
    bed.table
        .change("web", |route| route.authorized_keys = keys(&bed));
    let by_key = Session::start(bed.with_key("ssh")).await;
    bed.table
        .change("web", |route| route.rule = LoginRule::KeyAndPassword);
    for session in [by_key, by_password] {
        let told = session.ends().await;
        assert!(told.contains("no longer opens"), "{told}");
    }
    let record = bed.records.find(|r| r["event"] == "connection").await;
    assert!(
        record["ended"]
            .as_str()
            .unwrap()
            .contains("no longer opens"),
        "{record}"
    );
    bed.emptied().await;
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forwards_end_with_the_right_to_them() {
    let bed = bed(Config::default()).await;
    let _guest = bed.machine("web").await;
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    let mut forward = bed.with_key("ssh");
    let listen = format!("127.0.0.1:{port}:127.0.0.1:22");
    forward.args(["-N", "-L", &listen, "-l", "web", "127.0.0.1"]);
    forward.stderr(Stdio::piped());
    let mut forward = tokio::process::Command::from(forward);
    let forward = Session(forward.kill_on_drop(true).spawn().unwrap());
    bed.records.find(|r| r["event"] == "login").await;
    while bed.sessions.list().iter().all(|it| it.login.is_none()) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    bed.table
        .change("web", |route| route.authorized_keys = Vec::new());
    let told = forward.ends().await;
    assert!(told.contains("no longer opens"), "{told}");
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_machine_under_the_name_ends_them_and_none_for_a_moment_does_not() {
    let bed = bed(Config::default()).await;
    let _guest = bed.machine("web").await;
    let mut session = Session::start(bed.with_key("ssh")).await;
    let route = bed.table.take("web");
    reviewed(&bed, 1).await;
    session.echoes().await;
    bed.table.set("web", route.clone());
    reviewed(&bed, 1).await;
    session.echoes().await;
    let mut other = route;
    other.uid = "2".to_owned();
    bed.table.set("web", other);
    let told = session.ends().await;
    assert!(told.contains("no longer leads to the VM"), "{told}");
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_does_nothing_and_who_stays_too_long_is_told_and_ended() {
    let idle = bed(Config {
        session_idle: IDLE,
        ..Config::default()
    })
    .await;
    let _guest = idle.machine("web").await;
    let quiet = Session::start(idle.with_key("ssh")).await;
    // A client that asks whether anybody is there sends nothing for its user.
    let mut warned = idle.with_key("ssh");
    warned.args(["-tt", "-o", "ServerAliveInterval=1"]);
    warned.args(["-l", "web", "127.0.0.1", "sleep 600"]);
    warned.stdin(Stdio::null()).stdout(Stdio::null());
    warned.stderr(Stdio::piped());
    let mut warned = tokio::process::Command::from(warned);
    let warned = Session(warned.kill_on_drop(true).spawn().unwrap());
    let mut busy = Session::start(idle.with_key("ssh")).await;
    let told = {
        let ended = quiet.ends();
        tokio::pin!(ended);
        loop {
            tokio::select! {
                told = &mut ended => break told,
                () = tokio::time::sleep(Duration::from_millis(300)) => busy.echoes().await,
            }
        }
    };
    let words = format!("nothing was sent either way for {} s", IDLE.as_secs());
    assert!(told.contains(&words), "{told}");
    busy.echoes().await;
    drop(busy);
    // On a terminal somebody reads it before it strikes.
    let told = warned.ends().await;
    let before = told.find("unless something is sent").unwrap();
    assert!(before < told.find(&words).unwrap(), "{told}");
    idle.end().await;

    let short = bed(Config {
        session_longest: Duration::from_secs(2),
        ..Config::default()
    })
    .await;
    let _guest = short.machine("web").await;
    let mut busy = bed_busy(&short);
    let told = loop {
        if busy.0.try_wait().unwrap().is_some() {
            break busy.ends().await;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    assert!(told.contains("as long as it may"), "{told}");
    short.end().await;
}

/// Somebody who is never idle.
fn bed_busy(bed: &Bed) -> Session {
    let mut client = bed.with_key("ssh");
    client.args(["-l", "web", "127.0.0.1", "cat /dev/zero"]);
    client.stdin(Stdio::null()).stdout(Stdio::null());
    client.stderr(Stdio::piped());
    let mut client = tokio::process::Command::from(client);
    Session(client.kill_on_drop(true).spawn().unwrap())
}
