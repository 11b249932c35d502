//! The proxy of the examples, before an sshd.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use kite_ssh_relay::io::Workers;
use kite_ssh_relay::relay::Settings;
use kite_ssh_relay::sign::SigningKey;
use kite_ssh_relay::transport::Config;
use russh::keys::ssh_key::LineEnding;
use russh::keys::{Algorithm, PrivateKey};
use tokio::net::TcpListener;

use crate::serve;

pub const PASSWORD: &[u8] = b"caf\xe9";

const VERSION: &str = "SSH-2.0-OpenSSH_9.9 relay";

pub const SSHD: &str = "/usr/sbin/sshd";

/// Whether the programs of OpenSSH are here; says so where they are not.
pub fn has_openssh() -> bool {
    let is_here = Path::new(SSHD).exists();
    assert!(
        is_here || std::env::var_os("KITE_REQUIRE_CLIENTS").is_none(),
        "{SSHD} is not there"
    );
    if !is_here {
        eprintln!("skipped: no {SSHD}");
    }
    is_here
}

fn made() -> PrivateKey {
    PrivateKey::random(&mut rand::rng(), Algorithm::Ed25519).unwrap()
}

/// The proxy with all that its peers need to know.
pub struct Proxy {
    pub directory: tempfile::TempDir,
    pub address: SocketAddr,
    /// Of the sshd itself, for the same without a proxy.
    pub direct: SocketAddr,
    sshd: std::process::Child,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.sshd.kill();
        let _ = self.sshd.wait();
    }
}

/// How it differs from what is usual.
#[derive(Default, Clone)]
pub struct Setting {
    /// For sshd.
    pub options: Vec<&'static str>,
    /// Both sides ask for new keys after so many bytes.
    pub rekey_after: Option<u64>,
    /// The sshd is not there for so long.
    pub late: Duration,
    /// More host keys.
    pub host_keys: Vec<PrivateKey>,
}

impl Proxy {
    pub async fn start(setting: Setting) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let write = |name: &str, text: &str| {
            use std::os::unix::fs::PermissionsExt as _;
            std::fs::write(path(name), text).unwrap();
            let only_mine = std::fs::Permissions::from_mode(0o600);
            std::fs::set_permissions(path(name), only_mine).unwrap();
        };
        let keys = ["user", "vm", "vm_host", "host"].map(|name| {
            let key = made();
            write(name, &key.to_openssh(LineEnding::LF).unwrap());
            let public = key.public_key().to_openssh().unwrap();
            write(&format!("{name}.pub"), &public);
            key
        });
        let public = |index: usize| -> String { keys[index].public_key().to_openssh().unwrap() };
        write("authorized", &format!("{}\n{}\n", public(0), public(1)));
        let signing = keys
            .clone()
            .map(|key| Arc::new(SigningKey::new(&key).unwrap()));
        let [_, _, vm_host_key, host_key] = signing;

        let (sshd, direct) = start_sshd(directory.path(), &setting.options);
        let mut host_keys = vec![host_key];
        for key in &setting.host_keys {
            host_keys.push(Arc::new(SigningKey::new(key).unwrap()));
        }
        let known = vm_host_key.algorithms().to_vec();
        let mut to_user = Config::server(VERSION, host_keys.clone());
        let mut to_server = Config::client(VERSION, known);
        to_user.rekey_after = setting.rekey_after;
        to_server.rekey_after = setting.rekey_after;
        let proxy = serve::Proxy {
            to_user: Arc::new(to_user),
            to_server: Arc::new(to_server),
            settings: Settings::new(host_keys),
            user_key: keys[0].public_key().key_data().clone(),
            password: PASSWORD.to_vec(),
            server_user: SigningKey::new(&keys[1]).unwrap(),
            server_host_key: vm_host_key.blob().to_vec(),
            server: direct,
            late: setting.late,
            workers: Workers::default(),
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(serve::serve(listener, Arc::new(proxy)));
        Self {
            directory,
            address,
            direct,
            sshd,
        }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }
}

/// An sshd on a free port, with what is in that directory. Somebody else may have the port by
/// the time that it is there: it ends then, and gets another.
fn start_sshd(directory: &Path, options: &[&str]) -> (std::process::Child, SocketAddr) {
    for _ in 0..5 {
        let (mut sshd, direct) = spawn_sshd(directory, options);
        for _ in 0..1000 {
            let has_ended = sshd.try_wait().unwrap().is_some();
            if has_ended {
                break;
            }
            if std::net::TcpStream::connect(direct).is_ok() {
                return (sshd, direct);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = sshd.kill();
        let _ = sshd.wait();
    }
    unreachable!("sshd does not start")
}

fn spawn_sshd(directory: &Path, options: &[&str]) -> (std::process::Child, SocketAddr) {
    let path = |name: &str| directory.join(name);
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let direct = free.local_addr().unwrap();
    drop(free);
    let mut sshd = std::process::Command::new(SSHD);
    sshd.args(["-D", "-e", "-f", "/dev/null"])
        .args(["-p", &direct.port().to_string()])
        .args([
            "-o",
            "UsePAM=no",
            "-o",
            "PidFile=none",
            "-o",
            "StrictModes=no",
        ])
        .args(["-o", "ListenAddress=127.0.0.1", "-o", "PermitRootLogin=yes"])
        .args(["-o", "MaxSessions=200", "-o", "PermitTunnel=no"])
        .args(["-o", "Subsystem=sftp internal-sftp"])
        .args(["-o", "StreamLocalBindUnlink=yes", "-o", "X11Forwarding=yes"])
        .arg("-h")
        .arg(path("vm_host"))
        .args([
            "-o",
            &format!("AuthorizedKeysFile={}", path("authorized").display()),
        ]);
    for option in options {
        sshd.args(["-o", option]);
    }
    let sshd = sshd
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    (sshd, direct)
}
