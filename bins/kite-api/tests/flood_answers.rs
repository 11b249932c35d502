//! Who asks for long lists and reads none holds no more of the server's memory than one
//! account may, and others have their answers beside it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::print_stderr
)]

mod floods;

use std::{net::SocketAddr, time::Duration};

use futures::future::join_all;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpSocket, TcpStream},
};

use self::floods::{
    OF_HTTP1, Stage, ask, assert_not_slowed, go_on, median_of, resident, start_flood, whom,
};

/// For answers.
const BUDGET: usize = 32 << 20;
/// Connections of the flood.
const CONNECTIONS: usize = 60;
/// VMs of each account, and the keys of each: a page of them is four megabytes.
const VMS: usize = 24;
const KEYS: usize = 31;
const KEY: usize = 8000;
/// What the rest may grow by: the cluster in memory, and what answers are made of, which
/// allocators do not give back at once.
const WORK: usize = 48 << 20;

/// Asks for a list and hears which status it has. Nothing more is read, and the system
/// takes little of it off the server's hands.
async fn begin(address: SocketAddr, token: &str) -> Option<(TcpStream, u16)> {
    let socket = TcpSocket::new_v4().ok()?;
    socket.set_recv_buffer_size(4096).ok()?;
    let mut client = socket.connect(address).await.ok()?;
    let asked = format!(
        "GET /api/v1/vms?limit=1000 HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {token}\r\n\r\n"
    );
    client.write_all(asked.as_bytes()).await.ok()?;
    let mut line = [0; 12];
    client.read_exact(&mut line).await.ok()?;
    let status = std::str::from_utf8(&line[9..]).ok()?.parse().ok()?;
    Some((client, status))
}

/// Asks again and again, until there is an answer that is not read.
async fn insist(address: SocketAddr, token: String) {
    loop {
        if let Some((_unread, 200)) = begin(address, &token).await {
            // Until it is given up.
            tokio::time::sleep(Duration::from_secs(600)).await;
        }
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
}

/// The flood, where it is started with whom to flood.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "is started by the other test"]
async fn flood() {
    let Some((address, token)) = whom() else {
        return;
    };
    let kept = join_all((0..CONNECTIONS).map(|_| begin(address, &token))).await;
    let statuses: Vec<_> = kept.iter().flatten().map(|(_, status)| *status).collect();
    assert!(statuses.contains(&200), "{statuses:?}");
    assert!(statuses.contains(&429), "{statuses:?}");
    for _ in 0..CONNECTIONS {
        tokio::spawn(insist(address, token.clone()));
    }
    go_on(kept).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_reads_no_answers_holds_up_nobody() {
    let stage = Stage::new(|builder| builder.answer_memory(BUDGET)).await;
    let (ann, bob) = (stage.sign_in("ann").await, stage.sign_in("bob").await);
    stage.furnish("ann", &ann, [VMS, KEYS, KEY]).await;
    stage.furnish("bob", &bob, [VMS, KEYS, KEY]).await;
    let list = format!("GET /api/v1/vms?limit=1000 HTTP/1.1\r\nAuthorization: Bearer {bob}");
    let reads_a_list = async || {
        let (status, answer) = ask(stage.address, &list, "").await;
        assert_eq!(status, 200, "{answer}");
        // A page ends before it is of any size.
        let items = answer["items"].as_array().unwrap().len();
        assert!((1..VMS).contains(&items), "{items}");
        assert!(answer["next"].is_string());
    };
    reads_a_list().await;
    let quiet = stage.quiet_answer(&bob).await;
    let before = resident();

    let mut flood = start_flood(stage.address, &ann).await;
    let bound = BUDGET + 2 * CONNECTIONS * OF_HTTP1 + WORK;
    let mut most = 0;
    let beside = median_of(20, async || {
        stage.answers(&bob).await;
        most = most.max(resident().saturating_sub(before));
    })
    .await;
    for _ in 0..5 {
        reads_a_list().await;
        most = most.max(resident().saturating_sub(before));
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    assert!(flood.try_wait().unwrap().is_none(), "the flood has ended");
    eprintln!("grew by {} MiB of {}", most >> 20, bound >> 20);
    assert!(most < bound, "{} MiB of {}", most >> 20, bound >> 20);
    flood.kill().await.unwrap();
    let quiet = [quiet, stage.quiet_answer(&bob).await];
    let answer = Duration::from_millis(20);
    assert_not_slowed("an answer", beside, quiet, answer, 50);
    stage.stop.cancel();
}
