//! Who asks for news and reads none holds no more of the server's memory than one account
//! may, and others have their news, their answers and their consoles beside it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::print_stderr
)]

mod floods;

use futures::future::join_all;
use tokio::{io::AsyncWriteExt as _, net::TcpStream};

use self::floods::{
    Endless, OF_HTTP1, Stage, ask_for_news, begin, go_on, read, resident, start_flood, until, whom,
};

/// For consoles and streams.
const BUDGET: usize = 64 << 20;
/// Streams of the flood: more than an account may have.
const STREAMS: usize = 40;
/// VMs of each account, and the keys of each: a snapshot of them is six megabytes, which
/// is more than the sockets of the system take off the server's hands.
const VMS: usize = 24;
const KEYS: usize = 31;
const KEY: usize = 8000;
/// What the rest may grow by: the cluster in memory, and what answers are made of, which
/// allocators do not give back at once.
const WORK: usize = 48 << 20;

/// The flood, where it is started with whom to flood.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "is started by the other test"]
async fn flood() {
    let Some((address, token)) = whom() else {
        return;
    };
    let said = ask_for_news(&token);
    let kept = join_all((0..STREAMS).map(|_| begin(address, &said))).await;
    let mut served = kept.iter().flatten();
    assert!(served.any(|(_, status)| *status == 200));
    go_on(kept).await;
}

async fn furnish(stage: &Stage, owner: &str, token: &str) {
    stage.furnish(owner, token, [VMS, KEYS, KEY]).await;
    stage.vm(owner, token, "small", Vec::new()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_reads_no_news_holds_up_nobody() {
    let stage = Stage::new(|builder| builder.stream_memory(BUDGET).terminals(Endless)).await;
    let (ann, bob) = (stage.sign_in("ann").await, stage.sign_in("bob").await);
    furnish(&stage, "ann", &ann).await;
    furnish(&stage, "bob", &bob).await;
    stage.answers(&bob).await;
    let before = resident();

    let mut flood = start_flood(stage.address, &ann).await;
    // He is let in beside it, and is told everything.
    let mut news = TcpStream::connect(stage.address).await.unwrap();
    news.write_all(&ask_for_news(&bob)).await.unwrap();
    until(&mut news, b"event: snapshot\n").await;
    let mut console = stage.terminal(&bob, "small").await;

    let bound = BUDGET + (STREAMS + 2) * OF_HTTP1 + WORK;
    let mut most = 0;
    for round in 0..20 {
        for n in 0..5 {
            stage.touch("ann", "small", 2 + (5 * round + n) % 8).await;
        }
        stage.touch("bob", "small", 2 + round % 8).await;
        until(&mut news, b"event: vm\n").await;
        read(&mut console, 64 * 1024).await;
        stage.answers(&bob).await;
        most = most.max(resident().saturating_sub(before));
    }
    assert!(flood.try_wait().unwrap().is_none(), "the flood has ended");
    eprintln!("grew by {} MiB of {}", most >> 20, bound >> 20);
    assert!(most < bound, "{} MiB of {}", most >> 20, bound >> 20);
    flood.kill().await.unwrap();
    stage.stop.cancel();
}
