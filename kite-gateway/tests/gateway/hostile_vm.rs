//! A machine that does what nobody asked it for.

use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::common::{Bed, Sshd, new_key, run, text};
use russh::keys::{PrivateKey, PublicKey};
use russh::server::{self, Auth, ChannelOpenHandle, Msg, Session, VerifiedPublicKey};
use russh::{Channel, ChannelId};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};

/// Opens every kind of channel towards the user as soon as a command comes, and
/// tells by the exit status how many were taken.
struct Prying;

impl server::Handler for Prying {
    type Error = russh::Error;

    async fn auth_publickey(
        &mut self,
        _: &str,
        _: VerifiedPublicKey<'_>,
    ) -> Result<Auth, Self::Error> {
        Ok(Auth::Accept)
    }

    async fn channel_open_session(
        &mut self,
        channel: Channel<Msg>,
        reply: ChannelOpenHandle,
        _: &mut Session,
    ) -> Result<(), Self::Error> {
        // Nothing is read of it.
        drop(channel);
        reply.accept().await;
        Ok(())
    }

    async fn exec_request(
        &mut self,
        id: ChannelId,
        _: &[u8],
        session: &mut Session,
    ) -> Result<(), Self::Error> {
        session.channel_success(id)?;
        let handle = session.handle();
        tokio::spawn(async move {
            let opened = [
                handle.channel_open_agent().await.is_ok(),
                handle.channel_open_x11("127.0.0.1", 6000).await.is_ok(),
                handle
                    .channel_open_forwarded_tcpip("localhost", 80, "127.0.0.1", 4711)
                    .await
                    .is_ok(),
                handle
                    .channel_open_forwarded_streamlocal("/run/socket")
                    .await
                    .is_ok(),
            ];
            let taken = opened.iter().filter(|it| **it).count();
            let _ = handle.eof(id).await;
            let status = u32::try_from(taken).unwrap();
            let _ = handle.exit_status_request(id, status).await;
            let _ = handle.close(id).await;
        });
        Ok(())
    }
}

/// Serves it; gives where, and its host key.
async fn prying_vm() -> (std::net::SocketAddr, PublicKey) {
    let key: PrivateKey = new_key();
    let public = key.public_key().clone();
    let config = Arc::new(server::Config {
        keys: vec![key],
        auth_rejection_time: Duration::ZERO,
        ..server::Config::default()
    });
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let config = Arc::clone(&config);
            tokio::spawn(async move {
                if let Ok(session) = server::run_stream(config, stream, Prying).await {
                    let _ = session.await;
                }
            });
        }
    });
    (address, public)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_gets_at_nothing_of_its_user_unasked() {
    let bed = Bed::new().await;
    let (address, key) = prying_vm().await;
    bed.table.set("web", bed.route("web", address, "web", key));
    let output = bed.ssh("web", "anything").await;
    let told = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "channels taken: {told}");
    // OpenSSH's client would say so if one had come as far as to it.
    assert!(!told.contains("Warning"), "{told}");
}

/// Connections that come by a remote forward and are reset while their bytes still
/// come leave nothing behind that holds up the others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_remote_forward_outlives_connections_that_are_reset() {
    let bed = Bed::new().await;
    let Some(sshd) = Sshd::start(&bed, "").await else {
        return;
    };
    sshd.behind(&bed, "web");
    // The user's side reads a little of each connection and resets it.
    let near = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let near_port = near.local_addr().unwrap().port();
    let taken = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&taken);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = near.accept().await {
            count.fetch_add(1, Ordering::Relaxed);
            tokio::spawn(async move {
                use tokio::io::AsyncReadExt;
                let mut some = [0; 1000];
                let _ = stream.read(&mut some).await;
                let _ = socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO));
            });
        }
    });
    let mut client = bed.with_key("ssh");
    client.args(["-N", "-o", "ExitOnForwardFailure=yes"]);
    client.args(["-R", &format!("127.0.0.1:0:127.0.0.1:{near_port}")]);
    client.args(["-l", "web", "127.0.0.1"]);
    client.stderr(Stdio::piped());
    let mut client = tokio::process::Command::from(client)
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    // "Allocated port 12345 for remote forward to 127.0.0.1:..."
    let mut lines = BufReader::new(client.stderr.take().unwrap()).lines();
    let far_port: u16 = loop {
        let line = lines.next_line().await.unwrap().expect("a port");
        if let Some(rest) = line.strip_prefix("Allocated port ") {
            break rest.split(' ').next().unwrap().parse().unwrap();
        }
    };
    // What else it says holds up nothing.
    tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
    // In the VM, which is this machine: programs that write until they are reset.
    for round in 0..400_usize {
        let writing = async {
            use tokio::io::AsyncWriteExt;
            let connecting = TcpStream::connect(("127.0.0.1", far_port));
            let mut stream = connecting.await.unwrap();
            let data = vec![7; 64 * 1024];
            while stream.write_all(&data).await.is_ok() {}
        };
        let done = tokio::time::timeout(Duration::from_secs(60), writing).await;
        assert!(done.is_ok(), "the forward hangs at connection {round}");
    }
    assert!(taken.load(Ordering::Relaxed) >= 400);
    client.kill().await.unwrap();
    let output = run(
        {
            let mut client = bed.with_key("ssh");
            client.args(["-l", "web", "127.0.0.1", "echo in"]);
            client
        },
        Vec::new(),
    )
    .await;
    assert_eq!(text(&output.stdout), "in\n");
}
