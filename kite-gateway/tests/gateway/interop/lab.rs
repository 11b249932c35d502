//! What the clients are tried on: a gateway before a real sshd, services behind
//! it, an agent, and files to carry.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use russh::keys::{HashAlg, PublicKey};
use sha2::{Digest, Sha256};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixStream};

use crate::common::{Bed, Sshd, text};
use crate::interop::process::{Background, Call, QUICK};
use crate::interop::table::Outcome;

pub struct Lab {
    pub bed: Bed,
    /// Where data comes back reversed, once they have ended.
    pub reverser: SocketAddr,
    /// Where nobody reads.
    pub sink: SocketAddr,
    pub agent: PathBuf,
    _agent: Background,
    _sshd: Sshd,
    /// Files to carry, by their size in megabytes, with their checksums.
    files: HashMap<usize, (PathBuf, String)>,
}

/// The names of a file on its way.
pub struct Way {
    pub local: String,
    pub there: String,
    pub back: String,
}

impl Lab {
    /// Gives `None` where there is no sshd.
    pub async fn start(clients: &[&str]) -> Option<Self> {
        let sizes = [1, 10, crate::interop::SIZE];
        Self::on(Bed::new().await, "", clients, &sizes).await
    }

    /// With a gateway that is there, before an sshd with more options, and with files of
    /// so many megabytes.
    pub async fn on(bed: Bed, options: &str, clients: &[&str], sizes: &[usize]) -> Option<Self> {
        let sshd = Sshd::start(&bed, options).await?;
        for client in clients {
            sshd.behind(&bed, client);
        }
        let agent = bed.path("agent.sock");
        let mut command = Command::new("ssh-agent");
        command.arg("-D").arg("-a").arg(&agent);
        let mut running = Background::start(command, bed.path("agent.log")).unwrap();
        // It is bound before anybody listens.
        let listens = async || UnixStream::connect(&agent).await.is_ok();
        running.until(listens).await.unwrap();
        let mut add = Command::new("ssh-add");
        add.arg(bed.path("key")).env("SSH_AUTH_SOCK", &agent);
        Call::new(add).succeed().await.unwrap();
        let file = |size: &usize| (*size, random_file(&bed.path("random"), *size));
        let files = sizes.iter().map(file).collect();
        Some(Self {
            reverser: reverser().await,
            sink: sink().await,
            agent,
            _agent: running,
            _sshd: sshd,
            files,
            bed,
        })
    }

    pub fn port(&self) -> String {
        self.bed.address.port().to_string()
    }

    /// A file of so many megabytes.
    pub fn file(&self, megabytes: usize) -> &Path {
        &self.files[&megabytes].0
    }

    /// All of the gateway's host keys as clients show them.
    pub fn fingerprints(&self) -> Vec<String> {
        let known = std::fs::read_to_string(self.bed.path("known_hosts")).unwrap();
        let keys = known.lines().filter_map(|line| line.split_once(' '));
        let keys = keys.map(|(_, key)| PublicKey::from_openssh(key).unwrap());
        keys.map(|key| key.fingerprint(HashAlg::Sha256).to_string())
            .collect()
    }

    /// The gateway's host key as clients show it.
    pub fn fingerprint(&self) -> String {
        self.fingerprints().swap_remove(0)
    }

    /// That `client` was let in by `method`: clients may choose another than the
    /// one that was meant.
    pub fn was_let_in(&self, client: &str, method: &str) -> Outcome {
        let is_it = |record: &serde_json::Value| {
            record["login"] == client && record["method"] == method && record["accepted"] == true
        };
        if self.bed.records.any(is_it) {
            Ok("ok".to_owned())
        } else {
            Err(format!("was not let in by {method}"))
        }
    }

    /// Carries a file there and back by what `calls` says, and compares.
    pub async fn carry(
        &self,
        client: &str,
        size: usize,
        calls: impl FnOnce(&Way) -> Vec<Call>,
    ) -> Outcome {
        let (local, sum) = &self.files[&size];
        let name = fresh(client);
        let (there, back) = (
            self.bed.path(&format!("{name}.there")),
            self.bed.path(&format!("{name}.back")),
        );
        let way = Way {
            local: local.display().to_string(),
            there: there.display().to_string(),
            back: back.display().to_string(),
        };
        for call in calls(&way) {
            call.bulk().succeed().await?;
        }
        for file in [there, back] {
            let shown = file.display().to_string();
            let found = tokio::task::spawn_blocking(move || {
                let found = checksum(&file);
                let _ = std::fs::remove_file(file);
                found
            });
            match found.await.unwrap() {
                Ok(found) if found == *sum => {}
                Ok(found) => return Err(format!("{shown}: SHA-256 {found} instead of {sum}")),
                Err(error) => return Err(format!("{shown}: {error}")),
            }
        }
        Ok(format!("ok {size}M"))
    }
}

/// A name that no other call has.
pub fn fresh(prefix: &str) -> String {
    use std::sync::atomic::{AtomicUsize, Ordering};
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    format!("{prefix}-{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Makes a file that cannot be compressed, nor guessed.
fn random_file(prefix: &Path, megabytes: usize) -> (PathBuf, String) {
    use std::io::Read;
    let path = prefix.with_extension(megabytes.to_string());
    let mut random = std::fs::File::open("/dev/urandom")
        .unwrap()
        .take((megabytes as u64) << 20);
    std::io::copy(&mut random, &mut std::fs::File::create(&path).unwrap()).unwrap();
    let sum = checksum(&path).unwrap();
    (path, sum)
}

fn checksum(path: &Path) -> std::io::Result<String> {
    use std::fmt::Write;
    let sum = Sha256::digest(std::fs::read(path)?);
    Ok(sum.iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    }))
}

async fn reverser() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut all = Vec::new();
                stream.read_to_end(&mut all).await?;
                all.reverse();
                stream.write_all(&all).await
            });
        }
    });
    address
}

async fn sink() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let mut kept = Vec::new();
        while let Ok((stream, _)) = listener.accept().await {
            kept.push(stream);
        }
    });
    address
}

/// A port that nobody listens on.
pub fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

/// Sends a megabyte to a reverser through `stream` and reads the answer.
pub async fn talk(mut stream: TcpStream) -> Result<(), String> {
    let mut data: Vec<u8> = crate::common::pattern(1 << 20);
    let work = async {
        stream.write_all(&data).await?;
        stream.shutdown().await?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await?;
        std::io::Result::Ok(answer)
    };
    let answer = tokio::time::timeout(QUICK, work)
        .await
        .map_err(|_| format!("the forward hung after {} s", QUICK.as_secs()))?
        .map_err(|error| format!("the forward: {error}"))?;
    data.reverse();
    if answer == data {
        Ok(())
    } else {
        Err(format!("the forward gave {} other bytes", answer.len()))
    }
}

/// Opens a connection to `to` through the SOCKS proxy at `port`.
pub async fn by_socks(port: u16, to: SocketAddr) -> Result<TcpStream, String> {
    let work = async {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
        stream.write_all(&[5, 1, 0]).await?;
        let mut chosen = [0; 2];
        stream.read_exact(&mut chosen).await?;
        // By name, so that the name is found in the VM.
        let name = to.ip().to_string();
        let mut ask = vec![5, 1, 0, 3, u8::try_from(name.len()).unwrap()];
        ask.extend(name.bytes());
        ask.extend(to.port().to_be_bytes());
        stream.write_all(&ask).await?;
        let mut head = [0; 4];
        stream.read_exact(&mut head).await?;
        let address = match head[3] {
            1 => 4,
            4 => 16,
            _ => stream.read_u8().await?.into(),
        };
        let mut rest = vec![0; address + 2];
        stream.read_exact(&mut rest).await?;
        match head[1] {
            0 => Ok(stream),
            code => Err(std::io::Error::other(format!("it answers {code}"))),
        }
    };
    tokio::time::timeout(QUICK, work)
        .await
        .map_err(|_| "the SOCKS proxy hung".to_owned())?
        .map_err(|error| format!("the SOCKS proxy: {error}"))
}

/// Where `.ci/run` keeps what it installs.
pub fn cache() -> Option<PathBuf> {
    let set = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    set.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")))
}

/// A Python that has the packages: `KITE_PYTHON`, what `.ci/run` installs, or what is
/// on the PATH.
pub fn python() -> PathBuf {
    let set = std::env::var_os("KITE_PYTHON").map(PathBuf::from);
    let cached = cache().map(|it| it.join("kite-ci-python/bin/python"));
    let found = set.or(cached.filter(|it| it.exists()));
    found.unwrap_or_else(|| "python3".into())
}

/// Where the packages of Node.js are.
pub fn node_modules() -> Option<PathBuf> {
    let set = std::env::var_os("KITE_NODE_MODULES").map(PathBuf::from);
    let cached = cache().map(|it| it.join("kite-ci-node/node_modules"));
    set.or(cached.filter(|it| it.exists()))
}

/// The version that a program tells of itself.
pub async fn version(program: &str, option: &str) -> Result<String, String> {
    let mut command = Command::new(program);
    command.arg(option).stdin(Stdio::null());
    let output = tokio::process::Command::from(command)
        .output()
        .await
        .map_err(|error| error.to_string())?;
    let said = text(&output.stdout) + &text(&output.stderr);
    let is_version =
        |word: &&str| word.contains('.') && word.contains(|letter: char| letter.is_ascii_digit());
    // What it is built on may tell its own version first.
    let of_itself = |line: &&str| line.to_lowercase().contains(program);
    let line = said.lines().find(of_itself).unwrap_or(&said);
    let word = line.split_whitespace().find(is_version).unwrap_or("?");
    let word = word.trim_matches(',').trim_start_matches("OpenSSH_");
    Ok(word.trim_start_matches('v').to_owned())
}
