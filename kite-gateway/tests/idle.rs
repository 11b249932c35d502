//! Thousands who have a session and do nothing in it. Alone in its process, as it measures the
//! gateway's memory; the clients and the machine are a process of their own.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::io::Write as _;
use std::process::Command;
use std::sync::Arc;

use common::beside::{Flood, WHOM};
use common::{Bed, Trusting, resident_kib, text};
use futures::StreamExt as _;
use kite_fake_kubevirt::guest::{Guest, GuestConfig};
use kite_gateway::Config;
use russh::client;
use russh::keys::{PrivateKey, PrivateKeyWithHashAlg, PublicKey};

const CONNECTIONS: usize = 2000;
/// A fortieth of what a jump host's sshd takes for each.
const MOST_KIB_EACH: u64 = 40;

/// The clients' process: [`WHOM`] names the gateway, the user's and the machine's key.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "started by the test below"]
async fn flood() {
    let told = std::env::var(WHOM).unwrap();
    let [gateway, user_key, vm_key] = told.split(' ').collect::<Vec<_>>()[..] else {
        panic!("{told}")
    };
    let key = Arc::new(PrivateKey::read_openssh_file(user_key).unwrap());
    let vm_key = PublicKey::read_openssh_file(vm_key).unwrap();
    let guest = GuestConfig::new("vm", "web", vec![vm_key]).unwrap();
    let guest = Guest::start(guest).await.unwrap();
    let host_key = guest.host_key().to_openssh().unwrap();
    println!("machine {} {host_key}", guest.address());
    let said = || std::io::stdin().read_line(&mut String::new());
    tokio::task::spawn_blocking(said).await.unwrap().unwrap();
    let config = Arc::new(client::Config {
        inactivity_timeout: None,
        ..client::Config::default()
    });
    let connect = async |number| {
        let mut handle = client::connect(Arc::clone(&config), gateway, Trusting)
            .await
            .unwrap();
        let key = PrivateKeyWithHashAlg::new(Arc::clone(&key), None);
        let result = handle.authenticate_publickey("web", key).await.unwrap();
        assert!(result.success());
        let channel = handle.channel_open_session().await.unwrap();
        channel.exec(true, "sleep 6000").await.unwrap();
        if number % 100 == 99 {
            println!("another hundred");
        }
        (handle, channel)
    };
    let numbers = futures::stream::iter(0..CONNECTIONS).map(connect);
    let connections: Vec<_> = numbers.buffer_unordered(16).collect().await;
    println!("all are in: {}", connections.len());
    // Until the test is gone.
    tokio::task::spawn_blocking(said).await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_thousand_idle_connections_cost_little() {
    // Each has one to its machine, too.
    let needed = 2 * CONNECTIONS + 500;
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
    let (user_key, vm_key) = (bed.path("key"), bed.path("vm_key.pub"));
    std::fs::write(&vm_key, bed.vm_key.public_key().to_openssh().unwrap()).unwrap();
    let (user_key, vm_key) = (user_key.display(), vm_key.display());
    let mut clients = Flood::start(&format!("{} {user_key} {vm_key}", bed.address));
    let machine = clients.line("machine ").await;
    let (address, host_key) = machine.split_once(' ').unwrap();
    let host_key = PublicKey::from_openssh(host_key).unwrap();
    let route = bed.route("web", address.parse().unwrap(), "web", host_key);
    bed.table.set("web", route);
    assert_eq!(text(&bed.ssh("web", "echo in").await.stdout), "in\n");
    bed.emptied().await;
    let before = resident_kib();

    clients.go_on().await;
    for _ in 0..CONNECTIONS / 100 {
        clients.line("another hundred").await;
    }
    assert_eq!(clients.line("all are in: ").await, CONNECTIONS.to_string());
    let in_now = bed.sessions.list();
    assert_eq!(in_now.len(), CONNECTIONS);
    assert!(in_now.iter().all(|s| s.login.is_some() && s.channels == 1));
    let each = resident_kib().saturating_sub(before) / CONNECTIONS as u64;
    eprintln!("{each} KiB of resident memory for each of {CONNECTIONS} idle sessions");
    assert!(each < MOST_KIB_EACH, "{each} KiB");

    // Somebody else still gets in, and the list is told while they are there.
    assert_eq!(text(&bed.ssh("web", "echo in").await.stdout), "in\n");
    clients.end().await;
    bed.emptied().await;
}
