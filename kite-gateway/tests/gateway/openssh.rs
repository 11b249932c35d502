//! What a VM owner does with OpenSSH's own clients.
#![allow(clippy::cast_possible_truncation)]

use std::io::Read;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::common::{
    Bed, PASSWORD, PATIENCE, appears, fill, new_key, pattern, run, stands_still, text,
};
use kite_gateway::VmState;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn defect_4_exec_gives_output_error_and_status() {
    let bed = Bed::new().await;
    let _guest = bed.machine("web").await;
    let output = bed.ssh("web", "echo out; echo err >&2; exit 7").await;
    assert_eq!(text(&output.stdout), "out\n");
    assert_eq!(text(&output.stderr), "err\n");
    assert_eq!(output.status.code(), Some(7));

    let mut client = bed.with_key("ssh");
    client.args(["-l", "web", "127.0.0.1", "cat; echo done"]);
    let output = run(client, b"through\n".to_vec()).await;
    assert_eq!(text(&output.stdout), "through\ndone\n");

    let output = bed.ssh("web", "kill -9 $$").await;
    assert_eq!(output.status.code(), Some(255), "ended by a signal");
    let record = bed
        .records
        .find(|r| r["event"] == "channel" && r["detail"] == "cat; echo done")
        .await;
    assert_eq!(record["bytes_up"], 8);
    assert_eq!(record["bytes_down"], 13);
    assert_eq!(record["ended"], "closed");
    assert_eq!(record["vm"]["name"], "web");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shell_with_a_terminal() {
    let bed = Bed::new().await;
    let _guest = bed.machine("web").await;
    let mut client = bed.with_key("ssh");
    client
        .env("LC_KITE", "carried")
        .env("TERM", "xterm-kite")
        .args(["-o", "SendEnv=LC_KITE", "-tt", "-l", "web", "127.0.0.1"]);
    let output = run(client, b"echo $TERM $LC_KITE\rexit 3\r".to_vec()).await;
    let screen = text(&output.stdout);
    assert!(screen.contains("xterm-kite carried\r\n"), "{screen}");
    assert!(screen.contains("web@vm-web:~$ "), "{screen}");
    assert_eq!(output.status.code(), Some(3));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sftp_and_scp_carry_files() {
    let bed = Bed::new().await;
    let _guest = bed.machine("web").await;
    let data = pattern(20 << 20);
    let local = bed.path("local");
    std::fs::write(&local, &data).unwrap();
    let mut client = bed.with_key("sftp");
    client.args(["-b", "-", "web@127.0.0.1"]);
    let batch = format!("put {0} up\nget up {0}.back\n", local.display());
    let output = run(client, batch.into_bytes()).await;
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(std::fs::read(bed.path("local.back")).unwrap() == data);
    let is_transfer = |record: &serde_json::Value| record["purpose"] == "transfer";
    let record = bed.records.find(is_transfer).await;
    assert_eq!(record["detail"], "subsystem sftp");
    assert!(record["bytes_up"].as_u64().unwrap() > 20 << 20);
    let record = bed.records.find(|r| r["event"] == "login").await;
    let key = bed.user_key.fingerprint(russh::keys::HashAlg::Sha256);
    assert_eq!(record["key"], key.to_string());

    let mut client = bed.with_key("scp");
    client.arg("web@127.0.0.1:up").arg(bed.path("by-scp"));
    let output = run(client, Vec::new()).await;
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(std::fs::read(bed.path("by-scp")).unwrap() == data);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn passwords_and_keys_let_in_and_nothing_else_does() {
    let bed = Bed::new().await;
    let _guest = bed.machine("web").await;
    for method in ["password", "keyboard-interactive"] {
        let mut client = bed.with_password(PASSWORD, method);
        client.args(["-l", "web", "127.0.0.1", "echo in"]);
        let output = run(client, Vec::new()).await;
        assert_eq!(
            text(&output.stdout),
            "in\n",
            "{method}: {}",
            text(&output.stderr)
        );
    }
    let denied = "Permission denied (publickey,password,keyboard-interactive)";
    for (login, password) in [("web", "wrong"), ("nobody", PASSWORD), ("no/name", "")] {
        let mut client = bed.with_password(password, "password");
        client.args(["-l", login, "127.0.0.1", "echo in"]);
        let started = Instant::now();
        let output = run(client, Vec::new()).await;
        assert!(started.elapsed() >= Duration::from_millis(300), "{login}");
        assert!(
            text(&output.stderr).contains(denied),
            "{}",
            text(&output.stderr)
        );
        assert_eq!(text(&output.stdout), "");
    }
    bed.table.change("web", |route| {
        route.authorized_keys = vec![new_key().public_key().clone().into()];
    });
    let output = bed.ssh("web", "echo in").await;
    assert!(
        text(&output.stderr).contains(denied),
        "{}",
        text(&output.stderr)
    );
    let record = bed
        .records
        .find(|r| r["event"] == "login" && r["login"] == "nobody")
        .await;
    assert_eq!(record["accepted"], false);
    assert!(!record.to_string().contains(PASSWORD));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn defect_4_a_wrong_host_key_of_the_machine_is_refused() {
    let bed = Bed::new().await;
    let _guest = bed.machine("web").await;
    let expected = new_key();
    bed.table.change("web", |route| {
        let target = route.target.as_mut().unwrap();
        target.host_key = expected.public_key().clone();
    });
    let output = bed.ssh("web", "echo in").await;
    let shown = text(&output.stderr);
    let fingerprint = expected
        .public_key()
        .fingerprint(russh::keys::HashAlg::Sha256);
    assert!(
        shown.contains(&format!("expected ssh-ed25519 {fingerprint}")),
        "{shown}"
    );
    assert_eq!(text(&output.stdout), "");
    assert_eq!(output.status.code(), Some(255));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_owner_of_a_stopped_machine_is_told() {
    let bed = Bed::new().await;
    let guest = bed.machine("web").await;
    bed.table.change("web", |route| {
        route.state = VmState::Unavailable("it is stopped".into());
    });
    let output = bed.ssh("web", "echo in").await;
    assert!(text(&output.stderr).contains("kite: VM kite-user-ann/web: it is stopped"));
    assert_eq!(output.status.code(), Some(255));
    // Who is not its owner sees what everybody sees.
    let mut client = bed.with_password("wrong", "password");
    client.args(["-l", "web", "127.0.0.1", "echo in"]);
    let output = run(client, Vec::new()).await;
    assert!(
        !text(&output.stderr).contains("stopped"),
        "{}",
        text(&output.stderr)
    );
    // A machine that does not answer.
    bed.table
        .change("web", |route| route.state = VmState::Running);
    guest.stop().await;
    let mut client = bed.with_key("ssh");
    client.args(["-tt", "-l", "web", "127.0.0.1"]);
    let output = run(client, Vec::new()).await;
    let told = text(&output.stdout) + &text(&output.stderr);
    assert!(
        told.contains("kite: VM kite-user-ann/web cannot be entered"),
        "{told}"
    );
    assert_eq!(output.status.code(), Some(255));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_machine_that_dies_ends_its_sessions() {
    let bed = Bed::new().await;
    let guest = bed.machine("web").await;
    let mut client = bed.with_key("ssh");
    client.args(["-l", "web", "127.0.0.1", "echo up; sleep 600"]);
    client.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = client.spawn().unwrap();
    let mut stdout = child.stdout.take().unwrap();
    let mut up = [0; 3];
    tokio::task::spawn_blocking(move || stdout.read_exact(&mut up).unwrap())
        .await
        .unwrap();
    guest.stop().await;
    let output = tokio::task::spawn_blocking(|| child.wait_with_output().unwrap())
        .await
        .unwrap();
    assert!(text(&output.stderr).contains("connection to the VM was lost"));
    assert_eq!(output.status.code(), Some(255));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn full_duplex_through_cat_completes() {
    let bed = Bed::new().await;
    let _guest = bed.machine("web").await;
    let data = pattern(64 << 20);
    let mut client = bed.with_key("ssh");
    client.args(["-l", "web", "127.0.0.1", "cat"]);
    let output = run(client, data.clone()).await;
    assert!(
        output.stdout == data,
        "{} bytes came back",
        output.stdout.len()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stalled_channel_does_not_stall_another() {
    let bed = Bed::new().await;
    let _guest = bed.machine("web").await;
    let control = bed.path("control");
    let mux = |extra: &[&str]| {
        let mut client = bed.with_key("ssh");
        client
            .arg("-S")
            .arg(&control)
            .args(extra)
            .args(["-l", "web", "127.0.0.1"]);
        client
    };
    let mut master = mux(&["-M", "-N"]);
    let mut master = master.spawn().unwrap();
    appears(&control).await;
    // An upload that nobody in the machine reads.
    let mut upload = mux(&[]);
    upload
        .arg("sleep 600")
        .stdin(Stdio::piped())
        .stdout(Stdio::null());
    let mut upload = upload.spawn().unwrap();
    let written = fill(upload.stdin.take().unwrap());
    // A download of which nobody here reads more than the beginning.
    let mut download = mux(&[]);
    download.arg("cat /dev/zero").stdout(Stdio::piped());
    let mut download = download.spawn().unwrap();
    let mut stdout = download.stdout.take().unwrap();
    let stdout = tokio::task::spawn_blocking(move || {
        stdout.read_exact(&mut [0]).unwrap();
        stdout
    });
    download.stdout = Some(stdout.await.unwrap());
    stands_still(&written).await;

    // Both stand still for as long as the test lasts: who is behind them never comes.
    for _ in 0..3 {
        let mut echo = mux(&[]);
        echo.arg("echo here");
        let output = run(echo, Vec::new()).await;
        assert_eq!(text(&output.stdout), "here\n", "{}", text(&output.stderr));
    }

    // A healthy upload beside the stalled ones gets through.
    let mut healthy = mux(&[]);
    healthy.arg("wc -c");
    let output = run(healthy, vec![1; 32 << 20]).await;
    assert_eq!(text(&output.stdout), format!("{}\n", 32 << 20));
    for child in [&mut upload, &mut download, &mut master] {
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shutdown_ends_what_does_not_end_itself() {
    let bed = Bed::new().await;
    let _guest = bed.machine("web").await;
    let mut client = bed.with_key("ssh");
    client.args(["-tt", "-l", "web", "127.0.0.1", "echo up; sleep 600"]);
    client.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = client.spawn().unwrap();
    let mut stdout = child.stdout.take().unwrap();
    let (stdout, up) = tokio::task::spawn_blocking(move || {
        let mut up = [0; 2];
        stdout.read_exact(&mut up).unwrap();
        (stdout, up)
    })
    .await
    .unwrap();
    assert_eq!(&up, b"up");
    child.stdout = Some(stdout);
    let started = Instant::now();
    // The command would last far longer.
    let ended = tokio::time::timeout(PATIENCE, bed.end()).await;
    assert!(ended.is_ok(), "it waits for the command");
    let took = started.elapsed();
    assert!(took >= Duration::from_secs(1), "had its grace: {took:?}");
    let output = tokio::task::spawn_blocking(|| child.wait_with_output().unwrap())
        .await
        .unwrap();
    let told = text(&output.stdout) + &text(&output.stderr);
    assert!(told.contains("the gateway is restarting"), "{told}");
    assert_eq!(output.status.code(), Some(255));
}

/// A client that runs until it is ended; comes back once it runs.
async fn running(bed: &Bed) -> std::process::Child {
    let mut client = bed.with_key("ssh");
    client.args(["-l", "web", "127.0.0.1", "echo up; sleep 600"]);
    client.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = client.spawn().unwrap();
    let mut stdout = child.stdout.take().unwrap();
    tokio::task::spawn_blocking(move || stdout.read_exact(&mut [0; 3]).unwrap())
        .await
        .unwrap();
    child
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_are_listed_and_can_be_ended() {
    let bed = Bed::new().await;
    let _guest = bed.machine("web").await;
    let child = running(&bed).await;
    let list = bed.sessions.list();
    assert_eq!(list.len(), 1);
    assert_eq!(list[0].login.as_ref().unwrap().as_str(), "web");
    assert_eq!(list[0].channels, 1);
    assert!(list[0].client.as_ref().unwrap().contains("OpenSSH"));
    let vm = list[0].vm.clone().unwrap();
    assert!(!bed.sessions.kill(list[0].connection + 1, "nobody"));
    assert_eq!(bed.sessions.kill_vm(&vm, "maintenance"), 1);
    let output = tokio::task::spawn_blocking(|| child.wait_with_output().unwrap())
        .await
        .unwrap();
    assert!(
        text(&output.stderr).contains("maintenance"),
        "{}",
        text(&output.stderr)
    );
    let record = bed.records.find(|r| r["event"] == "connection").await;
    assert_eq!(record["ended"], "ended by an administrator: maintenance");
    bed.emptied().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_machine_has_a_limited_number_of_connections() {
    let bed = Bed::with(kite_gateway::Config {
        max_connections_per_vm: 1,
        drain_grace: Duration::ZERO,
        ..kite_gateway::Config::default()
    })
    .await;
    let _guest = bed.machine("web").await;
    let mut child = running(&bed).await;
    let output = bed.ssh("web", "echo in").await;
    let told = text(&output.stderr);
    assert!(told.contains("as many connections as it may (1)"), "{told}");
    child.kill().unwrap();
    child.wait().unwrap();
    bed.records.find(|r| r["event"] == "connection").await;
    bed.emptied().await;
    assert_eq!(text(&bed.ssh("web", "echo in").await.stdout), "in\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_connection_carries_any_number_of_commands_in_turn() {
    let bed = Bed::with(kite_gateway::Config {
        max_channels: 4,
        ..kite_gateway::Config::default()
    })
    .await;
    let _guest = bed.machine("web").await;
    let control = bed.path("control");
    let mux = |extra: &[&str]| bed.mux(&control, extra);
    let mut master = mux(&["-M", "-N"]).spawn().unwrap();
    appears(&control).await;
    for i in 0..12 {
        let mut client = mux(&[]);
        client.arg(format!("echo {i}"));
        let output = run(client, Vec::new()).await;
        assert_eq!(
            text(&output.stdout),
            format!("{i}\n"),
            "{}",
            text(&output.stderr)
        );
    }
    master.kill().unwrap();
    master.wait().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn access_that_is_withdrawn_opens_nothing_more() {
    let bed = Bed::new().await;
    let _guest = bed.machine("web").await;
    let control = bed.path("control");
    let mut master = bed.mux(&control, &["-M", "-N"]);
    master.stderr(Stdio::piped());
    let mut master = master.spawn().unwrap();
    appears(&control).await;
    let echo = || {
        // Without a way of its own: the client would log in anew.
        let mut client = bed.mux(&control, &["-o", "ProxyCommand=false"]);
        client.arg("echo in");
        run(client, Vec::new())
    };
    assert_eq!(text(&echo().await.stdout), "in\n");
    // Another machine under the same name.
    bed.table.change("web", |route| route.uid = "2".into());
    assert_eq!(text(&echo().await.stdout), "");
    bed.table.change("web", |route| route.uid = "1".into());
    assert_eq!(text(&echo().await.stdout), "in\n");
    // The same, but the key was taken out.
    bed.table
        .change("web", |route| route.authorized_keys.clear());
    assert_eq!(text(&echo().await.stdout), "");
    master.kill().unwrap();
    let output = master.wait_with_output().unwrap();
    let told = text(&output.stderr);
    for words in [
        "no longer leads to the VM",
        "no longer opens VM kite-user-ann/web",
    ] {
        assert!(told.contains(words), "{words}: {told}");
    }
}
