//! OpenSSH's client, by the proxy beside the same without it.

use std::net::SocketAddr;
use std::os::unix::ffi::OsStrExt as _;
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, Command};

use crate::proxy::{Proxy, Setting, has_openssh};

/// A client that ends with this.
fn ssh(proxy: &Proxy, to: SocketAddr, options: &[&str]) -> Command {
    let known = if to == proxy.address {
        "host.pub"
    } else {
        "vm_host.pub"
    };
    let key = std::fs::read_to_string(proxy.path(known)).unwrap();
    let known = proxy.path(&format!("known-{}", to.port()));
    if !known.exists() {
        std::fs::write(&known, format!("[127.0.0.1]:{} {key}", to.port())).unwrap();
    }
    let mut command = Command::new("ssh");
    command
        .args([
            "-F",
            "/dev/null",
            "-o",
            "BatchMode=yes",
            "-o",
            "IdentitiesOnly=yes",
        ])
        .args(["-o", "LogLevel=INFO", "-o", "ConnectTimeout=20"])
        .args(["-o", &format!("UserKnownHostsFile={}", known.display())])
        .arg("-i")
        .arg(proxy.path("user"))
        .args(["-p", &to.port().to_string()])
        .args(options)
        .arg("root@127.0.0.1")
        .env_remove("SSH_AUTH_SOCK")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    command
}

async fn within(seconds: u64, command: &mut Command) -> Output {
    let output = tokio::time::timeout(Duration::from_secs(seconds), command.output());
    output.await.unwrap().unwrap()
}

/// The same by the proxy and without it: the same end and the same bytes.
async fn alike(proxy: &Proxy, options: &[&str], remote: &str) -> Output {
    let mut outputs = Vec::new();
    for to in [proxy.address, proxy.direct] {
        let mut command = ssh(proxy, to, options);
        outputs.push(within(30, command.arg(remote)).await);
    }
    let [by_proxy, direct] = outputs.try_into().unwrap();
    assert_eq!(by_proxy.status.code(), direct.status.code(), "{by_proxy:?}");
    assert_eq!(by_proxy.stdout, direct.stdout);
    let lines = |output: &Output| String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(lines(&by_proxy), lines(&direct));
    by_proxy
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commands_end_as_they_do_without() {
    if !has_openssh() {
        return;
    }
    let proxy = Proxy::start(Setting::default()).await;
    for remote in [
        "echo out; echo err >&2; exit 7",
        "kill -9 $$",
        "head -c 3000000 /dev/zero | sha256sum",
        "printf 'caf\\351'",
        "not-a-command",
    ] {
        alike(&proxy, &[], remote).await;
    }
    let told = alike(&proxy, &["-w", "5:5"], "echo session alive").await;
    assert_eq!(told.stdout, b"session alive\n");
    // A byte that is no UTF-8.
    let mut command = ssh(&proxy, proxy.address, &["-o", "SendEnv=LC_X"]);
    command.env("LC_X", std::ffi::OsStr::from_bytes(b"caf\xe9"));
    assert!(within(20, command.arg("true")).await.status.success());
}

/// Runs a shell here that pipes to and from a client.
async fn shell(proxy: &Proxy, to: SocketAddr, text: &str) -> (Output, Duration) {
    let command = ssh(proxy, to, &[]);
    let std = command.as_std();
    let mut words = vec!["ssh".to_owned()];
    words.extend(std.get_args().map(|it| it.to_string_lossy().into_owned()));
    let began = Instant::now();
    let mut shell = Command::new("bash");
    shell
        .args([
            "-o",
            "pipefail",
            "-c",
            &text.replace("SSH", &words.join(" ")),
        ])
        .env_remove("SSH_AUTH_SOCK")
        .stdin(Stdio::null())
        .kill_on_drop(true);
    (within(40, &mut shell).await, began.elapsed())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_stops_reading_ends_the_command() {
    if !has_openssh() {
        return;
    }
    let proxy = Proxy::start(Setting::default()).await;
    for text in [
        "SSH yes | head -1",
        "SSH cat < /dev/zero | head -c 100 | wc -c",
        "yes | SSH true",
    ] {
        let (by_proxy, time) = shell(&proxy, proxy.address, text).await;
        let (direct, direct_time) = shell(&proxy, proxy.direct, text).await;
        assert_eq!(by_proxy.status, direct.status, "{text}: {by_proxy:?}");
        assert_eq!(by_proxy.stdout, direct.stdout);
        eprintln!("{text}: {time:?}, direct {direct_time:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_change_under_load_both_ways() {
    if !has_openssh() {
        return;
    }
    let setting = Setting {
        rekey_after: Some(64 * 1024),
        options: vec!["RekeyLimit=64K"],
        ..Setting::default()
    };
    let proxy = Proxy::start(setting).await;
    let text = "head -c 20000000 /dev/zero | SSH -v cat | sha256sum";
    let (output, _) = shell(&proxy, proxy.address, text).await;
    let (expected, _) = shell(
        &proxy,
        proxy.direct,
        "head -c 20000000 /dev/zero | sha256sum",
    )
    .await;
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}");
    assert_eq!(output.stdout, expected.stdout);
    // Both ways some three hundred times 64 KiB pass, and packets that are on their way.
    let changes = told.matches("SSH2_MSG_NEWKEYS received").count();
    assert!(changes > 20, "keys were changed {changes} times");
}

fn forwarding(proxy: &Proxy, to: SocketAddr, options: &[&str]) -> Child {
    let mut options: Vec<_> = options.to_vec();
    options.extend(["-N", "-o", "ExitOnForwardFailure=yes"]);
    ssh(proxy, to, &options).spawn().unwrap()
}

fn free_port() -> u16 {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    free.local_addr().unwrap().port()
}

async fn connect(port: u16) -> tokio::net::TcpStream {
    let connecting = async {
        loop {
            match tokio::net::TcpStream::connect(("127.0.0.1", port)).await {
                Ok(stream) => return stream,
                Err(_) => tokio::time::sleep(Duration::from_millis(25)).await,
            }
        }
    };
    let connected = tokio::time::timeout(Duration::from_secs(10), connecting);
    connected.await.unwrap()
}

/// A server that sends back what it gets, after a while.
async fn echo(pause: Duration) -> u16 {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                tokio::time::sleep(pause).await;
                let (mut from, mut to) = stream.split();
                let _ = tokio::io::copy(&mut from, &mut to).await;
            });
        }
    });
    port
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_channels_at_once_and_slow_readers() {
    if !has_openssh() {
        return;
    }
    let proxy = Proxy::start(Setting::default()).await;
    let (port, slow) = (free_port(), echo(Duration::from_secs(2)).await);
    let forward = format!("{port}:127.0.0.1:{slow}");
    let _ssh = forwarding(&proxy, proxy.address, &["-L", &forward]);
    drop(connect(port).await);
    let mut all = tokio::task::JoinSet::new();
    for number in 0..100_u8 {
        all.spawn(async move {
            let mut stream = connect(port).await;
            let sent = vec![number; 300_000];
            let (mut from, mut to) = stream.split();
            let mut got = Vec::new();
            let writing = async {
                to.write_all(&sent).await.unwrap();
                to.shutdown().await.unwrap();
            };
            let ((), read) = tokio::join!(writing, from.read_to_end(&mut got));
            read.unwrap();
            assert_eq!(got.len(), sent.len());
            assert!(got.iter().all(|byte| *byte == number));
        });
    }
    while let Some(done) = all.join_next().await {
        done.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ports_are_forwarded_back_and_the_reason_of_a_refusal_comes() {
    if !has_openssh() {
        return;
    }
    let proxy = Proxy::start(Setting::default()).await;
    let (back, echoes) = (free_port(), echo(Duration::ZERO).await);
    let forward = format!("{back}:127.0.0.1:{echoes}");
    let mut child = forwarding(&proxy, proxy.address, &["-R", &forward]);
    let mut stream = connect(back).await;
    stream.write_all(b"there").await.unwrap();
    let mut got = [0; 5];
    stream.read_exact(&mut got).await.unwrap();
    assert_eq!(&got, b"there");
    child.kill().await.unwrap();

    let closed = free_port();
    let mut texts = Vec::new();
    for to in [proxy.address, proxy.direct] {
        let options = ["-W", &format!("127.0.0.1:{closed}")];
        let output = within(20, &mut ssh(&proxy, to, &options)).await;
        texts.push(String::from_utf8(output.stderr).unwrap());
    }
    assert!(texts[0].contains("Connection refused"), "{}", texts[0]);
    let first = |text: &str| text.lines().next().map(str::to_owned);
    assert_eq!(first(&texts[0]), first(&texts[1]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_said_before_the_server_is_there_waits() {
    if !has_openssh() {
        return;
    }
    let late = Setting {
        late: Duration::from_secs(3),
        ..Setting::default()
    };
    let proxy = Proxy::start(late).await;
    // A client that asks whether anybody is there meanwhile.
    let options = ["-o", "ServerAliveInterval=1", "-o", "ServerAliveCountMax=2"];
    let mut command = ssh(&proxy, proxy.address, &options);
    let output = within(20, command.arg("echo there; exit 3")).await;
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    assert_eq!(output.stdout, b"there\n");
    // And one that has nothing but a forward.
    let (back, echoes) = (free_port(), echo(Duration::ZERO).await);
    let forward = format!("{back}:127.0.0.1:{echoes}");
    let options = [&options[..], &["-R", &forward]].concat();
    let _ssh = forwarding(&proxy, proxy.address, &options);
    connect(back).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_goes_ends_the_connection_with_a_word() {
    if !has_openssh() {
        return;
    }
    let proxy = Proxy::start(Setting::default()).await;
    let mut command = ssh(&proxy, proxy.address, &[]);
    // The sshd of this very connection.
    let output = within(20, command.arg("kill -9 $PPID; sleep 5")).await;
    assert_eq!(output.status.code(), Some(255));
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("connection to the server was lost"), "{text}");
}
