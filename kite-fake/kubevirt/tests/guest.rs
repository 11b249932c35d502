//! OpenSSH's own clients against a guest.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use kite_fake_kubevirt::guest::{Guest, GuestConfig, GuestHandle, Home};
use russh::keys::ssh_key::LineEnding;
use russh::keys::{Algorithm, PrivateKey};
use sha2::{Digest, Sha256};

struct Machine {
    guest: GuestHandle,
    dir: tempfile::TempDir,
    key: PrivateKey,
}

async fn boot(key: PrivateKey, home: Home) -> Machine {
    let dir = tempfile::tempdir().unwrap();
    let mut config = GuestConfig::new("web", "alice", vec![key.public_key().clone()]).unwrap();
    config.home = home;
    let guest = Guest::start(config).await.unwrap();
    std::fs::write(
        dir.path().join("key"),
        key.to_openssh(LineEnding::LF).unwrap().as_bytes(),
    )
    .unwrap();
    let address = guest.address();
    let known = guest.host_key().to_openssh().unwrap();
    std::fs::write(
        dir.path().join("known_hosts"),
        format!("[{}]:{} {known}\n", address.ip(), address.port()),
    )
    .unwrap();
    set_mode(dir.path().join("key"));
    Machine { guest, dir, key }
}

fn set_mode(path: PathBuf) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
}

fn new_key() -> PrivateKey {
    PrivateKey::random(&mut rand::rng(), Algorithm::Ed25519).unwrap()
}

impl Machine {
    fn options(&self) -> Vec<String> {
        let dir = self.dir.path().display();
        vec![
            "-F".into(),
            "none".into(),
            "-i".into(),
            format!("{dir}/key"),
            "-o".into(),
            format!("UserKnownHostsFile={dir}/known_hosts"),
            "-o".into(),
            "StrictHostKeyChecking=yes".into(),
            "-o".into(),
            "BatchMode=yes".into(),
            "-o".into(),
            "LogLevel=ERROR".into(),
        ]
    }

    /// Runs an OpenSSH client without blocking the guest's runtime.
    async fn run(&self, program: &str, args: &[&str], input: &[u8]) -> Output {
        let mut command = Command::new(program);
        command.args(self.options()).args(args);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let input = input.to_vec();
        tokio::task::spawn_blocking(move || {
            let mut child = command.spawn().expect("OpenSSH's clients are installed");
            let mut stdin = child.stdin.take().unwrap();
            let writing = std::thread::spawn(move || {
                use std::io::Write;
                let _ = stdin.write_all(&input);
            });
            let output = child.wait_with_output().unwrap();
            writing.join().unwrap();
            output
        })
        .await
        .unwrap()
    }

    async fn ssh(&self, args: &[&str], input: &[u8]) -> Output {
        let port = self.guest.address().port().to_string();
        let mut all = vec!["-p", &port, "-l", "alice"];
        let (options, command): (Vec<&str>, Vec<&str>) =
            args.iter().partition(|a| a.starts_with('-'));
        all.extend(options);
        all.push("127.0.0.1");
        all.extend(command);
        self.run("ssh", &all, input).await
    }
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::new(), |mut all, byte| {
        let _ = write!(all, "{byte:02x}");
        all
    })
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exec_gives_output_error_and_status() {
    let machine = boot(new_key(), Home::default()).await;
    let output = machine.ssh(&["echo out; echo err >&2; exit 7"], b"").await;
    assert_eq!(output.status.code(), Some(7));
    assert_eq!(text(&output.stdout), "out\n");
    assert_eq!(text(&output.stderr), "err\n");
    let output = machine.ssh(&["kill -9 $$"], b"").await;
    assert_eq!(output.status.code(), Some(255), "killed by a signal");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_terminal_session_echoes_and_edits() {
    let machine = boot(new_key(), Home::default()).await;
    let typed = b"echo helxx\x7f\x7flo\recho $TERM; cat > f\rline\r\x04cat f\rexit 3\r";
    let output = machine.ssh(&["-tt"], typed).await;
    let screen = text(&output.stdout);
    assert_eq!(output.status.code(), Some(3), "{screen}");
    assert!(screen.contains("alice@web:~$ "), "{screen}");
    // What is typed ahead is echoed before the prompt, as on any terminal.
    assert!(screen.contains("hello\r\n"), "{screen:?}");
    assert!(screen.matches("line\r\n").count() >= 2, "{screen:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_script_on_standard_input_runs() {
    let machine = boot(new_key(), Home::default()).await;
    let output = machine.ssh(&["-T"], b"cd /\npwd\ncat\nrest\n").await;
    assert_eq!(text(&output.stdout), "/\nrest\n");
    assert_eq!(output.status.code(), Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bulk_data_flows_both_ways_at_once() {
    let machine = boot(new_key(), Home::default()).await;
    let output = machine.ssh(&["head -c 100M /dev/zero | cat"], b"").await;
    assert_eq!(output.stdout.len(), 100 << 20);
    let data: Vec<u8> = (0..40_u32 << 20).map(|i| (i % 251) as u8).collect();
    let output = machine.ssh(&["cat"], &data).await;
    assert!(output.stdout == data, "cat gave something else");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sftp_and_scp_carry_files_and_the_disk_survives() {
    let home = Home::default();
    let machine = boot(new_key(), home.clone()).await;
    let data: Vec<u8> = (0..5_u32 << 20).map(|i| (i % 253) as u8).collect();
    let local = machine.dir.path().join("local");
    std::fs::write(&local, &data).unwrap();
    let port = machine.guest.address().port().to_string();
    let batch = format!(
        "mkdir d\nput {0} d/up\nrename d/up d/moved\nchmod 600 d/moved\nls -l d\nget d/moved {0}.back\n",
        local.display()
    );
    let args = ["-P", &port, "-b", "-", "alice@127.0.0.1"];
    let output = machine.run("sftp", &args, batch.as_bytes()).await;
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(
        text(&output.stdout).contains("-rw-------"),
        "{}",
        text(&output.stdout)
    );
    let back = std::fs::read(machine.dir.path().join("local.back")).unwrap();
    assert!(back == data, "sftp gave something else");

    let target = "alice@127.0.0.1:by-scp";
    let args = ["-P", &port, &local.display().to_string(), target];
    let output = machine.run("scp", &args, b"").await;
    assert!(output.status.success(), "{}", text(&output.stderr));

    let key = machine.key.clone();
    machine.guest.stop().await;
    let machine = boot(key, home).await;
    let output = machine.ssh(&["sha256sum by-scp d/moved"], b"").await;
    let sum = hex(&Sha256::digest(&data));
    assert_eq!(text(&output.stdout).matches(&sum).count(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn strangers_stay_outside() {
    let mut machine = boot(new_key(), Home::default()).await;
    let other = boot(new_key(), Home::default()).await;
    machine.guest = other.guest;
    let known = machine.guest.host_key().to_openssh().unwrap();
    let address = machine.guest.address();
    std::fs::write(
        machine.dir.path().join("known_hosts"),
        format!("[{}]:{} {known}\n", address.ip(), address.port()),
    )
    .unwrap();
    let output = machine.ssh(&["echo in"], b"").await;
    assert_eq!(output.status.code(), Some(255));
    assert!(
        text(&output.stderr).contains("Permission denied (publickey)"),
        "{}",
        text(&output.stderr)
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_connection_carries_any_number_of_commands_in_turn() {
    let machine = boot(new_key(), Home::default()).await;
    let control = format!("-oControlPath={}/control", machine.dir.path().display());
    for i in 0..70 {
        let args = [
            control.as_str(),
            "-oControlMaster=auto",
            "-oControlPersist=5",
            "echo in",
        ];
        let output = machine.ssh(&args, b"").await;
        assert_eq!(
            text(&output.stdout),
            "in\n",
            "{i}: {}",
            text(&output.stderr)
        );
    }
}
