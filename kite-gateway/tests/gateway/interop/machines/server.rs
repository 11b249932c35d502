//! The servers: each a process with a port, but russh's, which is the guest of the fake.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use kite_fake_kubevirt::guest::GuestHandle;
use russh::keys::PublicKey;
use russh::keys::ssh_key::LineEnding;
use serde_json::json;

use crate::common::{new_key, private_file, text};
use crate::interop::lab::{Lab, free_port, fresh, node_modules, python, version};
use crate::interop::openssh::newer;
use crate::interop::process::{Background, Call};

/// Sessions on a connection that servers are told to allow.
const SESSIONS: usize = 20;
const DROPBEAR: &str = "/usr/sbin/dropbear";
const SSHD: &str = "/usr/sbin/sshd";

/// Who made the server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    OpenSsh,
    NewerOpenSsh,
    Dropbear,
    Paramiko,
    Asyncssh,
    Ssh2,
    Russh,
}

/// What a server is to offer, where that is not all it has.
#[derive(Clone, Default)]
pub struct Offer {
    pub kex: Option<&'static str>,
    pub cipher: Option<&'static str>,
    pub mac: Option<&'static str>,
}

impl Kind {
    pub const ALL: [Self; 7] = [
        Self::OpenSsh,
        Self::NewerOpenSsh,
        Self::Dropbear,
        Self::Paramiko,
        Self::Asyncssh,
        Self::Ssh2,
        Self::Russh,
    ];

    pub fn title(self) -> &'static str {
        match self {
            Self::OpenSsh | Self::NewerOpenSsh => "OpenSSH",
            Self::Dropbear => "dropbear",
            Self::Paramiko => "paramiko",
            Self::Asyncssh => "asyncssh",
            Self::Ssh2 => "ssh2",
            Self::Russh => "russh",
        }
    }

    /// Its login name at the gateway.
    pub fn login(self) -> &'static str {
        match self {
            Self::OpenSsh => "vm-openssh",
            Self::NewerOpenSsh => "vm-openssh-10",
            Self::Dropbear => "vm-dropbear",
            Self::Paramiko => "vm-paramiko",
            Self::Asyncssh => "vm-asyncssh",
            Self::Ssh2 => "vm-ssh2",
            Self::Russh => "vm-russh",
        }
    }

    /// ssh2 has none of its own, and the fake's guest has no program `stty`.
    pub fn has_terminals(self) -> bool {
        !matches!(self, Self::Ssh2 | Self::Russh)
    }

    /// Those that are programs of their own, and libraries that bring files with them.
    pub fn has_sftp(self) -> bool {
        !matches!(self, Self::Paramiko | Self::Ssh2)
    }

    pub fn forwards(self) -> bool {
        self != Self::Russh
    }

    /// Of many commands at once some end without an exit code at dropbear's, also where
    /// there is no gateway.
    pub fn has_many_channels(self) -> bool {
        self != Self::Dropbear
    }

    /// How many sessions it lets a connection have. dropbear does not count them.
    pub fn most_sessions(self) -> Option<usize> {
        match self {
            Self::Dropbear => None,
            // The guest's own.
            Self::Russh => Some(64),
            _ => Some(SESSIONS),
        }
    }

    /// Its version, or why there is none.
    pub async fn version(self) -> Result<String, String> {
        match self {
            Self::OpenSsh => version("ssh", "-V").await,
            Self::NewerOpenSsh => {
                let at = newer().ok_or("no OpenSSH 10 in KITE_OPENSSH (.ci/run fetches it)")?;
                version(&at.join("usr/bin/ssh").to_string_lossy(), "-V").await
            }
            Self::Dropbear if name_service().is_none() => {
                Err("no libnss_wrapper.so (Debian: libnss-wrapper)".to_owned())
            }
            Self::Dropbear => version(DROPBEAR, "-V")
                .await
                .map_err(|why| format!("no dropbear (Debian: dropbear-bin): {why}")),
            Self::Paramiko | Self::Asyncssh | Self::Ssh2 => {
                let mut script = self.script();
                script.arg("version").env("KITE_INTEROP_LAB", "{}");
                let done = Call::new(script).succeed().await?;
                Ok(done.stdout.trim().to_owned())
            }
            Self::Russh => Ok("(the guest of kite-fake)".to_owned()),
        }
    }

    fn script(self) -> Command {
        let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/gateway/interop/scripts");
        let (program, file) = match self {
            Self::Ssh2 => (PathBuf::from("node"), "ssh2_server.js"),
            Self::Paramiko => (python(), "paramiko_server.py"),
            _ => (python(), "asyncssh_server.py"),
        };
        let mut script = Command::new(program);
        script.arg(scripts.join(file));
        script.env("PYTHONDONTWRITEBYTECODE", "1");
        if let Some(modules) = node_modules() {
            script.env("NODE_PATH", modules);
        }
        script
    }
}

/// What shows dropbear another home directory, in which it looks for keys: it cannot be
/// told one.
fn name_service() -> Option<PathBuf> {
    let libraries = std::fs::read_dir("/usr/lib").ok()?;
    let mut places = libraries.filter_map(|it| Some(it.ok()?.path().join("libnss_wrapper.so")));
    places.find(|it| it.exists())
}

/// A server that runs until this is dropped.
pub struct Server {
    ports: Vec<u16>,
    host_key: PublicKey,
    user: String,
    running: Vec<Background>,
    _guest: Option<GuestHandle>,
}

impl Server {
    /// Starts one that has a port for each offer.
    pub async fn start(lab: &Lab, kind: Kind, offers: &[Offer]) -> Result<Self, String> {
        if kind == Kind::Russh {
            return Self::guest(lab).await;
        }
        let at = lab.bed.path(&fresh(kind.login()));
        std::fs::create_dir_all(at.join(".ssh")).map_err(|error| error.to_string())?;
        let key = new_key();
        let secret = key.to_openssh(LineEnding::LF).unwrap();
        private_file(&at.join("host_key"), secret.as_bytes(), 0o600);
        let known = lab.bed.vm_key.public_key().to_openssh().unwrap();
        private_file(&at.join(".ssh/authorized_keys"), known.as_bytes(), 0o600);
        let ports: Vec<_> = offers.iter().map(|_| free_port()).collect();
        let name = Command::new("id").arg("-un").output().unwrap();
        let user = text(&name.stdout).trim().to_owned();
        let commands = match kind {
            Kind::OpenSsh => sshd(&at, None, &ports, offers),
            Kind::NewerOpenSsh => sshd(&at, newer().as_deref(), &ports, offers),
            Kind::Dropbear => vec![dropbear(&at, &user, ports[0]).await?],
            _ => vec![library(&at, kind, &ports, offers)],
        };
        let mut running = Vec::new();
        for (number, command) in commands.into_iter().enumerate() {
            running.push(Background::start(
                command,
                at.join(format!("{number}.log")),
            )?);
        }
        let mut server = Self {
            ports,
            host_key: key.public_key().clone(),
            user,
            running,
            _guest: None,
        };
        for (number, port) in server.ports.iter().enumerate() {
            let of = number.min(server.running.len() - 1);
            let listens = async || {
                let stream = tokio::net::TcpStream::connect(("127.0.0.1", *port));
                stream.await.is_ok()
            };
            server.running[of].until(listens).await?;
        }
        Ok(server)
    }

    async fn guest(lab: &Lab) -> Result<Self, String> {
        let guest = lab.bed.guest("ann").await;
        Ok(Self {
            ports: vec![guest.address().port()],
            host_key: guest.host_key().clone(),
            user: "ann".to_owned(),
            running: Vec::new(),
            _guest: Some(guest),
        })
    }

    /// Puts what was started by an offer behind a login name.
    pub fn behind(&self, lab: &Lab, login: &str, offer: usize) {
        let address = SocketAddr::from(([127, 0, 0, 1], self.ports[offer]));
        let route = lab
            .bed
            .route(login, address, &self.user, self.host_key.clone());
        lab.bed.table.set(login, route);
    }
}

/// OpenSSH's server, a process for each offer.
fn sshd(at: &Path, newer: Option<&Path>, ports: &[u16], offers: &[Offer]) -> Vec<Command> {
    // Where it separates privileges it insists on this directory.
    let _ = std::fs::create_dir_all("/run/sshd");
    let start = |(port, offer): (&u16, &Offer)| {
        let shown = at.display();
        let mut config = format!(
            "ListenAddress 127.0.0.1:{port}\nHostKey {shown}/host_key\n\
             AuthorizedKeysFile {shown}/.ssh/authorized_keys\nStrictModes no\nUsePAM no\n\
             PermitRootLogin yes\nPidFile none\nMaxStartups 500\nMaxSessions {SESSIONS}\n\
             Subsystem sftp internal-sftp\nLogLevel ERROR\n"
        );
        for (word, name) in [
            ("KexAlgorithms", offer.kex),
            ("Ciphers", offer.cipher),
            ("MACs", offer.mac),
        ] {
            if let Some(name) = name {
                let _ = writeln!(config, "{word} {name}");
            }
        }
        let mut program = PathBuf::from(SSHD);
        if let Some(newer) = newer {
            program = newer.join("usr/sbin/sshd");
            let libexec = newer.join("usr/lib/openssh");
            for (word, part) in [
                ("SshdSessionPath", "sshd-session"),
                ("SshdAuthPath", "sshd-auth"),
            ] {
                let _ = writeln!(config, "{word} {}", libexec.join(part).display());
            }
        }
        let file = at.join(format!("{port}.config"));
        std::fs::write(&file, config).unwrap();
        let mut sshd = Command::new(program);
        sshd.args(["-D", "-e", "-f"]).arg(file);
        sshd
    };
    ports.iter().zip(offers).map(start).collect()
}

/// dropbear's, which is shown another home directory.
async fn dropbear(at: &Path, user: &str, port: u16) -> Result<Command, String> {
    let mut convert = Command::new("dropbearconvert");
    convert.args(["openssh", "dropbear"]);
    convert
        .arg(at.join("host_key"))
        .arg(at.join("dropbear_key"));
    Call::new(convert).succeed().await?;
    let id = |option: &str| {
        let output = Command::new("id").arg(option).output().unwrap();
        text(&output.stdout).trim().to_owned()
    };
    let home = at.display();
    let person = format!("{user}:x:{}:{}::{home}:/bin/sh\n", id("-u"), id("-g"));
    let group = format!("{user}:x:{}:\n", id("-g"));
    std::fs::write(at.join("passwd"), person).map_err(|error| error.to_string())?;
    std::fs::write(at.join("group"), group).map_err(|error| error.to_string())?;
    let mut dropbear = Command::new(DROPBEAR);
    dropbear.args(["-F", "-E", "-s", "-p", &format!("127.0.0.1:{port}"), "-r"]);
    dropbear.arg(at.join("dropbear_key"));
    dropbear.arg("-P").arg(at.join("pid"));
    dropbear.env("LD_PRELOAD", name_service().unwrap_or_default());
    dropbear.env("NSS_WRAPPER_PASSWD", at.join("passwd"));
    dropbear.env("NSS_WRAPPER_GROUP", at.join("group"));
    Ok(dropbear)
}

/// A library's, by a script that has all ports.
fn library(at: &Path, kind: Kind, ports: &[u16], offers: &[Offer]) -> Command {
    let list = |name: Option<&str>| name.map(|name| vec![name.to_owned()]);
    let listens: Vec<_> = ports
        .iter()
        .zip(offers)
        .map(|(port, offer)| {
            json!({
                "port": port,
                "kex": list(offer.kex),
                "cipher": list(offer.cipher),
                "mac": list(offer.mac),
            })
        })
        .collect();
    let told = json!({
        "host_key": at.join("host_key"),
        "authorized_keys": at.join(".ssh/authorized_keys"),
        "sessions": SESSIONS,
        "listens": listens,
    });
    let mut script = kind.script();
    script
        .arg("serve")
        .env("KITE_INTEROP_LAB", told.to_string());
    script
}
