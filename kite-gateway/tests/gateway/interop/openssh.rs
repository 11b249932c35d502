//! OpenSSH of two ages, and what rides on it: rsync, git, `ControlMaster`, VS Code Remote.

use std::path::PathBuf;
use std::process::Command;

use crate::common::PASSWORD;
use crate::interop::channels::Master;
use crate::interop::command_line::{CommandLine, as_shell};
use crate::interop::git;
use crate::interop::lab::{Lab, by_socks, cache, free_port, talk, version};
use crate::interop::process::Call;
use crate::interop::table::{Feature, Outcome, Row, fine};

pub const NAME: &str = "openssh";
pub const VSCODE: &str = "vscode";

pub const NEWER: &str = "openssh-10";

/// OpenSSH's programs: those of the PATH, or others beside them.
pub struct OpenSsh {
    /// Its login name.
    name: &'static str,
    /// Where the others are.
    beside: Option<PathBuf>,
    /// Megabytes that they carry.
    size: usize,
}

impl OpenSsh {
    /// Those of the PATH.
    pub fn here() -> Self {
        Self {
            name: NAME,
            beside: None,
            size: crate::interop::SIZE,
        }
    }

    /// Those of `KITE_OPENSSH`, or what `.ci/run` has fetched.
    pub fn newer() -> Option<Self> {
        Some(Self {
            name: NEWER,
            beside: Some(newer()?.join("usr/bin")),
            size: 10,
        })
    }

    /// One of its programs, to log in by key.
    pub fn client(&self, lab: &Lab, program: &str) -> Command {
        let mut client = lab.bed.with_key(program);
        self.beside(&mut client, program);
        client
    }

    fn beside(&self, client: &mut Command, program: &str) {
        let Some(directory) = &self.beside else {
            return;
        };
        let path = std::env::var("PATH").unwrap_or_default();
        client.env("PATH", format!("{}:{path}", directory.display()));
        // They would run what stands where `ssh` is when they are installed.
        if program != "ssh" {
            client.arg("-S").arg(directory.join("ssh"));
        }
    }

    async fn version(&self) -> Result<String, String> {
        let Some(directory) = &self.beside else {
            return version("ssh", "-V").await;
        };
        version(&directory.join("ssh").to_string_lossy(), "-V").await
    }
}

/// Where OpenSSH 10 is, with its server, as its packages have it below `/`.
pub fn newer() -> Option<PathBuf> {
    let set = std::env::var_os("KITE_OPENSSH").map(PathBuf::from);
    let cached = cache().map(|it| it.join("kite-ci-tools/openssh"));
    set.or(cached.filter(|it| it.exists()))
}

/// The client of the PATH.
pub async fn row(lab: &Lab) -> Row {
    row_of(lab, OpenSsh::here()).await
}

/// The newer one.
pub async fn newer_row(lab: &Lab) -> Row {
    match OpenSsh::newer() {
        Some(openssh) => row_of(lab, openssh).await,
        None => Row::skipped("OpenSSH 10", "none in KITE_OPENSSH (.ci/run fetches it)"),
    }
}

async fn row_of(lab: &Lab, openssh: OpenSsh) -> Row {
    let version = match openssh.version().await {
        Ok(version) => version,
        Err(why) => return Row::skipped("OpenSSH", format!("no ssh: {why}")),
    };
    let name = openssh.name;
    let openssh = &openssh;
    let ssh = CommandLine {
        lab,
        name,
        base: Box::new(|| openssh.client(lab, "ssh")),
        terminated: (&["-v"], "rtype exit-signal", 255),
    };
    let mut row = Row::new("OpenSSH", version);
    row.cell(Feature::Exec, ssh.exec()).await;
    row.cell(Feature::Key, async { lab.was_let_in(name, "publickey") })
        .await;
    for (feature, method) in [
        (Feature::Password, "password"),
        (Feature::Interactive, "keyboard-interactive"),
    ] {
        row.cell(feature, password(lab, openssh, method)).await;
    }
    row.cell(Feature::Signal, ssh.signal()).await;
    row.cell(Feature::Stderr, ssh.stderr()).await;
    row.cell(Feature::Shell, ssh.shell()).await;
    row.cell(Feature::Local, ssh.local()).await;
    row.cell(Feature::Remote, ssh.remote()).await;
    row.cell(Feature::Dynamic, ssh.dynamic()).await;
    row.cell(Feature::Agent, ssh.agent()).await;
    row.cell(Feature::Channels, channels(lab, openssh)).await;
    row.cell(Feature::Sftp, sftp(lab, openssh)).await;
    row.cell(Feature::Scp, scp(lab, openssh, "-s")).await;
    row.cell(Feature::OldScp, scp(lab, openssh, "-O")).await;
    let client = openssh.client(lab, "ssh");
    row.cell(Feature::Rsync, rsync(lab, name, &client)).await;
    row.cell(Feature::Git, git::over(lab, name, &client)).await;
    row
}

async fn password(lab: &Lab, openssh: &OpenSsh, method: &str) -> Outcome {
    let mut client = lab.bed.with_password(PASSWORD, method);
    openssh.beside(&mut client, "ssh");
    client.args(["-l", openssh.name, "127.0.0.1", "true"]);
    Call::new(client).succeed().await?;
    lab.was_let_in(openssh.name, method)
}

async fn sftp(lab: &Lab, openssh: &OpenSsh) -> Outcome {
    lab.carry(openssh.name, openssh.size, |way| {
        let mut client = openssh.client(lab, "sftp");
        client.args(["-b", "-", &format!("{}@127.0.0.1", openssh.name)]);
        let batch = format!("put {} {1}\nget {1} {2}\n", way.local, way.there, way.back);
        vec![Call::new(client).input(batch)]
    })
    .await
}

async fn scp(lab: &Lab, openssh: &OpenSsh, protocol: &str) -> Outcome {
    lab.carry(openssh.name, openssh.size, |way| {
        let there = format!("{}@127.0.0.1:{}", openssh.name, way.there);
        [(&way.local, &there), (&there, &way.back)]
            .map(|(from, to)| {
                let mut client = openssh.client(lab, "scp");
                client.args([protocol, from, to]);
                Call::new(client)
            })
            .into()
    })
    .await
}

/// rsync over any client that can run a command.
pub async fn rsync(lab: &Lab, name: &str, shell: &Command) -> Outcome {
    lab.carry(name, crate::interop::SIZE, |way| {
        let there = format!("{name}@127.0.0.1:{}", way.there);
        [(&way.local, &there), (&there, &way.back)]
            .map(|(from, to)| {
                let mut client = Command::new("rsync");
                // Without its shortcut for files that are alike.
                client.args(["--whole-file", "-e", &as_shell(shell), from, to]);
                for (name, value) in shell.get_envs() {
                    if let Some(value) = value {
                        client.env(name, value);
                    }
                }
                Call::new(client)
            })
            .into()
    })
    .await
}

/// Twenty commands over one `ControlMaster`.
async fn channels(lab: &Lab, openssh: &OpenSsh) -> Outcome {
    let client = || openssh.client(lab, "ssh");
    let master = Master::start(lab, openssh.name, client, &[]).await?;
    let _stalled = master.stall()?;
    master.commands(19).await?;
    fine()
}

/// VS Code's way: a shell without a terminal that is given its script by standard
/// input, a SOCKS proxy on the same connection, and many channels at once.
pub async fn vscode(lab: &Lab) -> Row {
    let version = match version("ssh", "-V").await {
        Ok(version) => format!("(-M -D, OpenSSH {version})"),
        Err(why) => return Row::skipped("VS Code Remote", format!("no ssh: {why}")),
    };
    let mut row = Row::new("VS Code Remote", version);
    let port = free_port();
    let client = || lab.bed.with_key("ssh");
    let options = ["-D", &port.to_string()];
    let master = match Master::start(lab, VSCODE, client, &options).await {
        Ok(master) => master,
        Err(why) => {
            row.cell(Feature::Key, async { Err(why) }).await;
            return row;
        }
    };
    row.cell(Feature::Key, async { lab.was_let_in(VSCODE, "publickey") })
        .await;
    row.cell(Feature::Exec, async {
        let mut client = master.client();
        client.args(["-T", "-l", VSCODE, "127.0.0.1", "sh"]);
        let script = "echo $((6 * 7))\nexit 7\n";
        let done = Call::new(client).input(script).run().await?.exits(7)?;
        if done.stdout == "42\n" {
            fine()
        } else {
            Err(done.stdout)
        }
    })
    .await;
    row.cell(Feature::Dynamic, async {
        talk(by_socks(port, lab.reverser).await?).await?;
        fine()
    })
    .await;
    row.cell(Feature::Channels, async {
        let _command = master.stall()?;
        let _forward = stalled_forward(port, lab).await?;
        let forwards = async {
            let all = (0..9).map(|_| async { talk(by_socks(port, lab.reverser).await?).await });
            futures::future::try_join_all(all).await
        };
        futures::future::try_join(master.commands(9), forwards).await?;
        fine()
    })
    .await;
    row
}

/// A forward into which is written and that nobody reads.
async fn stalled_forward(port: u16, lab: &Lab) -> Result<tokio::net::TcpStream, String> {
    let stream = by_socks(port, lab.sink).await?;
    crate::interop::channels::fill(&stream).await;
    Ok(stream)
}
