//! OpenSSH's server, on two pipes.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use kite_ssh_relay::kex::Method;

use crate::client::Client;
use crate::pairs;

const SSHD: &str = "/usr/sbin/sshd";

/// A server, which ends with this.
struct Server(Child);

impl Server {
    fn start(directory: &Path) -> Self {
        let key = directory.join("key");
        if !key.exists() {
            let mut keygen = Command::new("ssh-keygen");
            keygen.args(["-q", "-t", "ed25519", "-N", "", "-f"]);
            assert!(keygen.arg(&key).status().unwrap().success());
        }
        let methods = Command::new("ssh").args(["-Q", "kex"]).output().unwrap();
        let methods = String::from_utf8(methods.stdout).unwrap();
        let methods: Vec<_> = methods.lines().collect();
        let server = Command::new(SSHD)
            .args(["-i", "-e", "-f", "/dev/null", "-o", "UsePAM=no", "-h"])
            .arg(&key)
            .args(["-o", &format!("KexAlgorithms={}", methods.join(","))])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        Self(server.unwrap())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn understands_each_suite_and_method() {
    if !Path::new(SSHD).exists() {
        assert!(
            std::env::var_os("KITE_REQUIRE_CLIENTS").is_none(),
            "{SSHD} is not there"
        );
        eprintln!("skipped: no {SSHD}");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    for pair in pairs() {
        let mut server = Server::start(directory.path());
        let (from, to) = (server.0.stdout.take(), server.0.stdin.take());
        let mut client = Client::start(from.unwrap(), to.unwrap());
        // Before a login it exchanges keys once.
        let Err(lack) = client.exchange(pair.0, pair.1) else {
            client.is_answered();
            continue;
        };
        // Servers before 9.9.
        assert_eq!(pair.0, Method::MlKem768X25519, "{lack}");
        eprintln!("this server lacks {:?}", pair.0);
    }
}
