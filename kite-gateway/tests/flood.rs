//! What one owner's sessions take of the gateway's memory, that nothing is lost for it,
//! and that others type and log in beside them as beside nobody. Alone in its process, as it
//! watches the whole of it; the clients and the machines are a process of their own.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)]

mod common;

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use common::beside::{Bystanders, Flood, WHOM};
use common::{Bed, Trusting, resident, text};
use kite_fake_kubevirt::guest::{Guest, GuestConfig};
use kite_gateway::Config;
use mimalloc::MiMalloc;
use russh::client::{self, Handle};
use russh::keys::{PrivateKey, PrivateKeyWithHashAlg, PublicKey};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};

/// As the gateway's process has it.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// What the gateway may keep between users and machines, in MiB: for each connection 128 KiB
/// and a packet each way, and what has come of the next packets.
const MOST: u64 = 64;
/// Connections of the flood, as many as a machine may have, and the channels of each.
const CONNECTIONS: usize = 64;
const CHANNELS: usize = 16;
/// The window of each channel.
const WINDOW: u32 = 128 * 1024;

/// Who measures the process's memory has the process alone.
static ALONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// A stream that is not read any more once it is told so.
struct Deaf<S> {
    inner: S,
    is_deaf: Arc<AtomicBool>,
}

impl<S: AsyncRead + Unpin> AsyncRead for Deaf<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        if self.is_deaf.load(Ordering::Relaxed) {
            return Poll::Pending;
        }
        Pin::new(&mut self.inner).poll_read(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Deaf<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

/// A client that does not open its windows again.
struct Stingy;

impl client::Handler for Stingy {
    type Error = russh::Error;

    async fn check_server_key(
        &mut self,
        _: &russh::keys::PublicKeyOrCertificate,
    ) -> Result<bool, russh::Error> {
        Ok(true)
    }

    fn adjust_window(&mut self, _: russh::ChannelId, _: u32) -> u32 {
        2
    }
}

async fn log_in<H: client::Handler<Error = russh::Error> + 'static>(
    gateway: &str,
    key: &Arc<PrivateKey>,
    login: &str,
    handler: H,
    is_deaf: &Arc<AtomicBool>,
) -> Handle<H> {
    let config = Arc::new(client::Config {
        inactivity_timeout: None,
        window_size: WINDOW,
        ..client::Config::default()
    });
    let stream = Deaf {
        inner: TcpStream::connect(gateway).await.unwrap(),
        is_deaf: Arc::clone(is_deaf),
    };
    let mut handle = client::connect_stream(config, stream, handler)
        .await
        .unwrap();
    let key = PrivateKeyWithHashAlg::new(Arc::clone(key), None);
    let result = handle.authenticate_publickey(login, key).await.unwrap();
    assert!(result.success());
    handle
}

/// Hands a machine's connections on, until nothing of the gateway's is read any more.
async fn between(machine: SocketAddr, is_deaf: Arc<AtomicBool>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let is_deaf = Arc::clone(&is_deaf);
            tokio::spawn(async move {
                let mut there = TcpStream::connect(machine).await.unwrap();
                let mut here = Deaf {
                    inner: stream,
                    is_deaf,
                };
                let _ = tokio::io::copy_bidirectional(&mut here, &mut there).await;
            });
        }
    });
    address
}

/// The flood's process: [`WHOM`] names the gateway, the user's and the machine's key, and
/// what to do.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "started by the tests below"]
async fn flood() {
    let told = std::env::var(WHOM).unwrap();
    let [gateway, user_key, vm_key, what] = told.split(' ').collect::<Vec<_>>()[..] else {
        panic!("{told}")
    };
    let key = Arc::new(PrivateKey::read_openssh_file(user_key).unwrap());
    let vm_key = PublicKey::read_openssh_file(vm_key).unwrap();
    let config = GuestConfig::new("vm", "web", vec![vm_key]).unwrap();
    let guest = Guest::start(config).await.unwrap();
    let (deaf_user, deaf_machine) = (Arc::default(), Arc::default());
    let address = between(guest.address(), Arc::clone(&deaf_machine)).await;
    let host_key = guest.host_key().to_openssh().unwrap();
    println!("machine {address} {host_key}");
    let (say, mut said) = tokio::sync::mpsc::unbounded_channel();
    std::thread::spawn(move || {
        let lines = std::io::stdin().lines();
        lines.map_while(Result::ok).all(|_| say.send(()).is_ok())
    });
    said.recv().await.unwrap();

    let command = if what.starts_with("down") {
        "cat /dev/zero"
    } else {
        "sleep 6000"
    };
    let (mut handles, mut kept, mut refused) = (Vec::new(), Vec::new(), 0);
    let sent = Arc::new(AtomicUsize::new(0));
    for _ in 0..CONNECTIONS {
        let handle = log_in(gateway, &key, "web", Stingy, &deaf_user).await;
        for _ in 0..CHANNELS {
            match handle.channel_open_session().await {
                Ok(channel) => kept.push(channel.split().1),
                Err(russh::Error::ChannelOpenFailure(_)) => refused += 1,
                Err(error) => panic!("{error}"),
            }
        }
        handles.push(handle);
    }
    for channel in &kept {
        channel.exec(true, command).await.unwrap();
    }
    println!("open {} refused {refused}", kept.len());
    said.recv().await.unwrap();
    deaf_user.store(what == "down-deaf", Ordering::Relaxed);
    deaf_machine.store(what == "up-deaf", Ordering::Relaxed);
    let count = kept.len();
    if what.starts_with("up") {
        for channel in kept.drain(..) {
            let sent = Arc::clone(&sent);
            tokio::spawn(async move {
                while channel.data_bytes(vec![0; 32 * 1024]).await.is_ok() {
                    sent.fetch_add(32 * 1024, Ordering::Relaxed);
                }
            });
        }
    }
    // Until the test is gone.
    while said.recv().await.is_some() {
        println!("sent {} on {count}", sent.load(Ordering::Relaxed));
    }
}

/// Starts the flood's process, and puts its machine behind the login name `web`.
async fn start_flood(bed: &Bed, what: &str) -> Flood {
    let (user_key, vm_key) = (bed.path("key"), bed.path("vm_key.pub"));
    std::fs::write(&vm_key, bed.vm_key.public_key().to_openssh().unwrap()).unwrap();
    let (user_key, vm_key) = (user_key.display(), vm_key.display());
    let mut flood = Flood::start(&format!("{} {user_key} {vm_key} {what}", bed.address));
    let machine = flood.line("machine ").await;
    let (address, host_key) = machine.split_once(' ').unwrap();
    let host_key = PublicKey::from_openssh(host_key).unwrap();
    let route = bed.route("web", address.parse().unwrap(), "web", host_key);
    bed.table.set("web", route);
    flood
}

/// Bytes that bob's machine sends, and that he sends it.
const CARRIED: usize = 1024 * 1024;

/// Bob's session goes on beside it, both ways.
async fn bob_works(bed: &Bed) {
    let mut up = bed.with_key("ssh");
    up.args(["-l", "bob", "127.0.0.1", "wc -c"]);
    let output = common::run(up, vec![7; CARRIED]).await;
    assert_eq!(text(&output.stdout).trim(), CARRIED.to_string());
    let mut down = bed.with_key("ssh");
    down.args([
        "-l",
        "bob",
        "127.0.0.1",
        &format!("head -c {CARRIED} /dev/zero"),
    ]);
    let output = common::run(down, Vec::new()).await;
    assert_eq!(output.stdout.len(), CARRIED);
}

/// `before` is what the process took before the first flood: what it once took it may
/// keep, and so each is held against that.
async fn takes_little(what: &str, before: &mut Option<u64>) {
    let bed = Bed::with(Config {
        drain_grace: Duration::ZERO,
        ..Config::default()
    })
    .await;
    let _guest = bed.machine("bob").await;
    bed.table
        .change("bob", |route| route.owner = Some("bob".to_owned()));
    bob_works(&bed).await;
    let mut others = Bystanders::come(&bed, "bob").await;
    let before = *before.get_or_insert_with(resident);
    let mut flood = start_flood(&bed, what).await;
    flood.go_on().await;
    let open = flood.line("open ").await;
    let (open, refused) = open.split_once(" refused ").unwrap();
    let (open, refused): (u64, u64) = (open.parse().unwrap(), refused.parse().unwrap());
    // Channels cost next to nothing, whoever reads them.
    assert_eq!((open, refused), ((CONNECTIONS * CHANNELS) as u64, 0));
    flood.go_on().await;
    // Until it does not grow any more.
    let (mut most, mut rounds) = (0, 0);
    while rounds < 3 {
        bob_works(&bed).await;
        others.go_on().await;
        rounds = if resident() > most { 0 } else { rounds + 1 };
        most = most.max(resident());
    }
    let grown = most.saturating_sub(before);
    if what.starts_with("up") {
        flood.go_on().await;
        let sent = flood.line("sent ").await;
        eprintln!("{what}: sent {sent}");
    }
    eprintln!("{what}: {open} channels, resident memory grew by {grown} MiB");
    assert!(grown < MOST, "{what}: {grown} MiB");

    // Whoever hangs up leaves nothing behind.
    flood.end().await;
    others.were_not_slowed().await;
    bed.emptied().await;
    bob_works(&bed).await;
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unread_channels_take_next_to_no_memory() {
    let _alone = ALONE.lock().await;
    // Windows that are not opened again; sockets that are not read; each way.
    let mut before = None;
    for what in ["down", "down-deaf", "up", "up-deaf"] {
        takes_little(what, &mut before).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_nobody_reads_yet_waits_and_arrives_whole() {
    const UPLOADS: usize = 24;
    // As much as the first window of a channel lets a client send at once, and more.
    const EACH: usize = 2 * 1024 * 1024;
    let _alone = ALONE.lock().await;
    let bed = Bed::new().await;
    let _guest = bed.machine("web").await;
    let key = Arc::new(bed.user_key.clone());
    let gateway = bed.address.to_string();
    let handle = log_in(&gateway, &key, "web", Trusting, &Arc::default()).await;
    let mut uploads = Vec::new();
    for _ in 0..UPLOADS {
        let mut channel = handle.channel_open_session().await.unwrap();
        channel.exec(true, "sleep 2; wc -c").await.unwrap();
        uploads.push(tokio::spawn(async move {
            for _ in 0..EACH / (32 * 1024) {
                channel.data_bytes(vec![0; 32 * 1024]).await.unwrap();
            }
            channel.eof().await.unwrap();
            let mut printed = Vec::new();
            while let Some(message) = channel.wait().await {
                if let russh::ChannelMsg::Data { data } = message {
                    printed.extend_from_slice(&data);
                }
            }
            text(&printed).trim().to_owned()
        }));
    }
    for upload in uploads {
        assert_eq!(upload.await.unwrap(), EACH.to_string());
    }
    // The gateway would wait for who is still connected.
    drop(handle);
    bed.emptied().await;
    bed.end().await;
}
