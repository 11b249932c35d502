//! What users do with plain SSH, by the gateway beside the same without one: the same end, the
//! same bytes, and the same words.

use std::io::Write as _;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use kite_gateway::VmState;
use russh::keys::ssh_key::LineEnding;
use tokio::io::{AsyncBufReadExt as _, BufReader};

use crate::common::{Bed, PASSWORD, PATIENCE, Sshd, appears, private_file, run, text};

/// A gateway before an sshd with those options, and the same sshd without it.
struct Both {
    bed: Bed,
    sshd: Sshd,
}

impl Both {
    async fn start(options: &str) -> Option<Self> {
        let bed = Bed::new().await;
        let sshd = Sshd::start(&bed, options).await?;
        sshd.behind(&bed, "web");
        let key = bed.vm_key.to_openssh(LineEnding::LF).unwrap();
        private_file(&bed.path("vm_key"), key.as_bytes(), 0o600);
        Some(Self { bed, sshd })
    }

    /// Both clients, to which the destination and the command are still to be added.
    fn clients(&self) -> [Command; 2] {
        let by_gateway = self.bed.with_key("ssh");
        let mut direct = Command::new("ssh");
        direct
            .args(["-F", "none", "-p", &self.sshd.address.port().to_string()])
            .args(["-o", "StrictHostKeyChecking=no", "-o", "BatchMode=yes"])
            .args(["-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=INFO"])
            .args(["-o", "IdentitiesOnly=yes", "-i"])
            .arg(self.bed.path("vm_key"))
            .env_remove("SSH_AUTH_SOCK")
            .stdin(Stdio::null());
        [by_gateway, direct]
    }

    /// What both come to with those options and that command.
    async fn run(&self, options: &[&str], command: &[&str]) -> [Output; 2] {
        let [mut by_gateway, mut direct] = self.clients();
        by_gateway.args(options).args(["-l", "web", "127.0.0.1"]);
        direct
            .args(options)
            .args(["-l", &self.sshd.user, "127.0.0.1"]);
        by_gateway.args(command);
        direct.args(command);
        [
            run(by_gateway, Vec::new()).await,
            run(direct, Vec::new()).await,
        ]
    }

    /// What both come to in a shell here, in which `SSH` stands for the client.
    async fn shell(&self, line: &str) -> [Output; 2] {
        let [by_gateway, direct] = self.clients();
        let user = self.sshd.user.clone();
        let mut outputs = Vec::new();
        for (client, user) in [(by_gateway, "web"), (direct, user.as_str())] {
            let words = client
                .get_args()
                .map(|it| it.to_string_lossy().into_owned());
            let words: Vec<_> = words.collect();
            let client = format!("ssh {} -l {user} 127.0.0.1", words.join(" "));
            let mut shell = Command::new("bash");
            shell
                .args(["-o", "pipefail", "-c", &line.replace("SSH", &client)])
                .env_remove("SSH_AUTH_SOCK")
                .stdin(Stdio::null());
            let ran = tokio::time::timeout(PATIENCE, run(shell, Vec::new()));
            outputs.push(ran.await.expect("it ends"));
        }
        outputs.try_into().unwrap()
    }
}

fn alike([by_gateway, direct]: &[Output; 2]) {
    let told = text(&by_gateway.stderr);
    assert_eq!(by_gateway.status.code(), direct.status.code(), "{told}");
    assert_eq!(by_gateway.stdout, direct.stdout, "{told}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_paused_download_goes_on_where_the_vm_asks_whether_its_client_lives() {
    let Some(both) = Both::start("ClientAliveInterval 1\nClientAliveCountMax 2").await else {
        return;
    };
    let line = "SSH 'head -c 64M /dev/zero' | (head -c 1000 >/dev/null; sleep 5; wc -c)";
    let outputs = both.shell(line).await;
    alike(&outputs);
    assert_eq!(
        text(&outputs[0].stdout).trim(),
        (64 * 1024 * 1024 - 1000).to_string()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_stops_reading_ends_the_command() {
    let Some(both) = Both::start("").await else {
        return;
    };
    for line in [
        "SSH yes | head -1",
        "SSH cat < /dev/zero | head -c 100 | wc -c",
        "yes | SSH true",
    ] {
        alike(&both.shell(line).await);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_vm_says_is_read_as_it_says_it() {
    let file = tempfile::NamedTempFile::new().unwrap();
    writeln!(&file, "for the crew only").unwrap();
    let options = format!("Banner {}\nPermitTunnel no", file.path().display());
    let Some(both) = Both::start(&options).await else {
        return;
    };
    let outputs = both.run(&[], &["exit 7"]).await;
    alike(&outputs);
    for output in &outputs {
        assert!(text(&output.stderr).contains("for the crew only"));
    }
    // A destination that refuses, and a channel that the VM does not have.
    let closed = {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        free.local_addr().unwrap().to_string()
    };
    let outputs = both.run(&["-W", &closed], &[]).await;
    alike(&outputs);
    for output in &outputs {
        let told = text(&output.stderr);
        assert!(told.contains("Connection refused"), "{told}");
    }
    let outputs = both.run(&["-w", "5:5"], &["echo session alive"]).await;
    alike(&outputs);
    assert_eq!(outputs[0].stdout, b"session alive\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_remote_forward_whose_listener_dies_ends_its_client() {
    let Some(both) = Both::start("").await else {
        return;
    };
    let [by_gateway, direct] = both.clients();
    for (index, (mut client, user)) in [(by_gateway, "web"), (direct, both.sshd.user.as_str())]
        .into_iter()
        .enumerate()
    {
        let control = both.bed.path(&format!("control{index}"));
        client.args(["-M", "-S"]).arg(&control);
        client.args(["-N", "-R", "0:127.0.0.1:9", "-l", user, "127.0.0.1"]);
        client.stderr(Stdio::piped());
        let mut client = tokio::process::Command::from(client)
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut told = BufReader::new(client.stderr.take().unwrap()).lines();
        while let Some(line) = told.next_line().await.unwrap() {
            if line.contains("Allocated port") {
                break;
            }
        }
        appears(&control).await;
        // The process that listens, on the same connection.
        let mut killer = Command::new("ssh");
        killer
            .arg("-S")
            .arg(&control)
            .args(["127.0.0.1", "kill -9 $PPID"]);
        run(killer, Vec::new()).await;
        let ended = tokio::time::timeout(PATIENCE, client.wait()).await;
        let code = ended.expect("it ends").unwrap().code();
        assert_eq!(code, Some(255), "{user}");
    }
}

/// Paramiko asks for the login's service before each try.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_try_of_paramiko_is_answered() {
    let python = std::env::var("KITE_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let there = Command::new(&python)
        .args(["-c", "import paramiko"])
        .output();
    if !there.is_ok_and(|output| output.status.success()) {
        let required = std::env::var_os("KITE_REQUIRE_CLIENTS").is_some();
        assert!(!required, "there is no paramiko in {python}");
        eprintln!("skipped: there is no paramiko (pip install paramiko)");
        return;
    }
    let bed = Bed::new().await;
    let _guest = bed.machine("web").await;
    let script = format!(
        "import paramiko\n\
         t = paramiko.Transport(('127.0.0.1', {}))\n\
         t.start_client()\n\
         try:\n    t.auth_publickey('web', paramiko.ECDSAKey.generate())\n\
         except paramiko.AuthenticationException: pass\n\
         t.auth_password('web', '{PASSWORD}')\n\
         c = t.open_session(); c.exec_command('echo in')\n\
         print(c.makefile().read().decode(), end='')\n",
        bed.address.port()
    );
    let mut client = Command::new(python);
    client.args(["-c", &script]);
    let output = tokio::time::timeout(Duration::from_secs(20), run(client, Vec::new())).await;
    let output = output.expect("it is answered");
    assert_eq!(text(&output.stdout), "in\n", "{}", text(&output.stderr));
}

/// `PuTTY` asks for a terminal and a shell at once, and types when it has heard of both.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn putty_types_after_a_login_that_has_started_the_vm() {
    if Command::new("plink").arg("--version").output().is_err() {
        let required = std::env::var_os("KITE_REQUIRE_CLIENTS").is_some();
        assert!(!required, "there is no plink");
        eprintln!("skipped: there is no plink (Debian: putty-tools)");
        return;
    }
    let Some(both) = Both::start("").await else {
        return;
    };
    both.bed.table.change("web", |route| {
        route.state = VmState::Stopped("it is switched off".into());
        route.start_on_connect = true;
    });
    let bed = &both.bed;
    let key = std::fs::read_to_string(bed.path("known_hosts")).unwrap();
    let key = key.split_whitespace().skip(1).collect::<Vec<_>>().join(" ");
    let key = russh::keys::PublicKey::from_openssh(&key).unwrap();
    let print = key.fingerprint(russh::keys::HashAlg::Sha256).to_string();
    let mut plink = Command::new("plink");
    plink
        .args(["-batch", "-ssh", "-t", "-hostkey", &print, "-pw", PASSWORD])
        .args(["-P", &bed.address.port().to_string(), "web@127.0.0.1"])
        .env("HOME", bed.dir.path());
    let typed = run(plink, b"echo ty''ped; exit 6\n".to_vec());
    let output = tokio::time::timeout(PATIENCE, typed)
        .await
        .expect("it ends");
    let told = text(&output.stdout) + &text(&output.stderr);
    assert!(told.contains("typed"), "{told}");
    assert_eq!(output.status.code(), Some(6), "{told}");
}
