//! Thousands who are logged in and do nothing. Alone in its process, as it
//! measures the gateway's memory; the clients are a process of their own.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::io::Write as _;
use std::process::{Command, Stdio};
use std::sync::Arc;

use common::{Bed, Trusting, resident_kib, text};
use futures::StreamExt as _;
use kite_gateway::Config;
use russh::client;
use russh::keys::{PrivateKey, PrivateKeyWithHashAlg};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

const CONNECTIONS: usize = 2000;
/// A tenth of what a jump host's sshd takes for each.
const MOST_KIB_EACH: u64 = 140;

/// The clients' process: `KITE_TEST_CLIENTS` names the gateway and the key.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "started by the test below"]
#[allow(clippy::async_yields_async, reason = "a handle is kept, not awaited")]
async fn clients() {
    let told = std::env::var("KITE_TEST_CLIENTS").unwrap();
    let (address, key) = told.split_once(' ').unwrap();
    let key = Arc::new(PrivateKey::read_openssh_file(key).unwrap());
    let config = Arc::new(client::Config {
        inactivity_timeout: None,
        ..client::Config::default()
    });
    let connect = async |_| {
        let mut handle = client::connect(Arc::clone(&config), address, Trusting)
            .await
            .unwrap();
        let key = PrivateKeyWithHashAlg::new(Arc::clone(&key), None);
        let result = handle.authenticate_publickey("web", key).await.unwrap();
        assert!(result.success());
        handle
    };
    let numbers = futures::stream::iter(0..CONNECTIONS).map(connect);
    let connections: Vec<_> = numbers.buffer_unordered(16).collect().await;
    println!("all {} are in", connections.len());
    // Until the test says so, or is gone.
    let said = || std::io::stdin().read_line(&mut String::new());
    tokio::task::spawn_blocking(said).await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_thousand_idle_connections_cost_little() {
    let needed = CONNECTIONS + 500;
    let raised = Command::new("prlimit")
        .args(["--pid", &std::process::id().to_string()])
        .arg(format!("--nofile={needed}:"))
        .status();
    if !raised.is_ok_and(|status| status.success()) {
        let _ = writeln!(
            std::io::stderr(),
            "SKIPPED: this machine does not let a process have {needed} open files"
        );
        return;
    }
    let bed = Bed::with(Config {
        max_connections_per_address: CONNECTIONS + 10,
        max_startups_per_address: 20,
        max_connections_per_vm: CONNECTIONS + 10,
        max_connections_per_owner: CONNECTIONS + 10,
        ..Config::default()
    })
    .await;
    let _guest = bed.machine("web").await;
    assert_eq!(text(&bed.ssh("web", "echo in").await.stdout), "in\n");
    bed.emptied().await;
    let before = resident_kib();

    let mut clients = Command::new(std::env::current_exe().unwrap());
    clients
        .args(["--exact", "clients", "--ignored", "--nocapture"])
        .env(
            "KITE_TEST_CLIENTS",
            format!("{} {}", bed.address, bed.path("key").display()),
        )
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut clients = tokio::process::Command::from(clients).spawn().unwrap();
    let mut lines = BufReader::new(clients.stdout.take().unwrap()).lines();
    while let Some(line) = lines.next_line().await.unwrap() {
        if line.contains("are in") {
            break;
        }
    }
    let in_now = bed.sessions.list();
    assert_eq!(in_now.len(), CONNECTIONS);
    assert!(in_now.iter().all(|s| s.login.is_some()));
    let each = resident_kib().saturating_sub(before) / CONNECTIONS as u64;
    eprintln!("{each} KiB of resident memory for each of {CONNECTIONS} idle connections");
    assert!(each < MOST_KIB_EACH, "{each} KiB");

    // Somebody else still gets in, and the list is told while they are there.
    assert_eq!(text(&bed.ssh("web", "echo in").await.stdout), "in\n");

    let mut pipe = clients.stdin.take().unwrap();
    pipe.write_all(b"\n").await.unwrap();
    drop(pipe);
    assert!(clients.wait().await.unwrap().success());
    bed.emptied().await;
}
