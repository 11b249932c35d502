//! Against a real OpenSSH server as the VM.

use std::io::{Read, Write};
use std::process::Stdio;

use crate::common::{Bed, PATIENCE, Sshd, appears, pattern, reach, run, text, until};
use kite_gateway::Config;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn full_duplex_completes() {
    let bed = Bed::new().await;
    let Some(sshd) = Sshd::start(&bed, "").await else {
        return;
    };
    sshd.behind(&bed, "web");
    // A gigabyte takes ten seconds, optimised: `KITE_DUPLEX_MIB=1024`.
    let mib = std::env::var("KITE_DUPLEX_MIB").map_or(64, |text| text.parse().unwrap());
    let data = pattern(mib << 20);
    let mut client = bed.with_key("ssh");
    client.args(["-l", "web", "127.0.0.1", "cat"]);
    let output = run(client, data.clone()).await;
    assert!(output.stdout == data, "{} bytes", output.stdout.len());
    assert_eq!(output.status.code(), Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_are_exchanged_anew_under_load() {
    // Both legs, by the client and by the machine, under saturated uploads on one
    // connection. The first exchange falls into the moment when all of them still
    // have their first window.
    let options = ["-o", "RekeyLimit=4M"];
    exchange_keys_under_load(Config::default(), &options, 6).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_gateway_exchanges_keys_anew_under_load() {
    // One upload: more that have just begun can be too many, which is why the
    // gateway leaves this to its clients for as long as it may.
    let config = Config {
        rekey_bytes: 4 << 20,
        ..Config::default()
    };
    exchange_keys_under_load(config, &[], 1).await;
}

async fn exchange_keys_under_load(config: Config, options: &[&str], uploads: usize) {
    let bed = Bed::with(config).await;
    let Some(sshd) = Sshd::start(&bed, "RekeyLimit 8M").await else {
        return;
    };
    sshd.behind(&bed, "web");
    let control = bed.path("control");
    let mux = |extra: &[&str]| bed.mux(&control, extra);
    let mut master = mux(&[&["-M", "-N"], options].concat()).spawn().unwrap();
    appears(&control).await;
    let size = 32 << 20;
    let upload = |_| {
        let mut client = mux(&[]);
        client.arg("cat | wc -c");
        run(client, vec![7; size])
    };
    let mut download = mux(&[]);
    download.arg(format!("head -c {size} /dev/zero"));
    let uploaded = futures::future::join_all((0..uploads).map(upload));
    let (uploaded, downloaded) = tokio::join!(uploaded, run(download, Vec::new()));
    for output in uploaded {
        assert_eq!(
            text(&output.stdout).trim(),
            size.to_string(),
            "{}: {}",
            output.status,
            text(&output.stderr)
        );
    }
    assert_eq!(downloaded.stdout.len(), size);
    master.kill().unwrap();
    master.wait().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_half_close_reaches_the_other_side_in_order() {
    let bed = Bed::new().await;
    let Some(sshd) = Sshd::start(&bed, "").await else {
        return;
    };
    sshd.behind(&bed, "web");
    let mut client = bed.with_key("ssh");
    client.args([
        "-l",
        "web",
        "127.0.0.1",
        "cat; sleep 0.3; echo after; echo err >&2; exit 9",
    ]);
    let output = run(client, b"before\n".to_vec()).await;
    assert_eq!(text(&output.stdout), "before\nafter\n");
    assert_eq!(text(&output.stderr), "err\n");
    assert_eq!(output.status.code(), Some(9));
    // The other half: the command closes its output and reads on.
    let mut client = bed.with_key("ssh");
    let file = bed.path("late");
    client.args(["-l", "web", "127.0.0.1"]);
    client.arg(format!("exec >&- 2>&-; cat > {}", file.display()));
    let output = run(client, pattern(1 << 20)).await;
    assert_eq!(output.status.code(), Some(0));
    assert!(std::fs::read(file).unwrap() == pattern(1 << 20));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rsync_and_both_scp_protocols() {
    let bed = Bed::new().await;
    let Some(sshd) = Sshd::start(&bed, "").await else {
        return;
    };
    sshd.behind(&bed, "web");
    let data = pattern(20 << 20);
    let local = bed.path("local");
    std::fs::write(&local, &data).unwrap();
    for protocol in [&["-s"][..], &["-O"][..]] {
        let there = bed.path(&format!("there{}", protocol[0]));
        let back = bed.path(&format!("back{}", protocol[0]));
        let mut up = bed.with_key("scp");
        up.args(protocol).arg(&local);
        up.arg(format!("web@127.0.0.1:{}", there.display()));
        let output = run(up, Vec::new()).await;
        assert!(output.status.success(), "{}", text(&output.stderr));
        let mut down = bed.with_key("scp");
        down.args(protocol);
        down.arg(format!("web@127.0.0.1:{}", there.display()))
            .arg(&back);
        let output = run(down, Vec::new()).await;
        assert!(output.status.success(), "{}", text(&output.stderr));
        assert!(std::fs::read(back).unwrap() == data);
    }
    if !std::path::Path::new("/usr/bin/rsync").exists() {
        let _ = writeln!(std::io::stderr(), "SKIPPED: there is no rsync");
        return;
    }
    let ssh = bed.with_key("ssh");
    let words: Vec<_> = std::iter::once(ssh.get_program())
        .chain(ssh.get_args())
        .map(|w| w.to_string_lossy().into_owned())
        .collect();
    let shell = words.join(" ");
    let there = bed.path("by-rsync");
    let back = bed.path("by-rsync-back");
    let remote = format!("web@127.0.0.1:{}", there.display());
    for (from, to) in [
        (local.display().to_string(), remote.clone()),
        (remote, back.display().to_string()),
    ] {
        let mut rsync = std::process::Command::new("rsync");
        rsync.args(["-a", "-e", &shell, &from, &to]);
        let output = run(rsync, Vec::new()).await;
        assert!(output.status.success(), "{}", text(&output.stderr));
    }
    assert!(std::fs::read(back).unwrap() == data);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn local_forwards_reach_ports_and_sockets_of_the_vm() {
    let bed = Bed::new().await;
    let Some(sshd) = Sshd::start(&bed, "").await else {
        return;
    };
    sshd.behind(&bed, "web");
    // Something that listens in the "VM": here the same machine.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut all = Vec::new();
            stream.read_to_end(&mut all).unwrap();
            all.reverse();
            stream.write_all(&all).unwrap();
        }
    });
    let (tcp, socket) = (bed.path("tcp.sock"), bed.path("nobody.sock"));
    let mut client = bed.with_key("ssh");
    client
        .args(["-N", "-L"])
        .arg(format!("{}:127.0.0.1:{port}", tcp.display()));
    client.arg("-L").arg(format!("{0}.l:{0}", socket.display()));
    client
        .args(["-l", "web", "127.0.0.1"])
        .stderr(Stdio::piped());
    let mut client = client.spawn().unwrap();
    let mut stream = reach(&tcp).await;
    let answer = tokio::task::spawn_blocking(move || {
        stream.write_all(b"abc").unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    })
    .await
    .unwrap();
    assert_eq!(answer, "cba");
    // The VM's own refusal comes through.
    let mut stream = reach(&bed.path("nobody.sock.l")).await;
    tokio::task::spawn_blocking(move || {
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        assert_eq!(answer, "");
    })
    .await
    .unwrap();
    client.kill().unwrap();
    let output = client.wait_with_output().unwrap();
    assert!(
        text(&output.stderr).contains("open failed"),
        "{}",
        text(&output.stderr)
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn remote_forwards_bring_connections_to_the_user() {
    let bed = Bed::new().await;
    let Some(sshd) = Sshd::start(&bed, "StreamLocalBindUnlink yes").await else {
        return;
    };
    sshd.behind(&bed, "web");
    // Something that listens on the user's side.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let local = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut all = Vec::new();
            stream.read_to_end(&mut all).unwrap();
            all.reverse();
            stream.write_all(&all).unwrap();
        }
    });
    let socket = bed.path("remote.sock");
    let mut client = bed.with_key("ssh");
    client.args(["-N", "-o", "ExitOnForwardFailure=yes"]);
    client.arg("-R").arg(format!("0:{local}"));
    client
        .arg("-R")
        .arg(format!("{}:{local}", socket.display()));
    client
        .args(["-l", "web", "127.0.0.1"])
        .stderr(Stdio::piped());
    let mut client = client.spawn().unwrap();
    let mut stderr = client.stderr.take().unwrap();
    // "Allocated port 12345 for remote forward to 127.0.0.1:..."
    let port = tokio::task::spawn_blocking(move || {
        let mut line = Vec::new();
        let mut byte = [0];
        while stderr.read(&mut byte).unwrap() == 1 && byte[0] != b'\n' {
            line.push(byte[0]);
        }
        let line = text(&line);
        let word = line.split_whitespace().nth(2).map(str::to_owned);
        word.and_then(|w| w.parse::<u16>().ok()).ok_or(line)
    })
    .await
    .unwrap()
    .unwrap();
    let by_tcp = tokio::task::spawn_blocking(move || {
        let mut tcp = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
        tcp.write_all(&pattern(1 << 20)).unwrap();
        tcp.shutdown(std::net::Shutdown::Write).unwrap();
        let mut by_tcp = Vec::new();
        tcp.read_to_end(&mut by_tcp).unwrap();
        // More in turn than a machine may have open at once, each closed by the
        // user's side first.
        for _ in 0..140 {
            let mut tcp = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
            tcp.shutdown(std::net::Shutdown::Write).unwrap();
            assert_eq!(tcp.read(&mut [0]).unwrap(), 0);
        }
        by_tcp
    })
    .await
    .unwrap();
    let mut unix = reach(&socket).await;
    let by_socket = tokio::task::spawn_blocking(move || {
        unix.write_all(b"abc").unwrap();
        unix.shutdown(std::net::Shutdown::Write).unwrap();
        let mut by_socket = Vec::new();
        unix.read_to_end(&mut by_socket).unwrap();
        by_socket
    })
    .await
    .unwrap();
    let mut expected = pattern(1 << 20);
    expected.reverse();
    assert!(by_tcp == expected);
    assert_eq!(by_socket, b"cba");
    client.kill().unwrap();
    client.wait().unwrap();
    bed.records
        .find(|r| r["kind"] == "forwarded-tcpip" && r["bytes_down"] == 1 << 20)
        .await;
    // With the user goes the listener.
    until("the VM listens no more", async || {
        std::net::TcpStream::connect(("127.0.0.1", port)).err()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_remote_forwards_are_up_at_once() {
    let bed = Bed::new().await;
    let Some(sshd) = Sshd::start(&bed, "").await else {
        return;
    };
    sshd.behind(&bed, "web");
    let forwarding = async |often: usize| {
        let mut client = bed.with_key("ssh");
        client.args(["-N", "-o", "ExitOnForwardFailure=yes"]);
        for port in 1..=often {
            client.args(["-R", &format!("0:127.0.0.1:{port}")]);
        }
        client.args(["-l", "web", "127.0.0.1"]);
        client.stderr(Stdio::piped());
        let mut client = client.spawn().unwrap();
        let stderr = client.stderr.take().unwrap();
        let told = tokio::task::spawn_blocking(move || {
            let lines = std::io::BufRead::lines(std::io::BufReader::new(stderr));
            let told = lines.map_while(Result::ok);
            let told = told.filter(|line| line.contains("remote"));
            told.take(often).collect::<Vec<_>>()
        });
        let told = tokio::time::timeout(PATIENCE, told).await.unwrap().unwrap();
        client.kill().unwrap();
        client.wait().unwrap();
        bed.emptied().await;
        told
    };
    for _ in 0..2 {
        let told = forwarding(100).await;
        assert_eq!(told.len(), 100);
        assert!(
            told.iter().all(|it| it.contains("Allocated port")),
            "{told:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_user_s_agent_is_there_when_asked_for() {
    let bed = Bed::new().await;
    let Some(sshd) = Sshd::start(&bed, "").await else {
        return;
    };
    sshd.behind(&bed, "web");
    let socket = bed.path("agent.sock");
    let mut agent = std::process::Command::new("ssh-agent");
    agent.arg("-D").arg("-a").arg(&socket).stdout(Stdio::null());
    let mut agent = agent.spawn().unwrap();
    drop(reach(&socket).await);
    let mut add = std::process::Command::new("ssh-add");
    add.arg(bed.path("key")).env("SSH_AUTH_SOCK", &socket);
    assert!(run(add, Vec::new()).await.status.success());
    for (option, expected) in [("-A", true), ("-a", false)] {
        let mut client = bed.with_key("ssh");
        client.env("SSH_AUTH_SOCK", &socket);
        client.args([option, "-l", "web", "127.0.0.1", "ssh-add -l"]);
        let output = run(client, Vec::new()).await;
        let listed = text(&output.stdout).contains("ED25519");
        assert_eq!(listed, expected, "{option}: {}", text(&output.stderr));
    }
    agent.kill().unwrap();
    agent.wait().unwrap();
}
